package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/pg"
)

const (
	sqlReadHold = `
SELECT hold_id, account_id, session_id, status, expires_at, grace_until, seat_ids, tier_ids, price_version,
    amount_minor, currency, idempotency_key, request_digest, created_at, ended_at, places
FROM hold WHERE hold_id = $1`

	sqlReadLiveHolds = `
SELECT hold_id, account_id, session_id, status, expires_at, grace_until, seat_ids, tier_ids, price_version,
    amount_minor, currency, idempotency_key, request_digest, created_at, ended_at, places
FROM hold
WHERE event_id = $1 AND account_id = $2 AND status IN ('held', 'payment_pending')
    AND (status = 'payment_pending' OR expires_at > clock_timestamp())
ORDER BY created_at, hold_id`

	sqlReadOrder = `
SELECT order_id, hold_id, account_id, amount_minor, currency, status, payment_operation_id, created_at,
    confirmed_at, captured_at, closed_at, close_reason
FROM orders WHERE order_id = $1`

	sqlReadOrderOfHold = `SELECT order_id FROM orders WHERE hold_id = $1`

	sqlReadOrders = `
SELECT order_id FROM orders WHERE event_id = $1 AND account_id = $2 ORDER BY created_at DESC, order_id DESC LIMIT 100`

	sqlReadOperations = `
SELECT operation_id, order_id, kind, status, provider, provider_reference, method_token, amount_minor,
    currency, idempotency_key, action_url, provider_code, capture_before, sent_at, settled_at,
    created_at, updated_at, next_at, attempts, parked_at, last_error
FROM payment_operation WHERE order_id = $1 ORDER BY operation_id`

	sqlReadSeats = `
SELECT seat_id, tier_id, status, version, hold_expires_at FROM seat_inventory WHERE event_id = $1 ORDER BY seat_id`

	sqlReadLinesOfHold = `SELECT tier_id, bucket, quantity FROM hold_line WHERE hold_id = $1 ORDER BY tier_id, bucket`

	sqlReadBuckets = `
SELECT tier_id, bucket, available, held, sold FROM inventory_bucket WHERE event_id = $1 ORDER BY tier_id, bucket`

	sqlReadSeq = `SELECT seq, clock_timestamp() FROM event_ledger WHERE event_id = $1`

	sqlReadChanges = `
SELECT seq, operation_id, aggregate_id, type, cause, payload, created_at
FROM outbox WHERE event_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`
)

// Hold reads a hold as it stands. It fails with CodeNotFound.
func (l *Ledger) Hold(ctx context.Context, id usher.HoldID) (Hold, error) {
	var out Hold
	err := l.read(ctx, id.Event(), func(r *reading) error {
		h, err := scanHold(r.tx.QueryRow(ctx, sqlReadHold, id))
		if err != nil {
			return notFound(err, errNoHold)
		}
		out, err = r.holdView(ctx, h)
		return err
	})
	return out, err
}

// LiveHolds reads the account's live holds of one event, oldest first.
func (l *Ledger) LiveHolds(ctx context.Context, event usher.EventID, account usher.AccountID) ([]Hold, error) {
	var out []Hold
	err := l.read(ctx, event, func(r *reading) error {
		out = []Hold{}
		rows, err := r.tx.Query(ctx, sqlReadLiveHolds, event, account)
		if err != nil {
			return fmt.Errorf("read holds: %w", err)
		}
		holds, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*hold, error) { return scanHold(row) })
		for _, h := range holds {
			if err == nil {
				var v Hold
				v, err = r.holdView(ctx, h)
				out = append(out, v)
			}
		}
		return err
	})
	return out, err
}

// Order reads an order as it stands. It fails with CodeNotFound.
func (l *Ledger) Order(ctx context.Context, id usher.OrderID) (Order, error) {
	var out Order
	err := l.read(ctx, id.Event(), func(r *reading) error {
		var err error
		out, err = r.order(ctx, id)
		return err
	})
	return out, err
}

// Orders reads the account's orders of one event, newest first, at most 100.
func (l *Ledger) Orders(ctx context.Context, event usher.EventID, account usher.AccountID) ([]Order, error) {
	var out []Order
	err := l.read(ctx, event, func(r *reading) error {
		out = []Order{}
		rows, err := r.tx.Query(ctx, sqlReadOrders, event, account)
		if err != nil {
			return fmt.Errorf("read orders: %w", err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[usher.OrderID])
		for _, id := range ids {
			if err == nil {
				var o Order
				o, err = r.order(ctx, id)
				out = append(out, o)
			}
		}
		return err
	})
	return out, err
}

// reading is one consistent look at an event: a read-only snapshot with its prices.
type reading struct {
	tx     pgx.Tx
	now    time.Time
	rules  usher.Rules
	prices priceTable
}

// read runs fn on one snapshot of the event's home, the primary always: neither
// decisions nor answers about money ever come from a replica.
//
// What is missing is looked for once more, on a fresh snapshot: a migration that
// rewrites a table leaves it empty for snapshots that are older (PostgreSQL, "MVCC
// caveats"), and an order that is there must not be denied. fn may run twice.
func (l *Ledger) read(ctx context.Context, event usher.EventID, fn func(*reading) error) error {
	err := l.readOnce(ctx, event, fn)
	if usher.CodeOf(err) == usher.CodeNotFound || errors.Is(err, pgx.ErrNoRows) {
		err = l.readOnce(ctx, event, fn)
	}
	return err
}

func (l *Ledger) readOnce(ctx context.Context, event usher.EventID, fn func(*reading) error) error {
	pool, err := l.homes.Shard(ctx, event)
	if err != nil {
		return err
	}
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pg.Unavailable(pgx.BeginTxFunc(ctx, pool, opts, func(tx pgx.Tx) error {
		r := &reading{tx: tx}
		_, version, rules, now, err := scanLedger(tx.QueryRow(ctx, sqlReadLedger, event))
		if err != nil {
			return notFound(err, usher.Errorf(usher.CodeNotFound, "no such event"))
		}
		r.rules, r.now = rules, now
		if r.prices, err = l.prices.get(ctx, tx, event, version); err != nil {
			return err
		}
		return fn(r)
	}))
}

func (r *reading) holdView(ctx context.Context, h *hold) (Hold, error) {
	v := h.Hold
	v.Event, v.Now = v.ID.Event(), r.now
	r.price(v.Seats, v.PriceVersion, v.Amount.Currency)
	var err error
	if v.Items, err = r.items(ctx, h); err != nil {
		return Hold{}, err
	}
	// A hold past its deadline is over, whether or not anybody has swept it.
	if v.Status == usher.HoldHeld && !r.now.Before(v.ExpiresAt) {
		v.Status = usher.HoldExpired
	}
	err = r.tx.QueryRow(ctx, sqlReadOrderOfHold, v.ID).Scan(&v.Order)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Hold{}, fmt.Errorf("read order of hold: %w", err)
	}
	return v, nil
}

func (r *reading) price(seats []Seat, version int, currency usher.Currency) {
	for i := range seats {
		seats[i].Price = usher.Money{AmountMinor: r.prices[version][seats[i].Tier].amount, Currency: currency}
	}
}

// items reads a hold's places without names, at its prices.
func (r *reading) items(ctx context.Context, h *hold) ([]Item, error) {
	if h.places == len(h.Seats) {
		return nil, nil
	}
	rows, err := r.tx.Query(ctx, sqlReadLinesOfHold, h.ID)
	if err != nil {
		return nil, fmt.Errorf("read lines of hold: %w", err)
	}
	lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l holdLine, err error) {
		err = row.Scan(&l.tier, &l.bucket, &l.quantity)
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("read lines of hold: %w", err)
	}
	return r.prices.itemsAt(h.PriceVersion, h.Amount.Currency, itemsOf(lines)), nil
}

func (r *reading) order(ctx context.Context, id usher.OrderID) (Order, error) {
	o, err := scanOrder(r.tx.QueryRow(ctx, sqlReadOrder, id))
	if err != nil {
		return Order{}, notFound(err, errNoOrder)
	}
	h, err := scanHold(r.tx.QueryRow(ctx, sqlReadHold, o.Hold))
	if err != nil {
		return Order{}, fmt.Errorf("read hold of order: %w", err)
	}
	v := o.Order
	v.Event, v.Now, v.Seats = id.Event(), r.now, h.Seats
	v.HoldExpiresAt, v.GraceUntil = h.ExpiresAt, h.GraceUntil
	r.price(v.Seats, h.PriceVersion, h.Amount.Currency)
	if v.Items, err = r.items(ctx, h); err != nil {
		return Order{}, err
	}
	if v.Status == usher.OrderDeclined && !r.now.Before(h.ExpiresAt) {
		v.Status = usher.OrderLapsed
	}
	rows, err := r.tx.Query(ctx, sqlReadOperations, id)
	if err != nil {
		return Order{}, fmt.Errorf("read operations of order: %w", err)
	}
	ops, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*operation, error) { return scanOperation(row) })
	if err != nil {
		return Order{}, err
	}
	for _, op := range ops {
		switch {
		case op.ID == o.operation:
			v.Authorization = &op.Operation
		case op.Kind == usher.OperationCapture:
			v.Capture = &op.Operation
		}
	}
	return v, nil
}

// Seats reads a consistent snapshot of every seat, in order of seat id. It fails
// with CodeNotFound.
func (l *Ledger) Seats(ctx context.Context, event usher.EventID) (Snapshot, error) {
	out := Snapshot{Event: event}
	err := l.read(ctx, event, func(r *reading) error {
		if err := r.tx.QueryRow(ctx, sqlReadSeq, event).Scan(&out.Seq, &out.Now); err != nil {
			return fmt.Errorf("read seq: %w", err)
		}
		rows, err := r.tx.Query(ctx, sqlReadSeats, event)
		if err != nil {
			return fmt.Errorf("read seats: %w", err)
		}
		out.Seats, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s SeatState, err error) {
			err = row.Scan(&s.ID, &s.Tier, &s.Status, &s.Version, &s.ExpiresAt)
			return s, err
		})
		if err != nil {
			return err
		}
		out.Buckets, err = r.buckets(ctx, event)
		return err
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
			err = json.Unmarshal(raw, &e.Payload)
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
