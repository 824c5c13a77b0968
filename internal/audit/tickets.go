package audit

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"usher"
)

const (
	// What the ticket issuer's cursor has passed.
	sqlIssuedFor = `
SELECT b.payload ->> 'orderId'
FROM outbox b
JOIN outbox_cursor c ON c.reader = 'tickets' AND c.event_id = b.event_id AND c.seq >= b.seq
WHERE b.event_id = $1 AND b.type = 'order_captured'`

	sqlCapturedEntries = `SELECT payload ->> 'orderId' FROM outbox WHERE event_id = $1 AND type = 'order_captured'`

	sqlPlacesAndTickets = `
SELECT coalesce(o.order_id, t.order_id)::text, coalesce(o.status, ''), coalesce(o.seats, '{}'), coalesce(t.seats, '{}')
FROM (
    SELECT o.order_id, o.status, array_agg(coalesce(l.seat_id, '') ORDER BY l.line) AS seats
    FROM orders o JOIN order_line l ON l.order_id = o.order_id
    WHERE o.event_id = $1 AND o.captured_at IS NOT NULL
    GROUP BY o.order_id, o.status) o
FULL JOIN (
    SELECT order_id, array_agg(seat_id ORDER BY line) AS seats FROM code WHERE event_id = $1 GROUP BY order_id) t
    ON t.order_id = o.order_id`
)

// tickets compares captured orders with their codes. What the issuer has passed
// is read first: an order among it must have all its tickets in the later read. The
// entries that the issuer goes by are read last: each captured order's is there.
func tickets(ctx context.Context, pool reader, event usher.EventID) ([]Violation, error) {
	passed, err := orderSet(ctx, pool, sqlIssuedFor, event)
	if err != nil {
		return nil, fmt.Errorf("read the issuer's progress: %w", err)
	}
	rows, err := pool.Query(ctx, sqlPlacesAndTickets, event)
	if err != nil {
		return nil, fmt.Errorf("read tickets: %w", err)
	}
	var out []Violation
	var captured []string
	var id, status string
	var places, issued []string
	_, err = pgx.ForEachRow(rows, []any{&id, &status, &places, &issued}, func() error {
		// An order that was cancelled before its turn came gets no tickets any more.
		due := passed[id] && status != "cancelled" || status == "" || len(issued) > 0
		if due && !slices.Equal(places, issued) {
			out = append(out, Violation{event, id, fmt.Sprintf("captured places %v, tickets for %v", places, issued)})
		}
		if status != "" {
			captured = append(captured, id)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read tickets: %w", err)
	}
	announced, err := orderSet(ctx, pool, sqlCapturedEntries, event)
	if err != nil {
		return nil, fmt.Errorf("read captures in the outbox: %w", err)
	}
	for _, id := range captured {
		if !announced[id] {
			out = append(out, Violation{event, id, "captured, but no entry tells the issuer"})
		}
	}
	return out, nil
}

// orderSet reads orders, written as in the outbox.
func orderSet(ctx context.Context, pool reader, sql string, event usher.EventID) (map[string]bool, error) {
	rows, err := pool.Query(ctx, sql, event)
	if err != nil {
		return nil, err
	}
	set := map[string]bool{}
	var id string
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error { set[uuidText(id)] = true; return nil })
	return set, err
}
