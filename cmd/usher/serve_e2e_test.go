package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"usher/internal/pg/pgtest"
)

// serving is a usher serve as its own process.
type serving struct {
	cmd   *exec.Cmd
	log   *bytes.Buffer
	base  string
	ended chan struct{}
}

// startServe starts a process on a database and waits until it is ready.
func startServe(t *testing.T, database string, args ...string) *serving {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatalf("find binary: %v", err)
	}
	l, err := listen("127.0.0.1:0", "")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	addr := l.Addr().String()
	closeListener(t, l)
	s := &serving{cmd: exec.Command(own, append([]string{"serve", "--addr", addr}, args...)...), log: &bytes.Buffer{},
		base: "http://" + addr, ended: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), runUsherEnv+"=1", "USHER_DATABASE_URL="+database, "USHER_STRIPE_SECRET_KEY=sk_test_hunter2",
		"USHER_STRIPE_WEBHOOK_SECRET=whsec_hunter2")
	s.cmd.Stderr = s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
		if t.Failed() {
			t.Logf("log of %v:\n%s", args, s.log)
		}
	})
	limit := time.After(until)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if resp, err := http.Get(s.base + "/readyz"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return s
			}
		}
		select {
		case <-s.ended:
			t.Fatalf("serve %v ended:\n%s", args, s.log)
		case <-limit:
			t.Fatalf("serve %v is not ready:\n%s", args, s.log)
		case <-tick.C:
		}
	}
}

// TestServe runs a worker apart from a process for people, on one database.
func TestServe(t *testing.T) {
	database := pgtest.Database(t)
	r := &running{}
	t.Setenv("USHER_DATABASE_URL", database)
	r.usher(t, exitOK, "up to date", "migrate")
	t.Setenv("USHER_DATABASE_URL", "")
	people := startServe(t, database, "--role", "room,shop", "--stripe-url", "http://127.0.0.1:1", "--metrics-addr", "127.0.0.1:0")
	worker := startServe(t, database, "--role", "worker")

	shop := caller{t: t, base: people.base}
	if g := shop.must(200, "GET", "/v1/events", nil); string(bytes.TrimSpace(g.raw)) != `{"events":[]}` {
		t.Errorf("a new shop sells %s", g.raw)
	}
	shop.must(404, "GET", "/metrics", nil)
	shop.must(401, "GET", "/v1/admin/events", nil, "Authorization", "Bearer usk_x")
	back := caller{t: t, base: worker.base}
	back.must(404, "GET", "/v1/events", nil)
	if m := back.must(200, "GET", "/metrics", nil); !bytes.Contains(m.raw, []byte("usher_")) {
		t.Errorf("the worker's metrics are %s", m.raw)
	}
	for _, s := range []*serving{people, worker} {
		if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatalf("signal: %v", err)
		}
		<-s.ended
		if code := s.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("a polite end exits with %d", code)
		}
	}
	if log := people.log.String(); !strings.Contains(log, "payment provider does not answer") || strings.Contains(log, "hunter2") {
		t.Errorf("the log lacks the provider, or has a secret:\n%s", log)
	}
	http.DefaultClient.CloseIdleConnections()
}
