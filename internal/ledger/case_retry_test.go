package ledger_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg/pgproxy"
	"usher/internal/pg/pgtest"
)

// P56, checkout and confirmation: what PostgreSQL aborts once is run again, and
// what it aborts every time is "busy"; the same command afterwards has one effect.
func TestAbortedCompletions(t *testing.T) {
	h := newHall(t, 40, nil)
	proxy := pgproxy.Start(t, h.url)
	l := ledger.New(pgtest.Homes(t, proxy.URL()), ledger.WithLog(slog.New(slog.DiscardHandler)))
	seat := 0
	for name, sql := range map[string]string{
		"lock seats":  "FROM seat_inventory WHERE event_id = $1 AND seat_id = k.id",
		"write seats": "INSERT INTO seat_inventory",
		"write order": "INSERT INTO orders",
		"fence":       "UPDATE event_ledger SET seq",
		"commit":      "commit",
	} {
		for _, state := range []string{"40P01", "40001"} {
			t.Run(name+" "+state, func(t *testing.T) {
				hold := h.mustPlace(usher.NewAccountID(), "k", seatID(seat))
				begin := func() (ledger.Order, bool, error) {
					return l.BeginPayment(t.Context(), ledger.BeginPayment{Hold: hold.ID, Account: hold.Account, Provider: "test", MethodToken: "pm", Key: "c"})
				}
				o, _ := aborted(t, proxy, sql, state, func() (ledger.Order, error) { o, _, err := begin(); return o, err })
				if again, started, err := begin(); err != nil || started || again.ID != o.ID {
					t.Errorf("the same checkout again: %+v, %v, %v", again, started, err)
				}
				aborted(t, proxy, sql, state, func() (ledger.Order, error) {
					return l.ConfirmOrder(t.Context(), ledger.ConfirmOrder{Order: o.ID, Operation: o.Authorization.ID, Authorized: o.Amount})
				})
				h.wantSeat(seatID(seat), usher.SeatSold, hold.ID)
				var captures int
				h.scan(fmt.Sprintf(`SELECT count(*) FROM payment_operation WHERE kind = 'capture' AND order_id = '%x'`, o.ID[:]), &captures)
				if captures != 1 {
					t.Errorf("%d captures", captures)
				}
				seat++
			})
		}
	}
	if n := h.deadlocks(); n != 0 {
		t.Errorf("%d deadlocks besides those that were injected", n)
	}
}

// aborted runs a command while its statement is aborted every time, which has to
// end as busy, and then while it is aborted once, which nobody notices.
func aborted(t *testing.T, proxy *pgproxy.Proxy, sql, state string, command func() (ledger.Order, error)) (ledger.Order, error) {
	t.Helper()
	f := proxy.Arm(sql, 0, pgproxy.Refuse(state))
	_, err := command()
	f.Disarm()
	wantCode(t, err, usher.CodeBusy)
	f = proxy.Arm(sql, 1, pgproxy.Refuse(state))
	o, err := command()
	f.Disarm()
	if err != nil || f.Fired() != 1 {
		t.Fatalf("aborted once: %v; fired %d times", err, f.Fired())
	}
	return o, err
}

// P59: columns are added and widened while traffic flows. What was prepared before
// is prepared again: no command hears of it, and a read at most once, as "try
// again".
func TestMigrationUnderTraffic(t *testing.T) {
	h := newHall(t, 60, func(r *usher.Rules) { r.PendingPerAccountMax = 100 })
	ledgers := []*ledger.Ledger{h.Ledger, h.process()}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var bought atomic.Int32
	for w := range 6 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := buyAndCancel(ledgers[w%2], seatIDs(10*w+i%10)); err != nil {
					t.Errorf("worker %d: %v", w, err)
					return
				}
				bought.Add(1)
			}
		})
	}
	for _, ddl := range []string{
		`ALTER TABLE seat_inventory ADD COLUMN note text`,
		`ALTER TABLE hold ADD COLUMN note text NOT NULL DEFAULT ''`,
		`ALTER TABLE order_line ALTER COLUMN line TYPE integer`,
		`ALTER TABLE hold ALTER COLUMN price_version TYPE bigint`,
		`ALTER TABLE payment_operation ALTER COLUMN attempts TYPE bigint`,
		`ALTER TABLE event_ledger ALTER COLUMN rules_version TYPE bigint`,
		`ALTER TABLE hold ALTER COLUMN places TYPE bigint`,
	} {
		before := bought.Load()
		pgtest.Until(t, "traffic before "+ddl, func() bool { return bought.Load() > before+6 || t.Failed() })
		h.exec(h.pool, ddl)
	}
	before := bought.Load()
	pgtest.Until(t, "traffic afterwards", func() bool { return bought.Load() > before+12 || t.Failed() })
	close(stop)
	wg.Wait()
}

// P59: a migration that rewrites a table leaves it empty for snapshots that are
// older. An order that is there is not denied for it.
func TestReadAcrossARewrite(t *testing.T) {
	h := newHall(t, 2, nil)
	proxy := pgproxy.Start(t, h.url)
	l := ledger.New(pgtest.Homes(t, proxy.URL()), ledger.WithLog(slog.New(slog.DiscardHandler)))
	for i, table := range []string{"orders", "hold"} {
		o := h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatID(i)), "c")
		if _, err := l.Order(t.Context(), o.ID); err != nil {
			t.Fatal(err)
		}
		f := proxy.Arm("FROM "+table+" WHERE "+strings.TrimSuffix(table, "s")+"_id", 1, pgproxy.Delay(time.Second))
		var got ledger.Order
		var err error
		var reading sync.WaitGroup
		reading.Go(func() { got, err = l.Order(t.Context(), o.ID) })
		pgtest.Until(t, "the read of "+table, func() bool { return f.Fired() == 1 })
		h.exec(h.pool, `ALTER TABLE `+table+` ALTER COLUMN created_at TYPE timestamptz USING created_at + interval '0'`)
		reading.Wait()
		f.Disarm()
		if err != nil || got.ID != o.ID {
			t.Errorf("read while %s was rewritten: %+v, %v", table, got, err)
		}
	}
	if _, err := l.Order(t.Context(), usher.NewOrderID(testEvent)); usher.CodeOf(err) != usher.CodeNotFound {
		t.Errorf("no such order: %v", err)
	}
}

// buyAndCancel takes a seat the whole way and gives it back.
func buyAndCancel(l *ledger.Ledger, seats []usher.SeatID) error {
	ctx := context.Background()
	hold, err := l.PlaceHold(ctx, ledger.PlaceHold{Event: testEvent, Account: usher.NewAccountID(), Seats: seats, Key: "k"})
	if err != nil {
		return fmt.Errorf("hold: %w", err)
	}
	o, _, err := l.BeginPayment(ctx, ledger.BeginPayment{Hold: hold.ID, Account: hold.Account, Provider: "test", MethodToken: "pm", Key: "c"})
	if err != nil {
		return fmt.Errorf("checkout: %w", err)
	}
	if _, err := l.Operations().Learn(ctx, o.Authorization.ID, ledger.Learned{Reference: "pi_" + o.ID.String(), Sent: true}); err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	if o, err = l.ConfirmOrder(ctx, ledger.ConfirmOrder{Order: o.ID, Operation: o.Authorization.ID, Authorized: o.Amount}); err != nil {
		return fmt.Errorf("confirm: %w", err)
	}
	_, err = l.Order(ctx, o.ID)
	if usher.CodeOf(err) == usher.CodeUnavailable {
		_, err = l.Order(ctx, o.ID)
	}
	if err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	if _, err := l.CancelOrder(ctx, ledger.CancelOrder{Order: o.ID, By: staff}); err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return nil
}
