package ledger_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
)

// TestMain keeps model runs short by default; -rapid.checks asks for more.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "15"); err != nil {
		panic(err)
	}
	pgtest.Main(m)
}

const testEvent = usher.EventID(7)

// hall is one event on a fresh database, with as many ledgers (processes, as far
// as the database can tell) as a test wants.
type hall struct {
	t     testing.TB
	url   string
	homes *pg.Homes
	*ledger.Ledger
	pool *pgxpool.Pool
}

func newHall(t testing.TB, seats int, adjust func(*usher.Rules)) *hall {
	t.Helper()
	h := &hall{t: t, url: pgtest.Database(t)}
	h.homes = pgtest.Homes(t, h.url)
	h.Ledger = ledger.New(h.homes, ledger.WithLog(slog.New(slog.DiscardHandler)))
	h.exec(h.homes.Directory, `INSERT INTO event_home (event_id, shard) VALUES ($1, 1)`, testEvent)
	rules := usher.DefaultRules("TWD")
	rules.Sale, rules.AdmissionRequired = usher.SaleOpen, false
	if adjust != nil {
		adjust(&rules)
	}
	setup := ledger.Setup{Event: testEvent, Rules: rules, Tiers: []ledger.Tier{
		{ID: "gold", Name: "Gold", Price: usher.Money{AmountMinor: 320000, Currency: "TWD"}},
		{ID: "free", Name: "Free", Price: usher.Money{Currency: "TWD"}},
	}}
	for i := range seats {
		setup.Seats = append(setup.Seats, ledger.SeatSetup{ID: seatID(i), Tier: "gold"})
	}
	setup.Seats = append(setup.Seats, ledger.SeatSetup{ID: "F-1", Tier: "free"}, ledger.SeatSetup{ID: "F-2", Tier: "free"})
	if err := h.SetUp(t.Context(), setup); err != nil {
		t.Fatalf("set up: %v", err)
	}
	var err error
	if h.pool, err = h.homes.Shard(t.Context(), testEvent); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.checkReplay)
	return h
}

// process returns another ledger on its own pools, as a second process would be.
func (h *hall) process() *ledger.Ledger {
	return ledger.New(pgtest.Homes(h.t, h.url), ledger.WithLog(slog.New(slog.DiscardHandler)))
}

func seatID(i int) usher.SeatID { return usher.SeatID(fmt.Sprintf("A-%03d", i)) }

func seatIDs(is ...int) []usher.SeatID {
	out := make([]usher.SeatID, len(is))
	for k, i := range is {
		out[k] = seatID(i)
	}
	return out
}

func (h *hall) exec(pool *pgxpool.Pool, sql string, args ...any) {
	h.t.Helper()
	if _, err := pool.Exec(h.t.Context(), sql, args...); err != nil {
		h.t.Fatalf("exec %q: %v", sql, err)
	}
}

// scan reads one row of the shard.
func (h *hall) scan(sql string, dest ...any) {
	h.t.Helper()
	if err := h.pool.QueryRow(context.Background(), sql).Scan(dest...); err != nil {
		h.t.Fatalf("query %q: %v", sql, err)
	}
}

func (h *hall) place(account usher.AccountID, key string, seats ...usher.SeatID) (ledger.Hold, error) {
	return h.PlaceHold(h.t.Context(), ledger.PlaceHold{Event: testEvent, Account: account, Seats: seats, Key: key})
}

func (h *hall) mustPlace(account usher.AccountID, key string, seats ...usher.SeatID) ledger.Hold {
	h.t.Helper()
	hold, err := h.place(account, key, seats...)
	if err != nil {
		h.t.Fatalf("place hold %v: %v", seats, err)
	}
	return hold
}

func (h *hall) mustBegin(hold ledger.Hold, key string) ledger.Order {
	h.t.Helper()
	o, started, err := h.BeginPayment(h.t.Context(), ledger.BeginPayment{
		Hold: hold.ID, Account: hold.Account, Provider: "test", MethodToken: "pm_card_visa", Key: key,
	})
	if err != nil || !started {
		h.t.Fatalf("begin payment: started %v, %v", started, err)
	}
	return o
}

func (h *hall) confirm(o ledger.Order) (ledger.Order, error) {
	return h.ConfirmOrder(h.t.Context(), ledger.ConfirmOrder{Order: o.ID, Operation: o.Authorization.ID, Authorized: o.Amount})
}

func (h *hall) mustConfirm(o ledger.Order) ledger.Order {
	h.t.Helper()
	out, err := h.confirm(o)
	if err != nil {
		h.t.Fatalf("confirm: %v", err)
	}
	return out
}

// lapse moves a hold's deadline, and its seats' with it, into the past.
func (h *hall) lapse(hold ledger.Hold) {
	h.t.Helper()
	h.exec(h.pool, `UPDATE hold SET expires_at = clock_timestamp() - interval '1 second' WHERE hold_id = $1`, hold.ID)
	h.exec(h.pool, `UPDATE seat_inventory SET hold_expires_at = clock_timestamp() - interval '1 second' WHERE hold_id = $1`, hold.ID)
}

func (h *hall) wantSeat(id usher.SeatID, status usher.SeatStatus, hold usher.HoldID) {
	h.t.Helper()
	var got usher.SeatStatus
	var owner *usher.HoldID
	err := h.pool.QueryRow(h.t.Context(), `SELECT status, hold_id FROM seat_inventory WHERE event_id = $1 AND seat_id = $2`, testEvent, id).
		Scan(&got, &owner)
	if err != nil {
		h.t.Fatal(err)
	}
	if got != status || (owner == nil) != hold.IsZero() || owner != nil && *owner != hold {
		h.t.Errorf("seat %s is %s of %v, want %s of %v", id, got, owner, status, hold)
	}
}

func wantCode(t testing.TB, err error, code usher.Code) *usher.Error {
	t.Helper()
	if usher.CodeOf(err) != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	e, _ := err.(*usher.Error)
	return e
}

// checkReplay ends every test: replaying the outbox gives exactly today's seats,
// it has no holes, and every step of a seat follows the one before.
func (h *hall) checkReplay() {
	type pos struct {
		status  usher.SeatStatus
		version int64
		hold    usher.HoldID
	}
	ctx := context.Background()
	seats := map[usher.SeatID]pos{}
	var last int64
	for {
		entries, err := h.Changes(ctx, testEvent, last, 1000)
		if err != nil {
			h.t.Fatalf("read changes: %v", err)
		}
		if len(entries) == 0 {
			break
		}
		for _, e := range entries {
			if e.Seq != last+1 {
				h.t.Fatalf("outbox jumps from %d to %d", last, e.Seq)
			}
			last = e.Seq
			for _, c := range e.Payload.Seats {
				was, seen := seats[c.Seat]
				if !seen {
					was.status = usher.SeatAvailable
				}
				if was.status != c.From || c.Version != was.version+1 || !usher.CanMove(usher.SeatTransitions, c.From, c.To) {
					h.t.Fatalf("entry %d moves %s from %s (version %d), but it was %s (version %d)", e.Seq, c.Seat, c.From, c.Version-1, was.status, was.version)
				}
				seats[c.Seat] = pos{c.To, c.Version, c.Hold}
			}
		}
	}
	snap, err := h.Seats(ctx, testEvent)
	if err != nil {
		h.t.Fatalf("read seats: %v", err)
	}
	if snap.Seq != last {
		h.t.Errorf("ledger is at %d, its outbox ends at %d", snap.Seq, last)
	}
	for _, s := range snap.Seats {
		p, seen := seats[s.ID]
		if !seen {
			p.status = usher.SeatAvailable
		}
		if p.status != s.Status || p.version != s.Version {
			h.t.Errorf("seat %s is %s (version %d), replay says %s (version %d)", s.ID, s.Status, s.Version, p.status, p.version)
		}
	}
}
