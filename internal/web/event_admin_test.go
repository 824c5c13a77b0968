package web_test

import (
	"strings"
	"testing"
	"time"

	"usher"
	"usher/internal/web"
)

func TestOperatorActsAreWrittenDown(t *testing.T) {
	w := newWorld(t)
	if a := w.do(t, "POST", "/v1/admin/events/evt_7/pause", staffKey, `{"reason":"smoke in the hall"}`); a.status != 200 {
		t.Fatalf("pause: %d %s", a.status, a.body)
	}
	if a := w.do(t, "POST", "/v1/admin/events/evt_7/pause", staffKey, ""); a.status != 200 {
		t.Fatalf("pause without a body: %d %s", a.status, a.body)
	}
	if len(w.accounts.actions) != 2 {
		t.Fatalf("%d actions", len(w.accounts.actions))
	}
	x := w.accounts.actions[0]
	if x.Verb != "event.pause" || x.Target != "evt_7" || x.Reason != "smoke in the hall" || w.accounts.actions[1].Reason == "" {
		t.Errorf("action %+v", x)
	}
	w.accounts.actions = nil
	if a := w.do(t, "POST", "/v1/admin/buyer-sessions", staffKey, `{"count":0}`); a.status != 400 || len(w.accounts.actions) != 0 {
		t.Errorf("refused: %d, %d actions", a.status, len(w.accounts.actions))
	}
}

// A tenant's operator sees and steers its own events; others are not there.
func TestTenants(t *testing.T) {
	w := newWorld(t)
	w.accounts.tenant = usher.NewTenantID()
	for _, tc := range []struct{ method, path, body string }{
		{"GET", "/v1/admin/events/evt_7", ""}, {"POST", "/v1/admin/events/evt_7/pause", ""}, {"GET", "/v1/events/evt_7/changes", ""},
		{"GET", "/v1/admin/events/evt_7/devices", ""}, {"PATCH", "/v1/admin/events/evt_7/queue", `{"ratePerSecond":1}`},
		{"GET", "/v1/admin/orders/" + usher.NewOrderID(event).String(), ""},
		{"DELETE", "/v1/admin/devices/" + usher.NewDeviceID(event).String(), ""},
	} {
		if a := w.do(t, tc.method, tc.path, staffKey, tc.body); a.status != 404 || a.code() != usher.CodeNotFound {
			t.Errorf("%s %s: %d %s", tc.method, tc.path, a.status, a.body)
		}
	}
	if a := w.do(t, "GET", "/v1/admin/events", staffKey, ""); a.status != 200 || strings.Contains(a.body, "evt_7") {
		t.Errorf("list: %d %s", a.status, a.body)
	}
	for _, path := range []string{"/v1/admin/actions"} {
		if a := w.do(t, "GET", path, staffKey, ""); a.status != 403 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if len(w.accounts.actions) != 0 {
		t.Errorf("%d actions are written down for what was refused", len(w.accounts.actions))
	}
}

func TestCreateEvent(t *testing.T) {
	w := newWorld(t)
	create := func(starts string) answer {
		return w.do(t, "POST", "/v1/admin/events", staffKey, `{"slug":"x","name":"X","venue":"V","timeZone":"Europe/Berlin","currency":"EUR",
			"startsAt":"`+starts+`","rules":{"purchaseLimit":2,"holdSeconds":60}}`)
	}
	if a := create("2026-12-24 19:30"); a.status != 201 || len(w.catalog.created) != 1 {
		t.Fatalf("create: %d %s", a.status, a.body)
	}
	n := w.catalog.created[0]
	if n.StartsAt.UTC().Format(time.RFC3339) != "2026-12-24T18:30:00Z" || n.Rules.PurchaseLimit != 2 || n.Rules.HoldTime != time.Minute || n.OpensAt != nil {
		t.Errorf("created %+v %+v", n, n.Rules)
	}
	// P90: times that the clock skips or shows twice are refused.
	for _, odd := range []string{"2026-03-29 02:30", "2026-10-25 02:30", "", "soon"} {
		if a := create(odd); a.status != 400 || a.code() != usher.CodeInvalidRequest {
			t.Errorf("starts at %q: %d %s", odd, a.status, a.body)
		}
	}
}

func TestImportIsGuarded(t *testing.T) {
	w := newWorld(t)
	path := "/v1/admin/events/evt_7/chart"
	for name, tc := range map[string]struct {
		token, body, media string
		code               usher.Code
	}{
		"nobody":      {"", "{}", "application/json", usher.CodeUnauthenticated},
		"a buyer":     {aliceToken, "{}", "application/json", usher.CodeUnauthenticated},
		"other media": {staffKey, "{}", "text/html", usher.CodeUnsupportedMediaType},
		"twice":       {staffKey, `{"format":"a","format":"b"}`, "application/json", usher.CodeInvalidJSON},
		"no chart":    {staffKey, `{"hello":1}`, "application/json", usher.CodeInvalidFile},
		"no CSV":      {staffKey, "hello\nworld\n", "text/csv", usher.CodeInvalidFile},
		"broken CSV":  {staffKey, "section,row\n\xff", "text/csv", usher.CodeInvalidFile},
	} {
		t.Run(name, func(t *testing.T) {
			if a := w.do(t, "PUT", path, tc.token, tc.body, "Content-Type", tc.media); a.code() != tc.code || a.status != web.Status(tc.code) {
				t.Errorf("%d %s, want %s", a.status, a.body, tc.code)
			}
		})
	}
}

// What is wrong in a body is named, and never repeated.
func TestWrongFieldsAreNamed(t *testing.T) {
	w := newWorld(t)
	block, events := "/v1/admin/events/evt_7/blocked-accounts", `{"slug":"x","name":"X","venue":"V","timeZone":"UTC","currency":"EUR","startsAt":"2026-12-24 19:30",`
	for _, tc := range []struct{ method, path, body, field string }{
		{"PUT", block, `{"accountId":"secret","blocked":true}`, "accountId"},
		{"PUT", block, `{"accountId":"","blocked":true}`, "accountId"},
		{"PUT", block, `{"accountId":5,"blocked":true}`, "accountId"},
		{"PUT", block, `{"blocked":true}`, "accountId"},
		// It has the shape and is none.
		{"PUT", block, `{"accountId":"acc_00000000000000000000000000","blocked":true}`, "accountId: not an id"},
		{"POST", "/v1/admin/audit", `{"eventIds":["secret"]}`, "eventIds[0]"},
		{"POST", "/v1/admin/audit", `{"eventIds":["evt_7","evt_99999999"]}`, "eventIds[1]: not an event id"},
		{"POST", "/v1/admin/events", events + `"tenantId":"secret"}`, "tenantId"},
		{"POST", "/v1/admin/events", events + `"rules":{"saleClosesAt":"secret"}}`, "rules.saleClosesAt"},
		{"POST", "/v1/admin/events/evt_7/devices", `{"name":" ","settle":"now"}`, "name"},
		{"POST", "/v1/admin/events/evt_7/seats/block", `{"seatIds":[5],"reason":"r"}`, "seatIds[0]"},
		{"POST", "/v1/admin/events", strings.Replace(events, "2026-12-24 19:30", "soon", 1) + `"queueOpensAt":"x"}`, "startsAt: "},
		{"POST", "/v1/admin/events", strings.Replace(events, "UTC", "Mars", 1) + `"queueOpensAt":"x"}`, "timeZone: "},
		{"POST", "/v1/admin/events", events + `"queueOpensAt":"later"}`, "queueOpensAt: "},
		{"PUT", "/v1/admin/events/evt_7/standing", `{"tiers":[{"tierId":5,"name":"x","capacity":1}]}`, "tiers[0].tierId"},
	} {
		a := w.do(t, tc.method, tc.path, staffKey, tc.body)
		if a.status != 400 || a.code() != usher.CodeInvalidRequest && a.code() != usher.CodeInvalidID ||
			!strings.Contains(a.detail(), tc.field) || strings.Contains(a.body, "secret") {
			t.Errorf("%s %s: %d %s, want %s", tc.path, tc.body, a.status, a.body, tc.field)
		}
	}
	if len(w.accounts.actions) != 0 {
		t.Errorf("%d actions are written down", len(w.accounts.actions))
	}
}
