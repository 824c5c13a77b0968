package checkout_test

import (
	"strings"
	"testing"

	"usher/internal/pg/pgtest"
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
	plan := pgtest.Explain(t, s.pool, `
		SELECT operation_id FROM payment_operation
		WHERE next_at <= statement_timestamp() AND next_at IS NOT NULL AND parked_at IS NULL AND (kind = 'authorize')
			AND (lease_until IS NULL OR lease_until <= clock_timestamp())
		ORDER BY next_at LIMIT 64 FOR NO KEY UPDATE SKIP LOCKED`, "ANALYZE", "COSTS off", "TIMING off", "SUMMARY off")
	if !strings.Contains(plan, "operation_due") || strings.Contains(plan, "Rows Removed by Filter") {
		t.Errorf("plan:\n%s", plan)
	}
}
