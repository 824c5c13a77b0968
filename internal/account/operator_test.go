package account_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"usher"
	"usher/internal/account"
)

func TestOperatorKeys(t *testing.T) {
	b := newBench(t, account.Limits{})
	other := b.process(t, account.Limits{})
	o, err := b.CreateOperator(t.Context(), "Night shift", usher.TenantID{})
	if err != nil {
		t.Fatalf("create operator: %v", err)
	}
	text, k, err := b.CreateKey(t.Context(), o.ID, "laptop")
	if err != nil || !strings.HasPrefix(text, "usk_") || len(text) != 56 || !strings.HasPrefix(text, k.Prefix) || len(k.Prefix) != 12 {
		t.Fatalf("CreateKey = %d characters, %+v, %v", len(text), k, err)
	}
	second, _, err := b.CreateKey(t.Context(), o.ID, "phone")
	if err != nil || second == text {
		t.Fatalf("second key: %v", err)
	}
	for _, a := range []*account.Accounts{b.Accounts, other, b.Accounts} {
		if got, err := a.Operator(t.Context(), text); err != nil || got.ID != o.ID || got.Name != "Night shift" || !got.Tenant.IsZero() {
			t.Errorf("Operator = %+v, %v", got, err)
		}
	}
	if n := b.count(t, `SELECT count(*) FROM api_key WHERE position($1 in (api_key::text)) > 0`, text[12:]); n != 0 {
		t.Error("the secret is stored")
	}
	for range 2 {
		if err := b.RevokeKey(t.Context(), k.ID); err != nil {
			t.Fatalf("revoke: %v", err)
		}
	}
	_, err = b.Operator(t.Context(), text)
	wantCode(t, "revoked key", err, usher.CodeUnauthenticated)
	_, err = b.process(t, account.Limits{}).Operator(t.Context(), text)
	wantCode(t, "revoked key in another process", err, usher.CodeUnauthenticated)
	if _, err := b.Operator(t.Context(), second); err != nil {
		t.Errorf("the other key: %v", err)
	}
	keys, err := b.Keys(t.Context(), o.ID)
	if err != nil || len(keys) != 2 || keys[0].RevokedAt == nil || keys[1].RevokedAt != nil || keys[1].Label != "phone" {
		t.Errorf("Keys = %+v, %v", keys, err)
	}
	if all, err := b.Operators(t.Context()); err != nil || len(all) != 1 || all[0] != o {
		t.Errorf("Operators = %+v, %v; want %+v", all, err, o)
	}
}

func TestOperatorRefusesKeys(t *testing.T) {
	b := newBench(t, account.Limits{})
	o, err := b.CreateOperator(t.Context(), "Ann", usher.TenantID{})
	if err != nil {
		t.Fatalf("create operator: %v", err)
	}
	text, _, err := b.CreateKey(t.Context(), o.ID, "laptop")
	if err != nil {
		t.Fatalf("create key: %v", err)
	}
	session, _ := b.signIn(t, "ann@example.com")
	for name, bad := range map[string]string{
		"empty": "", "prefix": "usk_", "upper case": strings.ToUpper(text), "short": text[:55], "long": text + "0",
		"space": text + " ", "zero byte": text[:55] + "\x00", "wrong": "usk_" + strings.Repeat("0", 52), "buyer's session": session,
	} {
		_, err := b.Operator(t.Context(), bad)
		wantCode(t, name, err, usher.CodeUnauthenticated)
	}
	_, _, err = b.CreateKey(t.Context(), usher.NewOperatorID(), "laptop")
	wantCode(t, "key of an unknown operator", err, usher.CodeNotFound)
	_, _, err = b.CreateKey(t.Context(), o.ID, "")
	wantCode(t, "key without a label", err, usher.CodeInvalidRequest)
	wantCode(t, "unknown key", b.RevokeKey(t.Context(), 1<<40), usher.CodeNotFound)
	_, err = b.CreateOperator(t.Context(), "a\x00", usher.TenantID{})
	wantCode(t, "bad name", err, usher.CodeInvalidRequest)
	_, err = b.CreateOperator(t.Context(), "Ann", usher.NewTenantID())
	wantCode(t, "unknown tenant", err, usher.CodeNotFound)
}

func TestTenants(t *testing.T) {
	b := newBench(t, account.Limits{})
	var wg sync.WaitGroup
	for _, name := range []string{"Coffee", "Tea", "果汁"} {
		wg.Go(func() {
			if _, err := b.CreateTenant(t.Context(), name); err != nil {
				t.Errorf("create tenant: %v", err)
			}
		})
	}
	wg.Wait()
	all, err := b.Tenants(t.Context())
	if err != nil || len(all) != 3 {
		t.Fatalf("Tenants = %+v, %v", all, err)
	}
	for i, x := range all {
		if int(x.Number) != account.TenantNumberMin+i {
			t.Errorf("tenant %d has number %d", i, x.Number)
		}
	}
	_, err = b.CreateTenant(t.Context(), " Tea ")
	wantCode(t, "taken name", err, usher.CodeStateConflict)
	_, err = b.CreateTenant(t.Context(), "")
	wantCode(t, "no name", err, usher.CodeInvalidRequest)
	o, err := b.CreateOperator(t.Context(), "Barista", all[0].ID)
	if err != nil {
		t.Fatalf("create operator: %v", err)
	}
	text, _, err := b.CreateKey(t.Context(), o.ID, "till")
	if err != nil {
		t.Fatalf("create key: %v", err)
	}
	if got, err := b.Operator(t.Context(), text); err != nil || got.Tenant != all[0].ID {
		t.Errorf("Operator = %+v, %v", got, err)
	}
}

func TestActionsAreNumberedWithoutHoles(t *testing.T) {
	b := newBench(t, account.Limits{})
	ann, bob := usher.NewOperatorID(), usher.NewOperatorID()
	const each = 10
	var wg sync.WaitGroup
	for _, who := range []usher.OperatorID{ann, bob} {
		for range each {
			wg.Go(func() {
				_, err := b.LogAction(t.Context(), account.Action{
					Operator: who, Verb: "sale.pause", Target: "evt_7", Reason: "測試", Detail: json.RawMessage(`{"rate": 5}`),
				})
				if err != nil {
					t.Errorf("log action: %v", err)
				}
			})
		}
	}
	wg.Wait()
	all, err := b.Actions(t.Context(), account.ActionFilter{Limit: 200})
	if err != nil || len(all) != 2*each {
		t.Fatalf("%d actions, %v", len(all), err)
	}
	for i, x := range all {
		if x.Number != int64(2*each-i) || x.Verb != "sale.pause" || x.Target != "evt_7" || x.Reason != "測試" || string(x.Detail) != `{"rate": 5}` || x.At.IsZero() {
			t.Errorf("action %d is %+v", i, x)
		}
	}
	if n, err := b.LogAction(t.Context(), account.Action{Operator: ann, Verb: "sale.open", Target: "evt_8", Reason: "go"}); err != nil || n != 2*each+1 {
		t.Errorf("LogAction = %d, %v", n, err)
	}
	for name, tt := range map[string]struct {
		f    account.ActionFilter
		want int
	}{
		"operator": {account.ActionFilter{Operator: bob}, each},
		"target":   {account.ActionFilter{Target: "evt_8"}, 1},
		"verb":     {account.ActionFilter{Verb: "sale.open"}, 1},
		"page":     {account.ActionFilter{Before: 6, Limit: 3}, 3},
		"last":     {account.ActionFilter{Before: 3}, 2},
		"none":     {account.ActionFilter{Target: "evt_9"}, 0},
	} {
		if got, err := b.Actions(t.Context(), tt.f); err != nil || len(got) != tt.want {
			t.Errorf("%s: %d actions, %v; want %d", name, len(got), err, tt.want)
		}
	}
}

func TestActionsRefuse(t *testing.T) {
	b := newBench(t, account.Limits{})
	good := account.Action{Operator: usher.NewOperatorID(), Verb: "v", Target: "t", Reason: "r"}
	for name, spoil := range map[string]func(*account.Action){
		"no operator":    func(x *account.Action) { x.Operator = usher.OperatorID{} },
		"no reason":      func(x *account.Action) { x.Reason = "" },
		"no verb":        func(x *account.Action) { x.Verb = "" },
		"control":        func(x *account.Action) { x.Target = "evt_1\n" },
		"long reason":    func(x *account.Action) { x.Reason = strings.Repeat("x", 2001) },
		"no JSON":        func(x *account.Action) { x.Detail = json.RawMessage("{") },
		"empty detail":   func(x *account.Action) { x.Detail = json.RawMessage{} },
		"zero byte":      func(x *account.Action) { x.Detail = json.RawMessage(`{"a": "\u0000"}`) },
		"lone surrogate": func(x *account.Action) { x.Detail = json.RawMessage(`{"a": "\ud800"}`) },
		"long detail":    func(x *account.Action) { x.Detail = json.RawMessage(`"` + strings.Repeat("x", 1<<16) + `"`) },
	} {
		x := good
		spoil(&x)
		_, err := b.LogAction(t.Context(), x)
		wantCode(t, name, err, usher.CodeInvalidRequest)
	}
	for name, f := range map[string]account.ActionFilter{
		"limit": {Limit: 201}, "negative": {Limit: -1}, "before": {Before: -1}, "target": {Target: "\x00"}, "verb": {Verb: "\xff"},
	} {
		_, err := b.Actions(t.Context(), f)
		wantCode(t, name, err, usher.CodeInvalidRequest)
	}
	if n := b.count(t, `SELECT count(*) FROM operator_action`); n != 0 {
		t.Errorf("%d lines were written", n)
	}
}
