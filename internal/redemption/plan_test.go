package redemption_test

import (
	"testing"

	"usher"
	"usher/internal/pg/pgtest"
	"usher/internal/redemption"
)

// Every statement parses and binds against the migrated schema.
func TestStatementsPrepare(t *testing.T) {
	b := setup(t)
	for name, sql := range redemption.Statements {
		if _, err := b.shard.Exec(t.Context(), "PREPARE "+name+" AS "+sql); err != nil {
			t.Errorf("prepare %s: %v", name, err)
		}
	}
}

// The statements of a scan go by full keys whatever the statistics say: on
// tables that were never analysed, and after a whole hall of tickets.
func TestScanPlans(t *testing.T) {
	b := setup(t)
	hot := []string{"sqlClaimCode", "sqlReadStanding", "sqlLockRedeemed", "sqlReadRedemption", "sqlSettleUsed", "sqlSettleAbnormal",
		"sqlKeepEvidence", "sqlReadTickets", "sqlFreezeExpired", "sqlSoldPlaces", "sqlCancelCodes",
		"sqlLockCodes", "sqlSkippedCodes", "sqlKeepOrders"}
	check := func(when string) {
		conn, err := b.shard.Acquire(t.Context())
		if err != nil {
			t.Fatalf("acquire: %v", err)
		}
		defer conn.Release()
		for _, name := range hot {
			pgtest.WantKeyed(t, conn.Conn(), when, name, redemption.Statements[name], "pool")
		}
	}
	check("empty")
	var pool usher.PoolID
	if err := b.shard.QueryRow(t.Context(), `SELECT pool_id FROM pool WHERE event_id = $1`, concert).Scan(&pool); err != nil {
		t.Fatalf("read pool: %v", err)
	}
	mustExec(t, b.shard, `INSERT INTO code (ticket_id, pool_id, event_id, code, order_id, line, seat_id, tier_id, issued_at)
		SELECT gen_random_uuid(), $1, $2, n::text, gen_random_uuid(), 1, n::text, 'stalls', now() FROM generate_series(1, 20000) n`, pool, concert)
	mustExec(t, b.shard, `INSERT INTO redemption (redemption_id, ticket_id, event_id, device_id, transaction_id, settle, claimed_at, confirm_by, result, settled_at)
		SELECT gen_random_uuid(), ticket_id, event_id, order_id, code, 'now', now(), now(), 'admitted', now() FROM code LIMIT 10000`)
	mustExec(t, b.shard, `INSERT INTO device (device_id, event_id, name, settle, instruction, secret_hash, created_at)
		SELECT gen_random_uuid(), $1, 'Gate', 'now', '', sha256('x'), now() FROM generate_series(1, 2000)`, concert)
	check("full")
	mustExec(t, b.shard, `ANALYZE code, redemption, device, pool`)
	check("full and analysed")
}
