package checkout

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg"
)

const sqlFreeOrders = `
SELECT order_id, currency FROM orders
WHERE status = 'payment_pending' AND payment_operation_id IS NULL
  AND created_at <= clock_timestamp() - make_interval(secs => $1)
ORDER BY created_at LIMIT 100`

// confirmFreeOrders sells orders of nothing whose process died between beginning
// and confirming them: they have no operation row that would bring them back.
func (c *Checkout) confirmFreeOrders(ctx context.Context, s shard) error {
	type free struct {
		order    usher.OrderID
		currency usher.Currency
	}
	rows, err := s.pool.Query(ctx, sqlFreeOrders, freeAfter.Seconds())
	if err != nil {
		return fmt.Errorf("list free orders: %w", pg.Unavailable(err))
	}
	orders, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f free, err error) {
		err = row.Scan(&f.order, &f.currency)
		return f, err
	})
	if err != nil {
		return fmt.Errorf("list free orders: %w", pg.Unavailable(err))
	}
	for _, f := range orders {
		_, err := c.ledger.ConfirmOrder(ctx, ledger.ConfirmOrder{Order: f.order, Authorized: usher.Money{Currency: f.currency}})
		if err != nil {
			c.log.WarnContext(ctx, "cannot confirm a free order", "order", f.order.String(), "error", err)
		}
	}
	return nil
}

const sqlSampleOperations = `
SELECT kind, status, count(*), EXTRACT(EPOCH FROM clock_timestamp() - min(created_at))::float8,
    COALESCE(EXTRACT(EPOCH FROM min(capture_before) - clock_timestamp()), 'Infinity')::float8
FROM payment_operation
WHERE status IN ('created', 'unknown', 'action_required')
GROUP BY kind, status`

// captureAlarm is how long before a sold order's authorization lapses uncaptured
// the log says so with every sample: a working day, for somebody to look.
const captureAlarm = 24 * time.Hour

// openKinds are the kinds and statuses that are shown even when there are none.
var (
	openKinds    = []usher.OperationKind{usher.OperationAuthorize, usher.OperationCapture, usher.OperationVoid, usher.OperationRefund}
	openStatuses = []usher.OperationStatus{usher.OperationCreated, usher.OperationUnknown, usher.OperationActionRequired}
)

// Backlog is what is open in a shard, as last sampled: what admission is
// controlled by.
type Backlog struct {
	// Unknown counts authorizations whose outcome is not known, OldestUnknown is
	// the age of the oldest of them.
	Unknown       int
	OldestUnknown time.Duration
	// Captures counts sold orders that are not captured yet.
	Captures      int
	OldestCapture time.Duration
	// Voids counts orders whose authorization is being given up.
	Voids      int
	OldestVoid time.Duration
}

// sample measures what is open in the shard.
func (c *Checkout) sample(ctx context.Context, s shard) error {
	rows, err := s.pool.Query(ctx, sqlSampleOperations)
	if err != nil {
		return fmt.Errorf("count open operations: %w", pg.Unavailable(err))
	}
	type key struct {
		kind   usher.OperationKind
		status usher.OperationStatus
	}
	type figure struct {
		n      int
		oldest float64
		// left is how long until the first authorization among them lapses.
		left float64
	}
	found := map[key]figure{}
	var k key
	var f figure
	_, err = pgx.ForEachRow(rows, []any{&k.kind, &k.status, &f.n, &f.oldest, &f.left}, func() error {
		found[k] = f
		return nil
	})
	if err != nil {
		return fmt.Errorf("count open operations: %w", pg.Unavailable(err))
	}
	var b Backlog
	label, left := fmt.Sprint(s.number), math.Inf(1)
	for _, kind := range openKinds {
		for _, status := range openStatuses {
			f, any := found[key{kind, status}]
			if any && kind == usher.OperationCapture {
				left = min(left, f.left)
			}
			c.metrics.open.WithLabelValues(label, string(kind), string(status)).Set(float64(f.n))
			c.metrics.oldest.WithLabelValues(label, string(kind), string(status)).Set(f.oldest)
			b.add(kind, status, f.n, time.Duration(f.oldest*float64(time.Second)))
		}
	}
	c.metrics.captureLeft.WithLabelValues(label).Set(left)
	if left < captureAlarm.Seconds() {
		c.log.ErrorContext(ctx, "an authorization of a sold order is about to lapse uncaptured", "shard", s.number, "seconds", left)
	}
	c.backlogs.Store(s.number, b)
	return nil
}

func (b *Backlog) add(kind usher.OperationKind, status usher.OperationStatus, n int, oldest time.Duration) {
	switch {
	case kind == usher.OperationAuthorize && status == usher.OperationUnknown:
		b.Unknown, b.OldestUnknown = n, oldest
	case kind == usher.OperationCapture:
		b.Captures += n
		b.OldestCapture = max(b.OldestCapture, oldest)
	case kind == usher.OperationVoid || kind == usher.OperationRefund:
		b.Voids += n
		b.OldestVoid = max(b.OldestVoid, oldest)
	}
}

// Backlog returns what was open in the shard at the last sample, which Run takes
// every ten seconds; zero before the first.
func (c *Checkout) Backlog(n pg.ShardNumber) Backlog {
	v, _ := c.backlogs.Load(n)
	b, _ := v.(Backlog)
	return b
}

// InFlight returns how many authorizations this process has in flight and how
// many the provider's latency allows now.
func (c *Checkout) InFlight() (now, bound int) { return c.limiter.read() }

const sqlPurgeEvents = `
DELETE FROM provider_event
WHERE ctid IN (
    SELECT ctid FROM provider_event
    WHERE received_at <= clock_timestamp() - make_interval(secs => $1) AND next_at IS NULL
    ORDER BY received_at LIMIT $2
)`

// purgeEvents drops messages that are done and too old to be repeated.
func purgeEvents(ctx context.Context, s shard) error {
	for {
		var n int64
		err := pg.InTx(ctx, s.pool, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, sqlPurgeEvents, eventsKept.Seconds(), purgeBatch)
			n = tag.RowsAffected()
			return err
		})
		if err != nil {
			return fmt.Errorf("purge provider messages: %w", err)
		}
		if n < purgeBatch {
			return nil
		}
	}
}
