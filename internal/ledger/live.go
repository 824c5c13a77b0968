package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

// Live is what an event's ledger has in motion. Counts stop at 10,000 each, so
// that looking costs the same however hot the event is.
type Live struct {
	// Held are holds within their deadline, Paying those that a payment keeps.
	Held, Paying int
	// Overdue are holds past their deadline that nobody has freed yet, and
	// OldestOverdue is how long ago the first of their deadlines was.
	Overdue       int
	OldestOverdue time.Duration
	// Open are the payment operations without an end, as far as they are among
	// the 10,000 oldest of the home.
	Open []OpenOperations
	Now  time.Time
}

// OpenOperations are the open payment operations of one kind and status.
type OpenOperations struct {
	Kind   usher.OperationKind
	Status usher.OperationStatus
	// Count includes Parked, those that wait for a person.
	Count, Parked int
	Oldest        time.Duration
}

const (
	// liveMax bounds each count of a look.
	liveMax = 10000

	sqlLiveHolds = `
WITH c AS (SELECT clock_timestamp() AS now)
SELECT c.now,
    (SELECT count(*) FROM (
        SELECT FROM hold WHERE event_id = $1 AND status = 'held' AND expires_at > (SELECT now FROM c) LIMIT $2) h),
    (SELECT count(*) FROM (SELECT FROM hold WHERE event_id = $1 AND status = 'payment_pending' LIMIT $2) p),
    due.n, coalesce(extract(epoch FROM c.now - due.oldest), 0)::float8
FROM c CROSS JOIN (
    SELECT count(*) AS n, min(d.expires_at) AS oldest
    FROM (
        SELECT expires_at FROM hold WHERE event_id = $1 AND status = 'held' AND expires_at <= (SELECT now FROM c)
        ORDER BY expires_at LIMIT $2) d) due`

	sqlLiveOperations = `
SELECT kind, status, count(*), count(parked_at), extract(epoch FROM clock_timestamp() - min(created_at))::float8
FROM (
    SELECT event_id, kind, status, created_at, parked_at FROM payment_operation
    WHERE status IN ('created', 'unknown', 'action_required')
    ORDER BY created_at LIMIT $2) o
WHERE event_id = $1
GROUP BY kind, status
ORDER BY kind, status`
)

// Live looks at what the event has in motion, without locks. It fails with
// CodeNotFound where the event has no home, and with CodeUnavailable.
func (l *Ledger) Live(ctx context.Context, event usher.EventID) (out Live, err error) {
	pool, err := l.homes.Shard(ctx, event)
	if err != nil {
		return out, err
	}
	b := &pgx.Batch{}
	b.Queue(sqlLiveHolds, event, liveMax).QueryRow(func(row pgx.Row) error {
		var oldest float64
		err := row.Scan(&out.Now, &out.Held, &out.Paying, &out.Overdue, &oldest)
		out.OldestOverdue = time.Duration(oldest * float64(time.Second))
		return err
	})
	b.Queue(sqlLiveOperations, event, liveMax).Query(func(rows pgx.Rows) (err error) {
		out.Open, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o OpenOperations, err error) {
			var oldest float64
			err = row.Scan(&o.Kind, &o.Status, &o.Count, &o.Parked, &oldest)
			o.Oldest = time.Duration(oldest * float64(time.Second))
			return o, err
		})
		return err
	})
	if err := pool.SendBatch(ctx, b).Close(); err != nil {
		return Live{}, fmt.Errorf("look at %s: %w", event, pg.Unavailable(err))
	}
	return out, nil
}
