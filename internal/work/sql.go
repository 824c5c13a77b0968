package work

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/pg"
)

// statements are the templates below with one table's names filled in.
type statements struct {
	due, claim, claimOne, findOut, done, again, park, stats string
}

func (t Table) statements() statements {
	return statements{
		due: t.fill(sqlDue), claim: t.fill(sqlClaim), claimOne: t.fill(sqlClaimOne),
		findOut: t.fill(sqlFindOut), done: t.fill(sqlDone),
		again: t.fill(sqlAgain), park: t.fill(sqlPark), stats: t.fill(sqlStats),
	}
}

// fill puts the table's names into a template.
func (t Table) fill(template string) string {
	only := "true"
	if t.Only != "" {
		only = "(" + t.Only + ")"
	}
	return strings.NewReplacer("{table}", t.Name, "{key}", t.Key, "{only}", only).Replace(template)
}

// lease is a claimed row. until is the mark by which its run recognises that
// the row is still its own: a later claim always has a later one.
type lease struct {
	job   Job
	dueAt time.Time
	until time.Time
}

// Due rows are found by statement_timestamp(): it holds still during the
// statement, so the index is entered at it, and rows that are not due yet are
// never read. Whatever is written uses the clock at that moment.
const sqlDue = `
SELECT EXISTS (
    SELECT FROM {table}
    WHERE next_at <= statement_timestamp() AND next_at IS NOT NULL AND parked_at IS NULL AND {only}
      AND (lease_until IS NULL OR lease_until <= clock_timestamp())
)`

// due reports whether any row waits to be claimed.
func (q *queue) due(ctx context.Context) (bool, error) {
	var any bool
	if err := q.pool.QueryRow(ctx, q.sql.due).Scan(&any); err != nil {
		return false, fmt.Errorf("look for due rows of %s: %w", q.table.Name, pg.Unavailable(err))
	}
	return any, nil
}

// A row whose lease was taken meanwhile fails the re-check of the condition that
// FOR NO KEY UPDATE makes after locking; SKIP LOCKED leaves rows that another
// runner is claiming right now to it.
const sqlClaim = `
WITH due AS (
    SELECT {key} AS id FROM {table}
    WHERE next_at <= statement_timestamp() AND next_at IS NOT NULL AND parked_at IS NULL AND {only}
      AND (lease_until IS NULL OR lease_until <= clock_timestamp())
    ORDER BY next_at
    LIMIT $1
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {table} t
SET lease_until = clock_timestamp() + make_interval(secs => $2), attempts = t.attempts + 1
FROM due
WHERE t.{key} = due.id
RETURNING t.{key}, t.attempts, t.next_at, t.lease_until`

// claim leases at most limit due rows, durably: what a handler then does to the
// outside world rests on an acknowledged commit.
func (q *queue) claim(ctx context.Context, limit int) ([]lease, error) {
	var got []lease
	err := pg.InTx(ctx, q.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, q.sql.claim, limit, q.opts.Lease.Seconds())
		if err != nil {
			return fmt.Errorf("query: %w", err)
		}
		got, err = pgx.CollectRows(rows, scanLease)
		return err
	})
	if usher.CodeOf(err) == usher.CodeUnknown {
		got, err = q.findOut(ctx, got)
	}
	if err != nil {
		return nil, fmt.Errorf("claim due rows of %s: %w", q.table.Name, err)
	}
	return got, nil
}

const sqlClaimOne = `
UPDATE {table} t
SET lease_until = clock_timestamp() + make_interval(secs => $2), attempts = t.attempts + 1
WHERE t.{key} = $1 AND t.next_at IS NOT NULL AND t.parked_at IS NULL AND {only}
  AND (t.lease_until IS NULL OR t.lease_until <= clock_timestamp())
RETURNING t.{key}, t.attempts, t.next_at, t.lease_until`

// claimOne leases one row before its time; false: it has nothing to do, or is
// parked, or somebody has it.
func (q *queue) claimOne(ctx context.Context, id [16]byte) (lease, bool, error) {
	var got lease
	err := pg.InTx(ctx, q.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, q.sql.claimOne, id, q.opts.Lease.Seconds())
		if err != nil {
			return fmt.Errorf("query: %w", err)
		}
		got, err = pgx.CollectExactlyOneRow(rows, scanLease)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return lease{}, false, nil
	}
	if usher.CodeOf(err) == usher.CodeUnknown {
		found, err := q.findOut(ctx, []lease{got})
		return got, len(found) == 1, err
	}
	if err != nil {
		return lease{}, false, fmt.Errorf("claim a row of %s: %w", q.table.Name, err)
	}
	return got, true, nil
}

const sqlFindOut = `SELECT {key}, lease_until FROM {table} WHERE {key} = ANY($1) FOR NO KEY UPDATE`

// findOut returns those leases of a claim whose COMMIT got no answer that are
// really ours: the rows tell, once the lost transaction has let go of them. A
// lease that this misses runs out by itself.
func (q *queue) findOut(ctx context.Context, claimed []lease) ([]lease, error) {
	ids := make([][16]byte, len(claimed))
	for i, l := range claimed {
		ids[i] = l.job.ID
	}
	until := map[[16]byte]time.Time{}
	err := pg.InTx(ctx, q.pool, func(tx pgx.Tx) error {
		clear(until)
		rows, err := tx.Query(ctx, q.sql.findOut, ids)
		if err != nil {
			return fmt.Errorf("query: %w", err)
		}
		var id [16]byte
		var leased *time.Time
		_, err = pgx.ForEachRow(rows, []any{&id, &leased}, func() error {
			if leased != nil {
				until[id] = *leased
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find out about a claim on %s: %w", q.table.Name, err)
	}
	var ours []lease
	for _, l := range claimed {
		if until[l.job.ID].Equal(l.until) {
			ours = append(ours, l)
		}
	}
	return ours, nil
}

func scanLease(row pgx.CollectableRow) (l lease, err error) {
	err = row.Scan(&l.job.ID, &l.job.Attempts, &l.dueAt, &l.until)
	return l, err
}

// The verdict of a run whose lease is no longer its own changes nothing. $3 is
// the next_at that was claimed: another value means that the row was made due
// again, or settled, while it ran.
const (
	sqlDone = `
UPDATE {table}
SET next_at = CASE WHEN next_at = $3 THEN NULL ELSE next_at END, lease_until = NULL, last_error = ''
WHERE {key} = $1 AND lease_until = $2`

	sqlAgain = `
UPDATE {table}
SET next_at = CASE
        WHEN next_at = $3 THEN clock_timestamp() + make_interval(secs => $4)
        WHEN next_at IS NOT NULL THEN LEAST(next_at, clock_timestamp() + make_interval(secs => $4))
    END, lease_until = NULL, last_error = $5
WHERE {key} = $1 AND lease_until = $2`

	sqlPark = `
UPDATE {table}
SET parked_at = CASE WHEN next_at IS NOT NULL THEN clock_timestamp() END, lease_until = NULL, last_error = $3
WHERE {key} = $1 AND lease_until = $2`
)

const (
	// finishTimeout bounds writing one verdict; a verdict that is not written costs
	// one repeat after the lease.
	finishTimeout = 5 * time.Second
	finishTries   = 3
	reasonMax     = 500
)

// finish writes the verdict of a run and gives the lease back.
func (q *queue) finish(ctx context.Context, l lease, v Verdict) error {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	reason := strings.ToValidUTF8(v.reason, "?")
	if len(reason) > reasonMax {
		reason = strings.ToValidUTF8(reason[:reasonMax], "")
	}
	sql, args := q.sql.done, []any{l.job.ID, l.until, l.dueAt}
	switch v.kind {
	case verdictAgain:
		sql, args = q.sql.again, append(args, v.after.Seconds(), reason)
	case verdictPark:
		sql, args = q.sql.park, []any{l.job.ID, l.until, reason}
	}
	for try := 1; ; try++ {
		err := pg.InTx(own, q.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(own, sql, args...)
			return err
		})
		if err == nil {
			return nil
		}
		// A verdict that was written after all finds its lease gone the second time.
		code := usher.CodeOf(err)
		if try == finishTries || code != usher.CodeUnknown && code != usher.CodeUnavailable || pg.Jitter(own, try) != nil {
			return fmt.Errorf("write verdict to %s: %w", q.table.Name, err)
		}
	}
}

// statsMax caps how many due rows a sample counts, so that a backlog of millions
// does not make its own measuring expensive.
const statsMax = 10_000

const sqlStats = `
SELECT d.due, d.oldest, (SELECT count(*) FROM {table} WHERE parked_at IS NOT NULL AND next_at IS NOT NULL AND {only})
FROM (
    SELECT count(*) AS due, COALESCE(EXTRACT(EPOCH FROM clock_timestamp() - min(next_at)), 0)::float8 AS oldest
    FROM (
        SELECT next_at FROM {table}
        WHERE next_at <= statement_timestamp() AND next_at IS NOT NULL AND parked_at IS NULL AND {only}
          AND (lease_until IS NULL OR lease_until <= clock_timestamp())
        ORDER BY next_at LIMIT $1
    ) waiting
) d`

// sample reads the queue's backlog.
func (q *queue) sample(ctx context.Context) (Stats, error) {
	var s Stats
	var oldest float64
	if err := q.pool.QueryRow(ctx, q.sql.stats, statsMax).Scan(&s.Due, &oldest, &s.Parked); err != nil {
		return Stats{}, fmt.Errorf("sample backlog of %s: %w", q.table.Name, pg.Unavailable(err))
	}
	s.OldestDue = time.Duration(oldest * float64(time.Second))
	return s, nil
}

// ParkedJob is a row that waits for a person.
type ParkedJob struct {
	ID        [16]byte
	Attempts  int
	LastError string
	ParkedAt  time.Time
}

const sqlParked = `
SELECT {key}, attempts, last_error, parked_at FROM {table}
WHERE parked_at IS NOT NULL AND next_at IS NOT NULL AND {only}
ORDER BY parked_at, {key} LIMIT $1`

// Parked lists parked rows, the longest parked first. A row that its owner
// settled after it was parked has nothing to do any more and is not listed. It
// fails with CodeUnavailable.
func Parked(ctx context.Context, pool *pgxpool.Pool, t Table, limit int) ([]ParkedJob, error) {
	rows, err := pool.Query(ctx, t.fill(sqlParked), limit)
	if err != nil {
		return nil, fmt.Errorf("list parked rows of %s: %w", t.Name, pg.Unavailable(err))
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p ParkedJob, err error) {
		err = row.Scan(&p.ID, &p.Attempts, &p.LastError, &p.ParkedAt)
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("list parked rows of %s: %w", t.Name, pg.Unavailable(err))
	}
	return out, nil
}
