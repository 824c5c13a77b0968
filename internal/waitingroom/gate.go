package waitingroom

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

// gateSettings is what the home shard must know of the room.
type gateSettings struct {
	activeMax   int64
	round       int
	idleSeconds int64
	version     int64
}

const sqlReadGateSettings = `
SELECT active_max, round, idle_seconds, settings_version FROM queue_state WHERE event_id = $1`

func (r *Rooms) gateSettings(ctx context.Context, event usher.EventID) (gateSettings, error) {
	var s gateSettings
	err := r.homes.Room.QueryRow(ctx, sqlReadGateSettings, event).Scan(&s.activeMax, &s.round, &s.idleSeconds, &s.version)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, errNoRoom()
	}
	return s, pg.Unavailable(err)
}

const (
	// Only a newer version replaces the gate, so a slow process undoes nothing.
	sqlPutGate = `
INSERT INTO session_gate AS g (event_id, active_max, round, idle_seconds, settings_version)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (event_id) DO UPDATE SET active_max = EXCLUDED.active_max, round = EXCLUDED.round,
    idle_seconds = EXCLUDED.idle_seconds, settings_version = EXCLUDED.settings_version
WHERE g.settings_version < EXCLUDED.settings_version`

	sqlEndOlderRounds = `
UPDATE shopper_session SET ended_at = clock_timestamp(), end_reason = 'round'
WHERE event_id = $1 AND ended_at IS NULL AND round < $2`
)

// putGate brings the gate up to date. Once it commits, no session of an older
// round lives or can begin any more.
func putGate(ctx context.Context, tx pgx.Tx, event usher.EventID, s gateSettings) error {
	tag, err := tx.Exec(ctx, sqlPutGate, event, s.activeMax, s.round, s.idleSeconds, s.version)
	if err != nil || tag.RowsAffected() == 0 {
		return err
	}
	_, err = tx.Exec(ctx, sqlEndOlderRounds, event, s.round)
	return err
}

// pushGate brings the shard's copy of the room's settings up to date now.
func (r *Rooms) pushGate(ctx context.Context, event usher.EventID) error {
	s, err := r.gateSettings(ctx, event)
	if err != nil {
		return fmt.Errorf("read settings of %s: %w", event, err)
	}
	err = r.inShard(ctx, event, func(ctx context.Context, tx pgx.Tx) error { return putGate(ctx, tx, event, s) })
	if err != nil {
		return fmt.Errorf("bring gate of %s up to date: %w", event, err)
	}
	return nil
}

const sqlReadGateVersion = `SELECT settings_version FROM session_gate WHERE event_id = $1 FOR NO KEY UPDATE`

// probeTimeout bounds the question to a shard that may be away.
const probeTimeout = time.Second

// probe asks the home shard whether it works, by working: it brings the gate up
// to date, ends sessions whose time is over, and counts the live ones.
func (r *Rooms) probe(ctx context.Context, event usher.EventID, s gateSettings) (active int64, err error) {
	own, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err = r.inShard(own, event, func(own context.Context, tx pgx.Tx) error {
		var version int64
		var b pgx.Batch
		b.Queue(sqlReadGateVersion, event).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&version)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		})
		b.Queue(sqlEndIdle, event)
		b.Queue(sqlCountLive, event).QueryRow(func(row pgx.Row) error { return row.Scan(&active) })
		if err := tx.SendBatch(own, &b).Close(); err != nil || version >= s.version {
			return err
		}
		if err := putGate(own, tx, event, s); err != nil {
			return err
		}
		return tx.QueryRow(own, sqlCountLive, event).Scan(&active)
	})
	if ctx.Err() == nil {
		r.shards.note(ctx, r, event, err)
	}
	if err == nil {
		r.metrics.active.WithLabelValues(event.String()).Set(float64(active))
	}
	return active, err
}

// shardHealth remembers which events' shards did not answer, to log changes only.
type shardHealth struct {
	mu   sync.Mutex
	down map[usher.EventID]bool
}

func (h *shardHealth) note(ctx context.Context, r *Rooms, event usher.EventID, err error) {
	h.mu.Lock()
	changed := h.down[event] != (err != nil)
	h.down[event] = err != nil
	h.mu.Unlock()
	switch {
	case !changed:
	case err != nil:
		r.log.ErrorContext(ctx, "home shard does not answer: nobody is called or admitted", "event", event, "error", err)
	default:
		r.log.InfoContext(ctx, "home shard answers again: calling goes on", "event", event)
	}
}
