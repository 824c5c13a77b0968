// Package baseline is the honest other way: one transaction per hold, with the
// same effects as the ledger's. It exists only as the limit that `usher bench`
// measures the ledger against, in the same run on the same database, and it is
// the only place outside the owning packages that writes their tables.
package baseline

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
)

// ErrTaken is the answer to a hold whose seats are not all available.
var ErrTaken = errors.New("seats taken")

// Holds places holds one transaction each, as a careful engineer would write it:
// prepared statements, two pipelined batches and a commit; account and seats
// locked in order; limit recounted; idempotency, hold, seats and a densely
// numbered outbox row in one commit.
type Holds struct {
	Pool  *pgxpool.Pool
	Event usher.EventID
	Rules usher.Rules

	// swap takes seats by comparing versions instead of locking them first.
	swap bool
}

const (
	sqlUsage = `INSERT INTO account_usage (event_id, account_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`

	sqlLockAccount = `SELECT blocked FROM account_usage WHERE event_id = $1 AND account_id = $2 FOR NO KEY UPDATE`

	sqlLockSeats = `
SELECT s.seat_id, s.tier_id, s.status, s.hold_expires_at, s.version, p.amount_minor
FROM unnest($2::text[]) k(id)
CROSS JOIN LATERAL (
    SELECT seat_id, tier_id, status, hold_expires_at, version FROM seat_inventory WHERE event_id = $1 AND seat_id = k.id
    OFFSET 0 FOR NO KEY UPDATE) s
CROSS JOIN LATERAL (
    SELECT amount_minor FROM price_version WHERE event_id = $1 AND price_version = $3 AND tier_id = s.tier_id OFFSET 0) p`

	sqlReadSeats = `
SELECT s.seat_id, s.tier_id, s.status, s.hold_expires_at, s.version, p.amount_minor
FROM unnest($2::text[]) k(id)
CROSS JOIN LATERAL (
    SELECT seat_id, tier_id, status, hold_expires_at, version FROM seat_inventory WHERE event_id = $1 AND seat_id = k.id
    OFFSET 0) s
CROSS JOIN LATERAL (
    SELECT amount_minor FROM price_version WHERE event_id = $1 AND price_version = $3 AND tier_id = s.tier_id OFFSET 0) p`

	sqlKey = `SELECT hold_id FROM hold WHERE event_id = $1 AND account_id = $2 AND idempotency_key = $3`

	sqlRefusal = `
SELECT result FROM idempotency_record WHERE event_id = $1 AND account_id = $2 AND operation = 'hold' AND idempotency_key = $3`

	sqlUsed = `
SELECT (SELECT coalesce(sum(places), 0) FROM hold
        WHERE event_id = $1 AND account_id = $2 AND status IN ('held', 'payment_pending')
            AND (status = 'payment_pending' OR expires_at > clock_timestamp()))
    + (SELECT count(*) FROM order_line WHERE event_id = $1 AND account_id = $2 AND state = 'sold')`

	sqlSession = `
SELECT session_id, expires_at FROM shopper_session WHERE event_id = $1 AND account_id = $2 AND ended_at IS NULL`

	sqlRules = `
SELECT l.epoch, l.rules_version, r.sale, r.purchase_limit, r.hold_seconds, clock_timestamp()
FROM event_ledger l JOIN event_rules r ON r.event_id = l.event_id WHERE l.event_id = $1`

	sqlInsertHold = `
INSERT INTO hold (hold_id, event_id, account_id, status, expires_at, seat_ids, tier_ids, price_version, amount_minor, currency,
    idempotency_key, request_digest, created_at, places)
VALUES ($1, $2, $3, 'held', $4, $5, $6, $7, $8, $9, $10, $11, $12, cardinality($5::text[]))`

	sqlTakeSeat = `
UPDATE seat_inventory SET status = 'held', hold_id = $3, hold_expires_at = $4, order_id = NULL, version = version + 1, price_version = $5
WHERE event_id = $1 AND seat_id = $2 AND version = $6`

	sqlPublish = `
WITH f AS (
    UPDATE event_ledger SET seq = seq + 1 WHERE event_id = $1 AND epoch = $2 AND rules_version = $3 RETURNING seq
)
INSERT INTO outbox (event_id, seq, operation_id, aggregate_id, type, cause, payload, created_at)
SELECT $1, f.seq, $4, $5, 'hold_placed', 'PlaceHold', $6, $7 FROM f`

	sqlInsertRefusal = `
INSERT INTO idempotency_record (event_id, account_id, operation, idempotency_key, request_digest, result, created_at, expires_at)
VALUES ($1, $2, 'hold', $3, $4, $5, $6::timestamptz, $6::timestamptz + interval '1 day')
ON CONFLICT DO NOTHING`
)

type seatRow struct {
	id      usher.SeatID
	tier    string
	status  string
	expires *time.Time
	version int64
	amount  int64
}

type look struct {
	seats          []seatRow
	epoch, version int64
	used, limit    int
	now            time.Time
}

// errChanged says that a seat is not as it was read any more.
var errChanged = errors.New("seat changed since it was read")

// Place places one hold. It fails with ErrTaken when a seat is not available.
func (h *Holds) Place(ctx context.Context, account usher.AccountID, seats []usher.SeatID, key string) error {
	for {
		if err := h.try(ctx, account, seats, key); !errors.Is(err, errChanged) {
			return err
		}
	}
}

func (h *Holds) try(ctx context.Context, account usher.AccountID, seats []usher.SeatID, key string) error {
	seats = slices.Sorted(slices.Values(seats))
	tx, err := h.Pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	l, err := h.lock(ctx, tx, account, seats, key)
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(strings.Join(names(seats), "\x1f")))
	for _, s := range l.seats {
		if s.status != "available" && !(s.status == "held" && !l.now.Before(*s.expires)) {
			return h.refuse(ctx, tx, account, key, digest[:], l.now)
		}
	}
	if len(l.seats) != len(seats) || l.used+len(seats) > l.limit {
		return fmt.Errorf("seats or limit: %d of %d seats, %d of %d used", len(l.seats), len(seats), l.used, l.limit)
	}
	if err := h.write(ctx, tx, account, seats, key, digest[:], l); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func (h *Holds) lock(ctx context.Context, tx pgx.Tx, account usher.AccountID, seats []usher.SeatID, key string) (l look, err error) {
	seatsSQL := sqlLockSeats
	if h.swap {
		seatsSQL = sqlReadSeats
	}
	b := &pgx.Batch{}
	b.Queue(sqlUsage, h.Event, account)
	b.Queue(sqlLockAccount, h.Event, account).QueryRow(func(row pgx.Row) error { var blocked bool; return row.Scan(&blocked) })
	b.Queue(seatsSQL, h.Event, names(seats), h.Rules.PriceVersion).Query(func(rows pgx.Rows) error {
		l.seats, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s seatRow, err error) {
			err = row.Scan(&s.id, &s.tier, &s.status, &s.expires, &s.version, &s.amount)
			return s, err
		})
		return err
	})
	b.Queue(sqlKey, h.Event, account, key).Query(func(rows pgx.Rows) error { rows.Close(); return rows.Err() })
	b.Queue(sqlRefusal, h.Event, account, key).Query(func(rows pgx.Rows) error { rows.Close(); return rows.Err() })
	b.Queue(sqlUsed, h.Event, account).QueryRow(func(row pgx.Row) error { return row.Scan(&l.used) })
	b.Queue(sqlSession, h.Event, account).Query(func(rows pgx.Rows) error { rows.Close(); return rows.Err() })
	b.Queue(sqlRules, h.Event).QueryRow(func(row pgx.Row) error {
		var sale string
		var seconds int
		return row.Scan(&l.epoch, &l.version, &sale, &l.limit, &seconds, &l.now)
	})
	return l, tx.SendBatch(ctx, b).Close()
}

func (h *Holds) write(ctx context.Context, tx pgx.Tx, account usher.AccountID, seats []usher.SeatID, key string, digest []byte, l look) error {
	id, expires := usher.NewHoldID(h.Event), l.now.Add(h.Rules.HoldTime)
	tiers := make([]string, len(l.seats))
	versions := make([]int64, len(l.seats))
	var amount int64
	for i, s := range l.seats {
		tiers[i] = s.tier
		amount += s.amount
		versions[i] = s.version + 1
	}
	move := map[string]any{"from": l.seats[0].status, "to": "held", "holdId": id, "expiresAt": expires, "seatIds": seats, "versions": versions}
	payload, err := json.Marshal(map[string]any{"accountId": account, "holdId": id, "moves": []any{move}})
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue(sqlInsertHold, id, h.Event, account, expires, names(seats), tiers, h.Rules.PriceVersion, amount, string(h.Rules.Currency), key, digest, l.now)
	for _, s := range l.seats {
		b.Queue(sqlTakeSeat, h.Event, s.id, id, expires, h.Rules.PriceVersion, s.version).Exec(func(t pgconn.CommandTag) error {
			if t.RowsAffected() != 1 {
				return errChanged
			}
			return nil
		})
	}
	b.Queue(sqlPublish, h.Event, l.epoch, l.version, usher.NewCommandID(h.Event), id.String(), payload, l.now)
	return tx.SendBatch(ctx, b).Close()
}

func (h *Holds) refuse(ctx context.Context, tx pgx.Tx, account usher.AccountID, key string, digest []byte, now time.Time) error {
	if _, err := tx.Exec(ctx, sqlInsertRefusal, h.Event, account, key, digest, []byte(`{"code":"seats_unavailable"}`), now); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	return ErrTaken
}

func names(seats []usher.SeatID) []string {
	out := make([]string, len(seats))
	for i, s := range seats {
		out[i] = string(s)
	}
	return out
}

const sqlExpire = `
WITH due AS (
    UPDATE hold SET status = 'expired', ended_at = clock_timestamp()
    WHERE event_id = $1 AND status = 'held' AND expires_at <= clock_timestamp()
    RETURNING hold_id, seat_ids
)
UPDATE seat_inventory s SET status = 'available', hold_id = NULL, hold_expires_at = NULL, version = version + 1
FROM due, unnest(due.seat_ids) id
WHERE s.event_id = $1 AND s.seat_id = id AND s.hold_id = due.hold_id AND s.status = 'held'`

// Expire frees due holds, as a periodic sweep does.
func (h *Holds) Expire(ctx context.Context) error {
	_, err := h.Pool.Exec(ctx, sqlExpire, h.Event)
	return err
}
