package waitingroom

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/pg"
)

const sqlHasLiveSession = `
SELECT coalesce((
    SELECT expires_at > clock_timestamp() FROM shopper_session
    WHERE event_id = $1 AND account_id = $2 AND ended_at IS NULL), false)`

// hasLiveSession is asked on the way to a join, which must not wait for a shard
// that is away.
func (r *Rooms) hasLiveSession(ctx context.Context, event usher.EventID, account usher.AccountID) (live bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	pool, err := r.homes.Shard(ctx, event)
	if err != nil {
		return false, err
	}
	err = pool.QueryRow(ctx, sqlHasLiveSession, event, account).Scan(&live)
	return live, err
}

const (
	sqlEndSession = `
UPDATE shopper_session SET ended_at = clock_timestamp(), end_reason = 'left'
WHERE event_id = $1 AND account_id = $2 AND ended_at IS NULL AND session_id = $3`

	sqlSessionExists = `SELECT EXISTS (SELECT FROM shopper_session WHERE session_id = $1 AND account_id = $2)`
)

// EndSession ends the account's shopper session and so frees its slot. It
// releases no hold: what is held stays held until its own deadline. Ending a
// session that has ended is harmless. It fails with CodeNotFound, also for
// somebody else's session, and CodeUnavailable.
func (r *Rooms) EndSession(ctx context.Context, account usher.AccountID, session usher.SessionID) error {
	exists := false
	err := r.inShard(ctx, session.Event(), func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sqlEndSession, session.Event(), account, session)
		if exists = tag.RowsAffected() == 1; err != nil || exists {
			return err
		}
		return tx.QueryRow(ctx, sqlSessionExists, session, account).Scan(&exists)
	})
	if err != nil {
		return fmt.Errorf("end session %s: %w", session, err)
	}
	if !exists {
		return usher.Errorf(usher.CodeNotFound, "no such session")
	}
	return nil
}

// inShard runs one bounded transaction in the event's home shard.
func (r *Rooms) inShard(ctx context.Context, event usher.EventID, fn func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pool, err := r.homes.Shard(ctx, event)
	if err != nil {
		return err
	}
	return pg.InTx(ctx, pool, func(tx pgx.Tx) error { return fn(ctx, tx) })
}

// touchShare is the part of the idle window within which a session is written at
// most once, however busy it is, and to which hold deadlines are rounded up.
const touchShare = 20

// touches collects what sessions did since the last write.
type touches struct {
	mu sync.Mutex
	// dirty maps a session to the time until which it must live at least; zero
	// asks for the idle window alone.
	dirty map[usher.SessionID]time.Time
	marks map[usher.SessionID]mark
	// wake asks for a write soon: a hold's deadline must not wait.
	wake chan struct{}
}

// mark says when a session was last taken for writing, and until when it lives
// at least.
type mark struct {
	at, until time.Time
}

func newTouches() touches {
	return touches{
		dirty: map[usher.SessionID]time.Time{}, marks: map[usher.SessionID]mark{}, wake: make(chan struct{}, 1),
	}
}

// Touch says that the session was used: it lives for another idle window, and at
// least until the given database time (a hold's deadline with its grace; zero
// for none). It costs no SQL: Run writes touches in batches, those with a new
// deadline within flushPause. A session that has ended stays ended.
func (r *Rooms) Touch(session usher.SessionID, until time.Time) {
	now := time.Now()
	pause := r.idleWindow(session.Event()) / touchShare
	t := &r.touches
	t.mu.Lock()
	defer t.mu.Unlock()
	m, known := t.marks[session]
	if !until.IsZero() {
		// Rounded up, so that a buyer who holds again and again is not written each time.
		until = until.Truncate(pause).Add(pause)
	}
	further := until.After(m.until)
	if known && !further && now.Sub(m.at) < pause {
		return
	}
	t.marks[session] = mark{now, later(m.until, until)}
	t.dirty[session] = later(t.dirty[session], until)
	if further {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// take hands over what is to be written and forgets marks too old to hold a
// touch back.
func (t *touches) take(oldest time.Time) map[usher.SessionID]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	dirty := t.dirty
	t.dirty = map[usher.SessionID]time.Time{}
	maps.DeleteFunc(t.marks, func(_ usher.SessionID, m mark) bool { return m.at.Before(oldest) })
	return dirty
}

// putBack returns touches that could not be written.
func (t *touches) putBack(dirty map[usher.SessionID]time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, until := range dirty {
		t.dirty[id] = later(t.dirty[id], until)
	}
}

func (r *Rooms) runFlush(ctx context.Context) {
	t := time.NewTicker(flushEvery)
	defer t.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-r.touches.wake:
			// What comes in meanwhile is written with it.
			select {
			case <-ctx.Done():
			case <-time.After(flushPause):
			}
		}
		// The last write happens after ctx has ended, and nobody waits for it long.
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		r.flush(own)
		cancel()
	}
}

const sqlTouchSessions = `
UPDATE shopper_session s SET expires_at = greatest(s.expires_at, clock_timestamp() + make_interval(secs => k.idle), k.until)
FROM unnest($1::uuid[], $2::float8[], $3::timestamptz[]) k(id, idle, until)
WHERE s.session_id = k.id AND s.ended_at IS NULL AND s.expires_at > clock_timestamp()`

// flushPause is how long a new deadline waits for others to be written with.
const flushPause = 200 * time.Millisecond

// flushMax bounds the sessions of one transaction.
const flushMax = 1000

// flush writes the collected touches; those of a shard that does not answer wait
// for the next time.
func (r *Rooms) flush(ctx context.Context) {
	// No idle window is longer than a day, so no mark is needed for longer than this.
	dirty := r.touches.take(time.Now().Add(-windowMax / touchShare))
	byShard := map[*pgxpool.Pool][]usher.SessionID{}
	for id := range dirty {
		pool, err := r.homes.Shard(ctx, id.Event())
		if err != nil {
			r.log.WarnContext(ctx, "session not extended", "session", id, "error", err)
			if usher.CodeOf(err) != usher.CodeNotFound {
				r.touches.putBack(map[usher.SessionID]time.Time{id: dirty[id]})
			}
			continue
		}
		byShard[pool] = append(byShard[pool], id)
	}
	for pool, ids := range byShard {
		// Every writer of several sessions locks them in this order.
		slices.SortFunc(ids, func(a, b usher.SessionID) int { return slices.Compare(a[:], b[:]) })
		for part := range slices.Chunk(ids, flushMax) {
			if err := r.flushPart(ctx, pool, part, dirty); err != nil {
				r.log.WarnContext(ctx, "sessions not extended yet", "sessions", len(part), "error", err)
				failed := map[usher.SessionID]time.Time{}
				for _, id := range part {
					failed[id] = dirty[id]
				}
				r.touches.putBack(failed)
			}
		}
	}
}

func (r *Rooms) flushPart(
	ctx context.Context, pool *pgxpool.Pool, ids []usher.SessionID, dirty map[usher.SessionID]time.Time,
) error {
	idle, until := make([]float64, len(ids)), make([]*time.Time, len(ids))
	for i, id := range ids {
		idle[i] = r.idleWindow(id.Event()).Seconds()
		if u := dirty[id]; !u.IsZero() {
			until[i] = &u
		}
	}
	return pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sqlTouchSessions, ids, idle, until)
		return err
	})
}
