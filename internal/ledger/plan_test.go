package ledger_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"usher/internal/pg/pgtest"
)

// hot lists the statements that run in every group, and how many parameters each takes.
var hot = []string{
	"sqlDueHolds", "sqlResolveHolds", "sqlResolveOrders", "sqlEnsureUsage", "sqlLockUsage", "sqlLockSeats", "sqlLockBuckets", "sqlReadHoldLines",
	"sqlWriteBuckets", "sqlWriteHoldLines", "sqlLockHolds",
	"sqlLockOrders", "sqlLockOperations", "sqlReadLines", "sqlReadHoldKeys", "sqlReadRecords", "sqlReadLive", "sqlReadSold",
	"sqlReadSessions", "sqlReadPending", "sqlReadLedger", "sqlWriteHolds", "sqlWriteSeats", "sqlWriteOrders", "sqlWriteLines",
	"sqlWriteOperations", "sqlWriteRecords", "sqlFenceAndPublish", "sqlReadPayments", "sqlMoreDue", "sqlLockLedger", "sqlHasEntry",
}

// Hot statements go by whole keys: as generic plans, on empty tables that nobody
// analysed, and after many rows, live and not, that nobody analysed either.
func TestHotPlans(t *testing.T) {
	h := newHall(t, 1, nil)
	sqls := ledgerStatements(t)
	check := func(stage string) {
		conn, err := h.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		for _, name := range hot {
			sql, ok := sqls[name]
			if !ok {
				t.Fatalf("no statement %s", name)
			}
			pgtest.WantKeyed(t, conn.Conn(), stage, name, sql, "event_ledger", "event_rules")
		}
	}
	h.exec(h.pool, `TRUNCATE seat_inventory, inventory_bucket, hold, hold_line, orders, order_line, payment_operation, account_usage, idempotency_record, outbox`)
	h.exec(h.pool, `UPDATE event_ledger SET seq = 0`)
	check("empty")
	h.exec(h.pool, `SET LOCAL statement_timeout = 0; INSERT INTO seat_inventory (event_id, seat_id, tier_id, price_version)
		SELECT 7, 'X' || i, 'gold', 1 FROM generate_series(1, 100000) i`)
	// Few accounts: their indexes are then smaller than those by time, and tempt.
	hold := func(status, ended string, n int) {
		h.exec(h.pool, fmt.Sprintf(`SET LOCAL statement_timeout = 0; INSERT INTO hold (hold_id, event_id, account_id, status, expires_at, seat_ids, tier_ids, price_version,
			amount_minor, currency, idempotency_key, request_digest, created_at, ended_at, places)
			SELECT gen_random_uuid(), 7, md5((i %% 50)::text)::uuid, '%s', now() + i * interval '1 ms' + interval '10 minutes', '{A}', '{gold}', 1, 1, 'TWD', gen_random_uuid()::text, '\x00', now(), %s, 1
			FROM generate_series(1, %d) i`, status, ended, n))
	}
	for range 12 {
		hold("held", "NULL", 50)
	}
	check("600 live holds")
	hold("held", "NULL", 20_000)
	check("20,000 live holds")
	hold("released", "now()", 100_000)
	check("100,000 rows")
	h.exec(h.pool, `TRUNCATE seat_inventory`)
}

// What is due is found by its time in the index, however many holds live, and no
// more of it is read than is freed.
func TestDueHoldsByIndex(t *testing.T) {
	h := newHall(t, 1, nil)
	sql := strings.NewReplacer("$1", "7", "$2", "224", "$3", "256").Replace(ledgerStatements(t)["sqlDueHolds"])
	text := pgtest.Explain(t, h.pool, sql)
	if strings.Contains(text, "Sort") || !strings.Contains(text, "using hold_due") || !regexp.MustCompile(`Index Cond: .*expires_at`).MatchString(text) {
		t.Errorf("due holds are found so:\n%s", text)
	}
}

// A reader of orders does not wade through a sale's holds.
func TestTypesByIndex(t *testing.T) {
	h := newHall(t, 1, nil)
	h.exec(h.pool, `INSERT INTO outbox (event_id, seq, operation_id, aggregate_id, type, cause, payload, created_at)
		SELECT 7, 1000 + i, gen_random_uuid(), '', 'hold_placed', '', '{}', now() FROM generate_series(1, 20000) i`)
	sql := strings.NewReplacer("$1", "7", "$2", "0", "$3", "30000", "$4", `'{order_captured}'`, "$5", "500").Replace(ledgerStatements(t)["sqlReadTypes"])
	if text := pgtest.Explain(t, h.pool, sql); !strings.Contains(text, "using outbox_but_holds") {
		t.Errorf("entries of orders are found so:\n%s", text)
	}
	h.exec(h.pool, `TRUNCATE outbox`)
}

// ledgerStatements reads the SQL constants of the ledger's hot path and of its
// outbox readers.
func ledgerStatements(t *testing.T) map[string]string {
	t.Helper()
	out := statementsOf(t, "sql.go")
	maps.Copy(out, statementsOf(t, "reader.go"))
	return out
}

// statementsOf reads the SQL constants of one file of the package, by name.
func statementsOf(t *testing.T, file string) map[string]string {
	t.Helper()
	out := map[string]string{}
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 || !strings.HasPrefix(v.Names[0].Name, "sql") {
			return true
		}
		if lit, ok := v.Values[0].(*ast.BasicLit); ok {
			out[v.Names[0].Name], _ = strconv.Unquote(lit.Value)
		}
		return true
	})
	return out
}
