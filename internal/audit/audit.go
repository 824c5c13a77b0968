// Package audit re-derives, from the rows alone and with SQL of its own, whether
// usher kept its promises: every invariant of the specification as a check that
// names each violation. It shares no code with the packages that write.
//
// It reads only (its pool cannot write), event by event, each statement bounded
// by a statement timeout of a few seconds, so that it may run during a sale. It
// decides nothing and repairs nothing.
package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

// violationsMax bounds how many violations of one check on one event are named;
// the count goes on.
const violationsMax = 100

// Violation is one broken promise.
type Violation struct {
	Event usher.EventID `json:"eventId"`
	// Subject is the seat, hold, order, operation, code or account concerned.
	Subject string `json:"subject"`
	Detail  string `json:"detail"`
}

// Result is the outcome of one check over all events audited.
type Result struct {
	Check string `json:"check"`
	// Proves says in one sentence what holds when there is no violation.
	Proves string `json:"proves"`
	// Count is the number of violations; Violations names at most violationsMax
	// of them per event.
	Count      int         `json:"count"`
	Violations []Violation `json:"violations,omitempty"`
}

// Report is the outcome of an audit.
type Report struct {
	StartedAt time.Time       `json:"startedAt"`
	Seconds   float64         `json:"seconds"`
	Events    []usher.EventID `json:"events"`
	Checks    []Result        `json:"checks"`
	// Violations is the sum over all checks: 0 is a clean audit.
	Violations int `json:"violations"`
}

// Clean reports whether nothing was found.
func (r *Report) Clean() bool { return r.Violations == 0 }

// sqlEvents finds an event by what is left of it: one without a ledger is a finding, not
// an event less.
const sqlEvents = `
SELECT event_id FROM event_ledger UNION SELECT event_id FROM event_rules UNION SELECT event_id FROM outbox_cursor
ORDER BY event_id`

// Run audits every event of the given shards, or only the named events. It fails
// when a check could not be carried out, and with CodeNotFound when a named event
// is on none of the shards: an audit that did not look is not clean.
func Run(ctx context.Context, shards []pg.Shard, only ...usher.EventID) (*Report, error) {
	r := newReport()
	for _, shard := range shards {
		if err := r.runShard(ctx, shard.Pool, only); err != nil {
			return nil, fmt.Errorf("audit shard %d: %w", shard.Number, err)
		}
	}
	for _, e := range only {
		if !wanted(e, r.Events) || len(r.Events) == 0 {
			return nil, usher.Errorf(usher.CodeNotFound, "%s is on none of these shards", e)
		}
	}
	r.Seconds = time.Since(r.StartedAt).Seconds()
	return r, nil
}

func newReport() *Report {
	r := &Report{StartedAt: time.Now().UTC(), Events: []usher.EventID{}}
	for _, c := range checks {
		r.Checks = append(r.Checks, Result{Check: c.name, Proves: c.proves})
	}
	return r
}

// reader is the part of a pool that the checks use.
type reader interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (r *Report) runShard(ctx context.Context, pool reader, only []usher.EventID) error {
	rows, err := pool.Query(ctx, sqlEvents)
	if err != nil {
		return fmt.Errorf("list events: %w", err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowTo[usher.EventID])
	if err != nil {
		return fmt.Errorf("list events: %w", err)
	}
	for _, e := range events {
		if !wanted(e, only) {
			continue
		}
		r.Events = append(r.Events, e)
		for i, c := range checks {
			found, err := c.find(ctx, pool, e)
			if err != nil {
				return fmt.Errorf("check %s of %s: %w", c.name, e, err)
			}
			res := &r.Checks[i]
			res.Count += len(found)
			res.Violations = append(res.Violations, found[:min(len(found), violationsMax)]...)
			r.Violations += len(found)
		}
	}
	return nil
}

func wanted(e usher.EventID, only []usher.EventID) bool {
	for _, o := range only {
		if o == e {
			return true
		}
	}
	return len(only) == 0
}

// check is one invariant.
type check struct {
	name, proves string
	find         func(ctx context.Context, pool reader, event usher.EventID) ([]Violation, error)
}

// query makes a check of a statement that takes the event as $1 and returns a
// subject and a detail for every violation.
func query(sql string) func(context.Context, reader, usher.EventID) ([]Violation, error) {
	return func(ctx context.Context, pool reader, event usher.EventID) ([]Violation, error) {
		rows, err := pool.Query(ctx, sql, event)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, func(row pgx.CollectableRow) (v Violation, err error) {
			v.Event = event
			err = row.Scan(&v.Subject, &v.Detail)
			return v, err
		})
	}
}
