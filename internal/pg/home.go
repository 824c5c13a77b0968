package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
)

// Schema names one of the three kinds of database. Each lives in a PostgreSQL
// schema of that name, and a pool's search_path is its own schema alone: a
// statement that reaches into another kind of home fails at once.
type Schema string

// The three kinds of homes.
const (
	SchemaDirectory Schema = "directory"
	SchemaRoom      Schema = "room"
	SchemaShard     Schema = "shard"
)

// ShardNumber names a home shard; 1 is the first.
type ShardNumber int32

// Config says where the homes are. One URL may serve several kinds.
type Config struct {
	DirectoryURL string
	RoomURL      string
	ShardURLs    map[ShardNumber]string
	// PoolSize is the most connections per home and process; 0 means 16.
	PoolSize int
	// ApplicationName shows in pg_stat_activity; empty means "usher".
	ApplicationName string

	readOnly bool
}

// Homes holds the pools of one process and the cached map from event to shard.
type Homes struct {
	Directory *pgxpool.Pool
	Room      *pgxpool.Pool
	shards    map[ShardNumber]*pgxpool.Pool

	mu     sync.RWMutex
	events map[usher.EventID]ShardNumber
}

// Open connects to every home and checks that each answers. It fails with
// CodeUnavailable, naming the home but never its URL.
func Open(ctx context.Context, cfg Config) (*Homes, error) {
	h := &Homes{shards: map[ShardNumber]*pgxpool.Pool{}, events: map[usher.EventID]ShardNumber{}}
	var err error
	if h.Directory, err = openPool(ctx, cfg, cfg.DirectoryURL, SchemaDirectory); err == nil {
		h.Room, err = openPool(ctx, cfg, cfg.RoomURL, SchemaRoom)
	}
	for n, url := range cfg.ShardURLs {
		if err == nil {
			h.shards[n], err = openPool(ctx, cfg, url, SchemaShard)
		}
	}
	if err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// Close closes every pool.
func (h *Homes) Close() {
	for _, p := range append([]*pgxpool.Pool{h.Directory, h.Room}, slices.Collect(maps.Values(h.shards))...) {
		if p != nil {
			p.Close()
		}
	}
}

const sqlEventHome = `SELECT shard FROM event_home WHERE event_id = $1`

// Shard returns the pool of the event's home shard. The first call per event
// reads the directory by key; later ones need no directory at all. It fails
// with CodeNotFound for an event that has no home.
func (h *Homes) Shard(ctx context.Context, event usher.EventID) (*pgxpool.Pool, error) {
	h.mu.RLock()
	n, ok := h.events[event]
	h.mu.RUnlock()
	if !ok {
		err := h.Directory.QueryRow(ctx, sqlEventHome, event).Scan(&n)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, usher.Errorf(usher.CodeNotFound, "no such event")
		}
		if err != nil {
			return nil, fmt.Errorf("read home of %s: %w", event, Unavailable(err))
		}
		h.mu.Lock()
		h.events[event] = n
		h.mu.Unlock()
	}
	if p := h.shards[n]; p != nil {
		return p, nil
	}
	return nil, usher.Errorf(usher.CodeUnavailable, "shard %d is not configured here", n)
}

// Shards returns every configured shard, in order of number: for work that
// visits all homes (due rows, audit), never for finding one event.
func (h *Homes) Shards() []Shard {
	var out []Shard
	for _, n := range slices.Sorted(maps.Keys(h.shards)) {
		out = append(out, Shard{n, h.shards[n]})
	}
	return out
}

// OpenReadOnly opens pools on the shards alone that cannot write, for the audit:
// no transaction of theirs changes anything, whatever its statements say, and
// none lasts longer than a few seconds. Close ends them.
func OpenReadOnly(ctx context.Context, cfg Config) (*Homes, error) {
	h := &Homes{shards: map[ShardNumber]*pgxpool.Pool{}, events: map[usher.EventID]ShardNumber{}}
	cfg.readOnly = true
	for n, url := range cfg.ShardURLs {
		p, err := openPool(ctx, cfg, url, SchemaShard)
		if err != nil {
			h.Close()
			return nil, err
		}
		h.shards[n] = p
	}
	return h, nil
}

// Shard is one configured home shard.
type Shard struct {
	Number ShardNumber
	Pool   *pgxpool.Pool
}

// Timeouts that every session gets. A dead process frees its locks in about a
// second: the server checks its client each second while it runs a statement,
// and ends a transaction that idles longer than a group ever does.
var sessionParams = map[string]string{
	"lock_timeout":                        "2s",
	"statement_timeout":                   "15s",
	"idle_in_transaction_session_timeout": "3s",
	"client_connection_check_interval":    "1s",
	"tcp_user_timeout":                    "3s",
	"timezone":                            "UTC",
	"synchronous_commit":                  "on",
}

// plannerParams take away the plans that look cheap on tables without
// statistics and read a whole event per group of commands: every hot statement
// looks its rows up by full key.
var plannerParams = map[string]string{
	"enable_seqscan":   "off",
	"enable_hashjoin":  "off",
	"enable_mergejoin": "off",
	"jit":              "off",
}

// auditParams keep the audit from plans for few rows: it reads whole events, and
// statistics that do not know an event yet promise none of them.
var auditParams = map[string]string{
	"enable_nestloop": "off",
	"jit":             "off",
}

func openPool(ctx context.Context, cfg Config, url string, schema Schema) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The parser's own text may quote the URL with its password.
		return nil, usher.Errorf(usher.CodeUnavailable, "the %s database URL cannot be read", schema)
	}
	pc.MaxConns = int32(cfg.PoolSize)
	if cfg.PoolSize == 0 {
		pc.MaxConns = 16
	}
	pc.MaxConnIdleTime = 5 * time.Minute
	pc.ConnConfig.ConnectTimeout = 5 * time.Second
	maps.Copy(pc.ConnConfig.RuntimeParams, sessionParams)
	pc.ConnConfig.RuntimeParams["search_path"] = string(schema)
	pc.ConnConfig.RuntimeParams["application_name"] = cmpOr(cfg.ApplicationName, "usher")
	switch {
	case cfg.readOnly:
		pc.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
		maps.Copy(pc.ConnConfig.RuntimeParams, auditParams)
	case schema == SchemaShard:
		maps.Copy(pc.ConnConfig.RuntimeParams, plannerParams)
	}
	var pool atomic.Pointer[pgxpool.Pool]
	pc.ConnConfig.OnPgError = func(_ *pgconn.PgConn, e *pgconn.PgError) bool { return keepConnection(&pool, e) }
	p, err := pgxpool.NewWithConfig(ctx, pc)
	if err == nil {
		pool.Store(p)
		err = p.Ping(ctx)
		if err != nil {
			p.Close()
		}
	}
	if err != nil {
		return nil, noAnswer(schema, err)
	}
	if err = checkSession(ctx, p, schema); err == nil {
		err = checkMigrated(ctx, p, schema)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// keepConnection tells whether a connection may be used again after the error. One
// that met a read-only server belongs to a demoted primary and would fail for ever.
// One that holds statements from before a migration is not alone: the whole pool
// starts over, so that running a transaction again once is enough.
func keepConnection(pool *atomic.Pointer[pgxpool.Pool], e *pgconn.PgError) bool {
	if isOutdated(e) {
		if p := pool.Load(); p != nil {
			p.Reset()
		}
		return false
	}
	return e.Severity != "FATAL" && e.Code != stateReadOnly
}

// noAnswer says what to do when no connection came about.
func noAnswer(schema Schema, err error) error {
	if State(err) == stateProtocol {
		return pooled(schema, err)
	}
	return &usher.Error{
		Code:    usher.CodeUnavailable,
		Message: fmt.Sprintf("the %s database does not answer: check that PostgreSQL runs and that its URL is right", schema),
		Err:     err,
	}
}

// pooled refuses what stands between usher and its database and does not pass
// sessions on (docs/decisions/0009-no-pooler-in-between.md).
func pooled(schema Schema, err error) error {
	return &usher.Error{
		Code: usher.CodeUnavailable,
		Message: fmt.Sprintf("the %s database is behind something that drops session settings, such as a connection pooler: "+
			"give usher the address of PostgreSQL itself", schema),
		Err: err,
	}
}

const sqlSession = `SELECT current_setting('search_path') = $1 AND current_setting('lock_timeout') = $2`

// checkSession refuses a session without the settings that it was opened with:
// names would mean other tables, and locks would be waited for without end.
func checkSession(ctx context.Context, p *pgxpool.Pool, schema Schema) error {
	var ours bool
	if err := p.QueryRow(ctx, sqlSession, string(schema), sessionParams["lock_timeout"]).Scan(&ours); err != nil {
		return fmt.Errorf("read settings of schema %s: %w", schema, Unavailable(err))
	}
	if !ours {
		return pooled(schema, nil)
	}
	return nil
}

const sqlHasSchema = `SELECT to_regclass($1 || '.goose_db_version') IS NOT NULL`

// checkMigrated refuses a database that `usher migrate` has never seen, before the
// first statement fails on a missing table.
func checkMigrated(ctx context.Context, p *pgxpool.Pool, schema Schema) error {
	var has bool
	if err := p.QueryRow(ctx, sqlHasSchema, string(schema)).Scan(&has); err != nil {
		return fmt.Errorf("look for schema %s: %w", schema, Unavailable(err))
	}
	if !has {
		return usher.Errorf(usher.CodeUnavailable, "the %s database has no tables yet: run `usher migrate` with the same settings", schema)
	}
	return nil
}

func cmpOr(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
