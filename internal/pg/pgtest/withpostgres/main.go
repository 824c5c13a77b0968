// Command withpostgres runs a command with a private PostgreSQL cluster:
//
//	withpostgres go test ./...
//
// It sets USHER_TEST_DATABASE_URL for the command, forwards signals to it, stops
// the cluster afterwards and exits with the command's code (128 + the signal's
// number if a signal ended it). When the variable is set already, that cluster is
// used and no other is started.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"usher/internal/pg/pgtest"
)

// exitUsage and exitFailed are withpostgres' own exit codes, as env(1) has them.
const (
	exitUsage  = 2
	exitFailed = 125
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: withpostgres command [argument ...]")
		return exitUsage
	}
	// From here on a signal no longer ends this process: the cluster must be
	// stopped in any case.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	env := os.Environ()
	if os.Getenv(pgtest.EnvURL) == "" {
		cluster, err := pgtest.StartPrivate(context.Background())
		if err != nil {
			fmt.Fprintln(os.Stderr, "withpostgres:", err)
			return exitFailed
		}
		defer func() {
			if err := cluster.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "withpostgres:", err)
			}
		}()
		env = append(env, pgtest.EnvURL+"="+cluster.URL())
	}
	code, err := child(args, env, signals)
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpostgres:", err)
	}
	return code
}

// child runs the command to its end and returns its exit code.
func child(args, env []string, signals <-chan os.Signal) (int, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, env
	if err := cmd.Start(); err != nil {
		return exitFailed, fmt.Errorf("start %s: %w", args[0], err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			// It fails only if the command has just ended, which is what we wait for.
			_ = cmd.Process.Signal(s)
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return exitFailed, fmt.Errorf("wait for %s: %w", args[0], err)
			}
			return exitCode(cmd.ProcessState), nil
		}
	}
}

func exitCode(state *os.ProcessState) int {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}
