package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"usher"
	"usher/internal/bench"
)

// benchHoldsCmd is the holds scenario of docs/performance.md.
type benchHoldsCmd struct {
	benchTarget `embed:""`

	Seconds      float64       `help:"How long each phase measures." default:"10"`
	Seats        int           `help:"Seats of each event." default:"50000"`
	SeatsPerHold int           `help:"Seats of each hold." default:"1"`
	Conflict     float64       `help:"Share of holds that ask for seats that are taken." default:"0.2"`
	Clients      int           `help:"Callers that wait for answers at once, at the store level." default:"512"`
	Events       int           `help:"Events that the callers are spread over, at the store level." default:"1"`
	Processes    int           `help:"Independent ledgers with pools of their own, at the store level: to the database they are as many processes." default:"1"`
	Rate         float64       `help:"Holds a second offered over HTTP." default:"2750"`
	HoldTime     time.Duration `help:"How long a hold lasts over HTTP, in whole seconds. A short one makes stock last: as many lapse as are placed. A longer one needs the seats." default:"2s"`
	Buyers       int           `help:"Accounts that ask over HTTP; more where so few would meet the limit per account." default:"1000"`
	Only         string        `help:"Measure one level only: store or http." enum:",store,http" default:""`
	JSON         bool          `help:"Print the figures as one JSON object on the last line."`
}

func (c *benchHoldsCmd) sane() bool {
	return c.SeatsPerHold >= 1 && c.SeatsPerHold <= usher.PlacesMax && c.Seats >= 100*c.SeatsPerHold && c.Conflict >= 0 && c.Conflict <= 0.9 &&
		c.Seconds > 0 && c.Rate > 0 && c.Buyers >= 1 && wholeSeconds(c.HoldTime) && c.Events >= 1 && c.Events <= 1000 && c.Processes >= 1 && c.Processes <= 16 &&
		c.Clients >= c.Events*c.Processes
}

// Run measures and prints.
func (c *benchHoldsCmd) Run(p *process) error {
	if !c.sane() {
		return errNothing
	}
	cfg := bench.HoldsConfig{
		Seconds: c.Seconds, Seats: c.Seats, SeatsPerHold: c.SeatsPerHold, ConflictShare: c.Conflict, Clients: c.Clients,
		Events: c.Events, Processes: c.Processes,
	}
	dir, remove, err := benchFolder()
	if err != nil {
		return err
	}
	defer remove()
	res := bench.HoldsResult{
		Scenario: "holds", Seconds: c.Seconds, Seats: c.Seats, SeatsPerHold: c.SeatsPerHold, Events: c.Events, Processes: c.Processes,
	}
	if c.Only != "http" {
		if res, err = c.store(p, filepath.Join(dir, "store"), cfg); err != nil {
			return err
		}
	}
	if c.Only != "store" {
		stop, target, err := c.server(p, filepath.Join(dir, "demo"))
		if err != nil {
			return err
		}
		defer stop()
		fmt.Fprintf(p.stderr, "over HTTP: %.0f holds a second for %.0f s\n", c.Rate, c.Seconds)
		if err := bench.HoldsHTTP(p.ctx, target, bench.HTTPConfig{HoldsConfig: cfg, Rate: c.Rate, Buyers: c.Buyers, HoldTime: c.HoldTime}, &res); err != nil {
			return fmt.Errorf("bench over HTTP: %w", err)
		}
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(res)
	}
	return printHolds(p.stdout, res)
}

// store measures on a private cluster of its own.
func (c *benchHoldsCmd) store(p *process, dir string, cfg bench.HoldsConfig) (bench.HoldsResult, error) {
	fmt.Fprintf(p.stderr, "at the store level: baselines and ledger, %.0f s each\n", c.Seconds)
	cluster, err := startBenchCluster(p, dir)
	if err != nil {
		return bench.HoldsResult{}, err
	}
	defer cluster.stop(p.ctx)
	url, err := cluster.database(p.ctx, "bench")
	if err != nil {
		return bench.HoldsResult{}, err
	}
	return bench.HoldsStore(p.ctx, url, cfg)
}

func printHolds(w io.Writer, r bench.HoldsResult) error {
	_, err := fmt.Fprintf(w, `holds of %d seats, events: %d of %d seats, processes: %d, %.0f s a phase

                         accepted/s   conflicts    p50 ms    p99 ms   p999 ms
ledger, in process       %10.0f     %5.1f %%  %8.1f  %8.1f  %8.1f   %.0f decided/s, %.0f us of CPU each, groups of %.0f
transaction per hold     %10.0f     %5.1f %%   best of 2, 4, 8, 16 connections: %d
ratio                    %10.1f x
over HTTP                %10.0f     %5.1f %%  %8.1f  %8.1f             %.0f/s offered, %d failed
stolen by the host       in process %s; over HTTP %s
`, r.SeatsPerHold, r.Events, r.Seats, r.Processes, r.Seconds, r.AcceptedPerSecond, r.ConflictShare*100, r.P50Ms, r.P99Ms, r.P999Ms, r.DecidedPerSecond,
		r.CPUMicrosPerAccepted, r.MeanGroupSize, r.NaivePerSecond, r.NaiveConflictShare*100, r.NaiveConnections, r.RatioToNaive,
		r.HTTPAcceptedPerSecond, r.HTTPConflictShare*100, r.HTTPP50Ms, r.HTTPP99Ms, r.HTTPOfferedPerSecond, r.HTTPErrors,
		r.StoreStolen, r.HTTPStolen)
	return err
}
