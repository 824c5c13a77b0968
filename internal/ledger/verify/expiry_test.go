package verify_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/pg/pgtest"
)

// permutations returns every order of n things.
func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var out [][]int
	for _, p := range permutations(n - 1) {
		for at := range n {
			q := append(append(append([]int{}, p[:at]...), n-1), p[at:]...)
			out = append(out, q)
		}
	}
	return out
}

// Expiry messages that come early, twice, for another event, from many processes
// or for holds that are over change nothing but what is due.
func TestExpiryMessages(t *testing.T) {
	h := newHall(t, 12, func(r *usher.Rules) { r.PendingPerAccountMax = 100 })
	h.addEvent(event+1, 2, nil)
	a := usher.NewAccountID
	live, due := h.mustPlace(a(), "k", seatIDs(0, 1)...), h.mustPlace(a(), "k", seatIDs(2, 3)...)
	paying := h.mustBegin(h.mustPlace(a(), "k", seatID(4)), "c")
	sold := h.mustConfirm(h.mustBegin(h.mustPlace(a(), "k", seatID(5)), "c"))
	released := h.mustPlace(a(), "k", seatID(6))
	if _, err := h.ReleaseHold(t.Context(), ledger.ReleaseHold{Hold: released.ID, Account: released.Account}); err != nil {
		t.Fatal(err)
	}
	next := h.mustPlace(a(), "k", seatID(6))
	ledgers := []*ledger.Ledger{h.Ledger, h.process(), h.process()}
	send := func(e usher.EventID) (freed int) {
		t.Helper()
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				n, err := ledgers[i%len(ledgers)].ExpireHolds(context.Background(), e)
				if err != nil {
					t.Errorf("message: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				freed = max(freed, n)
			})
		}
		wg.Wait()
		return freed
	}
	before := len(h.entries(event))
	if n := send(event); n != 0 || len(h.entries(event)) != before {
		t.Errorf("early messages freed %d holds", n)
	}
	// Deadlines of holds that are being paid for or have ended are nobody's business.
	for _, hold := range []usher.HoldID{due.ID, paying.Hold, released.ID} {
		h.expireIn(ledger.Hold{ID: hold}, -time.Second)
	}
	h.exec(`UPDATE hold SET expires_at = clock_timestamp() - interval '1 second' WHERE hold_id = $1`, sold.Hold)
	if n := send(event + 1); n != 0 || len(h.entries(event)) != before {
		t.Errorf("messages of another event freed %d holds", n)
	}
	if n := send(event); n != 1 || len(h.entries(event)) != before+1 || h.count(ledger.EntryHoldExpired) != 1 {
		t.Errorf("messages freed %d holds at once, want 1", n)
	}
	for i, want := range []struct {
		status usher.SeatStatus
		hold   usher.HoldID
	}{
		{usher.SeatHeld, live.ID}, {usher.SeatHeld, live.ID}, {usher.SeatAvailable, usher.HoldID{}}, {usher.SeatAvailable, usher.HoldID{}},
		{usher.SeatPending, paying.Hold}, {usher.SeatSold, sold.Hold}, {usher.SeatHeld, next.ID},
	} {
		h.wantSeat(seatID(i), want.status, want.hold)
	}
}

// With no message and a sweeper that dies each time, lapsed seats are sold to
// the next buyer all the same, and lapsed places do not count for the limit.
func TestNobodyExpires(t *testing.T) {
	h := newHall(t, 6, func(r *usher.Rules) { r.PurchaseLimit = 6 })
	defer fault.Arm("expiry.before_group", 0, fault.Fail)()
	ctx, cancel := context.WithCancel(t.Context())
	var sweeper sync.WaitGroup
	sweeper.Go(func() { _ = h.process().RunSweeper(ctx) })
	defer sweeper.Wait()
	defer cancel()
	a := usher.NewAccountID()
	for i := range 4 {
		hold := h.mustPlace(a, fmt.Sprint("k", i), seatIDs(0, 1, 2, 3, 4, 5)...)
		h.expireIn(hold, 0)
		snap, err := h.Hold(t.Context(), hold.ID)
		if err != nil || snap.Status != usher.HoldExpired {
			t.Errorf("hold %d reads %s, %v", i, snap.Status, err)
		}
	}
	pgtest.Until(t, "the sweeper's death", func() bool { return fault.Passes("expiry.before_group") > 0 })
	h.mustConfirm(h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatIDs(0, 1, 2, 3, 4, 5)...), "c"))
}

// P12: A held the seat and was paying, lost it, and B has it. Then A's late
// success, A's clean-up and A's old expiry arrive, in every order, whether B has
// paid or is paying, and however A lost the seat. The seat stays B's.
func TestLateNewsOfAFormerHolder(t *testing.T) {
	h := newHall(t, 24, nil)
	late := h.process()
	seat := 0
	for _, lost := range []string{"door closed", "declined past the deadline"} {
		for _, bought := range []bool{true, false} {
			for _, order := range permutations(3) {
				t.Run(fmt.Sprintf("%s, B bought %v, %v", lost, bought, order), func(t *testing.T) {
					h.in(t).lateNews(late, seatID(seat), lost == "door closed", bought, order)
					seat++
				})
			}
		}
	}
}

func (h *hall) lateNews(late *ledger.Ledger, seat usher.SeatID, closed, bought bool, order []int) {
	t, ctx := h.t, h.t.Context()
	holdA := h.mustPlace(usher.NewAccountID(), "k", seat)
	a := h.mustBegin(holdA, "c")
	h.expireIn(holdA, 0)
	void, err := h.loses(ctx, a, closed)
	if err != nil {
		t.Fatalf("A loses the seat: %v", err)
	}
	holdB := h.mustPlace(usher.NewAccountID(), "k", seat)
	b := h.mustBegin(holdB, "c")
	if bought {
		b = h.mustConfirm(b)
	}
	for _, what := range order {
		switch what {
		case 0:
			// A closed door says so; a failed attempt is a conflict or a closed order.
			_, err := late.ConfirmOrder(ctx, confirming(a))
			wantCode(t, err, usher.CodeOrderClosed)
		case 1:
			_, err := late.ReleaseHold(ctx, ledger.ReleaseHold{Hold: holdA.ID, Account: holdA.Account})
			wantCode(t, err, "")
			_, err = late.VoidOrder(ctx, ledger.VoidOrder{Order: a.ID, Reason: "clean-up"})
			if closed {
				wantCode(t, err, "")
				_, err = late.FinishVoid(ctx, ledger.FinishVoid{Order: a.ID, Operation: void})
				wantCode(t, err, "")
			} else {
				wantCode(t, err, usher.CodeStateConflict)
			}
		case 2:
			n, err := late.ExpireHolds(ctx, event)
			if err != nil || n != 0 {
				t.Errorf("old expiry freed %d, %v", n, err)
			}
		}
	}
	want := usher.SeatPending
	if bought {
		want = usher.SeatSold
	}
	h.wantSeat(seat, want, holdB.ID)
	if n := one[int](h, `SELECT count(*) FROM payment_operation WHERE order_id = $1 AND kind = 'void'`, a.ID); closed && n != 1 || !closed && n != 0 {
		t.Errorf("A's authorization is given up %d times", n)
	}
	if n := one[int](h, `SELECT count(*) FROM payment_operation WHERE order_id = $1 AND kind = 'void'`, b.ID); n != 0 {
		t.Errorf("B's authorization is given up %d times", n)
	}
	if out, err := h.Order(ctx, a.ID); err != nil || out.ConfirmedAt != nil {
		t.Errorf("A's order %+v, %v", out, err)
	}
}

// loses frees the seats of an order that is being paid for: through the closed
// door, or because its payment failed past the deadline.
func (h *hall) loses(ctx context.Context, o ledger.Order, closed bool) (void usher.OperationID, err error) {
	if !closed {
		_, err = h.FailPayment(ctx, ledger.FailPayment{Order: o.ID, Operation: o.Authorization.ID})
		return void, err
	}
	if _, err = h.VoidOrder(ctx, ledger.VoidOrder{Order: o.ID, Reason: "grace over"}); err != nil {
		return void, err
	}
	if void, err = voidOf(ctx, h.Ledger, o.ID); err != nil {
		return void, err
	}
	_, err = h.FinishVoid(ctx, ledger.FinishVoid{Order: o.ID, Operation: void})
	return void, err
}
