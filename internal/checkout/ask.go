package checkout

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/payment"
)

// errNoTime ends a run that has too little of its lease left to send anything.
var errNoTime = errors.New("too little of the lease is left")

// ask makes one provider call. No transaction is open and no connection is held.
func (r *run) ask(ctx context.Context, d do) (evidence, error) {
	if d == doLookup {
		return r.lookup(ctx), nil
	}
	r.v.asked = true
	if end, ok := ctx.Deadline(); ok && time.Until(end) < sendReserve {
		return evidence{}, errNoTime
	}
	switch d {
	case doPrepare:
		return r.answer(ctx, callPrepare, func() payment.Outcome { return r.p.Prepare(ctx, authorizeRequest(r.c, r.v)) }), nil
	case doSend, doResend:
		return r.authorize(ctx)
	case doFence:
		return r.answer(ctx, callVoid, func() payment.Outcome { return r.p.Void(ctx, voidRequest(r.v.auth, r.v.auth.Key)) }), nil
	case doVoid:
		return r.answer(ctx, callVoid, func() payment.Outcome { return r.p.Void(ctx, voidRequest(r.v.auth, stepKey(r.v.op))) }), nil
	case doRefund:
		return r.answer(ctx, callRefund, func() payment.Outcome {
			return r.p.Refund(ctx, r.refundRequest())
		}), nil
	case doCapture:
		return r.capture(ctx)
	}
	panic("checkout: " + d.String() + " is no provider call")
}

// authorize follows the commit of reference and sent_at: from here on "not
// authorized" is only what the provider says it is.
func (r *run) authorize(ctx context.Context) (evidence, error) {
	if err := fault.Point(ctx, "checkout.before_authorize"); err != nil {
		return evidence{}, err
	}
	e := r.answer(ctx, callAuthorize, func() payment.Outcome { return r.p.Authorize(ctx, authorizeRequest(r.c, r.v)) })
	if err := fault.Point(ctx, "checkout.after_authorize"); err != nil {
		return evidence{}, err
	}
	return e, nil
}

func (r *run) capture(ctx context.Context) (evidence, error) {
	if err := fault.Point(ctx, "capture.before_send"); err != nil {
		return evidence{}, err
	}
	e := r.answer(ctx, callCapture, func() payment.Outcome {
		return r.p.Capture(ctx, payment.CaptureRequest{OperationID: r.v.op.ID, OrderID: r.v.op.Order, Money: r.v.op.Amount,
			Key: stepKey(r.v.op), Reference: r.v.auth.Reference})
	})
	if err := fault.Point(ctx, "capture.after_send"); err != nil {
		return evidence{}, err
	}
	return e, nil
}

func (r *run) answer(ctx context.Context, c call, send func() payment.Outcome) evidence {
	begin := time.Now()
	o := send()
	r.c.metrics.answered(c, o.Kind, time.Since(begin))
	switch o.Kind {
	case payment.Rejected:
		// An authorization carries what the buyer sent: a token that the provider does
		// not know is no fault of ours.
		level := slog.LevelError
		if c == callAuthorize {
			level = slog.LevelWarn
		}
		r.log.Log(ctx, level, "provider rejected a request", "call", string(c), "order", r.v.op.Order, "answer", o)
	case payment.Unknown, payment.NotExecuted:
		r.log.WarnContext(ctx, "provider gave no definite answer", "call", string(c), "answer", o)
	}
	return ofOutcome(c, o)
}

func (r *run) lookup(ctx context.Context) evidence {
	begin := time.Now()
	s := r.p.Lookup(ctx, r.v.auth.Reference)
	e := ofSnapshot(s, r.v.auth)
	if e.fact == factPartlyRefunded {
		r.v.rest = s.AmountReceived
		r.v.rest.AmountMinor -= s.AmountRefunded.AmountMinor
	}
	kind := payment.Approved
	if e.fact == factUnknown {
		kind = payment.Unknown
		r.log.WarnContext(ctx, "look-up taught nothing", "state", string(s.State), "code", e.code, "request", s.RequestID)
	}
	r.c.metrics.answered(callLookup, kind, time.Since(begin))
	return e
}

func authorizeRequest(c *Checkout, v view) payment.AuthorizeRequest {
	return payment.AuthorizeRequest{
		OperationID: v.op.ID, OrderID: v.op.Order, Money: v.op.Amount, Key: v.op.Key, Reference: v.op.Reference,
		PaymentMethodToken: v.op.MethodToken, ReturnURL: c.cfg.ReturnURL(v.op.Order),
	}
}

// refundRequest asks for everything, or for what a look-up has found to be left. Each
// amount has a key of its own: the provider takes one key for one request.
func (r *run) refundRequest() payment.RefundRequest {
	op := r.v.op
	req := payment.RefundRequest{OperationID: op.ID, OrderID: op.Order, Money: r.v.auth.Amount, Key: op.Key, Reference: r.v.auth.Reference}
	if r.v.rest.AmountMinor > 0 {
		r.v.restAsked = true
		req.Money, req.Key = r.v.rest, op.Key+".rest."+strconv.FormatInt(r.v.rest.AmountMinor, 10)
	}
	return req
}

func voidRequest(auth ledger.Operation, key string) payment.VoidRequest {
	return payment.VoidRequest{OperationID: auth.ID, OrderID: auth.Order, Key: key, Reference: auth.Reference}
}
