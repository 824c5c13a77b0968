package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/pg"
)

const (
	sqlBeginReading = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`
	sqlEndReading   = `COMMIT`

	sqlReadSeats = `
SELECT seat_id, tier_id, status, version, hold_expires_at FROM seat_inventory WHERE event_id = $1 ORDER BY seat_id`

	sqlReadBuckets = `
SELECT tier_id, bucket, available, held, sold FROM inventory_bucket WHERE event_id = $1 ORDER BY tier_id, bucket`

	sqlReadChanges = `
SELECT seq, operation_id, aggregate_id, type, cause, payload, created_at
FROM outbox WHERE event_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`
)

// The holds that a reading is about.
var (
	readHold   = readingOf(`unnest($1::uuid[])`)
	readOrder  = readingOf(`(SELECT hold_id FROM orders WHERE order_id = $1)`)
	readOrders = readingOf(`(
    SELECT hold_id FROM orders WHERE event_id = $1 AND account_id = $2 ORDER BY created_at DESC, order_id DESC LIMIT 100)`)
	readLiveHolds = readingOf(`(
    SELECT hold_id FROM hold WHERE event_id = $1 AND account_id = $2 AND status IN ('held', 'payment_pending'))`)
)

// reading is the look-ups of trip 1 for holds and all that belongs to them,
// without locks and by other keys.
type reading struct{ holds, lines, orders, operations string }

func readingOf(keys string) reading {
	of := func(sql string) string {
		return strings.NewReplacer("unnest($1::uuid[])", keys, " FOR NO KEY UPDATE", "").Replace(sql)
	}
	return reading{of(sqlLockHolds), of(sqlReadHoldLines), of(sqlLockOrders), of(sqlLockOperations)}
}

func (b *loadBatch) read(r reading, args ...any) {
	b.Queue(r.holds, args...).Query(b.s.scanLockedHolds)
	b.Queue(r.lines, args...).Query(b.s.scanHoldLines)
	b.Queue(r.orders, args...).Query(b.s.scanOrders)
	b.Queue(r.operations, args...).Query(b.s.scanOperations)
}

// Hold reads a hold as it stands. It fails with CodeNotFound.
func (l *Ledger) Hold(ctx context.Context, id usher.HoldID) (out Hold, err error) {
	err = l.read(ctx, id.Event(), func(b *loadBatch) { b.read(readHold, []usher.HoldID{id}) }, func(s *state) error {
		h := s.holds[id]
		if h == nil {
			return errNoHold
		}
		out = s.holdNow(h)
		return nil
	})
	return out, err
}

// LiveHolds reads the account's live holds of one event, oldest first.
func (l *Ledger) LiveHolds(ctx context.Context, event usher.EventID, account usher.AccountID) (out []Hold, err error) {
	err = l.read(ctx, event, func(b *loadBatch) { b.read(readLiveHolds, event, account) }, func(s *state) error {
		out = make([]Hold, 0, len(s.holds))
		for _, h := range s.holds {
			if v := s.holdNow(h); v.Status != usher.HoldExpired {
				out = append(out, v)
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b Hold) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), compareIDs(a.ID, b.ID)) })
	return out, err
}

// Order reads an order as it stands. It fails with CodeNotFound.
func (l *Ledger) Order(ctx context.Context, id usher.OrderID) (out Order, err error) {
	err = l.read(ctx, id.Event(), func(b *loadBatch) { b.read(readOrder, id) }, func(s *state) error {
		o := s.orders[id]
		if o == nil {
			return errNoOrder
		}
		out = s.orderNow(o)
		for _, op := range s.operations {
			out.Operations = append(out.Operations, op.Operation)
		}
		return nil
	})
	slices.SortFunc(out.Operations, func(a, b Operation) int { return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), compareIDs(a.ID, b.ID)) })
	return out, err
}

// Orders reads the account's orders of one event, newest first, at most 100.
func (l *Ledger) Orders(ctx context.Context, event usher.EventID, account usher.AccountID) (out []Order, err error) {
	err = l.read(ctx, event, func(b *loadBatch) { b.read(readOrders, event, account) }, func(s *state) error {
		out = make([]Order, 0, len(s.orders))
		for _, o := range s.orders {
			out = append(out, s.orderNow(o))
		}
		return nil
	})
	slices.SortFunc(out, func(a, b Order) int { return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), compareIDs(b.ID, a.ID)) })
	return out, err
}

// holdNow is the hold as a reader sees it: past its deadline it is over, whether
// or not anybody has swept it.
func (s *state) holdNow(h *hold) Hold {
	v := s.holdView(h)
	if v.Status == usher.HoldHeld && !s.now.Before(v.ExpiresAt) {
		v.Status = usher.HoldExpired
	}
	return v
}

// orderNow is the order as a reader sees it: declined, it can be paid for until
// its hold is over.
func (s *state) orderNow(o *order) Order {
	v := s.orderView(o)
	if v.Status == usher.OrderDeclined && !s.now.Before(v.HoldExpiresAt) {
		v.Status = usher.OrderLapsed
	}
	return v
}

// errTorn says that a reading found an order without what belongs to it.
var errTorn = errors.New("order read without its hold or payment")

// read shows a consistent look at an event, its rules and prices and what is
// queued besides: one read-only snapshot of the event's home, in one round trip.
// The home is the primary always: neither decisions nor answers about money ever
// come from a replica.
//
// What is missing is looked for once more, on a fresh snapshot: a migration that
// rewrites a table leaves it empty for snapshots that are older (PostgreSQL, "MVCC
// caveats"), and an order that is there must not be denied. Both functions may be
// called twice.
func (l *Ledger) read(ctx context.Context, event usher.EventID, queue func(*loadBatch), show func(*state) error) error {
	err := l.readOnce(ctx, event, queue, show)
	if usher.CodeOf(err) == usher.CodeNotFound || errors.Is(err, errTorn) {
		err = l.readOnce(ctx, event, queue, show)
	}
	return err
}

func (l *Ledger) readOnce(ctx context.Context, event usher.EventID, queue func(*loadBatch), show func(*state) error) error {
	pool, err := l.homes.Shard(ctx, event)
	if err != nil {
		return err
	}
	s := newState(event)
	b := &loadBatch{s: s}
	b.Queue(sqlBeginReading)
	b.Queue(sqlReadLedger, event).QueryRow(s.scanLedger)
	queue(b)
	b.Queue(sqlEndReading)
	// A statement that fails leaves the transaction open; the pool closes such a
	// connection instead of lending it again.
	if err := pool.SendBatch(ctx, &b.Batch).Close(); err != nil {
		return notFound(pg.Unavailable(fmt.Errorf("read %s: %w", event, err)), errNoEvent)
	}
	if err := l.checkEpoch(event, s.epoch); err != nil {
		return err
	}
	if s.prices, err = l.prices.get(ctx, pool, event, s.epoch, s.rulesVersion); err != nil {
		return pg.Unavailable(err)
	}
	s.priceHolds()
	for _, o := range s.orders {
		if s.holds[o.Hold] == nil || !o.operation.IsZero() && s.operations[o.operation] == nil {
			return errTorn
		}
	}
	return show(s)
}

// Seats reads a consistent snapshot of every seat, in order of seat id. It fails
// with CodeNotFound.
func (l *Ledger) Seats(ctx context.Context, event usher.EventID) (out Snapshot, err error) {
	err = l.read(ctx, event, func(b *loadBatch) {
		b.Queue(sqlLedgerSeq, event).QueryRow(func(row pgx.Row) error { return row.Scan(&out.Seq) })
		b.Queue(sqlReadSeats, event).Query(func(rows pgx.Rows) (err error) {
			out.Seats, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s SeatState, err error) {
				err = row.Scan(&s.ID, &s.Tier, &s.Status, &s.Version, &s.ExpiresAt)
				return s, err
			})
			return err
		})
		b.readBuckets(&out.Buckets)
	}, func(s *state) error {
		out.Event, out.Now = event, s.now
		return nil
	})
	return out, err
}

// Changes reads at most limit outbox entries after the given number, in order.
// What this process has just committed to an event that is watched comes from
// memory.
func (l *Ledger) Changes(ctx context.Context, event usher.EventID, after int64, limit int) ([]Entry, error) {
	if entries := l.watchers.after(event, after, limit); len(entries) > 0 {
		return entries, nil
	}
	pool, err := l.homes.Shard(ctx, event)
	if err != nil {
		return nil, err
	}
	return readChanges(ctx, pool, event, after, limit)
}

func readChanges(ctx context.Context, q queryer, event usher.EventID, after int64, limit int) ([]Entry, error) {
	rows, err := q.Query(ctx, sqlReadChanges, event, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read changes of %s: %w", event, pg.Unavailable(err))
	}
	return collectEntries(rows, event)
}

func collectEntries(rows pgx.Rows, event usher.EventID) ([]Entry, error) {
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Entry, err error) {
		var raw []byte
		e.Event = event
		if err = row.Scan(&e.Seq, &e.Command, &e.Aggregate, &e.Type, &e.Cause, &raw, &e.At); err == nil {
			e.Payload, err = restorePayload(raw)
		}
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read changes of %s: %w", event, pg.Unavailable(err))
	}
	return out, nil
}

func notFound(err error, coded *usher.Error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return coded
	}
	return err
}

// Pool returns the pool of the event's home, for packages that keep their own
// tables beside the ledger's.
func (l *Ledger) Pool(ctx context.Context, event usher.EventID) (*pgxpool.Pool, error) {
	return l.homes.Shard(ctx, event)
}
