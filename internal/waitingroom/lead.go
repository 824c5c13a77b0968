package waitingroom

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"usher"
	"usher/internal/pg"
)

// mayLead reports whether this tick may run the room: it is open, the shard
// answered, the round is the one that was measured, and nobody else leads.
func (g *group) mayLead(c capacity) bool {
	free := g.leader == c.leader || !g.now.Before(g.leaderUntil)
	return g.phase == usher.QueueOpen && c.healthy && c.round == g.round && free
}

// runTicks ticks every room that needs it. Each room has a goroutine of its own,
// so that one whose shard hangs holds up no other.
func (r *Rooms) runTicks(ctx context.Context) {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		busy = map[usher.EventID]bool{}
	)
	every(ctx, tickEvery, func(own context.Context) {
		events, err := r.roomsToTick(own)
		if err != nil {
			r.log.WarnContext(own, "rooms to tick not read", "error", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, event := range events {
			if busy[event] {
				continue
			}
			busy[event] = true
			wg.Go(func() {
				r.tickLogged(ctx, event)
				mu.Lock()
				defer mu.Unlock()
				delete(busy, event)
			})
		}
	})
	wg.Wait()
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if _, err := r.homes.Room.Exec(own, sqlGiveUpLeads, r.name); err != nil {
		r.log.WarnContext(own, "leads not given up", "error", err)
	}
}

const (
	// A room that is led by a living other is left alone, unless its bucket waits
	// to be closed, which anyone may do.
	sqlRoomsToTick = `
SELECT event_id FROM queue_state
WHERE (phase = 'open' AND (leader IN ('', $1) OR leader_until <= clock_timestamp()))
    OR (bucket_size > 0 AND policy = 'fifo')
ORDER BY event_id`

	sqlGiveUpLeads = `UPDATE queue_state SET leader = '', leader_until = 'epoch' WHERE leader = $1`
)

func (r *Rooms) roomsToTick(ctx context.Context) ([]usher.EventID, error) {
	rows, err := r.homes.Room.Query(ctx, sqlRoomsToTick, r.name)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[usher.EventID])
}

func (r *Rooms) tickLogged(ctx context.Context, event usher.EventID) {
	own, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	if err := r.tick(own, event); err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "room not ticked", "event", event, "error", err)
	}
}

// Outstanding turns are read before the shard's sessions: see capacity.
const sqlMeasure = `
SELECT s.phase = 'open' AND (s.leader IN ('', $2) OR s.leader_until <= clock_timestamp()), s.leader = $2,
    s.serving, s.active_max, s.round, s.idle_seconds, s.settings_version,
    (SELECT coalesce(sum(after_number - first_number - claimed - absent), 0)::bigint FROM queue_call
     WHERE event_id = $1 AND round = s.round AND lapses_ms > s.open_ms)
    + (SELECT count(*) FROM queue_entry
       WHERE event_id = $1 AND round = s.round AND door_ms > s.open_ms AND door_ms IS NOT NULL)
FROM queue_state s
WHERE s.event_id = $1`

// tick closes the room's due bucket, and calls people if the room is open, this
// process may lead it and its shard answers.
func (r *Rooms) tick(ctx context.Context, event usher.EventID) error {
	var (
		may, leads bool
		gate       gateSettings
		c          = capacity{leader: r.name}
	)
	err := r.homes.Room.QueryRow(ctx, sqlMeasure, event, r.name).Scan(&may, &leads,
		&c.serving, &gate.activeMax, &gate.round, &gate.idleSeconds, &gate.version, &c.outstanding)
	if err != nil {
		return fmt.Errorf("measure room: %w", pg.Unavailable(err))
	}
	c.round = gate.round
	if may {
		var err error
		c.active, err = r.probe(ctx, event, gate)
		// With the shard away only buckets are closed; probe has logged it.
		c.healthy = err == nil
	}
	d, err := r.queue.First(ctx, event, command{kind: tick, capacity: c})
	if err != nil {
		return err
	}
	if d.leads && !leads {
		r.log.InfoContext(ctx, "leading waiting room", "event", event, "round", d.round)
	}
	return nil
}

// sweepsMax is how many rooms are swept at the same time.
const sweepsMax = 4

// runSweep ends idle sessions of rooms that nobody leads: paused and closed ones
// still have shoppers.
func (r *Rooms) runSweep(ctx context.Context) {
	// quiet holds the round of each closed room whose last shopper has gone: its
	// session gate lets nobody in any more.
	quiet := map[usher.EventID]int{}
	var mu sync.Mutex
	every(ctx, sweepEvery, func(context.Context) {
		var wg errgroup.Group
		wg.SetLimit(sweepsMax)
		for event, v := range *r.views.Load() {
			mu.Lock()
			skip := v.phase == usher.QueueOpen || v.phase == usher.QueueClosed && quiet[event] == v.round
			mu.Unlock()
			if skip {
				continue
			}
			wg.Go(func() error {
				active, err := r.sweep(ctx, event)
				if err != nil && ctx.Err() == nil {
					r.log.WarnContext(ctx, "idle sessions not swept", "event", event, "error", err)
				}
				if err == nil && active == 0 && v.phase == usher.QueueClosed {
					mu.Lock()
					defer mu.Unlock()
					quiet[event] = v.round
				}
				return nil
			})
		}
		_ = wg.Wait()
	})
}

func (r *Rooms) sweep(ctx context.Context, event usher.EventID) (active int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := r.gateSettings(ctx, event)
	if err != nil {
		return 0, err
	}
	return r.probe(ctx, event, s)
}
