package pgtest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// keyInFilter matches a key, or a time that is due, that is compared only after the
// row was fetched.
var keyInFilter = regexp.MustCompile(`\b(\w+_id|bucket|number|turn|idempotency_key|code) = |\b(\w+_at|\w+_until) <=? `)

// WantKeyed fails the test unless the statement's generic plan finds every row by
// its whole key: no table is scanned, hashed or merged, and no key is compared only
// after a row was fetched, as happens where an index that begins with the event is
// taken for a look-up of one account, and every row of the event is read for each.
// The one row of a whole unique key may be compared further. Tables that are small
// by nature are left out.
func WantKeyed(t testing.TB, conn *pgx.Conn, when, name, sql string, small ...string) {
	t.Helper()
	st, err := conn.Prepare(t.Context(), name, sql)
	if err != nil {
		t.Errorf("prepare %s: %v", name, err)
		return
	}
	// Or the next stage would be shown this one's plan.
	defer func() {
		if err := conn.Deallocate(t.Context(), name); err != nil {
			t.Errorf("forget %s: %v", name, err)
		}
	}()
	nulls := strings.TrimSuffix(strings.Repeat("NULL,", len(st.ParamOIDs)), ",")
	if nulls != "" {
		nulls = "(" + nulls + ")"
	}
	if _, err := conn.Exec(t.Context(), `SET plan_cache_mode = force_generic_plan`); err != nil {
		t.Fatalf("set plan mode: %v", err)
	}
	var raw []byte
	err = conn.QueryRow(t.Context(), fmt.Sprintf(`EXPLAIN (FORMAT JSON) EXECUTE %q %s`, name, nulls), pgx.QueryExecModeSimpleProtocol).Scan(&raw)
	if err != nil {
		t.Fatalf("explain %s: %v", name, err)
	}
	if _, err := conn.Exec(t.Context(), `RESET plan_cache_mode`); err != nil {
		t.Fatalf("reset plan mode: %v", err)
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal(raw, &plans); err != nil {
		t.Fatalf("read plan of %s: %v", name, err)
	}
	unique := uniqueKeys(t, conn)
	plans[0].Plan.walk(func(n planNode) {
		if size := unique[n.Index]; size > 0 && strings.Count(n.Cond, " = ") >= size {
			return
		}
		whole := strings.Contains(n.Kind, "Seq Scan") || strings.HasPrefix(n.Kind, "Hash") || n.Kind == "Merge Join"
		if !slices.Contains(small, n.Table) && (whole || keyInFilter.MatchString(n.Filter)) {
			t.Errorf("%s, %s: %s on %s by %q filters %q", name, when, n.Kind, n.Table, n.Index, n.Filter)
		}
	})
}

// uniqueKeys maps unique indexes to how many columns they have.
func uniqueKeys(t testing.TB, conn *pgx.Conn) map[string]int {
	t.Helper()
	rows, err := conn.Query(t.Context(), `
SELECT c.relname, i.indnkeyatts FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid WHERE i.indisunique`)
	if err != nil {
		t.Fatalf("read indexes: %v", err)
	}
	keys := map[string]int{}
	var name string
	var size int
	if _, err := pgx.ForEachRow(rows, []any{&name, &size}, func() error { keys[name] = size; return nil }); err != nil {
		t.Fatalf("read indexes: %v", err)
	}
	return keys
}

// Explain returns the plan of a statement without parameters as text, one line per
// node or detail. Options stand between EXPLAIN's brackets; without any it is not run.
func Explain(t testing.TB, pool *pgxpool.Pool, sql string, options ...string) string {
	t.Helper()
	explain := "EXPLAIN "
	if len(options) > 0 {
		explain += "(" + strings.Join(options, ", ") + ") "
	}
	rows, err := pool.Query(t.Context(), explain+sql)
	if err != nil {
		t.Fatalf("explain: %v", err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("explain: %v", err)
	}
	return strings.Join(plan, "\n")
}

// planNode is what is looked at of EXPLAIN's answer.
type planNode struct {
	Kind   string     `json:"Node Type"`
	Table  string     `json:"Relation Name"`
	Index  string     `json:"Index Name"`
	Cond   string     `json:"Index Cond"`
	Filter string     `json:"Filter"`
	Plans  []planNode `json:"Plans"`
}

func (n planNode) walk(visit func(planNode)) {
	visit(n)
	for _, p := range n.Plans {
		p.walk(visit)
	}
}
