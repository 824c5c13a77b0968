package checkout_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"usher"
	"usher/internal/checkout"
	"usher/internal/payment"
)

// script lets the calls of one kind meet the given fates, in order; all later
// ones arrive.
func script(call string, fates ...fate) func(context.Context, string, string) fate {
	var n atomic.Int32
	return func(_ context.Context, c, _ string) fate {
		if c != call {
			return arrives
		}
		if i := int(n.Add(1)); i <= len(fates) {
			return fates[i-1]
		}
		return arrives
	}
}

func TestLostAnswersAreFoundOut(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		token string
		hook  func(context.Context, string, string) fate
		first checkout.PaymentStatus
		want  usher.OrderStatus
	}{
		{"authorized, answer lost", "ok", script("authorize", lostAfter), checkout.PaymentApproved, usher.OrderConfirmed},
		{"declined, answer lost", "decline", script("authorize", lostAfter), checkout.PaymentDeclined, usher.OrderDeclined},
		{"never arrived", "ok", script("authorize", lostBefore), checkout.PaymentUnknown, usher.OrderConfirmed},
		{"connection refused", "ok", script("authorize", refused), checkout.PaymentUnknown, usher.OrderConfirmed},
		{"prepared, answer lost", "ok", script("prepare", lostAfter, lostAfter), checkout.PaymentProcessing, usher.OrderConfirmed},
		{"not prepared", "ok", script("prepare", refused, lostBefore), checkout.PaymentProcessing, usher.OrderConfirmed},
		{"look-up fails, too", "ok", func() func(context.Context, string, string) fate {
			a, l := script("authorize", lostAfter), script("lookup", refused, refused)
			return func(ctx context.Context, c, r string) fate { return max(a(ctx, c, r), l(ctx, c, r)) }
		}(), checkout.PaymentUnknown, usher.OrderConfirmed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.hook = tt.hook
			s := openShop(t, f, nil).start()
			h := s.hold(1)
			r := s.mustPay(h, tt.token, "k")
			if r.PaymentStatus != tt.first {
				t.Errorf("answered %s, want %s", r.PaymentStatus, tt.first)
			}
			o := s.untilStatus(r.Order.ID, tt.want)
			if len(f.all()) != 1 || s.operations(o.ID, usher.OperationAuthorize) != 1 {
				t.Errorf("%d intents, %d authorizations, want one", len(f.all()), s.operations(o.ID, usher.OperationAuthorize))
			}
			if tt.want == usher.OrderConfirmed {
				s.untilCaptured(o.ID)
			}
		})
	}
}

// down makes every call of the provider fail while it is set.
type outage struct{ on atomic.Bool }

func (d *outage) hook(_ context.Context, _, _ string) fate {
	if d.on.Load() {
		return refused
	}
	return arrives
}

func TestDoorClosesOnlyWithTheProvidersWord(t *testing.T) {
	t.Parallel()
	for name, executed := range map[string]bool{"authorized in truth": true, "not authorized in truth": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, d := newFake(), &outage{}
			f.hook = func(ctx context.Context, call, ref string) fate {
				if call == "authorize" && !d.on.Swap(true) {
					if executed {
						return lostAfter
					}
					return lostBefore
				}
				return d.hook(ctx, call, ref)
			}
			s := openShop(t, f, nil).start()
			h := s.hold(2)
			r := s.mustPay(h, "ok", "k")
			s.age(r.Order, graceOver)
			s.untilStatus(r.Order.ID, usher.OrderVoiding)
			eventually(t, func() string { return "several attempts to cancel" }, func() bool { return f.count("void") >= 3 })
			// The provider is down: the seats are nobody else's, however late it is.
			s.wantSeats(h, usher.SeatPending)
			if got := s.mustPay(h, "ok", "k2"); got.PaymentStatus != checkout.PaymentUnknown || got.Order.ID != r.Order.ID {
				t.Errorf("while it is not known the buyer is told %s", got.PaymentStatus)
			}
			d.on.Store(false)
			o := s.untilStatus(r.Order.ID, usher.OrderVoided)
			s.wantSeats(h, usher.SeatAvailable)
			if p := f.all()[0]; p.state != payment.StateVoided || p.captures != 0 {
				t.Errorf("provider: %+v", p)
			}
			if o.CloseReason != "grace_ended" {
				t.Errorf("closed because of %q", o.CloseReason)
			}
		})
	}
}

func TestAuthorizedAtTheDoorIsSold(t *testing.T) {
	t.Parallel()
	f := newFake()
	var blind atomic.Bool
	blind.Store(true)
	f.hook = func(_ context.Context, call, _ string) fate {
		switch {
		case call == "authorize":
			return lostAfter
		case call == "lookup" && blind.Load():
			return refused
		}
		return arrives
	}
	s := openShop(t, f, nil)
	h := s.hold(1)
	r := s.mustPay(h, "ok", "k")
	s.age(r.Order, graceOver)
	blind.Store(false)
	s.start()
	s.untilCaptured(r.Order.ID)
	s.wantSeats(h, usher.SeatSold)
}

func TestNothingSentIsGivenUpWithoutTheProvider(t *testing.T) {
	t.Parallel()
	f, d := newFake(), &outage{}
	d.on.Store(true)
	f.hook = d.hook
	s := openShop(t, f, nil).start()
	h := s.hold(1)
	r := s.mustPay(h, "ok", "k")
	wantStatus(t, r, usher.OrderPaymentPending, checkout.PaymentProcessing, checkout.ActionWait)
	s.age(r.Order, time.Minute)
	s.untilStatus(r.Order.ID, usher.OrderDeclined)
	s.wantSeats(h, usher.SeatHeld)
	d.on.Store(false)
	if again := s.mustPay(h, "ok", "k2"); again.PaymentStatus != checkout.PaymentApproved {
		t.Errorf("second attempt is %s", again.PaymentStatus)
	}
}

func TestSilentConfirmationIsFencedAndTheBuyerTriesAgain(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.hook = script("authorize", lostBefore, lostBefore, lostBefore, lostBefore)
	s := openShop(t, f, nil)
	h := s.hold(1)
	r := s.mustPay(h, "ok", "k")
	s.age(r.Order, time.Minute)
	s.start()
	o := s.untilStatus(r.Order.ID, usher.OrderDeclined)
	if p := f.all()[0]; p.state != payment.StateVoided {
		t.Errorf("a new attempt is allowed while the first is %s", p.state)
	}
	if o.Authorization.ProviderCode != "fenced:no_confirmation" {
		t.Errorf("failed because of %q", o.Authorization.ProviderCode)
	}
	s.wantSeats(h, usher.SeatHeld)
	f.hook = nil
	if again := s.mustPay(h, "ok", "k2"); again.PaymentStatus != checkout.PaymentApproved {
		t.Errorf("second attempt is %s", again.PaymentStatus)
	}
}

func TestRefusedConfirmationIsVoided(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := openShop(t, f, nil).start()
	h := s.hold(2)
	f.hook = func(_ context.Context, call, _ string) fate {
		if call == "authorize" {
			// The operator cancels the event while the bank decides.
			if _, err := s.ledger.ChangeRules(context.Background(), event, func(r *usher.Rules) { r.Sale = usher.SaleCancelled }); err != nil {
				t.Error(err)
			}
		}
		return arrives
	}
	r := s.mustPay(h, "ok", "k")
	if r.PaymentStatus == checkout.PaymentApproved {
		t.Fatal("a cancelled event was sold")
	}
	o := s.untilStatus(r.Order.ID, usher.OrderVoided)
	s.wantSeats(h, usher.SeatAvailable)
	if p := f.all()[0]; p.state != payment.StateVoided || o.CloseReason != string(usher.CodeEventCancelled) {
		t.Errorf("provider %s, reason %q", p.state, o.CloseReason)
	}
}

func TestDoorClosedFromOutsideBeforeAnythingWasSent(t *testing.T) {
	t.Parallel()
	f := newFake()
	inPrepare, release := make(chan struct{}), make(chan struct{})
	f.hook = func(_ context.Context, call, _ string) fate {
		if call == "prepare" {
			close(inPrepare)
			<-release
		}
		return arrives
	}
	s := openShop(t, f, nil).start()
	h := s.hold(1)
	done := make(chan checkout.Result, 1)
	go func() { done <- s.mustPay(h, "ok", "k") }()
	<-inPrepare
	hold, err := s.ledger.Hold(t.Context(), h.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.voidOrder(hold.Order)
	// The driver is between creating and sending: its operation is not released
	// from under it.
	eventually(t, func() string { return "void waits for the driver" }, func() bool {
		return s.count(`SELECT count(*) FROM payment_operation WHERE kind = 'void' AND last_error LIKE '%still being driven%'`) == 1
	})
	s.wantSeats(h, usher.SeatPending)
	close(release)
	<-done
	s.untilStatus(hold.Order, usher.OrderVoided)
	s.wantSeats(h, usher.SeatAvailable)
	if p := f.all()[0]; p.state == payment.StateAuthorized {
		t.Error("an authorization is alive on freed seats")
	}
}

func TestCaptureIsFoundOutAndNeverTwice(t *testing.T) {
	t.Parallel()
	for name, fates := range map[string][]fate{
		"answer lost": {lostAfter}, "never arrived": {lostBefore, lostBefore}, "refused": {refused, refused}, "mixed": {refused, lostBefore, lostAfter},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.hook = script("capture", fates...)
			s := openShop(t, f, nil).start()
			h := s.hold(1)
			r := s.mustPay(h, "ok", "k")
			s.wantSeats(h, usher.SeatSold)
			s.untilCaptured(r.Order.ID)
			if p := f.all()[0]; p.captures != 1 {
				t.Errorf("captured %d times", p.captures)
			}
		})
	}
}

func TestCaptureUnknownKeepsSeatsAndOrder(t *testing.T) {
	t.Parallel()
	f := newFake()
	var down atomic.Bool
	down.Store(true)
	f.hook = func(_ context.Context, call, _ string) fate {
		if down.Load() && (call == "capture" || call == "lookup") {
			return lostBefore
		}
		return arrives
	}
	s := openShop(t, f, nil).start()
	h := s.hold(1)
	r := s.mustPay(h, "ok", "k")
	// However old it is, nobody decides by age.
	s.exec(s.pool, `UPDATE payment_operation SET created_at = created_at - interval '30 days' WHERE kind = 'capture'`)
	s.until(r.Order.ID, "capture unknown", func(o ledgerOrder) bool {
		return o.Capture != nil && o.Capture.Status == usher.OperationUnknown && o.Capture.Attempts >= 2
	})
	s.wantSeats(h, usher.SeatSold)
	if got := s.mustPay(h, "ok", "k"); got.PaymentStatus != checkout.PaymentApproved {
		t.Errorf("an approved order became %s", got.PaymentStatus)
	}
	down.Store(false)
	s.untilCaptured(r.Order.ID)
}

func TestCaptureFailedForGoodCancelsAndReturnsTheSeats(t *testing.T) {
	t.Parallel()
	for _, end := range []payment.State{payment.StateExpired, payment.StateVoided} {
		t.Run(string(end), func(t *testing.T) {
			t.Parallel()
			f := newFake()
			s := openShop(t, f, nil)
			h := s.hold(2)
			r := s.mustPay(h, "ok", "k")
			f.set("pi_1", end)
			s.start()
			o := s.untilStatus(r.Order.ID, usher.OrderCancelled)
			s.wantSeats(h, usher.SeatAvailable)
			if o.CapturedAt != nil || o.Capture.Status != usher.OperationFailed {
				t.Errorf("captured at %v, capture %s", o.CapturedAt, o.Capture.Status)
			}
			eventually(t, func() string { return "void finished" }, func() bool {
				return s.count(`SELECT count(*) FROM payment_operation WHERE kind = 'void' AND status = 'succeeded'`) == 1
			})
		})
	}
}

func TestChargeOnlyProvider(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.caps.SeparateCapture, f.caps.FenceByVoid = false, false
	s := openShop(t, f, nil).start()
	r := s.mustPay(s.hold(1), "ok", "k")
	wantStatus(t, r, usher.OrderConfirmed, checkout.PaymentApproved, checkout.ActionNone)
	s.untilCaptured(r.Order.ID)
	// A charge that cannot be sold is given back.
	h := s.hold(1)
	f.hook = func(_ context.Context, call, _ string) fate {
		if call == "authorize" {
			s.exec(s.pool, `INSERT INTO account_usage (event_id, account_id, blocked) VALUES ($1, $2, true)
				ON CONFLICT (event_id, account_id) DO UPDATE SET blocked = true`, event, h.Account)
		}
		return arrives
	}
	r = s.mustPay(h, "ok", "k")
	s.untilStatus(r.Order.ID, usher.OrderVoided)
	s.wantSeats(h, usher.SeatAvailable)
	if p := f.all()[1]; p.refunds != 1 || p.state != payment.StateRefunded {
		t.Errorf("provider: %+v, want one refund", p)
	}
}
