package checkout

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/work"
)

const (
	pageSize         = 100
	reconcileWorkers = 8
	reconcileEvery   = 5 * time.Minute
	// reconcileAfter is the age from which a running process asks about an open
	// operation even if its own schedule does not.
	reconcileAfter = 2 * time.Minute
	sampleEvery    = 10 * time.Second
	freeEvery      = 5 * time.Second
	freeAfter      = 5 * time.Second
	purgeEvery     = 10 * time.Minute
	// eventsKept is how long a message is known as a repeat: far longer than any
	// provider delivers again.
	eventsKept = 35 * 24 * time.Hour
	purgeBatch = 5000
)

// Difference is one operation that reconciliation looked at.
type Difference struct {
	Operation usher.OperationID     `json:"operationId"`
	Order     usher.OrderID         `json:"orderId"`
	Kind      usher.OperationKind   `json:"kind"`
	Before    usher.OperationStatus `json:"before"`
	After     usher.OperationStatus `json:"after"`
	// Age is how long the operation has existed.
	Age time.Duration `json:"ageNanoseconds"`
	// Problem says why it is still open, as far as that is known.
	Problem string `json:"problem,omitempty"`
}

// Report is what one reconciliation of a shard found.
type Report struct {
	// Asked counts the open operations that were asked about; Settled those that
	// ended by it.
	Asked   int `json:"asked"`
	Settled int `json:"settled"`
	// Open lists what is still open, parked or could not be asked, oldest first.
	Open []Difference `json:"open"`
}

const sqlHorizon = `SELECT clock_timestamp() - make_interval(secs => $1)`

const sqlOpenOperations = `
SELECT operation_id, order_id, kind, status, parked_at IS NOT NULL,
    EXTRACT(EPOCH FROM clock_timestamp() - created_at)::float8, created_at
FROM payment_operation
WHERE status IN ('created', 'unknown', 'action_required')
  AND created_at <= $1
  AND (created_at, operation_id) > ($2, $3)
ORDER BY created_at, operation_id
LIMIT $4`

type openOperation struct {
	Difference
	parked  bool
	created time.Time
}

// Reconcile asks the provider about every operation of the shard that is older
// than the given age and has no final state, whatever its schedule says, and
// applies the answers. One broken operation does not stop the rest, and a second
// run changes nothing that the first one settled. It fails with CodeNotFound for
// a shard that is not configured and with CodeUnavailable when the shard's rows
// cannot be listed.
func (c *Checkout) Reconcile(ctx context.Context, number pg.ShardNumber, olderThan time.Duration) (Report, error) {
	var rep Report
	home, ok := c.shardOf(number)
	if !ok {
		return rep, usher.Errorf(usher.CodeNotFound, "shard %d is not configured here", number)
	}
	// What comes into being during the run is not part of it, so that it ends.
	var horizon time.Time
	if err := home.pool.QueryRow(ctx, sqlHorizon, olderThan.Seconds()).Scan(&horizon); err != nil {
		return rep, fmt.Errorf("read the time: %w", pg.Unavailable(err))
	}
	var last openOperation
	for {
		page, err := openOperations(ctx, home.pool, horizon, last)
		if err != nil {
			return rep, err
		}
		c.reconcilePage(ctx, home, page, &rep)
		if len(page) < pageSize {
			return rep, ctx.Err()
		}
		last = page[len(page)-1]
	}
}

func (c *Checkout) shardOf(n pg.ShardNumber) (shard, bool) {
	for _, s := range c.shards {
		if s.number == n {
			return s, true
		}
	}
	return shard{}, false
}

func openOperations(ctx context.Context, pool *pgxpool.Pool, horizon time.Time, after openOperation) ([]openOperation, error) {
	rows, err := pool.Query(ctx, sqlOpenOperations, horizon, after.created, after.Operation, pageSize)
	if err != nil {
		return nil, fmt.Errorf("list open operations: %w", pg.Unavailable(err))
	}
	page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (op openOperation, err error) {
		var age float64
		err = row.Scan(&op.Operation, &op.Order, &op.Kind, &op.Before, &op.parked, &age, &op.created)
		op.Age = time.Duration(age * float64(time.Second))
		return op, err
	})
	if err != nil {
		return nil, fmt.Errorf("list open operations: %w", pg.Unavailable(err))
	}
	return page, nil
}

// reconcilePage asks about a page of operations, a few at a time, and adds what
// came of each to the report.
func (c *Checkout) reconcilePage(ctx context.Context, home shard, page []openOperation, rep *Report) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, reconcileWorkers)
	for i := range page {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			c.reconcileOne(ctx, home, &page[i])
		})
	}
	wg.Wait()
	for _, op := range page {
		if !op.parked {
			rep.Asked++
		}
		if settled(op.After) {
			rep.Settled++
		} else {
			rep.Open = append(rep.Open, op.Difference)
		}
	}
}

// reconcileOne asks about one operation.
func (c *Checkout) reconcileOne(ctx context.Context, home shard, op *openOperation) {
	op.After = op.Before
	if op.parked {
		op.Problem = "parked"
		return
	}
	now, err := c.askNow(ctx, home, op.Operation)
	if err != nil {
		op.Problem = string(usher.CodeOf(err))
		return
	}
	if op.After = now.Status; !settled(op.After) {
		op.Problem = now.LastError
	}
}

// askNow runs an open operation once and reads it again. One without a schedule
// gets one first.
func (c *Checkout) askNow(ctx context.Context, home shard, id usher.OperationID) (ledger.Operation, error) {
	op, err := c.ops.Get(ctx, id)
	if err != nil || settled(op.Status) {
		return op, err
	}
	if op.NextAt == nil {
		if op, err = c.ops.Learn(ctx, id, ledger.Learned{NextIn: hintRetry}); err != nil {
			return op, err
		}
	}
	queue := map[usher.OperationKind]string{
		usher.OperationAuthorize: home.authorize, usher.OperationCapture: home.capture,
		usher.OperationVoid: home.void, usher.OperationRefund: home.void,
	}[op.Kind]
	if _, err := c.runner.RunNow(ctx, queue, id); err != nil {
		return op, err
	}
	return c.ops.Get(ctx, id)
}

// Run keeps the loops of checkout until ctx ends, and then waits for the
// authorizations that are still being driven: reconciliation by one process per
// shard, free orders whose process died, figures, and old messages. Operations
// themselves are worked by the runner's Run. It returns ctx's cause.
func (c *Checkout) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	for _, s := range c.shards {
		loops.Go(func() {
			// Leader only returns when ctx has ended.
			_ = work.Leader(ctx, s.pool, "checkout", func(ctx context.Context) error { return c.lead(ctx, s) })
		})
		loops.Go(func() { every(ctx, sampleEvery, func() { c.try(ctx, s, "sample operations", c.sample) }) })
	}
	loops.Wait()
	c.driving.Wait()
	return context.Cause(ctx)
}

// lead is the work of the shard's one leader.
func (c *Checkout) lead(ctx context.Context, s shard) error {
	var loops sync.WaitGroup
	loops.Go(func() {
		every(ctx, freeEvery, func() { c.try(ctx, s, "confirm free orders", c.confirmFreeOrders) })
	})
	loops.Go(func() {
		every(ctx, purgeEvery, func() { c.try(ctx, s, "purge provider messages", purgeEvents) })
	})
	loops.Go(func() {
		every(ctx, reconcileEvery, func() { c.try(ctx, s, "reconcile payments", c.reconcileAll) })
	})
	loops.Wait()
	return nil
}

func (c *Checkout) reconcileAll(ctx context.Context, s shard) error {
	rep, err := c.Reconcile(ctx, s.number, reconcileAfter)
	if rep.Asked > 0 || len(rep.Open) > 0 {
		c.log.InfoContext(ctx, "reconciled payments", "shard", s.number, "asked", rep.Asked, "settled", rep.Settled, "open", len(rep.Open))
	}
	return err
}

func (c *Checkout) try(ctx context.Context, s shard, what string, do func(context.Context, shard) error) {
	if err := do(ctx, s); err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "cannot "+what+", will try again", "shard", s.number, "error", err)
	}
}

// every calls do now and then after each pause until ctx ends.
func every(ctx context.Context, pause time.Duration, do func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		do()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
