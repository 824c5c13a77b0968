package usher

import "slices"

// SeatStatus is the state of one seat of one event.
type SeatStatus string

// Seat states. A seat can be taken when available, or held and past its time; a
// pending seat is never taken by time.
const (
	SeatAvailable SeatStatus = "available"
	SeatHeld      SeatStatus = "held"
	SeatPending   SeatStatus = "pending"
	SeatSold      SeatStatus = "sold"
	SeatBlocked   SeatStatus = "blocked"
)

// HoldStatus is the state of one hold.
type HoldStatus string

// Hold states. Held and PaymentPending are live; the others are final.
const (
	HoldHeld           HoldStatus = "held"
	HoldPaymentPending HoldStatus = "payment_pending"
	HoldConfirmed      HoldStatus = "confirmed"
	HoldReleased       HoldStatus = "released"
	HoldExpired        HoldStatus = "expired"
)

// OrderStatus is the state of one order.
type OrderStatus string

// Order states. PaymentPending: an authorization is in motion. Declined: the
// last attempt was declined, the hold still stands and another attempt is
// allowed. Voiding: the door is closed, the provider is being made to give the
// authorization up, the seats are still pending. Confirmed: the seats are sold.
// Cancelled: compensation after confirmation. Voided and Lapsed: never sold.
const (
	OrderPaymentPending OrderStatus = "payment_pending"
	OrderDeclined       OrderStatus = "declined"
	OrderVoiding        OrderStatus = "voiding"
	OrderConfirmed      OrderStatus = "confirmed"
	OrderVoided         OrderStatus = "voided"
	OrderLapsed         OrderStatus = "lapsed"
	OrderCancelled      OrderStatus = "cancelled"
)

// OperationKind says what a payment operation asks of the provider.
type OperationKind string

// Kinds of payment operations.
const (
	OperationAuthorize OperationKind = "authorize"
	OperationCapture   OperationKind = "capture"
	OperationVoid      OperationKind = "void"
	OperationRefund    OperationKind = "refund"
)

// OperationStatus is what is known of a payment operation: done, not done, or
// not known yet; never guessed.
type OperationStatus string

// Operation states. Created: the intent is durable, nothing is known to have
// been sent. Unknown: it may have been executed. ActionRequired: the buyer has
// to pass a challenge. Succeeded and Failed (for an authorization: declined, or
// proven absent) are final, with one exception: a void or refund makes a
// succeeded authorization or capture Reversed.
const (
	OperationCreated        OperationStatus = "created"
	OperationUnknown        OperationStatus = "unknown"
	OperationActionRequired OperationStatus = "action_required"
	OperationSucceeded      OperationStatus = "succeeded"
	OperationFailed         OperationStatus = "failed"
	OperationReversed       OperationStatus = "reversed"
)

// CodeStatus is the state of a ticket or voucher code.
type CodeStatus string

// Code states. Nothing ever returns to unused.
const (
	CodeUnused     CodeStatus = "unused"
	CodeProcessing CodeStatus = "processing"
	CodeUsed       CodeStatus = "used"
	CodeAbnormal   CodeStatus = "abnormal"
	CodeVoided     CodeStatus = "voided"
)

// QueuePhase is the phase of an event's waiting room.
type QueuePhase string

// Waiting room phases.
const (
	QueueScheduled QueuePhase = "scheduled"
	QueuePrequeue  QueuePhase = "prequeue"
	QueueOpen      QueuePhase = "open"
	QueuePaused    QueuePhase = "paused"
	QueueClosed    QueuePhase = "closed"
)

// Transition is one legal move of a state machine and what causes it.
type Transition[S ~string] struct {
	From, To S
	Cause    string
}

// SeatTransitions is the graph of seat states.
var SeatTransitions = []Transition[SeatStatus]{
	{SeatAvailable, SeatHeld, "PlaceHold"},
	{SeatHeld, SeatHeld, "PlaceHold past the deadline"},
	{SeatHeld, SeatAvailable, "ReleaseHold"},
	{SeatHeld, SeatAvailable, "ExpireHolds"},
	{SeatHeld, SeatPending, "BeginPayment"},
	{SeatPending, SeatSold, "ConfirmOrder"},
	{SeatPending, SeatHeld, "FailPayment before the deadline"},
	{SeatPending, SeatAvailable, "FailPayment past the deadline"},
	{SeatPending, SeatAvailable, "VoidOrder"},
	{SeatSold, SeatAvailable, "CancelOrder"},
	{SeatAvailable, SeatBlocked, "BlockSeats"},
	{SeatHeld, SeatBlocked, "BlockSeats past the deadline"},
	{SeatBlocked, SeatAvailable, "UnblockSeats"},
}

// HoldTransitions is the graph of hold states.
var HoldTransitions = []Transition[HoldStatus]{
	{HoldHeld, HoldReleased, "ReleaseHold"},
	{HoldHeld, HoldExpired, "ExpireHolds"},
	{HoldHeld, HoldPaymentPending, "BeginPayment"},
	{HoldPaymentPending, HoldConfirmed, "ConfirmOrder"},
	{HoldPaymentPending, HoldHeld, "FailPayment before the deadline"},
	{HoldPaymentPending, HoldExpired, "FailPayment past the deadline"},
	{HoldPaymentPending, HoldReleased, "VoidOrder"},
}

// OrderTransitions is the graph of order states.
var OrderTransitions = []Transition[OrderStatus]{
	{OrderPaymentPending, OrderConfirmed, "ConfirmOrder"},
	{OrderPaymentPending, OrderDeclined, "FailPayment before the deadline"},
	{OrderPaymentPending, OrderLapsed, "FailPayment past the deadline"},
	{OrderPaymentPending, OrderVoiding, "VoidOrder"},
	{OrderDeclined, OrderPaymentPending, "BeginPayment"},
	{OrderDeclined, OrderLapsed, "ExpireHolds"},
	{OrderDeclined, OrderLapsed, "ReleaseHold"},
	{OrderVoiding, OrderVoided, "VoidOrder proven"},
	{OrderConfirmed, OrderCancelled, "CancelOrder"},
}

// OperationTransitions is the graph of payment operation states.
var OperationTransitions = []Transition[OperationStatus]{
	{OperationCreated, OperationUnknown, "no answer"},
	{OperationCreated, OperationActionRequired, "challenge asked"},
	{OperationCreated, OperationSucceeded, "provider says done"},
	{OperationCreated, OperationFailed, "provider says not done"},
	{OperationUnknown, OperationActionRequired, "challenge asked"},
	{OperationUnknown, OperationSucceeded, "provider says done"},
	{OperationUnknown, OperationFailed, "provider says not done"},
	{OperationActionRequired, OperationUnknown, "no answer"},
	{OperationActionRequired, OperationSucceeded, "provider says done"},
	{OperationActionRequired, OperationFailed, "provider says not done"},
	{OperationSucceeded, OperationReversed, "void or refund done"},
}

// CodeTransitions is the graph of code states.
var CodeTransitions = []Transition[CodeStatus]{
	{CodeUnused, CodeProcessing, "claim"},
	{CodeProcessing, CodeUsed, "confirm"},
	{CodeProcessing, CodeAbnormal, "time limit or fault"},
	{CodeAbnormal, CodeUsed, "reconciliation"},
	{CodeAbnormal, CodeVoided, "reconciliation"},
	{CodeUnused, CodeVoided, "CancelOrder"},
}

// QueueTransitions is the graph of waiting room phases.
var QueueTransitions = []Transition[QueuePhase]{
	{QueueScheduled, QueuePrequeue, "publish"},
	{QueueScheduled, QueueOpen, "open"},
	{QueuePrequeue, QueueOpen, "open"},
	{QueueOpen, QueuePaused, "pause"},
	{QueuePaused, QueueOpen, "resume"},
	{QueueOpen, QueueClosed, "close"},
	{QueuePaused, QueueClosed, "close"},
	{QueuePrequeue, QueueClosed, "close"},
}

// CanMove reports whether the graph has an edge from one state to the other.
func CanMove[S ~string](graph []Transition[S], from, to S) bool {
	return slices.ContainsFunc(graph, func(t Transition[S]) bool { return t.From == from && t.To == to })
}
