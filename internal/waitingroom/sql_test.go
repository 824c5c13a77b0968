package waitingroom_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher/internal/waitingroom"
)

// keyed are the statements that run per group, on tables that may hold millions
// of rows: their generic plans must use keys, whatever the statistics say.
var keyed = []string{
	"sqlReadEntries", "sqlReadCalls", "sqlReadLeavers", "sqlReadGaps", "sqlUpdateEntry", "sqlUpdateCall", "sqlReadBucket",
	"sqlMeasure", "sqlReadSessions", "sqlCountLive", "sqlEndIdle", "sqlHasLiveSession", "sqlTouchSessions",
	"sqlExtendSession", "sqlEndSession",
}

var scansTable = regexp.MustCompile(`Seq Scan on (queue_entry|queue_call|queue_bucket|shopper_session)`)

func checkStatements(t *testing.T, b *bench, pool *pgxpool.Pool, statements map[string]string) {
	t.Helper()
	conn, err := pool.Acquire(b.ctx)
	must(t, err)
	defer conn.Release()
	_, err = conn.Exec(b.ctx, `SET plan_cache_mode = force_generic_plan`)
	must(t, err)
	hot := map[string]bool{}
	for _, name := range keyed {
		hot[name] = true
	}
	for name, sql := range statements {
		d, err := conn.Conn().Prepare(b.ctx, strings.ToLower(name), sql)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !hot[name] {
			continue
		}
		args := strings.TrimSuffix(strings.Repeat("NULL, ", len(d.ParamOIDs)), ", ")
		rows, err := conn.Query(b.ctx, `EXPLAIN EXECUTE `+strings.ToLower(name)+`(`+args+`)`, pgx.QueryExecModeSimpleProtocol)
		must(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must(t, err)
		if plan := strings.Join(lines, "\n"); scansTable.MatchString(plan) {
			t.Errorf("%s scans a whole table:\n%s", name, plan)
		}
	}
	_, err = conn.Exec(b.ctx, `RESET plan_cache_mode`)
	must(t, err)
}

// TestStatements prepares every statement on the migrated schema and looks at the
// plans of the hot ones, on empty tables and on full, analysed ones.
func TestStatements(t *testing.T) {
	b := newBench(t)
	checkStatements(t, b, b.homes.Room, waitingroom.RoomStatements)
	checkStatements(t, b, b.shard(), waitingroom.ShardStatements)
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
	for _, analysed := range []bool{false, true} {
		if analysed {
			b.exec(b.homes.Room, `ANALYZE`)
		}
		checkStatements(t, b, b.homes.Room, waitingroom.RoomStatements)
		checkStatements(t, b, b.shard(), waitingroom.ShardStatements)
	}
}
