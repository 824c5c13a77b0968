package verify_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
)

// A child is this test program as a process of its own, which a test may kill.
const (
	// envChild names what the child does and makes it a child.
	envChild   = "USHER_VERIFY_CHILD"
	envURL     = "USHER_VERIFY_URL"
	envEvent   = "USHER_VERIFY_EVENT"
	envJournal = "USHER_VERIFY_JOURNAL"
	envFaults  = "USHER_FAULTS"
	// childName shows in pg_stat_activity.
	childName    = "usher-verify-child"
	childClients = 6
)

// child is the whole program of a child: it lives until it is killed or its
// parent closes its input, and returns its exit code.
func child() int {
	if err := runChild(); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func runChild() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	n, err := strconv.Atoi(os.Getenv(envEvent))
	if err != nil {
		return fmt.Errorf("read event: %w", err)
	}
	cfg := config(os.Getenv(envURL))
	cfg.ApplicationName = childName
	homes, err := pg.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer homes.Close()
	if err := fault.ArmFromEnv(os.Getenv(envFaults)); err != nil {
		return err
	}
	l := newLedger(homes)
	if os.Getenv(envChild) == "scene" {
		return playScene(ctx, l)
	}
	file, err := os.OpenFile(os.Getenv(envJournal), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	defer file.Close()
	w := &traffic{event: usher.EventID(n), seats: hotSeats, places: [2]int{1, 3}, ledgers: []*ledger.Ledger{l}, journal: newJournal(file)}
	w.run(ctx, childClients)
	return w.journal.err
}

// process is a running child.
type process struct{ cmd *exec.Cmd }

// spawn starts a child with more environment.
func (h *hall) spawn(what string, env ...string) *process {
	h.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), envChild+"="+what, envURL+"="+h.url, envEvent+"="+strconv.Itoa(int(event))), env...)
	cmd.Stderr = os.Stderr
	// The child ends with this process: its end of the pipe closes then.
	_, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		h.t.Fatalf("start child: %v", err)
	}
	return &process{cmd}
}

// kill ends the child as a power cut would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// childrenGone waits until the server has noticed that killed children are dead:
// a COMMIT that was under way is over then.
func (h *hall) childrenGone() {
	h.t.Helper()
	pgtest.Until(h.t, "the end of the killed processes' sessions", func() bool {
		return one[int](h, `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND datname = current_database()`, childName) == 0
	})
}

func journalFile(t testing.TB) string { return filepath.Join(t.TempDir(), "journal") }
