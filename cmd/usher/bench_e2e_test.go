package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// demoFolder is a folder that PostgreSQL gets through to when the tests run as
// root: it runs as another user.
func demoFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatalf("chmod: %v", err)
		}
	}
	return dir
}

// bench runs a scenario against the demo and reads its last line as JSON.
func (r *running) bench(t *testing.T, args ...string) map[string]any {
	t.Helper()
	return r.json(t, append([]string{"bench"}, args...)...)
}

// json runs a command against the demo with --json and reads its last line.
func (r *running) json(t *testing.T, args ...string) map[string]any {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatalf("find binary: %v", err)
	}
	args = append(args, "--json", "--url", r.URL)
	cmd := exec.CommandContext(t.Context(), own, args...)
	cmd.Env = append(os.Environ(), runUsherEnv+"=1", "USHER_ADMIN_TOKEN="+r.AdminToken)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("usher %v: %v\n%s", args, err, &stderr)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var body map[string]any
	if err := json.Unmarshal(lines[len(lines)-1], &body); err != nil {
		t.Fatalf("usher %v prints %q: %v", args, out, err)
	}
	t.Logf("%s", lines[len(lines)-1])
	return body
}

// figures checks the fields that a scenario promises.
func figures(t *testing.T, body map[string]any, want map[string]any, positive ...string) {
	t.Helper()
	for name, value := range want {
		if body[name] != value {
			t.Errorf("%s is %v, want %v", name, body[name], value)
		}
	}
	for _, name := range positive {
		if n, _ := body[name].(float64); n <= 0 {
			t.Errorf("%s is %v", name, body[name])
		}
	}
}

// Every scenario over HTTP runs against the real thing, small: the fields are
// there, what must be true at any size is, and the audit is clean. No speed is
// asserted. A rehearsal on the same server passes.
func TestBenchOverHTTP(t *testing.T) {
	r := startDemo(t, demoFolder(t))
	hot := r.bench(t, "hotseat", "--clients", "60")
	figures(t, hot, map[string]any{
		"scenario": "hotseat", "clients": 60.0, "connections": 60.0, "winners": 1.0, "instantWinners": 1.0, "groupWinners": 1.0,
		"groupBroken": 0.0, "errors5xx": 0.0, "instantErrors5xx": 0.0, "groupErrors5xx": 0.0, "failed": 0.0, "auditViolations": 0.0,
	}, "p50Ms", "p99Ms", "instantP99Ms", "groupP99Ms")

	mixed := r.bench(t, "mixed", "--scale", "0.004", "--seconds", "1", "--seats", "1000")
	figures(t, mixed, map[string]any{"scenario": "mixed", "scale": 0.004, "auditViolations": 0.0}, "buyers")
	kinds, _ := mixed["traffic"].([]any)
	if len(kinds) != 7 {
		t.Errorf("mixed reports %d kinds", len(kinds))
	}
	for _, k := range kinds {
		kind, _ := k.(map[string]any)
		want := map[string]any{"errors": 0.0}
		if kind["kind"] == "checkouts" {
			// On a machine that stalls for seconds, what was held lapses before it is paid for.
			delete(want, "errors")
		}
		figures(t, kind, want, "designPerSecond", "offeredPerSecond")
	}

	holds := r.bench(t, "holds", "--only", "http", "--rate", "40", "--seconds", "1", "--seats", "2000", "--buyers", "10")
	figures(t, holds, map[string]any{"scenario": "holds", "httpErrors": 0.0, "auditViolations": 0.0}, "httpAcceptedPerSecond", "httpP50Ms", "httpP99Ms")

	beside := r.bench(t, "isolation", "--rate", "40", "--beside", "20", "--seconds", "0.5", "--seats", "500")
	figures(t, beside, map[string]any{"scenario": "isolation", "errors": 0.0, "auditViolations": 0.0}, "busyAcceptedPerSecond", "busyP99Ms")
	for _, name := range []string{"joins", "holds"} {
		kind, _ := beside[name].(map[string]any)
		figures(t, kind, nil, "idleP50Ms", "idleP99Ms", "besideP50Ms", "besideP99Ms", "limitMs")
	}

	r.rehearse(t)
	if code := r.stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("a polite end exits with %d", code)
	}
}

// rehearse sends people to every sample event; what bench sold is not on sale any more.
func (r *running) rehearse(t *testing.T) {
	t.Helper()
	report := r.json(t, "rehearse", "--people", "40", "--arrive", "2s", "--simulator-url", r.SimulatorURL)
	figures(t, report, map[string]any{
		"pass": true, "people": 40.0, "auditViolations": 0.0, "serverErrors": 0.0, "ticketDifference": 0.0, "unknownPaymentAgeSeconds": 0.0,
		"eventId": "evt_1",
	}, "unitsSold", "soldSeated", "soldStanding", "lockWaitP99Ms", "queueWaitP99Seconds", "admissionRatePerSecond")
	for _, name := range []string{"conflictRate", "expiryRate"} {
		if _, ok := report[name].(float64); !ok {
			t.Errorf("%s is missing", name)
		}
	}
	if events, _ := report["events"].([]any); len(events) != len(r.Events) {
		t.Errorf("%d events were rehearsed, %d are on sale", len(events), len(r.Events))
	}
}

// What measures nothing is refused before anything is started.
func TestBenchRefuses(t *testing.T) {
	r := &running{}
	for _, args := range [][]string{
		{"bench", "hotseat", "--clients", "2"}, {"bench", "mixed", "--scale", "0"}, {"bench", "mixed", "--scale", "1.5"},
		{"bench", "holds", "--events", "0"}, {"bench", "holds", "--clients", "3", "--processes", "4"}, {"bench", "growth", "--clients", "5000"},
		{"bench", "isolation", "--rate", "0"},
		{"bench", "holds", "--seats-per-hold", "7"},
	} {
		r.usher(t, exitUsage, "nothing can be measured", args...)
	}
}
