package stripe

import (
	"context"
	"net/http"

	api "github.com/stripe/stripe-go/v85"

	"usher/internal/payment"
)

// kind is which call of the port an answer belongs to.
type kind uint8

const (
	kindPrepare kind = iota
	kindAuthorize
	kindCapture
	kindVoid
	kindRefund
)

// refuse is the outcome of a request that was not sent because it cannot be right.
func refuse(code string) payment.Outcome {
	if code == "" {
		code = codeAmount
	}
	return payment.Outcome{Kind: payment.Rejected, Retry: payment.RetryNever, ProviderCode: code}
}

// do makes one write about an intent and judges the answer. reference is the
// intent's id, empty for Prepare.
func (a *Adapter) do(ctx context.Context, k kind, reference string, call func(context.Context) (*api.PaymentIntent, error)) payment.Outcome {
	bounded, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	watched, ex := watch(bounded)
	pi, err := call(watched)
	v := readAnswer(bounded, ex, err)
	if err != nil {
		pi = v.intent
	}
	if pi != nil && (pi.ID == "" || reference != "" && pi.ID != reference) {
		// The answer is about something else: as good as none.
		pi = nil
		if err == nil {
			return v.outcome(payment.Unknown, payment.RetrySameKey, codeUnreadable, reference)
		}
	}
	if pi != nil && reference == "" {
		reference = pi.ID
	}
	if err != nil && !v.tellsState() && !(v.replayed && v.decoded) {
		return v.judge(k, reference)
	}
	var s payment.Snapshot
	if pi != nil {
		s = snapshotOf(pi)
	}
	// What the provider repeats is history, and what an error shows lacks the
	// charge: read.
	if stale := v.replayed || pi == nil; stale || err != nil && v.status == http.StatusBadRequest {
		read := a.Lookup(ctx, reference)
		if seen := read.State != payment.StateUnknown && read.State != payment.StateNotFound; seen {
			s = read
		} else if stale {
			return v.unread(k, reference, read)
		}
	}
	out := settle(k, s, v)
	out.RequestID, out.Replayed = v.requestID, v.replayed
	return out
}

// tellsState reports that an error is no failure but a statement about the
// intent's state, or the bank's no, which leaves the intent in a state too.
func (v reading) tellsState() bool {
	switch v.errCode {
	case api.ErrorCodePaymentIntentUnexpectedState, api.ErrorCodeIntentInvalidState,
		api.ErrorCodeChargeAlreadyCaptured, api.ErrorCodeChargeExpiredForCapture, api.ErrorCodeCaptureChargeAuthorizationExpired,
		"capture_unauthorized_payment":
		return v.decoded && v.status == http.StatusBadRequest
	}
	return v.decoded && v.status == http.StatusPaymentRequired && v.intent != nil
}

// outcome fills in what every outcome of an exchange has.
func (v reading) outcome(k payment.Kind, r payment.Retry, code, reference string) payment.Outcome {
	return payment.Outcome{Kind: k, Retry: r, ProviderCode: code, Reference: reference, RequestID: v.requestID, Replayed: v.replayed}
}

// unread is the outcome when a state that had to be read could not be.
func (v reading) unread(k kind, reference string, s payment.Snapshot) payment.Outcome {
	out := v.outcome(payment.Unknown, payment.RetrySameKey, v.code, reference)
	out.State = s.State
	switch {
	case k == kindPrepare && reference == "":
		out.Retry = payment.RetryNewAttempt
	case s.State == payment.StateNotFound:
		out.Retry = payment.RetryNever
	}
	if out.ProviderCode == "" {
		out.ProviderCode = s.LastErrorCode
	}
	return out
}

// judge gives the verdict on an error that says nothing about the intent.
func (v reading) judge(k kind, reference string) payment.Outcome {
	is := func(kind payment.Kind, r payment.Retry) payment.Outcome { return v.outcome(kind, r, v.code, reference) }
	switch {
	case !v.connected:
		return is(payment.NotExecuted, payment.RetrySameKey)
	case !v.decoded:
		return is(payment.Unknown, payment.RetrySameKey)
	case v.errType == api.ErrorTypeIdempotency:
		// The key belongs to another request, which may have been executed.
		return is(payment.Unknown, payment.RetryNever)
	case v.missing("payment_method"):
		return v.outcome(payment.Rejected, payment.RetryNever, payment.MethodUnknown, reference)
	}
	switch v.status {
	case http.StatusBadRequest:
		return is(payment.Rejected, payment.RetryNever)
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return is(payment.NotExecuted, payment.RetrySameKey)
	case http.StatusPaymentRequired:
		if k != kindAuthorize {
			return is(payment.Unknown, afterStored500(k))
		}
		return is(payment.Declined, payment.RetryNewAttempt)
	case http.StatusNotFound:
		out := is(payment.Unknown, payment.RetryNever)
		out.State = payment.StateNotFound
		return out
	case http.StatusInternalServerError:
		return is(payment.Unknown, afterStored500(k))
	}
	return is(payment.Unknown, payment.RetrySameKey)
}

// afterStored500 says how to go on when the provider has stored its failure
// under the key, so that the key gives that back for ever.
func afterStored500(k kind) payment.Retry {
	switch k {
	case kindAuthorize:
		// It may have been executed: only reading or voiding settles it.
		return payment.RetryNever
	case kindRefund:
		// A repeat makes the adapter look for the refund; a new key would refund twice.
		return payment.RetrySameKey
	}
	// An intent without an id can never be confirmed; capture and cancel happen at
	// most once per intent under any key.
	return payment.RetryNewAttempt
}

// settle gives the verdict that a state means for a call.
func settle(k kind, s payment.Snapshot, v reading) payment.Outcome {
	out := payment.Outcome{State: s.State, Reference: s.Reference, Amount: s.Amount, CaptureBefore: s.CaptureBefore, Action: s.Action}
	switch k {
	case kindPrepare:
		out.Kind, out.Retry = settlePrepare(s.State)
	case kindAuthorize:
		out.Kind, out.Retry = settleAuthorize(s.State)
	case kindCapture:
		out.Kind, out.Retry = settleCapture(s.State)
	case kindVoid:
		out.Kind, out.Retry = settleVoid(s.State)
	}
	if s.State.MoneyTaken() {
		out.Amount = s.AmountReceived
		if k == kindAuthorize {
			out.Amount.AmountMinor -= s.AmountRefunded.AmountMinor
		}
	}
	if out.Kind == payment.Unknown && v.status >= http.StatusBadRequest {
		// The key keeps an error, and the state is still open.
		out.Retry = afterStored500(k)
	}
	if out.Kind != payment.Approved {
		if out.ProviderCode = v.code; out.ProviderCode == "" {
			out.ProviderCode = s.LastErrorCode
		}
	}
	return out
}

func settlePrepare(s payment.State) (payment.Kind, payment.Retry) {
	if s.Closed() {
		return payment.Declined, payment.RetryNewAttempt
	}
	if s == payment.StateUnknown {
		return payment.Unknown, payment.RetrySameKey
	}
	return payment.Approved, payment.RetryNever
}

func settleAuthorize(s payment.State) (payment.Kind, payment.Retry) {
	switch s {
	case payment.StateAuthorized, payment.StateCaptured, payment.StatePartlyRefunded, payment.StateDisputed:
		return payment.Approved, payment.RetryNever
	case payment.StateActionRequired:
		return payment.ActionRequired, payment.RetryNever
	case payment.StatePending, payment.StateCapturePending:
		return payment.Pending, payment.RetryNever
	case payment.StateDeclined, payment.StateVoided, payment.StateExpired, payment.StateRefunded:
		return payment.Declined, payment.RetryNewAttempt
	}
	return payment.Unknown, payment.RetrySameKey
}

func settleCapture(s payment.State) (payment.Kind, payment.Retry) {
	switch {
	case s.MoneyTaken():
		return payment.Approved, payment.RetryNever
	case s.Closed():
		return payment.Declined, payment.RetryNever
	}
	switch s {
	case payment.StatePending, payment.StateCapturePending:
		return payment.Pending, payment.RetryNever
	case payment.StateCreated, payment.StateActionRequired, payment.StateDeclined:
		return payment.Rejected, payment.RetryNever
	}
	return payment.Unknown, payment.RetrySameKey
}

func settleVoid(s payment.State) (payment.Kind, payment.Retry) {
	switch {
	case s.Closed():
		return payment.Approved, payment.RetryNever
	case s.MoneyTaken():
		return payment.Declined, payment.RetryNever
	}
	switch s {
	case payment.StatePending, payment.StateCapturePending:
		return payment.Pending, payment.RetryNever
	}
	return payment.Unknown, payment.RetrySameKey
}
