package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"usher"
	"usher/internal/checkout"
	"usher/internal/ledger"
	"usher/internal/redemption"
	"usher/internal/seatmap"
	"usher/internal/waitingroom"
	"usher/internal/web"
)

var logLock sync.Mutex

const holdsPath = "/v1/events/evt_7/holds"

// P22, P45, P89: whatever is not exactly what the schema says is refused with a
// reason, and no inventory is asked.
func TestStrictBodies(t *testing.T) {
	w := newWorld(t)
	valid := `"idempotencyKey":"k"`
	for name, tc := range map[string]struct {
		body, field string
		code        usher.Code
	}{
		"not JSON":                  {`seatIds=A-1`, "", usher.CodeInvalidJSON},
		"empty":                     {` `, "", usher.CodeInvalidJSON},
		"an array":                  {`[]`, "", usher.CodeInvalidRequest},
		"null":                      {`null`, "", usher.CodeInvalidRequest},
		"two values":                {`{} {}`, "", usher.CodeInvalidJSON},
		"seats missing":             {`{` + valid + `}`, "seatIds", usher.CodeInvalidRequest},
		"seats null":                {`{"seatIds":null,` + valid + `}`, "seatIds", usher.CodeInvalidRequest},
		"seats empty":               {`{"seatIds":[],` + valid + `}`, "seatIds", usher.CodeInvalidRequest},
		"seven seats":               {`{"seatIds":["1","2","3","4","5","6","7"],` + valid + `}`, "seatIds", usher.CodeInvalidRequest},
		"seats a text":              {`{"seatIds":"A-1",` + valid + `}`, "seatIds", usher.CodeInvalidRequest},
		"seat a number":             {`{"seatIds":[1],` + valid + `}`, "seatIds[0]", usher.CodeInvalidRequest},
		"seat null":                 {`{"seatIds":["A-1",null],` + valid + `}`, "seatIds[1]", usher.CodeInvalidRequest},
		"seat empty":                {`{"seatIds":[""],` + valid + `}`, "seatIds", usher.CodeInvalidRequest},
		"seat too long":             {`{"seatIds":["` + strings.Repeat("x", 65) + `"],` + valid + `}`, "seatIds", usher.CodeInvalidRequest},
		"seat with a control":       {`{"seatIds":["A\u0007"],` + valid + `}`, "seatIds", usher.CodeInvalidRequest},
		"seat with a zero byte":     {`{"seatIds":["A\u0000"],` + valid + `}`, "", usher.CodeInvalidJSON},
		"seat with half a pair":     {`{"seatIds":["\ud800"],` + valid + `}`, "", usher.CodeInvalidJSON},
		"seat not UTF-8":            {"{\"seatIds\":[\"\xff\"]," + valid + "}", "", usher.CodeInvalidJSON},
		"seat replaced":             {`{"seatIds":["\ufffd"],` + valid + `}`, "seatIds", usher.CodeInvalidRequest},
		"key missing":               {`{"seatIds":["A-1"]}`, "idempotencyKey", usher.CodeIdempotencyKeyRequired},
		"key with a space":          {`{"seatIds":["A-1"],"idempotencyKey":"a b"}`, "idempotencyKey", usher.CodeInvalidRequest},
		"key with a zero byte":      {`{"seatIds":["A-1"],"idempotencyKey":"a\u0000"}`, "", usher.CodeInvalidJSON},
		"key a number":              {`{"seatIds":["A-1"],"idempotencyKey":1}`, "idempotencyKey", usher.CodeInvalidRequest},
		"unknown field":             {`{"seatIds":["A-1"],"total":0,` + valid + `}`, "total", usher.CodeInvalidRequest},
		"other letter case":         {`{"SeatIds":["A-1"],` + valid + `}`, "SeatIds", usher.CodeInvalidRequest},
		"twice":                     {`{"seatIds":["A-1"],"seatIds":["A-2"],` + valid + `}`, "", usher.CodeInvalidJSON},
		"twice in other words":      {`{"seatIds":["A-1"],"seat\u0049ds":["A-2"],` + valid + `}`, "", usher.CodeInvalidJSON},
		"deep":                      {`{"seatIds":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, "", usher.CodeInvalidJSON},
		"prototype":                 {`{"__proto__":{},"seatIds":["A-1"],` + valid + `}`, "__proto__", usher.CodeInvalidRequest},
		"admission token a boolean": {`{"seatIds":["A-1"],"admissionToken":true,` + valid + `}`, "admissionToken", usher.CodeInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.do(t, "POST", holdsPath, aliceToken, tc.body)
			if a.status != web.Status(tc.code) || a.code() != tc.code {
				t.Fatalf("answer %d %s, want %s", a.status, a.body, tc.code)
			}
			if !strings.Contains(a.detail(), tc.field) {
				t.Errorf("detail %q does not name %q", a.detail(), tc.field)
			}
		})
	}
}

func TestIntegersAreIntegers(t *testing.T) {
	w := newWorld(t)
	for _, n := range []string{"0", "-1", "1.5", "1e3", `"2"`, "null", "true", "7", "2147483648", "9223372036854775808", "1e400"} {
		a := w.do(t, "POST", holdsPath, aliceToken, `{"items":[{"tierId":"floor","quantity":2},{"tierId":"rear","quantity":`+n+`}],"idempotencyKey":"k"}`)
		if a.status != 400 {
			t.Errorf("quantity %s answers %d %s", n, a.status, a.body)
		}
	}
	for _, n := range []string{"0", "-1", "1.5", "1e3", `"2"`, "null", "true", "100001", "2147483648", "9223372036854775808", "1e400"} {
		a := w.do(t, "POST", "/v1/admin/buyer-sessions", staffKey, `{"count":`+n+`}`)
		if a.status != 400 {
			t.Errorf("count %s answers %d %s", n, a.status, a.body)
		}
	}
}

func TestRequestEdges(t *testing.T) {
	w := newWorld(t)
	w.ledger.placeHold = func(ledger.PlaceHold) (ledger.Hold, error) { return someHold(alice), nil }
	good := `{"seatIds":["A-1"],"idempotencyKey":"k"}`
	for name, tc := range map[string]struct {
		method, path, token, body string
		headers                   []string
		code                      usher.Code
	}{
		"no route":                {"GET", "/v1/nothing", "", "", nil, usher.CodeNotFound},
		"other method":            {"PUT", holdsPath, aliceToken, good, nil, usher.CodeMethodNotAllowed},
		"now is read only":        {"POST", "/v1/events/evt_7/queue/now", "", "", nil, usher.CodeMethodNotAllowed},
		"form":                    {"POST", holdsPath, aliceToken, good, []string{"Content-Type", "application/x-www-form-urlencoded"}, usher.CodeUnsupportedMediaType},
		"big5":                    {"POST", holdsPath, aliceToken, good, []string{"Content-Type", "application/json; charset=big5"}, usher.CodeUnsupportedMediaType},
		"large":                   {"POST", holdsPath, aliceToken, `{"seatIds":["` + strings.Repeat("x", 64<<10) + `"]}`, nil, usher.CodeTooLarge},
		"event id":                {"POST", "/v1/events/7/holds", aliceToken, good, nil, usher.CodeInvalidID},
		"hold id":                 {"GET", "/v1/holds/hld_1", aliceToken, "", nil, usher.CodeInvalidID},
		"hold id of another kind": {"GET", "/v1/holds/" + usher.NewOrderID(event).String(), aliceToken, "", nil, usher.CodeInvalidID},
		"zero byte in the path":   {"GET", "/v1/holds/a%00b", aliceToken, "", nil, usher.CodeInvalidRequest},
		"broken path":             {"GET", "/v1/holds/%ff", aliceToken, "", nil, usher.CodeInvalidRequest},
		"broken query":            {"GET", "/v1/events/evt_7/changes?after=%ff", staffKey, "", nil, usher.CodeInvalidRequest},
		"zero byte in the query":  {"GET", "/v1/events/evt_7/changes?x=%00", staffKey, "", nil, usher.CodeInvalidRequest},
		"bad escape in the query": {"GET", "/v1/events/evt_7/changes?x=%zz", staffKey, "", nil, usher.CodeInvalidRequest},
		"query not a number":      {"GET", "/v1/events/evt_7/changes?after=x", staffKey, "", nil, usher.CodeInvalidRequest},
		"query negative":          {"GET", "/v1/events/evt_7/changes?after=-1", staffKey, "", nil, usher.CodeInvalidRequest},
		"key header not ASCII":    {"POST", holdsPath, aliceToken, `{"seatIds":["A-1"]}`, []string{"Idempotency-Key", "\xff"}, usher.CodeInvalidRequest},
		"two keys":                {"POST", holdsPath, aliceToken, good, []string{"Idempotency-Key", "other"}, usher.CodeInvalidRequest},
		"two admissions": {"POST", holdsPath, aliceToken, `{"seatIds":["A-1"],"idempotencyKey":"k","admissionToken":"a"}`,
			[]string{"Usher-Admission", "b"}, usher.CodeInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.do(t, tc.method, tc.path, tc.token, tc.body, tc.headers...)
			if a.status != web.Status(tc.code) || a.code() != tc.code {
				t.Fatalf("answer %d %s, want %s", a.status, a.body, tc.code)
			}
			if ct := a.header.Get("Content-Type"); ct != "application/problem+json" {
				t.Errorf("content type %q", ct)
			}
		})
	}
	t.Run("one key twice", func(t *testing.T) {
		if a := w.do(t, "POST", holdsPath, aliceToken, good, "Idempotency-Key", "k"); a.status != 201 {
			t.Errorf("answer %d %s", a.status, a.body)
		}
	})
	t.Run("key in the header", func(t *testing.T) {
		if a := w.do(t, "POST", holdsPath, aliceToken, `{"seatIds":["A-1"]}`, "Idempotency-Key", "k"); a.status != 201 {
			t.Errorf("answer %d %s", a.status, a.body)
		}
	})
}

// P05 and spec 2.6: what a token says is checked before the ledger is asked.
func TestAdmissionIsCheckedFirst(t *testing.T) {
	w := newWorld(t)
	w.catalog.queued = true
	asked := 0
	w.ledger.placeHold = func(c ledger.PlaceHold) (ledger.Hold, error) {
		asked++
		if c.Session.IsZero() {
			t.Error("the session of the admission is not handed on")
		}
		return someHold(alice), nil
	}
	hold := func(token, admission string) answer {
		return w.do(t, "POST", holdsPath, token, `{"seatIds":["A-1"],"idempotencyKey":"k","admissionToken":"`+admission+`"}`)
	}
	own := "admission of " + alice.String()
	for _, tc := range []struct {
		name, token, admission string
		code                   usher.Code
	}{
		{"another account", bobToken, own, usher.CodeAdmissionInvalid},
		{"tampered", aliceToken, own + "x", usher.CodeAdmissionInvalid},
		{"missing", aliceToken, "", usher.CodeAdmissionInvalid},
		{"expired", aliceToken, "late", usher.CodeAdmissionExpired},
		{"signed out", "", own, usher.CodeUnauthenticated},
	} {
		if a := hold(tc.token, tc.admission); a.code() != tc.code || a.status != web.Status(tc.code) {
			t.Errorf("%s: %d %s, want %s", tc.name, a.status, a.body, tc.code)
		}
	}
	if asked != 0 {
		t.Fatalf("the ledger was asked %d times", asked)
	}
	if a := hold(aliceToken, own); a.status != 201 || asked != 1 {
		t.Errorf("own admission: %d %s", a.status, a.body)
	}
	a := w.do(t, "POST", holdsPath, aliceToken, `{"seatIds":["A-1"],"idempotencyKey":"k"}`, "Usher-Admission", own)
	if a.status != 201 || asked != 2 {
		t.Errorf("admission in the header: %d %s", a.status, a.body)
	}
}

func TestQuantities(t *testing.T) {
	w := newWorld(t)
	w.ledger.placeHold = func(c ledger.PlaceHold) (ledger.Hold, error) {
		if len(c.Seats) != 1 || len(c.Items) != 1 || c.Items[0] != (ledger.Item{Tier: "floor", Quantity: 2}) {
			t.Errorf("asked for %+v", c)
		}
		h := someHold(alice)
		h.Items = []ledger.Item{{Tier: "floor", Quantity: 2, Price: h.Amount}}
		return h, nil
	}
	a := w.do(t, "POST", holdsPath, aliceToken, `{"seatIds":["A-1"],"items":[{"tierId":"floor","quantity":2}],"idempotencyKey":"k"}`)
	if a.status != 201 || !strings.Contains(a.body, `"items":[{"tierId":"floor","quantity":2,`) {
		t.Errorf("answer %d %s", a.status, a.body)
	}
}

func TestHoldAnswers(t *testing.T) {
	w := newWorld(t)
	h := someHold(alice)
	var result error
	w.ledger.placeHold = func(ledger.PlaceHold) (ledger.Hold, error) { return h, result }
	place := func() answer {
		return w.do(t, "POST", holdsPath, aliceToken, `{"seatIds":["A-1"],"idempotencyKey":"k"}`)
	}
	first := place()
	if first.status != 201 || first.header.Get("Idempotent-Replayed") != "" || first.header.Get("Usher-Time") != "2026-12-01T10:00:00.123Z" {
		t.Errorf("first answer %d %v", first.status, first.header)
	}
	h.Replayed, h.Now = true, h.Now.Add(time.Minute)
	again := place()
	if again.status != first.status || again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("replay %d %s %v, want %s", again.status, again.body, again.header, first.body)
	}
	result = &usher.Error{Code: usher.CodeSeatsUnavailable, Message: "taken", Seats: []usher.SeatID{"A-1"}, Replayed: true}
	if a := place(); a.status != 409 || !strings.Contains(a.body, `"seats":["A-1"]`) || a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("refusal %d %s %v", a.status, a.body, a.header)
	}
	for code, status := range map[usher.Code]int{usher.CodeBusy: 503, usher.CodeUnavailable: 503, usher.CodeRateLimited: 429} {
		result = &usher.Error{Code: code, Message: "later", RetryAfter: 1500 * time.Millisecond}
		if a := place(); a.status != status || a.header.Get("Retry-After") != "2" || a.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%s: %d %s %v", code, a.status, a.body, a.header)
		}
	}
	result = usher.Errorf(usher.CodeUnknown, "retry with the same key")
	if a := place(); a.status != 503 || a.code() != usher.CodeUnknown {
		t.Errorf("unknown: %d %s", a.status, a.body)
	}
	result = fmt.Errorf("place hold: %w", errors.New("relation hold does not exist"))
	if a := place(); a.status != 500 || a.code() != usher.CodeInternal || strings.Contains(a.body, "relation") {
		t.Errorf("internal: %d %s", a.status, a.body)
	}
	if !strings.Contains(w.logText(), "relation hold does not exist") {
		t.Error("the cause of an internal error is not logged")
	}
}

// A hold, an order and a ticket say where a seat is as the venue's signs do; by its id
// alone where the chart cannot be read.
func TestSeatNames(t *testing.T) {
	w := newWorld(t)
	chart := seatmap.Club()
	w.charts.chart, w.catalog.chart = chart, chart.Hash()
	seat, row := chart.Seat(3), chart.RowOf(3)
	held := []ledger.Seat{{ID: seat.ID, Tier: seat.Tier, Price: usher.Money{AmountMinor: 120000, Currency: "TWD"}}, {ID: "gone", Tier: seat.Tier}}
	h, o := someHold(alice), someOrder(alice)
	h.Seats, o.Seats = held, held
	w.ledger.holds = map[usher.HoldID]ledger.Hold{h.ID: h}
	w.ledger.orders = map[usher.OrderID]ledger.Order{o.ID: o}
	w.redeem.tickets = []redemption.Ticket{{ID: usher.NewTicketID(event), Event: event, Order: o.ID, Seat: seat.ID, Tier: seat.Tier, Status: usher.CodeUnused}}
	name := fmt.Sprintf(`ame":{"section":%q,"row":%q,"seat":%q}`, row.Section, row.Label, seat.Label)
	for _, path := range []string{"/v1/holds/" + h.ID.String(), "/v1/orders/" + o.ID.String(), "/v1/orders/" + o.ID.String() + "/tickets"} {
		w.charts.chart = chart
		if a := w.do(t, "GET", path, aliceToken, ""); a.status != 200 || strings.Count(a.body, name) != 1 {
			t.Errorf("%s: %d %s lacks %s once", path, a.status, a.body, name)
		}
		w.charts.chart = nil
		if a := w.do(t, "GET", path, aliceToken, ""); a.status != 200 || strings.Contains(a.body, `"section"`) || !strings.Contains(a.body, string(seat.ID)) {
			t.Errorf("%s without the chart: %d %s", path, a.status, a.body)
		}
	}
}

// A claim names its seat once its device has asked who it is, and is granted all the
// same where the chart cannot be read: it never reads one.
func TestClaimNamesSeat(t *testing.T) {
	w := newWorld(t)
	chart := seatmap.Club()
	seat, row := chart.Seat(3), chart.RowOf(3)
	w.redeem.claim = func(c redemption.Claim) (redemption.Redemption, error) {
		return redemption.Redemption{ID: usher.NewRedemptionID(event), Event: event, Seat: seat.ID, Tier: seat.Tier, Status: usher.CodeUsed, Current: usher.CodeUsed}, nil
	}
	name := fmt.Sprintf(`"seatName":{"section":%q,"row":%q,"seat":%q}`, row.Section, row.Label, seat.Label)
	claim := func(named bool) {
		t.Helper()
		a := w.do(t, "POST", "/v1/redemptions", gateKey, `{"code":"C","transactionId":"t"}`)
		if a.status != 201 || !strings.Contains(a.body, string(seat.ID)) || strings.Contains(a.body, name) != named {
			t.Errorf("claim: %d %s, named %v", a.status, a.body, named)
		}
	}
	look := func() {
		t.Helper()
		if a := w.do(t, "GET", "/v1/devices/me", gateKey, ""); a.status != 200 {
			t.Errorf("device: %d %s", a.status, a.body)
		}
	}
	look()
	claim(false)
	w.charts.chart = chart
	claim(false)
	look()
	w.charts.chart = nil
	claim(true)
}

// P93: somebody else's and what never was get one answer, whatever is asked.
func TestForeignAndUnknownAreTheSame(t *testing.T) {
	w := newWorld(t)
	h, o := someHold(alice), someOrder(alice)
	w.ledger.holds = map[usher.HoldID]ledger.Hold{h.ID: h}
	w.ledger.orders = map[usher.OrderID]ledger.Order{o.ID: o}
	w.checkout.checkout = func(r checkout.Request) (checkout.Result, error) {
		return checkout.Result{}, usher.Errorf(usher.CodeNotFound, "hold %s is not in the table", r.Hold)
	}
	ticket := usher.NewTicketID(event)
	w.redeem.tickets = []redemption.Ticket{{ID: ticket, Event: event, Order: o.ID, Code: "top-secret-code"}}
	otherHold, otherOrder := usher.NewHoldID(event).String(), usher.NewOrderID(event).String()
	pay := `{"paymentMethodToken":"pm","idempotencyKey":"k"}`
	for _, tc := range []struct{ method, own, other, body string }{
		{"GET", "/v1/holds/" + h.ID.String(), "/v1/holds/" + otherHold, ""},
		{"DELETE", "/v1/holds/" + h.ID.String(), "/v1/holds/" + otherHold, ""},
		{"POST", "/v1/holds/" + h.ID.String() + "/checkout", "/v1/holds/" + otherHold + "/checkout", pay},
		{"GET", "/v1/orders/" + o.ID.String(), "/v1/orders/" + otherOrder, ""},
		{"POST", "/v1/orders/" + o.ID.String() + "/return", "/v1/orders/" + otherOrder + "/return", ""},
		{"GET", "/v1/orders/" + o.ID.String() + "/tickets", "/v1/orders/" + otherOrder + "/tickets", ""},
		{"GET", "/v1/orders/" + o.ID.String() + "/tickets/" + ticket.String() + "/qr.svg", "/v1/orders/" + otherOrder + "/tickets/" + ticket.String() + "/qr.svg", ""},
		{"GET", "/v1/orders/" + o.ID.String() + "/tickets/" + ticket.String() + "/qr.png", "/v1/orders/" + otherOrder + "/tickets/" + ticket.String() + "/qr.png", ""},
	} {
		foreign, unknown := w.do(t, tc.method, tc.own, bobToken, tc.body), w.do(t, tc.method, tc.other, bobToken, tc.body)
		if foreign.status != 404 || unknown.status != 404 || foreign.withoutID(t) != unknown.withoutID(t) {
			t.Errorf("%s %s: foreign %d %s, unknown %d %s", tc.method, tc.own, foreign.status, foreign.body, unknown.status, unknown.body)
		}
		nobody := w.do(t, tc.method, tc.own, "", tc.body)
		if nobody.status != 401 || nobody.header.Get("Www-Authenticate") == "" {
			t.Errorf("%s %s without a login: %d %s", tc.method, tc.own, nobody.status, nobody.body)
		}
	}
	own := w.do(t, "GET", "/v1/orders/"+o.ID.String(), aliceToken, "")
	if own.status != 200 || !strings.Contains(own.body, `"paymentStatus":"unknown"`) || strings.Contains(own.body, "pm_secret") {
		t.Errorf("own order: %d %s", own.status, own.body)
	}
	svg := w.do(t, "GET", "/v1/orders/"+o.ID.String()+"/tickets/"+ticket.String()+"/qr.svg", aliceToken, "")
	if svg.status != 200 || svg.header.Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(svg.body, "<svg") {
		t.Errorf("own ticket: %d %v", svg.status, svg.header)
	}
	if !strings.Contains(w.logText(), "somebody else's") {
		t.Error("a request for somebody else's is not noted")
	}
}

// P94 and every route: nobody, and nobody of another audience, gets in.
func TestEveryRouteGuardsItsAudience(t *testing.T) {
	w := newWorld(t)
	credentials := map[string]string{"buyer": aliceToken, "operator": staffKey, "device": gateKey}
	guarded := 0
	for _, op := range operations(t, w) {
		if op.audience == "" {
			continue
		}
		guarded++
		tokens := []string{"", "nonsense", "usk_nonsense", "udv_nonsense"}
		for audience, token := range credentials {
			if audience != op.audience {
				tokens = append(tokens, token)
			}
		}
		for _, token := range tokens {
			if a := w.do(t, op.method, op.path, token, `{`); a.status != 401 || a.code() != usher.CodeUnauthenticated {
				t.Errorf("%s %s with %q answers %d %s", op.method, op.path, token, a.status, a.body)
			}
		}
	}
	if guarded < 20 {
		t.Errorf("only %d routes are guarded", guarded)
	}
}

func TestCrossSiteWritesAreRefused(t *testing.T) {
	w := newWorld(t)
	w.rooms.join = func(usher.AccountID) (waitingroom.Ticket, error) { return waitingroom.Ticket{Event: event}, nil }
	path := "/v1/events/evt_7/queue"
	cookie := []string{"Cookie", "usher_session=" + aliceToken}
	if a := w.do(t, "POST", path, "", "", append(cookie, "Sec-Fetch-Site", "cross-site")...); a.status != 403 || a.code() != usher.CodeForbidden {
		t.Errorf("cross-site: %d %s", a.status, a.body)
	}
	if a := w.do(t, "POST", path, "", "", append(cookie, "Origin", "https://evil.example")...); a.status != 403 {
		t.Errorf("foreign origin: %d %s", a.status, a.body)
	}
	if a := w.do(t, "POST", path, "", "", append(cookie, "Sec-Fetch-Site", "same-origin")...); a.status != 200 {
		t.Errorf("same site: %d %s", a.status, a.body)
	}
	if a := w.do(t, "POST", path, aliceToken, ""); a.status != 200 {
		t.Errorf("program: %d %s", a.status, a.body)
	}
}

func TestCookieName(t *testing.T) {
	secure := func(c *web.Config) { c.PublicURL = "https://tickets.example" }
	w := newWorld(t, secure)
	w.rooms.join = func(usher.AccountID) (waitingroom.Ticket, error) { return waitingroom.Ticket{Event: event}, nil }
	if a := w.do(t, "POST", "/v1/events/evt_7/queue", "", "", "Cookie", "usher_session="+aliceToken); a.status != 401 {
		t.Errorf("with https a cookie without the prefix answers %d", a.status)
	}
	a := w.do(t, "POST", "/v1/events/evt_7/queue", "", "", "Cookie", "__Host-usher_session="+aliceToken)
	if a.status != 200 || a.header.Get("Strict-Transport-Security") == "" {
		t.Errorf("with https: %d %v", a.status, a.header)
	}
}

func TestPanicIsCountedAndTellsNothing(t *testing.T) {
	w := newWorld(t)
	w.ledger.placeHold = func(ledger.PlaceHold) (ledger.Hold, error) { panic("the secret of db-7") }
	a := w.do(t, "POST", holdsPath, aliceToken, `{"seatIds":["A-1"],"idempotencyKey":"k"}`)
	if a.status != 500 || a.code() != usher.CodeInternal || strings.Contains(a.body, "db-7") {
		t.Errorf("answer %d %s", a.status, a.body)
	}
	metrics := w.do(t, "GET", "/metrics", "", "").body
	if !strings.Contains(metrics, "usher_http_panics_total 1") {
		t.Error("the panic is not counted")
	}
	if !strings.Contains(metrics, `usher_http_request_seconds_count{route="POST /v1/events/{eventId}/holds",status="5xx"} 1`) {
		t.Error("the route of a panic is not measured")
	}
	if !strings.Contains(w.logText(), "the secret of db-7") {
		t.Error("the panic is not logged")
	}
}

// A buyer who goes away before the answer makes no failure of ours, and no line that
// nobody can act on; an answer that fails for somebody who waits does.
func TestClientThatIsGone(t *testing.T) {
	for _, gone := range []bool{true, false} {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.ledger.placeHold = func(ledger.PlaceHold) (ledger.Hold, error) {
			if gone {
				cancel()
			}
			return ledger.Hold{}, errors.New("broken pipe")
		}
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, holdsPath, strings.NewReader(`{"seatIds":["A-1"],"idempotencyKey":"k"}`))
		r.Header.Set("Authorization", "Bearer "+aliceToken)
		r.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		w.server.ServeHTTP(answer, r)
		want, said := http.StatusInternalServerError, true
		if gone {
			want, said = 499, false
		}
		if answer.Code != want || strings.Contains(w.logText(), "broken pipe") != said {
			t.Errorf("gone %v: %d, log %s", gone, answer.Code, w.logText())
		}
	}
}

func TestQueueNow(t *testing.T) {
	w := newWorld(t)
	w.rooms.now = map[usher.EventID]waitingroom.NowDocument{event: {Body: []byte(`{"serving":5}`), ETag: `"abc"`}}
	path := "/v1/events/evt_7/queue/now"
	a := w.do(t, "GET", path+"?cache=buster", "", "", "Cookie", "usher_session="+aliceToken)
	if a.status != 200 || a.body != `{"serving":5}` {
		t.Fatalf("answer %d %s", a.status, a.body)
	}
	if got := a.header.Get("Cache-Control"); got != "public, s-maxage=1, max-age=1, stale-while-revalidate=5, stale-if-error=60" {
		t.Errorf("cache control %q", got)
	}
	if a.header.Get("Set-Cookie") != "" || a.header.Get("Vary") != "" || a.header.Get("X-Request-Id") != "" {
		t.Errorf("headers that differ from person to person: %v", a.header)
	}
	if a := w.do(t, "GET", path, "", "", "If-None-Match", `"abc"`); a.status != 304 || a.body != "" {
		t.Errorf("known document: %d %s", a.status, a.body)
	}
	if a := w.do(t, "GET", "/v1/events/evt_8/queue/now", "", ""); a.status != 404 || a.code() != usher.CodeNotFound {
		t.Errorf("no room: %d %s", a.status, a.body)
	}
	if a := w.do(t, "GET", "/v1/events/7/queue/now", "", ""); a.status != 400 || a.code() != usher.CodeInvalidID {
		t.Errorf("bad id: %d %s", a.status, a.body)
	}
	if strings.Contains(w.logText(), "queue/now") {
		t.Error("polls are logged")
	}
}

func TestRateLimits(t *testing.T) {
	w := newWorld(t, func(c *web.Config) {
		c.Limits.JoinPerAccount = web.Rate{Burst: 2, Every: time.Hour}
		c.Limits.HoldPerAddress = web.Rate{Burst: 1, Every: time.Hour}
	})
	w.rooms.join = func(usher.AccountID) (waitingroom.Ticket, error) { return waitingroom.Ticket{Event: event}, nil }
	join := func(token string) answer { return w.do(t, "POST", "/v1/events/evt_7/queue", token, "") }
	for i := range 2 {
		if a := join(aliceToken); a.status != 200 {
			t.Fatalf("join %d: %d %s", i+1, a.status, a.body)
		}
	}
	a := join(aliceToken)
	wait, err := strconv.Atoi(a.header.Get("Retry-After"))
	if a.status != 429 || a.code() != usher.CodeRateLimited || err != nil || wait < 1 {
		t.Errorf("third join: %d %s %v", a.status, a.body, a.header)
	}
	if a := join(bobToken); a.status != 200 {
		t.Errorf("another account is limited: %d %s", a.status, a.body)
	}
	// P43: a limit is no result; the same key works once it has passed.
	w.ledger.placeHold = func(ledger.PlaceHold) (ledger.Hold, error) { return someHold(alice), nil }
	hold := func(token string) answer {
		return w.do(t, "POST", holdsPath, token, `{"seatIds":["A-1"],"idempotencyKey":"k"}`)
	}
	if a := hold(aliceToken); a.status != 201 {
		t.Errorf("first hold of the address: %d %s", a.status, a.body)
	}
	if a := hold(bobToken); a.status != 429 {
		t.Errorf("second hold of the address: %d %s", a.status, a.body)
	}
	if m := w.do(t, "GET", "/metrics", "", "").body; !strings.Contains(m, `usher_http_rate_limited_total{limit="hold_address"} 1`) {
		t.Error("a limited request is not counted")
	}
}

// P38: the signature is over the bytes that came.
func TestWebhookBodyIsUntouched(t *testing.T) {
	w := newWorld(t)
	odd := "{ \"b\" : 1,\n\"a\":\"\\u00e9\", \"a\":2 }\n"
	w.checkout.webhook = func(provider string, h http.Header, body []byte) error {
		if provider != "stripe" || string(body) != odd || h.Get("Stripe-Signature") != "t=1,v1=x" {
			t.Errorf("webhook of %s with %q and %q", provider, body, h.Get("Stripe-Signature"))
		}
		return nil
	}
	path := "/v1/providers/stripe/webhook"
	if a := w.do(t, "POST", path, "", odd, "Stripe-Signature", "t=1,v1=x", "Content-Type", "text/plain"); a.status != 204 {
		t.Errorf("answer %d %s", a.status, a.body)
	}
	w.checkout.webhook = func(string, http.Header, []byte) error { return usher.Errorf(usher.CodeWebhookSignature, "no match") }
	if a := w.do(t, "POST", path, "", odd); a.status != 400 || a.code() != usher.CodeWebhookSignature {
		t.Errorf("wrong signature: %d %s", a.status, a.body)
	}
	if a := w.do(t, "POST", path, "", strings.Repeat("x", 1<<20+1)); a.status != 413 {
		t.Errorf("large: %d", a.status)
	}
}

func TestClaim(t *testing.T) {
	w := newWorld(t)
	red := redemption.Redemption{
		ID: usher.NewRedemptionID(event), Ticket: usher.NewTicketID(event), Event: event, Seat: "A-1", Status: usher.CodeProcessing,
		Current: usher.CodeProcessing, TransactionID: "t-1", Instruction: "open",
	}
	w.redeem.claim = func(c redemption.Claim) (redemption.Redemption, error) {
		if c.Code != " ABC\r\n" || c.TransactionID != "t-1" || c.Device.Name != "Gate" {
			t.Errorf("claim %+v", c)
		}
		return red, nil
	}
	claim := func() answer {
		return w.do(t, "POST", "/v1/redemptions", gateKey, `{"code":" ABC\r\n","transactionId":"t-1"}`)
	}
	first := claim()
	red.Replayed, red.Current = true, usher.CodeAbnormal
	again := claim()
	if first.status != 201 || again.status != 201 || first.body != again.body {
		t.Errorf("first %d %s, again %d %s", first.status, first.body, again.status, again.body)
	}
	if again.header.Get("Idempotent-Replayed") != "true" || again.header.Get("Usher-Code-Status") != "abnormal" {
		t.Errorf("replay headers %v", again.header)
	}
	w.redeem.claim = func(redemption.Claim) (redemption.Redemption, error) {
		return redemption.Redemption{}, usher.Errorf(usher.CodeCodeUsed, "used at the east gate")
	}
	if a := claim(); a.status != 409 || a.code() != usher.CodeCodeUsed {
		t.Errorf("used: %d %s", a.status, a.body)
	}
}

func TestProbes(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		if a := w.do(t, "GET", path, "", ""); a.status != 200 {
			t.Errorf("%s answers %d", path, a.status)
		}
	}
	w.server.Drain()
	if a := w.do(t, "GET", "/readyz", "", ""); a.status != 503 {
		t.Errorf("a stopping server is ready: %d", a.status)
	}
	if a := w.do(t, "GET", "/healthz", "", ""); a.status != 200 {
		t.Errorf("a stopping server is not alive: %d", a.status)
	}
}

func TestCommonHeaders(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/healthz", "/v1/nothing", "/sign-in", "/problems", "/events/evt_7/queue", "/static/plain.js", "/nothing"} {
		a := w.do(t, "GET", path, "", "", "Accept", "text/html")
		csp := a.header.Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s has the policy %q", path, csp)
		}
		if a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Referrer-Policy") == "" || a.header.Get("X-Request-Id") == "" {
			t.Errorf("%s lacks a header: %v", path, a.header)
		}
	}
}

// A body that never ends is answered or cut in time, whether or not a handler
// reads it.
func TestBodyThatNeverEnds(t *testing.T) {
	w := newWorld(t, func(c *web.Config) { c.BodyTimeout = 100 * time.Millisecond })
	for _, target := range []string{
		"POST /v1/events/evt_2/holds", "POST /v1/session/code", "POST /v1/providers/stripe/webhook", "GET /healthz",
		"GET /v1/events/evt_1/queue/now", "GET /v1/events", "POST /nowhere",
	} {
		t.Run(target, func(t *testing.T) {
			conn, err := net.Dial("tcp", w.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", target)
			answer, err := io.ReadAll(conn)
			if err != nil {
				t.Fatalf("neither answered nor cut: %v", err)
			}
			if len(answer) > 0 && !strings.HasPrefix(string(answer), "HTTP/1.1 ") || strings.HasPrefix(string(answer), "HTTP/1.1 5") {
				t.Errorf("answer %q", answer)
			}
		})
	}
}

// A claim names its own field when the transaction id is missing.
func TestClaimNamesItsField(t *testing.T) {
	w := newWorld(t)
	req, err := http.NewRequest(http.MethodPost, w.URL+"/v1/redemptions", strings.NewReader(`{"code":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+gateKey)
	req.Header.Set("Content-Type", "application/json")
	res, err := w.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "transactionId is missing") {
		t.Errorf("%d %s (%v)", res.StatusCode, body, err)
	}
}
