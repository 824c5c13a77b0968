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
	Name string
	// Types are the entries it wants; nil is all. The others are passed over
	// without being read, which is most of what a busy sale writes. A reader of
	// holds' entries has to read all: those have no index.
	Types  []EntryType
	Handle func(ctx context.Context, tx pgx.Tx, event usher.EventID, entries []Entry) error
}

const (
	readerBatch = 500
	// readerWindow is how many entries one step passes at most.
	readerWindow = 20_000
	// readerPoll finds what other processes committed; commits of this process
	// wake at once the readers that want their entries.
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

	// Everything up to the ledger's number is committed and visible: the entries
	// are written in the commit that moves it.
	sqlLedgerSeq = `SELECT seq FROM event_ledger WHERE event_id = $1`

	sqlReadTypes = `
SELECT seq, operation_id, aggregate_id, type, cause, payload, created_at
FROM outbox WHERE event_id = $1 AND seq > $2 AND seq <= $3 AND type = ANY ($4::text[])
    AND type NOT IN ('hold_placed', 'hold_released', 'hold_expired')
ORDER BY seq LIMIT $5`

	sqlAdvanceCursor = `UPDATE outbox_cursor SET seq = $3, updated_at = clock_timestamp() WHERE reader = $1 AND event_id = $2`
)

// RunReader runs the reader on every shard until ctx ends. Several processes may
// run the same reader: per event one of them works at a time. It fails at once for
// a reader that names types of holds.
func (l *Ledger) RunReader(ctx context.Context, r Reader) error {
	for _, t := range r.Types {
		if t == EntryHoldPlaced || t == EntryHoldReleased || t == EntryHoldExpired {
			return fmt.Errorf("outbox reader %s: %s is read only together with all types", r.Name, t)
		}
	}
	var wg sync.WaitGroup
	for _, shard := range l.homes.Shards() {
		wg.Go(func() { l.readShard(ctx, shard.Pool, r) })
	}
	wg.Wait()
	return ctx.Err()
}

func (l *Ledger) readShard(ctx context.Context, pool *pgxpool.Pool, r Reader) {
	wake, stop := l.watchers.watchAll(r.Types)
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
			if err := l.readEvent(ctx, pool, r, event, false); err != nil && ctx.Err() == nil {
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
		errs = append(errs, l.readEvent(ctx, pool, r, e, true))
	}
	return errors.Join(errs...)
}

// readEvent hands over what is new of one event, step after step. Durable at
// each step: a batch's effects and its cursor commit together. A cursor that has
// nothing to hand over moves along only when catchUp says so: at every commit of
// a busy sale that would be a write for nothing.
func (l *Ledger) readEvent(ctx context.Context, pool *pgxpool.Pool, r Reader, event usher.EventID, catchUp bool) error {
	for more := true; more; {
		err := pg.InTx(ctx, pool, func(tx pgx.Tx) error {
			more = false
			var cursor int64
			err := tx.QueryRow(ctx, sqlLockCursor, r.Name, event).Scan(&cursor)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("lock cursor: %w", err)
			}
			if err := tx.SendBatch(ctx, l.homeBatch(event)).Close(); err != nil {
				return fmt.Errorf("check epoch: %w", err)
			}
			entries, upto, err := r.next(ctx, tx, event, cursor)
			if err != nil {
				return err
			}
			if len(entries) > 0 {
				if err := r.Handle(ctx, tx, event, entries); err != nil {
					return fmt.Errorf("handle %s of %s after %d: %w", r.Name, event, cursor, err)
				}
			} else if !catchUp || upto == cursor {
				return nil
			}
			if err := fault.Point(ctx, "outbox.before_cursor"); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, sqlAdvanceCursor, r.Name, event, upto); err != nil {
				return fmt.Errorf("advance cursor: %w", err)
			}
			more = len(entries) == readerBatch || upto-cursor == readerWindow
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// next reads the reader's entries after the cursor and returns the number that
// they reach to: what lies between and is not among them is of no interest.
func (r *Reader) next(ctx context.Context, tx pgx.Tx, event usher.EventID, cursor int64) ([]Entry, int64, error) {
	var upto int64
	if err := tx.QueryRow(ctx, sqlLedgerSeq, event).Scan(&upto); err != nil {
		return nil, 0, fmt.Errorf("read ledger's number: %w", err)
	}
	upto = min(upto, cursor+readerWindow)
	if upto == cursor {
		return nil, cursor, nil
	}
	sql, args := sqlReadChanges, []any{event, cursor, readerBatch}
	if r.Types != nil {
		sql, args = sqlReadTypes, []any{event, cursor, upto, r.Types, readerBatch}
	}
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, 0, fmt.Errorf("read changes of %s: %w", event, err)
	}
	entries, err := collectEntries(rows, event)
	if n := len(entries); err == nil && (n == readerBatch || r.Types == nil && n > 0) {
		upto = entries[n-1].Seq
	}
	return entries, upto, err
}
