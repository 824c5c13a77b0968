package stripe

import (
	"time"

	api "github.com/stripe/stripe-go/v85"

	"usher"
	"usher/internal/payment"
)

// snapshotOf puts an intent, read with its latest charge, into usher's words.
func snapshotOf(pi *api.PaymentIntent) payment.Snapshot {
	s := payment.Snapshot{
		State:          stateOf(pi),
		Reference:      pi.ID,
		Amount:         AmountFromProvider(pi.Amount, string(pi.Currency)),
		AmountReceived: AmountFromProvider(pi.AmountReceived, string(pi.Currency)),
		AmountRefunded: AmountFromProvider(refundedOf(pi.LatestCharge), string(pi.Currency)),
		Metadata:       parseMetadata(pi.Metadata),
		Livemode:       pi.Livemode,
	}
	if s.State == payment.StateAuthorized {
		// What is reserved may differ from what was asked for.
		s.Amount = AmountFromProvider(pi.AmountCapturable, string(pi.Currency))
		s.CaptureBefore = captureBefore(pi.LatestCharge)
	}
	if s.State == payment.StateActionRequired {
		s.Action = actionOf(pi.NextAction)
	}
	if e := pi.LastPaymentError; e != nil {
		s.LastErrorCode = joinCodes(string(e.Code), string(e.DeclineCode))
	}
	return s
}

// stateOf maps the provider's status. One that is not listed is StateUnknown,
// never a failure.
func stateOf(pi *api.PaymentIntent) payment.State {
	switch pi.Status {
	case api.PaymentIntentStatusRequiresPaymentMethod:
		if pi.LastPaymentError != nil {
			return payment.StateDeclined
		}
		return payment.StateCreated
	case api.PaymentIntentStatusRequiresConfirmation:
		return payment.StateCreated
	case api.PaymentIntentStatusRequiresAction:
		return payment.StateActionRequired
	case api.PaymentIntentStatusProcessing:
		if c := pi.LatestCharge; c != nil && c.Paid {
			return payment.StateCapturePending
		}
		return payment.StatePending
	case api.PaymentIntentStatusRequiresCapture:
		return payment.StateAuthorized
	case api.PaymentIntentStatusSucceeded:
		return capturedState(pi)
	case api.PaymentIntentStatusCanceled:
		return canceledState(pi.CancellationReason)
	}
	return payment.StateUnknown
}

// canceledState tells a lapsed authorization from one that was given up.
func canceledState(reason api.PaymentIntentCancellationReason) payment.State {
	switch reason {
	case api.PaymentIntentCancellationReasonAutomatic, api.PaymentIntentCancellationReasonExpired:
		return payment.StateExpired
	}
	return payment.StateVoided
}

// capturedState looks at what happened to captured money since.
func capturedState(pi *api.PaymentIntent) payment.State {
	refunded := refundedOf(pi.LatestCharge)
	switch {
	case pi.LatestCharge != nil && pi.LatestCharge.Disputed:
		return payment.StateDisputed
	case refunded > 0 && refunded >= pi.AmountReceived:
		return payment.StateRefunded
	case refunded > 0:
		return payment.StatePartlyRefunded
	}
	return payment.StateCaptured
}

// refundedOf is what was given back of a captured charge. The provider counts
// the released rest of a partial capture as refunded; it is not.
func refundedOf(c *api.Charge) int64 {
	if c == nil || !c.Captured {
		return 0
	}
	return max(c.AmountRefunded-(c.Amount-c.AmountCaptured), 0)
}

func captureBefore(c *api.Charge) time.Time {
	if c == nil || c.PaymentMethodDetails == nil || c.PaymentMethodDetails.Card == nil || c.PaymentMethodDetails.Card.CaptureBefore <= 0 {
		return time.Time{}
	}
	return time.Unix(c.PaymentMethodDetails.Card.CaptureBefore, 0).UTC()
}

func actionOf(n *api.PaymentIntentNextAction) payment.Action {
	if n == nil || n.RedirectToURL == nil || n.RedirectToURL.URL == "" {
		return payment.Action{Kind: payment.ActionSDK}
	}
	return payment.Action{Kind: payment.ActionRedirect, URL: n.RedirectToURL.URL}
}

// parseMetadata reads what Prepare attached. What does not parse was put there
// by somebody else and is left out.
func parseMetadata(m map[string]string) payment.Metadata {
	var out payment.Metadata
	// A failed parse leaves the field zero, which is what "not ours" looks like.
	_ = out.OperationID.UnmarshalText([]byte(m[metaOperation]))
	_ = out.OrderID.UnmarshalText([]byte(m[metaOrder]))
	if id, err := usher.ParseEventID(m[metaEvent]); err == nil {
		out.EventID = id
	}
	return out
}
