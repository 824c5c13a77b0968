package verify_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/audit"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		os.Exit(child())
	}
	// The parallel tests here wait for timeouts; they hardly use a processor.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	pgtest.Main(m)
}

// envScale multiplies the traffic; see the package comment.
const envScale = "USHER_VERIFY_SCALE"

func scale() int {
	if n, err := strconv.Atoi(os.Getenv(envScale)); err == nil && n > 0 {
		return n
	}
	return 1
}

const event = usher.EventID(70)

// hall is one event on a database of its own. Its ledger is the first process.
type hall struct {
	*ledger.Ledger
	t     testing.TB
	url   string
	homes *pg.Homes
}

func newHall(t testing.TB, seats int, adjust func(*usher.Rules)) *hall {
	t.Helper()
	return newHallOn(t, pgtest.Database(t), seats, adjust)
}

// newHallOn sets the event up in the database that the URL names.
func newHallOn(t testing.TB, url string, seats int, adjust func(*usher.Rules)) *hall {
	t.Helper()
	h := &hall{t: t, url: url, homes: openHomes(t, url)}
	h.Ledger = newLedger(h.homes)
	h.addEvent(event, seats, adjust)
	t.Cleanup(h.audit)
	return h
}

// addEvent sets an event up beside the others.
func (h *hall) addEvent(e usher.EventID, seats int, adjust func(*usher.Rules)) {
	h.t.Helper()
	h.exec(`INSERT INTO directory.event_home (event_id, shard) VALUES ($1, 1)`, e)
	rules := usher.DefaultRules("TWD")
	rules.Sale, rules.AdmissionRequired = usher.SaleOpen, false
	if adjust != nil {
		adjust(&rules)
	}
	setup := ledger.Setup{Event: e, Rules: rules, Tiers: []ledger.Tier{
		{ID: "gold", Name: "Gold", Price: usher.Money{AmountMinor: 320000, Currency: "TWD"}},
	}}
	for i := range seats {
		setup.Seats = append(setup.Seats, ledger.SeatSetup{ID: seatID(i), Tier: "gold"})
	}
	if err := h.SetUp(context.Background(), setup); err != nil {
		h.t.Fatalf("set up: %v", err)
	}
}

// newLedger has two groups of an event at once as soon as anything waits, so that a
// few callers find what a crowd would.
func newLedger(homes *pg.Homes) *ledger.Ledger {
	return ledger.New(homes, ledger.WithLog(slog.New(slog.DiscardHandler)), ledger.WithPairs(1))
}

func config(url string) pg.Config {
	return pg.Config{DirectoryURL: url, RoomURL: url, ShardURLs: map[pg.ShardNumber]string{1: url}, PoolSize: 8}
}

func openHomes(t testing.TB, url string) *pg.Homes {
	t.Helper()
	homes, err := pg.Open(t.Context(), config(url))
	if err != nil {
		t.Fatalf("open homes: %v", err)
	}
	t.Cleanup(homes.Close)
	return homes
}

// process returns another ledger on its own pools, as a second process would be.
func (h *hall) process() *ledger.Ledger { return h.through(h.url) }

// through is a process that reaches the database by another address.
func (h *hall) through(url string) *ledger.Ledger { return newLedger(openHomes(h.t, url)) }

func seatID(i int) usher.SeatID { return usher.SeatID(fmt.Sprintf("A-%03d", i)) }

func seatIDs(is ...int) []usher.SeatID {
	out := make([]usher.SeatID, len(is))
	for k, i := range is {
		out[k] = seatID(i)
	}
	return out
}

// in is the hall within a subtest.
func (h *hall) in(t testing.TB) *hall {
	sub := *h
	sub.t = t
	return &sub
}

// shard is a connection beside every ledger.
func (h *hall) shard() *pgxpool.Pool { return h.homes.Shards()[0].Pool }

func (h *hall) exec(sql string, args ...any) {
	h.t.Helper()
	if _, err := h.shard().Exec(context.Background(), sql, args...); err != nil {
		h.t.Fatalf("exec %q: %v", sql, err)
	}
}

// one reads one value.
func one[V any](h *hall, sql string, args ...any) (v V) {
	h.t.Helper()
	if err := h.shard().QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		h.t.Fatalf("query %q: %v", sql, err)
	}
	return v
}

func placing(a usher.AccountID, key string, seats ...usher.SeatID) ledger.PlaceHold {
	return ledger.PlaceHold{Event: event, Account: a, Seats: seats, Key: key}
}

func beginning(hold ledger.Hold, key string) ledger.BeginPayment {
	return ledger.BeginPayment{Hold: hold.ID, Account: hold.Account, Provider: "test", MethodToken: "pm_card_visa", Key: key}
}

func confirming(o ledger.Order) ledger.ConfirmOrder {
	return ledger.ConfirmOrder{Order: o.ID, Operation: o.Authorization.ID, Authorized: o.Amount}
}

func (h *hall) mustPlace(a usher.AccountID, key string, seats ...usher.SeatID) ledger.Hold {
	h.t.Helper()
	hold, err := h.PlaceHold(h.t.Context(), placing(a, key, seats...))
	if err != nil {
		h.t.Fatalf("place hold %v: %v", seats, err)
	}
	return hold
}

func (h *hall) mustBegin(hold ledger.Hold, key string) ledger.Order {
	h.t.Helper()
	o, started, err := h.BeginPayment(h.t.Context(), beginning(hold, key))
	if err != nil || !started {
		h.t.Fatalf("begin payment: started %v, %v", started, err)
	}
	return o
}

func (h *hall) mustConfirm(o ledger.Order) ledger.Order {
	h.t.Helper()
	out, err := h.ConfirmOrder(h.t.Context(), confirming(o))
	if err != nil {
		h.t.Fatalf("confirm: %v", err)
	}
	return out
}

// sqlExpireIn moves a hold's deadline, and its seats' with it, to a time from now.
const sqlExpireIn = `
WITH w AS (SELECT clock_timestamp() + make_interval(secs => $2) AS at),
	s AS (UPDATE seat_inventory SET hold_expires_at = w.at FROM w WHERE hold_id = $1)
UPDATE hold SET expires_at = w.at FROM w WHERE hold_id = $1`

func (h *hall) expireIn(hold ledger.Hold, d time.Duration) {
	h.t.Helper()
	h.exec(sqlExpireIn, hold.ID, d.Seconds())
}

func (h *hall) wantSeat(id usher.SeatID, status usher.SeatStatus, hold usher.HoldID) {
	h.t.Helper()
	var got usher.SeatStatus
	var owner *usher.HoldID
	err := h.shard().QueryRow(context.Background(), `SELECT status, hold_id FROM seat_inventory WHERE event_id = $1 AND seat_id = $2`, event, id).
		Scan(&got, &owner)
	if err != nil {
		h.t.Fatal(err)
	}
	if got != status || (owner == nil) != hold.IsZero() || owner != nil && *owner != hold {
		h.t.Errorf("seat %s is %s of %v, want %s of %v", id, got, owner, status, hold)
	}
}

func wantCode(t testing.TB, err error, code usher.Code) {
	t.Helper()
	if usher.CodeOf(err) != code {
		t.Fatalf("got %v, want %q", err, code)
	}
}

// audit ends every test.
func (h *hall) audit() {
	h.t.Helper()
	ro, err := pg.OpenReadOnly(context.Background(), config(h.url))
	if err != nil {
		h.t.Fatalf("open for audit: %v", err)
	}
	defer ro.Close()
	r, err := audit.Run(context.Background(), ro.Shards())
	if err != nil {
		h.t.Fatalf("audit: %v", err)
	}
	for _, c := range r.Checks {
		for _, v := range c.Violations {
			h.t.Errorf("audit: %s: %s: %s", c.Check, v.Subject, v.Detail)
		}
	}
}

// entries reads the whole outbox of an event.
func (h *hall) entries(e usher.EventID) (all []ledger.Entry) {
	h.t.Helper()
	for {
		more, err := h.Changes(context.Background(), e, int64(len(all)), 1000)
		if err != nil {
			h.t.Fatalf("read changes: %v", err)
		}
		if len(more) == 0 {
			return all
		}
		all = append(all, more...)
	}
}

// count is how many outbox entries of the type there are.
func (h *hall) count(kind ledger.EntryType) int {
	h.t.Helper()
	n := 0
	for _, e := range h.entries(event) {
		if e.Type == kind {
			n++
		}
	}
	return n
}

// blocked is how many sessions wait for a lock.
func (h *hall) blocked() int {
	h.t.Helper()
	return one[int](h, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}
