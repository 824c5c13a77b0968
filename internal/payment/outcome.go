package payment

import (
	"log/slog"
	"time"

	"usher"
)

// Kind is the verdict of one call.
type Kind uint8

// The verdicts. docs/payments.md has the table of what leads to which.
const (
	// Unknown: it may or may not have been done, now or in a while. Look up or void.
	Unknown Kind = iota
	// Approved: the provider says that it is done.
	Approved
	// Declined: the provider says that it is not done, and will not be by itself.
	Declined
	// ActionRequired: the buyer has to pass a challenge, see Outcome.Action.
	ActionRequired
	// Pending: the provider accepted it and will decide later.
	Pending
	// NotExecuted: nothing reached the provider's execution; the same key may be sent again.
	NotExecuted
	// Rejected: the provider did not understand or did not allow the request. Nothing
	// was done. It is a fault of ours or of the buyer's token; alert.
	Rejected
)

// MethodUnknown is the ProviderCode, of every provider, of a Rejected authorization
// whose fault is the buyer's token: there is no such payment method.
const MethodUnknown = "payment_method_unknown"

var kindNames = [...]string{"unknown", "approved", "declined", "action_required", "pending", "not_executed", "rejected"}

// String returns the verdict's stable name, for logs, rows and metric labels.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[Unknown]
}

// Retry says what a caller may do after an answer that is not the wanted one.
type Retry uint8

// The ways to go on.
const (
	// RetrySameKey: send the same request with the same key again after a pause.
	RetrySameKey Retry = iota
	// RetryNewAttempt: the key is spent; the same may be asked again under a new
	// one. After Declined that is another try at the bank. With Unknown (Prepare,
	// Capture, Void) a new key cannot do anything twice: an intent without an id is
	// never confirmed, and capture and void happen at most once per intent.
	RetryNewAttempt
	// RetryNever: repeating changes nothing. With Unknown (Authorize) the provider
	// stored its failure under the key, or the key belongs to another request, so
	// only Lookup, a webhook or Void settles it.
	RetryNever
)

var retryNames = [...]string{"same_key", "new_attempt", "never"}

// String returns the stable name, for logs.
func (r Retry) String() string {
	if int(r) < len(retryNames) {
		return retryNames[r]
	}
	return retryNames[RetryNever]
}

// ActionKind says how the buyer passes a challenge.
type ActionKind string

// Ways to pass a challenge. ActionNone is the zero value.
const (
	ActionNone ActionKind = ""
	// ActionRedirect: send the buyer's browser to Action.URL; it comes back to the ReturnURL.
	ActionRedirect ActionKind = "redirect"
	// ActionSDK: only the provider's own client code can show it; usher cannot, so
	// the caller lets the operation run into its deadline or asks for another card.
	ActionSDK ActionKind = "sdk"
)

// Action is what the buyer has to do next.
type Action struct {
	Kind ActionKind
	URL  string
}

// Outcome is the answer to one call. The zero value is Unknown: same key again,
// or look up.
type Outcome struct {
	Kind Kind
	// State is the state of the intent that the answer carried, StateUnknown if none.
	State State
	// Retry says how to go on when Kind is not the wanted one.
	Retry Retry
	// Reference is the provider's id of the intent, for Refund too. Empty if the answer had none.
	Reference string
	// Amount is what the provider says was created (Prepare), authorized, captured
	// or refunded. The caller compares it with what it asked for.
	Amount usher.Money
	// CaptureBefore is when an authorization lapses by itself; zero is not told,
	// which is not "far away".
	CaptureBefore time.Time
	// Action is set with ActionRequired.
	Action Action
	// ProviderCode is the provider's own reason, for example "card_declined/insufficient_funds",
	// or the adapter's: "timeout", "no_connection", "unreadable_answer". For staff
	// and logs; buyers get one neutral text.
	ProviderCode string
	// Replayed: the provider repeated an earlier answer, so the state was read again.
	Replayed bool
	// RequestID is the provider's id of the exchange, for its support.
	RequestID string
}

// LogValue leaves out the challenge URL, which only the buyer should have.
func (o Outcome) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("kind", o.Kind.String()), slog.String("state", string(o.State)), slog.String("retry", o.Retry.String()),
		slog.String("reference", o.Reference), slog.String("code", o.ProviderCode), slog.Bool("replayed", o.Replayed),
		slog.String("request", o.RequestID))
}
