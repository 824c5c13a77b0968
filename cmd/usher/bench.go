package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"usher"
	"usher/internal/bench"
	"usher/internal/pg"
	"usher/internal/pg/embedded"
)

// benchCmd measures usher beside what this machine can do at best.
type benchCmd struct {
	Holds benchHoldsCmd `cmd:"" help:"Holds: the ledger beside a transaction per hold, and over HTTP."`
}

// benchHoldsCmd is the holds scenario of docs/performance.md.
type benchHoldsCmd struct {
	Seconds      float64 `help:"How long each phase measures." default:"10"`
	Seats        int     `help:"Seats of the event." default:"50000"`
	SeatsPerHold int     `help:"Seats of each hold." default:"1"`
	Conflict     float64 `help:"Share of holds that ask for seats that are taken." default:"0.2"`
	Clients      int     `help:"Callers that wait for answers at once, at the store level." default:"512"`
	Rate         float64 `help:"Holds a second offered over HTTP." default:"2750"`
	Buyers       int     `help:"Accounts that ask over HTTP." default:"1000"`
	Only         string  `help:"Measure one level only: store or http." enum:",store,http" default:""`
	URL          string  `help:"Measure this server over HTTP instead of a private one; its limits per caller must be off." placeholder:"URL"`
	AdminToken   secret  `help:"Operator's key of that server." env:"USHER_ADMIN_TOKEN" placeholder:"KEY"`
	JSON         bool    `help:"Print the figures as one JSON object on the last line."`
}

// Run measures and prints.
func (c *benchHoldsCmd) Run(p *process) error {
	if c.SeatsPerHold < 1 || c.SeatsPerHold > usher.PlacesMax || c.Seats < 100*c.SeatsPerHold || c.Conflict < 0 || c.Conflict > 0.9 || c.Seconds <= 0 || c.Rate <= 0 || c.Buyers < 1 || c.Clients < 1 {
		return usher.Errorf(usher.CodeInvalidRequest, "nothing can be measured like that: see usher bench holds --help")
	}
	cfg := bench.HoldsConfig{Seconds: c.Seconds, Seats: c.Seats, SeatsPerHold: c.SeatsPerHold, ConflictShare: c.Conflict, Clients: c.Clients}
	dir, err := os.MkdirTemp("", "usher-bench-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// PostgreSQL runs as another user when usher is root and has to get through.
	if err := os.Chmod(dir, 0o711); err != nil {
		return fmt.Errorf("open the folder: %w", err)
	}
	res := bench.HoldsResult{Scenario: "holds", Seconds: c.Seconds, Seats: c.Seats, SeatsPerHold: c.SeatsPerHold}
	if c.Only != "http" {
		if res, err = c.store(p, filepath.Join(dir, "store"), cfg); err != nil {
			return err
		}
	}
	if c.Only != "store" {
		target := bench.Target{URL: c.URL, AdminToken: string(c.AdminToken)}
		if c.URL == "" {
			stop, private, err := privateDemo(p, filepath.Join(dir, "demo"))
			if err != nil {
				return err
			}
			defer stop()
			target = private
		}
		fmt.Fprintf(p.stderr, "over HTTP: %.0f holds a second for %.0f s\n", c.Rate, c.Seconds)
		if err := bench.HoldsHTTP(p.ctx, target, bench.HTTPConfig{HoldsConfig: cfg, Rate: c.Rate, Buyers: c.Buyers}, &res); err != nil {
			return fmt.Errorf("bench over HTTP: %w", err)
		}
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(res)
	}
	return printHolds(p.stdout, res)
}

// store measures on a private cluster of its own, with fsync on.
func (c *benchHoldsCmd) store(p *process, dir string, cfg bench.HoldsConfig) (bench.HoldsResult, error) {
	fmt.Fprintf(p.stderr, "at the store level: baselines and ledger, %.0f s each\n", c.Seconds)
	cluster, err := embedded.Start(p.ctx, embedded.Config{DataDir: dir, Durable: true, Log: p.log})
	if err != nil {
		return bench.HoldsResult{}, err
	}
	defer func() { _ = cluster.Stop(context.WithoutCancel(p.ctx)) }()
	if err := createDatabase(p.ctx, cluster.URL("postgres"), "bench"); err != nil {
		return bench.HoldsResult{}, err
	}
	if err := pg.Migrate(p.ctx, cluster.URL("bench")); err != nil {
		return bench.HoldsResult{}, err
	}
	return bench.HoldsStore(p.ctx, cluster.URL("bench"), cfg)
}

const (
	demoReadyWithin = time.Minute
	demoStopWithin  = 30 * time.Second
)

// privateDemo starts this binary's demo in a folder of its own, without limits
// per caller, and returns how to reach and stop it.
func privateDemo(p *process, dir string) (stop func(), t bench.Target, err error) {
	own, err := os.Executable()
	if err != nil {
		return nil, t, fmt.Errorf("find own binary: %w", err)
	}
	cmd := exec.Command(own, "demo", "--json", "--addr", "127.0.0.1:0", "--data-dir", dir, "--log-level", "error")
	cmd.Env = append(os.Environ(), "USHER_LIMIT_JOINS=off", "USHER_LIMIT_ADDRESS_JOINS=off", "USHER_LIMIT_HOLDS=off", "USHER_LIMIT_ADDRESS_HOLDS=off")
	cmd.Stderr = p.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, t, fmt.Errorf("make pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, t, fmt.Errorf("start a private demo: %w", err)
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(demoStopWithin, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		// How it ends says nothing about the measurement.
		_ = cmd.Wait()
	}
	ready := make(chan error, 1)
	go func() { ready <- json.NewDecoder(stdout).Decode(&t) }()
	timer := time.NewTimer(demoReadyWithin)
	defer timer.Stop()
	select {
	case err = <-ready:
	case <-timer.C:
		err = errors.New("it was not ready in time")
	case <-p.ctx.Done():
		err = p.ctx.Err()
	}
	if err != nil {
		stop()
		return nil, t, fmt.Errorf("start a private demo: %w", err)
	}
	return stop, t, nil
}

func printHolds(w io.Writer, r bench.HoldsResult) error {
	_, err := fmt.Fprintf(w, `holds of %d seats on %d seats, %.0f s a phase

                         accepted/s   conflicts    p50 ms    p99 ms   p999 ms
ledger, in process       %10.0f     %5.1f %%  %8.1f  %8.1f  %8.1f   %.0f decided/s, %.0f us of CPU each
transaction per hold     %10.0f     %5.1f %%   best of 2, 4, 8, 16 connections: %d
ratio                    %10.1f x
over HTTP                %10.0f     %5.1f %%  %8.1f  %8.1f             %.0f/s offered, %d failed
`, r.SeatsPerHold, r.Seats, r.Seconds, r.AcceptedPerSecond, r.ConflictShare*100, r.P50Ms, r.P99Ms, r.P999Ms, r.DecidedPerSecond,
		r.CPUMicrosPerAccepted, r.NaivePerSecond, r.NaiveConflictShare*100, r.NaiveConnections, r.RatioToNaive,
		r.HTTPAcceptedPerSecond, r.HTTPConflictShare*100, r.HTTPP50Ms, r.HTTPP99Ms, r.HTTPOfferedPerSecond, r.HTTPErrors)
	return err
}
