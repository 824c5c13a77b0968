package waitingroom

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

const sqlSetPhase = `
UPDATE queue_state SET phase = $2, phase_at = c.now, ticked_at = c.now, credit = 0
FROM (SELECT clock_timestamp() AS now) c
WHERE event_id = $1`

// SetPhase moves the room along usher.QueueTransitions; leaving the scheduled
// phase freezes the round's rules. Moving to the phase it is in is harmless. It
// fails with CodeStateConflict for a move that the graph does not have,
// CodeNotFound and CodeUnavailable.
func (r *Rooms) SetPhase(ctx context.Context, event usher.EventID, to usher.QueuePhase) error {
	var from usher.QueuePhase
	var round int
	err := pg.InTx(ctx, r.homes.Room, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, sqlLockRules, event).Scan(&from, &round); err != nil {
			return noRoom(err)
		}
		if from == to {
			return nil
		}
		if !usher.CanMove(usher.QueueTransitions, from, to) {
			return usher.Errorf(usher.CodeStateConflict, "a waiting room cannot move from %s to %s", string(from), string(to))
		}
		_, err := tx.Exec(ctx, sqlSetPhase, event, to)
		return err
	})
	if err != nil {
		return fmt.Errorf("set phase of %s: %w", event, err)
	}
	if from == to {
		return nil
	}
	r.log.InfoContext(ctx, "waiting room phase", "event", event, "round", round, "from", from, "to", to)
	return r.refresh(ctx, false)
}

const (
	sqlSetRate = `
UPDATE queue_state s SET rate_per_second = $2 FROM (SELECT rate_per_second AS was FROM queue_state WHERE event_id = $1) o
WHERE s.event_id = $1 RETURNING o.was`

	sqlSetCap = `
UPDATE queue_state s SET active_max = $2, settings_version = settings_version + 1
FROM (SELECT active_max AS was FROM queue_state WHERE event_id = $1) o
WHERE s.event_id = $1 RETURNING o.was`

	sqlSetMessage = `UPDATE queue_state SET message = $2 WHERE event_id = $1 RETURNING true`

	sqlSetOpensAt = `
UPDATE queue_state s SET opens_at = $2 FROM (SELECT opens_at AS was FROM queue_state WHERE event_id = $1) o
WHERE s.event_id = $1 RETURNING o.was`
)

// SetRate sets how many people a second are called at most. It fails with
// CodeInvalidRequest, CodeNotFound and CodeUnavailable.
func (r *Rooms) SetRate(ctx context.Context, event usher.EventID, perSecond float64) error {
	if err := checkRate(perSecond); err != nil {
		return err
	}
	var was float64
	if err := r.set(ctx, "rate", sqlSetRate, &was, event, perSecond); err != nil {
		return err
	}
	r.log.InfoContext(ctx, "waiting room rate", "event", event, "from", was, "to", perSecond)
	return r.refresh(ctx, false)
}

// SetCap sets how many shoppers may be in the shop at once. Nobody is sent out
// when it falls below their number. A home shard that is away learns it when it
// is back, before it admits anybody. It fails with CodeInvalidRequest,
// CodeNotFound and CodeUnavailable.
func (r *Rooms) SetCap(ctx context.Context, event usher.EventID, activeMax int) error {
	if err := checkCap(activeMax); err != nil {
		return err
	}
	var was int
	if err := r.set(ctx, "cap", sqlSetCap, &was, event, activeMax); err != nil {
		return err
	}
	r.log.InfoContext(ctx, "waiting room cap", "event", event, "from", was, "to", activeMax)
	r.pushGateLogged(ctx, event)
	return nil
}

// SetMessage sets the operator's message to everybody who waits; "" clears it. It may
// have several lines. It fails with CodeInvalidRequest, CodeNotFound and
// CodeUnavailable.
func (r *Rooms) SetMessage(ctx context.Context, event usher.EventID, text string) error {
	if text != "" {
		if err := usher.CheckText("message", strings.ReplaceAll(text, "\n", " "), messageMax*utf8.UTFMax); err != nil {
			return err
		}
		if utf8.RuneCountInString(text) > messageMax {
			return usher.Errorf(usher.CodeInvalidRequest, "message is longer than %d characters", messageMax)
		}
	}
	var done bool
	if err := r.set(ctx, "message", sqlSetMessage, &done, event, text); err != nil {
		return err
	}
	r.log.InfoContext(ctx, "waiting room message", "event", event, "length", len(text))
	return r.refresh(ctx, false)
}

// SetOpensAt sets the announced start of the sale; nil announces none. It fails
// with CodeNotFound and CodeUnavailable.
func (r *Rooms) SetOpensAt(ctx context.Context, event usher.EventID, at *time.Time) error {
	var was *time.Time
	if err := r.set(ctx, "opening time", sqlSetOpensAt, &was, event, at); err != nil {
		return err
	}
	r.log.InfoContext(ctx, "waiting room opening time", "event", event, "from", was, "to", at)
	return r.refresh(ctx, false)
}

// set runs one statement on the room's row and scans the old value.
func (r *Rooms) set(ctx context.Context, what, sql string, was any, args ...any) error {
	err := pg.InTx(ctx, r.homes.Room, func(tx pgx.Tx) error {
		return noRoom(tx.QueryRow(ctx, sql, args...).Scan(was))
	})
	if err != nil {
		return fmt.Errorf("set %s of %s: %w", what, args[0], err)
	}
	return nil
}

// pushGateLogged is for settings that are stored already: the leader brings a
// shard up to date that did not answer now.
func (r *Rooms) pushGateLogged(ctx context.Context, event usher.EventID) {
	if err := r.pushGate(ctx, event); err != nil {
		r.log.WarnContext(ctx, "home shard learns the settings later", "event", event, "error", err)
	}
}

func noRoom(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return errNoRoom()
	}
	return err
}

const (
	sqlEndRound = `UPDATE queue_round SET ended_at = clock_timestamp() WHERE event_id = $1 AND round = $2`

	sqlResetState = `
UPDATE queue_state SET round = $2, phase = 'scheduled', phase_at = c.now, settings_version = settings_version + 1,
    bucket_size = 0, bucket_left = 0, next_number = 0, serving = 0, left_waiting = 0, open_ms = 0, credit = 0,
    ticked_at = c.now
FROM (SELECT clock_timestamp() AS now) c
WHERE event_id = $1`
)

const reasonMax = 500

// ResetRound starts the queue anew, in the scheduled phase, with freshly
// published rules of the same parameters: places, tickets and admission tokens
// of earlier rounds count no more, and their sessions end (holds stay until
// their own deadlines). What was is kept and stays readable by Rounds. It returns
// the new round, and fails with CodeInvalidRequest for a bad reason, CodeNotFound,
// CodeUnavailable and CodeUnknown (read Rounds before repeating it).
func (r *Rooms) ResetRound(ctx context.Context, event usher.EventID, reason string) (round int, err error) {
	reason = strings.TrimSpace(reason)
	if err := usher.CheckText("reason", reason, reasonMax); err != nil {
		return 0, err
	}
	err = pg.InTx(ctx, r.homes.Room, func(tx pgx.Tx) error {
		var err error
		round, err = resetTx(ctx, tx, event, reason)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("reset round of %s: %w", event, err)
	}
	r.log.WarnContext(ctx, "waiting room started anew", "event", event, "round", round, "reason", reason)
	// A crash here leaves sessions of the old round alive until a leader or the
	// sweep brings the gate up to date; their tokens are refused already.
	r.pushGateLogged(ctx, event)
	return round, r.refresh(ctx, false)
}

func resetTx(ctx context.Context, tx pgx.Tx, event usher.EventID, reason string) (int, error) {
	g, err := loadGroup(ctx, tx, event, nil, need{lastBucket: true})
	if err != nil {
		return 0, err
	}
	// The last places get their numbers, so that the record of the round is whole.
	before := g.state
	g.closeBucket()
	if err := g.write(ctx, tx, before); err != nil {
		return 0, err
	}
	rules, err := readRules(ctx, tx, event, g.round)
	if err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, sqlEndRound, event, g.round); err != nil {
		return 0, err
	}
	rules.Round++
	if err := createRound(ctx, tx, rules, reason); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, sqlResetState, event, rules.Round)
	return rules.Round, err
}
