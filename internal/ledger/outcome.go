package ledger

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

// outcome is what a run has decided: the answers that are due once it is durable.
type outcome struct {
	*state
	answers []answer
	errs    []error
}

// errPanicked says that a command's decision met rows that contradict each other, or
// a programming error. Nothing of its run was written.
var errPanicked = errors.New("a decision panicked")

// decide has every command of the group decide, in order, on one state.
func (l *Ledger) decide(ctx context.Context, s *state, r run, freed int) (o outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			l.log.ErrorContext(ctx, "decision panicked", "event", r.event, "size", len(r.items), "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %v", errPanicked, p)
		}
	}()
	o = outcome{s, make([]answer, len(r.items)), make([]error, len(r.items))}
	for i, it := range r.items {
		o.answers[i], o.errs[i] = it.Cmd.decide(s)
		o.answers[i].freed = freed
	}
	return o, nil
}

// tell gives the commands their answers.
func (l *Ledger) tell(items []*item, o outcome) {
	for i, it := range items {
		l.metrics.decided(it.Cmd, o.errs[i])
		it.Finish(o.answers[i], o.errs[i])
	}
}

// lostCommit is a COMMIT without an answer, of a run that had something to commit.
type lostCommit struct {
	error
	outcome
}

func (e *lostCommit) Unwrap() error { return e.error }

// learnTriesMax bounds how often a database that is away is asked, a third of a second.
const learnTriesMax = 6

// learn finds out on new connections whether the run was committed. The run has the
// ledger row locked until it is over, and is waited for until ctx ends; so under that
// lock its entry is there for good, or never will be. It fails with CodeUnknown.
func (l *Ledger) learn(ctx context.Context, r run, lost *lostCommit) (committed bool, err error) {
	last := lost.entries[len(lost.entries)-1]
	for tries := 1; ; {
		err := pg.InTx(ctx, r.pool, func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue(sqlLockLedger, r.event)
			b.Queue(sqlHasEntry, r.event, last.Seq, last.Command).QueryRow(func(row pgx.Row) error { return row.Scan(&committed) })
			return tx.SendBatch(ctx, b).Close()
		})
		if err == nil {
			return committed, nil
		}
		if !pg.IsLockTimeout(err) {
			tries++
		}
		if tries > learnTriesMax || pg.Jitter(ctx, tries) != nil {
			return false, &usher.Error{Code: usher.CodeUnknown, Message: pg.ErrCommitUnknown.Message,
				Err: fmt.Errorf("run group of %s: %w: %w", r.event, lost.error, err)}
		}
	}
}

// announce tells who waits in this process of what was committed.
func (l *Ledger) announce(s *state) {
	l.scheduleExpiry(s)
	if len(s.entries) > 0 {
		l.watchers.wake(s.event, s.epoch, s.entries)
	}
}

// tellOfDamage logs once for each hold that it cannot end.
func (l *Ledger) tellOfDamage(ctx context.Context, holds []usher.HoldID) {
	for _, id := range holds {
		if _, told := l.damaged.LoadOrStore(id, true); !told {
			l.log.ErrorContext(ctx, "hold cannot expire: its buckets count less than it has; run usher audit", "event", id.Event(), "hold", id)
		}
	}
}
