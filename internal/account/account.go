package account

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/pg"
	"usher/internal/token"
)

const (
	// refreshEvery bounds how long another process accepts what was revoked here.
	refreshEvery = 3 * time.Second
	sweepEvery   = 10 * time.Minute
	callTimeout  = 5 * time.Second
)

// CodeSender sends a sign-in code; package notify implements it.
type CodeSender interface {
	// SendCode sends the code to one address, in the language of the locale.
	SendCode(ctx context.Context, to, code, locale string) error
}

// Accounts is the account side of the directory. Its methods may be called at
// the same time.
type Accounts struct {
	pool   *pgxpool.Pool
	keys   *token.Keyring
	sender CodeSender
	limits Limits
	apiKey keyCache

	// revoked holds the live sessions that were signed out: SessionID to the time
	// at which each would have ended.
	revoked sync.Map
	blocked atomic.Pointer[map[usher.AccountID]struct{}]
	// refreshing lets one refresh run at a time; seen is its high-water mark.
	refreshing sync.Mutex
	seen       time.Time
}

// New opens the accounts of a directory and loads what is revoked, so that a
// fresh process never accepts a signed-out session. It fails with
// CodeUnavailable.
func New(ctx context.Context, directory *pgxpool.Pool, keys *token.Keyring, sender CodeSender, limits Limits) (*Accounts, error) {
	a := &Accounts{pool: directory, keys: keys, sender: sender, limits: limits}
	if err := a.Refresh(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// Run keeps the picture of revoked sessions and blocked accounts fresh and
// deletes what is past its retention, until ctx ends. A failure is logged; the
// picture in memory stays in force.
func (a *Accounts) Run(ctx context.Context) {
	refresh, sweep := time.NewTicker(refreshEvery), time.NewTicker(sweepEvery)
	defer refresh.Stop()
	defer sweep.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-refresh.C:
			err = a.Refresh(ctx)
		case <-sweep.C:
			err = a.Sweep(ctx)
		}
		if err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "accounts not refreshed", "error", err)
		}
	}
}

// Rows are read again for half a minute, longer than a statement may take: one
// that committed late carries an earlier time.
const (
	sqlLoadRevoked = `
SELECT session_id, expires_at FROM revoked_session
WHERE revoked_at > $1::timestamptz - interval '30 seconds' AND expires_at > clock_timestamp()`

	sqlLoadBlocked = `SELECT account_id FROM account WHERE status = 'blocked'`
)

// Refresh reads the sessions that were revoked since the last refresh and the
// accounts that are blocked. It fails with CodeUnavailable and then keeps what
// it knew.
func (a *Accounts) Refresh(ctx context.Context) error {
	a.refreshing.Lock()
	defer a.refreshing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now := a.keys.Now()
	rows, err := a.pool.Query(ctx, sqlLoadRevoked, a.seen)
	if err != nil {
		return fmt.Errorf("load revoked sessions: %w", pg.Unavailable(err))
	}
	for rows.Next() {
		var id SessionID
		var expires time.Time
		if err := rows.Scan((*[16]byte)(&id), &expires); err != nil {
			rows.Close()
			return fmt.Errorf("load revoked sessions: %w", err)
		}
		a.revoked.Store(id, expires)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("load revoked sessions: %w", pg.Unavailable(err))
	}
	if err := a.loadBlocked(ctx); err != nil {
		return err
	}
	a.seen = now
	return nil
}

func (a *Accounts) loadBlocked(ctx context.Context) error {
	rows, err := a.pool.Query(ctx, sqlLoadBlocked)
	if err != nil {
		return fmt.Errorf("load blocked accounts: %w", pg.Unavailable(err))
	}
	defer rows.Close()
	blocked := map[usher.AccountID]struct{}{}
	for rows.Next() {
		var id usher.AccountID
		if err := rows.Scan((*[16]byte)(&id)); err != nil {
			return fmt.Errorf("load blocked accounts: %w", err)
		}
		blocked[id] = struct{}{}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("load blocked accounts: %w", pg.Unavailable(err))
	}
	a.blocked.Store(&blocked)
	return nil
}

// Deletes work in slices, so that none holds locks for long.
const (
	sweepSlice = 5000

	sqlSweepCodes = `
DELETE FROM login_code WHERE code_id IN (
    SELECT code_id FROM login_code WHERE created_at < clock_timestamp() - interval '24 hours' ORDER BY created_at LIMIT $1)`

	sqlSweepFailures = `
DELETE FROM login_failure WHERE failure_id IN (
    SELECT failure_id FROM login_failure WHERE created_at < clock_timestamp() - interval '1 hour' ORDER BY created_at LIMIT $1)`

	sqlSweepRevoked = `
DELETE FROM revoked_session WHERE session_id IN (
    SELECT session_id FROM revoked_session WHERE expires_at < clock_timestamp() ORDER BY expires_at LIMIT $1)`
)

// Sweep deletes what is past its retention. It fails with CodeUnavailable; what
// was deleted until then stays deleted.
func (a *Accounts) Sweep(ctx context.Context) error {
	for _, sql := range []string{sqlSweepCodes, sqlSweepFailures, sqlSweepRevoked} {
		for {
			tag, err := a.pool.Exec(ctx, sql, sweepSlice)
			if err != nil {
				return fmt.Errorf("delete past retention: %w", pg.Unavailable(err))
			}
			if tag.RowsAffected() < sweepSlice {
				break
			}
		}
	}
	now := a.keys.Now()
	a.revoked.Range(func(id, expires any) bool {
		if expires.(time.Time).Before(now) {
			a.revoked.Delete(id)
		}
		return true
	})
	return nil
}
