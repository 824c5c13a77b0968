// Package payment is the port to payment providers: what usher asks of a
// provider, and the closed set of answers it can get. Adapters live in
// sub-packages and are stateless: no key invention, no retry loop, no cache.
//
// Invariants:
//   - The zero Outcome is Unknown and the zero Snapshot is StateUnknown. Only an
//     explicit verdict of the provider, or proof that nothing was ever sent, is
//     anything else; silence, a broken body and an unlisted status never are.
//   - A provider's answer is an Outcome, never an error, so that no caller can
//     take "an error came back" for "it was not done".
//   - Every call that can move money carries a key that the caller stored before
//     the call. Repeating a call with the same key and the same fields executes
//     at most once at the provider while the key lives (20 hours is safe).
//   - An answer that the provider marks as a repeat of an older one has been
//     read again by the adapter: State is what holds now, not what held then.
//   - No field of an answer, and no text made from it, holds a client secret,
//     a key or card data. Action.URL is for the buyer and is not logged.
package payment

import (
	"context"
	"net/http"
	"time"

	"usher"
)

// Provider is one payment provider. Its methods are safe for concurrent use;
// each bounds its own time and may be given a longer-lived context. The context
// only ends the waiting: what was sent may still be executed.
type Provider interface {
	// Name is the stable name under which operations are stored, for example "stripe".
	Name() string

	// Capabilities says what the provider can do; it never changes while the process runs.
	Capabilities() Capabilities

	// Prepare creates the intent without confirming it: an id before any money.
	// Once Outcome.Reference is stored, Void is a fence that makes "not paid" true.
	// Repeating it is always harmless. Approved means created; State is StateCreated.
	Prepare(ctx context.Context, r AuthorizeRequest) Outcome

	// Authorize confirms the prepared intent r.Reference. Approved means that
	// Outcome.Amount is reserved until Outcome.CaptureBefore, or already captured
	// (see State; what was given back is taken off Amount). Declined means that
	// nothing is authorized and that nothing will be unless Authorize is called
	// again with a new key.
	Authorize(ctx context.Context, r AuthorizeRequest) Outcome

	// Lookup reads the intent at the provider; it changes nothing and never
	// answers from a cache. A read that fails is StateUnknown.
	Lookup(ctx context.Context, reference string) Snapshot

	// Capture takes the authorized money. Approved: State is StateCaptured and
	// Amount is what was taken. Declined: it was not taken and cannot be any more;
	// State tells why (StateVoided, StateExpired).
	Capture(ctx context.Context, r CaptureRequest) Outcome

	// Void gives an intent up. Approved: State is StateVoided or StateExpired, and
	// nothing is or can still be authorized on it. Declined with StateCaptured (or
	// a refunded state): the money is already taken, and only Refund gives it back.
	Void(ctx context.Context, r VoidRequest) Outcome

	// Refund gives captured money back. Approved: done, also when an earlier call of
	// this operation did it. Pending: accepted, not yet certain; the same call again
	// tells how it went. Declined: it failed or was cancelled at the provider.
	// Rejected with a refunded State: there was nothing left to give back.
	Refund(ctx context.Context, r RefundRequest) Outcome

	// ParseWebhook checks the signature over the raw body and returns what the
	// message is about. It fails with usher.CodeWebhookSignature, and with nothing
	// else: a genuine message that cannot be used comes back with Notice.Ignored set.
	ParseWebhook(h http.Header, rawBody []byte) (Notice, error)
}

// Capabilities are the differences between providers that decide how an order
// is paid.
type Capabilities struct {
	// SeparateCapture: Authorize only reserves. Without it Authorize charges at
	// once, and an order that then cannot be confirmed needs a refund.
	SeparateCapture bool
	// FenceByVoid: Void works on an intent that was never confirmed and ends it.
	FenceByVoid bool
	// RefundByAPI: Refund works. Without it reserved seats are not sold.
	RefundByAPI bool
	// LookupAuthoritativeAfter is how long after Authorize a "not paid" answer of
	// Lookup may still be wrong. 0: reads follow writes at once.
	LookupAuthoritativeAfter time.Duration
}

// AuthorizeRequest asks for one authorization. Prepare ignores Reference,
// PaymentMethodToken and ReturnURL. Every repeat with the same Key must carry
// the same fields.
type AuthorizeRequest struct {
	OperationID usher.OperationID
	OrderID     usher.OrderID
	// Money is the order's total, positive, in minor units of usher.Currencies.
	Money usher.Money
	// Key is the stored base of the idempotency keys; the adapter appends the step.
	Key string
	// Reference is the id that Prepare returned.
	Reference string
	// PaymentMethodToken stands for the buyer's card at the provider.
	PaymentMethodToken string
	// ReturnURL is where the provider sends the buyer after a challenge; without
	// it a challenge has no URL to go to.
	ReturnURL string
}

// CaptureRequest asks for an authorized amount to be taken. Money may be less
// than what was authorized; the rest is then released.
type CaptureRequest struct {
	OperationID usher.OperationID
	OrderID     usher.OrderID
	Money       usher.Money
	Key         string
	Reference   string
}

// VoidRequest asks for an intent to be given up.
type VoidRequest struct {
	OperationID usher.OperationID
	OrderID     usher.OrderID
	Key         string
	Reference   string
}

// RefundRequest asks for captured money to be given back, all or in part.
type RefundRequest struct {
	OperationID usher.OperationID
	OrderID     usher.OrderID
	Money       usher.Money
	Key         string
	Reference   string
}
