package token

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/pg"
)

const (
	secretSize     = 32
	refreshEvery   = 10 * time.Second
	refreshTimeout = 5 * time.Second
)

// Keyring holds the live keys of every purpose. Its methods may be called at
// the same time; Sign, Verify and Now never touch the database.
type Keyring struct {
	pool *pgxpool.Pool
	set  atomic.Pointer[keySet]
}

// NewKeyring loads the keys of the directory, and makes the first key of a
// purpose that has none. It fails with CodeUnavailable.
func NewKeyring(ctx context.Context, directory *pgxpool.Pool) (*Keyring, error) {
	k := &Keyring{pool: directory}
	for _, p := range Purposes {
		if err := k.create(ctx, p); err != nil {
			return nil, err
		}
	}
	if err := k.Refresh(ctx); err != nil {
		return nil, err
	}
	return k, nil
}

// ON CONFLICT: of several processes that start on an empty directory, one makes
// the key and the others load it. The first key signs at once.
const sqlCreateKey = `
INSERT INTO signing_key (purpose, secret, created_at, signs_from)
SELECT $1, $2, c.now, c.now FROM (SELECT clock_timestamp() AS now) AS c
WHERE NOT EXISTS (SELECT FROM signing_key WHERE purpose = $1 AND retired_at IS NULL)
ON CONFLICT (purpose) WHERE retired_at IS NULL DO NOTHING`

func (k *Keyring) create(ctx context.Context, p Purpose) error {
	if _, err := k.pool.Exec(ctx, sqlCreateKey, p, newSecret()); err != nil {
		return fmt.Errorf("create %s key: %w", p, pg.Unavailable(err))
	}
	return nil
}

// Run refreshes the keys every 10 seconds until ctx ends. A failed refresh is
// logged and the keys in memory stay in force: tokens keep working while the
// directory is away.
func (k *Keyring) Run(ctx context.Context) {
	t := time.NewTicker(refreshEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		own, cancel := context.WithTimeout(ctx, refreshTimeout)
		if err := k.Refresh(own); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "signing keys not refreshed", "error", err)
		}
		cancel()
	}
}

const sqlLoadKeys = `
SELECT key_id, purpose, secret, signs_from, retired_at, clock_timestamp()
FROM signing_key
WHERE retired_at IS NULL OR retired_at > clock_timestamp()
ORDER BY signs_from, key_id`

// Refresh reads the keys and the database time now. It fails with
// CodeUnavailable and then changes nothing.
func (k *Keyring) Refresh(ctx context.Context) error {
	asked := time.Now()
	rows, err := k.pool.Query(ctx, sqlLoadKeys)
	if err != nil {
		return fmt.Errorf("load signing keys: %w", pg.Unavailable(err))
	}
	var databaseTime time.Time
	keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*key, error) {
		var (
			id      uint32
			p       Purpose
			secret  []byte
			from    time.Time
			retired *time.Time
		)
		err := row.Scan(&id, &p, &secret, &from, &retired, &databaseTime)
		return newKey(id, p, secret, from, retired), err
	})
	if err != nil {
		return fmt.Errorf("load signing keys: %w", pg.Unavailable(err))
	}
	// The database read its clock between asked and now: take the middle.
	now := time.Now()
	set := newKeySet(keys, databaseTime, now.Add(asked.Sub(now)/2))
	for _, p := range Purposes {
		if len(set.signers[p]) == 0 {
			return fmt.Errorf("load signing keys: the directory has no %s key", p)
		}
	}
	k.set.Store(set)
	return nil
}

// Now returns the database time without asking the database: its clock as of
// the last refresh plus what this process's monotonic clock has counted since.
// It is within a network round trip of the truth however wrong the machine's own
// clock is; expiry of tokens is judged by it.
func (k *Keyring) Now() time.Time { return k.set.Load().now() }

const (
	sqlRetireKey = `
UPDATE signing_key SET retired_at = clock_timestamp() + make_interval(secs => $2)
WHERE purpose = $1 AND retired_at IS NULL AND signs_from <= clock_timestamp()`

	sqlAddKey = `
INSERT INTO signing_key (purpose, secret, created_at, signs_from)
SELECT $1, $2, c.now, c.now + make_interval(secs => $3) FROM (SELECT clock_timestamp() AS now) AS c`

	sqlForgetKeys = `DELETE FROM signing_key WHERE purpose = $1 AND retired_at < clock_timestamp() - make_interval(hours => 1)`
)

// Rotate announces a new key for the purpose; it signs half a minute later, when
// every process knows it. Tokens signed before stay valid for LifeMax. Secrets
// whose overlap is over are erased. It fails with CodeStateConflict while an
// earlier rotation of the purpose is being announced, CodeInvalidRequest for an
// unknown purpose, and CodeUnavailable.
func (k *Keyring) Rotate(ctx context.Context, p Purpose) error {
	overlap := announce + LifeMax(p) + slack
	return k.change(ctx, p, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sqlRetireKey, p, overlap.Seconds())
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return usher.Errorf(usher.CodeStateConflict, "a rotation of the %s key is under way", string(p))
		}
		if _, err := tx.Exec(ctx, sqlAddKey, p, newSecret(), announce.Seconds()); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, sqlForgetKeys, p)
		return err
	})
}

const sqlRevokeKeys = `
UPDATE signing_key SET retired_at = clock_timestamp()
WHERE purpose = $1 AND (retired_at IS NULL OR retired_at > clock_timestamp())`

// Replace answers a leaked secret: a new key signs from now, and every token of
// the purpose signed before is refused, here at once and in other processes at
// their next refresh. It fails with CodeInvalidRequest for an unknown purpose,
// and CodeUnavailable.
func (k *Keyring) Replace(ctx context.Context, p Purpose) error {
	return k.change(ctx, p, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlRevokeKeys, p); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sqlAddKey, p, newSecret(), 0.0)
		return err
	})
}

func (k *Keyring) change(ctx context.Context, p Purpose, fn func(pgx.Tx) error) error {
	if !p.known() {
		return usher.Errorf(usher.CodeInvalidRequest, "unknown token purpose %q", string(p))
	}
	err := pg.InTx(ctx, k.pool, fn)
	if err == nil || errors.Is(err, pg.ErrCommitUnknown) {
		// After a lost answer the refresh shows what is true, too.
		err = errors.Join(err, k.Refresh(ctx))
	}
	if pg.IsUnique(err, "signing_key_current") {
		return usher.Errorf(usher.CodeStateConflict, "the %s key is being changed by somebody else", string(p))
	}
	if err != nil {
		return fmt.Errorf("change %s key: %w", p, err)
	}
	return nil
}

func newSecret() []byte {
	b := make([]byte, secretSize)
	// crypto/rand.Read never returns an error since Go 1.24.
	_, _ = rand.Read(b)
	return b
}
