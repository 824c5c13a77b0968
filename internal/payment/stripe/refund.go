package stripe

import (
	"context"
	"net/http"

	api "github.com/stripe/stripe-go/v85"

	"usher/internal/payment"
)

// refundsRead bounds how many refunds of one intent are looked through for ours.
const refundsRead = 100

// Refund implements payment.Provider. It is the one write that a new key would
// do twice, so every doubt is settled by looking for the refund that carries
// the operation's id.
func (a *Adapter) Refund(ctx context.Context, r payment.RefundRequest) payment.Outcome {
	amount, _, err := AmountToProvider(r.Money)
	if code := check(r.OperationID, r.Key, &r.Reference); code != "" || err != nil {
		return refuse(code)
	}
	bounded, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	watched, ex := watch(bounded)
	f, err := a.client.V1Refunds.Create(watched, &api.RefundCreateParams{Params: step(r.Key, "refund"), PaymentIntent: &r.Reference,
		Amount: &amount, Metadata: metadataOf(r.OperationID, r.OrderID)})
	v := readAnswer(bounded, ex, err)
	switch {
	case err == nil && !v.replayed:
		return v.refunded(f, r.Reference)
	case err != nil && !v.replayed && !v.refusesRefund(), !v.decoded:
		return v.judge(kindRefund, r.Reference)
	}
	ours, state, known := a.findRefund(ctx, r)
	switch {
	case !known:
		return v.outcome(payment.Unknown, payment.RetrySameKey, v.code, r.Reference)
	case ours != nil:
		return v.refunded(ours, r.Reference)
	case v.status >= http.StatusInternalServerError:
		// Stored as failed, and not there yet: it may still appear.
		return v.outcome(payment.Unknown, payment.RetrySameKey, v.code, r.Reference)
	}
	out := v.outcome(payment.Rejected, payment.RetryNever, v.code, r.Reference)
	out.State = state
	return out
}

// refusesRefund reports that the provider had nothing left to give back, which
// may be because an earlier call of ours did it.
func (v reading) refusesRefund() bool {
	return v.decoded && v.status == http.StatusBadRequest && v.errType == api.ErrorTypeInvalidRequest &&
		(v.errCode == api.ErrorCodeChargeAlreadyRefunded || v.errCode == "" && v.param == "amount")
}

// findRefund looks for the refund that carries the operation's id. known is
// false if the provider could not be asked.
func (a *Adapter) findRefund(ctx context.Context, r payment.RefundRequest) (ours *api.Refund, state payment.State, known bool) {
	bounded, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	p := &api.RefundListParams{PaymentIntent: &r.Reference}
	p.Limit = api.Int64(refundsRead)
	// One page, not the iterator: that asks for ever when a page is empty and says
	// that there is more.
	page := a.client.V1Refunds.List(bounded, p)
	if page.Err() != nil {
		return nil, "", false
	}
	for _, f := range page.Data() {
		if f.Metadata[metaOperation] == r.OperationID.String() {
			return f, "", true
		}
	}
	if page.Meta().HasMore {
		return nil, "", false
	}
	s := a.Lookup(ctx, r.Reference)
	return nil, s.State, s.State != payment.StateUnknown
}

// refunded gives the verdict on a refund object.
func (v reading) refunded(f *api.Refund, reference string) payment.Outcome {
	out := v.outcome(payment.Unknown, payment.RetrySameKey, "", reference)
	out.Amount = AmountFromProvider(f.Amount, string(f.Currency))
	switch f.Status {
	case api.RefundStatusSucceeded:
		out.Kind, out.Retry = payment.Approved, payment.RetryNever
	case api.RefundStatusPending, api.RefundStatusRequiresAction:
		out.Kind = payment.Pending
	case api.RefundStatusFailed, api.RefundStatusCanceled:
		out.Kind, out.Retry, out.ProviderCode = payment.Declined, payment.RetryNewAttempt, joinCodes(string(f.FailureReason), "")
	default:
		out.ProviderCode = codeUnreadable
	}
	return out
}
