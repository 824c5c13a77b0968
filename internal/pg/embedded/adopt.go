package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
)

// orphan is the server that a pid file names, if it is alive at all.
func orphan(cfg Config, f pidFile) *postmaster {
	return &postmaster{pid: f.pid, dataDir: cfg.DataDir, socketDir: f.socketDir, patience: cfg.patience}
}

// adopt deals with the pid file that an earlier usher left. It returns the
// server when it is alive, answers and has the wanted settings; otherwise nil,
// and then no server runs on the folder any more and nothing bars a new one.
func adopt(ctx context.Context, cfg Config, f pidFile) (*postmaster, error) {
	server := orphan(cfg, f)
	if !server.running() {
		cfg.Log.Warn("PostgreSQL ended without a shutdown: recovering", "data", cfg.DataDir)
		return nil, evict(ctx, cfg, f)
	}
	if f.stopping {
		cfg.Log.Info("an earlier PostgreSQL is shutting down: waiting for it", "pid", f.pid)
		return nil, evict(ctx, cfg, f)
	}
	same, err := suits(ctx, cfg, server)
	if err != nil {
		return nil, err
	}
	if !same {
		cfg.Log.Warn("an earlier PostgreSQL is silent or set up differently: restarting it", "pid", f.pid)
		return nil, evict(ctx, cfg, f)
	}
	cfg.Log.Info("adopted the PostgreSQL that an earlier usher left running", "pid", f.pid, "data", cfg.DataDir)
	return server, nil
}

// suits waits for the server to answer and compares its settings. A server that
// stays silent, or ends meanwhile, does not suit.
func suits(ctx context.Context, cfg Config, server *postmaster) (bool, error) {
	wait, cancel := context.WithTimeout(ctx, cfg.patience.answer)
	defer cancel()
	err := poll(wait, func() (bool, error) {
		if server.socketDir == "" {
			// A server that is just starting writes its pid file line by line.
			if f, found, err := readPidFile(cfg.DataDir); err == nil && found && f.pid == server.pid {
				server.socketDir = f.socketDir
			}
		}
		if !server.running() || server.socketDir == "" {
			return !server.running(), nil
		}
		return answers(wait, server.socketDir)
	})
	if ctx.Err() != nil {
		return false, fmt.Errorf("wait for the earlier postgres: %w", ctx.Err())
	}
	if err != nil || !server.running() {
		return false, nil
	}
	conn, err := connect(ctx, server.socketDir)
	if err != nil {
		return false, nil
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return sameSettings(ctx, conn, cfg)
}

const sqlServerSettings = `SELECT name, current_setting(name) FROM pg_catalog.pg_settings`

func sameSettings(ctx context.Context, conn *pgx.Conn, cfg Config) (bool, error) {
	rows, err := conn.Query(ctx, sqlServerSettings)
	if err != nil {
		return false, fmt.Errorf("read server settings: %w", err)
	}
	actual := make(map[string]string)
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		actual[strings.ToLower(name)] = value
		return nil
	}); err != nil {
		return false, fmt.Errorf("read server settings: %w", err)
	}
	if actual["data_directory"] != clusterDir(cfg.DataDir) {
		return false, nil
	}
	for name, want := range cfg.settings() {
		if have := actual[strings.ToLower(name)]; have != want {
			cfg.Log.Info("a server setting differs", "name", name, "have", have, "want", want)
			return false, nil
		}
	}
	return true, nil
}

// evict ends the server of the pid file if it is one, and removes what it left.
// A pid file whose number now belongs to another program would bar the new
// server; removing it is safe because the server also tells by its shared
// memory whether processes of a dead one are still there.
func evict(ctx context.Context, cfg Config, f pidFile) error {
	server := orphan(cfg, f)
	if server.running() {
		if err := server.stop(ctx); err != nil {
			return fmt.Errorf("stop the earlier postgres: %w", err)
		}
	}
	dropSocketDir(f.socketDir)
	if err := os.Remove(pidFileName(cfg.DataDir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove stale pid file: %w", err)
	}
	return nil
}
