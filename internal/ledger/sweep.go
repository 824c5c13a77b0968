package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/fault"
	"usher/internal/pg"
)

const (
	sweepEvery = time.Second
	purgeBatch = 5000

	sqlDueEvents = `
SELECT e.event_id FROM event_ledger e
CROSS JOIN LATERAL (
    SELECT 1 FROM hold WHERE event_id = e.event_id AND status = 'held' AND expires_at <= clock_timestamp() LIMIT 1) due`

	sqlPurgeRecords = `
DELETE FROM idempotency_record
WHERE ctid IN (SELECT ctid FROM idempotency_record WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT $1)`
)

// RunSweeper frees due holds and drops refusals that no longer replay, until ctx
// ends. It only makes lapsed seats visible as available rows sooner: holds,
// limits and the map judge deadlines by themselves.
func (l *Ledger) RunSweeper(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		for _, shard := range l.homes.Shards() {
			if err := l.sweep(ctx, shard.Pool); err != nil && ctx.Err() == nil {
				l.log.WarnContext(ctx, "sweep failed, will try again", "shard", shard.Number, "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (l *Ledger) sweep(ctx context.Context, pool *pgxpool.Pool) error {
	rows, err := pool.Query(ctx, sqlDueEvents)
	if err != nil {
		return fmt.Errorf("find due holds: %w", err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowTo[usher.EventID])
	if err != nil {
		return fmt.Errorf("find due holds: %w", err)
	}
	for _, e := range events {
		if err := fault.Point(ctx, "expiry.before_group"); err != nil {
			return err
		}
		for n := dueMax; n == dueMax; {
			if n, err = l.ExpireHolds(ctx, e); err != nil {
				return fmt.Errorf("expire holds of %s: %w", e, err)
			}
		}
	}
	return pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlPurgeRecords, purgeBatch); err != nil {
			return fmt.Errorf("purge idempotency records: %w", err)
		}
		return nil
	})
}
