package audit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"usher"
)

const (
	sqlKeys = `
SELECT r.idempotency_key, format('%s of %s names %s', r.operation, r.account_id, coalesce(r.result ->> 'orderId', r.result ->> 'code', 'nothing'))
FROM idempotency_record r
LEFT JOIN hold h ON r.operation = 'hold' AND h.event_id = r.event_id AND h.account_id = r.account_id AND h.idempotency_key = r.idempotency_key
WHERE r.event_id = $1
    AND (h.hold_id IS NOT NULL AND r.expires_at > clock_timestamp()
        OR (r.result ->> 'orderId' IS NULL) = (r.result ->> 'code' IS NULL)
        OR r.result ->> 'orderId' IS NOT NULL AND r.operation <> 'checkout')
UNION ALL
SELECT idempotency_key, format('%s holds with one key', count(*)) FROM hold
WHERE event_id = $1 GROUP BY account_id, idempotency_key HAVING count(*) > 1`

	sqlGrantedCheckouts = `
SELECT idempotency_key, account_id::text, result ->> 'orderId' FROM idempotency_record
WHERE event_id = $1 AND operation = 'checkout' AND result ->> 'orderId' IS NOT NULL`

	sqlOrderOwners = `SELECT order_id::text, account_id::text FROM orders WHERE event_id = $1`
)

// keys checks what stored keys stand for. Granted checkouts are read before the
// orders: an order commits together with its key, so the later read has it.
func keys(ctx context.Context, pool reader, event usher.EventID) ([]Violation, error) {
	out, err := query(sqlKeys)(ctx, pool, event)
	if err != nil {
		return nil, err
	}
	type grant struct{ key, account, order string }
	var grants []grant
	var g grant
	rows, err := pool.Query(ctx, sqlGrantedCheckouts, event)
	if err != nil {
		return nil, fmt.Errorf("read granted checkouts: %w", err)
	}
	_, err = pgx.ForEachRow(rows, []any{&g.key, &g.account, &g.order}, func() error { grants = append(grants, g); return nil })
	if err != nil {
		return nil, fmt.Errorf("read granted checkouts: %w", err)
	}
	owners := map[string]string{}
	if rows, err = pool.Query(ctx, sqlOrderOwners, event); err != nil {
		return nil, fmt.Errorf("read owners of orders: %w", err)
	}
	_, err = pgx.ForEachRow(rows, []any{&g.order, &g.account}, func() error { owners[g.order] = g.account; return nil })
	if err != nil {
		return nil, fmt.Errorf("read owners of orders: %w", err)
	}
	for _, g := range grants {
		if owner, ok := owners[uuidText(g.order)]; !ok || owner != g.account {
			out = append(out, Violation{event, g.key, fmt.Sprintf("checkout of %s names %s, which belongs to %q", g.account, g.order, owner)})
		}
	}
	return out, nil
}
