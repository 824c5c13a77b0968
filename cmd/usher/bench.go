package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"usher/internal/bench"
	"usher/internal/pg"
	"usher/internal/pg/embedded"
)

// benchCmd measures usher beside what this machine can do at best.
type benchCmd struct {
	Holds     benchHoldsCmd     `cmd:"" help:"Holds: the ledger beside a transaction per hold, and over HTTP."`
	Hotseat   benchHotseatCmd   `cmd:"" help:"Everybody wants the same seat, spread over a second and at one instant; then the same three seats."`
	Mixed     benchMixedCmd     `cmd:"" help:"All traffic of a sale at once, at a scale of the design case."`
	Isolation benchIsolationCmd `cmd:"" help:"What an event takes while another one of the same shard is sold at its peak."`
	Growth    benchGrowthCmd    `cmd:"" help:"What a hold costs as seats, events, processes and seats per hold grow."`
}

// benchTarget says which server a scenario over HTTP measures.
type benchTarget struct {
	URL        string `help:"Measure this server instead of a private one; its limits per address must be off." placeholder:"URL"`
	AdminToken secret `help:"Operator's key of that server." env:"USHER_ADMIN_TOKEN" placeholder:"KEY"`
}

// server returns what to measure: the given server, or a demo of this binary in
// dir, which stop ends.
func (t benchTarget) server(p *process, dir string) (stop func(), target bench.Target, err error) {
	if t.URL != "" {
		return func() {}, bench.Target{URL: t.URL, AdminToken: string(t.AdminToken)}, nil
	}
	return privateDemo(p, dir)
}

// errNothing is the answer to flags that measure nothing.
const errNothing = usageError("nothing can be measured like that")

// wholeSeconds reports a time that rules can have: they count in seconds.
func wholeSeconds(d time.Duration) bool { return d >= time.Second && d%time.Second == 0 }

// benchFolder makes a folder for what a measurement starts; remove takes it away.
func benchFolder() (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp("", "usher-bench-"); err != nil {
		return "", nil, fmt.Errorf("make a folder: %w", err)
	}
	remove = func() { _ = os.RemoveAll(dir) }
	// PostgreSQL runs as another user when usher is root and has to get through.
	if err := os.Chmod(dir, 0o711); err != nil {
		remove()
		return "", nil, fmt.Errorf("open the folder: %w", err)
	}
	return dir, remove, nil
}

// onServer runs a scenario over HTTP and prints what it reports.
func onServer[R any](p *process, t benchTarget, asJSON bool, measure func(context.Context, bench.Target) (R, error), table func(R) error) error {
	dir, remove, err := benchFolder()
	if err != nil {
		return err
	}
	defer remove()
	stop, target, err := t.server(p, filepath.Join(dir, "demo"))
	if err != nil {
		return err
	}
	defer stop()
	res, err := measure(p.ctx, target)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(p.stdout).Encode(res)
	}
	return table(res)
}

// benchCluster is a private cluster, with fsync on, for scenarios at the store level.
type benchCluster struct {
	cluster *embedded.Cluster
}

func startBenchCluster(p *process, dir string) (*benchCluster, error) {
	cluster, err := embedded.Start(p.ctx, embedded.Config{DataDir: dir, Durable: true, Log: p.log})
	if err != nil {
		return nil, err
	}
	return &benchCluster{cluster}, nil
}

func (c *benchCluster) stop(ctx context.Context) { _ = c.cluster.Stop(context.WithoutCancel(ctx)) }

// database makes a migrated database and returns its URL.
func (c *benchCluster) database(ctx context.Context, name string) (string, error) {
	if err := createDatabase(ctx, c.cluster.URL("postgres"), name); err != nil {
		return "", err
	}
	return c.cluster.URL(name), pg.Migrate(ctx, c.cluster.URL(name))
}

const (
	demoReadyWithin = time.Minute
	demoStopWithin  = 30 * time.Second
)

// privateDemo starts this binary's demo in a folder of its own and returns how to
// reach and stop it. A demo has no limits per address, and its limits per account
// are met by having enough accounts.
func privateDemo(p *process, dir string) (stop func(), t bench.Target, err error) {
	own, err := os.Executable()
	if err != nil {
		return nil, t, fmt.Errorf("find own binary: %w", err)
	}
	cmd := exec.Command(own, "demo", "--json", "--addr", "127.0.0.1:0", "--data-dir", dir, "--log-level", "error")
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
