package baseline

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
)

// Swap is h with seats taken by compare-and-swap: they are read without a lock,
// and the update counts only if no version has changed.
func Swap(h Holds) *Holds {
	h.swap = true
	return &h
}

// Tables makes what the alternatives need beside the schema.
const Tables = `
CREATE TABLE IF NOT EXISTS bench_lease (name text PRIMARY KEY, owner uuid NOT NULL, until timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS bench_message (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL);
CREATE TABLE IF NOT EXISTS bench_half (seat text PRIMARY KEY, owner text NOT NULL DEFAULT '')`

// Queued is a queue with one consumer that decides one hold per message: the
// consumer owns the inventory, so that nothing is ever contended.
type Queued struct {
	*Holds
	// Durable writes each message down before it is queued, as a broker does.
	Durable  bool
	messages chan message
}

type message struct {
	account usher.AccountID
	seats   []usher.SeatID
	key     string
	done    chan error
}

// NewQueued makes the queue. Its consumer is Run.
func NewQueued(h *Holds, durable bool) *Queued {
	return &Queued{Holds: h, Durable: durable, messages: make(chan message, 512)}
}

// Run consumes messages until ctx ends.
func (q *Queued) Run(ctx context.Context) {
	for {
		select {
		case m := <-q.messages:
			m.done <- q.Holds.Place(context.WithoutCancel(ctx), m.account, m.seats, m.key)
		case <-ctx.Done():
			return
		}
	}
}

const sqlEnqueue = `INSERT INTO bench_message (body) VALUES ($1)`

// Place sends a message and waits for its answer.
func (q *Queued) Place(ctx context.Context, account usher.AccountID, seats []usher.SeatID, key string) error {
	if q.Durable {
		if _, err := q.Pool.Exec(ctx, sqlEnqueue, account.String()+" "+key); err != nil {
			return err
		}
	}
	m := message{account, seats, key, make(chan error, 1)}
	select {
	case q.messages <- m:
		return <-m.done
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Leased asks a lock service for each seat before the transaction and gives the
// locks back after it. Service is a pool of its own, as a service would be.
type Leased struct {
	*Holds
	Service *pgxpool.Pool
	// Durable leases are rows that survive a crash of the service; the others are
	// held in its memory.
	Durable bool
}

const (
	sqlTryMemory  = `SELECT pg_try_advisory_lock($1)`
	sqlGiveMemory = `SELECT pg_advisory_unlock($1)`

	sqlTryLease = `
INSERT INTO bench_lease (name, owner, until) VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
WHERE bench_lease.until <= clock_timestamp()`

	sqlGiveLease = `DELETE FROM bench_lease WHERE name = $1 AND owner = $2`
)

// Place fails with ErrTaken when another caller has a lock or a seat.
func (l *Leased) Place(ctx context.Context, account usher.AccountID, seats []usher.SeatID, key string) error {
	conn, err := l.Service.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	for i, seat := range seats {
		ok, err := l.acquire(ctx, conn, account, seat)
		if err == nil && !ok {
			err = ErrTaken
		}
		if err != nil {
			return errors.Join(err, l.release(ctx, conn, account, seats[:i]))
		}
	}
	err = l.Holds.Place(ctx, account, seats, key)
	return errors.Join(err, l.release(ctx, conn, account, seats))
}

func (l *Leased) acquire(ctx context.Context, conn *pgxpool.Conn, owner usher.AccountID, seat usher.SeatID) (ok bool, err error) {
	if l.Durable {
		return Acquire(ctx, conn, owner, seat, 5*time.Second)
	}
	err = conn.QueryRow(ctx, sqlTryMemory, number(seat)).Scan(&ok)
	return ok, err
}

// Acquire takes the lease on a seat if nobody has it, or its time is over.
func Acquire(ctx context.Context, conn *pgxpool.Conn, owner usher.AccountID, seat usher.SeatID, term time.Duration) (bool, error) {
	tag, err := conn.Exec(ctx, sqlTryLease, string(seat), owner, term.Seconds())
	return tag.RowsAffected() == 1, err
}

func (l *Leased) release(ctx context.Context, conn *pgxpool.Conn, owner usher.AccountID, seats []usher.SeatID) error {
	for _, seat := range seats {
		var err error
		if l.Durable {
			_, err = conn.Exec(ctx, sqlGiveLease, string(seat), owner)
		} else {
			_, err = conn.Exec(ctx, sqlGiveMemory, number(seat))
		}
		if err != nil {
			return fmt.Errorf("give a lock back: %w", err)
		}
	}
	return nil
}

func number(seat usher.SeatID) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(seat))
	return int64(h.Sum64())
}
