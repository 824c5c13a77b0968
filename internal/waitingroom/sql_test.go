package waitingroom_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"usher/internal/pg/pgtest"
	"usher/internal/waitingroom"
)

// keyed are the statements that run per group, on tables that may hold millions
// of rows: their generic plans must use keys, whatever the statistics say.
var keyed = []string{
	"sqlReadEntries", "sqlReadCalls", "sqlReadLeavers", "sqlReadGaps", "sqlUpdateEntry", "sqlUpdateCall", "sqlReadBucket",
	"sqlMeasure", "sqlReadSessions", "sqlCountLive", "sqlEndIdle", "sqlHasLiveSession", "sqlTouchSessions",
	"sqlExtendSession", "sqlEndSession",
}

func checkStatements(t *testing.T, b *bench, when string, pool *pgxpool.Pool, statements map[string]string) {
	t.Helper()
	conn, err := pool.Acquire(b.ctx)
	must(t, err)
	defer conn.Release()
	for name, sql := range statements {
		if slices.Contains(keyed, name) {
			pgtest.WantKeyed(t, conn.Conn(), when, name, sql, "queue_state", "queue_round", "session_gate")
		} else if _, err := conn.Conn().Prepare(b.ctx, name, sql); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStatements prepares every statement on the migrated schema and looks at the
// plans of the hot ones, on empty tables and on full, analysed ones.
func TestStatements(t *testing.T) {
	b := newBench(t)
	checkStatements(t, b, "empty", b.homes.Room, waitingroom.RoomStatements)
	checkStatements(t, b, "empty", b.shard(), waitingroom.ShardStatements)
	b.exec(b.homes.Room, `
INSERT INTO queue_entry (event_id, round, account_id, turn, bucket, join_index, joined_at, risk)
SELECT $1, 1, gen_random_uuid(), 1, n / 500, n % 500, now(), '{}' FROM generate_series(1, 30000) n`, event)
	b.exec(b.homes.Room, `
INSERT INTO queue_bucket (event_id, round, bucket, base, size, perm_key, closed_at)
SELECT $1, 1, n, n * 500, 500, '\x00', now() FROM generate_series(0, 2000) n`, event)
	b.exec(b.homes.Room, `
INSERT INTO queue_call (event_id, round, first_number, after_number, called_at, lapses_ms)
SELECT $1, 1, n * 10, n * 10 + 10, now(), n * 500 FROM generate_series(0, 3000) n`, event)
	b.exec(b.shard(), `
INSERT INTO shopper_session (session_id, event_id, account_id, round, turn, started_at, expires_at)
SELECT gen_random_uuid(), $1 + n % 10, gen_random_uuid(), 1, 1, now(), now() FROM generate_series(1, 20000) n`, event)
	for _, when := range []string{"full", "full and analysed"} {
		if when == "full and analysed" {
			b.exec(b.homes.Room, `ANALYZE`)
		}
		checkStatements(t, b, when, b.homes.Room, waitingroom.RoomStatements)
		checkStatements(t, b, when, b.shard(), waitingroom.ShardStatements)
	}
}
