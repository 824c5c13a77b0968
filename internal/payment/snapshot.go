package payment

import (
	"time"

	"usher"
)

// State is the state of an intent at the provider, in usher's words.
type State string

// The states. Only StateVoided and StateExpired prove that nothing is and
// nothing can still be authorized.
const (
	// StateUnknown: the read failed, or the provider named a state this code does not know: alert.
	StateUnknown State = ""
	// StateNotFound: the provider does not know the reference. It proves nothing
	// about an intent that was seen before.
	StateNotFound State = "not_found"
	// StateCreated: prepared and not confirmed, or confirmed with an answer still to come.
	StateCreated State = "created"
	// StateActionRequired: waits for the buyer, and stays payable for as long as it does.
	StateActionRequired State = "action_required"
	// StatePending: the provider has not decided yet.
	StatePending State = "pending"
	// StateAuthorized: reserved until CaptureBefore.
	StateAuthorized State = "authorized"
	// StateCapturePending: capture accepted, not yet certain.
	StateCapturePending State = "capture_pending"
	// StateCaptured: the money is taken; AmountReceived tells how much.
	StateCaptured State = "captured"
	// StateVoided: given up by us or by staff at the provider.
	StateVoided State = "voided"
	// StateExpired: the authorization lapsed by itself.
	StateExpired State = "expired"
	// StateDeclined: the last attempt was declined. Another confirmation could still succeed.
	StateDeclined State = "declined"
	// StatePartlyRefunded and StateRefunded: captured, then given back in part or in full.
	StatePartlyRefunded State = "partly_refunded"
	StateRefunded       State = "refunded"
	// StateDisputed: captured, and the buyer's bank has asked for it back.
	StateDisputed State = "disputed"
)

// Closed reports whether the state proves that nothing is authorized or
// captured and that nothing can become so: the only ground on which seats go
// back after an unknown authorization.
func (s State) Closed() bool { return s == StateVoided || s == StateExpired }

// MoneyTaken reports whether the amount was captured, given back or not: the
// authorization can no longer be voided.
func (s State) MoneyTaken() bool {
	switch s {
	case StateCaptured, StatePartlyRefunded, StateRefunded, StateDisputed:
		return true
	}
	return false
}

// Metadata is what Prepare attached to the intent. Fields are zero on an intent
// that usher did not make, or that carries something else under these names.
type Metadata struct {
	OperationID usher.OperationID
	OrderID     usher.OrderID
	EventID     usher.EventID
}

// Snapshot is an intent as the provider gave it to one read.
type Snapshot struct {
	State     State
	Reference string
	// Amount is the intent's amount: what is or would be authorized.
	Amount usher.Money
	// AmountReceived is what was captured; AmountRefunded what was given back of it.
	AmountReceived usher.Money
	AmountRefunded usher.Money
	Metadata       Metadata
	// Action is set in StateActionRequired.
	Action Action
	// LastErrorCode is the provider's reason for the last decline, or the adapter's
	// reason why the read failed, as in Outcome.ProviderCode.
	LastErrorCode string
	// CaptureBefore is when the authorization lapses by itself; zero is not told.
	CaptureBefore time.Time
	// Livemode: real money. Evidence of the other mode than the operation's own is void.
	Livemode  bool
	RequestID string
}

// Notice is what a genuine webhook is about. It is a hint, never evidence: the
// receiver reads the intent again before it acts, and only if State could
// change something.
type Notice struct {
	// EventID is the provider's id of the message, to drop repeats by. Never empty.
	EventID string
	// Type is the provider's name of what happened, for example "payment_intent.succeeded".
	Type string
	// Created is the provider's time of the event, in whole seconds: it orders nothing.
	Created time.Time
	// Reference is the intent; empty if the message names none.
	Reference string
	// Metadata is what the message's object carried of ours; zero if nothing.
	Metadata Metadata
	// Key is the idempotency key of the request that caused the event, if any did.
	Key string
	// State is what the message suggests; StateUnknown suggests nothing, so read.
	State State
	// Ignored says why the message needs no work; empty is "act on it".
	Ignored  Ignored
	Livemode bool
	// APIVersion is the version of the provider's interface the message is written in.
	APIVersion string
}

// Ignored says why a genuine message is stored, answered 2xx, and not acted on.
type Ignored string

// Reasons to ignore a genuine message.
const (
	// IgnoredType: a kind of event that never concerns an intent of ours.
	IgnoredType Ignored = "type"
	// IgnoredMode: test money in a live system or the other way round.
	IgnoredMode Ignored = "mode"
	// IgnoredUnreadable: signed, and yet not an event with an object in it.
	IgnoredUnreadable Ignored = "unreadable"
)
