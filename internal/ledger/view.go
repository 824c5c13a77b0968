package ledger

import (
	"time"

	"usher"
)

// Seat is one place of a hold or an order with its price.
type Seat struct {
	ID    usher.SeatID
	Tier  usher.TierID
	Price usher.Money
}

// Item is a quantity of places without names in one tier; Price is for one.
type Item struct {
	Tier     usher.TierID
	Quantity int
	Price    usher.Money
}

// Hold is a hold as it stands, or as it was first answered when Replayed.
type Hold struct {
	ID      usher.HoldID
	Event   usher.EventID
	Account usher.AccountID
	Status  usher.HoldStatus
	// ExpiresAt is the deadline set once by the database clock; GraceUntil is the
	// end of the one bounded extension while a payment is pending.
	ExpiresAt    time.Time
	GraceUntil   *time.Time
	Seats        []Seat
	Items        []Item
	Amount       usher.Money
	PriceVersion int
	CreatedAt    time.Time
	// Order is the hold's order, if a checkout began.
	Order usher.OrderID
	// Now is the database time at which this view was taken.
	Now time.Time
	// Replayed says that this is the stored answer to an earlier request.
	Replayed bool
}

// Order is an order as it stands.
type Order struct {
	ID          usher.OrderID
	Hold        usher.HoldID
	Event       usher.EventID
	Account     usher.AccountID
	Status      usher.OrderStatus
	Amount      usher.Money
	Seats       []Seat
	Items       []Item
	CreatedAt   time.Time
	ConfirmedAt *time.Time
	CapturedAt  *time.Time
	ClosedAt    *time.Time
	CloseReason string
	// HoldExpiresAt and GraceUntil are the hold's deadlines, for the countdown.
	HoldExpiresAt time.Time
	GraceUntil    *time.Time
	// Authorization is the latest authorize operation, Capture the capture; nil
	// for free orders and where none exists yet.
	Authorization *Operation
	Capture       *Operation
	// Operations are all payment operations of the order, oldest first. Only a
	// reading of one order has them.
	Operations []Operation
	Now        time.Time
	// Replayed says that the request that returned this order began nothing.
	Replayed bool
}

// Operation is one payment operation: a durable intent towards a provider.
type Operation struct {
	ID           usher.OperationID
	Order        usher.OrderID
	Event        usher.EventID
	Kind         usher.OperationKind
	Status       usher.OperationStatus
	Provider     string
	Reference    string
	MethodToken  string
	Amount       usher.Money
	Key          string
	ActionURL    string
	ProviderCode string
	// CaptureBefore is when the authorization ends by itself; nil is not known.
	CaptureBefore *time.Time
	// SentAt is set, durably, before the provider is first asked to move money.
	SentAt    *time.Time
	CreatedAt time.Time
	UpdatedAt time.Time
	Attempts  int
	NextAt    *time.Time
	ParkedAt  *time.Time
	LastError string
}

// SeatState is one seat in a snapshot.
type SeatState struct {
	ID      usher.SeatID
	Tier    usher.TierID
	Status  usher.SeatStatus
	Version int64
	// ExpiresAt is the deadline of a held seat; a held seat past it shows as available.
	ExpiresAt *time.Time
}

// BucketState is one bucket of a general-admission tier.
type BucketState struct {
	Tier                  usher.TierID
	Bucket                int
	Available, Held, Sold int
}

// Capacity is how many places the bucket has in all.
func (b BucketState) Capacity() int { return b.Available + b.Held + b.Sold }

// Snapshot is every seat of an event together with the number of the last
// change it contains.
type Snapshot struct {
	Event usher.EventID
	Seq   int64
	Now   time.Time
	Seats []SeatState
	// Buckets are the places without names, by tier and bucket.
	Buckets []BucketState
}

// EntryType names what an outbox entry reports.
type EntryType string

// The types of outbox entries.
const (
	EntryHoldPlaced     EntryType = "hold_placed"
	EntryHoldReleased   EntryType = "hold_released"
	EntryHoldExpired    EntryType = "hold_expired"
	EntryPaymentBegun   EntryType = "payment_begun"
	EntryPaymentFailed  EntryType = "payment_failed"
	EntryOrderConfirmed EntryType = "order_confirmed"
	EntryOrderCaptured  EntryType = "order_captured"
	EntryOrderVoiding   EntryType = "order_voiding"
	EntryOrderVoided    EntryType = "order_voided"
	EntryOrderCancelled EntryType = "order_cancelled"
	EntrySeatsBlocked   EntryType = "seats_blocked"
	EntrySeatsUnblocked EntryType = "seats_unblocked"
	EntryCapacityMoved  EntryType = "capacity_moved"
)

// Entry is one row of an event's outbox: one changing command.
type Entry struct {
	Event usher.EventID
	// Seq is dense per event, in commit order, from 1.
	Seq       int64
	Command   usher.CommandID
	Aggregate string
	Type      EntryType
	Cause     string
	Payload   Payload
	At        time.Time
}

// Payload is the JSON body of an outbox entry. It carries account ids only, no
// personal data.
type Payload struct {
	Account usher.AccountID `json:"accountId,omitzero"`
	Hold    usher.HoldID    `json:"holdId,omitzero"`
	Order   usher.OrderID   `json:"orderId,omitzero"`
	Amount  *usher.Money    `json:"amount,omitempty"`
	Seats   []SeatChange    `json:"seats,omitempty"`
	Buckets []BucketChange  `json:"buckets,omitempty"`
}

// BucketChange is a bucket after an entry.
type BucketChange struct {
	Tier      usher.TierID `json:"tierId"`
	Bucket    int          `json:"bucket"`
	Available int          `json:"available"`
	Held      int          `json:"held"`
	Sold      int          `json:"sold"`
	Version   int64        `json:"version"`
}

// SeatChange is the move of one seat within an entry.
type SeatChange struct {
	Seat    usher.SeatID     `json:"seatId"`
	From    usher.SeatStatus `json:"from"`
	To      usher.SeatStatus `json:"to"`
	Version int64            `json:"version"`
	// Hold and Order own the seat after the change; both empty when it is free.
	Hold      usher.HoldID  `json:"holdId,omitzero"`
	Order     usher.OrderID `json:"orderId,omitzero"`
	ExpiresAt *time.Time    `json:"expiresAt,omitempty"`
}
