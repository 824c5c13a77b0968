package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

// Operations gives access to payment operations, for checkout.
func (l *Ledger) Operations() *Operations { return &Operations{ledger: l, homes: l.homes} }

// Operations reads payment operations and records what was learned about them
// short of a decision: everything here leaves seats and orders as they are.
type Operations struct {
	ledger *Ledger
	homes  *pg.Homes
}

const (
	sqlReadOperation = `
SELECT operation_id, order_id, kind, status, provider, provider_reference, method_token, amount_minor,
    currency, idempotency_key, action_url, provider_code, capture_before, sent_at, settled_at,
    created_at, updated_at, next_at, attempts, parked_at, last_error
FROM payment_operation WHERE operation_id = $1`

	sqlOperationByReference = `
SELECT operation_id, order_id, kind, status, provider, provider_reference, method_token, amount_minor,
    currency, idempotency_key, action_url, provider_code, capture_before, sent_at, settled_at,
    created_at, updated_at, next_at, attempts, parked_at, last_error
FROM payment_operation
WHERE provider_reference = $3 AND event_id = $1 AND provider = $2 AND kind = 'authorize'`

	sqlLockOperation = sqlReadOperation + ` FOR NO KEY UPDATE`

	sqlLearn = `
UPDATE payment_operation
SET status = $2, provider_reference = $3, action_url = $4, provider_code = $5, capture_before = $6,
    sent_at = CASE WHEN $7 THEN coalesce(sent_at, clock_timestamp()) ELSE sent_at END,
    next_at = CASE WHEN $8::float8 > 0 THEN clock_timestamp() + make_interval(secs => $8) ELSE next_at END,
    updated_at = clock_timestamp()
WHERE operation_id = $1
RETURNING sent_at, next_at, updated_at`
)

var errNoOperation = usher.Errorf(usher.CodeNotFound, "no such payment operation")

// Get reads an operation. It fails with CodeNotFound.
func (o *Operations) Get(ctx context.Context, id usher.OperationID) (Operation, error) {
	pool, err := o.homes.Shard(ctx, id.Event())
	if err != nil {
		return Operation{}, err
	}
	op, err := scanOperation(pool.QueryRow(ctx, sqlReadOperation, id))
	if err != nil {
		return Operation{}, pg.Unavailable(notFound(err, errNoOperation))
	}
	return op.Operation, nil
}

// ByReference finds the authorize operation of the event with the provider's
// reference. It fails with CodeNotFound.
func (o *Operations) ByReference(ctx context.Context, event usher.EventID, provider, reference string) (Operation, error) {
	pool, err := o.homes.Shard(ctx, event)
	if err != nil {
		return Operation{}, err
	}
	op, err := scanOperation(pool.QueryRow(ctx, sqlOperationByReference, event, provider, reference))
	if err != nil {
		return Operation{}, pg.Unavailable(notFound(err, errNoOperation))
	}
	return op.Operation, nil
}

// Learned is what a provider's answer taught short of a decision; zero fields
// leave the row as it is.
type Learned struct {
	// Status moves the operation along its graph, to a state that is not final
	// (final ones are decisions of the ledger); "" keeps it.
	Status        usher.OperationStatus
	Reference     string
	ActionURL     string
	ProviderCode  string
	CaptureBefore *time.Time
	// Sent sets sent_at to the database time, once.
	Sent bool
	// NextIn schedules the next look by database time from now; 0 keeps the schedule.
	NextIn time.Duration
}

// Learn stores it, durably, before the caller goes on. News about a settled
// operation, a status that the graph does not allow from the current one, or
// another reference than the stored one is a CodeStateConflict and changes
// nothing: late and repeated news never move an operation backwards.
func (o *Operations) Learn(ctx context.Context, id usher.OperationID, n Learned) (Operation, error) {
	pool, err := o.homes.Shard(ctx, id.Event())
	if err != nil {
		return Operation{}, err
	}
	var out Operation
	err = pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		var op *operation
		b := o.ledger.homeBatch(id.Event())
		b.Queue(sqlLockOperation, id).QueryRow(func(row pgx.Row) (err error) {
			op, err = scanOperation(row)
			return err
		})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return notFound(err, errNoOperation)
		}
		if err := op.learn(n); err != nil {
			return err
		}
		err = tx.QueryRow(ctx, sqlLearn, id, string(op.Status), op.Reference, op.ActionURL, op.ProviderCode, op.CaptureBefore,
			n.Sent, n.NextIn.Seconds()).Scan(&op.SentAt, &op.NextAt, &op.UpdatedAt)
		if err != nil {
			return fmt.Errorf("update payment operation: %w", err)
		}
		out = op.Operation
		return nil
	})
	return out, err
}

func (op *operation) learn(n Learned) error {
	final := op.settledAt != nil || n.Status == usher.OperationSucceeded || n.Status == usher.OperationFailed || n.Status == usher.OperationReversed
	moves := n.Status != "" && n.Status != op.Status
	switch {
	case final, moves && !usher.CanMove(usher.OperationTransitions, op.Status, n.Status):
		return usher.Errorf(usher.CodeStateConflict, "the payment operation is %s", op.Status)
	case n.Reference != "" && op.Reference != "" && n.Reference != op.Reference:
		return usher.Errorf(usher.CodeStateConflict, "the payment operation has another reference")
	}
	if moves {
		op.Status = n.Status
	}
	op.Reference = firstSet(n.Reference, op.Reference)
	op.ActionURL = firstSet(n.ActionURL, op.ActionURL)
	op.ProviderCode = firstSet(n.ProviderCode, op.ProviderCode)
	if n.CaptureBefore != nil {
		op.CaptureBefore = n.CaptureBefore
	}
	return nil
}

func firstSet(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
