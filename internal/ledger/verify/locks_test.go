package verify_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/pg/pgtest"
)

// lockRow keeps one row locked, as a slow process would, until free is called.
func (h *hall) lockRow(sql string, args ...any) (free func()) {
	h.t.Helper()
	tx, err := h.shard().Begin(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	_, err = tx.Exec(h.t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0`)
	if err == nil {
		_, err = tx.Exec(h.t.Context(), sql+` FOR NO KEY UPDATE`, args...)
	}
	if err != nil {
		h.t.Fatalf("lock row: %v", err)
	}
	free = func() { _ = tx.Rollback(context.Background()) }
	h.t.Cleanup(free)
	return free
}

const sqlOneSeat = `SELECT 1 FROM seat_inventory WHERE event_id = $1 AND seat_id = $2`

// later runs a call and returns the way to wait for its error.
func later(run func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- run() }()
	return func() error { return <-done }
}

// passes waits until a hold's deadline is over by the database's clock.
func (h *hall) passes(hold ledger.Hold) {
	h.t.Helper()
	pgtest.Until(h.t, "the deadline", func() bool {
		return one[bool](h, `SELECT expires_at < clock_timestamp() FROM hold WHERE hold_id = $1`, hold.ID)
	})
}

// A deadline that passes while the group waits for a lock has passed: the clock
// that decides is read after the wait.
func TestDeadlinePassesWhileWaiting(t *testing.T) {
	h := newHall(t, 4, func(r *usher.Rules) { r.PayMargin = 0 })
	hold := h.mustPlace(usher.NewAccountID(), "k", seatIDs(0, 1)...)
	h.expireIn(hold, 700*time.Millisecond)
	free := h.lockRow(sqlOneSeat, event, seatID(1))
	wait := later(func() error {
		_, _, err := h.BeginPayment(context.Background(), beginning(hold, "c"))
		return err
	})
	pgtest.Until(t, "the group's wait", func() bool { return h.blocked() > 0 })
	h.passes(hold)
	free()
	wantCode(t, wait(), usher.CodeHoldExpired)
	if _, err := h.ExpireHolds(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	h.wantSeat(seatID(0), usher.SeatAvailable, usher.HoldID{})
}

// What lapsed while the group waited may be taken over; its old expiry, later,
// frees nothing of its new owner.
func TestTakeoverThenOldExpiry(t *testing.T) {
	h := newHall(t, 4, nil)
	old := h.mustPlace(usher.NewAccountID(), "k", seatIDs(0, 1)...)
	h.expireIn(old, 700*time.Millisecond)
	// Another seat of the new hold keeps the group waiting: it is locked after A-000
	// and A-001, and the old hold was not due when the group began.
	free := h.lockRow(sqlOneSeat, event, seatID(2))
	b := usher.NewAccountID()
	var taken ledger.Hold
	wait := later(func() (err error) {
		taken, err = h.PlaceHold(context.Background(), placing(b, "k", seatIDs(0, 2)...))
		return err
	})
	pgtest.Until(t, "the group's wait", func() bool { return h.blocked() > 0 })
	h.passes(old)
	free()
	if err := wait(); err != nil {
		t.Fatalf("takeover: %v", err)
	}
	h.wantSeat(seatID(0), usher.SeatHeld, taken.ID)
	// The old hold is due still, in this process and in another.
	for _, l := range []*ledger.Ledger{h.process(), h.Ledger} {
		if _, err := l.ExpireHolds(t.Context(), event); err != nil {
			t.Fatal(err)
		}
	}
	h.wantSeat(seatID(0), usher.SeatHeld, taken.ID)
	h.wantSeat(seatID(1), usher.SeatAvailable, usher.HoldID{})
	if h.count(ledger.EntryHoldExpired) != 1 {
		t.Error("the old hold did not expire once")
	}
}

// paused makes the first group that is about to write wait; it returns how to
// see that it does, and how to let it go on.
func paused(t *testing.T) (reached <-chan struct{}, goOn func()) {
	at, on := make(chan struct{}), make(chan struct{})
	disarm := fault.Arm("ledger.before_write", 1, func(context.Context) error {
		close(at)
		<-on
		return nil
	})
	t.Cleanup(disarm)
	return at, func() { close(on) }
}

// Two processes take places for one account at the same moment: the second
// counts what the first decided, because it waits for the account's row.
func TestLimitIsCountedUnderTheLock(t *testing.T) {
	h := newHall(t, 8, func(r *usher.Rules) { r.PurchaseLimit = 3 })
	a := usher.NewAccountID()
	h.mustPlace(a, "first", seatID(7))
	reached, goOn := paused(t)
	first := later(func() error {
		_, err := h.PlaceHold(context.Background(), placing(a, "k1", seatIDs(0, 1)...))
		return err
	})
	<-reached
	other := h.process()
	answered := make(chan struct{})
	second := later(func() error {
		defer close(answered)
		_, err := other.PlaceHold(context.Background(), placing(a, "k2", seatIDs(2, 3)...))
		return err
	})
	pgtest.Until(t, "the second group's wait or answer", func() bool {
		select {
		case <-answered:
			return true
		default:
			return h.blocked() > 0
		}
	})
	goOn()
	if err := first(); err != nil {
		t.Errorf("first: %v", err)
	}
	wantCode(t, second(), usher.CodeLimitExceeded)
	if n := one[int](h, `SELECT sum(places) FROM hold WHERE account_id = $1 AND status = 'held'`, a); n != 3 {
		t.Errorf("the account holds %d places, the limit is 3", n)
	}
}

// Rows are locked in order of their keys: a group that waits for the first seat
// has none of the others, whatever order they were named in.
func TestSeatsAreLockedInOrder(t *testing.T) {
	h := newHall(t, 6, nil)
	for round := range 5 {
		free := h.lockRow(sqlOneSeat, event, seatID(0))
		a := usher.NewAccountID()
		var hold ledger.Hold
		wait := later(func() (err error) {
			hold, err = h.PlaceHold(context.Background(), placing(a, "k", seatIDs(5, 3, 1, 0, 4, 2)...))
			return err
		})
		pgtest.Until(t, "the group's wait", func() bool { return h.blocked() > 0 })
		rows, err := h.shard().Query(t.Context(), `SELECT seat_id FROM seat_inventory WHERE event_id = $1 ORDER BY seat_id FOR UPDATE SKIP LOCKED`, event)
		if err != nil {
			t.Fatal(err)
		}
		unlocked, err := pgx.CollectRows(rows, pgx.RowTo[usher.SeatID])
		if err != nil || !slices.Equal(unlocked, seatIDs(1, 2, 3, 4, 5)) {
			t.Errorf("round %d: while it waits for the first, only %v are unlocked (%v)", round, unlocked, err)
		}
		free()
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		if _, err := h.ReleaseHold(t.Context(), ledger.ReleaseHold{Hold: hold.ID, Account: a}); err != nil {
			t.Fatal(err)
		}
	}
}

// A group that was decided under an epoch that is over writes nothing; it is
// decided again under the new one.
func TestEpochFences(t *testing.T) {
	h := newHall(t, 4, nil)
	defer fault.Arm("ledger.before_write", 0, func(ctx context.Context) error {
		if fault.Passes("ledger.before_write") == 1 {
			h.exec(`UPDATE event_ledger SET epoch = epoch + 1`)
		}
		return nil
	})()
	h.mustPlace(usher.NewAccountID(), "k", seatID(0))
	if n := fault.Passes("ledger.before_write"); n != 2 {
		t.Errorf("the group was decided %d times, want 2", n)
	}
}
