package waitingroom

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/pg"
)

// commitAttemptsMax is how often a group is run whose COMMIT got no answer.
const commitAttemptsMax = 3

// untilKnown decides a group in one transaction, and again when nobody knows whether
// it committed. Every command finds its own traces, so a repeat changes nothing twice.
func untilKnown[C, R any](ctx context.Context, pool *pgxpool.Pool, event usher.EventID, items []*pg.Item[C, R],
	decide func(context.Context, pgx.Tx, usher.EventID, []*pg.Item[C, R]) ([]R, []error, error),
) (results []R, errs []error, err error) {
	for range commitAttemptsMax {
		err = pg.InTx(ctx, pool, func(tx pgx.Tx) error {
			var err error
			results, errs, err = decide(ctx, tx, event, items)
			return err
		})
		if !errors.Is(err, pg.ErrCommitUnknown) {
			break
		}
	}
	return results, errs, err
}

// finishAll answers a group: each command its own, or all of them err.
func finishAll[C, R any](items []*pg.Item[C, R], results []R, errs []error, err error) {
	for i, it := range items {
		if err != nil {
			it.Finish(*new(R), err)
		} else {
			it.Finish(results[i], errs[i])
		}
	}
}

// runQueue decides and writes one group of commands of one room. Nothing is
// durable before its one COMMIT.
func (r *Rooms) runQueue(ctx context.Context, event usher.EventID, items []*pg.Item[command, decision]) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	results, errs, err := untilKnown(ctx, r.homes.Room, event, items, queueTx)
	if err != nil {
		finishAll(items, nil, nil, fmt.Errorf("run queue group of %s: %w", event, err))
		return
	}
	for i, it := range items {
		r.metrics.decided(it.Cmd, results[i], errs[i])
	}
	finishAll(items, results, errs, nil)
}

func queueTx(
	ctx context.Context, tx pgx.Tx, event usher.EventID, items []*pg.Item[command, decision],
) ([]decision, []error, error) {
	var accounts [][16]byte
	var also need
	for _, it := range items {
		also.gaps = also.gaps || it.Cmd.kind == tick
		if it.Cmd.kind != tick {
			accounts = append(accounts, it.Cmd.account)
		}
	}
	g, err := loadGroup(ctx, tx, event, accounts, also)
	if err != nil {
		return nil, nil, err
	}
	before := g.state
	g.closeBucket()
	results, errs := make([]decision, len(items)), make([]error, len(items))
	for i, it := range items {
		results[i], errs[i] = g.decide(it.Cmd)
	}
	return results, errs, g.write(ctx, tx, before)
}

// stateColumns is read in the order in which scanState scans.
const stateColumns = `s.round, s.phase, s.bucket_ms, s.claim_seconds * 1000::bigint, s.rate_per_second, s.active_max,
    s.bucket, s.bucket_size, s.bucket_left, s.next_number, s.serving, s.left_waiting, s.open_ms, s.credit, s.ticked_at,
    s.leader, s.leader_until`

func scanState(row pgx.Row, event usher.EventID, more ...any) (state, error) {
	s := state{event: event}
	err := row.Scan(append([]any{&s.round, &s.phase, &s.bucketMs, &s.claimMs, &s.rate, &s.activeMax,
		&s.bucket, &s.bucketSize, &s.bucketLeft, &s.next, &s.serving, &s.leftWaiting, &s.openMs, &s.credit, &s.tickedAt,
		&s.leader, &s.leaderUntil}, more...)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, errNoRoom()
	}
	return s, err
}

// Trip 1: the room's row is locked, and only then clock, seed and entries are
// read, by statements of their own: what they see is what the lock protects.
const (
	sqlLockState = `SELECT ` + stateColumns + ` FROM queue_state s WHERE s.event_id = $1 FOR NO KEY UPDATE`

	sqlReadClock = `
SELECT clock_timestamp(), r.seed
FROM queue_state s JOIN queue_round r ON r.event_id = s.event_id AND r.round = s.round
WHERE s.event_id = $1`

	sqlReadEntries = `
SELECT e.account_id, e.turn, e.bucket, e.join_index, e.joined_at, e.number, e.claimed_at, e.door_ms, e.admitted_at,
    e.session_id, e.left_at, e.lapsed_at, b.base, b.size, b.perm_key
FROM unnest($2::uuid[]) k(account_id)
CROSS JOIN LATERAL (
    SELECT event_id, round, account_id, turn, bucket, join_index, joined_at, number, claimed_at, door_ms, admitted_at,
        session_id, left_at, lapsed_at
    FROM queue_entry
    WHERE event_id = $1 AND round = (SELECT round FROM queue_state WHERE event_id = $1) AND account_id = k.account_id
    ORDER BY turn DESC LIMIT 1) e
LEFT JOIN LATERAL (
    SELECT base, size, perm_key FROM queue_bucket
    WHERE event_id = e.event_id AND round = e.round AND bucket = e.bucket OFFSET 0) b ON true`
)

// need says what a group reads beyond its accounts' places.
type need struct {
	// gaps are for a tick; lastBucket closes the open bucket before its time.
	gaps, lastBucket bool
}

// loadGroup locks the room and reads what the accounts' commands need. It fails
// with CodeNotFound when there is no such room.
func loadGroup(
	ctx context.Context, tx pgx.Tx, event usher.EventID, accounts [][16]byte, also need,
) (*group, error) {
	// Sorted and without repeats, so that equal groups ask equal questions.
	slices.SortFunc(accounts, func(a, b [16]byte) int { return slices.Compare(a[:], b[:]) })
	accounts = slices.Compact(accounts)
	var b pgx.Batch
	b.Queue(sqlLockState, event)
	b.Queue(sqlReadClock, event)
	b.Queue(sqlReadEntries, event, accounts)
	res := tx.SendBatch(ctx, &b)
	g := &group{entries: make(map[usher.AccountID]*entry, len(accounts))}
	var err error
	if g.state, err = scanState(res.QueryRow(), event); err == nil {
		err = res.QueryRow().Scan(&g.now, &g.seed)
	}
	if err == nil {
		err = g.scanEntries(res)
	}
	if err := errors.Join(err, res.Close()); err != nil {
		return nil, err
	}
	g.closing = g.bucketSize > 0 && (also.lastBucket || g.bucketDue(g.now))
	return g, g.loadMore(ctx, tx, also)
}

func (g *group) scanEntries(res pgx.BatchResults) error {
	rows, err := res.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		e, err := scanEntry(rows)
		if err != nil {
			return err
		}
		g.entries[e.account] = e
	}
	return rows.Err()
}

// scanEntry scans a row of sqlReadEntries and works out the entry's number.
func scanEntry(row pgx.Row) (*entry, error) {
	var (
		e                  entry
		number, base, size *int64
		key                []byte
	)
	err := row.Scan(&e.account, &e.turn, &e.bucket, &e.index, &e.joinedAt, &number, &e.claimedAt, &e.doorMs,
		&e.admittedAt, &e.session, &e.leftAt, &e.lapsedAt, &base, &size, &key)
	if err != nil {
		return nil, err
	}
	e.number = numberless
	switch {
	case number != nil:
		e.number = *number
	case base != nil:
		closed := bucketRow{number: e.bucket, base: *base, size: *size, key: [32]byte(key)}
		e.number = closed.place(e.index)
	}
	return &e, nil
}

// Trip 2, only for what trip 1 showed to be needed.
const (
	sqlReadCalls = `
SELECT c.first_number, c.after_number, c.lapses_ms, c.claimed, c.absent
FROM unnest($3::bigint[]) k(number)
CROSS JOIN LATERAL (
    SELECT first_number, after_number, lapses_ms, claimed, absent FROM queue_call
    WHERE event_id = $1 AND round = $2 AND first_number <= k.number
    ORDER BY first_number DESC LIMIT 1) c
GROUP BY c.first_number, c.after_number, c.lapses_ms, c.claimed, c.absent`

	sqlReadLeavers = `
SELECT account_id, turn, join_index, left_at FROM queue_entry
WHERE event_id = $1 AND round = $2 AND bucket = $3 AND left_at IS NOT NULL AND number IS NULL
ORDER BY join_index`

	sqlReadGaps = `
SELECT number FROM queue_entry
WHERE event_id = $1 AND round = $2 AND number >= $3 AND left_at IS NOT NULL AND number IS NOT NULL
ORDER BY number LIMIT $4`
)

// loadMore reads the calls of called entries, the leavers of a bucket that is
// about to close, and the gaps that a tick steps over.
func (g *group) loadMore(ctx context.Context, tx pgx.Tx, also need) error {
	var called []int64
	for _, e := range g.entries {
		if e.number != numberless && e.number < g.serving {
			called = append(called, e.number)
		}
	}
	slices.Sort(called)
	var b pgx.Batch
	if len(called) > 0 {
		b.Queue(sqlReadCalls, g.event, g.round, called).Query(g.scanCalls)
	}
	if g.closing && g.bucketLeft > 0 {
		b.Queue(sqlReadLeavers, g.event, g.round, g.bucket).Query(g.scanLeavers)
	}
	if also.gaps && g.leftWaiting > 0 {
		b.Queue(sqlReadGaps, g.event, g.round, g.serving, gapsMax).Query(g.scanGaps)
	}
	g.gapsEnd = noGapsEnd
	if b.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, &b).Close()
}

func (g *group) scanCalls(rows pgx.Rows) error {
	var c callRow
	_, err := pgx.ForEachRow(rows, []any{&c.first, &c.after, &c.lapsesMs, &c.claimed, &c.absent}, func() error {
		call := c
		g.calls = append(g.calls, &call)
		return nil
	})
	return err
}

func (g *group) scanLeavers(rows pgx.Rows) error {
	var e entry
	var left time.Time
	_, err := pgx.ForEachRow(rows, []any{&e.account, &e.turn, &e.index, &left}, func() error {
		leaver, at := e, left
		leaver.leftAt = &at
		g.leavers = append(g.leavers, &leaver)
		return nil
	})
	return err
}

// scanGaps reads the gaps. When there are more than were read, nothing is known
// beyond the last one.
func (g *group) scanGaps(rows pgx.Rows) error {
	var err error
	if g.gaps, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err == nil && len(g.gaps) == gapsMax {
		g.gapsEnd = g.gaps[gapsMax-1] + 1
	}
	return err
}
