package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"usher/internal/bench"
)

// benchGrowthCmd is the growth scenario of docs/performance.md.
type benchGrowthCmd struct {
	Seconds  float64 `help:"How long each row measures." default:"5"`
	Clients  int     `help:"Callers that wait for answers at once, over all events." default:"256"`
	Conflict float64 `help:"Share of holds that ask for seats that are taken." default:"0.2"`
	JSON     bool    `help:"Print the figures as one JSON object on the last line."`
}

// Run measures row by row on a private cluster and prints.
func (c *benchGrowthCmd) Run(p *process) error {
	// Each caller keeps one hold and asks for another: the smallest hall has 1,000 seats.
	if c.Seconds <= 0 || c.Clients < 64 || c.Clients > 400 || c.Conflict < 0 || c.Conflict > 0.9 {
		return errNothing
	}
	dir, remove, err := benchFolder()
	if err != nil {
		return err
	}
	defer remove()
	cluster, err := startBenchCluster(p, filepath.Join(dir, "store"))
	if err != nil {
		return err
	}
	defer cluster.stop(p.ctx)
	cfg := bench.GrowthConfig{Seconds: c.Seconds, Clients: c.Clients, ConflictShare: c.Conflict, Rows: bench.GrowthRows()}
	// The table is the answer for people and the progress of a JSON run.
	table := p.stdout
	if c.JSON {
		table = p.stderr
	}
	row := func(r bench.GrowthRow) {
		fmt.Fprintf(table, "%-13s %9d %7d %10d %7d %11.0f %10.1f %9.1f %9.1f %10.0f %8.2f %7.0f %8.1f\n", r.Grown, r.Seats, r.Events, r.Processes,
			r.SeatsPerHold, r.AcceptedPerSecond, r.ConflictShare*100, r.P50Ms, r.P99Ms, r.CPUMicrosPerAccepted, r.CPUToBase, r.MeanGroupSize, r.Stolen.Share*100)
	}
	fmt.Fprintf(table, "%-13s %9s %7s %10s %7s %11s %10s %9s %9s %10s %8s %7s %8s\n", "grown", "seats", "events", "processes", "a hold",
		"accepted/s", "conflicts%", "p50 ms", "p99 ms", "CPU us", "x base", "group", "stolen%")
	res, err := bench.Growth(p.ctx, cfg, cluster.database, row)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(res)
	}
	return nil
}
