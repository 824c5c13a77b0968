package redemption

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg"
)

// Ticket is the code of one place of a captured order. Who may see it is the
// caller's to check: by the order's account.
type Ticket struct {
	ID    usher.TicketID
	Event usher.EventID
	Order usher.OrderID
	// Seat is empty for a place without a seat.
	Seat usher.SeatID
	Tier usher.TierID
	// Code is a secret: its text opens the gate.
	Code   string
	Status usher.CodeStatus
	// Cancelled says that the order was cancelled; the code opens nothing then,
	// whatever its status.
	Cancelled bool
	IssuedAt  time.Time
	// UsedAt is the time of the one use, if any.
	UsedAt *time.Time
}

const sqlReadTickets = `
SELECT ticket_id, event_id, order_id, seat_id, tier_id, code, status, cancelled_at IS NOT NULL, issued_at, used_at
FROM code WHERE order_id = $1 ORDER BY line`

// Tickets reads the order's tickets, by seat. There are none until the order's
// payment is captured and the issuer has caught up. It fails with CodeNotFound
// only for an event without a home.
func (r *Redeemer) Tickets(ctx context.Context, order usher.OrderID) ([]Ticket, error) {
	shard, err := r.homes.Shard(ctx, order.Event())
	if err != nil {
		return nil, err
	}
	// The caller sees what Query failed with when the rows are collected.
	rows, _ := shard.Query(ctx, sqlReadTickets, order)
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Ticket, err error) {
		err = row.Scan(&t.ID, &t.Event, &t.Order, &t.Seat, &t.Tier, &t.Code, &t.Status, &t.Cancelled, &t.IssuedAt, &t.UsedAt)
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("read tickets of %s: %w", order, pg.Unavailable(err))
	}
	return out, nil
}

const sqlCountUsed = `
SELECT count(*) FROM code
WHERE pool_id = (SELECT pool_id FROM pool WHERE event_id = $1 AND kind = 'ticket') AND status = 'used'`

// EntryCount counts the event's used codes. Refused scans never count. It fails
// with CodeNotFound for an event without a home.
func (r *Redeemer) EntryCount(ctx context.Context, event usher.EventID) (int, error) {
	shard, err := r.homes.Shard(ctx, event)
	if err != nil {
		return 0, err
	}
	var n int
	if err := shard.QueryRow(ctx, sqlCountUsed, event).Scan(&n); err != nil {
		return 0, fmt.Errorf("count entries of %s: %w", event, pg.Unavailable(err))
	}
	return n, nil
}

// Issuer is the outbox reader that issues one code per place of an order when
// its payment is captured, and takes the codes of a cancelled order out of use.
// What it writes commits together with its cursor: exactly one set per order.
func (r *Redeemer) Issuer() ledger.Reader {
	types := []ledger.EntryType{ledger.EntryOrderCaptured, ledger.EntryOrderCancelled}
	return ledger.Reader{Name: "tickets", Types: types, Handle: r.handleEntries}
}

// handleEntries issues before it voids: within one batch a captured order can
// only be cancelled after its capture, never the other way round.
func (r *Redeemer) handleEntries(ctx context.Context, tx pgx.Tx, event usher.EventID, entries []ledger.Entry) error {
	var captured, cancelled []usher.OrderID
	for _, e := range entries {
		switch e.Type {
		case ledger.EntryOrderCaptured:
			captured = append(captured, e.Payload.Order)
		case ledger.EntryOrderCancelled:
			cancelled = append(cancelled, e.Payload.Order)
		}
	}
	if len(captured) > 0 {
		if err := r.issue(ctx, tx, event, captured); err != nil {
			return fmt.Errorf("issue tickets of %s: %w", event, err)
		}
	}
	if len(cancelled) > 0 {
		// The cancelling commit has voided what there was, and an order is locked while
		// its codes are issued: this finds something only where nothing voids.
		return r.VoidCodes(ctx, tx, cancelled)
	}
	return nil
}

// LockCodes queues the locking of the orders' codes (see ledger.Codes): a scan that
// stands still keeps the cancellation of its order waiting, and nothing else.
func (r *Redeemer) LockCodes(b *pgx.Batch, orders []usher.OrderID, skipLocked bool, missed func(usher.OrderID)) {
	if !skipLocked {
		b.Queue(sqlLockCodes, orders)
		return
	}
	b.Queue(sqlSkippedCodes, orders).Query(func(rows pgx.Rows) error {
		var order usher.OrderID
		_, err := pgx.ForEachRow(rows, []any{&order}, func() error { missed(order); return nil })
		return err
	})
}

const sqlLockCodes = `SELECT FROM code WHERE order_id = ANY($1::uuid[]) ORDER BY ticket_id FOR NO KEY UPDATE`

// sqlSkippedCodes locks what nobody else has locked, and names the orders of the rest.
const sqlSkippedCodes = `
WITH locked AS MATERIALIZED (
    SELECT ticket_id FROM code WHERE order_id = ANY($1::uuid[]) ORDER BY ticket_id FOR NO KEY UPDATE SKIP LOCKED
)
SELECT DISTINCT order_id FROM code
WHERE order_id = ANY($1::uuid[]) AND NOT EXISTS (SELECT FROM locked WHERE locked.ticket_id = code.ticket_id)`

// VoidCodes voids the unused codes of cancelled orders inside the transaction
// that cancels them (see ledger.Codes), and marks the others.
func (r *Redeemer) VoidCodes(ctx context.Context, tx pgx.Tx, orders []usher.OrderID) error {
	if _, err := tx.Exec(ctx, sqlCancelCodes, orders); err != nil {
		return fmt.Errorf("void tickets of cancelled orders: %w", err)
	}
	return nil
}

// sqlKeepOrders locks orders against a group of the ledger, which takes them by hold.
const sqlKeepOrders = `SELECT FROM orders WHERE order_id = ANY($1::uuid[]) ORDER BY hold_id FOR SHARE`

// sqlSoldPlaces reads the places that the orders own now: an order cancelled
// since its capture has none.
const sqlSoldPlaces = `
SELECT l.order_id, l.line, coalesce(l.seat_id, ''), l.tier_id
FROM unnest($1::uuid[]) AS o(order_id)
CROSS JOIN LATERAL (
    SELECT order_id, line, seat_id, tier_id, state FROM order_line WHERE order_id = o.order_id OFFSET 0
) AS l
WHERE l.state = 'sold'
ORDER BY l.order_id, l.line`

// sqlInsertCodes issues into the event's pool; a place that has a code keeps it.
const sqlInsertCodes = `
INSERT INTO code (ticket_id, pool_id, event_id, code, order_id, line, seat_id, tier_id, issued_at)
SELECT n.ticket_id, p.pool_id, p.event_id, n.code, n.order_id, n.line, n.seat_id, n.tier_id, clock_timestamp()
FROM pool p
CROSS JOIN unnest($2::uuid[], $3::text[], $4::uuid[], $5::smallint[], $6::text[], $7::text[])
    AS n(ticket_id, code, order_id, line, seat_id, tier_id)
WHERE p.event_id = $1 AND p.kind = 'ticket'
ON CONFLICT (order_id, line) DO NOTHING`

const sqlHasPool = `SELECT EXISTS (SELECT FROM pool WHERE event_id = $1 AND kind = 'ticket')`

func (r *Redeemer) issue(ctx context.Context, tx pgx.Tx, event usher.EventID, orders []usher.OrderID) error {
	var (
		tickets []usher.TicketID
		codes   []string
		owners  []usher.OrderID
		lines   []int16
		seats   []usher.SeatID
		tiers   []usher.TierID
	)
	// A cancellation comes before this, and its places are not sold any more, or after
	// it, and voids what is issued here.
	if _, err := tx.Exec(ctx, sqlKeepOrders, orders); err != nil {
		return fmt.Errorf("lock orders: %w", err)
	}
	rows, _ := tx.Query(ctx, sqlSoldPlaces, orders)
	var order usher.OrderID
	var line int16
	var seat usher.SeatID
	var tier usher.TierID
	_, err := pgx.ForEachRow(rows, []any{&order, &line, &seat, &tier}, func() error {
		tickets, codes = append(tickets, usher.NewTicketID(event)), append(codes, newCode(event))
		owners, lines, seats, tiers = append(owners, order), append(lines, line), append(seats, seat), append(tiers, tier)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read sold places: %w", err)
	}
	if len(tickets) == 0 {
		// Cancelled since; the audit would name a captured order that lost its places.
		r.log.WarnContext(ctx, "captured orders own no places", "event", event, "orders", len(orders))
		return nil
	}
	var pooled bool
	if err := tx.QueryRow(ctx, sqlHasPool, event).Scan(&pooled); err != nil {
		return fmt.Errorf("look for pool: %w", err)
	}
	if !pooled {
		// Publication creates the pool. The cursor stays, and the batch comes again.
		return usher.Errorf(usher.CodeStateConflict, "the event has no ticket pool yet")
	}
	tag, err := tx.Exec(ctx, sqlInsertCodes, event, tickets, codes, owners, lines, seats, tiers)
	if err != nil {
		return fmt.Errorf("insert codes: %w", err)
	}
	r.log.DebugContext(ctx, "tickets issued", "event", event, "orders", len(orders), "tickets", tag.RowsAffected())
	return nil
}

// sqlCancelCodes voids what is unused and marks the rest, in one statement per
// row version: a code that is being claimed meanwhile is judged as the claim
// left it.
const sqlCancelCodes = `
UPDATE code
SET status = CASE status WHEN 'unused' THEN 'voided' ELSE status END,
    voided_at = CASE status WHEN 'unused' THEN clock_timestamp() ELSE voided_at END,
    cancelled_at = clock_timestamp()
WHERE order_id = ANY($1::uuid[]) AND cancelled_at IS NULL`
