package waitingroom

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/fault"
	"usher/internal/pg"
)

// entrant is one called account at the shop's door.
type entrant struct {
	account     usher.AccountID
	round, turn int
	// enter allows a new session; refusal is the answer where none is allowed.
	enter   bool
	refusal *usher.Error
}

// entrance is what became of it.
type entrance struct {
	session usher.SessionID
	round   int
	expires time.Time
	// ended says that this turn's session existed and is over.
	ended bool
}

// Admit takes up a called turn: it returns the account's live shopper session,
// or creates it, with a fresh admission token. It can be repeated while the
// session lives. It fails with CodeNotInQueue, CodeNotYourTurn, CodeTurnLapsed
// and CodeSessionEnded (join again), CodeShopFull (the turn is kept: come back),
// CodeQueueClosed, CodeOlderRound, CodeNotFound, CodeUnavailable (the shard is
// away: a turn that was called is kept), CodeBusy and CodeUnknown (repeat it).
//
// What is durable when it dies: after the claim, the turn waits at the door and
// the next call goes on; after the session's commit, the next call finds it; the
// room's note of it is written by whichever call gets that far.
func (r *Rooms) Admit(ctx context.Context, event usher.EventID, account usher.AccountID) (Admission, error) {
	a, err := r.admit(ctx, event, account)
	r.metrics.admitted(err)
	return a, err
}

func (r *Rooms) admit(ctx context.Context, event usher.EventID, account usher.AccountID) (Admission, error) {
	d, err := r.queue.Do(ctx, event, command{kind: claim, account: account})
	if err != nil {
		return Admission{}, err
	}
	if err := fault.Point(ctx, "waitingroom.after_claim"); err != nil {
		return Admission{}, err
	}
	s, err := r.shop.Do(ctx, event, entrant{
		account: account, round: d.round, turn: d.entry.turn, enter: d.enter, refusal: d.refusal,
	})
	if err != nil {
		return Admission{}, err
	}
	if err := fault.Point(ctx, "waitingroom.after_session"); err != nil {
		return Admission{}, err
	}
	if d.status != PlaceAdmitted {
		if err := r.settle(ctx, event, account, d, s); err != nil {
			return Admission{}, err
		}
	}
	if s.ended {
		return Admission{}, errSessionEnded()
	}
	return r.sign(event, account, s), nil
}

// settle notes in the room what the turn became. Only "the place was left
// meanwhile" undoes the admission; a note that could not be written is written by
// the next call, and until then the turn is counted beside its session.
func (r *Rooms) settle(ctx context.Context, event usher.EventID, account usher.AccountID, d decision, s entrance) error {
	done, err := r.queue.First(ctx, event, command{
		kind: settle, account: account, round: d.round, turn: d.entry.turn, session: s.session,
	})
	switch {
	case usher.CodeOf(err) == usher.CodeOlderRound:
		return err
	case err != nil:
		r.log.WarnContext(ctx, "admission not noted in the room", "event", event, "session", s.session, "error", err)
	case done.entry.turn == d.entry.turn && done.status == PlaceLeft && !s.ended:
		if err := r.EndSession(ctx, account, s.session); err != nil {
			return err
		}
		return errNotInQueue()
	}
	return nil
}

// runShop lets one group of entrants of one event in, in one transaction of its
// home shard.
func (r *Rooms) runShop(ctx context.Context, event usher.EventID, items []*pg.Item[entrant, entrance]) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var results []entrance
	var errs []error
	pool, err := r.homes.Shard(ctx, event)
	if err == nil {
		results, errs, err = untilKnown(ctx, pool, event, items, shopTx)
	}
	if err != nil {
		err = fmt.Errorf("admit to %s: %w", event, err)
	}
	finishAll(items, results, errs, err)
}

// The gate is locked first; sessions whose time is over are ended before they
// could be in the way of a new one; clock and counts are read under the lock.
const (
	sqlLockGate = `SELECT active_max, round, idle_seconds FROM session_gate WHERE event_id = $1 FOR NO KEY UPDATE`

	sqlEndIdle = `
UPDATE shopper_session SET ended_at = c.now, end_reason = 'idle'
FROM (SELECT clock_timestamp() AS now) c
WHERE event_id = $1 AND ended_at IS NULL AND expires_at <= c.now`

	sqlShopClock = `SELECT clock_timestamp()`

	sqlCountLive = `SELECT count(*) FROM shopper_session WHERE event_id = $1 AND ended_at IS NULL`

	sqlReadSessions = `
SELECT k.ord, s.session_id, s.round, s.expires_at, s.ended_at IS NOT NULL
FROM unnest($2::uuid[], $3::integer[], $4::integer[]) WITH ORDINALITY k(account_id, round, turn, ord)
CROSS JOIN LATERAL (
    SELECT session_id, round, expires_at, ended_at FROM shopper_session
    WHERE event_id = $1 AND account_id = k.account_id AND ended_at IS NULL
    UNION ALL
    SELECT session_id, round, expires_at, ended_at FROM shopper_session
    WHERE event_id = $1 AND account_id = k.account_id AND round = k.round AND turn = k.turn AND ended_at IS NOT NULL
    OFFSET 0) s`

	sqlInsertSessions = `
INSERT INTO shopper_session (session_id, event_id, account_id, round, turn, started_at, expires_at)
SELECT k.session_id, $1, k.account_id, k.round, k.turn, $2, $3
FROM unnest($4::uuid[], $5::uuid[], $6::integer[], $7::integer[]) k(session_id, account_id, round, turn)`

	sqlExtendSession = `
UPDATE shopper_session SET expires_at = greatest(expires_at, $2) WHERE session_id = $1 AND ended_at IS NULL`
)

// shopGroup is what one group of entrants sees and decides.
type shopGroup struct {
	event     usher.EventID
	activeMax int64
	gateRound int
	active    int64
	now       time.Time
	expires   time.Time
	// live and over are the sessions found for each entrant, by its index.
	live, over map[int]entrance
	created    []entrant
	ids        []usher.SessionID
	byAccount  map[usher.AccountID]entrance
}

func shopTx(
	ctx context.Context, tx pgx.Tx, event usher.EventID, items []*pg.Item[entrant, entrance],
) ([]entrance, []error, error) {
	g := &shopGroup{event: event, live: map[int]entrance{}, over: map[int]entrance{}, byAccount: map[usher.AccountID]entrance{}}
	if err := g.load(ctx, tx, items); err != nil {
		return nil, nil, err
	}
	results, errs := make([]entrance, len(items)), make([]error, len(items))
	for i, it := range items {
		results[i], errs[i] = g.decide(i, it.Cmd)
	}
	return results, errs, g.write(ctx, tx)
}

func (g *shopGroup) load(ctx context.Context, tx pgx.Tx, items []*pg.Item[entrant, entrance]) error {
	n := len(items)
	accounts, rounds, turns := make([][16]byte, n), make([]int32, n), make([]int32, n)
	for i, it := range items {
		accounts[i], rounds[i], turns[i] = it.Cmd.account, int32(it.Cmd.round), int32(it.Cmd.turn)
	}
	var idle int64
	var b pgx.Batch
	b.Queue(sqlLockGate, g.event).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&g.activeMax, &g.gateRound, &idle)
		if errors.Is(err, pgx.ErrNoRows) {
			return &usher.Error{Code: usher.CodeUnavailable, Message: "the shop is not ready yet", RetryAfter: time.Second}
		}
		return err
	})
	b.Queue(sqlEndIdle, g.event)
	b.Queue(sqlShopClock).QueryRow(func(row pgx.Row) error { return row.Scan(&g.now) })
	if slices.ContainsFunc(items, func(it *pg.Item[entrant, entrance]) bool { return it.Cmd.enter }) {
		b.Queue(sqlCountLive, g.event).QueryRow(func(row pgx.Row) error { return row.Scan(&g.active) })
	}
	b.Queue(sqlReadSessions, g.event, accounts, rounds, turns).Query(func(rows pgx.Rows) error {
		var (
			s     entrance
			index int
		)
		_, err := pgx.ForEachRow(rows, []any{&index, &s.session, &s.round, &s.expires, &s.ended}, func() error {
			if s.ended {
				g.over[index-1] = s
			} else {
				g.live[index-1] = s
			}
			return nil
		})
		return err
	})
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	g.expires = g.now.Add(time.Duration(idle) * time.Second)
	return nil
}

// decide lets an entrant in. The group's own earlier decisions count: a second
// request of the same account gets the same session.
func (g *shopGroup) decide(i int, c entrant) (entrance, error) {
	if c.round < g.gateRound {
		return entrance{}, errOlderRound()
	}
	if s, ok := g.byAccount[c.account]; ok {
		return s, nil
	}
	if s, ok := g.live[i]; ok {
		s.expires = later(s.expires, g.expires)
		g.byAccount[c.account] = s
		return s, nil
	}
	if s, ok := g.over[i]; ok {
		return s, nil
	}
	if !c.enter {
		return entrance{}, c.refusal
	}
	if g.active >= g.activeMax {
		return entrance{}, &usher.Error{
			Code: usher.CodeShopFull, Message: "the shop is full; your turn is kept", RetryAfter: 5 * time.Second,
		}
	}
	g.active++
	s := entrance{session: usher.NewSessionID(g.event), round: c.round, expires: g.expires}
	g.created = append(g.created, c)
	g.ids = append(g.ids, s.session)
	g.byAccount[c.account] = s
	return s, nil
}

func (g *shopGroup) write(ctx context.Context, tx pgx.Tx) error {
	var b pgx.Batch
	if n := len(g.created); n > 0 {
		ids, accounts, rounds, turns := make([][16]byte, n), make([][16]byte, n), make([]int32, n), make([]int32, n)
		for i, c := range g.created {
			ids[i], accounts[i], rounds[i], turns[i] = g.ids[i], c.account, int32(c.round), int32(c.turn)
		}
		queueOne(&b, int64(n), sqlInsertSessions, g.event, g.now, g.expires, ids, accounts, rounds, turns)
	}
	var renewed [][16]byte
	for _, s := range g.live {
		renewed = append(renewed, s.session)
	}
	// In the order in which touches lock them, too.
	slices.SortFunc(renewed, func(a, b [16]byte) int { return slices.Compare(a[:], b[:]) })
	for _, id := range slices.Compact(renewed) {
		b.Queue(sqlExtendSession, id, g.expires)
	}
	if b.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, &b).Close()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
