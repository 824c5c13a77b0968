package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"usher"
	"usher/internal/pg/embedded"
)

// wantUnavailable checks that err is one for people, with the given words.
func wantUnavailable(t *testing.T, err error, words ...string) {
	t.Helper()
	var e *usher.Error
	if !errors.As(err, &e) || e.Code != usher.CodeUnavailable {
		t.Fatalf("got %v, want a CodeUnavailable", err)
	}
	for _, w := range words {
		if !strings.Contains(e.Message, w) {
			t.Errorf("message %q lacks %q", e.Message, w)
		}
	}
}

func TestSecondStartContinues(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	c := start(t, testConfig(dir))
	keep(t, c.URL("postgres"), "first")
	pid := c.Pid()
	stop(t, c)
	if alive(pid) {
		t.Errorf("server %d outlives Stop", pid)
	}
	if got := kept(t, start(t, testConfig(dir))); got != "first" {
		t.Errorf("after a restart the value is %q, want %q", got, "first")
	}
}

func TestServerIsSetUpForTheDemo(t *testing.T) {
	// None of these may reach the server or change where clients connect.
	t.Setenv("PGPORT", "1")
	t.Setenv("PGHOST", "nowhere.invalid")
	t.Setenv("PGDATA", "/nonexistent")
	t.Setenv("LC_ALL", "xx_XX")
	dir := tempDir(t)
	c := start(t, embedded.Config{DataDir: dir, Durable: true})
	for name, want := range map[string]string{
		"listen_addresses": "", "max_connections": "100", "fsync": "on", "full_page_writes": "on",
		"synchronous_commit": "on", "wal_level": "replica", "shared_buffers": "256MB", "max_wal_size": "2GB",
		"data_checksums": "on", "server_encoding": "UTF8", "lc_collate": "C", "TimeZone": "UTC", "jit": "off",
	} {
		if name == "lc_collate" {
			if got := query(t, c.URL("postgres"), `SELECT datcollate FROM pg_catalog.pg_database WHERE datname = 'template1'`); got != want {
				t.Errorf("collation is %q, want %q", got, want)
			}
			continue
		}
		if got := show(t, c, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, private := range []string{c.SocketDir(), filepath.Join(dir, "cluster")} {
		fi, err := os.Stat(private)
		if err != nil {
			t.Fatalf("look at folder: %v", err)
		}
		if fi.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v, want 0700", private, fi.Mode().Perm())
		}
	}
	if c.Installation().Major < embedded.MinMajor {
		t.Errorf("runs %+v", c.Installation())
	}
}

func TestNotDurableAndOwnSettings(t *testing.T) {
	t.Parallel()
	cfg := testConfig(tempDir(t))
	cfg.Durable, cfg.MaxConnections = false, 33
	cfg.Settings = map[string]string{"deadlock_timeout": "50ms"}
	cfg.Env = []string{"TZ=UTC"}
	c := start(t, cfg)
	for name, want := range map[string]string{"fsync": "off", "max_connections": "33", "deadlock_timeout": "50ms"} {
		if got := show(t, c, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestAnyFolderName(t *testing.T) {
	t.Parallel()
	base := filepath.Dir(usedDir(t))
	for _, name := range []string{"with space", `a,b "c'`, "per%20cent+plus", "[x]*?雪", strings.Repeat("long", 30)} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(base, name)
			copyData(t, dir)
			cfg := testConfig(dir)
			c := start(t, cfg)
			if got := query(t, c.URL("postgres"), `SELECT current_setting('data_directory')`); got != filepath.Join(dir, "cluster") {
				t.Errorf("data is in %q, want it below %q", got, dir)
			}
			if n := len(filepath.Join(c.SocketDir(), ".s.PGSQL.5432")); n >= 100 {
				t.Errorf("socket path has %d bytes", n)
			}
			out, err := exec.Command("psql", c.URL("postgres"), "-Atc", "SELECT 'psql too'").CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != "psql too" {
				t.Errorf("psql says %q (%v)", out, err)
			}
			socketDir := c.SocketDir()
			stop(t, c)
			if _, err := os.Stat(socketDir); err == nil && !strings.HasPrefix(socketDir, dir) {
				t.Errorf("temporary socket folder %s is left behind", socketDir)
			}
			if got := show(t, start(t, cfg), "port"); got != "5432" {
				t.Errorf("second start: port %q", got)
			}
		})
	}
}

func TestInUse(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	c := start(t, testConfig(dir))
	_, err := embedded.Start(t.Context(), testConfig(dir))
	wantUnavailable(t, err, "already in use", fmt.Sprintf("pid %d", os.Getpid()), dir)
	wantUnavailable(t, embedded.Destroy(t.Context(), dir), "already in use")
	if got := show(t, c, "fsync"); got != "on" {
		t.Errorf("the first user's server is disturbed: fsync %q", got)
	}
}

func TestStopTwiceAndInHaste(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	c := start(t, testConfig(dir))
	keep(t, c.URL("postgres"), "in haste")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Stop(ended); err != nil {
		t.Fatalf("stop with an ended context: %v", err)
	}
	if alive(c.Pid()) {
		t.Error("server outlives a hasty stop")
	}
	stop(t, c)
	if got := kept(t, start(t, testConfig(dir))); got != "in haste" {
		t.Errorf("after a hasty stop the value is %q", got)
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	dir := tempDir(t)
	go func() {
		defer cancel()
		waitForFile(t.Context(), filepath.Join(dir, "initdb-*", "*"))
	}()
	if _, err := embedded.Start(ctx, testConfig(dir)); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "initdb-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	start(t, testConfig(dir))
}

// waitForFile returns when something matches the pattern.
func waitForFile(ctx context.Context, pattern string) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func TestOtherMajorVersion(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	in, err := embedded.Find(t.Context())
	if err != nil {
		t.Fatalf("find: %v", err)
	}
	cfg := testConfig(dir)
	for _, major := range []string{"14", "99"} {
		if err := os.WriteFile(filepath.Join(dir, "cluster", "PG_VERSION"), []byte(major+"\n"), 0o600); err != nil {
			t.Fatalf("write version: %v", err)
		}
		for _, chosen := range []embedded.Installation{in, {}} {
			cfg.Installation = chosen
			_, err := embedded.Start(t.Context(), cfg)
			wantUnavailable(t, err, "PostgreSQL "+major, in.Version, embedded.EnvBin)
		}
	}
}

func TestUnusableFolders(t *testing.T) {
	base := filepath.Dir(tempDir(t))
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatalf("write file: %v", err)
	}
	foreign := filepath.Join(base, "foreign")
	if err := os.MkdirAll(filepath.Join(foreign, "cluster"), 0o755); err != nil {
		t.Fatalf("make folder: %v", err)
	}
	for _, tt := range []struct{ name, dir, words string }{
		{"a file", file, "cannot be made"},
		{"below a file", filepath.Join(file, "data"), "cannot be made"},
		{"a cluster folder of something else", foreign, "holds no PostgreSQL data"},
		{"none", "", "no data folder"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := embedded.Start(t.Context(), testConfig(tt.dir))
			wantUnavailable(t, err, tt.words)
		})
	}
}

func TestServerThatRefusesToStart(t *testing.T) {
	t.Parallel()
	cfg := testConfig(tempDir(t))
	cfg.Durable = false
	cfg.Settings = map[string]string{"shared_buffers": "much"}
	began := time.Now()
	_, err := embedded.Start(t.Context(), cfg)
	wantUnavailable(t, err, "did not start", "shared_buffers", "server.log")
	if took := time.Since(began); took > deadline/2 {
		t.Errorf("took %v to say so", took)
	}
	cfg.Settings = nil
	start(t, cfg)
}

func TestServerThatRefusesItsClients(t *testing.T) {
	cfg := testConfig(usedDir(t))
	t.Setenv("PGOPTIONS", "-c fsync=off") // read by the client library
	began := time.Now()
	_, err := embedded.Start(t.Context(), cfg)
	wantUnavailable(t, err, "did not start", "fsync")
	if took := time.Since(began); took > deadline/2 {
		t.Errorf("took %v to say so", took)
	}
}

func TestLogBeginsAnew(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	cfg := testConfig(dir)
	if err := os.Truncate(filepath.Join(dir, "server.log"), embedded.MaxLog+1); err != nil {
		t.Fatalf("grow log: %v", err)
	}
	start(t, cfg)
	fi, err := os.Stat(filepath.Join(dir, "server.log"))
	if err != nil {
		t.Fatalf("look at log: %v", err)
	}
	old, err := os.Stat(filepath.Join(dir, "server.log.old"))
	if err != nil {
		t.Fatalf("look at old log: %v", err)
	}
	if fi.Size() > embedded.MaxLog || old.Size() != embedded.MaxLog+1 {
		t.Errorf("log has %d bytes, old one %d", fi.Size(), old.Size())
	}
}

func TestDestroy(t *testing.T) {
	t.Parallel()
	dir := usedDir(t)
	p := startUsher(t, dir)
	p.ready()
	pid := postmasterPid(t, dir)
	p.kill()
	if err := embedded.Destroy(t.Context(), dir); err != nil {
		t.Fatalf("destroy: %v", err)
	}
	eventually(t, "the server ends with its folder", func() bool { return !alive(pid) })
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder is still there: %v", err)
	}
}
