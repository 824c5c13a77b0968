package verify_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/ledger"
)

// traffic is what the clients of a history have in common. They differ in
// nothing: every one is now a buyer, now the payment, now staff.
type traffic struct {
	event usher.EventID
	seats []usher.SeatID
	// places is the smallest and largest hold.
	places [2]int
	// ledgers are the processes that a client may reach.
	ledgers []*ledger.Ledger
	journal *journal
}

// run lets n clients live until ctx ends and waits for their last answers.
func (w *traffic) run(ctx context.Context, n int) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for ctx.Err() == nil {
				w.buy(ctx)
			}
		})
	}
	wg.Wait()
}

// attempt runs a call on one process and puts what the answer says into c.
type attempt func(ctx context.Context, l *ledger.Ledger, c *call) error

// do makes one call, as one impatient client with one key: now and then it gives
// up early, and it asks again, or not, when it does not know. It reports whether
// the call was done.
func (w *traffic) do(ctx context.Context, c call, try attempt) (call, bool) {
	c.ID, c.Call = strconv.FormatUint(rand.Uint64(), 36), time.Now().UnixNano()
	w.journal.put(c)
	doubt := false
	for {
		asked := time.Now().UnixNano()
		patience := 20 * time.Second
		if rand.IntN(7) == 0 {
			patience = time.Duration(1+rand.IntN(15)) * time.Millisecond
		}
		own, cancel := context.WithTimeout(context.Background(), patience)
		err := try(own, w.ledgers[rand.IntN(len(w.ledgers))], &c)
		cancel()
		code := usher.CodeOf(err)
		doubt = doubt || code == usher.CodeUnknown
		undecided := code == usher.CodeUnknown || code == usher.CodeBusy || code == usher.CodeUnavailable
		if doubt && undecided {
			if ctx.Err() != nil || rand.IntN(3) == 0 {
				return c, false
			}
			continue
		}
		if doubt && code != "" && c.Kind != kindHold && c.Kind != kindBegin {
			// What was asked before may have been done, and undone by others since: it
			// stays open, and the refusal is a call of its own. What has a key of its own
			// is answered as it was the first time, which may be long ago.
			c.ID, c.Call = strconv.FormatUint(rand.Uint64(), 36), asked
		}
		c.Code, c.Return = code, time.Now().UnixNano()
		w.journal.put(c)
		return c, code == ""
	}
}

// buy is the life of one account.
func (w *traffic) buy(ctx context.Context) {
	n := w.places[0] + rand.IntN(w.places[1]-w.places[0]+1)
	var seats []usher.SeatID
	for _, i := range rand.Perm(len(w.seats))[:n] {
		seats = append(seats, w.seats[i])
	}
	a := usher.NewAccountID()
	var hold ledger.Hold
	_, held := w.do(ctx, call{Kind: kindHold, Account: a, Seats: seats}, func(ctx context.Context, l *ledger.Ledger, c *call) (err error) {
		hold, err = l.PlaceHold(ctx, ledger.PlaceHold{Event: w.event, Account: a, Seats: seats, Key: "k"})
		if e := (*usher.Error)(nil); errors.As(err, &e) {
			c.Taken = e.Seats
		}
		c.Hold = hold.ID
		return err
	})
	if !held {
		return
	}
	switch rand.IntN(10) {
	case 0:
		// Walks away: the hold lapses.
	case 1, 2:
		w.release(ctx, hold)
	case 3:
		w.race(func() { w.release(ctx, hold) }, func() { w.pay(ctx, hold) })
	case 4:
		// Comes back about when the time is over, in two tabs.
		w.wait(ctx, time.Until(hold.ExpiresAt)+time.Duration(rand.IntN(40)-20)*time.Millisecond)
		w.race(func() { w.release(ctx, hold) }, func() { w.pay(ctx, hold) })
	default:
		w.pay(ctx, hold)
	}
}

func (w *traffic) race(calls ...func()) {
	var wg sync.WaitGroup
	for _, c := range calls {
		wg.Go(c)
	}
	wg.Wait()
}

func (w *traffic) wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (w *traffic) release(ctx context.Context, hold ledger.Hold) {
	w.do(ctx, call{Kind: kindRelease, Account: hold.Account, Hold: hold.ID}, func(ctx context.Context, l *ledger.Ledger, c *call) error {
		out, err := l.ReleaseHold(ctx, ledger.ReleaseHold{Hold: hold.ID, Account: hold.Account})
		c.Status = string(out.Status)
		return err
	})
}

// pay begins a payment and lets the provider answer, by one word or by two that
// contradict each other.
func (w *traffic) pay(ctx context.Context, hold ledger.Hold) {
	var o ledger.Order
	_, begun := w.do(ctx, call{Kind: kindBegin, Account: hold.Account, Hold: hold.ID}, func(ctx context.Context, l *ledger.Ledger, c *call) (err error) {
		o, _, err = l.BeginPayment(ctx, beginning(hold, "c"))
		c.Order = o.ID
		return err
	})
	if !begun {
		return
	}
	switch rand.IntN(8) {
	case 0, 1:
		w.fail(ctx, o)
	case 2:
		w.void(ctx, o)
	case 3:
		w.race(func() { w.confirm(ctx, o) }, func() { w.void(ctx, o) })
	case 4:
		w.race(func() { w.confirm(ctx, o) }, func() { w.fail(ctx, o) })
	default:
		w.confirm(ctx, o)
	}
}

func (w *traffic) about(k kind, o ledger.Order) call {
	return call{Kind: k, Account: o.Account, Hold: o.Hold, Order: o.ID}
}

// confirm sells, and staff take the order back soon: the seats must not run out.
func (w *traffic) confirm(ctx context.Context, o ledger.Order) {
	_, sold := w.do(ctx, w.about(kindConfirm, o), func(ctx context.Context, l *ledger.Ledger, _ *call) error {
		_, err := l.ConfirmOrder(ctx, confirming(o))
		return err
	})
	if sold {
		w.cancel(ctx, o)
	}
}

func (w *traffic) cancel(ctx context.Context, o ledger.Order) {
	w.do(ctx, w.about(kindCancel, o), func(ctx context.Context, l *ledger.Ledger, _ *call) error {
		_, err := l.CancelOrder(ctx, ledger.CancelOrder{Order: o.ID, By: staff})
		return err
	})
}

// tidy looks after orders whose clients left or died: as the sweeps of checkout
// do in earnest, it closes the door on what waits too long, and it takes back
// what was sold.
func (w *traffic) tidy(ctx context.Context, pool *pgxpool.Pool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		rows, err := pool.Query(context.WithoutCancel(ctx), `SELECT order_id, hold_id, account_id, status FROM orders
			WHERE event_id = $1 AND status IN ('payment_pending', 'voiding', 'confirmed')
				AND coalesce(confirmed_at, created_at) < clock_timestamp() - interval '300 ms'`, w.event)
		if err != nil {
			return err
		}
		left, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o ledger.Order, err error) {
			err = row.Scan(&o.ID, &o.Hold, &o.Account, &o.Status)
			return o, err
		})
		if err != nil {
			return err
		}
		for _, o := range left {
			switch o.Status {
			case usher.OrderPaymentPending:
				w.void(ctx, o)
			case usher.OrderVoiding:
				w.finish(ctx, o)
			default:
				w.cancel(ctx, o)
			}
		}
	}
}

var staff = ledger.Staff{Operator: usher.NewOperatorID(), Reason: "verification"}

func (w *traffic) fail(ctx context.Context, o ledger.Order) {
	w.do(ctx, w.about(kindFail, o), func(ctx context.Context, l *ledger.Ledger, c *call) error {
		out, err := l.FailPayment(ctx, ledger.FailPayment{Order: o.ID, Operation: o.Authorization.ID, ProviderCode: "declined"})
		c.Status = string(out.Status)
		return err
	})
}

// void closes the door and, once the provider has given the money up, ends it.
func (w *traffic) void(ctx context.Context, o ledger.Order) {
	_, closed := w.do(ctx, w.about(kindVoid, o), func(ctx context.Context, l *ledger.Ledger, _ *call) error {
		_, err := l.VoidOrder(ctx, ledger.VoidOrder{Order: o.ID, Reason: "grace over"})
		return err
	})
	if closed {
		w.finish(ctx, o)
	}
}

func (w *traffic) finish(ctx context.Context, o ledger.Order) {
	w.do(ctx, w.about(kindFinish, o), func(ctx context.Context, l *ledger.Ledger, _ *call) error {
		op, err := voidOf(ctx, l, o.ID)
		if err == nil {
			_, err = l.FinishVoid(ctx, ledger.FinishVoid{Order: o.ID, Operation: op})
		}
		return err
	})
}

// voidOf finds the void operation of an order; not to have asked yet is "busy".
func voidOf(ctx context.Context, l *ledger.Ledger, o usher.OrderID) (op usher.OperationID, err error) {
	pool, err := l.Pool(ctx, o.Event())
	if err == nil {
		err = pool.QueryRow(ctx, `SELECT operation_id FROM payment_operation WHERE order_id = $1 AND kind = 'void'`, o).Scan(&op)
	}
	if err != nil {
		return op, &usher.Error{Code: usher.CodeBusy, Message: "not asked", Err: err}
	}
	return op, nil
}
