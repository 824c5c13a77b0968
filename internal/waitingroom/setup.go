package waitingroom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

const (
	sqlCreateRoom = `
INSERT INTO queue_state (event_id, round, phase, phase_at, policy, bucket_ms, claim_seconds, idle_seconds,
    rate_per_second, active_max, opens_at, ticked_at)
SELECT $1, 1, 'scheduled', c.now, $2, $3, $4, $5, $6, $7, $8, c.now
FROM (SELECT clock_timestamp() AS now) c
ON CONFLICT (event_id) DO NOTHING`

	sqlCreateRound = `
INSERT INTO queue_round (event_id, round, rules, rules_hash, seed, reason, started_at)
VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp())`

	sqlLockRules = `SELECT phase, round FROM queue_state WHERE event_id = $1 FOR NO KEY UPDATE`

	sqlReadRules = `SELECT rules FROM queue_round WHERE event_id = $1 AND round = $2`

	sqlReplaceRules = `UPDATE queue_round SET rules = $3, rules_hash = $4, seed = $5 WHERE event_id = $1 AND round = $2`

	sqlReplaceSettings = `
UPDATE queue_state SET policy = $2, bucket_ms = $3, claim_seconds = $4, idle_seconds = $5, rate_per_second = $6,
    active_max = $7, opens_at = $8, settings_version = settings_version + 1
WHERE event_id = $1`
)

// Create makes the event's waiting room in the scheduled phase, with the rules
// of its first round. Doing it again is harmless, so a crashed publication is
// simply repeated: while the room is scheduled the setup replaces what was set,
// later the frozen rules must be the same and operators' settings stay as they
// are. It fails with CodeInvalidRequest, with CodeStateConflict when other rules
// are frozen already, with CodeNotFound when the event has no home, and with
// CodeUnavailable.
func (r *Rooms) Create(ctx context.Context, s RoomSetup) error {
	s, err := s.normalize()
	if err != nil {
		return err
	}
	if err := pg.InTx(ctx, r.homes.Room, func(tx pgx.Tx) error { return createTx(ctx, tx, s) }); err != nil {
		return fmt.Errorf("create waiting room of %s: %w", s.Event, err)
	}
	// A crash here leaves a room whose shard does not know it: nobody is admitted
	// until Create is repeated or a leader brings the gate up to date.
	if err := r.pushGate(ctx, s.Event); err != nil {
		return fmt.Errorf("create waiting room of %s: %w", s.Event, err)
	}
	return r.refresh(ctx, false)
}

func createTx(ctx context.Context, tx pgx.Tx, s RoomSetup) error {
	rules := s.rules()
	settings := []any{s.Event, rules.Policy, rules.BucketMillis, rules.ClaimSeconds, rules.IdleSeconds,
		s.RatePerSecond, s.ActiveMax, s.OpensAt}
	tag, err := tx.Exec(ctx, sqlCreateRoom, settings...)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 1 {
		return createRound(ctx, tx, rules, "first round")
	}
	var phase usher.QueuePhase
	if err := tx.QueryRow(ctx, sqlLockRules, s.Event).Scan(&phase, &rules.Round); err != nil {
		return err
	}
	old, err := readRules(ctx, tx, s.Event, rules.Round)
	if err != nil {
		return err
	}
	same := sameParameters(old, rules)
	if phase != usher.QueueScheduled {
		if !same {
			return usher.Errorf(usher.CodeStateConflict, "the rules of this waiting room are frozen")
		}
		return nil
	}
	if !same {
		p, err := rules.publish()
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlReplaceRules, s.Event, rules.Round, p.text, p.hash[:], p.seed); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, sqlReplaceSettings, settings...)
	return err
}

func createRound(ctx context.Context, tx pgx.Tx, rules Rules, reason string) error {
	p, err := rules.publish()
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, sqlCreateRound, rules.Event, rules.Round, p.text, p.hash[:], p.seed, reason)
	return err
}

func readRules(ctx context.Context, tx pgx.Tx, event usher.EventID, round int) (Rules, error) {
	var rules Rules
	var text []byte
	if err := tx.QueryRow(ctx, sqlReadRules, event, round).Scan(&text); err != nil {
		return rules, err
	}
	return rules, json.Unmarshal(text, &rules)
}

func sameParameters(a, b Rules) bool {
	x, errX := json.Marshal(a.parameters())
	y, errY := json.Marshal(b.parameters())
	return errX == nil && errY == nil && slices.Equal(x, y)
}

// Round is one round of a room with its published rules.
type Round struct {
	Number int
	// Rules is the published JSON, byte for byte; Hash is its SHA-256.
	Rules []byte
	Hash  [32]byte
	// Reason is why the round was begun.
	Reason    string
	StartedAt time.Time
	EndedAt   *time.Time
}

const sqlRounds = `
SELECT round, rules, rules_hash, reason, started_at, ended_at FROM queue_round WHERE event_id = $1 ORDER BY round`

// Rounds reads every round of the event's room, the current one last. It fails
// with CodeNotFound and CodeUnavailable.
func (r *Rooms) Rounds(ctx context.Context, event usher.EventID) ([]Round, error) {
	rows, err := r.homes.Room.Query(ctx, sqlRounds, event)
	if err != nil {
		return nil, fmt.Errorf("read rounds of %s: %w", event, pg.Unavailable(err))
	}
	rounds, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Round, error) {
		var d Round
		var hash []byte
		err := row.Scan(&d.Number, &d.Rules, &hash, &d.Reason, &d.StartedAt, &d.EndedAt)
		if err == nil && copy(d.Hash[:], hash) != len(d.Hash) {
			err = errors.New("rules hash has a wrong length")
		}
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("read rounds of %s: %w", event, pg.Unavailable(err))
	}
	if len(rounds) == 0 {
		return nil, errNoRoom()
	}
	return rounds, nil
}

func errNoRoom() *usher.Error { return usher.Errorf(usher.CodeNotFound, "no such waiting room") }
