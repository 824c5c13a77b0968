package pgtest_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"usher/internal/pg/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

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

func TestPrivateClusterLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p, err := pgtest.StartPrivate(t.Context())
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	connect(t, p.URL())
	if err := p.Stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil {
		t.Fatalf("read folder: %v", err)
	}
	for _, e := range left {
		t.Errorf("%s is left behind", e.Name())
	}
}
