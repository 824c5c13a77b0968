package waitingroom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
	"usher/internal/token"
)

// Risk is what is known about how likely a join is a bot's. It is stored with
// the place and changes nothing about it. It must hold no personal data.
type Risk struct {
	// Score is 0 (no suspicion) to 100.
	Score int `json:"score"`
	// Signals names what was noticed, for example "new_account".
	Signals []string `json:"signals,omitempty"`
}

const (
	signalsMax    = 16
	signalTextMax = 64
)

func (k Risk) encode() ([]byte, error) {
	if k.Score < 0 || k.Score > 100 || len(k.Signals) > signalsMax {
		return nil, usher.Errorf(usher.CodeInvalidRequest, "risk must be a score of 0 to 100 with at most %d signals", signalsMax)
	}
	for _, s := range k.Signals {
		if err := usher.CheckText("risk signal", s, signalTextMax); err != nil {
			return nil, err
		}
	}
	return json.Marshal(k)
}

// Join gives the account a place in the queue, or the place it has: joining
// again, from whatever tab or device, changes nothing. Who lapsed, left or had a
// session that is over gets a new place at the end. The place is durable when
// Join returns. It fails with CodeNotFound, CodeQueueClosed, CodeInvalidRequest,
// CodeBusy, CodeUnknown (join again) and CodeUnavailable.
func (r *Rooms) Join(ctx context.Context, event usher.EventID, account usher.AccountID, risk Risk) (Ticket, error) {
	text, err := risk.encode()
	if err != nil {
		return Ticket{}, err
	}
	c := command{kind: join, account: account, risk: text}
	d, err := r.queue.Do(ctx, event, c)
	if err == nil && d.consult && r.turnIsOver(ctx, event, account, d) {
		c.ended = d.entry.turn
		d, err = r.queue.Do(ctx, event, c)
	}
	if err != nil {
		return Ticket{}, err
	}
	return r.ticket(event, d), nil
}

// turnIsOver asks the home shard whether a claimed turn's session has ended, or,
// for a lapsed turn, never began. When the shard cannot tell, the place stays
// what it is: joins work without the shard, and nobody gets two places.
func (r *Rooms) turnIsOver(ctx context.Context, event usher.EventID, account usher.AccountID, d decision) bool {
	live, err := r.hasLiveSession(ctx, event, account)
	if err != nil {
		r.log.WarnContext(ctx, "session not checked at rejoin", "event", event, "error", err)
		return false
	}
	return !live
}

// Leave gives the account's place up and ends the session that it became, if
// any. Doing it again is harmless. It fails with CodeNotFound, CodeNotInQueue,
// CodeUnknown (repeat it), CodeBusy and CodeUnavailable; a session that could not
// be ended because its shard is away ends when it is idle.
func (r *Rooms) Leave(ctx context.Context, event usher.EventID, account usher.AccountID) error {
	d, err := r.queue.Do(ctx, event, command{kind: leave, account: account})
	if err != nil {
		return err
	}
	if d.entry.session == nil {
		return nil
	}
	return r.EndSession(ctx, account, *d.entry.session)
}

const sqlReadState = `SELECT ` + stateColumns + `, clock_timestamp() FROM queue_state s WHERE s.event_id = $1`

// Me reads the account's place. It takes no lock and needs no shard. It fails
// with CodeNotFound, CodeNotInQueue and CodeUnavailable.
func (r *Rooms) Me(ctx context.Context, event usher.EventID, account usher.AccountID) (Ticket, error) {
	d, err := r.readPlace(ctx, event, account)
	if err != nil {
		return Ticket{}, fmt.Errorf("read place in %s: %w", event, pg.Unavailable(err))
	}
	return r.ticket(event, d), nil
}

func (r *Rooms) readPlace(ctx context.Context, event usher.EventID, account usher.AccountID) (decision, error) {
	var b pgx.Batch
	b.Queue(sqlReadState, event)
	b.Queue(sqlReadEntries, event, [][16]byte{account})
	res := r.homes.Room.SendBatch(ctx, &b)
	g := &group{entries: map[usher.AccountID]*entry{}}
	var err error
	if g.state, err = scanState(res.QueryRow(), event, &g.now); err == nil {
		err = g.scanEntries(res)
	}
	if err := errors.Join(err, res.Close()); err != nil {
		return decision{}, err
	}
	e := g.entries[account]
	if e == nil {
		return decision{}, errNotInQueue()
	}
	if e.number != numberless && e.number < g.serving {
		rows, err := r.homes.Room.Query(ctx, sqlReadCalls, event, g.round, []int64{e.number})
		if err == nil {
			err = g.scanCalls(rows)
		}
		if err != nil {
			return decision{}, err
		}
	}
	return g.answer(e), nil
}

// Place tells the number of a ticket from the ticket itself; of the database it
// needs the bucket's one row, which all its tickets share and which is kept in
// memory. Number is nil while the bucket is open. It says nothing about whether
// the place was called, lapsed or left: that is Me. It fails with CodeNotInQueue
// for a ticket that is not of this event and account, CodeOlderRound after the
// queue was started anew, CodeNotFound and CodeUnavailable.
func (r *Rooms) Place(ctx context.Context, event usher.EventID, account usher.AccountID, ticket string) (*int64, error) {
	payload, err := r.keys.Verify(token.Queue, ticket)
	p, ok := decodeQueuePayload(payload)
	if err != nil || !ok || p.event != event || p.account != account {
		return nil, errNotInQueue()
	}
	v := r.view(event)
	if v == nil {
		return nil, errNoRoom()
	}
	if p.round < v.round {
		return nil, errOlderRound()
	}
	b, err := r.buckets.get(ctx, r, bucketID{event, p.round, p.bucket})
	if err != nil || b == nil {
		return nil, err
	}
	// Only a room that lost durable joins can have signed an index it does not know.
	if p.index >= b.size {
		return nil, errNotInQueue()
	}
	number := b.place(p.index)
	return &number, nil
}

// bucketID names a bucket of any room.
type bucketID struct {
	event  usher.EventID
	round  int
	bucket int64
}

// bucketCacheMax bounds the closed buckets kept in memory: over an hour of full
// buckets of 100 ms, a few megabytes.
const bucketCacheMax = 40_000

// bucketCache keeps closed buckets, which never change.
type bucketCache struct {
	mu   sync.Mutex
	rows map[bucketID]*bucketRow
}

const sqlReadBucket = `
SELECT bucket, base, size, perm_key FROM queue_bucket WHERE event_id = $1 AND round = $2 AND bucket = $3`

// get returns the closed bucket, or nil while it is open.
func (c *bucketCache) get(ctx context.Context, r *Rooms, id bucketID) (*bucketRow, error) {
	c.mu.Lock()
	b := c.rows[id]
	c.mu.Unlock()
	if b != nil {
		return b, nil
	}
	b = &bucketRow{}
	var key []byte
	err := r.homes.Room.QueryRow(ctx, sqlReadBucket, id.event, id.round, id.bucket).Scan(&b.number, &b.base, &b.size, &key)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read bucket of %s: %w", id.event, pg.Unavailable(err))
	}
	b.key = [32]byte(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	// Starting over is simple, and costs one read per bucket that is still asked for.
	if c.rows == nil || len(c.rows) >= bucketCacheMax {
		c.rows = map[bucketID]*bucketRow{}
	}
	c.rows[id] = b
	return b, nil
}
