package account

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

const (
	verbMax        = 100
	targetMax      = 200
	reasonMax      = 2000
	detailMax      = 64 << 10
	actionsPageMax = 200
)

// Action is one line of the list of what operators did.
type Action struct {
	// Number and At are given by LogAction: numbers are dense, from 1.
	Number   int64
	At       time.Time
	Operator usher.OperatorID
	// Verb is what was done ("sale.pause"), Target what to ("evt_12"), Reason why,
	// in the operator's words.
	Verb, Target, Reason string
	// Detail is anything else that explains it, as JSON; nil is none. No secrets,
	// no personal data beyond ids.
	Detail json.RawMessage
}

func (x Action) check() error {
	for _, f := range []struct {
		what, text string
		max        int
	}{{"the verb", x.Verb, verbMax}, {"the target", x.Target, targetMax}, {"the reason", x.Reason, reasonMax}} {
		if err := usher.CheckText(f.what, f.text, f.max); err != nil {
			return err
		}
	}
	if len(x.Detail) > detailMax || x.Detail != nil && !json.Valid(x.Detail) {
		return usher.Errorf(usher.CodeInvalidRequest, "the detail is no JSON or too long")
	}
	if x.Operator.IsZero() {
		return usher.Errorf(usher.CodeInvalidRequest, "an action needs an operator")
	}
	return nil
}

const sqlAddAction = `
INSERT INTO operator_action (action_number, operator_id, verb, target, reason, detail, created_at)
SELECT coalesce(max(action_number), 0) + 1, $1, $2, $3, $4, $5, clock_timestamp() FROM operator_action
RETURNING action_number`

// LogAction writes an action down and returns its number. Call it before acting:
// nothing is then done that no line tells of, and a line without effect is
// harmless. It fails with CodeInvalidRequest, CodeUnavailable, and CodeUnknown
// when the line may or may not be there; acting is right in no such case.
func (a *Accounts) LogAction(ctx context.Context, x Action) (int64, error) {
	if err := x.check(); err != nil {
		return 0, err
	}
	if x.Detail == nil {
		x.Detail = json.RawMessage("{}")
	}
	var n int64
	err := pg.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		if err := lockSubject(ctx, tx, "action numbers"); err != nil {
			return err
		}
		return tx.QueryRow(ctx, sqlAddAction, [16]byte(x.Operator), x.Verb, x.Target, x.Reason, string(x.Detail)).Scan(&n)
	})
	if pg.IsData(err) {
		// JSON that PostgreSQL cannot store: a zero byte or a lone surrogate.
		return 0, usher.Errorf(usher.CodeInvalidRequest, "the detail holds a character that is not allowed")
	}
	if err != nil {
		return 0, fmt.Errorf("log action: %w", err)
	}
	return n, nil
}

// ActionFilter selects actions; zero fields select all.
type ActionFilter struct {
	Operator usher.OperatorID
	Target   string
	Verb     string
	// Before selects numbers below it: the last number of the page before.
	Before int64
	// Limit is the size of the page: 1 to 200, 0 is 50.
	Limit int
}

const sqlActions = `
SELECT action_number, created_at, operator_id, verb, target, reason, detail FROM operator_action
WHERE ($1::uuid IS NULL OR operator_id = $1) AND ($2 = '' OR target = $2) AND ($3 = '' OR verb = $3)
    AND ($4::bigint = 0 OR action_number < $4)
ORDER BY action_number DESC LIMIT $5`

// Actions lists what operators did, newest first. It fails with
// CodeInvalidRequest and CodeUnavailable.
func (a *Accounts) Actions(ctx context.Context, f ActionFilter) ([]Action, error) {
	if f.Limit == 0 {
		f.Limit = 50
	}
	if f.Limit < 0 || f.Limit > actionsPageMax || f.Before < 0 {
		return nil, usher.Errorf(usher.CodeInvalidRequest, "a page has 1 to %d actions", actionsPageMax)
	}
	for what, text := range map[string]string{"the target": f.Target, "the verb": f.Verb} {
		if text != "" {
			if err := usher.CheckText(what, text, targetMax); err != nil {
				return nil, err
			}
		}
	}
	var operator *[16]byte
	if !f.Operator.IsZero() {
		operator = (*[16]byte)(&f.Operator)
	}
	rows, err := a.pool.Query(ctx, sqlActions, operator, f.Target, f.Verb, f.Before, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list actions: %w", pg.Unavailable(err))
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Action, error) {
		var x Action
		err := row.Scan(&x.Number, &x.At, (*[16]byte)(&x.Operator), &x.Verb, &x.Target, &x.Reason, &x.Detail)
		return x, err
	})
	if err != nil {
		return nil, fmt.Errorf("list actions: %w", pg.Unavailable(err))
	}
	return out, nil
}
