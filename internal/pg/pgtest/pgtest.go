// Package pgtest gives every test a fresh, migrated PostgreSQL database.
//
// A test process starts one private cluster when the first test asks for a
// database and stops it at the end; `withpostgres` gives many test processes a
// common one through USHER_TEST_DATABASE_URL. A template is migrated once per
// cluster and set of migrations, and each test gets a clone of it. A machine
// without PostgreSQL fails the tests: nothing is ever skipped.
package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"usher/internal/pg"
	"usher/internal/pg/embedded"
)

// EnvURL names the environment variable that holds a superuser's URL of the
// cluster to use instead of a private one.
const EnvURL = "USHER_TEST_DATABASE_URL"

const (
	// startTimeout bounds the start of a cluster and the migration of a template.
	startTimeout = 2 * time.Minute
	// cloneTimeout bounds making or dropping one database.
	cloneTimeout = time.Minute
)

// shared is the cluster and template that the tests of this process use.
var shared struct {
	once     sync.Once
	err      error
	admin    string // URL of the cluster's "postgres" database
	template string
	cluster  *Private // nil when the cluster was given
}

// Main runs the tests, stops the private cluster if one was started, checks
// that no goroutine is left behind, and exits. Call it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			code = max(code, 1)
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest: goroutines outlive the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Database returns the URL of a fresh database that has all three schemas. It is
// dropped when the test ends, whoever is still connected.
func Database(t testing.TB) string {
	t.Helper()
	shared.once.Do(prepare)
	if shared.err != nil {
		t.Fatalf("pgtest: no database: %v", shared.err)
	}
	name := "test_" + randomName()
	ctx, cancel := context.WithTimeout(context.Background(), cloneTimeout)
	defer cancel()
	if err := exec(ctx, shared.admin, "CREATE DATABASE "+name+" TEMPLATE "+shared.template); err != nil {
		t.Fatalf("pgtest: clone database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cloneTimeout)
		defer cancel()
		if err := exec(ctx, shared.admin, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: drop database: %v", err)
		}
	})
	return databaseURL(shared.admin, name)
}

// prepare runs once per process.
func prepare() {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if shared.admin = os.Getenv(EnvURL); shared.admin == "" {
		shared.cluster, shared.err = StartPrivate(ctx)
		if shared.err != nil {
			return
		}
		shared.admin = shared.cluster.URL()
	}
	shared.template, shared.err = makeTemplate(ctx, shared.admin)
}

// templateLock is the advisory lock under which one process makes the template
// while the others wait.
const templateLock = 0x7573686572 // "usher"

const (
	sqlLockTemplate   = `SELECT pg_advisory_lock($1)`
	sqlTemplateExists = `SELECT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = $1)`
)

// makeTemplate returns the name of the migrated template, making it if this is
// the first process that needs it. A template has its name only when complete:
// dying before the rename leaves a database that the next process drops.
func makeTemplate(ctx context.Context, admin string) (string, error) {
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return "", fmt.Errorf("connect to cluster: %w", err)
	}
	// Closing the connection also gives the lock free.
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, sqlLockTemplate, templateLock); err != nil {
		return "", fmt.Errorf("lock template: %w", err)
	}
	name := "usher_template_" + pg.MigrationsHash()
	var exists bool
	if err := conn.QueryRow(ctx, sqlTemplateExists, name).Scan(&exists); err != nil {
		return "", fmt.Errorf("look for template: %w", err)
	}
	if exists {
		return name, nil
	}
	building := name + "_building"
	if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+building+" WITH (FORCE)"); err != nil {
		return "", fmt.Errorf("drop unfinished template: %w", err)
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+building); err != nil {
		return "", fmt.Errorf("create template: %w", err)
	}
	if err := pg.Migrate(ctx, databaseURL(admin, building)); err != nil {
		return "", fmt.Errorf("migrate template: %w", err)
	}
	// A template that somebody is connected to cannot be cloned.
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+building+" ALLOW_CONNECTIONS false"); err != nil {
		return "", fmt.Errorf("close template: %w", err)
	}
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+building+" RENAME TO "+name); err != nil {
		return "", fmt.Errorf("name template: %w", err)
	}
	return name, nil
}

// exec runs one statement that must stand outside a transaction.
func exec(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to cluster: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql)
	return err
}

// databaseURL is the admin URL with another database.
func databaseURL(admin, database string) string {
	u, err := url.Parse(admin)
	if err != nil {
		panic("pgtest: " + EnvURL + " is no URL")
	}
	u.Path = "/" + database
	return u.String()
}

func randomName() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Private is a cluster for tests: fsync off, in a temporary folder, gone after Stop.
type Private struct {
	cluster *embedded.Cluster
	dir     string
}

const privatePrefix = "usher-pgtest-"

// StartPrivate starts a cluster for tests. It first removes clusters that killed
// test processes left behind.
func StartPrivate(ctx context.Context) (*Private, error) {
	sweep(ctx)
	dir, err := os.MkdirTemp("", privatePrefix)
	if err != nil {
		return nil, fmt.Errorf("make cluster folder: %w", err)
	}
	c, err := embedded.Start(ctx, embedded.Config{
		DataDir:        dir,
		MaxConnections: 400,
		Settings:       map[string]string{"shared_buffers": "128MB", "max_locks_per_transaction": "256"},
	})
	if err != nil {
		// The reason of the failed start is what matters.
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("start test cluster: %w", err)
	}
	return &Private{cluster: c, dir: dir}, nil
}

// sweep destroys test clusters that no process uses any more. Errors are other
// processes' live clusters, mostly; none of them bars a new one.
func sweep(ctx context.Context) {
	left, err := filepath.Glob(filepath.Join(os.TempDir(), privatePrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range left {
		// A folder this young may be about to be locked by the process that made it.
		if fi, err := os.Stat(dir); err == nil && time.Since(fi.ModTime()) > startTimeout {
			_ = embedded.Destroy(ctx, dir)
		}
	}
}

// URL is a superuser's URL of the cluster's "postgres" database.
func (p *Private) URL() string { return p.cluster.URL("postgres") }

// Stop ends the cluster and removes its data.
func (p *Private) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), cloneTimeout)
	defer cancel()
	if err := p.cluster.Stop(ctx); err != nil {
		return fmt.Errorf("stop test cluster: %w", err)
	}
	if err := os.RemoveAll(p.dir); err != nil {
		return fmt.Errorf("remove test cluster: %w", err)
	}
	return nil
}
