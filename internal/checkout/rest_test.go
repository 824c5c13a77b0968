package checkout_test

import (
	"context"
	"testing"
	"time"

	"usher"
	"usher/internal/ledger"
	"usher/internal/payment"
	"usher/internal/payment/stripe"
	"usher/internal/pg/pgtest"
	"usher/internal/sim/paysim/paysimtest"
)

// Somebody gave a part of the money back on the provider's own pages before the order
// was cancelled: the buyer gets the rest, and no more.
func TestCancelAfterPartialRefund(t *testing.T) {
	st := openStreet(t, true)
	o := st.untilCaptured(st.mustPay(st.hold(2), "pm_card_visa", "k").Order.ID)
	adapter, err := stripe.New(stripe.Config{SecretKey: st.sim.SecretKey, BaseURL: st.sim.URL, WebhookSecrets: []string{paysimtest.WebhookSecret}, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	byHand := usher.NewOperationID(event)
	out := adapter.Refund(t.Context(), payment.RefundRequest{OperationID: byHand, OrderID: o.ID, Key: byHand.String(),
		Money: usher.Money{AmountMinor: 100000, Currency: "TWD"}, Reference: o.Authorization.Reference})
	if out.Kind != payment.Approved {
		t.Fatalf("a part by hand: %+v", out)
	}
	_, err = st.ledger.CancelOrder(t.Context(), ledger.CancelOrder{Order: o.ID, By: ledger.Staff{Operator: usher.NewOperatorID(), Reason: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Until(t, "the void has succeeded", func() bool {
		_, _ = st.Checkout.Reconcile(context.Background(), 1, 0)
		var done bool
		err := st.pool.QueryRow(t.Context(), `SELECT status = 'succeeded' FROM payment_operation WHERE order_id = $1 AND kind = 'void'`, o.ID).Scan(&done)
		return err == nil && done
	})
	s := adapter.Lookup(t.Context(), o.Authorization.Reference)
	if s.State != payment.StateRefunded || s.AmountReceived != o.Amount || s.AmountRefunded != o.Amount {
		t.Errorf("%s: received %v, gave back %v of %v", s.State, s.AmountReceived, s.AmountRefunded, o.Amount)
	}
}
