package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"usher/internal/pg/pgtest"
)

// envAct makes the test program act as withpostgres.
const envAct = "USHER_WITHPOSTGRES_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(envAct) != "" {
		os.Exit(run(os.Args[1:]))
	}
	pgtest.Main(m)
}

// withpostgres prepares a run in a temporary folder of its own.
func withpostgres(t *testing.T, url string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), envAct+"=1", "TMPDIR="+tempDir(t), pgtest.EnvURL+"="+url)
	return cmd
}

// tempDir must be empty again at the end of the test.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "uw-")
	if err != nil {
		t.Fatalf("make folder: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Errorf("a cluster is left behind: %v", err)
			os.RemoveAll(dir)
		}
	})
	return dir
}

func exitOf(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if err == nil {
		return 0
	}
	if !errors.As(err, &exit) {
		t.Fatalf("run: %v", err)
	}
	return exit.ExitCode()
}

func TestExitCodeAndAddress(t *testing.T) {
	const query = `psql -Atc "SELECT current_setting('fsync') || current_database()" "$USHER_TEST_DATABASE_URL" && exit 7`
	out, err := withpostgres(t, "", "sh", "-c", query).Output()
	if code := exitOf(t, err); code != 7 || string(out) != "offpostgres\n" {
		t.Errorf("exit code %d, output %q", code, out)
	}
}

func TestGivenClusterIsUsed(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		code int
		out  string
	}{
		{"the address is handed on", []string{"sh", "-c", `echo "$USHER_TEST_DATABASE_URL"`}, 0, "postgres://given\n"},
		{"a command that a signal ends", []string{"sh", "-c", "kill -KILL $$"}, 128 + 9, ""},
		{"no such command", []string{"/nonexistent/command"}, exitFailed, ""},
		{"no command", nil, exitUsage, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := withpostgres(t, "postgres://given", tt.args...).Output()
			if code := exitOf(t, err); code != tt.code || string(out) != tt.out {
				t.Errorf("exit code %d, output %q, want %d, %q", code, out, tt.code, tt.out)
			}
		})
	}
}

func TestNoPostgres(t *testing.T) {
	cmd := withpostgres(t, "", "true")
	cmd.Env = append(cmd.Env, "USHER_POSTGRES_BIN=/nonexistent")
	out, err := cmd.CombinedOutput()
	if code := exitOf(t, err); code != exitFailed || !strings.Contains(string(out), "USHER_POSTGRES_BIN") {
		t.Errorf("exit code %d, output %q", code, out)
	}
}

func TestSignalsReachTheCommandAndTheClusterStops(t *testing.T) {
	// A shell runs its trap between two commands: one that waits in `read` would
	// miss a signal that came just before.
	cmd := withpostgres(t, "", "sh", "-c", `trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done`)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("make pipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("command said %q (%v)", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("signal: %v", err)
	}
	if code := exitOf(t, cmd.Wait()); code != 9 {
		t.Errorf("exit code %d, want the command's 9", code)
	}
}
