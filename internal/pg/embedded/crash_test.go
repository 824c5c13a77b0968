package embedded_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"usher/internal/pg/embedded"
)

// orphaned runs an usher on used data in dir, stores a value and kills the
// usher; the returned server is still alive.
func orphaned(t *testing.T, dir, value string) (pid int) {
	t.Helper()
	copyData(t, dir)
	p := startUsher(t, dir)
	p.ready()
	pid = postmasterPid(t, dir)
	t.Cleanup(func() {
		if alive(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	url := "postgres://usher@/postgres?port=5432&host=" + strings.ReplaceAll(socketDirOf(t, dir), " ", "%20")
	keep(t, url, value)
	p.kill()
	if !alive(pid) {
		t.Fatal("the server died with its usher")
	}
	return pid
}

func socketDirOf(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(pidFile(dir))
	if err != nil {
		t.Fatalf("read pid file: %v", err)
	}
	return strings.Split(string(b), "\n")[4]
}

func TestOrphanIsAdopted(t *testing.T) {
	t.Parallel()
	for name, suffix := range map[string]string{"plain": "", "socket elsewhere": " and space"} {
		t.Run(name, func(t *testing.T) {
			dir := tempDir(t) + suffix
			pid := orphaned(t, dir, "orphan")
			c := start(t, testConfig(dir))
			if c.Pid() != pid {
				t.Errorf("server is %d, want the orphan %d", c.Pid(), pid)
			}
			if got := kept(t, c); got != "orphan" {
				t.Errorf("value is %q", got)
			}
			stop(t, c)
			// The kernel may still be at it when the server has let go of everything.
			eventually(t, "an adopted server ends with Stop", func() bool { return !alive(pid) })
		})
	}
}

func TestOrphanWithOtherSettingsIsRestarted(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	pid := orphaned(t, dir, "orphan")
	cfg := testConfig(dir)
	cfg.MaxConnections = 21
	c := start(t, cfg)
	if c.Pid() == pid {
		t.Errorf("the orphan %d still runs", pid)
	}
	eventually(t, "the orphan ends", func() bool { return !alive(pid) })
	if got := show(t, c, "max_connections"); got != "21" {
		t.Errorf("max_connections is %q", got)
	}
	if got := kept(t, c); got != "orphan" {
		t.Errorf("value is %q", got)
	}
}

func TestSilentOrphanIsReplaced(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	pid := orphaned(t, dir, "orphan")
	// A stopped process takes connections into its backlog and never answers, and
	// of all signals heeds only the last.
	signalPid(t, pid, syscall.SIGSTOP)
	c := start(t, embedded.Hurried(testConfig(dir), 200*time.Millisecond))
	eventually(t, "the silent orphan ends", func() bool { return !alive(pid) })
	if got := kept(t, c); got != "orphan" {
		t.Errorf("value is %q", got)
	}
}

func TestOrphanThatIsShuttingDown(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	pid := orphaned(t, dir, "orphan")
	// A smart shutdown waits for this client to leave; the next start must not.
	psql := exec.Command("psql", "postgres://usher@/postgres?port=5432&host="+socketDirOf(t, dir))
	stdin, err := psql.StdinPipe()
	if err != nil {
		t.Fatalf("make pipe: %v", err)
	}
	out, err := psql.StdoutPipe()
	if err != nil {
		t.Fatalf("make pipe: %v", err)
	}
	if err := psql.Start(); err != nil {
		t.Fatalf("start psql: %v", err)
	}
	defer func() {
		stdin.Close()
		// It fails because its server went away.
		_ = psql.Wait()
	}()
	if _, err := stdin.Write([]byte("\\echo here\n")); err != nil {
		t.Fatalf("write to psql: %v", err)
	}
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatalf("read from psql: %v", err)
	}
	signalPid(t, pid, syscall.SIGTERM)
	eventually(t, "the server says that it is stopping", func() bool {
		b, err := os.ReadFile(pidFile(dir))
		return err == nil && strings.Contains(string(b), "stopping")
	})
	c := start(t, testConfig(dir))
	if c.Pid() == pid {
		t.Errorf("the stopping server %d still runs", pid)
	}
	if got := kept(t, c); got != "orphan" {
		t.Errorf("value is %q", got)
	}
}

func TestCrashedClusterRecovers(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	pid := orphaned(t, dir, "crashed")
	// Its other processes are still alive for a moment and hold its memory.
	signalPid(t, pid, syscall.SIGKILL)
	if _, err := os.Stat(pidFile(dir)); err != nil {
		t.Fatalf("the crash left no pid file: %v", err)
	}
	if got := kept(t, start(t, testConfig(dir))); got != "crashed" {
		t.Errorf("after recovery the value is %q", got)
	}
}

func TestStalePidFiles(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	c := start(t, testConfig(dir))
	good, err := os.ReadFile(pidFile(dir))
	if err != nil {
		t.Fatalf("read pid file: %v", err)
	}
	stop(t, c)
	other := otherProgram(t)
	rest := strings.SplitN(string(good), "\n", 2)[1]
	for _, tt := range []struct{ name, content string }{
		{"of a number that another program has now", strconv.Itoa(other) + "\n" + rest},
		{"of nobody", "2147483646\n" + rest},
		{"of the test itself", strconv.Itoa(os.Getpid()) + "\n" + rest},
		{"empty", ""},
		{"cut short", strconv.Itoa(other)},
		{"garbage", "\x00\x00 what\n\n\n\n/tmp\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(pidFile(dir), []byte(tt.content), 0o600); err != nil {
				t.Fatalf("write pid file: %v", err)
			}
			// The socket has such a file, too.
			lock := filepath.Join(dir, "run", ".s.PGSQL.5432.lock")
			if err := os.WriteFile(lock, []byte(strconv.Itoa(other)+"\n"), 0o600); err != nil {
				t.Fatalf("write socket lock: %v", err)
			}
			c := start(t, testConfig(dir))
			if got := kept(t, c); got != "template" {
				t.Errorf("value is %q", got)
			}
			stop(t, c)
			if !alive(other) {
				t.Error("the other program was killed")
			}
		})
	}
}

// otherProgram runs something as the server's user, so that PostgreSQL itself
// would take its number for a live server's.
func otherProgram(t *testing.T) int {
	t.Helper()
	cred, err := embedded.ServerCredential()
	if err != nil {
		t.Fatalf("find server account: %v", err)
	}
	cmd := exec.Command("cat")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("make pipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start cat: %v", err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	return cmd.Process.Pid
}

func TestKilledDuringInitdb(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	// At different depths: a folder just made, a catalogue half filled.
	for _, progress := range []string{"*", "base/1/*"} {
		p := startUsher(t, dir)
		waitForFile(t.Context(), filepath.Join(dir, "initdb-*", progress))
		p.kill()
		if _, err := os.Stat(filepath.Join(dir, "cluster")); err == nil {
			t.Fatal("an unfinished cluster has its final name")
		}
	}
	c := start(t, testConfig(dir))
	keep(t, c.URL("postgres"), "complete")
	if left, _ := filepath.Glob(filepath.Join(dir, "initdb-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestLockOfDeadUsherIsFree(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	p := startUsher(t, dir)
	p.ready()
	_, err := embedded.Start(t.Context(), testConfig(dir))
	wantUnavailable(t, err, "already in use by pid "+strconv.Itoa(p.cmd.Process.Pid))
	p.kill()
	start(t, testConfig(dir))
}

func TestUsherThatEndsInOrderStopsItsServer(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	p := startUsher(t, dir)
	p.ready()
	pid := postmasterPid(t, dir)
	if err := p.stdin.Close(); err != nil {
		t.Fatalf("end input: %v", err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("usher failed: %v", err)
	}
	if alive(pid) {
		t.Error("server outlives its usher")
	}
}
