package checkout

import (
	"context"
	"log/slog"
	"time"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/payment"
	"usher/internal/pg"
	"usher/internal/work"
)

const (
	// stepsMax bounds one run; more means that decisions go in circles.
	stepsMax = 12
	// sendReserve is the time a run must have left to start a call that moves
	// money: its lease has to outlast the sending.
	sendReserve = 3 * time.Second
	// commandTries bounds repeats of a ledger command that was not decided.
	commandTries = 4
	retryMin     = 200 * time.Millisecond
	retryMax     = 10 * time.Second
	quiesceAfter = time.Second
	// providerMissing is the pause when an operation's provider is not configured here.
	providerMissing = time.Minute
)

// run is one leased operation being worked.
type run struct {
	c    *Checkout
	p    payment.Provider
	home shard
	v    view
	log  *slog.Logger
	// readAt is the local time at which v was read; it only measures what passed since.
	readAt time.Time
	dbNow  time.Time
}

// work runs one operation until it has to wait or has ended. Whatever happens at
// any line, the row stays due and the next run starts from what is durable.
func (c *Checkout) work(ctx context.Context, j work.Job, decide func(view, *evidence) step) work.Verdict {
	id := usher.OperationID(j.ID)
	r := &run{c: c, log: c.log.With("operation", id.String())}
	if err := r.load(ctx, id); err != nil {
		return r.retry(ctx, j, err)
	}
	if r.p == nil {
		r.log.ErrorContext(ctx, "the payment provider of an open operation is not configured", "provider", r.v.op.Provider)
		return work.Again(providerMissing, "payment provider is not configured: "+r.v.op.Provider)
	}
	var e *evidence
	for range stepsMax {
		r.v.now = r.dbNow.Add(time.Since(r.readAt))
		s := decide(r.v, e)
		c.metrics.steps.WithLabelValues(string(r.v.op.Kind), s.do.String()).Inc()
		next, verdict, err := r.perform(ctx, s)
		switch code := usher.CodeOf(err); {
		case code == usher.CodeStateConflict || code == usher.CodeOrderClosed:
			// Somebody else moved on first: start over from what is so now.
			if err := r.load(ctx, id); err != nil {
				return r.retry(ctx, j, err)
			}
			next = nil
		case err != nil:
			return r.retry(ctx, j, err)
		case verdict != nil:
			return *verdict
		}
		e = next
	}
	r.log.ErrorContext(ctx, "too many steps in one run")
	return work.Again(work.Backoff(j.Attempts, askMin, askMax), "too many steps in one run")
}

// load reads the operation, its order and the authorization it is about.
func (r *run) load(ctx context.Context, id usher.OperationID) error {
	op, err := r.c.ops.Get(ctx, id)
	if err != nil {
		return err
	}
	before := time.Now()
	order, err := r.c.ledger.Order(ctx, op.Order)
	if err != nil {
		return err
	}
	if r.home, err = r.c.home(ctx, id.Event()); err != nil {
		return err
	}
	r.readAt, r.dbNow = before, order.Now
	r.p = r.c.providers[op.Provider]
	r.v = view{op: op, auth: op, order: order, now: order.Now}
	if op.Kind != usher.OperationAuthorize && order.Authorization != nil {
		r.v.auth = *order.Authorization
	}
	if r.p != nil {
		r.v.caps = r.p.Capabilities()
	}
	return nil
}

// retry is the verdict when our own side failed: soon again, since nothing about
// the payment is known to be wrong.
func (r *run) retry(ctx context.Context, j work.Job, err error) work.Verdict {
	code := usher.CodeOf(err)
	if code == usher.CodeNotFound {
		return work.Park("operation or order is missing")
	}
	r.log.WarnContext(ctx, "payment operation has to run again", "attempts", j.Attempts, "error", err)
	return work.Again(work.Backoff(j.Attempts, retryMin, retryMax), string(code))
}

// perform does one step. It returns the provider's evidence if it was asked, or
// the verdict that ends the run.
func (r *run) perform(ctx context.Context, s step) (*evidence, *work.Verdict, error) {
	end := func(v work.Verdict, err error) (*evidence, *work.Verdict, error) { return nil, &v, err }
	if s.do == doSend || s.do == doCapture {
		s.learned.Sent = true
	}
	if err := r.learn(ctx, s.learned); err != nil {
		return nil, nil, err
	}
	switch s.do {
	case doEnd:
		return end(work.Done(), nil)
	case doWait:
		return end(work.Again(s.after, s.reason), nil)
	case doPark:
		return end(work.Park(s.reason), nil)
	case doQuiesce:
		return r.quiesce(ctx)
	case doConfirm:
		return end(work.Done(), r.confirm(ctx, s))
	case doFail, doCloseDoor, doFinishVoid, doSettle:
		return end(work.Done(), r.command(ctx, s))
	}
	e, err := r.ask(ctx, s.do)
	if err != nil {
		return nil, nil, err
	}
	return &e, nil, nil
}

// learn stores what was learned, if anything is new. When it returns nil the
// rows say so durably, and r.v with them.
func (r *run) learn(ctx context.Context, n ledger.Learned) error {
	if n.ProviderCode == r.v.op.ProviderCode {
		n.ProviderCode = ""
	}
	if n.Sent && r.v.op.SentAt != nil {
		n.Sent = false
	}
	if n == (ledger.Learned{}) {
		return nil
	}
	op, err := r.c.ops.Learn(ctx, r.v.op.ID, n)
	if err != nil {
		return err
	}
	r.v.op = op
	if op.Kind == usher.OperationAuthorize {
		r.v.auth = op
	}
	return nil
}

// quiesce makes sure that nobody is about to send an authorization that was
// never sent: its row has to be run to its end, or be held by us, first.
func (r *run) quiesce(ctx context.Context) (*evidence, *work.Verdict, error) {
	ran, err := r.c.runner.RunNow(ctx, r.home.authorize, r.v.auth.ID)
	if err != nil {
		return nil, nil, err
	}
	if !ran {
		v := work.Again(quiesceAfter, "the authorization is still being driven")
		return nil, &v, nil
	}
	return nil, nil, r.load(ctx, r.v.op.ID)
}

// confirm sells the order. Refused, the ledger has closed the door in the same
// commit and written the void that the next queue runs.
func (r *run) confirm(ctx context.Context, s step) error {
	// Durable: the authorization's own deadline. The order is still pending; a crash
	// here is found by a look-up, which leads to this line again.
	if err := fault.Point(ctx, "checkout.after_authorize_stored"); err != nil {
		return err
	}
	err := r.decided(ctx, func() error {
		_, err := r.c.ledger.ConfirmOrder(ctx, ledger.ConfirmOrder{Order: r.v.order.ID, Operation: r.v.op.ID, Authorized: s.amount})
		return err
	})
	switch code := usher.CodeOf(err); code {
	case usher.CodePaymentMismatch, usher.CodeLimitExceeded, usher.CodeEventCancelled, usher.CodeAccountBlocked:
		r.log.WarnContext(ctx, "authorized order cannot be confirmed and is being voided", "order", r.v.order.ID.String(), "reason", code)
		r.c.runner.Wake(r.home.void)
		return nil
	case "":
		r.c.runner.Wake(r.home.capture)
		return fault.Point(ctx, "checkout.after_confirm")
	}
	return err
}

// command tells the ledger a decision other than a confirmation.
func (r *run) command(ctx context.Context, s step) error {
	order, id, unsent := r.v.order.ID, r.v.op.ID, r.v.auth.SentAt == nil
	err := r.decided(ctx, func() (err error) {
		switch s.do {
		case doFail:
			_, err = r.c.ledger.FailPayment(ctx, ledger.FailPayment{Order: order, Operation: id, Unsent: unsent, ProviderCode: s.reason})
		case doCloseDoor:
			_, err = r.c.ledger.VoidOrder(ctx, ledger.VoidOrder{Order: order, Reason: s.reason})
		case doFinishVoid:
			_, err = r.c.ledger.FinishVoid(ctx, ledger.FinishVoid{Order: order, Operation: id, Unsent: unsent})
		case doSettle:
			_, err = r.c.ledger.SettleCapture(ctx, ledger.SettleCapture{Order: order, Operation: id, Captured: s.captured, ProviderCode: s.reason})
		}
		return err
	})
	if err != nil {
		return err
	}
	switch {
	case s.do == doCloseDoor:
		r.log.InfoContext(ctx, "door closed on an order", "order", order.String(), "reason", s.reason)
		r.c.runner.Wake(r.home.void)
	case s.do == doSettle:
		if !s.captured {
			r.log.ErrorContext(ctx, "capture failed for good, the order is cancelled", "order", order.String(), "reason", s.reason)
			r.c.runner.Wake(r.home.void)
		}
		return fault.Point(ctx, "capture.after_stored")
	}
	return nil
}

// decided repeats a command that was not decided. Every command is safe to
// repeat: a second time it finds its own result.
func (r *run) decided(ctx context.Context, command func() error) error {
	for try := 1; ; try++ {
		err := command()
		switch usher.CodeOf(err) {
		case usher.CodeBusy, usher.CodeUnknown, usher.CodeUnavailable:
			if try == commandTries {
				return err
			}
			if pg.Jitter(ctx, try) != nil {
				return err
			}
		default:
			return err
		}
	}
}
