package checkout

import (
	"context"
	"sync"
	"time"

	"usher"
	"usher/internal/pg"
	"usher/internal/work"
)

// redriveMax bounds how many parked rows of each kind one call makes due again.
const redriveMax = 1000

// ShardReport is what a reconciliation found in one home shard.
type ShardReport struct {
	Shard pg.ShardNumber
	Report
	// Redriven counts parked operations and provider messages that were made due.
	Redriven int
	// Problem is the code of what ended the shard's reconciliation early; the report
	// holds what was done until then. It is "" when it went through.
	Problem usher.Code
}

// ReconcileNow reconciles every shard at once, in order of number, as Reconcile
// does. With redrive, what is parked is made due again first and is asked about
// with the rest. A shard that fails does not stop the others.
func (c *Checkout) ReconcileNow(ctx context.Context, olderThan time.Duration, redrive bool) []ShardReport {
	homes := c.cfg.Homes.Shards()
	out := make([]ShardReport, len(homes))
	var wg sync.WaitGroup
	for i, home := range homes {
		wg.Go(func() {
			out[i] = c.reconcileShard(ctx, home, olderThan, redrive)
		})
	}
	wg.Wait()
	return out
}

func (c *Checkout) reconcileShard(ctx context.Context, home pg.Shard, olderThan time.Duration, redrive bool) ShardReport {
	rep := ShardReport{Shard: home.Number}
	var err error
	if redrive {
		rep.Redriven, err = c.redrive(ctx, home)
	}
	if err == nil {
		rep.Report, err = c.Reconcile(ctx, home.Number, olderThan)
	}
	switch {
	case ctx.Err() != nil:
		rep.Problem = usher.CodeBusy
	case err != nil:
		rep.Problem = usher.CodeOf(err)
		c.log.WarnContext(ctx, "reconciliation ended early", "shard", home.Number, "error", err)
	}
	return rep
}

// redrive makes the shard's parked operations and messages due, each durably by
// itself: what it has done when it dies is done.
func (c *Checkout) redrive(ctx context.Context, home pg.Shard) (n int, err error) {
	for _, table := range []work.Table{OperationTable, EventTable} {
		parked, err := work.Parked(ctx, home.Pool, table, redriveMax)
		if err != nil {
			return n, err
		}
		for _, p := range parked {
			err := work.Redrive(ctx, home.Pool, table, p.ID)
			switch {
			case err == nil:
				n++
			case usher.CodeOf(err) != usher.CodeNotFound:
				return n, err
			}
		}
	}
	if s, ok := c.shardOf(home.Number); ok {
		c.runner.Wake(s.webhook)
	}
	return n, nil
}
