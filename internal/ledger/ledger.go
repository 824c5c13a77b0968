package ledger

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/pg"
)

// Ledger takes commands for every event whose shard this process can reach. It
// is safe for concurrent use; several processes may serve one event.
type Ledger struct {
	homes    *pg.Homes
	log      *slog.Logger
	metrics  *metrics
	group    *pg.Group[usher.EventID, command, answer]
	prices   priceCache
	codes    Codes
	watchers watchers
	messages *messages

	// waitingMax is how many holds of one event may wait for a group, pairAt how many
	// do before a second one runs.
	waitingMax, pairAt int

	// damaged are the holds that the log has been told of.
	damaged sync.Map

	mu sync.Mutex
	// epochs is the highest writer epoch this process has seen per event.
	epochs map[usher.EventID]int64
}

// Option configures a Ledger.
type Option func(*Ledger)

// WithMetrics registers the ledger's metrics.
func WithMetrics(r prometheus.Registerer) Option {
	return func(l *Ledger) { l.metrics = newMetrics(r) }
}

// WithLog sets the logger; slog.Default is used otherwise.
func WithLog(log *slog.Logger) Option { return func(l *Ledger) { l.log = log } }

// Codes are the codes of orders, the one thing of a cancellation that lives in
// another package.
type Codes interface {
	// LockCodes queues the statement that locks every code of the orders. With
	// skipLocked it waits for none, and names to missed each order of which somebody
	// else has a code locked.
	LockCodes(b *pgx.Batch, orders []usher.OrderID, skipLocked bool, missed func(usher.OrderID))
	// VoidCodes voids the unused codes of orders inside the transaction that cancels
	// them.
	VoidCodes(ctx context.Context, tx pgx.Tx, orders []usher.OrderID) error
}

// WithCodes has cancelled orders' codes voided in the commit of the cancellation.
func WithCodes(c Codes) Option { return func(l *Ledger) { l.codes = c } }

// WithPairs sets how many holds of seats of an event have to wait for a second group
// to run beside the first, instead of 128; 0 and more than 512 are never.
func WithPairs(at int) Option { return func(l *Ledger) { l.pairAt = at } }

// New makes a ledger on the homes.
func New(homes *pg.Homes, opts ...Option) *Ledger {
	l := &Ledger{
		homes: homes, log: slog.Default(), messages: newMessages(), waitingMax: waitingMax, pairAt: pairAt,
		epochs: map[usher.EventID]int64{},
	}
	for _, o := range opts {
		o(l)
	}
	if l.metrics == nil {
		l.metrics = newMetrics(prometheus.NewRegistry())
	}
	l.group = pg.NewGroup(groupMax, l.waitingMax, l.runGroup)
	if l.pairAt > 0 && roomForPairs(homes) {
		l.group.Pair(l.pairAt, claims, l.runBeside)
	}
	return l
}

// roomForPairs reports whether every shard's pool has connections left for the other
// events while one has two groups.
func roomForPairs(homes *pg.Homes) bool {
	return !slices.ContainsFunc(homes.Shards(), func(s pg.Shard) bool { return s.Pool.Config().MaxConns < pairConns })
}

// PlaceHold places a hold; see the command for its refusals. Besides, it fails
// with CodeUnavailable when too many commands wait, CodeBusy when the caller's
// context ended first, and CodeUnknown: retry with the same key.
func (l *Ledger) PlaceHold(ctx context.Context, c PlaceHold) (Hold, error) {
	if err := c.validate(); err != nil {
		return Hold{}, err
	}
	a, err := l.group.Do(ctx, c.Event, &c)
	return a.hold, err
}

// ReleaseHold releases a hold; see the command for its refusals.
func (l *Ledger) ReleaseHold(ctx context.Context, c ReleaseHold) (Hold, error) {
	a, err := l.first(ctx, c.Hold.Event(), &c)
	return a.hold, err
}

// BeginPayment begins a checkout; see the command for its refusals. started
// tells whether this call created the authorization, which the caller then runs.
func (l *Ledger) BeginPayment(ctx context.Context, c BeginPayment) (o Order, started bool, err error) {
	if err := c.validate(); err != nil {
		return Order{}, false, err
	}
	a, err := l.first(ctx, c.Hold.Event(), &c)
	return a.order, a.started, err
}

// ConfirmOrder sells an authorized order; see the command for its refusals.
func (l *Ledger) ConfirmOrder(ctx context.Context, c ConfirmOrder) (Order, error) {
	a, err := l.first(ctx, c.Order.Event(), &c)
	return a.order, err
}

// FailPayment records a definite decline; see the command for its refusals.
func (l *Ledger) FailPayment(ctx context.Context, c FailPayment) (Order, error) {
	a, err := l.first(ctx, c.Order.Event(), &c)
	return a.order, err
}

// VoidOrder closes the door on an order; see the command for its refusals.
func (l *Ledger) VoidOrder(ctx context.Context, c VoidOrder) (Order, error) {
	a, err := l.first(ctx, c.Order.Event(), &c)
	return a.order, err
}

// FinishVoid frees the seats of a voiding order; see the command for its refusals.
func (l *Ledger) FinishVoid(ctx context.Context, c FinishVoid) (Order, error) {
	a, err := l.first(ctx, c.Order.Event(), &c)
	return a.order, err
}

// SettleCapture records the end of a capture; see the command for its refusals.
func (l *Ledger) SettleCapture(ctx context.Context, c SettleCapture) (Order, error) {
	a, err := l.first(ctx, c.Order.Event(), &c)
	return a.order, err
}

// BlockSeats takes seats out of sale and returns those that it changed; see the command for its
// refusals.
func (l *Ledger) BlockSeats(ctx context.Context, c BlockSeats) (moved []usher.SeatID, err error) {
	if err := c.By.validate(); err != nil {
		return nil, err
	}
	if c.Seats, err = checkSeats(c.Seats); err != nil {
		return nil, err
	}
	a, err := l.first(ctx, c.Event, &c)
	return a.moved, err
}

// UnblockSeats puts seats back on sale and returns those that it changed; see the command for its
// refusals.
func (l *Ledger) UnblockSeats(ctx context.Context, c UnblockSeats) (moved []usher.SeatID, err error) {
	if err := c.By.validate(); err != nil {
		return nil, err
	}
	if c.Seats, err = checkSeats(c.Seats); err != nil {
		return nil, err
	}
	a, err := l.first(ctx, c.Event, &c)
	return a.moved, err
}

// MoveCapacity moves free capacity between buckets; see the command for its refusals.
func (l *Ledger) MoveCapacity(ctx context.Context, c MoveCapacity) error {
	if err := c.validate(); err != nil {
		return err
	}
	_, err := l.first(ctx, c.Event, &c)
	return err
}

// SetCapacity changes the capacity of a bucket or a tier; see the command for its refusals.
func (l *Ledger) SetCapacity(ctx context.Context, c SetCapacity) error {
	if err := c.validate(); err != nil {
		return err
	}
	_, err := l.first(ctx, c.Event, &c)
	return err
}

// StaffRelease ends somebody's hold; see the command for its refusals.
func (l *Ledger) StaffRelease(ctx context.Context, c StaffRelease) (Hold, error) {
	if err := c.By.validate(); err != nil {
		return Hold{}, err
	}
	a, err := l.first(ctx, c.Hold.Event(), &c)
	return a.hold, err
}

// CancelOrder takes a sold order back; see the command for its refusals.
func (l *Ledger) CancelOrder(ctx context.Context, c CancelOrder) (Order, error) {
	if err := c.By.validate(); err != nil {
		return Order{}, err
	}
	a, err := l.first(ctx, c.Order.Event(), &c)
	return a.order, err
}

// ExpireHolds runs an empty group for the event, which frees due holds; it
// returns how many that group freed, at most a few hundred. Correctness never
// needs it.
func (l *Ledger) ExpireHolds(ctx context.Context, event usher.EventID) (int, error) {
	a, err := l.first(ctx, event, expireHolds{})
	return a.freed, err
}

// Pressure says how many of the new holds that may wait for a group of the event
// in this process do, from 0 to 1, where PlaceHold refuses. Callers shed what is
// less than a hold well before.
func (l *Ledger) Pressure(event usher.EventID) float64 { return l.group.Pressure(event) }

// first sends completing work, which goes before new holds and is never shed.
// Ids come from outside, so the event may not exist: that is "no such thing".
func (l *Ledger) first(ctx context.Context, event usher.EventID, c command) (answer, error) {
	return l.group.First(ctx, event, c)
}
