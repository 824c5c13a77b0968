package ledger

import (
	"usher"
)

// PlaceHold asks for one to usher.PlacesMax places, distinct seats and quantities
// of general-admission tiers together, all or nothing.
//
// Refusals: CodeSeatUnknown, CodeSeatsUnavailable (Error.Seats names the taken
// ones), CodeLimitExceeded, CodeSaleNotOpen, CodeSaleClosed, CodeEventCancelled,
// CodeAccountBlocked, CodeSessionEnded, CodeIdempotencyKeyReused.
type PlaceHold struct {
	Event   usher.EventID
	Account usher.AccountID
	// Session is the live shopper session; zero where the event's rules do not
	// require admission.
	Session usher.SessionID
	Seats   []usher.SeatID
	// Items are quantities of tiers without seats; Price is ignored.
	Items []Item
	// Alternatives are up to AlternativesMax groups of seats, best first, instead of
	// Seats: all are locked together and the first that can be had is held. Wish is
	// what the buyer asked for in words of the caller's, the same for the same
	// request: it is what the key stands for, since the groups change by the moment.
	// Unavailable alternatives are no result: the caller looks for others and asks
	// again with the same key.
	Alternatives [][]usher.SeatID
	Wish         string
	// Key is the caller's idempotency key, scoped to event, account and operation.
	Key string
}

// AlternativesMax is the most groups of seats that are locked for one hold.
const AlternativesMax = 3

// ReleaseHold gives a hold's seats back before its deadline. Only the account
// that placed it may release it; releasing a hold that has ended already
// returns it unchanged.
//
// Refusals: CodeNotFound (also for somebody else's hold), CodeHoldPaymentPending,
// CodeHoldEnded (it was confirmed).
type ReleaseHold struct {
	Hold    usher.HoldID
	Account usher.AccountID
}

// BeginPayment turns a live hold into an order with an authorization to run:
// seats pending, hold PAYMENT_PENDING with one bounded grace. A hold has one
// order; while that order is being paid for, or is paid, a checkout with any
// key returns it. After a definite decline it starts a new attempt on it.
//
// Refusals: CodeNotFound, CodeHoldExpired, CodeHoldEnded, CodeTooLateToPay,
// CodePendingLimit, CodeLimitExceeded, CodeSaleClosed, CodeEventCancelled,
// CodeAccountBlocked, CodeSessionEnded, CodeIdempotencyKeyReused.
type BeginPayment struct {
	Hold    usher.HoldID
	Account usher.AccountID
	// Provider is the adapter's name, stored on the operation.
	Provider string
	// MethodToken is the provider's token of the buyer's payment method.
	MethodToken string
	Key         string
}

// ConfirmOrder sells an authorized order: seats sold, order confirmed, capture
// operation written, in one commit. When the order can no longer be confirmed
// (see docs/rules.md) the same commit closes the door: the order moves to
// voiding, the void operation is written, and the reason is the error.
//
// Refusals that void: CodePaymentMismatch, CodeLimitExceeded, CodeEventCancelled,
// CodeAccountBlocked. Refusals that change nothing: CodeNotFound,
// CodeOrderClosed (the door is closed already), CodeStateConflict.
type ConfirmOrder struct {
	Order     usher.OrderID
	Operation usher.OperationID
	// Authorized is what the provider says it authorized.
	Authorized usher.Money
}

// FailPayment records that an authorization definitely did not happen
// (declined, or proven absent). Before the hold's deadline its seats go back to
// held and the order waits for another attempt; past it they are freed.
//
// Refusals: CodeNotFound, CodeStateConflict (the order is not waiting for this
// operation, or Unsent no longer holds).
type FailPayment struct {
	Order     usher.OrderID
	Operation usher.OperationID
	// Unsent says that the provider had not been asked for money when this was
	// decided. It is checked again under the lock: another driver may have asked.
	Unsent bool
	// ProviderCode is the provider's reason, for staff; never shown to buyers.
	ProviderCode string
}

// VoidOrder closes the door: from its commit on, confirmation is refused and a
// void operation asks the provider to give the authorization up. The seats stay
// pending until FinishVoid.
//
// Refusals: CodeNotFound, CodeStateConflict (confirmed or ended).
type VoidOrder struct {
	Order  usher.OrderID
	Reason string
}

// FinishVoid frees the seats of a voiding order once the provider has answered
// that nothing is, or can still be, authorized.
//
// Refusals: CodeNotFound, CodeStateConflict (the order is not being given up, or
// Unsent no longer holds).
type FinishVoid struct {
	Order     usher.OrderID
	Operation usher.OperationID
	// Unsent is as in FailPayment, of the authorization that is given up.
	Unsent bool
}

// SettleCapture records the definite end of a capture. Success marks the order
// captured, which lets tickets be issued. Failure cancels the order and returns
// its seats, before any ticket exists, and writes the void operation.
//
// Refusals: CodeNotFound, CodeStateConflict.
type SettleCapture struct {
	Order        usher.OrderID
	Operation    usher.OperationID
	Captured     bool
	ProviderCode string
}

// BlockSeats takes available seats out of sale. Seats that are held, pending or
// sold stay with whoever has them: then nothing is blocked, and the refusal names
// them. Blocking a blocked seat changes nothing.
//
// Refusals: CodeInvalidRequest (a seat twice), CodeSeatUnknown, CodeSeatsUnavailable.
type BlockSeats struct {
	Event usher.EventID
	Seats []usher.SeatID
	By    Staff
}

// UnblockSeats puts blocked seats back on sale; seats that are not blocked stay
// as they are.
//
// Refusals: CodeInvalidRequest (a seat twice), CodeSeatUnknown.
type UnblockSeats struct {
	Event usher.EventID
	Seats []usher.SeatID
	By    Staff
}

// MoveCapacity moves free capacity from one bucket of a tier to another; a bucket
// that does not exist yet is made. The tier's capacity stays as it is.
//
// Refusals: CodeInvalidRequest (no such bucket), CodeStateConflict (less is free).
type MoveCapacity struct {
	Event    usher.EventID
	Tier     usher.TierID
	From, To int
	Quantity int
	By       Staff
}

// SetCapacity changes the capacity of one bucket, or of a whole tier: then its
// buckets keep the shares that they have of what is free. It cannot go below what
// is held, being paid for and sold.
//
// Refusals: CodeInvalidRequest (no such bucket), CodeStateConflict with the numbers.
type SetCapacity struct {
	Event usher.EventID
	Tier  usher.TierID
	// Bucket 0 is all of the tier.
	Bucket   int
	Capacity int
	By       Staff
}

// StaffRelease ends somebody's hold before its deadline. A hold that is being
// paid for is kept for its holder.
//
// Refusals: CodeNotFound, CodeHoldPaymentPending, CodeHoldEnded.
type StaffRelease struct {
	Hold usher.HoldID
	By   Staff
}

// CancelOrder takes a sold order back: seats return to sale, unused codes are
// voided in the same commit, and a void operation gives the money back, captured
// or not. Cancelling a cancelled order returns it unchanged.
//
// Refusals: CodeNotFound, CodeStateConflict (never confirmed).
type CancelOrder struct {
	Order usher.OrderID
	By    Staff
}

// Staff says who acts, and why; it becomes the cause of the outbox entry.
type Staff struct {
	Operator usher.OperatorID
	Reason   string
}
