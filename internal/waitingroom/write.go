package waitingroom

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// noGapsEnd says that every gap is known.
const noGapsEnd = math.MaxInt64

// Trip 3. Joins are written together; the rest is rare enough for a statement
// per row, which the planner can only run by the full key.
const (
	sqlInsertEntries = `
INSERT INTO queue_entry (event_id, round, account_id, turn, bucket, join_index, joined_at, risk)
SELECT $1, $2, k.account_id, k.turn, $3, k.join_index, $4, k.risk
FROM unnest($5::uuid[], $6::integer[], $7::bigint[], $8::jsonb[]) k(account_id, turn, join_index, risk)`

	sqlUpdateEntry = `
UPDATE queue_entry SET number = $5, claimed_at = $6, door_ms = $7, admitted_at = $8, session_id = $9, left_at = $10,
    lapsed_at = $11
WHERE event_id = $1 AND round = $2 AND account_id = $3 AND turn = $4`

	sqlInsertBucket = `
INSERT INTO queue_bucket (event_id, round, bucket, base, size, perm_key, closed_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`

	sqlInsertCall = `
INSERT INTO queue_call (event_id, round, first_number, after_number, called_at, lapses_ms, claimed, absent)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`

	sqlUpdateCall = `UPDATE queue_call SET claimed = $4, absent = $5 WHERE event_id = $1 AND round = $2 AND first_number = $3`

	sqlUpdateState = `
UPDATE queue_state SET bucket = $2, bucket_size = $3, bucket_left = $4, next_number = $5, serving = $6, left_waiting = $7,
    open_ms = $8, credit = $9, ticked_at = $10, leader = $11, leader_until = $12
WHERE event_id = $1`
)

// write stores what the group changed; the caller commits. Every statement must
// hit exactly the rows it means, or the group is rolled back.
func (g *group) write(ctx context.Context, tx pgx.Tx, before state) error {
	var b pgx.Batch
	if len(g.inserted) > 0 {
		g.queueInserts(&b)
	}
	for _, e := range g.edited {
		g.queueEntry(&b, e)
	}
	if c := g.closed; c != nil {
		queueOne(&b, 1, sqlInsertBucket, g.event, g.round, c.number, c.base, c.size, c.key[:], g.now)
	}
	for _, c := range g.calls {
		switch {
		case c.inserted:
			queueOne(&b, 1, sqlInsertCall, g.event, g.round, c.first, c.after, g.now, c.lapsesMs, c.claimed, c.absent)
		case c.edited:
			queueOne(&b, 1, sqlUpdateCall, g.event, g.round, c.first, c.claimed, c.absent)
		}
	}
	if g.state != before {
		queueOne(&b, 1, sqlUpdateState, g.event, g.bucket, g.bucketSize, g.bucketLeft, g.next, g.serving, g.leftWaiting,
			g.openMs, g.credit, g.tickedAt, g.leader, g.leaderUntil)
	}
	if b.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, &b).Close()
}

func (g *group) queueInserts(b *pgx.Batch) {
	n := len(g.inserted)
	accounts, turns, indexes, risks := make([][16]byte, n), make([]int32, n), make([]int64, n), make([]string, n)
	for i, e := range g.inserted {
		accounts[i], turns[i], indexes[i], risks[i] = e.account, int32(e.turn), e.index, string(e.risk)
	}
	queueOne(b, int64(n), sqlInsertEntries, g.event, g.round, g.bucket, g.now, accounts, turns, indexes, risks)
}

func (g *group) queueEntry(b *pgx.Batch, e *entry) {
	var number *int64
	if e.number != numberless {
		number = &e.number
	}
	queueOne(b, 1, sqlUpdateEntry, g.event, g.round, e.account, e.turn, number, e.claimedAt, e.doorMs, e.admittedAt,
		e.session, e.leftAt, e.lapsedAt)
}

// errRowCount says that a statement did not hit the rows it meant.
var errRowCount = errors.New("statement hit an unexpected number of rows")

// queueOne adds a statement that must hit exactly so many rows.
func queueOne(b *pgx.Batch, want int64, sql string, args ...any) {
	b.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() != want {
			return fmt.Errorf("%w: %d, not %d: %s", errRowCount, tag.RowsAffected(), want, tag)
		}
		return nil
	})
}
