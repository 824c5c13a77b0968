package web_test

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/checkout"
	"usher/internal/ledger"
	"usher/internal/seatmap"
	"usher/internal/waitingroom"
	"usher/internal/web"
)

// pressed is a server whose event 7 is under the pressure that a test sets, and
// whose reads of event 7 wait where the test wants.
type pressed struct {
	*world
	pressure atomic.Value
	read     func()
}

// slowLedger is the fake ledger whose reads of holds wait.
type slowLedger struct {
	*fakeLedger
	p *pressed
}

func (l slowLedger) Hold(ctx context.Context, id usher.HoldID) (ledger.Hold, error) {
	if id.Event() == event {
		l.p.read()
	}
	return l.fakeLedger.Hold(ctx, id)
}

func (l slowLedger) Changes(context.Context, usher.EventID, int64, int) ([]ledger.Entry, error) {
	return nil, nil
}

// pictures answer every snapshot and refuse streams in words of their own.
type pictures struct{ *fakeSeats }

func (pictures) Snapshot(context.Context, usher.EventID) (seatmap.Encoded, error) {
	return seatmap.Encoded{}, nil
}

func (pictures) Outsider(context.Context, usher.EventID) (seatmap.Encoded, error) {
	return seatmap.Encoded{}, nil
}

func (pictures) Subscribe(context.Context, usher.EventID, seatmap.Position) (*seatmap.Stream, error) {
	return nil, usher.Errorf(usher.CodeStateConflict, "no stream here")
}

func newPressed(t *testing.T) *pressed {
	t.Helper()
	p := &pressed{world: newWorld(t), read: func() {}}
	p.pressure.Store(0.0)
	p.reg = prometheus.NewRegistry()
	p.server = web.New(web.Config{PublicURL: "http://127.0.0.1", Version: "test", ReadsPerEvent: 2}, web.Deps{
		Accounts: p.accounts, Rooms: p.rooms, Ledger: slowLedger{p.ledger, p}, Checkout: p.checkout, Redemption: p.redeem,
		Seats: pictures{p.seats}, Charts: struct{ web.Charts }{}, Catalog: p.catalog,
		Pressure: func(e usher.EventID) float64 {
			if e != event {
				return 0
			}
			return p.pressure.Load().(float64)
		},
	}, slog.New(slog.DiscardHandler), p.reg)
	p.Server.Config.Handler = p.server
	return p
}

// shed reads usher_shed_total.
func (p *pressed) shed(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := p.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "usher_shed_total" {
			for _, m := range f.GetMetric() {
				out[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return out
}

// call is one request; a test says from which pressure on it is shed.
type call struct {
	what, method, path, token, body string
	from                            float64
}

func (p *pressed) calls(t *testing.T, e usher.EventID) []call {
	hold, order := someHold(alice), someOrder(alice)
	p.ledger.holds = map[usher.HoldID]ledger.Hold{hold.ID: hold}
	p.ledger.orders = map[usher.OrderID]ledger.Order{order.ID: order}
	p.ledger.placeHold = func(c ledger.PlaceHold) (ledger.Hold, error) { return someHold(c.Account), nil }
	p.ledger.quota = func() ([]ledger.BucketState, error) { return nil, nil }
	p.checkout.checkout = func(checkout.Request) (checkout.Result, error) { return checkout.Result{Order: order}, nil }
	p.rooms.join = func(usher.AccountID) (waitingroom.Ticket, error) { return waitingroom.Ticket{}, nil }
	p.seats.groups = [][][]usher.SeatID{{group("A", "B")}, {group("A", "B")}, {group("A", "B")}, {group("A", "B")}}
	const never = 2
	at := "/v1/events/" + e.String()
	return []call{
		{"stream", http.MethodGet, at + "/seats/stream", aliceToken, "", 0.5},
		{"best", http.MethodPost, at + "/holds", aliceToken, `{"best":{"quantity":2},"idempotencyKey":"k"}`, 0.5},
		{"admin", http.MethodGet, "/v1/admin" + at[3:] + "/quota", staffKey, "", 0.5},
		{"changes", http.MethodGet, at + "/changes", staffKey, "", 0.5},
		{"snapshot", http.MethodGet, at + "/seats", aliceToken, "", 0.75},
		{"hold", http.MethodPost, at + "/holds", aliceToken, `{"seatIds":["A"],"idempotencyKey":"k"}`, never},
		{"order status", http.MethodGet, "/v1/orders/" + order.ID.String(), aliceToken, "", never},
		{"own hold", http.MethodGet, "/v1/holds/" + hold.ID.String(), aliceToken, "", never},
		{"release", http.MethodDelete, "/v1/holds/" + hold.ID.String(), aliceToken, "", never},
		{"checkout", http.MethodPost, "/v1/holds/" + hold.ID.String() + "/checkout", aliceToken, `{"paymentMethodToken":"pm","idempotencyKey":"k"}`, never},
		{"join", http.MethodPost, at + "/queue", aliceToken, "", never},
		{"admin write", http.MethodPost, "/v1/admin" + at[3:] + "/seats/block", staffKey, `{"seatIds":["A"],"reason":"r"}`, never},
	}
}

// What is least missed is shed first; what completes a purchase never is, nor
// anything of another event.
func TestSheddingOrder(t *testing.T) {
	p := newPressed(t)
	want := map[string]float64{}
	for _, pressure := range []float64{0, 0.49, 0.5, 0.75, 1} {
		p.pressure.Store(pressure)
		for _, e := range []usher.EventID{event, event + 1} {
			for _, c := range p.calls(t, e) {
				a := p.do(t, c.method, c.path, c.token, c.body)
				shed := a.status == http.StatusServiceUnavailable
				if shed != (e == event && pressure >= c.from) || shed && (a.code() != usher.CodeUnavailable || a.header.Get("Retry-After") == "") {
					t.Errorf("%s of %s at pressure %v: %d %s", c.what, e, pressure, a.status, a.body)
				}
				if shed {
					want[c.what]++
				} else if a.status >= 500 {
					t.Errorf("%s of %s: %d %s", c.what, e, a.status, a.body)
				}
			}
		}
	}
	if got := p.shed(t); !maps.Equal(got, want) {
		t.Errorf("shed %v, want %v", got, want)
	}
}

// A suggestion is left out of a refusal when its event is pressed; the refusal stays.
func TestSuggestionIsShed(t *testing.T) {
	p := newPressed(t)
	p.calls(t, event)
	p.ledger.placeHold = func(ledger.PlaceHold) (ledger.Hold, error) {
		return ledger.Hold{}, &usher.Error{Code: usher.CodeSeatsUnavailable, Message: "taken", Seats: group("A")}
	}
	p.pressure.Store(0.6)
	a := p.do(t, http.MethodPost, holdsPath, aliceToken, `{"seatIds":["A"],"idempotencyKey":"k"}`)
	if a.status != http.StatusConflict || strings.Contains(a.body, "suggest") || p.shed(t)["suggestion"] != 1 {
		t.Errorf("%d %s, shed %v", a.status, a.body, p.shed(t))
	}
}

// Hundreds of reads of one event stand still. Two of them use the database; the
// others wait, and those of another event, and holds and joins of both, pass by.
func TestHotEventKeepsToItsBudget(t *testing.T) {
	const readers = 300
	p := newPressed(t)
	calls := p.calls(t, event)
	hot := someHold(alice)
	cold := hot
	cold.ID, cold.Event = usher.NewHoldID(event+1), event+1
	p.ledger.holds = map[usher.HoldID]ledger.Hold{hot.ID: hot, cold.ID: cold}
	var inside, most atomic.Int32
	reached, release := make(chan struct{}, readers), make(chan struct{})
	p.read = func() {
		n := inside.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		reached <- struct{}{}
		<-release
		inside.Add(-1)
	}
	var ok atomic.Int32
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			r := httptest.NewRequest(http.MethodGet, "/v1/holds/"+hot.ID.String(), nil)
			r.Header.Set("Authorization", "Bearer "+aliceToken)
			w := httptest.NewRecorder()
			p.server.ServeHTTP(w, r)
			_, _ = io.Copy(io.Discard, w.Body)
			if w.Code == http.StatusOK {
				ok.Add(1)
			}
		})
	}
	<-reached
	<-reached
	if a := p.do(t, http.MethodGet, "/v1/holds/"+cold.ID.String(), aliceToken, ""); a.status != http.StatusOK {
		t.Errorf("another event's hold: %d %s", a.status, a.body)
	}
	for _, c := range calls {
		if c.what == "hold" || c.what == "checkout" || c.what == "join" {
			if a := p.do(t, c.method, c.path, c.token, c.body); a.status >= 300 {
				t.Errorf("%s: %d %s", c.what, a.status, a.body)
			}
		}
	}
	close(release)
	wg.Wait()
	if most.Load() != 2 || ok.Load() != readers {
		t.Errorf("%d reads at once, %d of %d answered", most.Load(), ok.Load(), readers)
	}
}
