package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"usher/internal/bench"
)

// benchIsolationCmd is the isolation scenario of docs/performance.md.
type benchIsolationCmd struct {
	benchTarget `embed:""`

	Rate     float64       `help:"Holds per second offered to the busy event." default:"2150"`
	Conflict float64       `help:"Share of those that ask for seats that are taken." default:"0.05"`
	Beside   float64       `help:"Joins, and holds, per second of the event beside it." default:"50"`
	Seconds  float64       `help:"How long to measure, alone and again beside the busy one." default:"10"`
	Seats    int           `help:"Seats of each event." default:"50000"`
	HoldTime time.Duration `help:"How long seats are held, in whole seconds. One shorter than the measurement has as many holds lapse as are placed." default:"4m"`
	JSON     bool          `help:"Print the figures as one JSON object on the last line."`
}

// Run measures and prints.
func (c *benchIsolationCmd) Run(p *process) error {
	if c.Rate <= 0 || c.Beside <= 0 || c.Seconds <= 0 || c.Seats < 100 || !wholeSeconds(c.HoldTime) || c.Conflict < 0 || c.Conflict > 0.9 {
		return errNothing
	}
	return onServer(p, c.benchTarget, c.JSON, func(ctx context.Context, t bench.Target) (bench.IsolationResult, error) {
		fmt.Fprintf(p.stderr, "an event alone for %.0f s, then beside one that %.0f holds/s are offered to\n", c.Seconds, c.Rate)
		return bench.Isolation(ctx, t, bench.IsolationConfig{
			Seconds: c.Seconds, Rate: c.Rate, ConflictShare: c.Conflict, Beside: c.Beside, Seats: c.Seats, HoldTime: c.HoldTime,
		})
	}, func(r bench.IsolationResult) error { return printIsolation(p.stdout, r) })
}

func printIsolation(w io.Writer, r bench.IsolationResult) error {
	_, err := fmt.Fprintf(w, `the busy event: %.0f holds/s offered, %.0f accepted/s, p99 %.1f ms

beside it      per second   idle p50   idle p99   beside p50   beside p99   limit ms
`, r.BusyOfferedPerSecond, r.BusyAcceptedPerSecond, r.BusyP99Ms)
	for _, row := range []struct {
		name string
		bench.IsolationKind
	}{{"joins", r.Joins}, {"holds", r.Holds}} {
		if err == nil {
			_, err = fmt.Fprintf(w, "%-12s %12.0f %10.1f %10.1f %12.1f %12.1f %10.1f\n",
				row.name, row.OfferedPerSecond, row.IdleP50Ms, row.IdleP99Ms, row.BesideP50Ms, row.BesideP99Ms, row.LimitMs)
		}
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "failures %d %s\naudit violations %d\nstolen by the host %s\n", r.Errors, r.FirstError, r.AuditViolations, r.Stolen)
	}
	return err
}
