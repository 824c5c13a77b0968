package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"usher"
)

// Cluster is a running private PostgreSQL cluster.
type Cluster struct {
	cfg    Config
	server *postmaster
	lock   *os.File

	mu      sync.Mutex
	stopped bool
}

const (
	// readyTimeout bounds a start; recovery after a crash replays up to max_wal_size.
	readyTimeout = 5 * time.Minute
	// crashedTimeout is how long the processes of a dead server may still hold its memory.
	crashedTimeout = 15 * time.Second
	pingTimeout    = 5 * time.Second
)

// Start makes the data folder if needed and brings its cluster up. A server that
// an earlier usher left behind is adopted if it answers and has the same
// settings; everything else it left behind is cleaned up. The context bounds the
// start only: the cluster runs until Stop.
//
// It fails with CodeUnavailable, and a message that says what to do, when there
// is no PostgreSQL, the folder is in use by another process or cannot be
// written, the data needs another major version, or the server does not come up.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	who, err := serverAccount()
	if err != nil {
		return nil, err
	}
	if err := makeDataDir(cfg, who); err != nil {
		return nil, err
	}
	lock, err := lockFolder(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	server, err := startLocked(ctx, &cfg, who)
	if err != nil {
		_ = unlockFolder(lock)
		return nil, err
	}
	return &Cluster{cfg: cfg, server: server, lock: lock}, nil
}

// startLocked runs while the folder's lock is ours. After a crash, processes of
// the dead server may hold its shared memory for a moment, and a new one refuses
// to start until they are gone; and a server whose usher died right after
// starting it may show up while ours starts. Both are over soon: try again.
func startLocked(ctx context.Context, cfg *Config, who account) (*postmaster, error) {
	if err := cfg.chooseInstallation(ctx); err != nil {
		return nil, err
	}
	if err := who.openWay(cfg.Installation.Bin, cfg.Log); err != nil {
		return nil, err
	}
	crashed := false
	for until := time.Now().Add(crashedTimeout); ; {
		f, found, err := readPidFile(cfg.DataDir)
		if err != nil {
			return nil, err
		}
		if found {
			if server, err := adopt(ctx, *cfg, f); server != nil || err != nil {
				return server, err
			}
			crashed = true
		}
		if err := initialize(ctx, *cfg, who); err != nil {
			return nil, err
		}
		server, err := launch(ctx, *cfg, who)
		if err == nil || ctx.Err() != nil {
			return server, err
		}
		rival := rivalRuns(cfg.DataDir)
		if !errors.Is(err, errExited) || !(crashed || rival) || time.Now().After(until) {
			return nil, &usher.Error{Code: usher.CodeUnavailable, Err: err,
				Message: fmt.Sprintf("PostgreSQL did not start (%v); its log %s ends with:\n%s",
					err, logFile(cfg.DataDir), logTail(cfg.DataDir))}
		}
	}
}

// rivalRuns reports a live server on the data that is not ours.
func rivalRuns(dataDir string) bool {
	f, found, err := readPidFile(dataDir)
	return err == nil && found && isPostmaster(f.pid, dataDir)
}

// makeDataDir makes the folder and the way to it for the server's user.
func makeDataDir(cfg Config, who account) error {
	mode := os.FileMode(0o700)
	if who.cred != nil {
		mode = 0o711
	}
	if err := os.MkdirAll(cfg.DataDir, mode); err != nil {
		return &usher.Error{Code: usher.CodeUnavailable, Err: err,
			Message: fmt.Sprintf("the data folder %s cannot be made: %v", cfg.DataDir, err)}
	}
	if err := who.openWay(cfg.DataDir, cfg.Log); err != nil {
		return fmt.Errorf("prepare data folder: %w", err)
	}
	return nil
}

// chooseInstallation checks that the server can read the data, or finds one that can.
func (c *Config) chooseInstallation(ctx context.Context) error {
	major, err := dataMajor(c.DataDir)
	if err != nil {
		return err
	}
	if c.Installation.Bin == "" {
		if c.Installation, err = find(ctx, major); err != nil {
			return err
		}
	}
	if major != 0 && major != c.Installation.Major {
		return usher.Errorf(usher.CodeUnavailable,
			"the data in %s was made by PostgreSQL %d, but the server in %s is %s: install PostgreSQL %d,"+
				" or point %s at it, or move the folder away to start with an empty one",
			c.DataDir, major, c.Installation.Bin, c.Installation.Version, major, EnvBin)
	}
	return nil
}

// dataMajor is the major version that made the data, 0 when there is none yet.
func dataMajor(dataDir string) (int, error) {
	name := filepath.Join(clusterDir(dataDir), "PG_VERSION")
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(clusterDir(dataDir)); err == nil {
			return 0, usher.Errorf(usher.CodeUnavailable,
				"%s holds no PostgreSQL data: move it away to start with an empty folder", clusterDir(dataDir))
		}
		return 0, nil
	}
	if err != nil {
		return 0, &usher.Error{Code: usher.CodeUnavailable, Err: err,
			Message: fmt.Sprintf("the data folder %s cannot be read: %v", dataDir, err)}
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, usher.Errorf(usher.CodeUnavailable, "%s holds %q, which is no PostgreSQL version", name, b)
	}
	return major, nil
}

var errExited = errors.New("postgres ended while it was starting")

// launch starts the server and waits until it answers.
func launch(ctx context.Context, cfg Config, who account) (*postmaster, error) {
	socketDir, err := makeSocketDir(cfg.DataDir, who)
	if err != nil {
		return nil, err
	}
	server, err := spawn(cfg, who, socketDir)
	if err != nil {
		dropSocketDir(socketDir)
		return nil, err
	}
	ready, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	err = poll(ready, func() (bool, error) {
		if !server.running() {
			return false, errExited
		}
		return answers(ready, socketDir)
	})
	if err != nil {
		stopErr := server.stop(ctx)
		dropSocketDir(socketDir)
		return nil, errors.Join(fmt.Errorf("wait for postgres: %w", err), stopErr)
	}
	cfg.Log.Info("PostgreSQL started", "version", cfg.Installation.Version, "pid", server.pid, "data", cfg.DataDir)
	return server, nil
}

// connect opens a connection for the launcher's own questions.
func connect(ctx context.Context, socketDir string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, socketURL(socketDir, "postgres"))
	if err != nil {
		return nil, fmt.Errorf("connect to postgres: %w", err)
	}
	return conn, nil
}

// stateStarting is how a server that starts, recovers or stops refuses a client.
const stateStarting = "57P03"

// answers reports whether the server takes connections. An error says that it
// refuses for a reason that waiting will not change.
func answers(ctx context.Context, socketDir string) (bool, error) {
	conn, err := connect(ctx, socketDir)
	if refusal := (*pgconn.PgError)(nil); errors.As(err, &refusal) && refusal.Code != stateStarting {
		return false, err
	}
	if err != nil {
		return false, nil
	}
	// It answered; how the goodbye goes changes nothing.
	_ = conn.Close(ctx)
	return true, nil
}

// URL returns the address of a database on the unix socket, for pgx and psql.
// "postgres" always exists.
func (c *Cluster) URL(database string) string { return socketURL(c.server.socketDir, database) }

// SocketDir is the folder of the unix socket.
func (c *Cluster) SocketDir() string { return c.server.socketDir }

// Installation is the server that runs.
func (c *Cluster) Installation() Installation { return c.cfg.Installation }

// Stop ends the server (fast, then immediate; an ended context skips the
// patience) and gives the data folder free. It may be called again.
func (c *Cluster) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil
	}
	if err := c.server.stop(ctx); err != nil {
		return err
	}
	dropSocketDir(c.server.socketDir)
	c.stopped = true
	c.cfg.Log.Info("PostgreSQL stopped", "data", c.cfg.DataDir)
	if err := unlockFolder(c.lock); err != nil {
		return fmt.Errorf("unlock data folder: %w", err)
	}
	return nil
}

// Destroy stops whatever server still runs on the data folder and removes the
// folder. It fails with CodeUnavailable while a process uses it.
func Destroy(ctx context.Context, dataDir string) error {
	cfg, err := Config{DataDir: dataDir}.withDefaults()
	if err != nil {
		return err
	}
	lock, err := lockFolder(cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { _ = unlockFolder(lock) }()
	f, found, err := readPidFile(cfg.DataDir)
	if err != nil {
		return err
	}
	if found {
		if err := evict(ctx, cfg, f); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(cfg.DataDir); err != nil {
		return fmt.Errorf("remove data folder: %w", err)
	}
	return nil
}
