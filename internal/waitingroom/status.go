package waitingroom

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

// Status is what an operator sees of a room.
type Status struct {
	Event   usher.EventID
	Round   int
	Phase   usher.QueuePhase
	PhaseAt time.Time
	// RatePerSecond, ActiveMax, Message and OpensAt are the settings.
	RatePerSecond float64
	ActiveMax     int
	Message       string
	OpensAt       *time.Time
	// Waiting is how many wait to be called: whoever left is not among them, and
	// whoever was called, lapsed or not, is not any more. Called are turns that may still be
	// claimed, and AtDoor claimed turns without a session yet.
	Waiting, Called, AtDoor int64
	Serving, Numbered       int64
	// Led says that a process calls people now.
	Led bool
	// Active is the number of live sessions; nil while the home shard is away.
	Active *int64
	Now    time.Time
}

const (
	sqlStatus = `
SELECT s.round, s.phase, s.phase_at, s.rate_per_second, s.active_max, s.message, s.opens_at,
    s.next_number + s.bucket_size - s.serving - s.left_waiting, s.serving, s.next_number,
    s.leader <> '' AND s.leader_until > clock_timestamp(), clock_timestamp(),
    (SELECT coalesce(sum(after_number - first_number - claimed - absent), 0)::bigint FROM queue_call
     WHERE event_id = $1 AND round = s.round AND lapses_ms > s.open_ms),
    (SELECT count(*) FROM queue_entry
     WHERE event_id = $1 AND round = s.round AND door_ms > s.open_ms AND door_ms IS NOT NULL)
FROM queue_state s
WHERE s.event_id = $1`

	sqlCountUnexpired = `
SELECT count(*) FROM shopper_session WHERE event_id = $1 AND ended_at IS NULL AND expires_at > clock_timestamp()`
)

// Status reads the room for an operator. It fails with CodeNotFound and
// CodeUnavailable; a home shard that is away only leaves Active nil.
func (r *Rooms) Status(ctx context.Context, event usher.EventID) (Status, error) {
	s := Status{Event: event}
	err := r.homes.Room.QueryRow(ctx, sqlStatus, event).Scan(&s.Round, &s.Phase, &s.PhaseAt, &s.RatePerSecond,
		&s.ActiveMax, &s.Message, &s.OpensAt, &s.Waiting, &s.Serving, &s.Numbered, &s.Led, &s.Now, &s.Called, &s.AtDoor)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, errNoRoom()
	}
	if err != nil {
		return s, fmt.Errorf("read status of %s: %w", event, pg.Unavailable(err))
	}
	own, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var active int64
	pool, err := r.homes.Shard(own, event)
	if err == nil {
		err = pool.QueryRow(own, sqlCountUnexpired, event).Scan(&active)
	}
	if err != nil {
		r.log.WarnContext(ctx, "live sessions not counted", "event", event, "error", err)
		return s, nil
	}
	s.Active = &active
	return s, nil
}
