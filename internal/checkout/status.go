package checkout

import (
	"usher"
	"usher/internal/ledger"
)

// PaymentStatus is what a buyer is told about the payment of an order. It is the
// truth as far as it is known: unknown is said while it is unknown.
type PaymentStatus string

// Payment states for buyers.
const (
	// PaymentProcessing: being arranged; nothing has been refused.
	PaymentProcessing PaymentStatus = "processing"
	// PaymentActionRequired: the buyer has to pass a challenge, see NextAction.
	PaymentActionRequired PaymentStatus = "action_required"
	// PaymentApproved: the seats are sold to the buyer; it stays so while the money
	// is being captured.
	PaymentApproved PaymentStatus = "approved"
	// PaymentDeclined: not paid. While the hold lasts another attempt is possible.
	PaymentDeclined PaymentStatus = "declined"
	// PaymentUnknown: the provider has not said what became of it; usher keeps asking.
	PaymentUnknown PaymentStatus = "unknown"
	// PaymentVoided: not paid for good, whatever was authorized has been given up.
	PaymentVoided PaymentStatus = "voided"
)

// ActionType says what the buyer's page does next.
type ActionType string

// Next actions.
const (
	// ActionNone: nothing, the order has reached its end or its tickets follow.
	ActionNone ActionType = "none"
	// ActionRedirect: send the browser to NextAction.URL, it comes back by itself.
	ActionRedirect ActionType = "redirect"
	// ActionWait: read the order again in a moment.
	ActionWait ActionType = "wait"
	// ActionPayAgain: another payment method may be tried on the same hold.
	ActionPayAgain ActionType = "pay_again"
)

// NextAction is what the buyer's page does next.
type NextAction struct {
	Type ActionType `json:"type"`
	// URL is set with ActionRedirect; it is for this buyer only and is not logged.
	URL string `json:"url,omitempty"`
}

// StatusOf maps an order to what its buyer is told. It depends on the order
// alone, so every way of asking gives the same answer.
func StatusOf(o ledger.Order) PaymentStatus {
	switch o.Status {
	case usher.OrderConfirmed:
		return PaymentApproved
	case usher.OrderDeclined, usher.OrderLapsed:
		return PaymentDeclined
	case usher.OrderVoided, usher.OrderCancelled:
		return PaymentVoided
	case usher.OrderVoiding:
		// It will not be sold, but whether money is reserved is still being found out.
		return PaymentUnknown
	}
	if o.Authorization == nil {
		return PaymentProcessing
	}
	switch o.Authorization.Status {
	case usher.OperationUnknown:
		return PaymentUnknown
	case usher.OperationActionRequired:
		return PaymentActionRequired
	}
	return PaymentProcessing
}

// NextActionOf maps an order to what its buyer's page does next.
func NextActionOf(o ledger.Order) NextAction {
	switch StatusOf(o) {
	case PaymentActionRequired:
		if o.Authorization.ActionURL == "" {
			return NextAction{Type: ActionWait}
		}
		return NextAction{Type: ActionRedirect, URL: o.Authorization.ActionURL}
	case PaymentProcessing, PaymentUnknown:
		return NextAction{Type: ActionWait}
	case PaymentDeclined:
		if o.Status == usher.OrderDeclined && o.Now.Before(o.HoldExpiresAt) {
			return NextAction{Type: ActionPayAgain}
		}
	}
	return NextAction{Type: ActionNone}
}
