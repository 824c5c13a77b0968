package checkout_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/checkout"
	"usher/internal/ledger"
	"usher/internal/payment"
	"usher/internal/pg"
	"usher/internal/work"
)

func TestApprovedIsSoldThenCaptured(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := openShop(t, f, nil).start()
	h := s.hold(3)
	r := s.mustPay(h, "ok", "k1")
	wantStatus(t, r, usher.OrderConfirmed, checkout.PaymentApproved, checkout.ActionNone)
	s.wantSeats(h, usher.SeatSold)
	o := s.untilCaptured(r.Order.ID)
	if o.Capture.Status != usher.OperationSucceeded || o.Authorization.CaptureBefore == nil {
		t.Errorf("capture is %s, authorization lapses at %v", o.Capture.Status, o.Authorization.CaptureBefore)
	}
	p := f.all()
	if len(p) != 1 || p[0].captures != 1 || p[0].captured.AmountMinor != 3*price {
		t.Errorf("provider did %+v", p)
	}
	again := s.mustPay(h, "ok", "k1")
	if again.Order.ID != r.Order.ID || !again.Order.Replayed {
		t.Errorf("the same key gave %s, replayed %v", again.Order.ID, again.Order.Replayed)
	}
	wantStatus(t, again, usher.OrderConfirmed, checkout.PaymentApproved, checkout.ActionNone)
}

func TestFreeOrderNeverReachesTheProvider(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := openShop(t, f, nil)
	h := s.holdSeats("F-1")
	r := s.mustPay(h, "", "k1")
	wantStatus(t, r, usher.OrderConfirmed, checkout.PaymentApproved, checkout.ActionNone)
	if n := f.count("prepare"); n != 0 {
		t.Errorf("%d calls for an order of nothing", n)
	}
	// A process that died between beginning and confirming is made up for.
	left := s.holdSeats("F-2")
	o, _, err := s.ledger.BeginPayment(t.Context(), ledger.BeginPayment{Hold: left.ID, Account: left.Account, Provider: "fake", Key: "k1"})
	if err != nil || o.Authorization != nil {
		t.Fatalf("begin: %+v, %v", o.Authorization, err)
	}
	s.exec(s.pool, `UPDATE orders SET created_at = created_at - interval '1 minute' WHERE order_id = $1`, o.ID)
	s.start()
	s.untilStatus(o.ID, usher.OrderConfirmed)
}

func TestDeclinedThenPaidWithinTheHold(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := openShop(t, f, nil).start()
	h := s.hold(2)
	r := s.mustPay(h, "decline", "k1")
	wantStatus(t, r, usher.OrderDeclined, checkout.PaymentDeclined, checkout.ActionPayAgain)
	s.wantSeats(h, usher.SeatHeld)
	if !r.Order.HoldExpiresAt.Equal(h.ExpiresAt) {
		t.Errorf("a decline moved the deadline from %s to %s", h.ExpiresAt, r.Order.HoldExpiresAt)
	}
	again := s.mustPay(h, "ok", "k2")
	wantStatus(t, again, usher.OrderConfirmed, checkout.PaymentApproved, checkout.ActionNone)
	if again.Order.ID != r.Order.ID {
		t.Error("the second attempt made a second order")
	}
	// News of the first attempt, an hour late, twice each, shuffled.
	first := f.all()[0]
	for _, m := range []message{
		{"e1", payment.StateDeclined, first.reference, first.meta.OperationID, ""}, {"e2", payment.StatePending, first.reference, first.meta.OperationID, ""},
		{"e1", payment.StateDeclined, first.reference, first.meta.OperationID, ""}, {"e3", payment.StateCreated, first.reference, first.meta.OperationID, ""},
		{"e3", payment.StateCreated, first.reference, first.meta.OperationID, ""},
	} {
		s.mustDeliver(m)
	}
	s.untilWorked()
	s.untilCaptured(r.Order.ID)
	if n := s.operations(r.Order.ID, usher.OperationAuthorize); n != 2 {
		t.Errorf("%d authorizations, want 2", n)
	}
}

func TestAmountOfAuthorizationDiffers(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := openShop(t, f, nil).start()
	h := s.hold(1)
	r := s.mustPay(h, "short", "k1")
	o := s.untilStatus(r.Order.ID, usher.OrderVoided)
	s.wantSeats(h, usher.SeatAvailable)
	if o.CloseReason != string(usher.CodePaymentMismatch) || f.all()[0].state != payment.StateVoided {
		t.Errorf("closed because of %q, provider %s", o.CloseReason, f.all()[0].state)
	}
	if o.Authorization.Status != usher.OperationReversed {
		t.Errorf("authorization is %s, want reversed", o.Authorization.Status)
	}
}

func TestDoubleClickIsOneOrderAndOneAuthorization(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := openShop(t, f, nil).start()
	h := s.hold(2)
	var wg sync.WaitGroup
	var orders sync.Map
	for i := range 20 {
		wg.Go(func() {
			r, err := s.pay(h, "ok", []string{"k1", "k2"}[i%2])
			if err != nil {
				t.Error(err)
				return
			}
			orders.Store(r.Order.ID, true)
		})
	}
	wg.Wait()
	n := 0
	var id usher.OrderID
	orders.Range(func(k, _ any) bool { n++; id = k.(usher.OrderID); return true })
	if n != 1 || len(f.all()) != 1 || s.operations(id, usher.OperationAuthorize) != 1 {
		t.Errorf("%d orders, %d intents, %d authorizations", n, len(f.all()), s.operations(id, usher.OperationAuthorize))
	}
	s.untilCaptured(id)
	if f.all()[0].captures != 1 {
		t.Errorf("%d captures", f.all()[0].captures)
	}
}

func TestTwoHoldsPayForThemselves(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := openShop(t, f, nil).start()
	a, b := s.hold(1), s.hold(3)
	r := s.mustPay(a, "ok", "k1")
	if r.Order.Amount.AmountMinor != price || f.all()[0].amount.AmountMinor != price {
		t.Errorf("charged %s for one seat", r.Order.Amount)
	}
	s.wantSeats(b, usher.SeatHeld)
	if r := s.mustPay(b, "ok", "k1"); r.Order.Amount.AmountMinor != 3*price {
		t.Errorf("charged %s for three seats", r.Order.Amount)
	}
}

func TestBrowserThatClosesDoesNotStopThePayment(t *testing.T) {
	t.Parallel()
	f := newFake()
	inCall, release := make(chan struct{}), make(chan struct{})
	f.hook = func(ctx context.Context, call, _ string) fate {
		if call == "authorize" {
			close(inCall)
			<-release
			if ctx.Err() != nil {
				t.Error("the provider call was cancelled with the request")
			}
		}
		return arrives
	}
	s := openShop(t, f, nil).start()
	h := s.hold(1)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := s.Checkout.Checkout(ctx, checkout.Request{Hold: h.ID, Account: h.Account, MethodToken: "ok", Key: "k"})
		gone <- err
	}()
	<-inCall
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left got %v", err)
	}
	close(release)
	var o ledger.Hold
	eventually(t, func() string { return "hold confirmed, it is " + string(o.Status) }, func() bool {
		var err error
		if o, err = s.ledger.Hold(t.Context(), h.ID); err != nil {
			t.Fatal(err)
		}
		return o.Status == usher.HoldConfirmed
	})
}

func TestSlowProviderIsAnsweredInTimeAndHoldsNoConnection(t *testing.T) {
	t.Parallel()
	f := newFake()
	const buyers, connections = 40, 4
	var inside atomic.Int32
	full, release := make(chan struct{}), make(chan struct{})
	f.hook = func(_ context.Context, call, _ string) fate {
		if call == "authorize" {
			if inside.Add(1) == buyers {
				close(full)
			}
			<-release
		}
		return arrives
	}
	s := openShop(t, f, nil)
	s.homes = openHomes(t, s.url, connections)
	s.pool = s.homes.Shards()[0].Pool
	s.join(f, func(c *checkout.Config) { c.AnswerWithin = 50 * time.Millisecond })
	s.start()
	results := make(chan checkout.Result, buyers)
	var wg sync.WaitGroup
	for range buyers {
		h := s.hold(1)
		wg.Go(func() { results <- s.mustPay(h, "ok", "k") })
	}
	wg.Wait()
	close(results)
	<-full
	// Forty calls are with the provider: no transaction of before waits with them, and
	// the pool of four has a connection for a hold. Background work comes and goes.
	var now time.Time
	if err := s.pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string { return "no transaction is open while we wait for the provider" }, func() bool {
		return s.count(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND state LIKE 'idle in transaction%' AND xact_start <= $1`, now) == 0
	})
	s.hold(2)
	close(release)
	for r := range results {
		if r.PaymentStatus != checkout.PaymentProcessing {
			t.Errorf("answered %s while the provider had not answered", r.PaymentStatus)
		}
		s.untilCaptured(r.Order.ID)
	}
}

func TestTooManyInFlightAreBusyBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	f := newFake()
	release := make(chan struct{})
	f.hook = func(_ context.Context, call, _ string) fate {
		if call == "authorize" {
			<-release
		}
		return arrives
	}
	s := openShop(t, f, func(c *checkout.Config) { c.InFlightMax, c.AnswerWithin = 2, time.Millisecond })
	first, second, third := s.hold(1), s.hold(1), s.hold(1)
	s.mustPay(first, "ok", "k")
	s.mustPay(second, "ok", "k")
	_, err := s.pay(third, "ok", "k")
	wantCode(t, err, usher.CodeBusy)
	var busy *usher.Error
	if !errors.As(err, &busy) || busy.RetryAfter <= 0 {
		t.Errorf("busy without a hint when to come back: %v", err)
	}
	if n := s.count(`SELECT count(*) FROM orders WHERE hold_id = $1`, third.ID); n != 0 {
		t.Error("a busy checkout wrote an order")
	}
	if now, bound := s.InFlight(); now != 2 || bound != 2 {
		t.Errorf("%d in flight of %d", now, bound)
	}
	close(release)
	eventually(t, func() string { return "slots given back" }, func() bool { now, _ := s.InFlight(); return now == 0 })
	r := s.mustPay(third, "ok", "k")
	s.start()
	s.untilCaptured(r.Order.ID)
}

func TestChallenge(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := openShop(t, f, nil).start()
	begin := func() (ledger.Hold, checkout.Result) {
		h := s.hold(1)
		r := s.mustPay(h, "challenge", "k")
		wantStatus(t, r, usher.OrderPaymentPending, checkout.PaymentActionRequired, checkout.ActionRedirect)
		return h, r
	}
	ref := func(r checkout.Result) string { return s.order(r.Order.ID).Authorization.Reference }

	h, passed := begin()
	if passed.NextAction.URL != "http://bank.example/"+ref(passed) {
		t.Errorf("sent to %q", passed.NextAction.URL)
	}
	if r, err := s.Returned(t.Context(), passed.Order.ID, h.Account); err != nil || r.PaymentStatus != checkout.PaymentActionRequired {
		t.Errorf("coming back without having passed = %s, %v", r.PaymentStatus, err)
	}
	f.set(ref(passed), payment.StateAuthorized)
	r, err := s.Returned(t.Context(), passed.Order.ID, h.Account)
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, r, usher.OrderConfirmed, checkout.PaymentApproved, checkout.ActionNone)
	_, err = s.Returned(t.Context(), passed.Order.ID, usher.NewAccountID())
	wantCode(t, err, usher.CodeNotFound)

	h, failed := begin()
	f.set(ref(failed), payment.StateDeclined)
	if r, err = s.Returned(t.Context(), failed.Order.ID, h.Account); err != nil || r.PaymentStatus != checkout.PaymentDeclined {
		t.Errorf("coming back after failing = %s, %v", r.PaymentStatus, err)
	}

	// Passed after the deadline, within the grace: sold.
	_, slow := begin()
	f.set(ref(slow), payment.StateAuthorized)
	s.age(slow.Order, 6*time.Minute)
	s.untilCaptured(slow.Order.ID)

	// Never passed: released only after the provider cancelled.
	h, left := begin()
	s.age(left.Order, graceOver)
	s.untilStatus(left.Order.ID, usher.OrderVoided)
	s.wantSeats(h, usher.SeatAvailable)
	if f.set(ref(left), payment.StateVoided); f.count("void") != 1 {
		t.Errorf("%d cancellations", f.count("void"))
	}
}

func TestNewRefusesWhatCouldLoseMoney(t *testing.T) {
	t.Parallel()
	s := openShop(t, newFake(), nil)
	noRefund := newFake()
	noRefund.caps.RefundByAPI = false
	for name, providers := range map[string][]payment.Provider{"none": nil, "two of one name": {newFake(), newFake()}, "no refund": {noRefund}} {
		log := slog.New(slog.DiscardHandler)
		_, err := checkout.New(checkout.Config{Homes: s.homes, Ledger: s.ledger, Runner: work.NewRunner(log, prometheus.NewRegistry()),
			Providers: providers, Log: log, Registerer: prometheus.NewRegistry()})
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestBacklogIsSampled(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.hook = func(_ context.Context, call, _ string) fate {
		if call == "prepare" {
			return arrives
		}
		return lostBefore
	}
	s := openShop(t, f, nil)
	if b := s.Backlog(1); b != (checkout.Backlog{}) {
		t.Errorf("backlog before a sample: %+v", b)
	}
	r := s.mustPay(s.hold(1), "ok", "k")
	wantStatus(t, r, usher.OrderPaymentPending, checkout.PaymentUnknown, checkout.ActionWait)
	s.start()
	eventually(t, func() string { return "backlog seen" }, func() bool { return s.Backlog(1).Unknown == 1 })
	if b := s.Backlog(pg.ShardNumber(9)); b != (checkout.Backlog{}) {
		t.Errorf("backlog of a shard that is not here: %+v", b)
	}
}
