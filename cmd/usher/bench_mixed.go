package main

import (
	"context"
	"fmt"
	"io"

	"usher"
	"usher/internal/bench"
)

// benchMixedCmd is the mixed scenario of docs/performance.md.
type benchMixedCmd struct {
	benchTarget `embed:""`

	Scale        float64 `help:"Share of the design case to offer, above 0 to 1." default:"0.05"`
	Seconds      float64 `help:"How long to measure." default:"10"`
	Seats        int     `help:"Seats of the event." default:"50000"`
	SeatsPerHold int     `help:"Seats of each hold." default:"2"`
	Conflict     float64 `help:"Share of holds that ask for seats that are taken." default:"0.2"`
	JSON         bool    `help:"Print the figures as one JSON object on the last line."`
}

// Run measures and prints.
func (c *benchMixedCmd) Run(p *process) error {
	if c.Scale <= 0 || c.Scale > 1 || c.Seconds <= 0 || c.SeatsPerHold < 1 || c.SeatsPerHold > usher.PlacesMax ||
		c.Seats < 100*c.SeatsPerHold || c.Conflict < 0 || c.Conflict > 0.9 {
		return errNothing
	}
	return onServer(p, c.benchTarget, c.JSON, func(ctx context.Context, t bench.Target) (bench.MixedResult, error) {
		fmt.Fprintf(p.stderr, "everything at once, at %g of the design case, for %.0f s\n", c.Scale, c.Seconds)
		return bench.Mixed(ctx, t, bench.MixedConfig{
			Scale: c.Scale, Seconds: c.Seconds, Seats: c.Seats, SeatsPerHold: c.SeatsPerHold, ConflictShare: c.Conflict,
		})
	}, func(r bench.MixedResult) error { return printMixed(p.stdout, r) })
}

func printMixed(w io.Writer, r bench.MixedResult) error {
	_, err := fmt.Fprintf(w, `%g of the design case for %.0f s: holds of %d seats on %d, %d buyers inside

             design/s  offered/s  reached/s   refused    p50 ms    p99 ms   limit   errors
`, r.Scale, r.Seconds, r.SeatsPerHold, r.Seats, r.Buyers)
	for _, k := range r.Traffic {
		if err == nil {
			_, err = fmt.Fprintf(w, "%-11s %9.0f %10.1f %10.1f %7.1f %%  %8.1f  %8.1f  %6.0f %8d  %s\n", k.Kind, k.DesignPerSecond, k.OfferedPerSecond,
				k.ReachedPerSecond, k.RefusedShare*100, k.P50Ms, k.P99Ms, k.P99LimitMs, k.Errors, k.FirstError)
		}
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "audit violations %d\nstolen by the host %s\n", r.AuditViolations, r.Stolen)
	}
	return err
}
