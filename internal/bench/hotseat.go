package bench

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"usher"
)

// HotseatResult is what `usher bench hotseat` reports: three phases on fresh
// seats of one fresh event. Times are milliseconds from the moment a client was
// to ask to its answer, refusals included.
type HotseatResult struct {
	Scenario string `json:"scenario"`
	Clients  int    `json:"clients"`
	// Connections are the generator's, opened before each phase: one per client as
	// far as the limit on open files allows.
	Connections int `json:"connections"`

	// One seat, clients spread evenly over a second.
	Winners   int     `json:"winners"`
	P50Ms     float64 `json:"p50Ms"`
	P99Ms     float64 `json:"p99Ms"`
	Errors5xx int64   `json:"errors5xx"`

	// One seat, all clients at one instant.
	InstantWinners   int     `json:"instantWinners"`
	InstantP50Ms     float64 `json:"instantP50Ms"`
	InstantP99Ms     float64 `json:"instantP99Ms"`
	InstantErrors5xx int64   `json:"instantErrors5xx"`

	// The same three seats in all six orders, all clients at one instant. A winner
	// holds all three; Broken counts holds of anything else.
	GroupWinners   int     `json:"groupWinners"`
	GroupBroken    int     `json:"groupBroken"`
	GroupP50Ms     float64 `json:"groupP50Ms"`
	GroupP99Ms     float64 `json:"groupP99Ms"`
	GroupErrors5xx int64   `json:"groupErrors5xx"`

	// Failed counts requests of all phases without an answer, and answers that are
	// neither a hold, a conflict nor a server error.
	Failed          int64  `json:"failed"`
	FirstError      string `json:"firstError,omitempty"`
	AuditViolations int    `json:"auditViolations"`
	Stolen          Stolen `json:"stolen"`
}

const (
	hotSeats = 100
	// hotHold outlasts every phase: a seat that lapsed would have a second winner.
	hotHold = 10 * time.Minute
	// filesKept are open files for everything that is not a client's connection.
	filesKept = 256
	// warmers is how many connections are opened at once.
	warmers = 64
)

// Hotseat has all clients ask for the same places of a server.
func Hotseat(ctx context.Context, t Target, clients int) (res HotseatResult, err error) {
	res = HotseatResult{Scenario: "hotseat", Clients: clients}
	stolen := watchStolen()
	defer func() { res.Stolen = stolen() }()
	c, err := newCaller(t.URL)
	if err != nil {
		return res, err
	}
	defer c.close()
	event, err := c.createEvent(ctx, t.AdminToken, hall{seats: hotSeats, holdFor: hotHold})
	if err != nil {
		return res, fmt.Errorf("set up event: %w", err)
	}
	buyers, err := c.admitBuyers(ctx, t.AdminToken, event, clients)
	if err != nil {
		return res, fmt.Errorf("admit buyers: %w", err)
	}
	s := &hotSiege{event: event, buyers: buyers}
	defer s.close()
	if s.callers, err = ownConnections(t.URL, clients); err != nil {
		return res, err
	}
	res.Connections = len(s.callers)
	spread, err := s.phase(ctx, time.Second, [][]usher.SeatID{{benchSeat(0)}})
	if err != nil {
		return res, err
	}
	res.Winners, res.P50Ms, res.P99Ms, res.Errors5xx = spread.whole, spread.latency.ms(50), spread.latency.ms(99), spread.errors5xx
	instant, err := s.phase(ctx, 0, [][]usher.SeatID{{benchSeat(10)}})
	if err != nil {
		return res, err
	}
	res.InstantWinners, res.InstantP50Ms, res.InstantP99Ms = instant.whole, instant.latency.ms(50), instant.latency.ms(99)
	res.InstantErrors5xx = instant.errors5xx
	group, err := s.phase(ctx, 0, ordersOf(benchSeat(20), benchSeat(21), benchSeat(22)))
	if err != nil {
		return res, err
	}
	res.GroupWinners, res.GroupBroken, res.GroupP50Ms, res.GroupP99Ms = group.whole, group.broken, group.latency.ms(50), group.latency.ms(99)
	res.GroupErrors5xx = group.errors5xx
	for _, p := range []*hotPhase{spread, instant, group} {
		res.Failed += p.failed
		if res.FirstError == "" {
			res.FirstError = p.first
		}
	}
	res.AuditViolations, err = c.finish(ctx, t.AdminToken, event)
	return res, err
}

// ordersOf returns the six orders of three seats.
func ordersOf(a, b, c usher.SeatID) [][]usher.SeatID {
	return [][]usher.SeatID{{a, b, c}, {a, c, b}, {b, a, c}, {b, c, a}, {c, a, b}, {c, b, a}}
}

// hotCaller has one connection: whoever shares it waits.
type hotCaller struct {
	mu sync.Mutex
	*caller
}

func (c *hotCaller) do(ctx context.Context, q call, out any) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.caller.do(ctx, q, out)
}

// ownConnections makes a caller with one connection of its own per client. Where
// files are too few, clients share: one then waits for its neighbour's answer,
// which counts.
func ownConnections(base string, clients int) ([]*hotCaller, error) {
	n := clients
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && limit.Cur < uint64(clients+filesKept) {
		n = max(int(limit.Cur)-filesKept, 1)
	}
	out := make([]*hotCaller, n)
	for i := range out {
		c, err := newCaller(base)
		if err != nil {
			return nil, err
		}
		out[i] = &hotCaller{caller: c}
	}
	return out, nil
}

// hotSiege is all clients of one event.
type hotSiege struct {
	event   string
	buyers  []buyer
	callers []*hotCaller
	phases  int
}

func (s *hotSiege) close() {
	for _, c := range s.callers {
		c.close()
	}
}

// hotPhase is what one phase came to.
type hotPhase struct {
	latency latencies

	mu            sync.Mutex
	whole, broken int
	errors5xx     int64
	failed        int64
	first         string
}

// phase has client i ask for groups[i % len(groups)], spread evenly over a time,
// or all at one instant for 0.
func (s *hotSiege) phase(ctx context.Context, over time.Duration, groups [][]usher.SeatID) (*hotPhase, error) {
	s.phases++
	if err := s.warm(ctx); err != nil {
		return nil, err
	}
	calls := make([]call, len(s.buyers))
	for i := range calls {
		var err error
		if calls[i], err = holdCall(s.event, &s.buyers[i], groups[i%len(groups)], fmt.Sprint("hot", s.phases)); err != nil {
			return nil, err
		}
	}
	p := &hotPhase{latency: newLatencies()}
	// began is written before start is closed.
	var began time.Time
	start := make(chan struct{})
	var ready, clients sync.WaitGroup
	for i := range s.buyers {
		ready.Add(1)
		clients.Go(func() {
			ready.Done()
			<-start
			due := began.Add(over * time.Duration(i) / time.Duration(len(s.buyers)))
			if pause(ctx, time.Until(due)) != nil {
				return
			}
			p.ask(ctx, s.callers[i%len(s.callers)], calls[i], groups[i%len(groups)], due)
		})
	}
	ready.Wait()
	began = time.Now()
	close(start)
	clients.Wait()
	return p, ctx.Err()
}

// warm opens every connection, or sees that it still is: no phase pays for that.
func (s *hotSiege) warm(ctx context.Context) error {
	err := together(len(s.callers), warmers, func(i int) error {
		_, err := s.callers[i].want(ctx, call{method: http.MethodGet, path: "/healthz"}, nil)
		return err
	})
	if err != nil {
		return fmt.Errorf("open connections: %w", err)
	}
	return nil
}

// ask is one client's request, judged by the answer.
func (p *hotPhase) ask(ctx context.Context, c *hotCaller, q call, seats []usher.SeatID, due time.Time) {
	var granted struct {
		Seats []struct {
			SeatID usher.SeatID `json:"seatId"`
		} `json:"seats"`
	}
	status, err := c.do(ctx, q, &granted)
	p.latency.add(time.Since(due))
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		p.fail(err.Error())
	case status == http.StatusCreated:
		got := make([]usher.SeatID, 0, len(granted.Seats))
		for _, s := range granted.Seats {
			got = append(got, s.SeatID)
		}
		slices.Sort(got)
		if slices.Equal(got, slices.Sorted(slices.Values(seats))) {
			p.whole++
		} else {
			p.broken++
		}
	case status >= http.StatusInternalServerError:
		p.errors5xx++
		p.note(fmt.Sprintf("a hold was answered %d", status))
	case status != http.StatusConflict:
		p.fail(fmt.Sprintf("a hold was answered %d", status))
	}
}

func (p *hotPhase) fail(text string) {
	p.failed++
	p.note(text)
}

// note keeps what went wrong first, for a person to see.
func (p *hotPhase) note(text string) {
	if p.first == "" {
		p.first = text
	}
}
