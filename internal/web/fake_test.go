package web_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/account"
	"usher/internal/checkout"
	"usher/internal/ledger"
	"usher/internal/redemption"
	"usher/internal/seatmap"
	"usher/internal/waitingroom"
	"usher/internal/web"
)

// The credentials that the fakes know.
const (
	aliceToken = "alice-token"
	bobToken   = "bob-token"
	staffKey   = "usk_staff"
	gateKey    = "udv_gate"
)

var (
	alice, bob = usher.NewAccountID(), usher.NewAccountID()
	event      = usher.EventID(7)
)

// world is a server on fakes whose answers a test sets. What a test does not set
// must not be called: it panics, and the request fails with 500.
type world struct {
	*httptest.Server
	server   *web.Server
	accounts *fakeAccounts
	rooms    *fakeRooms
	seats    *fakeSeats
	ledger   *fakeLedger
	checkout *fakeCheckout
	redeem   *fakeRedemption
	catalog  *fakeCatalog
	charts   *fakeCharts
	log      *strings.Builder
	reg      *prometheus.Registry
}

func newWorld(t *testing.T, change ...func(*web.Config)) *world {
	t.Helper()
	w := &world{
		accounts: &fakeAccounts{}, rooms: &fakeRooms{}, seats: &fakeSeats{}, ledger: &fakeLedger{}, checkout: &fakeCheckout{}, redeem: &fakeRedemption{}, catalog: &fakeCatalog{}, charts: &fakeCharts{},
		log: &strings.Builder{}, reg: prometheus.NewRegistry(),
	}
	cfg := web.Config{PublicURL: "http://127.0.0.1", Version: "test"}
	for _, c := range change {
		c(&cfg)
	}
	w.server = web.New(cfg, web.Deps{
		Accounts: w.accounts, Rooms: w.rooms, Ledger: w.ledger, Checkout: w.checkout, Redemption: w.redeem,
		Seats: w.seats, Charts: w.charts, Catalog: w.catalog,
		Ready: func(context.Context) error { return nil }, Gatherer: w.reg,
	}, slog.New(slog.NewJSONHandler(&lockedWriter{w: w.log}, nil)), w.reg)
	w.Server = httptest.NewServer(w.server)
	t.Cleanup(w.Close)
	return w
}

// fakeCharts has one chart, or cannot be read. atHand is the one in memory.
type fakeCharts struct {
	web.Charts
	chart, atHand *seatmap.Chart
}

func (f *fakeCharts) ByHash(_ context.Context, hash string) (*seatmap.Chart, error) {
	if f.chart == nil || hash != f.chart.Hash() {
		return nil, usher.Errorf(usher.CodeUnavailable, "the chart cannot be read")
	}
	return f.chart, nil
}

func (f *fakeCharts) OfEvent(context.Context, usher.EventID) (*seatmap.Chart, error) {
	if f.chart == nil {
		return nil, usher.Errorf(usher.CodeUnavailable, "the chart cannot be read")
	}
	f.atHand = f.chart
	return f.chart, nil
}

func (f *fakeCharts) AtHand(usher.EventID) *seatmap.Chart { return f.atHand }

type fakeAccounts struct {
	web.Accounts
	actions []account.Action
	tenant  usher.TenantID
	// operators are those whose names are known.
	operators []account.Operator
}

func (f *fakeAccounts) Verify(token string) (account.Session, error) {
	switch token {
	case aliceToken:
		return account.Session{Account: alice}, nil
	case bobToken:
		return account.Session{Account: bob}, nil
	}
	return account.Session{}, usher.Errorf(usher.CodeUnauthenticated, "the token is not valid")
}

func (f *fakeAccounts) Operator(_ context.Context, key string) (account.Operator, error) {
	if key != staffKey {
		return account.Operator{}, usher.Errorf(usher.CodeUnauthenticated, "the key is not valid")
	}
	return account.Operator{ID: usher.NewOperatorID(), Name: "Staff", Tenant: f.tenant}, nil
}

func (f *fakeAccounts) LogAction(_ context.Context, x account.Action) (int64, error) {
	f.actions = append(f.actions, x)
	return int64(len(f.actions)), nil
}

func (f *fakeAccounts) Actions(_ context.Context, q account.ActionFilter) ([]account.Action, error) {
	var out []account.Action
	for i, x := range f.actions {
		if q.Target == "" || q.Target == x.Target {
			x.Number = int64(i + 1)
			out = append(out, x)
		}
	}
	return out, nil
}

func (f *fakeAccounts) Operators(context.Context) ([]account.Operator, error) {
	return f.operators, nil
}

type fakeRooms struct {
	web.Rooms
	now  map[usher.EventID]waitingroom.NowDocument
	join func(usher.AccountID) (waitingroom.Ticket, error)
	// status is what an operator sees; looks counts how often it was asked for.
	status func() (waitingroom.Status, error)
	looks  int
}

func (f *fakeRooms) Now(e usher.EventID) (waitingroom.NowDocument, bool) {
	doc, ok := f.now[e]
	return doc, ok
}

func (f *fakeRooms) Join(_ context.Context, _ usher.EventID, a usher.AccountID, _ waitingroom.Risk) (waitingroom.Ticket, error) {
	return f.join(a)
}

func (f *fakeRooms) VerifyAdmission(token string, _ usher.EventID, a usher.AccountID) (usher.SessionID, error) {
	switch {
	case token == "late":
		return usher.SessionID{}, usher.Errorf(usher.CodeAdmissionExpired, "expired")
	case token != "admission of "+a.String():
		return usher.SessionID{}, usher.Errorf(usher.CodeAdmissionInvalid, "not valid here")
	}
	return usher.NewSessionID(event), nil
}

func (f *fakeRooms) Status(context.Context, usher.EventID) (waitingroom.Status, error) {
	f.looks++
	return f.status()
}

func (f *fakeRooms) Touch(usher.SessionID, time.Time) {}

type fakeLedger struct {
	web.Ledger
	placeHold func(ledger.PlaceHold) (ledger.Hold, error)
	rules     func() (usher.Rules, error)
	quota     func() ([]ledger.BucketState, error)
	live      func() (ledger.Live, error)
	// staff are the commands of operators; refuse is what they are answered.
	staff  []any
	refuse error
	holds  map[usher.HoldID]ledger.Hold
	orders map[usher.OrderID]ledger.Order
}

func (f *fakeLedger) PlaceHold(_ context.Context, c ledger.PlaceHold) (ledger.Hold, error) {
	return f.placeHold(c)
}

func (f *fakeLedger) Rules(context.Context, usher.EventID) (usher.Rules, []ledger.Tier, error) {
	if f.rules == nil {
		r := usher.DefaultRules("TWD")
		r.Sale = usher.SaleOpen
		return r, nil, nil
	}
	r, err := f.rules()
	return r, nil, err
}

func (f *fakeLedger) Quota(context.Context, usher.EventID) ([]ledger.BucketState, error) {
	return f.quota()
}

func (f *fakeLedger) Live(context.Context, usher.EventID) (ledger.Live, error) { return f.live() }

func (f *fakeLedger) do(c any) error {
	f.staff = append(f.staff, c)
	return f.refuse
}

func (f *fakeLedger) BlockSeats(_ context.Context, c ledger.BlockSeats) ([]usher.SeatID, error) {
	return c.Seats[:1], f.do(c)
}

func (f *fakeLedger) UnblockSeats(_ context.Context, c ledger.UnblockSeats) ([]usher.SeatID, error) {
	return nil, f.do(c)
}

func (f *fakeLedger) MoveCapacity(_ context.Context, c ledger.MoveCapacity) error { return f.do(c) }
func (f *fakeLedger) SetCapacity(_ context.Context, c ledger.SetCapacity) error   { return f.do(c) }

func (f *fakeLedger) StaffRelease(_ context.Context, c ledger.StaffRelease) (ledger.Hold, error) {
	return f.holds[c.Hold], f.do(c)
}

func (f *fakeLedger) CancelOrder(_ context.Context, c ledger.CancelOrder) (ledger.Order, error) {
	return f.orders[c.Order], f.do(c)
}

func (f *fakeLedger) Hold(_ context.Context, id usher.HoldID) (ledger.Hold, error) {
	if h, ok := f.holds[id]; ok {
		return h, nil
	}
	return ledger.Hold{}, usher.Errorf(usher.CodeNotFound, "hold %s is not in the table", id)
}

func (f *fakeLedger) ReleaseHold(_ context.Context, c ledger.ReleaseHold) (ledger.Hold, error) {
	if h, ok := f.holds[c.Hold]; ok && h.Account == c.Account {
		return h, nil
	}
	return ledger.Hold{}, usher.Errorf(usher.CodeNotFound, "hold %s is not in the table", c.Hold)
}

func (f *fakeLedger) Order(_ context.Context, id usher.OrderID) (ledger.Order, error) {
	if o, ok := f.orders[id]; ok {
		return o, nil
	}
	return ledger.Order{}, usher.Errorf(usher.CodeNotFound, "order %s is not in the table", id)
}

type fakeCheckout struct {
	checkout func(checkout.Request) (checkout.Result, error)
	webhook  func(provider string, h http.Header, body []byte) error
	// reconcile is set by the test of reconciliation.
	reconcile func(olderThan time.Duration, redrive bool) []checkout.ShardReport
}

func (f *fakeCheckout) ReconcileNow(_ context.Context, olderThan time.Duration, redrive bool) []checkout.ShardReport {
	return f.reconcile(olderThan, redrive)
}

func (f *fakeCheckout) Checkout(_ context.Context, r checkout.Request) (checkout.Result, error) {
	return f.checkout(r)
}

func (f *fakeCheckout) Returned(_ context.Context, _ usher.OrderID, _ usher.AccountID) (checkout.Result, error) {
	return checkout.Result{}, usher.Errorf(usher.CodeNotFound, "no such order")
}

func (f *fakeCheckout) Webhook(_ context.Context, provider string, h http.Header, body []byte) error {
	return f.webhook(provider, h, body)
}

type fakeRedemption struct {
	web.Redemption
	tickets []redemption.Ticket
	claim   func(redemption.Claim) (redemption.Redemption, error)
}

func (f *fakeRedemption) Device(_ context.Context, credential string) (redemption.Device, error) {
	if credential != gateKey {
		return redemption.Device{}, usher.Errorf(usher.CodeUnauthenticated, "the device credential is not valid")
	}
	return redemption.Device{ID: usher.NewDeviceID(event), Event: event, Name: "Gate"}, nil
}

func (f *fakeRedemption) Claim(_ context.Context, c redemption.Claim) (redemption.Redemption, error) {
	return f.claim(c)
}

func (f *fakeRedemption) Tickets(context.Context, usher.OrderID) ([]redemption.Ticket, error) {
	return f.tickets, nil
}

// lockedWriter lets the server's goroutines and the test share one log.
type lockedWriter struct {
	w *strings.Builder
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	logLock.Lock()
	defer logLock.Unlock()
	return l.w.Write(b)
}

func (w *world) logText() string {
	logLock.Lock()
	defer logLock.Unlock()
	return w.log.String()
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// code is the problem's code, or "".
func (a answer) code() usher.Code {
	var p web.Problem
	if json.Unmarshal([]byte(a.body), &p) != nil {
		return ""
	}
	return p.Code
}

func (a answer) detail() string {
	var p web.Problem
	if json.Unmarshal([]byte(a.body), &p) != nil {
		return ""
	}
	return p.Detail
}

// withoutID is the body without what names the request.
func (a answer) withoutID(t *testing.T) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(a.body), &m); err != nil {
		t.Fatalf("body %q is no object: %v", a.body, err)
	}
	delete(m, "requestId")
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return string(b)
}

// do sends one request; headers are name, value, name, value.
func (w *world) do(t *testing.T, method, path, token, body string, headers ...string) answer {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequest(method, w.URL+path, reader)
	if err != nil {
		t.Fatalf("make request: %v", err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read answer: %v", err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// someHold is a live hold of the account.
func someHold(a usher.AccountID) ledger.Hold {
	now := time.Date(2026, 12, 1, 10, 0, 0, 123_000_000, time.UTC)
	price := usher.Money{AmountMinor: 120000, Currency: "TWD"}
	return ledger.Hold{
		ID: usher.NewHoldID(event), Event: event, Account: a, Status: usher.HoldHeld, ExpiresAt: now.Add(5 * time.Minute),
		Seats: []ledger.Seat{{ID: "A-1", Tier: "floor", Price: price}}, Amount: price, CreatedAt: now, Now: now,
	}
}

// someOrder is an order of the account whose authorization is not known yet.
func someOrder(a usher.AccountID) ledger.Order {
	h := someHold(a)
	id := usher.NewOrderID(event)
	return ledger.Order{
		ID: id, Hold: h.ID, Event: event, Account: a, Status: usher.OrderPaymentPending, Amount: h.Amount, Seats: h.Seats,
		CreatedAt: h.Now, HoldExpiresAt: h.ExpiresAt, Now: h.Now,
		Authorization: &ledger.Operation{
			ID: usher.NewOperationID(event), Order: id, Event: event, Kind: usher.OperationAuthorize,
			Status: usher.OperationUnknown, Amount: h.Amount, MethodToken: "pm_secret", CreatedAt: h.Now, UpdatedAt: h.Now,
		},
	}
}

type fakeSeats struct {
	web.Seats
	// groups are handed out one call after the other.
	groups [][][]usher.SeatID
	asked  []seatmap.Wish
	tally  func() (map[usher.TierID]seatmap.Tally, error)
}

func (f *fakeSeats) Best(_ context.Context, _ usher.EventID, w seatmap.Wish, _, _ int) ([][]usher.SeatID, error) {
	f.asked = append(f.asked, w)
	if len(f.groups) == 0 {
		return nil, nil
	}
	next := f.groups[0]
	f.groups = f.groups[1:]
	return next, nil
}

func (f *fakeSeats) Tally(context.Context, usher.EventID) (map[usher.TierID]seatmap.Tally, error) {
	return f.tally()
}

func (f *fakeSeats) Chart(context.Context, usher.EventID) (*seatmap.Chart, error) {
	return seatmap.Club(), nil
}
