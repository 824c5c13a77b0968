package bench_test

import (
	"context"
	"testing"

	"usher"
	"usher/internal/bench"
	"usher/internal/pg/pgtest"
)

// Rows of every kind are measured, on databases of their own that audit clean.
// No speed is asserted.
func TestGrowth(t *testing.T) {
	rows := []bench.GrowthRow{
		{Grown: "base", Seats: 1000, Events: 1, Processes: 1, SeatsPerHold: 1},
		{Grown: "events", Seats: 1000, Events: 3, Processes: 1, SeatsPerHold: 1},
		{Grown: "processes", Seats: 1000, Events: 1, Processes: 2, SeatsPerHold: 6},
	}
	var urls []string
	var told int
	res, err := bench.Growth(t.Context(), bench.GrowthConfig{Seconds: 1, Clients: 12, ConflictShare: 0.2, Rows: rows},
		func(context.Context, string) (string, error) {
			urls = append(urls, pgtest.Database(t))
			return urls[len(urls)-1], nil
		}, func(bench.GrowthRow) { told++ })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", res)
	if len(res.Rows) != len(rows) || told != len(rows) {
		t.Fatalf("%d rows, %d told", len(res.Rows), told)
	}
	for i, r := range res.Rows {
		if r.Grown != rows[i].Grown || r.Seats != rows[i].Seats || r.Events != rows[i].Events || r.Processes != rows[i].Processes {
			t.Errorf("row %d measured another thing: %+v", i, r)
		}
		if r.AcceptedPerSecond <= 0 || r.P99Ms < r.P50Ms || r.P50Ms <= 0 || r.CPUMicrosPerAccepted <= 0 || r.MeanGroupSize < 1 || r.CPUToBase <= 0 {
			t.Errorf("figures are missing: %+v", r)
		}
		for e := range r.Events {
			audited(t, urls[i], usher.EventID(1+e))
		}
	}
	if res.Rows[0].CPUToBase != 1 {
		t.Errorf("the base is %v times itself", res.Rows[0].CPUToBase)
	}
}

// The table grows one thing at a time from its first row.
func TestGrowthRows(t *testing.T) {
	rows := bench.GrowthRows()
	base := rows[0]
	for _, r := range rows[1:] {
		changed := 0
		for _, same := range []bool{r.Seats == base.Seats, r.Events == base.Events, r.Processes == base.Processes, r.SeatsPerHold == base.SeatsPerHold} {
			if !same {
				changed++
			}
		}
		if changed != 1 || r.Grown == base.Grown {
			t.Errorf("%+v differs from the base in %d things", r, changed)
		}
	}
}
