package checkout_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/checkout"
	"usher/internal/ledger"
	"usher/internal/payment"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
	"usher/internal/work"
)

// TestMain lets more tests run at once than there are processors: most of their
// time they wait for a look-up to come due.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	pgtest.Main(m)
}

const (
	event = usher.EventID(7)
	price = int64(320000)
	// waitMax bounds every wait of a test; reaching it is a failure.
	waitMax = 30 * time.Second
)

// shop is one event on a fresh database with a checkout on it.
type shop struct {
	t testing.TB
	*checkout.Checkout
	url    string
	homes  *pg.Homes
	ledger *ledger.Ledger
	runner *work.Runner
	pool   *pgxpool.Pool
	seats  atomic.Int32
	stop   func()
}

// openShop sets an event up. The runner does not run until start.
func openShop(t testing.TB, p payment.Provider, edit func(*checkout.Config)) *shop {
	t.Helper()
	url := pgtest.Database(t)
	s := &shop{t: t, url: url, homes: openHomes(t, url, 16)}
	s.pool = s.homes.Shards()[0].Pool
	s.exec(s.homes.Directory, `INSERT INTO event_home (event_id, shard) VALUES ($1, 1)`, event)
	s.join(p, edit)
	rules := usher.DefaultRules("TWD")
	rules.Sale, rules.AdmissionRequired, rules.PendingPerAccountMax = usher.SaleOpen, false, 6
	setup := ledger.Setup{Event: event, Rules: rules, Tiers: []ledger.Tier{
		{ID: "gold", Name: "Gold", Price: usher.Money{AmountMinor: price, Currency: "TWD"}},
		{ID: "free", Name: "Free", Price: usher.Money{Currency: "TWD"}},
	}, Seats: []ledger.SeatSetup{{ID: "F-1", Tier: "free"}, {ID: "F-2", Tier: "free"}}}
	for i := range 400 {
		setup.Seats = append(setup.Seats, ledger.SeatSetup{ID: seatID(i), Tier: "gold"})
	}
	if err := s.ledger.SetUp(t.Context(), setup); err != nil {
		t.Fatalf("set up: %v", err)
	}
	return s
}

func openHomes(t testing.TB, url string, size int) *pg.Homes {
	t.Helper()
	homes, err := pg.Open(t.Context(), pg.Config{DirectoryURL: url, RoomURL: url, ShardURLs: map[pg.ShardNumber]string{1: url}, PoolSize: size})
	if err != nil {
		t.Fatalf("open homes: %v", err)
	}
	t.Cleanup(homes.Close)
	return homes
}

// join makes a checkout with a ledger and a runner of its own, as a process has.
func (s *shop) join(p payment.Provider, edit func(*checkout.Config)) {
	s.t.Helper()
	log := slog.New(slog.DiscardHandler)
	s.ledger = ledger.New(s.homes, ledger.WithLog(log))
	s.runner = work.NewRunner(log, prometheus.NewRegistry())
	cfg := checkout.Config{Homes: s.homes, Ledger: s.ledger, Runner: s.runner, Providers: []payment.Provider{p}, Log: log,
		Registerer: prometheus.NewRegistry(), Poll: 200 * time.Millisecond,
		ReturnURL: func(o usher.OrderID) string { return "http://shop.example/orders/" + o.String() }}
	if edit != nil {
		edit(&cfg)
	}
	var err error
	if s.Checkout, err = checkout.New(cfg); err != nil {
		s.t.Fatalf("new checkout: %v", err)
	}
}

// start runs the worker and the loops of checkout until the test ends, or stop.
func (s *shop) start() *shop {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.runner.Run(ctx) })
	wg.Go(func() { _ = s.Run(ctx) })
	var once sync.Once
	s.stop = func() { once.Do(func() { cancel(); wg.Wait() }) }
	s.t.Cleanup(s.stop)
	return s
}

func seatID(i int) usher.SeatID { return usher.SeatID(fmt.Sprintf("A-%03d", i)) }

func (s *shop) exec(pool *pgxpool.Pool, sql string, args ...any) {
	s.t.Helper()
	if _, err := pool.Exec(context.Background(), sql, args...); err != nil {
		s.t.Fatalf("exec %q: %v", sql, err)
	}
}

// hold places a hold on n fresh seats of a fresh account.
func (s *shop) hold(n int) ledger.Hold {
	s.t.Helper()
	var seats []usher.SeatID
	for range n {
		seats = append(seats, seatID(int(s.seats.Add(1))-1))
	}
	return s.holdSeats(seats...)
}

func (s *shop) holdSeats(seats ...usher.SeatID) ledger.Hold {
	s.t.Helper()
	h, err := s.ledger.PlaceHold(context.Background(), ledger.PlaceHold{Event: event, Account: usher.NewAccountID(), Seats: seats, Key: "hold"})
	if err != nil {
		s.t.Fatalf("place hold: %v", err)
	}
	return h
}

func (s *shop) pay(h ledger.Hold, token, key string) (checkout.Result, error) {
	return s.Checkout.Checkout(context.Background(), checkout.Request{Hold: h.ID, Account: h.Account, MethodToken: token, Key: key})
}

func (s *shop) mustPay(h ledger.Hold, token, key string) checkout.Result {
	s.t.Helper()
	r, err := s.pay(h, token, key)
	if err != nil {
		s.t.Fatalf("checkout: %v", err)
	}
	return r
}

func (s *shop) order(id usher.OrderID) ledger.Order {
	s.t.Helper()
	o, err := s.ledger.Order(context.Background(), id)
	if err != nil {
		s.t.Fatalf("read order: %v", err)
	}
	return o
}

// until waits for the order to be as wanted and returns it.
func (s *shop) until(id usher.OrderID, what string, ok func(ledger.Order) bool) ledger.Order {
	s.t.Helper()
	var o ledger.Order
	eventually(s.t, func() string {
		return fmt.Sprintf("order %s: it is %s, authorization %+v, capture %+v", what, o.Status, o.Authorization, o.Capture)
	}, func() bool { o = s.order(id); return ok(o) })
	return o
}

func (s *shop) untilCaptured(id usher.OrderID) ledger.Order {
	s.t.Helper()
	return s.until(id, "captured", func(o ledger.Order) bool { return o.Status == usher.OrderConfirmed && o.CapturedAt != nil })
}

func (s *shop) untilStatus(id usher.OrderID, want usher.OrderStatus) ledger.Order {
	s.t.Helper()
	return s.until(id, string(want), func(o ledger.Order) bool { return o.Status == want })
}

func eventually(t testing.TB, what func() string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.After(waitMax)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("did not happen: %s", what())
		}
	}
}

// age moves everything the order's deadlines and ages are judged by into the past.
func (s *shop) age(o ledger.Order, by time.Duration) {
	s.t.Helper()
	secs := by.Seconds()
	s.exec(s.pool, `UPDATE hold SET expires_at = expires_at - make_interval(secs => $2), grace_until = grace_until - make_interval(secs => $2)
		WHERE hold_id = $1`, o.Hold, secs)
	s.exec(s.pool, `UPDATE seat_inventory SET hold_expires_at = hold_expires_at - make_interval(secs => $2) WHERE hold_id = $1`, o.Hold, secs)
	s.exec(s.pool, `UPDATE payment_operation SET created_at = created_at - make_interval(secs => $2), sent_at = sent_at - make_interval(secs => $2),
		next_at = CASE WHEN next_at IS NOT NULL THEN clock_timestamp() END WHERE order_id = $1`, o.ID, secs)
}

// graceOver is how far an order has to age for its door to close.
const graceOver = 7*time.Minute + time.Second

// wantSeats checks the state of every seat of the hold.
func (s *shop) wantSeats(h ledger.Hold, want usher.SeatStatus) {
	s.t.Helper()
	for _, seat := range h.Seats {
		var got usher.SeatStatus
		err := s.pool.QueryRow(context.Background(), `SELECT status FROM seat_inventory WHERE event_id = $1 AND seat_id = $2`, event, seat.ID).Scan(&got)
		if err != nil {
			s.t.Fatal(err)
		}
		if got != want {
			s.t.Errorf("seat %s is %s, want %s", seat.ID, got, want)
		}
	}
}

// count reads one number from the shard.
func (s *shop) count(sql string, args ...any) int {
	s.t.Helper()
	var n int
	if err := s.pool.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		s.t.Fatalf("query %q: %v", sql, err)
	}
	return n
}

// operations counts the order's operations of a kind.
func (s *shop) operations(o usher.OrderID, kind usher.OperationKind) int {
	s.t.Helper()
	return s.count(`SELECT count(*) FROM payment_operation WHERE order_id = $1 AND kind = $2`, o, string(kind))
}

// deliver posts a message of the fake provider.
func (s *shop) deliver(m message) error {
	body, err := json.Marshal(m)
	if err != nil {
		s.t.Error(err)
	}
	return s.Webhook(context.Background(), "fake", http.Header{"Signature": {"good"}}, body)
}

func (s *shop) mustDeliver(m message) {
	s.t.Helper()
	if err := s.deliver(m); err != nil {
		s.t.Fatalf("webhook: %v", err)
	}
}

// untilWorked waits until every stored message is done.
func (s *shop) untilWorked() {
	s.t.Helper()
	eventually(s.t, func() string { return "all provider messages worked" }, func() bool {
		return s.count(`SELECT count(*) FROM provider_event WHERE next_at IS NOT NULL OR lease_until > clock_timestamp()`) == 0
	})
}

func wantCode(t testing.TB, err error, code usher.Code) {
	t.Helper()
	if usher.CodeOf(err) != code {
		t.Fatalf("got %v, want %s", err, code)
	}
}

func wantStatus(t testing.TB, r checkout.Result, o usher.OrderStatus, p checkout.PaymentStatus, next checkout.ActionType) {
	t.Helper()
	if r.Order.Status != o || r.PaymentStatus != p || r.NextAction.Type != next {
		t.Errorf("order is %s, payment %s, next %s; want %s, %s, %s", r.Order.Status, r.PaymentStatus, r.NextAction.Type, o, p, next)
	}
}

type ledgerOrder = ledger.Order

// voidOrder closes the door from outside, as cancelling an event does.
func (s *shop) voidOrder(id usher.OrderID) {
	s.t.Helper()
	if _, err := s.ledger.VoidOrder(context.Background(), ledger.VoidOrder{Order: id, Reason: "event_cancelled"}); err != nil {
		s.t.Fatalf("void order: %v", err)
	}
}
