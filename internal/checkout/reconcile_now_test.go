package checkout_test

import (
	"context"
	"testing"
	"time"

	"usher"
)

// Reconciliation by hand asks about what is open, whatever its schedule says;
// what is parked only when it is told to.
func TestReconcileNow(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := openShop(t, f, nil)
	f.hook = func(_ context.Context, call, _ string) fate {
		switch call {
		case "prepare":
			return arrives
		case "authorize":
			return lostAfter
		}
		return refused
	}
	open, parked := s.mustPay(s.hold(1), "ok", "k").Order.ID, s.mustPay(s.hold(1), "ok", "k").Order.ID
	s.exec(s.pool, `UPDATE payment_operation SET next_at = clock_timestamp() + interval '1 hour' WHERE order_id = $1`, open)
	s.exec(s.pool, `UPDATE payment_operation SET parked_at = clock_timestamp() WHERE order_id = $1`, parked)
	f.hook = nil

	rep := s.ReconcileNow(t.Context(), 0, false)
	if len(rep) != 1 || rep[0].Shard != 1 || rep[0].Asked != 1 || rep[0].Settled != 1 || rep[0].Redriven != 0 || rep[0].Problem != "" ||
		len(rep[0].Open) != 1 || rep[0].Open[0].Problem != "parked" {
		t.Fatalf("report %+v", rep)
	}
	if got := s.order(open).Status; got != usher.OrderConfirmed {
		t.Errorf("the open order is %s", got)
	}
	if got := s.order(parked).Status; got != usher.OrderPaymentPending {
		t.Errorf("the parked order is %s", got)
	}
	rep = s.ReconcileNow(t.Context(), time.Hour, true)
	if rep[0].Redriven != 1 || rep[0].Asked != 0 {
		t.Errorf("younger than an hour: %+v", rep)
	}
	rep = s.ReconcileNow(t.Context(), 0, true)
	if rep[0].Redriven != 0 || rep[0].Asked == 0 || rep[0].Settled == 0 {
		t.Errorf("redriven: %+v", rep)
	}
	if got := s.order(parked).Status; got != usher.OrderConfirmed {
		t.Errorf("the redriven order is %s", got)
	}
	if len(f.all()) != 2 {
		t.Errorf("the provider has %d payments of two", len(f.all()))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if rep = s.ReconcileNow(ended, 0, true); rep[0].Problem != usher.CodeBusy {
		t.Errorf("ended early: %+v", rep)
	}
}
