package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/text/unicode/norm"

	"usher"
	"usher/internal/pg"
)

const (
	keyPrefix    = "usk_"
	keyChars     = 52 // 256 bits in base32
	keyShown     = len(keyPrefix) + 8
	keyCacheTime = 3 * time.Second
	keyCacheMax  = 1024
	labelTextMax = 200
)

// keyEncoding is lower-case base32 without letters that are easily misread.
var keyEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// Operator is a member of staff.
type Operator struct {
	ID   usher.OperatorID
	Name string
	// Tenant limits the operator to one tenant; zero is the house's own staff.
	Tenant    usher.TenantID
	CreatedAt time.Time
}

// Key is an API key of an operator as it is listed: without its secret.
type Key struct {
	ID        int64
	Operator  usher.OperatorID
	Label     string
	Prefix    string
	CreatedAt time.Time
	// RevokedAt is nil while the key is valid.
	RevokedAt *time.Time
}

const sqlAddOperator = `
INSERT INTO operator (operator_id, tenant_id, name, created_at)
SELECT $1, $2, $3, clock_timestamp() WHERE $2::uuid IS NULL OR EXISTS (SELECT FROM tenant WHERE tenant_id = $2)
RETURNING created_at`

// CreateOperator makes an operator; tenant is zero for the house's own staff. It
// fails with CodeInvalidRequest, CodeNotFound for an unknown tenant, and
// CodeUnavailable.
func (a *Accounts) CreateOperator(ctx context.Context, name string, tenant usher.TenantID) (Operator, error) {
	o := Operator{ID: usher.NewOperatorID(), Name: norm.NFC.String(strings.TrimSpace(name)), Tenant: tenant}
	if err := usher.CheckText("the operator's name", o.Name, nameBytesMax); err != nil {
		return Operator{}, err
	}
	var of *[16]byte
	if !tenant.IsZero() {
		of = (*[16]byte)(&tenant)
	}
	err := a.pool.QueryRow(ctx, sqlAddOperator, [16]byte(o.ID), of, o.Name).Scan(&o.CreatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return Operator{}, usher.Errorf(usher.CodeNotFound, "no such tenant")
	}
	if err != nil {
		return Operator{}, fmt.Errorf("create operator: %w", pg.Unavailable(err))
	}
	return o, nil
}

const sqlOperators = `SELECT operator_id, tenant_id, name, created_at FROM operator ORDER BY created_at, operator_id`

// Operators lists every operator, oldest first. It fails with CodeUnavailable.
func (a *Accounts) Operators(ctx context.Context) ([]Operator, error) {
	rows, err := a.pool.Query(ctx, sqlOperators)
	if err != nil {
		return nil, fmt.Errorf("list operators: %w", pg.Unavailable(err))
	}
	out, err := pgx.CollectRows(rows, scanOperator)
	if err != nil {
		return nil, fmt.Errorf("list operators: %w", pg.Unavailable(err))
	}
	return out, nil
}

func scanOperator(row pgx.CollectableRow) (Operator, error) {
	var o Operator
	var tenant *[16]byte
	err := row.Scan((*[16]byte)(&o.ID), &tenant, &o.Name, &o.CreatedAt)
	if tenant != nil {
		o.Tenant = *tenant
	}
	return o, err
}

const sqlAddKey = `
INSERT INTO api_key (operator_id, label, prefix, key_hash, created_at)
SELECT operator_id, $2, $3, $4, clock_timestamp() FROM operator WHERE operator_id = $1
RETURNING key_id, created_at`

// CreateKey makes an API key and returns its text, which is shown this once: only
// its hash is stored. It fails with CodeInvalidRequest, CodeNotFound for an
// unknown operator, and CodeUnavailable.
func (a *Accounts) CreateKey(ctx context.Context, operator usher.OperatorID, label string) (string, Key, error) {
	if err := usher.CheckText("the key's label", label, labelTextMax); err != nil {
		return "", Key{}, err
	}
	var secret [32]byte
	// crypto/rand.Read never returns an error since Go 1.24.
	_, _ = rand.Read(secret[:])
	text := keyPrefix + keyEncoding.EncodeToString(secret[:])
	k := Key{Operator: operator, Label: label, Prefix: text[:keyShown]}
	hash := sha256.Sum256([]byte(text))
	err := a.pool.QueryRow(ctx, sqlAddKey, [16]byte(operator), label, k.Prefix, hash[:]).Scan(&k.ID, &k.CreatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", Key{}, usher.Errorf(usher.CodeNotFound, "no such operator")
	}
	if err != nil {
		return "", Key{}, fmt.Errorf("create key: %w", pg.Unavailable(err))
	}
	return text, k, nil
}

const sqlKeys = `
SELECT key_id, operator_id, label, prefix, created_at, revoked_at FROM api_key WHERE operator_id = $1 ORDER BY key_id`

// Keys lists the keys of an operator, revoked ones included, oldest first. It
// fails with CodeUnavailable.
func (a *Accounts) Keys(ctx context.Context, operator usher.OperatorID) ([]Key, error) {
	rows, err := a.pool.Query(ctx, sqlKeys, [16]byte(operator))
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", pg.Unavailable(err))
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Key, error) {
		var k Key
		err := row.Scan(&k.ID, (*[16]byte)(&k.Operator), &k.Label, &k.Prefix, &k.CreatedAt, &k.RevokedAt)
		return k, err
	})
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", pg.Unavailable(err))
	}
	return out, nil
}

const sqlRevokeKey = `
UPDATE api_key SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE key_id = $1`

// RevokeKey ends an API key: at once in this process, within three seconds in
// others. Revoking twice keeps the first time. It fails with CodeNotFound and
// CodeUnavailable.
func (a *Accounts) RevokeKey(ctx context.Context, id int64) error {
	tag, err := a.pool.Exec(ctx, sqlRevokeKey, id)
	// Whatever the answer was, it may have been revoked.
	a.apiKey.clear()
	if err != nil {
		return fmt.Errorf("revoke key: %w", pg.Unavailable(err))
	}
	if tag.RowsAffected() == 0 {
		return usher.Errorf(usher.CodeNotFound, "no such key")
	}
	return nil
}

const sqlOperatorByKey = `
SELECT o.operator_id, o.tenant_id, o.name, o.created_at
FROM api_key AS k JOIN operator AS o ON o.operator_id = k.operator_id
WHERE k.key_hash = $1 AND k.revoked_at IS NULL`

// Operator returns whose API key it is; an answer is used for three seconds. It
// fails with CodeUnauthenticated for a key that is wrong or revoked, and
// CodeUnavailable.
func (a *Accounts) Operator(ctx context.Context, apiKey string) (Operator, error) {
	if !strings.HasPrefix(apiKey, keyPrefix) || len(apiKey) != len(keyPrefix)+keyChars {
		return Operator{}, errKey()
	}
	// The secret is looked up by its hash: how far a wrong one matches cannot be timed.
	hash := sha256.Sum256([]byte(apiKey))
	o, generation, ok := a.apiKey.get(hash)
	if ok {
		return o, nil
	}
	rows, err := a.pool.Query(ctx, sqlOperatorByKey, hash[:])
	if err != nil {
		return Operator{}, fmt.Errorf("read operator: %w", pg.Unavailable(err))
	}
	o, err = pgx.CollectExactlyOneRow(rows, scanOperator)
	if errors.Is(err, pgx.ErrNoRows) {
		return Operator{}, errKey()
	}
	if err != nil {
		return Operator{}, fmt.Errorf("read operator: %w", pg.Unavailable(err))
	}
	a.apiKey.put(hash, o, generation)
	return o, nil
}

func errKey() error {
	return usher.Errorf(usher.CodeUnauthenticated, "the API key is not valid")
}

// keyCache remembers the answers for valid keys. The zero value is empty.
type keyCache struct {
	mu      sync.Mutex
	entries map[[32]byte]keyEntry
	// generation grows with every clear: an answer read before it is not stored after it.
	generation int
}

type keyEntry struct {
	operator Operator
	read     time.Time
}

func (c *keyCache) get(hash [32]byte) (o Operator, generation int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[hash]
	return e.operator, c.generation, ok && time.Since(e.read) < keyCacheTime
}

func (c *keyCache) put(hash [32]byte, o Operator, generation int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.generation != generation {
		return
	}
	if c.entries == nil || len(c.entries) >= keyCacheMax {
		c.entries = map[[32]byte]keyEntry{}
	}
	c.entries[hash] = keyEntry{o, time.Now()}
}

func (c *keyCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = nil
	c.generation++
}
