package checkout_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"usher"
	"usher/internal/checkout"
	"usher/internal/ledger"
	"usher/internal/payment"
)

// challenged is an order that waits for its buyer at the bank.
func (s *shop) challenged() (ledger.Hold, ledger.Order) {
	s.t.Helper()
	h := s.hold(1)
	r := s.mustPay(h, "challenge", "k")
	return h, s.order(r.Order.ID)
}

func about(o ledger.Order, id string, state payment.State) message {
	return message{ID: id, State: state, Reference: o.Authorization.Reference, Operation: o.Authorization.ID}
}

func TestWebhookSettlesAndRepeatsChangeNothing(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := openShop(t, f, nil).start()
	_, o := s.challenged()
	f.set(o.Authorization.Reference, payment.StateAuthorized)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := s.deliver(about(o, "evt_1", payment.StateAuthorized)); err != nil {
				t.Errorf("delivery: %v", err)
			}
		})
	}
	wg.Wait()
	s.untilCaptured(o.ID)
	if n := s.count(`SELECT count(*) FROM provider_event`); n != 1 {
		t.Errorf("%d rows for one message", n)
	}
	// After a restart it is still known.
	s.stop()
	s.join(f, nil)
	s.start()
	before := f.count("lookup")
	s.mustDeliver(about(o, "evt_1", payment.StateAuthorized))
	s.untilWorked()
	if f.count("lookup") != before || f.all()[0].captures != 1 {
		t.Error("a repeat had an effect")
	}
}

func TestWebhookBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := openShop(t, f, nil).start()
	h := s.hold(1)
	f.hook = func(_ context.Context, call, ref string) fate {
		if call == "authorize" {
			f.set(ref, payment.StateAuthorized)
			p := f.all()[0]
			s.mustDeliver(message{ID: "evt_early", State: payment.StateAuthorized, Reference: ref, Operation: p.meta.OperationID})
			eventually(t, func() string { return "message worked while the call runs" }, func() bool {
				return s.count(`SELECT count(*) FROM provider_event WHERE attempts > 0`) == 1
			})
		}
		return arrives
	}
	r := s.mustPay(h, "ok", "k")
	wantStatus(t, r, usher.OrderConfirmed, checkout.PaymentApproved, checkout.ActionNone)
	s.untilWorked()
	s.untilCaptured(r.Order.ID)
	if n := s.operations(r.Order.ID, usher.OperationCapture); n != 1 {
		t.Errorf("%d captures", n)
	}
}

// The buyer's return and the webhook complete the order at the same instant.
func TestReturnAndWebhookRace(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := openShop(t, f, func(c *checkout.Config) { c.AnswerWithin = waitMax }).start()
	const rounds = 40
	for range rounds {
		h, o := s.challenged()
		f.set(o.Authorization.Reference, payment.StateAuthorized)
		var wg sync.WaitGroup
		skew := func() { <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond) }
		wg.Go(func() {
			skew()
			if r, err := s.Returned(context.Background(), o.ID, h.Account); err != nil || r.Order.ID != o.ID {
				t.Errorf("return: %v", err)
			}
		})
		wg.Go(func() {
			skew()
			s.mustDeliver(about(o, "evt_"+o.ID.String(), payment.StateAuthorized))
		})
		wg.Wait()
		s.untilCaptured(o.ID)
		if n := s.operations(o.ID, usher.OperationCapture); n != 1 {
			t.Fatalf("%d captures", n)
		}
	}
	for _, p := range f.all() {
		if p.captures != 1 {
			t.Errorf("%s captured %d times", p.reference, p.captures)
		}
	}
}

func TestWebhooksThatAreNotForUs(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := openShop(t, f, nil).start()
	_, o := s.challenged()
	before := f.count("lookup")
	foreign := about(o, "e1", payment.StateAuthorized)
	foreign.Reference = "pi_other"
	unknown := about(o, "e2", payment.StateAuthorized)
	unknown.Operation = usher.NewOperationID(event)
	elsewhere := about(o, "e3", payment.StateAuthorized)
	elsewhere.Operation = usher.NewOperationID(99)
	nameless := about(o, "e4", payment.StateAuthorized)
	nameless.Operation = usher.OperationID{}
	test := about(o, "e5", "")
	test.Ignored = payment.IgnoredMode
	for _, m := range []message{foreign, unknown, elsewhere, nameless, test} {
		s.mustDeliver(m)
	}
	if err := s.Webhook(t.Context(), "fake", http.Header{"Signature": {"good"}}, []byte("{")); err != nil {
		t.Errorf("genuine and unreadable: %v", err)
	}
	wantCode(t, s.Webhook(t.Context(), "fake", http.Header{"Signature": {"bad"}}, []byte("{}")), usher.CodeWebhookSignature)
	wantCode(t, s.Webhook(t.Context(), "nobody", http.Header{}, nil), usher.CodeNotFound)
	s.untilWorked()
	if n := s.count(`SELECT count(*) FROM provider_event`); n != 3 {
		t.Errorf("%d messages stored, want the three that name this shard", n)
	}
	if f.count("lookup") != before || s.order(o.ID).Status != usher.OrderPaymentPending {
		t.Error("a message that is not for us had an effect")
	}
}

func TestWebhookIsNotAcknowledgedWhenItCannotBeStored(t *testing.T) {
	t.Parallel()
	s := openShop(t, newFake(), nil)
	_, o := s.challenged()
	s.exec(s.pool, `ALTER TABLE provider_event RENAME TO provider_event_away`)
	if err := s.deliver(about(o, "e1", payment.StateAuthorized)); err == nil {
		t.Fatal("acknowledged and not stored")
	}
	s.exec(s.pool, `ALTER TABLE provider_event_away RENAME TO provider_event`)
	s.mustDeliver(about(o, "e1", payment.StateAuthorized))
}

// An operation that had ended unpaid turns out to hold money: it is given up,
// and the seats stay whose they are.
func TestOrphanIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct {
		found, end payment.State
		by         string
	}{"authorized": {payment.StateAuthorized, payment.StateVoided, "void"}, "charged": {payment.StateCaptured, payment.StateRefunded, "refund"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			var down atomic.Bool
			f.hook = func(_ context.Context, call, _ string) fate {
				if down.Load() {
					return refused
				}
				return arrives
			}
			s := openShop(t, f, nil).start()
			h := s.hold(1)
			r := s.mustPay(h, "decline", "k")
			o := s.order(r.Order.ID)
			f.set("pi_1", how.found)
			down.Store(true)
			s.mustDeliver(about(o, "e1", how.found))
			eventually(t, func() string { return "asked while the provider is down" }, func() bool {
				return s.count(`SELECT count(*) FROM provider_event WHERE attempts > 1`) == 1
			})
			down.Store(false)
			s.untilWorked()
			if p := f.all()[0]; p.state != how.end || f.count(how.by) == 0 {
				t.Errorf("provider is %s after %d calls of %s", p.state, f.count(how.by), how.by)
			}
			if got := s.order(o.ID); got.Status != usher.OrderDeclined {
				t.Errorf("order became %s", got.Status)
			}
		})
	}
}

func TestLateWebhookAfterTheDoor(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := openShop(t, f, nil).start()
	h, o := s.challenged()
	s.age(o, graceOver)
	s.untilStatus(o.ID, usher.OrderVoided)
	s.mustDeliver(about(o, "late", payment.StateAuthorized))
	s.mustDeliver(about(o, "later", payment.StateVoided))
	s.untilWorked()
	if got := s.order(o.ID); got.Status != usher.OrderVoided {
		t.Errorf("a late message made it %s", got.Status)
	}
	s.wantSeats(h, usher.SeatAvailable)
}

func TestReconcileSettlesEverythingWithoutWebhooks(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := openShop(t, f, func(c *checkout.Config) { c.InFlightMin = 256 })
	const orders = 120 // more than a page
	var ids []usher.OrderID
	f.hook = func(_ context.Context, call, _ string) fate {
		if call == "prepare" {
			return arrives
		}
		if call == "authorize" {
			return lostAfter
		}
		return refused
	}
	for range orders {
		ids = append(ids, s.mustPay(s.hold(1), "ok", "k").Order.ID)
	}
	// One lost its schedule, one is parked, one's order is broken: none stops the rest.
	s.exec(s.pool, `UPDATE payment_operation SET next_at = NULL WHERE order_id = $1`, ids[0])
	s.exec(s.pool, `UPDATE payment_operation SET parked_at = clock_timestamp() WHERE order_id = $1`, ids[1])
	s.exec(s.pool, `UPDATE payment_operation SET provider = 'gone' WHERE order_id = $1`, ids[2])
	f.hook = nil
	if rep, err := s.Reconcile(t.Context(), 1, time.Hour); err != nil || rep.Asked != 0 {
		t.Errorf("young operations: asked %d, %v", rep.Asked, err)
	}
	rep, err := s.Reconcile(t.Context(), 1, 0)
	if err != nil || rep.Asked != orders-1 || rep.Settled != orders-2 || len(rep.Open) != 2 {
		t.Fatalf("first run: asked %d, settled %d, open %d, %v", rep.Asked, rep.Settled, len(rep.Open), err)
	}
	for i, id := range ids {
		want := usher.OrderConfirmed
		if i == 1 || i == 2 {
			want = usher.OrderPaymentPending
		}
		if got := s.order(id).Status; got != want {
			t.Errorf("order %d is %s, want %s", i, got, want)
		}
	}
	problems := map[usher.OrderID]string{}
	for _, d := range rep.Open {
		problems[d.Order] = d.Problem
	}
	if problems[ids[1]] != "parked" || problems[ids[2]] != "payment provider is not configured: gone" {
		t.Errorf("report: %v", problems)
	}
	s.start()
	for i, id := range ids {
		if i != 1 && i != 2 {
			s.untilCaptured(id)
		}
	}
	again, err := s.Reconcile(t.Context(), 1, 0)
	if err != nil || again.Settled != 0 || len(again.Open) != 2 {
		t.Errorf("second run: %+v, %v", again, err)
	}
	_, err = s.Reconcile(t.Context(), 9, 0)
	wantCode(t, err, usher.CodeNotFound)
}
