package ledger_test

import (
	"context"
	"sync"
	"testing"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/pg/pgtest"
)

// The answer to a COMMIT is lost: the caller hears what that run decided, and what it
// did is done once, also where no key says that a command comes again.
func TestLostAnswers(t *testing.T) {
	h := newHall(t, 6, nil)
	lose := func(run func()) {
		t.Helper()
		defer fault.Arm("ledger.after_commit", 1, fault.Fail)()
		run()
	}
	var moved []usher.SeatID
	var err error
	lose(func() {
		moved, err = h.BlockSeats(t.Context(), ledger.BlockSeats{Event: testEvent, Seats: seatIDs(0, 1), By: staff})
	})
	if len(moved) != 2 || err != nil {
		t.Errorf("two seats were blocked: told %v, %v", moved, err)
	}
	var hold ledger.Hold
	lose(func() { hold, err = h.place(usher.NewAccountID(), "k", seatID(2)) })
	if err != nil || hold.Replayed {
		t.Fatalf("hold: %+v, %v", hold, err)
	}
	var o ledger.Order
	var started bool
	lose(func() {
		o, started, err = h.BeginPayment(t.Context(), ledger.BeginPayment{Hold: hold.ID, Account: hold.Account, Provider: "test", MethodToken: "m", Key: "c"})
	})
	if err != nil || !started {
		t.Fatalf("this call began the payment: told %v, %v", started, err)
	}
	lose(func() {
		_, err = h.ConfirmOrder(t.Context(), ledger.ConfirmOrder{Order: o.ID, Operation: o.Authorization.ID, Authorized: usher.Money{AmountMinor: 1, Currency: "TWD"}})
	})
	wantCode(t, err, usher.CodePaymentMismatch)
}

// Free places are moved once though the answer is lost; no key tells the two runs apart.
func TestMovedOnceThoughAnswerIsLost(t *testing.T) {
	h := newField(t, 10, 2, nil)
	defer fault.Arm("ledger.after_commit", 1, fault.Fail)()
	err := h.MoveCapacity(t.Context(), ledger.MoveCapacity{Event: fieldEvent, Tier: "lawn", From: 1, To: 2, Quantity: 2, By: staff})
	if free, _ := h.quota(); err != nil || free[0] != 3 || free[1] != 7 {
		t.Errorf("5 and 5, two moved once: %v, %v", free, err)
	}
}

// gather runs the commands as one group of the event, and waits for them.
func (h *hall) gather(event usher.EventID, commands ...func()) {
	h.t.Helper()
	reached, goOn := make(chan struct{}), make(chan struct{})
	defer fault.Arm("ledger.after_commit", 1, func(context.Context) error { close(reached); <-goOn; return nil })()
	var all sync.WaitGroup
	all.Go(func() { _, _ = h.ExpireHolds(context.Background(), event) })
	<-reached
	for _, c := range commands {
		all.Go(c)
	}
	pgtest.Until(h.t, "the commands wait", func() bool { return h.Waiting(event) == len(commands) })
	close(goOn)
	all.Wait()
}

// An order whose seat was taken from it by hand cannot be confirmed. Those who share a
// group with it hear nothing of that.
func TestDamagedOrder(t *testing.T) {
	h := newHall(t, 30, nil)
	damaged := h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatID(0)), "c")
	good := h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatID(1)), "c")
	h.exec(h.pool, `UPDATE seat_inventory SET hold_id = gen_random_uuid() WHERE seat_id = 'A-000'`)
	var errs [3]error
	h.gather(testEvent,
		func() { _, errs[0] = h.confirm(damaged) },
		func() { _, errs[1] = h.confirm(good) },
		func() { _, errs[2] = h.place(usher.NewAccountID(), "k", seatID(2)) })
	if errs[0] == nil || usher.CodeOf(errs[0]) != usher.CodeInternal || errs[1] != nil || errs[2] != nil {
		t.Errorf("the damaged one: %v; the others: %v, %v", errs[0], errs[1], errs[2])
	}
	h.exec(h.pool, `UPDATE seat_inventory SET hold_id = (SELECT hold_id FROM orders WHERE order_id = seat_inventory.order_id) WHERE seat_id = 'A-000'`)
}

// A lapsed hold whose places nothing counts cannot be ended. The event goes on without.
func TestDamagedHold(t *testing.T) {
	h := newField(t, 10, 1, nil)
	damaged, err := h.field(h.Ledger, usher.NewAccountID(), "k", lawn(2))
	if err != nil {
		t.Fatal(err)
	}
	h.exec(h.pool, `UPDATE inventory_bucket SET held = 1, available = 9`)
	h.lapse(damaged)
	if _, err := h.field(h.Ledger, usher.NewAccountID(), "s", nil, seatID(1)); err != nil {
		t.Errorf("a hold of a seat: %v", err)
	}
	if n, err := h.ExpireHolds(t.Context(), fieldEvent); n != 0 || err != nil {
		t.Errorf("%d freed, %v", n, err)
	}
	h.exec(h.pool, `UPDATE inventory_bucket SET held = 2, available = 8`)
	if n, err := h.ExpireHolds(t.Context(), fieldEvent); n != 1 || err != nil {
		t.Errorf("%d freed once the bucket is right, %v", n, err)
	}
}

// A failover loses a price version, and the next one gets its number: a process that
// has seen the lost one sells at the price that is there.
func TestPricesAfterFailover(t *testing.T) {
	h := newHall(t, 4, nil)
	tiers := func(amount int64) []ledger.Tier {
		return []ledger.Tier{
			{ID: "gold", Name: "Gold", Price: usher.Money{AmountMinor: amount, Currency: "TWD"}},
			{ID: "free", Name: "Free", Price: usher.Money{Currency: "TWD"}},
		}
	}
	if err := h.SetPrices(t.Context(), testEvent, tiers(100)); err != nil {
		t.Fatal(err)
	}
	// The process sees the version that will be lost.
	if _, err := h.BlockSeats(t.Context(), ledger.BlockSeats{Event: testEvent, Seats: seatIDs(3), By: staff}); err != nil {
		t.Fatal(err)
	}
	for _, lost := range []string{
		`DELETE FROM price_version WHERE price_version = 2`, `UPDATE event_rules SET price_version = 1`,
		`DELETE FROM outbox`, `UPDATE seat_inventory SET version = 0, status = 'available'`,
		`UPDATE event_ledger SET epoch = epoch + 1, rules_version = rules_version - 1, seq = 0`,
	} {
		h.exec(h.pool, lost)
	}
	if err := h.process().SetPrices(t.Context(), testEvent, tiers(900000)); err != nil {
		t.Fatal(err)
	}
	if got := h.mustPlace(usher.NewAccountID(), "k", seatID(1)); got.Amount.AmountMinor != 900000 {
		t.Errorf("sold at %v, the price is 9000.00", got.Amount)
	}
}
