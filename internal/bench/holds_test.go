package bench_test

import (
	"testing"

	"usher"
	"usher/internal/audit"
	"usher/internal/bench"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The scenario runs, both contenders do work with about the conflict share that
// was asked for, and what the ledger wrote audits clean. No speed is asserted.
func TestHoldsStore(t *testing.T) {
	url := pgtest.Database(t)
	r, err := bench.HoldsStore(t.Context(), url, bench.HoldsConfig{Seconds: 1, Seats: 40_000, SeatsPerHold: 2, ConflictShare: 0.2, Clients: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if r.AcceptedPerSecond <= 0 || r.NaivePerSecond <= 0 || r.RatioToNaive <= 0 || r.P99Ms < r.P50Ms || r.P50Ms <= 0 || r.CPUMicrosPerAccepted <= 0 {
		t.Errorf("figures are missing: %+v", r)
	}
	if r.ConflictShare == 0 || r.NaiveConflictShare == 0 {
		t.Errorf("conflict shares %.2f and %.2f", r.ConflictShare, r.NaiveConflictShare)
	}
	// The fifth event is the ledger's; the first four were the baseline's.
	audited(t, url, 5)
}

// audited fails the test unless the event's rows keep every promise.
func audited(t *testing.T, url string, event usher.EventID) {
	t.Helper()
	ro, err := pg.OpenReadOnly(t.Context(), pg.Config{ShardURLs: map[pg.ShardNumber]string{1: url}})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	report, err := audit.Run(t.Context(), ro.Shards(), event)
	if err != nil || !report.Clean() {
		t.Errorf("audit of %s: %+v, %v", event, report, err)
	}
}
