package ledger_test

import (
	"testing"
	"time"

	"usher"
	"usher/internal/ledger"
)

// ruleChange is one row of the table in docs/rules.md: what happens to a rule,
// and what hold, checkout and confirmation then answer ("" is yes).
type ruleChange struct {
	name                    string
	change                  func(*hall, usher.AccountID) error
	hold, checkout, confirm usher.Code
}

func withRules(change func(*usher.Rules)) func(*hall, usher.AccountID) error {
	return func(h *hall, _ usher.AccountID) error {
		_, err := h.ChangeRules(h.t.Context(), testEvent, change)
		return err
	}
}

var past = time.Now().Add(-time.Hour)

var ruleChanges = []ruleChange{
	{"sale paused", withRules(func(r *usher.Rules) { r.Sale = usher.SalePaused }), usher.CodeSaleNotOpen, "", ""},
	{"sale window over", withRules(func(r *usher.Rules) { r.SaleClosesAt = &past }), usher.CodeSaleClosed, "", ""},
	{"sale closed", withRules(func(r *usher.Rules) { r.Sale = usher.SaleClosed }), usher.CodeSaleClosed, "", ""},
	{"event cancelled", withRules(func(r *usher.Rules) { r.Sale = usher.SaleCancelled }),
		usher.CodeEventCancelled, usher.CodeEventCancelled, usher.CodeEventCancelled},
	{"tier withdrawn", func(h *hall, _ usher.AccountID) error {
		return h.SetPrices(h.t.Context(), testEvent, []ledger.Tier{
			{ID: "gold", Name: "Gold", Price: usher.Money{AmountMinor: 320000, Currency: "TWD"}, Withdrawn: true},
			{ID: "free", Name: "Free", Price: usher.Money{Currency: "TWD"}},
		})
	}, usher.CodeSeatsUnavailable, "", ""},
	{"limit lowered", withRules(func(r *usher.Rules) { r.PurchaseLimit = 1 }),
		usher.CodeLimitExceeded, usher.CodeLimitExceeded, usher.CodeLimitExceeded},
	{"account blocked", func(h *hall, a usher.AccountID) error { return h.BlockAccount(h.t.Context(), testEvent, a, true) },
		usher.CodeAccountBlocked, usher.CodeAccountBlocked, usher.CodeAccountBlocked},
}

// P17: one set of rules at hold, checkout and confirmation, as it is written
// down: a rule that changes in between is met at the next point, and what is
// refused at the last one is never sold.
func TestRulesChangeBetweenThePoints(t *testing.T) {
	for _, tc := range ruleChanges {
		t.Run(tc.name, func(t *testing.T) {
			h := newHall(t, 10, nil)
			a := usher.NewAccountID()
			paying := h.mustBegin(h.mustPlace(a, "paying", seatIDs(0, 1)...), "c")
			held := h.mustPlace(a, "held", seatIDs(2)...)
			if err := tc.change(h, a); err != nil {
				t.Fatal(err)
			}
			_, err := h.place(a, "late", seatIDs(4, 5)...)
			wantCode(t, err, tc.hold)
			o, _, err := h.BeginPayment(t.Context(), ledger.BeginPayment{Hold: held.ID, Account: a, Provider: "test", MethodToken: "pm", Key: "c2"})
			wantCode(t, err, tc.checkout)
			if err == nil && o.Amount != held.Amount {
				t.Errorf("asked to pay %v for a hold at %v", o.Amount, held.Amount)
			}
			_, err = h.confirm(paying)
			wantCode(t, err, tc.confirm)
			h.afterConfirm(paying, tc.confirm == "")
		})
	}
}

// afterConfirm wants the order sold at what it was begun at, or its authorization
// given up and its seats back, never both.
func (h *hall) afterConfirm(o ledger.Order, sold bool) {
	h.t.Helper()
	now, err := h.Order(h.t.Context(), o.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	if sold {
		if now.Status != usher.OrderConfirmed || now.Amount != o.Amount {
			h.t.Errorf("order %+v", now)
		}
		h.wantSeat(seatID(0), usher.SeatSold, o.Hold)
		return
	}
	h.wantSeat(seatID(0), usher.SeatPending, o.Hold)
	if now.Status != usher.OrderVoiding {
		h.t.Errorf("order %+v", now)
	}
	if _, err := h.FinishVoid(h.t.Context(), ledger.FinishVoid{Order: o.ID, Operation: h.operation(o.ID, usher.OperationVoid)}); err != nil {
		h.t.Fatal(err)
	}
	h.wantSeat(seatID(0), usher.SeatAvailable, usher.HoldID{})
}

// P14, the hold: whatever its buyer does, the deadline stays, and the grace is
// given once.
func TestNothingMovesTheDeadline(t *testing.T) {
	h := newHall(t, 10, nil)
	a := usher.NewAccountID()
	first := h.mustPlace(a, "k", seatIDs(0, 1)...)
	same := func(step string) {
		t.Helper()
		now, err := h.Hold(t.Context(), first.ID)
		if err != nil || !now.ExpiresAt.Equal(first.ExpiresAt) {
			t.Errorf("%s: the deadline is %v, was %v, %v", step, now.ExpiresAt, first.ExpiresAt, err)
		}
	}
	for range 5 {
		if again := h.mustPlace(a, "k", seatIDs(1, 0)...); !again.Replayed || again.ID != first.ID || !again.ExpiresAt.Equal(first.ExpiresAt) {
			t.Errorf("repeat with the same key: %+v", again)
		}
	}
	same("repeated")
	_, err := h.place(a, "k", seatIDs(0, 1, 2)...)
	wantCode(t, err, usher.CodeIdempotencyKeyReused)
	_, err = h.place(a, "k2", seatIDs(0, 1, 2)...)
	wantCode(t, err, usher.CodeSeatsUnavailable)
	h.mustPlace(a, "k3", seatIDs(3)...)
	same("a seat more, as a hold of its own")

	// The challenge is given up and begun again, twice.
	var grace time.Time
	for i, key := range []string{"c1", "c2", "c3"} {
		o := h.mustBegin(first, key)
		if i == 0 {
			grace = *o.GraceUntil
		}
		if !o.GraceUntil.Equal(grace) || !o.HoldExpiresAt.Equal(first.ExpiresAt) {
			t.Errorf("attempt %d: deadline %v, grace %v, want %v and %v", i, o.HoldExpiresAt, o.GraceUntil, first.ExpiresAt, grace)
		}
		if _, err := h.FailPayment(t.Context(), ledger.FailPayment{Order: o.ID, Operation: o.Authorization.ID, ProviderCode: "abandoned"}); err != nil {
			t.Fatal(err)
		}
		same(key)
	}
}

// P13: a sold seat stays sold, whatever its old deadline says and however often.
func TestExpiryAfterTheSale(t *testing.T) {
	h := newHall(t, 4, nil)
	hold := h.mustPlace(usher.NewAccountID(), "k", seatIDs(0, 1)...)
	h.mustConfirm(h.mustBegin(hold, "c"))
	// A sold seat has no deadline any more; the schema would not let it have one.
	h.exec(h.pool, `UPDATE hold SET expires_at = clock_timestamp() - interval '1 second' WHERE hold_id = $1`, hold.ID)
	before := len(h.entryTypes())
	for range 5 {
		if n, err := h.ExpireHolds(t.Context(), testEvent); n != 0 || err != nil {
			t.Errorf("an old message freed %d, %v", n, err)
		}
	}
	h.wantSeat(seatID(0), usher.SeatSold, hold.ID)
	h.wantSeat(seatID(1), usher.SeatSold, hold.ID)
	if after := len(h.entryTypes()); after != before {
		t.Errorf("%d entries were published for messages that did nothing", after-before)
	}
}
