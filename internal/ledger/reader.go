package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/fault"
	"usher/internal/pg"
)

// Reader consumes the outbox of every event of every shard: at least once, per
// event in order. Handle runs inside the transaction that advances the cursor,
// so what it writes to the same shard happens exactly once. An error leaves the
// cursor where it was; the batch is handed over again later.
type Reader struct {
	Name   string
	Handle func(ctx context.Context, tx pgx.Tx, event usher.EventID, entries []Entry) error
}

const (
	readerBatch = 500
	// readerPoll finds what other processes committed; commits of this process
	// wake readers at once.
	readerPoll = 500 * time.Millisecond

	sqlEnsureCursors = `
INSERT INTO outbox_cursor (reader, event_id, seq)
SELECT $1, event_id, 0 FROM event_ledger
ON CONFLICT DO NOTHING`

	sqlBehindCursors = `
SELECT c.event_id FROM outbox_cursor c
JOIN event_ledger l ON l.event_id = c.event_id AND l.seq > c.seq
WHERE c.reader = $1`

	sqlLockCursor = `SELECT seq FROM outbox_cursor WHERE reader = $1 AND event_id = $2 FOR NO KEY UPDATE SKIP LOCKED`

	sqlAdvanceCursor = `UPDATE outbox_cursor SET seq = $3, updated_at = clock_timestamp() WHERE reader = $1 AND event_id = $2`
)

// RunReader runs the reader on every shard until ctx ends. Several processes may
// run the same reader: per event one of them works at a time.
func (l *Ledger) RunReader(ctx context.Context, r Reader) error {
	var wg sync.WaitGroup
	for _, shard := range l.homes.Shards() {
		wg.Go(func() { l.readShard(ctx, shard.Pool, r) })
	}
	wg.Wait()
	return ctx.Err()
}

func (l *Ledger) readShard(ctx context.Context, pool *pgxpool.Pool, r Reader) {
	wake, stop := l.watchers.watchAll()
	defer stop()
	tick := time.NewTicker(readerPoll)
	defer tick.Stop()
	for {
		if err := l.readBehind(ctx, pool, r); err != nil && ctx.Err() == nil {
			l.log.WarnContext(ctx, "outbox reader failed, will try again", "reader", r.Name, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case event := <-wake:
			// An event of another shard matches no cursor here and costs one look-up.
			if err := l.readEvent(ctx, pool, r, event); err != nil && ctx.Err() == nil {
				l.log.WarnContext(ctx, "outbox reader failed, will try again", "reader", r.Name, "event", event, "error", err)
			}
		}
	}
}

// readBehind visits every event whose cursor is behind its ledger. One event
// that fails does not keep the others waiting.
func (l *Ledger) readBehind(ctx context.Context, pool *pgxpool.Pool, r Reader) error {
	if _, err := pool.Exec(ctx, sqlEnsureCursors, r.Name); err != nil {
		return fmt.Errorf("make cursors: %w", err)
	}
	rows, err := pool.Query(ctx, sqlBehindCursors, r.Name)
	if err != nil {
		return fmt.Errorf("find events behind: %w", err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowTo[usher.EventID])
	if err != nil {
		return fmt.Errorf("find events behind: %w", err)
	}
	var errs []error
	for _, e := range events {
		errs = append(errs, l.readEvent(ctx, pool, r, e))
	}
	return errors.Join(errs...)
}

// readEvent hands over what is new of one event, batch after batch. Durable at
// each step: a batch's effects and its cursor commit together.
func (l *Ledger) readEvent(ctx context.Context, pool *pgxpool.Pool, r Reader, event usher.EventID) error {
	for more := true; more; {
		err := pg.InTx(ctx, pool, func(tx pgx.Tx) error {
			more = false
			var seq int64
			err := tx.QueryRow(ctx, sqlLockCursor, r.Name, event).Scan(&seq)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("lock cursor: %w", err)
			}
			entries, err := readChanges(ctx, tx, event, seq, readerBatch)
			if err != nil || len(entries) == 0 {
				return err
			}
			if err := r.Handle(ctx, tx, event, entries); err != nil {
				return fmt.Errorf("handle %s of %s after %d: %w", r.Name, event, seq, err)
			}
			if err := fault.Point(ctx, "outbox.before_cursor"); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, sqlAdvanceCursor, r.Name, event, entries[len(entries)-1].Seq); err != nil {
				return fmt.Errorf("advance cursor: %w", err)
			}
			more = len(entries) == readerBatch
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
