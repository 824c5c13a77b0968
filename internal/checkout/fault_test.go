package checkout_test

import (
	"context"
	"testing"

	"usher"
	"usher/internal/checkout"
	"usher/internal/fault"
	"usher/internal/ledger"
)

// Every named point of the money path breaks once, twice in a row, and while
// COMMIT is in doubt. Whatever broke, the row brings the order to its end, with
// one authorization and one capture. These tests share the process's fault
// points, so they do not run beside others.
func TestEveryFaultPointEndsInOneSale(t *testing.T) {
	points := []string{"checkout.after_begin", "checkout.before_authorize", "checkout.after_authorize", "checkout.after_authorize_stored",
		"checkout.after_confirm", "capture.before_send", "capture.after_send", "capture.after_stored"}
	f := newFake()
	s := openShop(t, f, nil).start()
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			s.t = t
			disarm := fault.Arm(point, 1, fault.Fail)
			defer disarm()
			before := len(f.all())
			h := s.hold(2)
			r, err := s.pay(h, "ok", "k")
			if (err != nil) != (point == "checkout.after_begin") {
				t.Fatalf("checkout = %v", err)
			}
			if err != nil {
				hold, err := s.ledger.Hold(t.Context(), h.ID)
				if err != nil {
					t.Fatal(err)
				}
				r.Order.ID = hold.Order
			}
			o := s.untilCaptured(r.Order.ID)
			s.wantSeats(h, usher.SeatSold)
			if fault.Passes(point) == 0 {
				t.Fatal("the point was never reached")
			}
			if again := s.mustPay(h, "ok", "k"); again.Order.ID != o.ID || again.PaymentStatus != checkout.PaymentApproved {
				t.Errorf("the same key gives %s, %s", again.Order.ID, again.PaymentStatus)
			}
			p := f.all()
			if len(p) != before+1 || p[before].captures != 1 || s.operations(o.ID, usher.OperationAuthorize) != 1 {
				t.Errorf("%d intents, %d captures", len(p)-before, p[before].captures)
			}
		})
	}
}

func TestCommitInDoubtAtEveryCommit(t *testing.T) {
	f := newFake()
	s := openShop(t, f, nil).start()
	for pass := 1; pass <= 8; pass++ {
		h := s.hold(1)
		disarm := fault.Arm("pg.after_commit", pass, fault.Fail)
		_, err := s.pay(h, "ok", "k")
		disarm()
		if code := usher.CodeOf(err); code != "" && code != usher.CodeUnknown {
			t.Fatalf("pass %d: checkout = %v", pass, err)
		}
		r := s.mustPay(h, "ok", "k")
		o := s.untilCaptured(r.Order.ID)
		if n := s.operations(o.ID, usher.OperationCapture); n != 1 {
			t.Errorf("pass %d: %d captures", pass, n)
		}
	}
	for _, p := range f.all() {
		if p.captures != 1 {
			t.Errorf("captured %d times", p.captures)
		}
	}
}

// A process that was killed in the middle leaves its lease behind; another one
// goes on after it has run out, not before.
func TestKilledDriverIsTakenOverAfterItsLease(t *testing.T) {
	f := newFake()
	s := openShop(t, f, nil)
	h := s.hold(1)
	o, started, err := s.ledger.BeginPayment(t.Context(), ledger.BeginPayment{Hold: h.ID, Account: h.Account, Provider: "fake", MethodToken: "ok", Key: "k"})
	if err != nil || !started {
		t.Fatal(started, err)
	}
	// It died with the authorization sent and the lease held.
	ref := f.Prepare(context.Background(), prepareOf(o)).Reference
	if _, err := s.ledger.Operations().Learn(t.Context(), o.Authorization.ID, ledger.Learned{Reference: ref, Sent: true}); err != nil {
		t.Fatal(err)
	}
	f.set(ref, "authorized")
	s.exec(s.pool, `UPDATE payment_operation SET lease_until = clock_timestamp() + interval '1 hour', next_at = clock_timestamp()`)
	s.start()
	if r := s.mustPay(h, "ok", "k"); r.PaymentStatus != checkout.PaymentProcessing {
		t.Errorf("while it is leased the buyer is told %s", r.PaymentStatus)
	}
	if n := f.count("lookup"); n != 0 {
		t.Errorf("%d look-ups under somebody else's lease", n)
	}
	s.exec(s.pool, `UPDATE payment_operation SET lease_until = clock_timestamp()`)
	s.untilCaptured(o.ID)
	if n := f.count("authorize"); n != 0 {
		t.Errorf("authorized %d times again", n)
	}
}
