package pg

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"usher"
)

//go:embed migrations
var migrations embed.FS

// Migrate brings all three schemas of one database up to date. Several
// processes may call it at once: a session lock lets one work and the others
// find nothing left to do. It fails with CodeUnavailable when the database does
// not answer.
func Migrate(ctx context.Context, url string) error {
	for _, s := range []Schema{SchemaDirectory, SchemaRoom, SchemaShard} {
		if err := MigrateSchema(ctx, url, s); err != nil {
			return err
		}
	}
	return nil
}

// MigrateSchema brings one kind of home up to date, as Migrate does for all.
func MigrateSchema(ctx context.Context, url string, schema Schema) error {
	cc, err := pgx.ParseConfig(url)
	if err != nil {
		return usher.Errorf(usher.CodeUnavailable, "the %s database URL cannot be read", schema)
	}
	cc.RuntimeParams["search_path"] = string(schema)
	cc.RuntimeParams["application_name"] = "usher migrate"
	db := stdlib.OpenDB(*cc)
	defer db.Close()
	if err := createSchema(ctx, db, schema); err != nil {
		return fmt.Errorf("create schema %s: %w", schema, Unavailable(err))
	}
	sub, err := fs.Sub(migrations, "migrations/"+string(schema))
	if err != nil {
		return fmt.Errorf("open migrations of %s: %w", schema, err)
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("make migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, sub, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("read migrations of %s: %w", schema, err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate %s: %w", schema, Unavailable(err))
	}
	return nil
}

// createSchema tolerates two processes that create it at the same moment, which
// IF NOT EXISTS alone does not.
func createSchema(ctx context.Context, db *sql.DB, schema Schema) error {
	_, err := db.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS `+string(schema))
	if State(err) == stateUniqueViolation {
		return nil
	}
	return err
}

// MigrationsHash identifies the whole set of migrations, for naming templates.
func MigrationsHash() string {
	h := sha256.New()
	err := fs.WalkDir(migrations, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := migrations.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n", path, len(b))
		h.Write(b)
		return err
	})
	if err != nil {
		panic("pg: embedded migrations cannot be read: " + err.Error())
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
