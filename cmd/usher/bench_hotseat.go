package main

import (
	"context"
	"fmt"
	"io"

	"usher/internal/bench"
)

// benchHotseatCmd is the hotseat scenario of docs/performance.md.
type benchHotseatCmd struct {
	benchTarget `embed:""`

	Clients int  `help:"People who want the same seat." default:"5000"`
	JSON    bool `help:"Print the figures as one JSON object on the last line."`
}

// Run measures and prints.
func (c *benchHotseatCmd) Run(p *process) error {
	if c.Clients < 6 || c.Clients > 100_000 {
		return errNothing
	}
	return onServer(p, c.benchTarget, c.JSON, func(ctx context.Context, t bench.Target) (bench.HotseatResult, error) {
		fmt.Fprintf(p.stderr, "%d people for one seat\n", c.Clients)
		return bench.Hotseat(ctx, t, c.Clients)
	}, func(r bench.HotseatResult) error { return printHotseat(p.stdout, r) })
}

func printHotseat(w io.Writer, r bench.HotseatResult) error {
	_, err := fmt.Fprintf(w, `%d clients on %d connections

                                winners    p50 ms    p99 ms   5xx
one seat, within a second    %10d  %8.1f  %8.1f  %4d
one seat, at one instant     %10d  %8.1f  %8.1f  %4d
three seats, at one instant  %10d  %8.1f  %8.1f  %4d   broken groups: %d
other failures %d %s
audit violations %d
stolen by the host %s
`, r.Clients, r.Connections, r.Winners, r.P50Ms, r.P99Ms, r.Errors5xx, r.InstantWinners, r.InstantP50Ms, r.InstantP99Ms, r.InstantErrors5xx,
		r.GroupWinners, r.GroupP50Ms, r.GroupP99Ms, r.GroupErrors5xx, r.GroupBroken, r.Failed, r.FirstError, r.AuditViolations, r.Stolen)
	return err
}
