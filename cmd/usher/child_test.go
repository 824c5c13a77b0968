package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"usher"
	"usher/internal/pg"
)

// runUsherEnv makes the test binary be usher, so that tests can start, kill and
// restart the real thing.
const runUsherEnv = "GO_TEST_RUN_USHER"

// simulatorChild is a payment simulator as the demo runs it.
func simulatorChild(t *testing.T, dir string) *child {
	t.Helper()
	return &child{
		name: "payment simulator", log: slog.New(slog.DiscardHandler),
		args: []string{"paysim", "--addr", "127.0.0.1:0", "--data-dir", dir, "--with-parent"},
		env:  []string{runUsherEnv + "=1"},
	}
}

func TestChildRunsAndEnds(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		// The second round continues on the data of the first.
		ctx, cancel := context.WithCancel(t.Context())
		up, ended := make(chan string, 1), make(chan error, 1)
		go func() { ended <- simulatorChild(t, dir).run(ctx, up) }()
		url := <-up
		resp, err := http.Get(url + "/healthz")
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("simulator does not answer: %v", err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if _, err := http.Get(url + "/healthz"); err == nil {
			t.Error("the simulator outlives its end")
		}
	}
}

func TestChildThatCannotStart(t *testing.T) {
	c := &child{name: "payment simulator", log: slog.New(slog.DiscardHandler), binary: "/nonexistent"}
	if err := c.runOnce(t.Context(), func(string) {}); err == nil || !strings.Contains(err.Error(), "start payment simulator") {
		t.Errorf("error %v", err)
	}
	c = simulatorChild(t, t.TempDir())
	c.args = append(c.args, "--addr", "256.0.0.1:0")
	if err := c.runOnce(t.Context(), func(string) {}); err == nil || !strings.Contains(err.Error(), "256.0.0.1") {
		t.Errorf("the reason is lost: %v", err)
	}
}

// A simulator whose parent is gone ends by itself: nothing but the pipe tells it.
func TestChildEndsWithItsParent(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatalf("find binary: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), own, "paysim", "--addr", "127.0.0.1:0", "--data-dir", t.TempDir(), "--with-parent")
	cmd.Env = append(os.Environ(), runUsherEnv+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("pipe: %v", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("pipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	var r ready
	if err := json.NewDecoder(stdout).Decode(&r); err != nil || r.URL == "" {
		t.Fatalf("ready line: %v", err)
	}
	if err := stdin.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if _, err := io.Copy(io.Discard, stdout); err != nil {
		t.Errorf("read: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the simulator ends with %v", err)
	}
}

func TestLastLine(t *testing.T) {
	var l lastLine
	for _, part := range []string{"one\ntw", "o\n", "thr", "ee"} {
		if _, err := l.Write([]byte(part)); err != nil {
			t.Fatalf("write: %v", err)
		}
	}
	if l.String() != "three" {
		t.Errorf("last line %q", l.String())
	}
	if _, err := l.Write([]byte("\n")); err != nil || l.String() != "three" {
		t.Errorf("last line after its end %q, %v", l.String(), err)
	}
}

func TestExitCodes(t *testing.T) {
	for err, want := range map[error]int{
		usher.Errorf(usher.CodeUnavailable, "x"): exitMissing,
		usher.Errorf(usher.CodeNotFound, "x"):    exitRefused,
		usagef("x"):                              exitUsage,
		io.EOF:                                   exitFailed,
		context.DeadlineExceeded:                 exitFailed,
		pg.Unavailable(context.Canceled):         exitFailed,
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v exits with %d, want %d", err, got, want)
		}
	}
}

func TestWholeSeconds(t *testing.T) {
	for d, want := range map[time.Duration]bool{0: false, -time.Second: false, 500 * time.Millisecond: false, 2500 * time.Millisecond: false, time.Second: true, 4 * time.Minute: true} {
		if wholeSeconds(d) != want {
			t.Errorf("%s: %v", d, !want)
		}
	}
}
