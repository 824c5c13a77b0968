package usher_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"usher"
)

func TestShardIDCarriesItsEvent(t *testing.T) {
	for _, e := range []usher.EventID{1, 2, 77, 1 << 10, 1<<12 - 1, 1 << 18, usher.EventIDMax} {
		id := usher.NewHoldID(e)
		if id.Event() != e {
			t.Errorf("event %d became %d", e, id.Event())
		}
		var other usher.OrderID
		if err := other.UnmarshalText([]byte(id.String())); err == nil {
			t.Error("an id of another kind was accepted")
		}
		var parsed usher.HoldID
		if err := parsed.UnmarshalText([]byte(id.String())); err != nil || parsed != id {
			t.Errorf("%s came back as %s, %v", id, parsed, err)
		}
	}
}

func TestIDsAreStrict(t *testing.T) {
	good := usher.NewHoldID(5).String()
	bad := []string{
		"", "hld_", "hld", strings.ToUpper(good), good + "0", good[:len(good)-1], "ord_" + good[4:], " " + good, good[4:],
		good[:len(good)-1] + "z", "hld_" + strings.Repeat("0", 26), "hld_" + strings.Repeat("i", 26), good[:10] + "\x00" + good[11:],
	}
	for _, s := range bad {
		var id usher.HoldID
		if err := id.UnmarshalText([]byte(s)); usher.CodeOf(err) != usher.CodeInvalidID {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{"", "evt_", "evt_0", "evt_01", "evt_+1", "evt_-1", "evt_16777216", "evt_1 ", "1", "evt_1.0", "evt_１"} {
		if _, err := usher.ParseEventID(s); usher.CodeOf(err) != usher.CodeInvalidID {
			t.Errorf("event %q: %v", s, err)
		}
	}
	if e, err := usher.ParseEventID("evt_16777215"); err != nil || e != usher.EventIDMax {
		t.Errorf("largest event: %v, %v", e, err)
	}
	var a usher.AccountID
	if err := a.UnmarshalText([]byte("acc_" + good[4:])); err == nil {
		t.Error("a shard id passed as a directory id")
	}
}

func TestIDsInJSON(t *testing.T) {
	type body struct {
		Hold    usher.HoldID    `json:"holdId"`
		Account usher.AccountID `json:"accountId,omitzero"`
		Event   usher.EventID   `json:"eventId"`
	}
	in := body{Hold: usher.NewHoldID(9), Event: 9}
	raw, err := json.Marshal(in)
	if err != nil || string(raw) != fmt.Sprintf(`{"holdId":%q,"eventId":"evt_9"}`, in.Hold) {
		t.Fatalf("%s, %v", raw, err)
	}
	var out body
	if err := json.Unmarshal(raw, &out); err != nil || out != in {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestMoney(t *testing.T) {
	for _, tc := range []struct {
		m    usher.Money
		text string
		ok   bool
	}{
		{usher.Money{AmountMinor: 120000, Currency: "TWD"}, "TWD 1200.00", true},
		{usher.Money{AmountMinor: 120050, Currency: "TWD"}, "TWD 1200.50", false},
		{usher.Money{AmountMinor: 5000, Currency: "JPY"}, "JPY 5000", true},
		{usher.Money{AmountMinor: 1250, Currency: "KWD"}, "KWD 1.250", true},
		{usher.Money{AmountMinor: 5, Currency: "EUR"}, "EUR 0.05", true},
		{usher.Money{AmountMinor: -5, Currency: "EUR"}, "EUR -0.05", false},
		{usher.Money{AmountMinor: 5, Currency: "eur"}, "eur 5", false},
		{usher.Money{AmountMinor: usher.AmountMax + 1, Currency: "EUR"}, "EUR 10000000000.01", false},
	} {
		if got := tc.m.String(); got != tc.text {
			t.Errorf("%+v reads %q, want %q", tc.m, got, tc.text)
		}
		if err := tc.m.Validate(); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.text, err)
		}
	}
}

func TestErrors(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("outer: %w", usher.Errorf(usher.CodeBusy, "try later: %w", cause))
	if usher.CodeOf(err) != usher.CodeBusy || !errors.Is(err, cause) || !errors.Is(err, &usher.Error{Code: usher.CodeBusy}) {
		t.Errorf("%v", err)
	}
	if usher.CodeOf(nil) != "" || usher.CodeOf(cause) != usher.CodeInternal {
		t.Error("uncoded errors")
	}
	seen := map[usher.Code]bool{}
	for _, c := range usher.Codes {
		if seen[c] || c == "" {
			t.Errorf("code %q is listed twice or empty", c)
		}
		seen[c] = true
	}
}

func TestText(t *testing.T) {
	for _, s := range []string{"", "a\x00b", "a\nb", "\xff", "a\ufffdb", strings.Repeat("x", 65)} {
		if err := usher.CheckText("name", s, 64); usher.CodeOf(err) != usher.CodeInvalidRequest {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{"陳大文", "𠮷野家", "عربي", "<b>x</b>", "a b"} {
		if err := usher.CheckText("name", s, 64); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for s, code := range map[string]usher.Code{"": usher.CodeIdempotencyKeyRequired, "a b": usher.CodeInvalidRequest, "é": usher.CodeInvalidRequest,
		strings.Repeat("k", 129): usher.CodeInvalidRequest, "ok-1": ""} {
		if got := usher.CodeOf(usher.CheckKey("key", s)); got != code {
			t.Errorf("key %q: %q, want %q", s, got, code)
		}
	}
}

func TestRules(t *testing.T) {
	if err := usher.DefaultRules("TWD").Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*usher.Rules){
		"sale": func(r *usher.Rules) { r.Sale = "maybe" }, "currency": func(r *usher.Rules) { r.Currency = "ZZZ" },
		"limit": func(r *usher.Rules) { r.PurchaseLimit = 0 }, "hold": func(r *usher.Rules) { r.HoldTime = 0 },
		"margin":   func(r *usher.Rules) { r.PayMargin = r.HoldTime },
		"fraction": func(r *usher.Rules) { r.Grace++ }, "pending": func(r *usher.Rules) { r.PendingPerEventMax = 0 },
		"price": func(r *usher.Rules) { r.PriceVersion = 0 },
	} {
		r := usher.DefaultRules("TWD")
		spoil(&r)
		if err := r.Validate(); usher.CodeOf(err) != usher.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}
