package redemption

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

// Pool holds the ticket codes of one event.
type Pool struct {
	ID     usher.PoolID
	Event  usher.EventID
	Tenant usher.TenantID
	Rules  PoolRules
	// CreatedAt is database time.
	CreatedAt time.Time
}

// PoolRules are what claims of a pool's codes go by.
type PoolRules struct {
	// ConfirmWithin is how long a claimed code may stay in processing before it is
	// frozen as abnormal: whole seconds, 1 s to 24 h.
	ConfirmWithin time.Duration
	// ValidFrom and ValidUntil bound the time in which codes are honoured, by
	// database time; nil is no bound.
	ValidFrom  *time.Time
	ValidUntil *time.Time
}

// DefaultPoolRules give a device two minutes, at any time of day.
func DefaultPoolRules() PoolRules { return PoolRules{ConfirmWithin: 2 * time.Minute} }

func (r PoolRules) validate() error {
	switch {
	case r.ConfirmWithin < time.Second || r.ConfirmWithin > 24*time.Hour || r.ConfirmWithin%time.Second != 0:
		return usher.Errorf(usher.CodeInvalidRequest, "the time to confirm must be whole seconds from 1 to 86400")
	case r.ValidFrom != nil && r.ValidUntil != nil && !r.ValidFrom.Before(*r.ValidUntil):
		return usher.Errorf(usher.CodeInvalidRequest, "the time of validity must begin before it ends")
	}
	return nil
}

const sqlInsertPool = `
INSERT INTO pool (pool_id, event_id, tenant_id, kind, confirm_seconds, valid_from, valid_until, created_at)
VALUES ($1, $2, $3, 'ticket', $4, $5, $6, clock_timestamp())
ON CONFLICT (event_id) WHERE kind = 'ticket' DO NOTHING`

const sqlReadPool = `
SELECT pool_id, event_id, tenant_id, confirm_seconds, valid_from, valid_until, created_at
FROM pool WHERE event_id = $1 AND kind = 'ticket'`

// CreatePool creates the event's ticket pool in its home shard, or returns the
// one that is there, unchanged: a crashed publication is simply repeated. It
// fails with CodeInvalidRequest, CodeNotFound for an event without a home, and
// CodeStateConflict when the pool belongs to another tenant.
func (r *Redeemer) CreatePool(ctx context.Context, event usher.EventID, tenant usher.TenantID, rules PoolRules) (Pool, error) {
	if err := rules.validate(); err != nil {
		return Pool{}, err
	}
	shard, err := r.homes.Shard(ctx, event)
	if err != nil {
		return Pool{}, err
	}
	var p Pool
	id := usher.NewPoolID(event)
	err = pg.InTx(ctx, shard, func(tx pgx.Tx) error {
		seconds := int(rules.ConfirmWithin / time.Second)
		if _, err := tx.Exec(ctx, sqlInsertPool, id, event, tenant, seconds, rules.ValidFrom, rules.ValidUntil); err != nil {
			return fmt.Errorf("insert pool: %w", err)
		}
		// A statement of its own: it sees the pool that another process just committed.
		p, err = scanPool(tx.QueryRow(ctx, sqlReadPool, event))
		return err
	})
	if err != nil {
		return Pool{}, fmt.Errorf("create pool of %s: %w", event, err)
	}
	if p.Tenant != tenant {
		return Pool{}, usher.Errorf(usher.CodeStateConflict, "the event's pool belongs to another tenant")
	}
	return p, nil
}

// Pool reads the event's ticket pool. It fails with CodeNotFound.
func (r *Redeemer) Pool(ctx context.Context, event usher.EventID) (Pool, error) {
	shard, err := r.homes.Shard(ctx, event)
	if err != nil {
		return Pool{}, err
	}
	p, err := scanPool(shard.QueryRow(ctx, sqlReadPool, event))
	if err != nil {
		return Pool{}, fmt.Errorf("read pool of %s: %w", event, pg.Unavailable(err))
	}
	return p, nil
}

const sqlChangePool = `
UPDATE pool SET confirm_seconds = $2, valid_from = $3, valid_until = $4
WHERE event_id = $1 AND kind = 'ticket'
RETURNING pool_id, event_id, tenant_id, confirm_seconds, valid_from, valid_until, created_at`

// ChangePool replaces the rules of the event's ticket pool: for claims from now
// on, a claim keeps the limit it was given. It fails with CodeInvalidRequest and
// CodeNotFound.
func (r *Redeemer) ChangePool(ctx context.Context, event usher.EventID, rules PoolRules) (Pool, error) {
	if err := rules.validate(); err != nil {
		return Pool{}, err
	}
	shard, err := r.homes.Shard(ctx, event)
	if err != nil {
		return Pool{}, err
	}
	var p Pool
	err = pg.InTx(ctx, shard, func(tx pgx.Tx) error {
		seconds := int(rules.ConfirmWithin / time.Second)
		p, err = scanPool(tx.QueryRow(ctx, sqlChangePool, event, seconds, rules.ValidFrom, rules.ValidUntil))
		return err
	})
	if err != nil {
		return Pool{}, fmt.Errorf("change pool of %s: %w", event, err)
	}
	return p, nil
}

// scanPool fails with CodeNotFound when there is no row.
func scanPool(row pgx.Row) (Pool, error) {
	var p Pool
	var seconds int
	err := row.Scan(&p.ID, &p.Event, &p.Tenant, &seconds, &p.Rules.ValidFrom, &p.Rules.ValidUntil, &p.CreatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return Pool{}, usher.Errorf(usher.CodeNotFound, "the event has no ticket pool")
	}
	if err != nil {
		return Pool{}, fmt.Errorf("read pool: %w", err)
	}
	p.Rules.ConfirmWithin = time.Duration(seconds) * time.Second
	return p, nil
}
