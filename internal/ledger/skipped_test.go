package ledger_test

import (
	"context"
	"testing"

	"usher"
	"usher/internal/ledger"
)

// A row that somebody keeps locked is skipped in the end. An order or a payment
// operation that was skipped is not taken for one that does not exist: the command is
// busy, nothing of it is done, and once the row is free it has its one effect.
func TestSkippedRowsAreNotMissing(t *testing.T) {
	type world struct {
		*hall
		hold ledger.Hold
		o    ledger.Order
	}
	const operations, orders = `SELECT 1 FROM payment_operation FOR NO KEY UPDATE`, `SELECT 1 FROM orders FOR NO KEY UPDATE`
	pending := func(h *hall) world {
		hold := h.mustPlace(usher.NewAccountID(), "k", seatID(0))
		return world{h, hold, h.mustBegin(hold, "c")}
	}
	confirmed := func(h *hall) world {
		w := pending(h)
		w.o = h.mustConfirm(w.o)
		return w
	}
	declined := func(h *hall) world {
		w := pending(h)
		if _, err := h.FailPayment(h.t.Context(), ledger.FailPayment{Order: w.o.ID, Operation: w.o.Authorization.ID}); err != nil {
			h.t.Fatal(err)
		}
		return w
	}
	voiding := func(h *hall) world {
		w := pending(h)
		o, err := h.VoidOrder(h.t.Context(), ledger.VoidOrder{Order: w.o.ID, Reason: "left"})
		if err != nil {
			h.t.Fatal(err)
		}
		w.o = o
		return w
	}
	confirm := func(w world) error { _, err := w.confirm(w.o); return err }
	begin := func(w world) error {
		_, _, err := w.BeginPayment(context.Background(), ledger.BeginPayment{Hold: w.hold.ID, Account: w.hold.Account, Provider: "test", MethodToken: "m", Key: "d"})
		return err
	}
	// after is the order, its newest operation and its hold once the command was run again.
	for name, c := range map[string]struct {
		begins func(*hall) world
		locked string
		run    func(world) error
		code   usher.Code
		after  string
	}{
		"confirm": {pending, operations, confirm, "", "confirmed capture confirmed"},
		"confirm of another amount": {pending, operations, func(w world) error {
			_, err := w.ConfirmOrder(context.Background(), ledger.ConfirmOrder{Order: w.o.ID, Operation: w.o.Authorization.ID, Authorized: usher.Money{AmountMinor: 1, Currency: "TWD"}})
			return err
		}, usher.CodePaymentMismatch, "voiding void payment_pending"},
		"void": {pending, operations, func(w world) error {
			_, err := w.VoidOrder(context.Background(), ledger.VoidOrder{Order: w.o.ID, Reason: "left"})
			return err
		}, "", "voiding void payment_pending"},
		"decline": {pending, operations, func(w world) error {
			_, err := w.FailPayment(context.Background(), ledger.FailPayment{Order: w.o.ID, Operation: w.o.Authorization.ID})
			return err
		}, "", "declined authorize held"},
		"cancel": {confirmed, operations, func(w world) error {
			_, err := w.CancelOrder(context.Background(), ledger.CancelOrder{Order: w.o.ID, By: staff})
			return err
		}, "", "cancelled void confirmed"},
		"capture": {confirmed, operations, func(w world) error {
			_, err := w.SettleCapture(context.Background(), ledger.SettleCapture{Order: w.o.ID, Operation: w.o.Capture.ID, Captured: true})
			return err
		}, "", "confirmed capture confirmed"},
		"end of a void": {voiding, `SELECT 1 FROM payment_operation WHERE kind = 'authorize' FOR NO KEY UPDATE`, func(w world) error {
			var void usher.OperationID
			w.scan(`SELECT operation_id FROM payment_operation WHERE kind = 'void'`, &void)
			_, err := w.FinishVoid(context.Background(), ledger.FinishVoid{Order: w.o.ID, Operation: void})
			return err
		}, "", "voided void released"},
		"checkout while one is under way": {pending, orders, begin, "", "payment_pending authorize payment_pending"},
		"checkout of what is bought":      {confirmed, orders, begin, "", "confirmed capture confirmed"},
		"checkout after a decline":        {declined, orders, begin, "", "payment_pending authorize payment_pending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := c.begins(newHall(t, 2, nil))
			before := w.fate()
			release := w.keep(c.locked)
			wantCode(t, c.run(w), usher.CodeBusy)
			release()
			if got := w.fate(); got != before {
				t.Errorf("busy, but %q became %q", before, got)
			}
			if err := c.run(w); usher.CodeOf(err) != c.code {
				t.Errorf("once the row is free: %v, want %q", err, c.code)
			}
			if got := w.fate(); got != c.after {
				t.Errorf("afterwards %q, want %q", got, c.after)
			}
		})
	}
	t.Run("a lapsed hold with a declined order", func(t *testing.T) {
		t.Parallel()
		w := declined(newHall(t, 2, nil))
		w.lapse(w.hold)
		release := w.keep(orders)
		if n, err := w.ExpireHolds(t.Context(), testEvent); n != 0 || err != nil {
			t.Errorf("%d freed, %v; the order is locked", n, err)
		}
		release()
		if n, err := w.ExpireHolds(t.Context(), testEvent); n != 1 || err != nil {
			t.Errorf("%d freed, %v", n, err)
		}
		if got := w.fate(); got != "lapsed authorize expired" {
			t.Errorf("afterwards %q", got)
		}
	})
}

// fate is the one order's status, its newest operation's kind, and its hold's status.
func (h *hall) fate() (fate string) {
	h.t.Helper()
	h.scan(`SELECT o.status || ' ' || (SELECT kind FROM payment_operation p WHERE p.order_id = o.order_id ORDER BY created_at DESC, operation_id DESC LIMIT 1) || ' ' || h.status
		FROM orders o JOIN hold h USING (hold_id)`, &fate)
	return fate
}
