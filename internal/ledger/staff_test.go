package ledger_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/ledger"
)

var staff = ledger.Staff{Operator: usher.NewOperatorID(), Reason: "broken chair"}

// P97: blocked, held and sold seats meet each other in staff work.
func TestBlockSeats(t *testing.T) {
	h := newHall(t, 10, nil)
	held := h.mustPlace(usher.NewAccountID(), "k", seatIDs(0)...)
	h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatIDs(1)...), "c")
	h.mustConfirm(h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatIDs(2)...), "c"))
	_, err := h.BlockSeats(t.Context(), ledger.BlockSeats{Event: testEvent, Seats: seatIDs(0, 1, 2, 3), By: staff})
	if e := wantCode(t, err, usher.CodeSeatsUnavailable); !slices.Equal(e.Seats, seatIDs(0, 1, 2)) {
		t.Errorf("names %v", e.Seats)
	}
	h.wantSeat(seatID(3), usher.SeatAvailable, usher.HoldID{})
	// Every answer names what it changed, and nothing else.
	for _, tc := range []struct{ seats, moved []usher.SeatID }{{seatIDs(3), seatIDs(3)}, {seatIDs(4, 3), seatIDs(4)}, {seatIDs(3, 4), nil}} {
		moved, err := h.BlockSeats(t.Context(), ledger.BlockSeats{Event: testEvent, Seats: tc.seats, By: staff})
		if err != nil || !slices.Equal(moved, tc.moved) {
			t.Fatalf("blocking %v changed %v, want %v (%v)", tc.seats, moved, tc.moved, err)
		}
	}
	_, err = h.place(usher.NewAccountID(), "k", seatIDs(4, 5)...)
	wantCode(t, err, usher.CodeSeatsUnavailable)
	h.lapse(held)
	if _, err := h.BlockSeats(t.Context(), ledger.BlockSeats{Event: testEvent, Seats: seatIDs(0), By: staff}); err != nil {
		t.Errorf("a lapsed seat: %v", err)
	}
	for _, want := range [][]usher.SeatID{seatIDs(0, 3, 4), nil} {
		moved, err := h.UnblockSeats(t.Context(), ledger.UnblockSeats{Event: testEvent, Seats: seatIDs(0, 2, 3, 4, 9), By: staff})
		if err != nil || !slices.Equal(moved, want) {
			t.Fatalf("unblocking changed %v, want %v (%v)", moved, want, err)
		}
	}
	h.wantSeat(seatID(2), usher.SeatSold, h.owner(seatID(2)))
	h.mustPlace(usher.NewAccountID(), "k", seatIDs(3, 4)...)
	for name, c := range map[string]ledger.BlockSeats{
		"no reason":    {Event: testEvent, Seats: seatIDs(5), By: ledger.Staff{Operator: staff.Operator}},
		"no operator":  {Event: testEvent, Seats: seatIDs(5), By: ledger.Staff{Reason: "x"}},
		"no seats":     {Event: testEvent, By: staff},
		"a seat twice": {Event: testEvent, Seats: seatIDs(5, 6, 5), By: staff},
	} {
		if _, err := h.BlockSeats(t.Context(), c); usher.CodeOf(err) != usher.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = h.BlockSeats(t.Context(), ledger.BlockSeats{Event: testEvent, Seats: []usher.SeatID{"Z"}, By: staff})
	wantCode(t, err, usher.CodeSeatUnknown)
	entries, err := h.Changes(t.Context(), testEvent, 0, 100)
	if err != nil || !slices.ContainsFunc(entries, func(e ledger.Entry) bool {
		return e.Type == ledger.EntrySeatsBlocked && strings.Contains(e.Cause, staff.Operator.String()) && strings.Contains(e.Cause, staff.Reason)
	}) {
		t.Errorf("the outbox does not say who blocked and why: %+v, %v", entries, err)
	}
}

func (h *hall) owner(id usher.SeatID) (hold usher.HoldID) {
	h.t.Helper()
	if err := h.pool.QueryRow(h.t.Context(), `SELECT hold_id FROM seat_inventory WHERE seat_id = $1`, id).Scan(&hold); err != nil {
		h.t.Fatal(err)
	}
	return hold
}

// A seat that is blocked while its buyer holds it: whoever commits first wins,
// and the other is told.
func TestBlockMeetsHold(t *testing.T) {
	h := newHall(t, 30, nil)
	other := h.process()
	for i := range 30 {
		var wg sync.WaitGroup
		var blockErr, holdErr error
		wg.Go(func() {
			_, blockErr = other.BlockSeats(context.Background(), ledger.BlockSeats{Event: testEvent, Seats: seatIDs(i), By: staff})
		})
		wg.Go(func() { _, holdErr = h.place(usher.NewAccountID(), "k", seatIDs(i)...) })
		wg.Wait()
		if (blockErr == nil) == (holdErr == nil) {
			t.Fatalf("seat %d: block %v, hold %v", i, blockErr, holdErr)
		}
	}
}

func TestStaffRelease(t *testing.T) {
	h := newHall(t, 10, nil)
	hold := h.mustPlace(usher.NewAccountID(), "k", seatIDs(0)...)
	out, err := h.StaffRelease(t.Context(), ledger.StaffRelease{Hold: hold.ID, By: staff})
	if err != nil || out.Status != usher.HoldReleased {
		t.Fatalf("%+v, %v", out, err)
	}
	h.wantSeat(seatID(0), usher.SeatAvailable, usher.HoldID{})
	paying := h.mustPlace(usher.NewAccountID(), "k", seatIDs(1)...)
	h.mustBegin(paying, "c")
	_, err = h.StaffRelease(t.Context(), ledger.StaffRelease{Hold: paying.ID, By: staff})
	wantCode(t, err, usher.CodeHoldPaymentPending)
	_, err = h.StaffRelease(t.Context(), ledger.StaffRelease{Hold: usher.NewHoldID(testEvent), By: staff})
	wantCode(t, err, usher.CodeNotFound)
}

// fakeCodes are the codes of orders in another package.
type fakeCodes struct {
	refuse bool
	voided []usher.OrderID
}

func (*fakeCodes) LockCodes(*pgx.Batch, []usher.OrderID, bool, func(usher.OrderID)) {}

func (c *fakeCodes) VoidCodes(_ context.Context, _ pgx.Tx, orders []usher.OrderID) error {
	if c.refuse {
		return errors.New("codes cannot be voided")
	}
	c.voided = append(c.voided, orders...)
	return nil
}

// P20, P29: a cancelled order gives back exactly its seats and its money, its
// account may buy that many again, and no capture follows.
func TestCancelOrder(t *testing.T) {
	h := newHall(t, 10, func(r *usher.Rules) { r.PurchaseLimit = 2 })
	codes := &fakeCodes{}
	l := ledger.New(h.homes, ledger.WithLog(slog.New(slog.DiscardHandler)), ledger.WithCodes(codes))
	a := usher.NewAccountID()
	uncaptured := h.mustConfirm(h.mustBegin(h.mustPlace(a, "k1", seatIDs(0)...), "c1"))
	captured := h.mustConfirm(h.mustBegin(h.mustPlace(a, "k2", seatIDs(1)...), "c2"))
	if _, err := h.SettleCapture(t.Context(), ledger.SettleCapture{Order: captured.ID, Operation: captured.Capture.ID, Captured: true}); err != nil {
		t.Fatal(err)
	}
	_, err := h.place(a, "k3", seatIDs(2)...)
	wantCode(t, err, usher.CodeLimitExceeded)

	// Codes and order go together: if the codes cannot be voided, nothing is cancelled.
	codes.refuse = true
	if _, err := l.CancelOrder(t.Context(), ledger.CancelOrder{Order: captured.ID, By: staff}); err == nil {
		t.Fatal("cancelled without its codes")
	}
	h.wantSeat(seatID(1), usher.SeatSold, captured.Hold)
	codes.refuse = false
	for _, o := range []ledger.Order{uncaptured, captured} {
		for range 2 {
			out, err := l.CancelOrder(t.Context(), ledger.CancelOrder{Order: o.ID, By: staff})
			if err != nil || out.Status != usher.OrderCancelled {
				t.Fatalf("%+v, %v", out, err)
			}
		}
	}
	if !slices.Equal(codes.voided, []usher.OrderID{uncaptured.ID, captured.ID}) {
		t.Errorf("voided the codes of %v", codes.voided)
	}
	h.wantSeat(seatID(0), usher.SeatAvailable, usher.HoldID{})
	_, err = l.SettleCapture(t.Context(), ledger.SettleCapture{Order: uncaptured.ID, Operation: uncaptured.Capture.ID, Captured: true})
	wantCode(t, err, usher.CodeStateConflict)
	for _, o := range []ledger.Order{uncaptured, captured} {
		if _, err := l.FinishVoid(t.Context(), ledger.FinishVoid{Order: o.ID, Operation: h.operation(o.ID, usher.OperationVoid)}); err != nil {
			t.Fatal(err)
		}
	}
	// Whoever looks the order up sees each of its payment's steps, the way back too.
	whole, err := h.Order(t.Context(), captured.ID)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []usher.OperationKind
	for _, op := range whole.Operations {
		kinds = append(kinds, op.Kind)
	}
	if !slices.Equal(kinds, []usher.OperationKind{usher.OperationAuthorize, usher.OperationCapture, usher.OperationVoid}) {
		t.Errorf("the order shows %v", kinds)
	}
	for o, want := range map[usher.OrderID]usher.OperationStatus{uncaptured.ID: usher.OperationFailed, captured.ID: usher.OperationReversed} {
		if got, err := h.Order(t.Context(), o); err != nil || got.Capture.Status != want || got.Authorization.Status != usher.OperationReversed {
			t.Errorf("%+v, %v", got, err)
		}
	}
	h.mustPlace(a, "k4", seatIDs(0, 1)...)
	pending := h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatIDs(3)...), "c")
	_, err = l.CancelOrder(t.Context(), ledger.CancelOrder{Order: pending.ID, By: staff})
	wantCode(t, err, usher.CodeStateConflict)
}
