package ledger_test

import (
	"testing"

	"usher"
	"usher/internal/ledger"
)

// A decision that rests on "nothing was sent" is refused once something was, and
// accepted again when it rests on the provider's word.
func TestUnsentHoldsUnderTheLock(t *testing.T) {
	h := newHall(t, 4, nil)
	sent := func(o ledger.Order) {
		t.Helper()
		_, err := h.Operations().Learn(t.Context(), o.Authorization.ID, ledger.Learned{Reference: "pi_" + o.ID.String(), Sent: true})
		if err != nil {
			t.Fatal(err)
		}
	}
	hold := h.mustPlace(usher.NewAccountID(), "k", seatIDs(0)...)
	o := h.mustBegin(hold, "c")
	sent(o)
	_, err := h.FailPayment(t.Context(), ledger.FailPayment{Order: o.ID, Operation: o.Authorization.ID, Unsent: true})
	wantCode(t, err, usher.CodeStateConflict)
	h.wantSeat(seatID(0), usher.SeatPending, hold.ID)
	if _, err := h.FailPayment(t.Context(), ledger.FailPayment{Order: o.ID, Operation: o.Authorization.ID}); err != nil {
		t.Errorf("declined by the provider: %v", err)
	}

	hold = h.mustPlace(usher.NewAccountID(), "k", seatIDs(1)...)
	o = h.mustBegin(hold, "c")
	if _, err := h.VoidOrder(t.Context(), ledger.VoidOrder{Order: o.ID, Reason: "grace over"}); err != nil {
		t.Fatal(err)
	}
	sent(o)
	void := h.operation(o.ID, usher.OperationVoid)
	_, err = h.FinishVoid(t.Context(), ledger.FinishVoid{Order: o.ID, Operation: void, Unsent: true})
	wantCode(t, err, usher.CodeStateConflict)
	h.wantSeat(seatID(1), usher.SeatPending, hold.ID)
	if _, err := h.FinishVoid(t.Context(), ledger.FinishVoid{Order: o.ID, Operation: void}); err != nil {
		t.Errorf("given up by the provider: %v", err)
	}
	h.wantSeat(seatID(1), usher.SeatAvailable, usher.HoldID{})

	o = h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatIDs(2)...), "c")
	if _, err := h.FailPayment(t.Context(), ledger.FailPayment{Order: o.ID, Operation: o.Authorization.ID, Unsent: true}); err != nil {
		t.Errorf("nothing was sent: %v", err)
	}
	// From now on nothing can be sent either.
	_, err = h.Operations().Learn(t.Context(), o.Authorization.ID, ledger.Learned{Reference: "pi", Sent: true})
	wantCode(t, err, usher.CodeStateConflict)
}
