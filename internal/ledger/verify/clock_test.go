package verify_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
)

// The steps that may come in any order around a deadline.
const (
	stepExpire = iota
	stepRelease
	stepBegin
	stepConfirm
	stepFail
	stepTakeover
	steps
)

var stepNames = [steps]string{"expire", "release", "begin", "confirm", "fail", "takeover"}

// fate is one seat with its holder A and a rival B, as it should be and as the
// ledger made it. over is a hold that was released or has expired.
type fate struct {
	order []int
	seat  usher.SeatID
	a, b  usher.AccountID
	e     usher.EventID
	// hold and paid are the ledger's last words; paid is of the latest attempt.
	hold ledger.Hold
	paid ledger.Order

	holdIs  usher.HoldStatus
	orderIs usher.OrderStatus
	// owner is 'A', 'B' or 0, with B's deadline.
	owner    byte
	deadline time.Time
	rival    time.Time
	// declined says that the latest attempt has failed.
	declined bool
}

// lapse is what time alone does, in whatever group comes next.
func (f *fate) lapse(now time.Time) {
	if f.holdIs == usher.HoldHeld && !now.Before(f.deadline) {
		f.end(usher.HoldExpired)
	}
	if f.owner == 'B' && !now.Before(f.rival) {
		f.owner = 0
	}
}

func (f *fate) end(to usher.HoldStatus) {
	f.holdIs = to
	if f.owner == 'A' {
		f.owner = 0
	}
	if f.orderIs == usher.OrderDeclined {
		f.orderIs = usher.OrderLapsed
	}
}

// expect moves the fate by one step and returns the answers that are right.
func (f *fate) expect(step int, now time.Time) []usher.Code {
	f.lapse(now)
	done, notFound := []usher.Code{""}, []usher.Code{usher.CodeNotFound}
	switch step {
	case stepRelease:
		switch f.holdIs {
		case usher.HoldPaymentPending:
			return []usher.Code{usher.CodeHoldPaymentPending}
		case usher.HoldConfirmed:
			return []usher.Code{usher.CodeHoldEnded}
		case usher.HoldHeld:
			f.end(usher.HoldReleased)
		}
	case stepBegin:
		return f.expectBegin()
	case stepConfirm:
		switch f.orderIs {
		case "":
			return notFound
		case usher.OrderDeclined:
			return []usher.Code{usher.CodeStateConflict}
		case usher.OrderLapsed:
			return []usher.Code{usher.CodeOrderClosed}
		}
		f.holdIs, f.orderIs = usher.HoldConfirmed, usher.OrderConfirmed
	case stepFail:
		return f.expectFail(now)
	case stepTakeover:
		if f.owner != 0 {
			return []usher.Code{usher.CodeSeatsUnavailable}
		}
		f.owner, f.rival = 'B', now.Add(holdTime)
	}
	return done
}

func (f *fate) expectBegin() []usher.Code {
	switch {
	case f.orderIs == usher.OrderPaymentPending || f.orderIs == usher.OrderConfirmed:
		return []usher.Code{""}
	case f.holdIs == usher.HoldExpired, f.holdIs == usher.HoldReleased:
		// Released by its owner after its time, before anybody swept it, or swept.
		return []usher.Code{usher.CodeHoldExpired, usher.CodeHoldEnded}
	}
	f.holdIs, f.orderIs, f.declined = usher.HoldPaymentPending, usher.OrderPaymentPending, false
	return []usher.Code{""}
}

func (f *fate) expectFail(now time.Time) []usher.Code {
	switch {
	case f.orderIs == "":
		return []usher.Code{usher.CodeNotFound}
	case f.declined:
		return []usher.Code{""}
	case f.orderIs == usher.OrderConfirmed:
		return []usher.Code{usher.CodeStateConflict}
	}
	f.declined = true
	if now.Before(f.deadline) {
		f.holdIs, f.orderIs = usher.HoldHeld, usher.OrderDeclined
	} else {
		f.end(usher.HoldExpired)
		f.orderIs = usher.OrderLapsed
	}
	return []usher.Code{""}
}

// do takes the step for real.
func (f *fate) do(ctx context.Context, l *ledger.Ledger, step, n int) (err error) {
	key := fmt.Sprint("c", n)
	o, op := f.paid.ID, usher.NewOperationID(f.e)
	if o.IsZero() {
		o = usher.NewOrderID(f.e)
	}
	if f.paid.Authorization != nil {
		op = f.paid.Authorization.ID
	}
	switch step {
	case stepExpire:
		_, err = l.ExpireHolds(ctx, f.e)
	case stepRelease:
		_, err = l.ReleaseHold(ctx, ledger.ReleaseHold{Hold: f.hold.ID, Account: f.a})
	case stepBegin:
		var out ledger.Order
		if out, _, err = l.BeginPayment(ctx, beginning(f.hold, key)); err == nil {
			f.paid = out
		}
	case stepConfirm:
		_, err = l.ConfirmOrder(ctx, ledger.ConfirmOrder{Order: o, Operation: op, Authorized: f.hold.Amount})
	case stepFail:
		_, err = l.FailPayment(ctx, ledger.FailPayment{Order: o, Operation: op})
	case stepTakeover:
		_, err = l.PlaceHold(ctx, ledger.PlaceHold{Event: f.e, Account: f.b, Seats: []usher.SeatID{f.seat}, Key: key})
	}
	return err
}

const (
	holdTime  = 5 * time.Minute
	graceTime = 2 * time.Minute
)

// The database's clock is moved ten minutes and a millisecond around deadline
// and grace end, standing still, jumping ahead and back in between, while
// expiry, release, begin, confirm, fail and takeover come in all orders, over
// two processes. Every answer and every seat is what the clock says, and a seat
// that is being paid for is never taken by time.
func TestDatabaseClock(t *testing.T) {
	// Ahead of the real time by far: a timer's signal may find the library at work
	// and read the real clock, by which no timeout is over then.
	start := time.Now().UTC().Truncate(time.Second).Add(24 * time.Hour)
	k := startCluster(t, start)
	h := newHallOn(t, k.url(), 1, nil)
	deadline := start.Add(holdTime)
	grace := deadline.Add(graceTime)
	const ms = time.Millisecond
	at := func(base time.Time, by ...time.Duration) (clock [steps]time.Time) {
		for i := range clock {
			clock[i] = base.Add(by[i*len(by)/steps])
		}
		return clock
	}
	ledgers := []*ledger.Ledger{h.Ledger, h.process()}
	for i, tc := range []struct {
		name  string
		clock [steps]time.Time
	}{
		{"10 min before the deadline", at(deadline, -10*time.Minute)},
		{"1 ms before the deadline", at(deadline, -ms)},
		{"at the deadline", at(deadline, 0)},
		{"1 ms past the deadline", at(deadline, ms)},
		{"1 ms before grace ends", at(grace, -ms)},
		{"when grace ends", at(grace, 0)},
		{"1 ms past grace", at(grace, ms)},
		{"10 min past the deadline", at(deadline, 10*time.Minute)},
		{"over the deadline", at(deadline, -ms, 0)},
		{"to and fro over the deadline", at(deadline, -ms, ms, -ms, 0, -ms, ms)},
		{"over the end of grace", at(grace, -ms, ms)},
		{"10 min ahead, then back", at(deadline, 10*time.Minute, -10*time.Minute)},
		{"10 min back, then ahead", at(deadline, -10*time.Minute, 10*time.Minute)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k.set(start)
			h.in(t).runClock(ledgers, event+1+usher.EventID(i), tc.clock, k.set)
		})
	}
}

// orders are all orders of the steps, or by default some of them.
func orders() [][]int {
	all := permutations(steps)
	if scale() > 1 {
		return all
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:40]
}

func (h *hall) runClock(ledgers []*ledger.Ledger, e usher.EventID, clock [steps]time.Time, set func(time.Time)) {
	t := h.t
	all := orders()
	h.addEvent(e, 2*len(all), func(r *usher.Rules) { r.HoldTime, r.Grace, r.PayMargin = holdTime, graceTime, 0 })
	fates := make([]*fate, 2*len(all))
	for i := range fates {
		fates[i] = &fate{order: all[i/2], seat: seatID(i), a: usher.NewAccountID(), b: usher.NewAccountID(), e: e,
			holdIs: usher.HoldHeld, owner: 'A'}
	}
	each := func(run func(f *fate, l *ledger.Ledger) error) {
		t.Helper()
		var wg sync.WaitGroup
		for i, f := range fates {
			wg.Go(func() {
				if err := run(f, ledgers[i%len(ledgers)]); err != nil {
					t.Errorf("%s of %v: %v", f.seat, f.order, err)
				}
			})
		}
		wg.Wait()
	}
	each(func(f *fate, l *ledger.Ledger) (err error) {
		if f.hold, err = l.PlaceHold(t.Context(), ledger.PlaceHold{Event: e, Account: f.a, Seats: []usher.SeatID{f.seat}, Key: "k"}); err != nil {
			return err
		}
		f.deadline = f.hold.ExpiresAt
		// Every other one is being paid for already.
		if slices.Index(fates, f)%2 == 0 {
			return nil
		}
		f.holdIs, f.orderIs = usher.HoldPaymentPending, usher.OrderPaymentPending
		return f.do(t.Context(), l, stepBegin, 0)
	})
	for n, now := range clock {
		set(now)
		each(func(f *fate, l *ledger.Ledger) error {
			err := f.do(t.Context(), l, f.order[n], n+1)
			if want := f.expect(f.order[n], now); !slices.Contains(want, usher.CodeOf(err)) {
				return fmt.Errorf("step %d, %s: got %v, want %q", n+1, stepNames[f.order[n]], err, want)
			}
			return nil
		})
	}
	each(func(f *fate, l *ledger.Ledger) error {
		return f.compare(t.Context(), l, clock[steps-1])
	})
}

// compare reads how it ended.
func (f *fate) compare(ctx context.Context, l *ledger.Ledger, now time.Time) error {
	f.lapse(now)
	hold, err := l.Hold(ctx, f.hold.ID)
	over := func(s usher.HoldStatus) bool { return s == usher.HoldExpired || s == usher.HoldReleased }
	if err != nil || hold.Status != f.holdIs && !(over(hold.Status) && over(f.holdIs)) {
		return fmt.Errorf("the hold is %s, want %s (%v)", hold.Status, f.holdIs, err)
	}
	if !hold.ExpiresAt.Equal(f.deadline) {
		return errors.New("the deadline has moved")
	}
	if f.orderIs != "" {
		if o, err := l.Order(ctx, f.paid.ID); err != nil || o.Status != f.orderIs {
			return fmt.Errorf("the order is %s, want %s (%v)", o.Status, f.orderIs, err)
		}
	}
	owned, err := l.LiveHolds(ctx, f.e, f.b)
	if err != nil || (f.owner == 'B') != (len(owned) == 1) {
		return fmt.Errorf("B has %d holds, the owner is %q (%v)", len(owned), f.owner, err)
	}
	return nil
}

// A hold lapses, its seat is sold on by a second group, which ends nothing, and then the
// database's clock is set back past the deadline: the seat stays with who has it now.
func TestClockBackAfterTakeover(t *testing.T) {
	start := time.Now().UTC().Truncate(time.Second).Add(24 * time.Hour)
	k := startCluster(t, start)
	h := newHallOn(t, k.url(), 4, func(r *usher.Rules) { r.HoldTime, r.Grace, r.PayMargin = holdTime, graceTime, 0 })
	old := h.mustPlace(usher.NewAccountID(), "k", seatID(0))

	// The first group stands before its write while the deadline passes.
	reached, goOn := make(chan struct{}), make(chan struct{})
	disarm := fault.Arm("ledger.before_write", 1, func(context.Context) error {
		close(reached)
		<-goOn
		return nil
	})
	defer disarm()
	var first sync.WaitGroup
	first.Go(func() { h.mustPlace(usher.NewAccountID(), "k", seatID(3)) })
	<-reached
	k.set(start.Add(holdTime + time.Millisecond))
	next := h.mustPlace(usher.NewAccountID(), "k", seatID(0))
	k.set(start.Add(holdTime - time.Second))
	close(goOn)
	first.Wait()

	_, _, err := h.BeginPayment(t.Context(), beginning(old, "c"))
	wantCode(t, err, usher.CodeHoldExpired)
	h.wantSeat(seatID(0), usher.SeatHeld, next.ID)
	o, _, err := h.BeginPayment(t.Context(), beginning(next, "c"))
	if err != nil {
		t.Fatalf("checkout of the hold that has the seat: %v", err)
	}
	if _, err := h.ConfirmOrder(t.Context(), confirming(o)); err != nil {
		t.Fatalf("confirm: %v", err)
	}
	h.wantSeat(seatID(0), usher.SeatSold, next.ID)
}
