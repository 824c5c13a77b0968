package embedded_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"usher/internal/pg/embedded"
)

// envData makes the test program act as an usher that runs a cluster in the
// named folder, so that a test can kill it for real.
const envData = "USHER_EMBEDDED_TEST_DATA"

// deadline bounds every wait in these tests.
const deadline = time.Minute

func TestMain(m *testing.M) {
	if dir := os.Getenv(envData); dir != "" {
		os.Exit(actAsUsher(dir))
	}
	code := m.Run()
	if err := os.RemoveAll(template.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines outlive the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// actAsUsher runs a cluster until its standard input ends.
func actAsUsher(dir string) int {
	c, err := embedded.Start(context.Background(), testConfig(dir))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	// Only that it ended matters.
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := c.Stop(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// testConfig is durable: what these tests kill must come back.
func testConfig(dir string) embedded.Config {
	return embedded.Config{DataDir: dir, Durable: true, MaxConnections: 20, Settings: map[string]string{"shared_buffers": "16MB"}}
}

// start starts a cluster that is stopped at the end of the test.
func start(t *testing.T, cfg embedded.Config) *embedded.Cluster {
	t.Helper()
	c, err := embedded.Start(t.Context(), cfg)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() { stop(t, c) })
	return c
}

func stop(t *testing.T, c *embedded.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		t.Fatalf("stop: %v", err)
	}
}

// tempDir is short enough for the socket, unlike t.TempDir with a long test name.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ue-")
	if err != nil {
		t.Fatalf("make folder: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove folder: %v", err)
		}
	})
	return filepath.Join(dir, "data")
}

// template is a data folder that was started and stopped once, holding the value
// "template". Copying it is cheaper than another initdb.
var template struct {
	once sync.Once
	dir  string
	err  error
}

func makeTemplate() {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if template.dir, template.err = os.MkdirTemp("", "ue-template-"); template.err != nil {
		return
	}
	c, err := embedded.Start(ctx, testConfig(template.dir))
	if err != nil {
		template.err = err
		return
	}
	template.err = errors.Join(keepValue(ctx, c.URL("postgres"), "template"), c.Stop(ctx))
}

// usedDir is a data folder that an usher has used before.
func usedDir(t *testing.T) string {
	t.Helper()
	dir := tempDir(t)
	copyData(t, dir)
	return dir
}

// copyData copies the template to dir.
func copyData(t *testing.T, dir string) {
	t.Helper()
	template.once.Do(makeTemplate)
	if template.err != nil {
		t.Fatalf("make template: %v", template.err)
	}
	if out, err := exec.Command("cp", "-a", template.dir, dir).CombinedOutput(); err != nil {
		t.Fatalf("copy template: %v: %s", err, out)
	}
}

// query returns one text value.
func query(t *testing.T, url, sql string, args ...any) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer conn.Close(ctx)
	var value string
	if err := conn.QueryRow(ctx, sql, args...).Scan(&value); err != nil {
		t.Fatalf("query %s: %v", sql, err)
	}
	return value
}

func show(t *testing.T, c *embedded.Cluster, setting string) string {
	t.Helper()
	return query(t, c.URL("postgres"), `SELECT current_setting($1)`, setting)
}

// keepValue stores a value that must survive; kept reads the newest.
func keepValue(ctx context.Context, url, value string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS kept (id serial, value text)`); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `INSERT INTO kept (value) VALUES ($1)`, value)
	return err
}

func keep(t *testing.T, url, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := keepValue(ctx, url, value); err != nil {
		t.Fatalf("keep value: %v", err)
	}
}

func kept(t *testing.T, c *embedded.Cluster) string {
	t.Helper()
	return query(t, c.URL("postgres"), `SELECT value FROM kept ORDER BY id DESC LIMIT 1`)
}

// usherProcess is this test program acting as usher.
type usherProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

func startUsher(t *testing.T, dir string, env ...string) *usherProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), envData+"="+dir), env...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("make pipe: %v", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("make pipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start usher: %v", err)
	}
	p := &usherProcess{t: t, cmd: cmd, stdin: stdin, stdout: bufio.NewReader(stdout)}
	t.Cleanup(p.kill)
	return p
}

// ready waits until the cluster runs.
func (p *usherProcess) ready() {
	p.t.Helper()
	line, err := p.stdout.ReadString('\n')
	if err != nil || line != "ready\n" {
		p.t.Fatalf("usher said %q (%v), want ready", line, err)
	}
}

// kill is kill -9: the process has no say in it.
func (p *usherProcess) kill() {
	if p.cmd.ProcessState != nil {
		return
	}
	// Errors mean that it is dead already.
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// postmasterPid reads the pid file of the cluster in dir.
func postmasterPid(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile(pidFile(dir))
	if err != nil {
		t.Fatalf("read pid file: %v", err)
	}
	var pid int
	if _, err := fmt.Sscan(string(b), &pid); err != nil {
		t.Fatalf("read pid file %q: %v", b, err)
	}
	return pid
}

func pidFile(dir string) string { return filepath.Join(dir, "cluster", "postmaster.pid") }

// alive tells a running process from a dead one that nobody has waited for.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// eventually waits for cond.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	end := time.After(deadline)
	for !cond() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("still not: %s", what)
		}
	}
}

// signalPid sends a signal to a process that this test knows to be its own.
func signalPid(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatalf("signal pid %d: %v", pid, err)
	}
}
