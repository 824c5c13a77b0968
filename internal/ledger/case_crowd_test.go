package ledger_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"usher"
	"usher/internal/ledger"
)

// deadlocks is what the database itself has counted; ordered locks make it zero.
func (h *hall) deadlocks() (n int) {
	h.t.Helper()
	h.scan(`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`, &n)
	return n
}

// P09: many clients for the same three seats, named in all six orders, over two
// processes: exactly one whole group.
func TestSameThreeSeatsInEveryOrder(t *testing.T) {
	const clients = 600
	h := newHall(t, 3, nil)
	ledgers := []*ledger.Ledger{h.Ledger, h.process()}
	orders := [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	start := make(chan struct{})
	var wg sync.WaitGroup
	var won atomic.Int32
	for i := range clients {
		wg.Go(func() {
			<-start
			hold, err := ledgers[i%2].PlaceHold(context.Background(), ledger.PlaceHold{
				Event: testEvent, Account: usher.NewAccountID(), Seats: seatIDs(orders[i%6]...), Key: "k",
			})
			switch usher.CodeOf(err) {
			case "":
				won.Add(1)
				if len(hold.Seats) != 3 {
					t.Errorf("client %d holds %v", i, hold.Seats)
				}
			case usher.CodeSeatsUnavailable:
				if e := wantCode(t, err, usher.CodeSeatsUnavailable); len(e.Seats) != 3 {
					t.Errorf("client %d is told that %v are taken, want all three", i, e.Seats)
				}
			default:
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	close(start)
	wg.Wait()
	var holds, owners, held int
	h.scan(`SELECT count(*) FROM hold`, &holds)
	h.scan(`SELECT count(DISTINCT hold_id) FROM seat_inventory WHERE status = 'held'`, &owners)
	h.scan(`SELECT count(*) FROM seat_inventory WHERE status = 'held'`, &held)
	if won.Load() != 1 || holds != 1 || owners != 1 || held != 3 {
		t.Errorf("%d winners, %d holds, %d seats held by %d holds, want one whole group", won.Load(), holds, held, owners)
	}
	if n := h.deadlocks(); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// P97, while its buyer confirms: staff and buyer meet on one seat, and whoever
// commits first wins. A seat that is being paid for is never blocked, and its
// hold never taken from its buyer.
func TestStaffMeetsConfirm(t *testing.T) {
	h := newHall(t, 12, nil)
	other := h.process()
	for i := range 12 {
		hold := h.mustPlace(usher.NewAccountID(), "k", seatIDs(i)...)
		o := h.mustBegin(hold, "c")
		var wg sync.WaitGroup
		var confirmed, blocked, freed error
		wg.Go(func() { _, confirmed = h.confirm(o) })
		wg.Go(func() {
			_, blocked = other.BlockSeats(context.Background(), ledger.BlockSeats{Event: testEvent, Seats: seatIDs(i), By: staff})
		})
		wg.Go(func() {
			_, freed = other.StaffRelease(context.Background(), ledger.StaffRelease{Hold: hold.ID, By: staff})
		})
		wg.Wait()
		if confirmed != nil {
			t.Errorf("seat %d: its buyer is told %v", i, confirmed)
		}
		wantCode(t, blocked, usher.CodeSeatsUnavailable)
		if c := usher.CodeOf(freed); c != usher.CodeHoldPaymentPending && c != usher.CodeHoldEnded {
			t.Errorf("seat %d: releasing it answers %v", i, freed)
		}
		h.wantSeat(seatID(i), usher.SeatSold, hold.ID)
	}
	// Cancelling meets the capture that follows: one of them is told.
	for i := range 6 {
		o := h.order(h.owner(seatID(i)))
		var wg sync.WaitGroup
		var captured, cancelled error
		wg.Go(func() {
			_, captured = h.SettleCapture(context.Background(), ledger.SettleCapture{Order: o.ID, Operation: o.Capture.ID, Captured: true})
		})
		wg.Go(func() {
			_, cancelled = other.CancelOrder(context.Background(), ledger.CancelOrder{Order: o.ID, By: staff})
		})
		wg.Wait()
		if cancelled != nil || captured != nil && usher.CodeOf(captured) != usher.CodeStateConflict {
			t.Errorf("seat %d: cancel %v, capture %v", i, cancelled, captured)
		}
		h.wantSeat(seatID(i), usher.SeatAvailable, usher.HoldID{})
		// Whoever won, the money has one way back.
		h.operation(o.ID, usher.OperationVoid)
	}
}

// order reads the order of a hold.
func (h *hall) order(hold usher.HoldID) ledger.Order {
	h.t.Helper()
	var id usher.OrderID
	if err := h.pool.QueryRow(h.t.Context(), `SELECT order_id FROM orders WHERE hold_id = $1`, hold).Scan(&id); err != nil {
		h.t.Fatal(err)
	}
	o, err := h.Order(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return o
}
