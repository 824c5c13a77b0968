package checkout_test

import (
	"context"
	"strings"
	"testing"
)

// Neither a backlog of captures nor many authorizations that are not due yet may
// make finding due authorizations expensive: the claims of each kind read the due
// end of their own part of the index.
func TestClaimsReadTheirOwnPartOfTheIndex(t *testing.T) {
	t.Parallel()
	s := openShop(t, newFake(), nil)
	s.exec(s.pool, `INSERT INTO payment_operation (operation_id, order_id, event_id, kind, status, provider, amount_minor, currency,
		idempotency_key, created_at, updated_at, next_at)
		SELECT gen_random_uuid(), gen_random_uuid(), 7, 'capture', 'created', 'fake', 1, 'TWD', '', now(), now(), now() - interval '1 hour'
		FROM generate_series(1, 20000)`)
	s.exec(s.pool, `INSERT INTO payment_operation (operation_id, order_id, event_id, kind, status, provider, amount_minor, currency,
		idempotency_key, created_at, updated_at, next_at)
		SELECT gen_random_uuid(), gen_random_uuid(), 7, 'authorize', 'unknown', 'fake', 1, 'TWD', '', now(), now(), now() + interval '1 hour'
		FROM generate_series(1, 20000)`)
	s.exec(s.pool, `ANALYZE payment_operation`)
	rows, err := s.pool.Query(context.Background(), `EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off)
		SELECT operation_id FROM payment_operation
		WHERE next_at <= statement_timestamp() AND next_at IS NOT NULL AND parked_at IS NULL AND (kind = 'authorize')
			AND (lease_until IS NULL OR lease_until <= clock_timestamp())
		ORDER BY next_at LIMIT 64 FOR NO KEY UPDATE SKIP LOCKED`)
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(line + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(plan.String(), "operation_due") || strings.Contains(plan.String(), "Rows Removed by Filter") {
		t.Errorf("plan:\n%s", plan.String())
	}
}
