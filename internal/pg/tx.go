package pg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/fault"
)

const (
	commitTimeout         = 10 * time.Second
	rollbackTimeout       = 2 * time.Second
	retryAfterUnavailable = 2 * time.Second
	txAttemptsMax         = 4
)

// ErrCommitUnknown says that COMMIT was sent and no answer came: the
// transaction may have committed or not. Only our own rows can tell.
var ErrCommitUnknown = &usher.Error{Code: usher.CodeUnknown, Message: "the outcome is not known yet: retry with the same key"}

// Commit is the only place in usher that commits. It never commits on a
// caller's context: pgx would send a cancel when a browser tab closes, and a
// commit that waits for its standby would then become visible without being
// replicated. It fails with ErrCommitUnknown when no definite answer came
// within its own cap; any other error is a definite abort.
func Commit(ctx context.Context, tx pgx.Tx) error {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if err := fault.Point(ctx, "pg.before_commit"); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	err := tx.Commit(own)
	if ferr := fault.Point(ctx, "pg.after_commit"); ferr != nil {
		return fmt.Errorf("%w (%w)", ErrCommitUnknown, ferr)
	}
	if err == nil {
		return nil
	}
	// A server's own answer to COMMIT, and "it was rolled back", are definite.
	if errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pgx.ErrTxClosed) || definiteAbort(err) {
		return fmt.Errorf("commit: %w", err)
	}
	return fmt.Errorf("%w (%w)", ErrCommitUnknown, err)
}

// definiteAbort reports an error answer to COMMIT that proves nothing was
// committed. Shutdown and connection classes (57P, 08) may follow a durable
// commit record, so they prove nothing.
func definiteAbort(err error) bool {
	s := State(err)
	return s != "" && s[:2] != "57" && s[:2] != "08"
}

// Rollback ends a transaction whatever became of the caller's context.
func Rollback(ctx context.Context, tx pgx.Tx) {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = tx.Rollback(own)
}

// InTx runs fn in one READ COMMITTED transaction and commits it; serialization
// failures and deadlocks run it again a few times with jitter, within ctx, and are
// CodeUnavailable in the end. fn must have no effect outside the transaction. A lost
// answer to COMMIT comes back as ErrCommitUnknown: the caller's statement must be
// safe to repeat.
func InTx(ctx context.Context, pool *pgxpool.Pool, fn func(tx pgx.Tx) error) error {
	for attempt := 1; ; attempt++ {
		err := inTxOnce(ctx, pool, fn)
		if err == nil || !IsRetryable(err) || attempt == txAttemptsMax {
			return Unavailable(err)
		}
		if err := Jitter(ctx, attempt); err != nil {
			return Unavailable(err)
		}
	}
}

func inTxOnce(ctx context.Context, pool *pgxpool.Pool, fn func(tx pgx.Tx) error) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := fn(tx); err != nil {
		Rollback(ctx, tx)
		return err
	}
	return Commit(ctx, tx)
}

// Jitter waits a random time that grows with the attempt (about 5, 10, 20 ms)
// and returns the context's error if it ends first.
func Jitter(ctx context.Context, attempt int) error {
	base := 5 * time.Millisecond << min(attempt-1, 5)
	t := time.NewTimer(base/2 + rand.N(base))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
