package web

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"usher"
	"usher/internal/ledger"
	"usher/internal/redemption"
)

// One event that overheats must cost the others nothing. Two things see to that
// here; docs/isolation.md has the whole list.
//
// A budget bounds how many connections buyers' reads of one event use at once:
// the rest of them wait in line, and those of other events pass by.
//
// Shedding refuses, in an event that is under pressure, what is least missed
// first: new streams, best seats, suggestions and operators' reads, then
// snapshots. Holds are refused when as many wait as may, by the ledger itself.
// Order status, payments and everything else that completes a purchase is never
// shed, nor are operators' writes.

const (
	// shedFirst and shedSnapshots are the pressures from which on each class is refused.
	shedFirst     = 0.5
	shedSnapshots = 0.75
	// shedRetry is when a shed caller may come back: a few groups later.
	shedRetry = 2 * time.Second
	// readsDefault is how many reads of one event are under way at once.
	readsDefault = 4
	// readsWaiting is how many more may wait, about half a second's worth.
	readsWaiting = 1024
)

// pressure is how hard an event is pressed, from 0 to 1: by its holds that wait
// for a group, or by its reads that wait for a connection.
func (s *Server) pressure(event usher.EventID) float64 {
	p := s.reads.pressure(event)
	if s.deps.Pressure != nil {
		p = max(p, s.deps.Pressure(event))
	}
	return p
}

// shed refuses one thing of an event that is pressed as hard as at, or harder. It
// fails with CodeUnavailable.
func (s *Server) shed(event usher.EventID, what string, at float64) error {
	if s.pressure(event) < at {
		return nil
	}
	s.metrics.shed.WithLabelValues(what).Inc()
	return &usher.Error{Code: usher.CodeUnavailable, Message: "this event is too busy for that: try again in a moment", RetryAfter: shedRetry}
}

// shedRequest sheds by the address alone, before anything is read or looked up.
func (s *Server) shedRequest(r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/v1/")
	if !ok {
		return nil
	}
	rest, admin := strings.CutPrefix(rest, "admin/")
	if rest, ok = strings.CutPrefix(rest, "events/"); !ok {
		return nil
	}
	id, tail, _ := strings.Cut(rest, "/")
	what, at := "", shedFirst
	switch {
	case admin:
		what = "admin"
	case tail == "changes":
		what = "changes"
	case tail == "seats/stream":
		what = "stream"
	case tail == "seats":
		what, at = "snapshot", shedSnapshots
	default:
		return nil
	}
	event, err := usher.ParseEventID(id)
	if err != nil {
		// The route says what is wrong with it.
		return nil
	}
	return s.shed(event, what, at)
}

// budget bounds how many reads of one event are under way at once; the others
// wait in the order they came, and too many are refused.
type budget struct {
	max, waitingMax int

	mu    sync.Mutex
	lines map[usher.EventID]*line
}

// line is one event's reads. used is at most max; somebody waits only when it is.
type line struct {
	used    int
	waiting []chan struct{}
}

func newBudget(max, waitingMax int) *budget {
	return &budget{max: max, waitingMax: waitingMax, lines: map[usher.EventID]*line{}}
}

// enter waits for a place; leave gives it back. It fails with CodeUnavailable
// when too many wait, and with CodeBusy when ctx ends first.
func (b *budget) enter(ctx context.Context, event usher.EventID) (leave func(), err error) {
	turn, err := b.queue(event)
	if err != nil {
		return nil, err
	}
	leave = func() { b.leave(event) }
	if turn == nil {
		return leave, nil
	}
	select {
	case <-turn:
		return leave, nil
	case <-ctx.Done():
	}
	if !b.giveUp(event, turn) {
		// The turn came at the same moment: the next one gets it.
		leave()
	}
	return nil, &usher.Error{Code: usher.CodeBusy, Message: "not answered in time", RetryAfter: time.Second, Err: ctx.Err()}
}

// queue takes a place at once, or returns the channel that closes when one is free.
func (b *budget) queue(event usher.EventID) (turn chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lines[event]
	if l == nil {
		l = &line{}
		b.lines[event] = l
	}
	switch {
	case l.used < b.max:
		l.used++
		return nil, nil
	case len(l.waiting) >= b.waitingMax:
		return nil, &usher.Error{Code: usher.CodeUnavailable, Message: "too many requests at once", RetryAfter: time.Second}
	}
	turn = make(chan struct{})
	l.waiting = append(l.waiting, turn)
	return turn, nil
}

// giveUp leaves the line; it reports false when the turn has come already.
func (b *budget) giveUp(event usher.EventID, turn chan struct{}) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lines[event]
	if l == nil {
		return false
	}
	at := slices.Index(l.waiting, turn)
	if at < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, at, at+1)
	return true
}

func (b *budget) leave(event usher.EventID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lines[event]
	if len(l.waiting) > 0 {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		return
	}
	if l.used--; l.used == 0 {
		delete(b.lines, event)
	}
}

// pressure says how many of those who may wait do, from 0 to 1.
func (b *budget) pressure(event usher.EventID) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.lines[event]; l != nil {
		return float64(len(l.waiting)) / float64(b.waitingMax)
	}
	return 0
}

// budgeted runs a read inside the event's budget.
func budgeted[R any](ctx context.Context, s *Server, event usher.EventID, read func() (R, error)) (R, error) {
	leave, err := s.reads.enter(ctx, event)
	if err != nil {
		if usher.CodeOf(err) == usher.CodeUnavailable {
			s.metrics.shed.WithLabelValues("read").Inc()
		}
		var zero R
		return zero, err
	}
	defer leave()
	return read()
}

// budgetedLedger keeps every read of the ledger that a request asks for inside
// its event's budget. Commands have a budget of their own: one connection per
// event, the group's.
type budgetedLedger struct {
	Ledger
	s *Server
}

func (l budgetedLedger) Hold(ctx context.Context, id usher.HoldID) (ledger.Hold, error) {
	return budgeted(ctx, l.s, id.Event(), func() (ledger.Hold, error) { return l.Ledger.Hold(ctx, id) })
}

func (l budgetedLedger) LiveHolds(ctx context.Context, event usher.EventID, account usher.AccountID) ([]ledger.Hold, error) {
	return budgeted(ctx, l.s, event, func() ([]ledger.Hold, error) { return l.Ledger.LiveHolds(ctx, event, account) })
}

func (l budgetedLedger) Order(ctx context.Context, id usher.OrderID) (ledger.Order, error) {
	return budgeted(ctx, l.s, id.Event(), func() (ledger.Order, error) { return l.Ledger.Order(ctx, id) })
}

func (l budgetedLedger) Orders(ctx context.Context, event usher.EventID, account usher.AccountID) ([]ledger.Order, error) {
	return budgeted(ctx, l.s, event, func() ([]ledger.Order, error) { return l.Ledger.Orders(ctx, event, account) })
}

func (l budgetedLedger) Changes(ctx context.Context, event usher.EventID, after int64, limit int) ([]ledger.Entry, error) {
	return budgeted(ctx, l.s, event, func() ([]ledger.Entry, error) { return l.Ledger.Changes(ctx, event, after, limit) })
}

func (l budgetedLedger) Quota(ctx context.Context, event usher.EventID) ([]ledger.BucketState, error) {
	return budgeted(ctx, l.s, event, func() ([]ledger.BucketState, error) { return l.Ledger.Quota(ctx, event) })
}

func (l budgetedLedger) Live(ctx context.Context, event usher.EventID) (ledger.Live, error) {
	return budgeted(ctx, l.s, event, func() (ledger.Live, error) { return l.Ledger.Live(ctx, event) })
}

// PlaceHold counts its decisions for whoever watches the sale.
func (l budgetedLedger) PlaceHold(ctx context.Context, c ledger.PlaceHold) (ledger.Hold, error) {
	h, err := l.Ledger.PlaceHold(ctx, c)
	if !h.Replayed {
		l.s.watched.decided(c.Event, err)
	}
	return h, err
}

func (l budgetedLedger) Rules(ctx context.Context, event usher.EventID) (r usher.Rules, tiers []ledger.Tier, err error) {
	tiers, err = budgeted(ctx, l.s, event, func() (t []ledger.Tier, err error) {
		r, t, err = l.Ledger.Rules(ctx, event)
		return t, err
	})
	return r, tiers, err
}

// budgetedTickets keeps reads of tickets inside the budget of their event.
type budgetedTickets struct {
	Redemption
	s *Server
}

func (t budgetedTickets) Tickets(ctx context.Context, order usher.OrderID) ([]redemption.Ticket, error) {
	return budgeted(ctx, t.s, order.Event(), func() ([]redemption.Ticket, error) { return t.Redemption.Tickets(ctx, order) })
}
