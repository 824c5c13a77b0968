package ledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/pg"
)

// Ledger takes commands for every event whose shard this process can reach.
type Ledger struct {
	homes *pg.Homes
}

// New makes a ledger on the homes.
func New(homes *pg.Homes) *Ledger { return &Ledger{homes: homes} }

// PlaceHold places a hold; see the command for its refusals.
func (l *Ledger) PlaceHold(ctx context.Context, c PlaceHold) (Hold, error) { panic("being written") }

// ReleaseHold releases a hold; see the command for its refusals.
func (l *Ledger) ReleaseHold(ctx context.Context, c ReleaseHold) (Hold, error) {
	panic("being written")
}

// BeginPayment begins a checkout; see the command for its refusals. Started
// tells whether this call created the authorization, which the caller then runs.
func (l *Ledger) BeginPayment(ctx context.Context, c BeginPayment) (o Order, started bool, err error) {
	panic("being written")
}

// ConfirmOrder sells an authorized order; see the command for its refusals.
func (l *Ledger) ConfirmOrder(ctx context.Context, c ConfirmOrder) (Order, error) {
	panic("being written")
}

// FailPayment records a definite decline; see the command for its refusals.
func (l *Ledger) FailPayment(ctx context.Context, c FailPayment) (Order, error) {
	panic("being written")
}

// VoidOrder closes the door on an order; see the command for its refusals.
func (l *Ledger) VoidOrder(ctx context.Context, c VoidOrder) (Order, error) { panic("being written") }

// FinishVoid frees the seats of a voiding order; see the command for its refusals.
func (l *Ledger) FinishVoid(ctx context.Context, c FinishVoid) (Order, error) {
	panic("being written")
}

// SettleCapture records the end of a capture; see the command for its refusals.
func (l *Ledger) SettleCapture(ctx context.Context, c SettleCapture) (Order, error) {
	panic("being written")
}

// ExpireHolds runs an empty group for the event, which frees due holds; it
// returns how many it freed. Correctness never needs it.
func (l *Ledger) ExpireHolds(ctx context.Context, event usher.EventID) (int, error) {
	panic("being written")
}

// Hold reads a hold. It fails with CodeNotFound.
func (l *Ledger) Hold(ctx context.Context, id usher.HoldID) (Hold, error) { panic("being written") }

// LiveHolds reads the account's live holds of one event, oldest first.
func (l *Ledger) LiveHolds(ctx context.Context, event usher.EventID, account usher.AccountID) ([]Hold, error) {
	panic("being written")
}

// Order reads an order. It fails with CodeNotFound.
func (l *Ledger) Order(ctx context.Context, id usher.OrderID) (Order, error) { panic("being written") }

// Orders reads the account's orders of one event, newest first, at most 100.
func (l *Ledger) Orders(ctx context.Context, event usher.EventID, account usher.AccountID) ([]Order, error) {
	panic("being written")
}

// Setup is what an event's inventory is made of.
type Setup struct {
	Event usher.EventID
	Rules usher.Rules
	Tiers []Tier
	Seats []SeatSetup
}

// Tier is a price tier of the current price version.
type Tier struct {
	ID    usher.TierID
	Name  string
	Price usher.Money
}

// SeatSetup is one seat with its tier.
type SeatSetup struct {
	ID   usher.SeatID
	Tier usher.TierID
}

// SetUp creates an event's inventory, rules and prices in its home shard. Doing
// it again with the same seats changes nothing, so a crashed publication is
// simply repeated. It fails with CodeInvalidRequest, and with CodeStateConflict
// when the event exists with other seats.
func (l *Ledger) SetUp(ctx context.Context, s Setup) error { panic("being written") }

// Rules reads the rules in force and the current tiers. It fails with CodeNotFound.
func (l *Ledger) Rules(ctx context.Context, event usher.EventID) (usher.Rules, []Tier, error) {
	panic("being written")
}

// ChangeRules applies change to the rules under a lock and gives them a new
// version; a command in flight under the old version re-reads them. It fails
// with CodeNotFound and CodeInvalidRequest.
func (l *Ledger) ChangeRules(ctx context.Context, event usher.EventID, change func(*usher.Rules)) (usher.Rules, error) {
	panic("being written")
}

// Seats reads a consistent snapshot of every seat. It fails with CodeNotFound.
func (l *Ledger) Seats(ctx context.Context, event usher.EventID) (Snapshot, error) {
	panic("being written")
}

// Changes reads at most limit outbox entries after the given number, in order.
func (l *Ledger) Changes(ctx context.Context, event usher.EventID, after int64, limit int) ([]Entry, error) {
	panic("being written")
}

// Watch returns a channel that receives after commits of this process to the
// event (coalesced: capacity one), and a function that ends the watch. Commits
// of other processes are found by polling Changes.
func (l *Ledger) Watch(event usher.EventID) (wake <-chan struct{}, stop func()) {
	panic("being written")
}

// Reader consumes the outbox of every event of every shard: at least once, per
// event in order. Handle runs inside the transaction that advances the cursor,
// so what it writes to the same shard happens exactly once. An error leaves the
// cursor where it was; the batch is handed over again later.
type Reader struct {
	Name   string
	Handle func(ctx context.Context, tx pgx.Tx, event usher.EventID, entries []Entry) error
}

// RunReader runs the reader until ctx ends. Several processes may run the same
// reader: per event one of them works at a time.
func (l *Ledger) RunReader(ctx context.Context, r Reader) error { panic("being written") }

// Operations gives access to payment operations of one shard, for checkout.
func (l *Ledger) Operations() *Operations { return &Operations{homes: l.homes} }

// Operations reads payment operations and records what was learned about them
// short of a decision: everything here leaves seats and orders as they are.
type Operations struct {
	homes *pg.Homes
}

// Get reads an operation. It fails with CodeNotFound.
func (o *Operations) Get(ctx context.Context, id usher.OperationID) (Operation, error) {
	panic("being written")
}

// ByReference finds the authorize operation of the event with the provider's
// reference. It fails with CodeNotFound.
func (o *Operations) ByReference(ctx context.Context, event usher.EventID, provider, reference string) (Operation, error) {
	panic("being written")
}

// Learned is what a provider's answer taught short of a decision; zero fields
// leave the row as it is.
type Learned struct {
	// Status moves the operation along its graph; "" keeps it.
	Status        usher.OperationStatus
	Reference     string
	ActionURL     string
	ProviderCode  string
	CaptureBefore *time.Time
	// Sent sets sent_at to the database time, once.
	Sent bool
	// NextIn schedules the next look by database time from now; 0 keeps the schedule.
	NextIn time.Duration
}

// Learn stores it, durably, before the caller goes on. A status that the graph
// does not allow from the current one is a CodeStateConflict and changes nothing:
// late and repeated news never move an operation backwards.
func (o *Operations) Learn(ctx context.Context, id usher.OperationID, l Learned) (Operation, error) {
	panic("being written")
}

// Due lists shard pools with the table that work.Runner leases operations from.
func (o *Operations) Pool(ctx context.Context, event usher.EventID) (*pgxpool.Pool, error) {
	return o.homes.Shard(ctx, event)
}
