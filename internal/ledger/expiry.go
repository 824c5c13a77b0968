package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/fault"
	"usher/internal/pg"
)

const (
	// slotLength is how long deadlines of one event are collected into one message.
	slotLength = 250 * time.Millisecond
	// messageMargin is how much later than its deadline a message comes at least:
	// this process's clock and the database's drift a little within one hold.
	messageMargin = 25 * time.Millisecond
	// messagesMax bounds the messages that wait in one process, at some ten
	// megabytes: a hundred events with five minutes of holds each.
	messagesMax = 1 << 17
	// rebuildPage is how many deadlines are read at once at start.
	rebuildPage  = 5000
	rebuildRetry = 5 * time.Second

	// Holds with one deadline are one message, so the page mark needs no id.
	sqlLiveDeadlines = `
SELECT event_id, expires_at, extract(epoch FROM expires_at - clock_timestamp())::float8
FROM hold
WHERE status = 'held' AND (event_id, expires_at) > ($1, $2)
ORDER BY event_id, expires_at
LIMIT $3`
)

// messages are this process's delayed expiry messages. A message says "something
// of this event may be due" and is kept in memory alone: it decides nothing, and
// losing it costs nothing but time until the next group or the sweep.
//
// Deadlines are database times; what is kept is how long from now they are, by
// this process's monotonic clock, in slots. All holds of an event whose deadlines
// lie in one slot are one message.
type messages struct {
	mu sync.Mutex
	// loops is how many RunExpiry run; without one nothing is kept.
	loops int
	// start is the beginning of slot 0, next the first slot not sent yet.
	start  time.Time
	next   int64
	slots  map[int64]map[usher.EventID]struct{}
	queued int
	// expiring holds the events whose due holds are being freed; true asks for
	// another look.
	expiring map[usher.EventID]bool
}

func newMessages() *messages {
	return &messages{start: time.Now(), slots: map[int64]map[usher.EventID]struct{}{}, expiring: map[usher.EventID]bool{}}
}

// listen has messages kept from now on, until the function it returns is called.
func (m *messages) listen() (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loops++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.loops--; m.loops == 0 {
			clear(m.slots)
			m.queued = 0
		}
	}
}

// add keeps a message for each deadline, given as the time from now on. It
// returns how many found no place.
func (m *messages) add(event usher.EventID, in ...time.Duration) (dropped int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.loops == 0 {
		return 0
	}
	elapsed := time.Since(m.start)
	for _, d := range in {
		slot := max(int64((elapsed+d+messageMargin)/slotLength)+1, m.next)
		events := m.slots[slot]
		if _, known := events[event]; known {
			continue
		}
		if m.queued >= messagesMax {
			dropped++
			continue
		}
		if events == nil {
			events = map[usher.EventID]struct{}{}
			m.slots[slot] = events
		}
		events[event] = struct{}{}
		m.queued++
	}
	return dropped
}

// due takes the messages whose time has come.
func (m *messages) due() (events []usher.EventID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for now := int64(time.Since(m.start) / slotLength); m.next <= now; m.next++ {
		for e := range m.slots[m.next] {
			events = append(events, e)
		}
		m.queued -= len(m.slots[m.next])
		delete(m.slots, m.next)
	}
	return events
}

// begin reports whether the caller is to free the event's due holds; otherwise
// somebody does, and will look again.
func (m *messages) begin(event usher.EventID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, busy := m.expiring[event]
	m.expiring[event] = busy
	return !busy
}

// end reports whether somebody has asked for another look meanwhile.
func (m *messages) end(event usher.EventID) (again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if again = m.expiring[event]; again {
		m.expiring[event] = false
	} else {
		delete(m.expiring, event)
	}
	return again
}

// RunExpiry sends this process's expiry messages until ctx ends: one for each
// hold that a commit of this process left waiting for its deadline, and, at
// start, for each hold that lives. A message is an empty group, which decides by
// the database's clock under the locks; late, repeated and lost ones are harmless.
func (l *Ledger) RunExpiry(ctx context.Context) error {
	defer l.messages.listen()()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, shard := range l.homes.Shards() {
		wg.Go(func() { l.rebuildUntilDone(ctx, shard) })
	}
	tick := time.NewTicker(slotLength)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		// One event's locks never keep another's message waiting.
		for _, event := range l.messages.due() {
			wg.Go(func() { l.deliver(ctx, event) })
		}
	}
}

// deliver runs one message.
func (l *Ledger) deliver(ctx context.Context, event usher.EventID) {
	times := 1
	switch err := fault.Point(ctx, "expiry.message"); {
	case errors.Is(err, fault.ErrTwice):
		times = 2
	case err != nil:
		l.metrics.messages.WithLabelValues("lost").Inc()
		return
	}
	for range times {
		l.metrics.messages.WithLabelValues("sent").Inc()
		l.expire(ctx, event)
	}
}

// expire frees all that is due of the event, unless somebody in this process
// does: then that one looks again, so that many messages are few groups.
func (l *Ledger) expire(ctx context.Context, event usher.EventID) {
	if !l.messages.begin(event) {
		return
	}
	for again := true; again; again = l.messages.end(event) {
		if err := l.expireAll(ctx, event); err != nil && ctx.Err() == nil {
			l.log.WarnContext(ctx, "expiry failed, the sweep will try again", "event", event, "error", err)
		}
	}
}

func (l *Ledger) expireAll(ctx context.Context, event usher.EventID) error {
	if err := fault.Point(ctx, "expiry.before_group"); err != nil {
		return err
	}
	// Fewer than a long group frees are all that was due.
	for n := dueMin; n >= dueMin; {
		var err error
		if n, err = l.ExpireHolds(ctx, event); err != nil {
			return fmt.Errorf("expire holds of %s: %w", event, err)
		}
	}
	return nil
}

// scheduleExpiry keeps messages for the holds that a commit left waiting for
// their deadlines. The database read its clock before the commit, so the time
// left is never taken too short.
func (l *Ledger) scheduleExpiry(s *state) {
	var in []time.Duration
	for _, h := range s.holds {
		if h.dirty && h.Status == usher.HoldHeld {
			in = append(in, h.ExpiresAt.Sub(s.now))
		}
	}
	l.countDropped(l.messages.add(s.event, in...))
}

func (l *Ledger) countDropped(n int) {
	l.metrics.messages.WithLabelValues("dropped").Add(float64(n))
}

// rebuildUntilDone reads the deadlines of a shard's live holds, whoever placed
// them; a shard that is away is asked again.
func (l *Ledger) rebuildUntilDone(ctx context.Context, shard pg.Shard) {
	retry := time.NewTicker(rebuildRetry)
	defer retry.Stop()
	for {
		err := l.rebuild(ctx, shard.Pool)
		if err == nil || ctx.Err() != nil {
			return
		}
		l.log.WarnContext(ctx, "deadlines of live holds not read, will try again", "shard", shard.Number, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-retry.C:
		}
	}
}

func (l *Ledger) rebuild(ctx context.Context, pool *pgxpool.Pool) error {
	var event usher.EventID
	var at time.Time
	for {
		rows, err := pool.Query(ctx, sqlLiveDeadlines, event, at, rebuildPage)
		if err != nil {
			return fmt.Errorf("read deadlines: %w", err)
		}
		n := 0
		for rows.Next() {
			var left float64
			if err := rows.Scan(&event, &at, &left); err != nil {
				rows.Close()
				return fmt.Errorf("read deadlines: %w", err)
			}
			l.countDropped(l.messages.add(event, time.Duration(left*float64(time.Second))))
			n++
		}
		if err := rows.Err(); err != nil {
			return fmt.Errorf("read deadlines: %w", err)
		}
		if n < rebuildPage {
			return nil
		}
	}
}
