package redemption

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/pg"
)

const (
	// sweepEvery is how often each shard is swept. Claims and confirmations judge
	// the limit by time themselves, so a late sweep makes nothing wrong.
	sweepEvery = 2 * time.Second
	// sweepBatch bounds one transaction of the sweep.
	sweepBatch = 500
)

// sqlFreezeExpired moves codes whose claim passed its limit to abnormal,
// together with their redemptions. It skips what somebody is confirming in this
// moment. The limit is compared with the statement's start, so that the index
// serves it: at worst a code waits for the next sweep.
const sqlFreezeExpired = `
WITH due AS (
    SELECT c.ticket_id
    FROM redemption r JOIN code c ON c.ticket_id = r.ticket_id
    WHERE r.result IS NULL AND r.confirm_by <= statement_timestamp() AND c.status = 'processing'
    ORDER BY r.confirm_by LIMIT $1
    FOR NO KEY UPDATE OF c SKIP LOCKED
), frozen AS (
    UPDATE code c SET status = 'abnormal', abnormal_at = clock_timestamp()
    FROM due WHERE c.ticket_id = due.ticket_id AND c.status = 'processing'
    RETURNING c.ticket_id
)
UPDATE redemption r SET result = 'expired', settled_at = clock_timestamp()
FROM frozen WHERE r.ticket_id = frozen.ticket_id AND r.result IS NULL
RETURNING r.redemption_id, r.event_id, r.device_id`

// Sweep freezes every claim that passed its limit, in every shard of this
// process, and returns how many. A shard that fails does not keep the others.
func (r *Redeemer) Sweep(ctx context.Context) (int, error) {
	var total int
	var errs []error
	for _, s := range r.homes.Shards() {
		n, err := r.sweepShard(ctx, s.Pool)
		total += n
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep shard %d: %w", s.Number, err))
		}
	}
	return total, errors.Join(errs...)
}

func (r *Redeemer) sweepShard(ctx context.Context, shard *pgxpool.Pool) (int, error) {
	var total int
	for {
		n, err := r.sweepOnce(ctx, shard)
		total += n
		if err != nil || n < sweepBatch {
			return total, err
		}
	}
}

func (r *Redeemer) sweepOnce(ctx context.Context, shard *pgxpool.Pool) (int, error) {
	type frozen struct {
		redemption usher.RedemptionID
		event      usher.EventID
		device     usher.DeviceID
	}
	var all []frozen
	err := pg.InTx(ctx, shard, func(tx pgx.Tx) error {
		// The caller sees what Query failed with when the rows are collected.
		rows, _ := tx.Query(ctx, sqlFreezeExpired, sweepBatch)
		var err error
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (f frozen, err error) {
			err = row.Scan(&f.redemption, &f.event, &f.device)
			return f, err
		})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("freeze expired claims: %w", err)
	}
	for _, f := range all {
		r.log.WarnContext(ctx, "redemption passed its limit and is frozen", "event", f.event, "device", f.device, "redemption", f.redemption)
	}
	r.metrics.expired.Add(float64(len(all)))
	return len(all), nil
}

// Run sweeps every shard, each in its own loop, until ctx ends. Several
// processes may run it at once.
func (r *Redeemer) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, s := range r.homes.Shards() {
		wg.Go(func() {
			t := time.NewTicker(sweepEvery)
			defer t.Stop()
			for {
				if _, err := r.sweepShard(ctx, s.Pool); err != nil && ctx.Err() == nil {
					r.log.ErrorContext(ctx, "sweep of redemptions failed", "shard", s.Number, "error", err)
				}
				select {
				case <-ctx.Done():
					return
				case <-t.C:
				}
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}
