package pgtest_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"usher/internal/pg/pgtest"
)

// envOrphan makes the test program leave a cluster behind, as a killed test does.
const envOrphan = "USHER_PGTEST_TEST_ORPHAN"

func TestMain(m *testing.M) {
	if os.Getenv(envOrphan) != "" {
		if _, err := pgtest.StartPrivate(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	pgtest.Main(m)
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func TestDatabaseIsMigratedAndPrivate(t *testing.T) {
	a, b := connect(t, pgtest.Database(t)), connect(t, pgtest.Database(t))
	for i, conn := range []*pgx.Conn{a, b} {
		for _, schema := range []string{"directory", "room", "shard"} {
			var tables int
			if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = $1`, schema).Scan(&tables); err != nil {
				t.Fatalf("count tables: %v", err)
			}
			if tables < 2 {
				t.Errorf("database %d, schema %s has %d tables, want its own besides the migrations' one", i, schema, tables)
			}
		}
	}
	if _, err := a.Exec(t.Context(), `CREATE TABLE public.mine (n integer)`); err != nil {
		t.Fatalf("create table: %v", err)
	}
	var there bool
	if err := b.QueryRow(t.Context(), `SELECT to_regclass('public.mine') IS NOT NULL`).Scan(&there); err != nil {
		t.Fatalf("look for table: %v", err)
	}
	if there {
		t.Error("a table of one test's database is seen in another's")
	}
}

func TestDatabaseIsDroppedWithItsConnections(t *testing.T) {
	var name string
	t.Run("user", func(t *testing.T) {
		u, err := url.Parse(pgtest.Database(t))
		if err != nil {
			t.Fatalf("parse URL: %v", err)
		}
		name = strings.TrimPrefix(u.Path, "/")
		conn, err := pgx.Connect(t.Context(), u.String())
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		// Left open on purpose: the drop must not wait for it. The socket goes with
		// the server's end.
		if err := conn.Ping(t.Context()); err != nil {
			t.Fatalf("ping: %v", err)
		}
	})
	conn := connect(t, pgtest.Database(t))
	var there bool
	if err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = $1)`, name).Scan(&there); err != nil {
		t.Fatalf("look for database: %v", err)
	}
	if there {
		t.Errorf("database %s outlives its test", name)
	}
}

func TestDatabasesInParallel(t *testing.T) {
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			conn := connect(t, pgtest.Database(t))
			if _, err := conn.Exec(t.Context(), `CREATE TABLE public.mine (n integer)`); err != nil {
				t.Errorf("create table: %v", err)
			}
		})
	}
}

// emptyTemp makes a temporary folder that must be empty when check is called.
func emptyTemp(t *testing.T) (check func()) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	return func() {
		t.Helper()
		left, err := os.ReadDir(os.TempDir())
		if err != nil {
			t.Fatalf("read folder: %v", err)
		}
		for _, e := range left {
			t.Errorf("%s is left behind", e.Name())
		}
	}
}

func startPrivate(t *testing.T) *pgtest.Private {
	t.Helper()
	p, err := pgtest.StartPrivate(t.Context())
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return p
}

func stopPrivate(t *testing.T, p *pgtest.Private) {
	t.Helper()
	if err := p.Stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
}

func TestPrivateClusterLeavesNothing(t *testing.T) {
	check := emptyTemp(t)
	p := startPrivate(t)
	connect(t, p.URL()) // still open when the cluster stops
	stopPrivate(t, p)
	check()
}

func TestOrphanedClusterIsSweptByTheNext(t *testing.T) {
	check := emptyTemp(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envOrphan+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("leave a cluster: %v: %s", err, out)
	}
	orphans, err := filepath.Glob(filepath.Join(os.TempDir(), "usher-pgtest-*"))
	if err != nil || len(orphans) != 1 {
		t.Fatalf("%d clusters were left behind, want one (%v)", len(orphans), err)
	}
	// Young folders are left alone: their process may be about to lock them.
	stopPrivate(t, startPrivate(t))
	if _, err := os.Stat(orphans[0]); err != nil {
		t.Errorf("a young cluster was swept: %v", err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(orphans[0], old, old); err != nil {
		t.Fatalf("age folder: %v", err)
	}
	stopPrivate(t, startPrivate(t))
	check()
}

func TestTemplateIsMadeOnceByManyProcesses(t *testing.T) {
	check := emptyTemp(t)
	p := startPrivate(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := pgtest.MakeTemplate(t.Context(), p.URL()); err != nil {
				t.Errorf("make template: %v", err)
			}
		})
	}
	wg.Wait()
	conn := connect(t, p.URL())
	name, err := pgtest.MakeTemplate(t.Context(), p.URL())
	if err != nil {
		t.Fatalf("find template: %v", err)
	}
	// A template that a killed process had begun is thrown away.
	if _, err := conn.Exec(t.Context(), "ALTER DATABASE "+name+" RENAME TO "+name+"_building"); err != nil {
		t.Fatalf("undo template: %v", err)
	}
	if _, err := pgtest.MakeTemplate(t.Context(), p.URL()); err != nil {
		t.Errorf("make template again: %v", err)
	}
	rows, err := conn.Query(t.Context(), `SELECT datname FROM pg_catalog.pg_database WHERE datname LIKE 'usher%'`)
	if err != nil {
		t.Fatalf("list databases: %v", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("list databases: %v", err)
	}
	if !slices.Equal(names, []string{name}) {
		t.Errorf("databases are %v, want %q alone", names, name)
	}
	stopPrivate(t, p)
	check()
}
