package ledger

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

const (
	// sweepEvery is slow because messages free a hold within half a second of its
	// deadline: the sweep finds what a process that died was to free, and nobody's
	// decision waits for it. It costs one index probe per event.
	sweepEvery = 5 * time.Second
	// overdueLimit is how long after its deadline a hold that nobody freed is worth
	// an operator's attention, and overdueLogEvery how often it is worth a line.
	overdueLimit    = 30 * time.Second
	overdueLogEvery = time.Minute
	// backlogMax bounds how many due holds of an event are counted.
	backlogMax = 10000
	purgeBatch = 5000
	// purgeBatches bounds one sweep's deletions.
	purgeBatches = 10

	sqlBacklog = `
SELECT e.event_id, due.n, extract(epoch FROM clock_timestamp() - due.oldest)::float8
FROM event_ledger e
CROSS JOIN LATERAL (
    SELECT count(*) AS n, min(d.expires_at) AS oldest
    FROM (
        SELECT expires_at FROM hold
        WHERE event_id = e.event_id AND status = 'held' AND expires_at <= (SELECT clock_timestamp())
        ORDER BY expires_at LIMIT $1) d) due
WHERE due.n > 0`

	sqlPurgeRecords = `
DELETE FROM idempotency_record
WHERE ctid IN (SELECT ctid FROM idempotency_record WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT $1)`
)

// RunSweeper frees due holds that no message has freed and drops refusals that
// no longer replay, until ctx ends. It only makes lapsed seats visible as
// available rows sooner: holds, limits and the map judge deadlines by themselves.
func (l *Ledger) RunSweeper(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	sweeps := map[pg.ShardNumber]*shardSweep{}
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		for _, shard := range l.homes.Shards() {
			if sweeps[shard.Number] == nil {
				sweeps[shard.Number] = &shardSweep{ledger: l, shard: shard, wg: &wg}
			}
			if err := sweeps[shard.Number].run(ctx); err != nil && ctx.Err() == nil {
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

// shardSweep is the sweeper's view of one shard.
type shardSweep struct {
	ledger *Ledger
	shard  pg.Shard
	wg     *sync.WaitGroup
	// late is whether the sweep before found holds overdue; logged is when that was
	// last reported.
	late   bool
	logged time.Time
}

// overdue is what one event has that is due and not freed.
type overdue struct {
	event usher.EventID
	holds int64
	// oldest is how long ago the first deadline was, in seconds of the database.
	oldest float64
}

func (w *shardSweep) run(ctx context.Context) error {
	rows, err := w.shard.Pool.Query(ctx, sqlBacklog, backlogMax)
	if err != nil {
		return fmt.Errorf("find due holds: %w", err)
	}
	due, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d overdue, err error) {
		err = row.Scan(&d.event, &d.holds, &d.oldest)
		return d, err
	})
	if err != nil {
		return fmt.Errorf("find due holds: %w", err)
	}
	w.report(ctx, due)
	for _, d := range due {
		// One event's locks never keep another's sweep waiting.
		w.wg.Go(func() { w.ledger.expire(ctx, d.event) })
	}
	return w.purge(ctx)
}

// report sets the metrics of the backlog before it is freed, and tells an
// operator when holds stay that should have been freed long ago. What the first
// sweep after a rest of the whole system finds, it is about to free: that is no news.
func (w *shardSweep) report(ctx context.Context, due []overdue) {
	var worst overdue
	var holds int64
	for _, d := range due {
		holds += d.holds
		if d.oldest > worst.oldest {
			worst = d
		}
	}
	number := strconv.Itoa(int(w.shard.Number))
	w.ledger.metrics.backlog.WithLabelValues(number).Set(float64(holds))
	w.ledger.metrics.oldest.WithLabelValues(number).Set(worst.oldest)
	before := w.late
	w.late = worst.oldest >= overdueLimit.Seconds()
	if !before || !w.late || !w.logged.IsZero() && time.Since(w.logged) < overdueLogEvery {
		return
	}
	w.logged = time.Now()
	w.ledger.log.ErrorContext(ctx, "holds are overdue: their seats sell, but show as held in the rows; "+
		"look for failed groups of this event in the log and for sessions that keep its rows locked (pg_stat_activity)",
		"shard", w.shard.Number, "event", worst.event, "oldest", time.Duration(worst.oldest*float64(time.Second)).Round(time.Second), "holds", holds)
}

func (w *shardSweep) purge(ctx context.Context) error {
	for range purgeBatches {
		var n int64
		err := pg.InTx(ctx, w.shard.Pool, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, sqlPurgeRecords, purgeBatch)
			n = tag.RowsAffected()
			return err
		})
		if err != nil {
			return fmt.Errorf("purge idempotency records: %w", err)
		}
		if n < purgeBatch {
			return nil
		}
	}
	return nil
}
