package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/bench/baseline"
	"usher/internal/ledger"
	"usher/internal/pg"
)

// HoldsResult is what `usher bench holds` reports. Rates are per second, times
// in milliseconds, CPU in microseconds.
type HoldsResult struct {
	Scenario string `json:"scenario"`
	// Seconds is how long each phase measured.
	Seconds      float64 `json:"seconds"`
	Seats        int     `json:"seats"`
	SeatsPerHold int     `json:"seatsPerHold"`
	// Events share the load evenly; Processes are ledgers with pools of their own.
	Events        int     `json:"events"`
	Processes     int     `json:"processes"`
	ConflictShare float64 `json:"conflictShare"`

	// Store level: the ledger in this process.
	DecidedPerSecond     float64 `json:"decidedPerSecond"`
	AcceptedPerSecond    float64 `json:"acceptedPerSecond"`
	P50Ms                float64 `json:"p50Ms"`
	P99Ms                float64 `json:"p99Ms"`
	P999Ms               float64 `json:"p999Ms"`
	CPUMicrosPerAccepted float64 `json:"cpuMicrosPerAccepted"`
	MeanGroupSize        float64 `json:"meanGroupSize"`

	// The limit beside it: a transaction per hold with the same effects, the best
	// of several connection counts, in the same run.
	NaivePerSecond     float64 `json:"naiveAcceptedPerSecond"`
	NaiveConnections   int     `json:"naiveConnections"`
	NaiveConflictShare float64 `json:"naiveConflictShare"`
	RatioToNaive       float64 `json:"ratioToNaive"`

	// Over HTTP against a server in its own process; open loop, latency from the
	// intended start.
	HTTPAcceptedPerSecond float64 `json:"httpAcceptedPerSecond"`
	HTTPOfferedPerSecond  float64 `json:"httpOfferedPerSecond"`
	HTTPConflictShare     float64 `json:"httpConflictShare"`
	HTTPP50Ms             float64 `json:"httpP50Ms"`
	HTTPP99Ms             float64 `json:"httpP99Ms"`
	HTTPErrors            int64   `json:"httpErrors"`
	HTTPFirstError        string  `json:"httpFirstError,omitempty"`
	// AuditViolations are of the event that was sold over HTTP.
	AuditViolations int `json:"auditViolations"`
	// StoreStolen and HTTPStolen are of either level's time.
	StoreStolen Stolen `json:"storeStolen"`
	HTTPStolen  Stolen `json:"httpStolen"`
}

// HoldsConfig says how to measure.
type HoldsConfig struct {
	// Seconds is the length of each measured phase.
	Seconds float64
	// Seats of each event; SeatsPerHold of each hold.
	Seats, SeatsPerHold int
	// ConflictShare is the share of holds that ask for a seat known to be held:
	// the same for every contender, so that none looks faster by refusing more.
	ConflictShare float64
	// Clients is how many callers wait for answers at once at the store level, over
	// all events.
	Clients int
	// Events is how many events the callers are spread over, and Processes how many
	// independent ledgers with pools of their own they go through: to the database
	// they are as many processes. 0 is 1.
	Events, Processes int
	// GiveBack has each caller release a hold once its next one is decided, instead
	// of letting it lapse: for stock that would not last otherwise.
	GiveBack bool
}

func (c HoldsConfig) events(first usher.EventID) []usher.EventID {
	out := make([]usher.EventID, max(c.Events, 1))
	for i := range out {
		out[i] = first + usher.EventID(i)
	}
	return out
}

func (c HoldsConfig) length() time.Duration { return time.Duration(c.Seconds * float64(time.Second)) }

const (
	// shortHold makes stock last: what is held lapses and is freed, as fast as it is
	// placed.
	shortHold = 2 * time.Second
	// warmUpMax is when short holds lapse as fast as they are placed, though a busy
	// ledger frees them two seconds late, and whatever piled up behind cold connections
	// is gone: from then on a second is like the next.
	warmUpMax = shortHold + 4*time.Second
	benchTier = "standard"
)

// naiveConnections are the pool sizes tried for the baseline; the best counts.
var naiveConnections = []int{2, 4, 8, 16}

// HoldsStore measures the ledger and the baseline at the store level, one after
// the other on fresh events of the same database.
func HoldsStore(ctx context.Context, url string, cfg HoldsConfig) (res HoldsResult, err error) {
	res = HoldsResult{
		Scenario: "holds", Seconds: cfg.Seconds, Seats: cfg.Seats, SeatsPerHold: cfg.SeatsPerHold,
		Events: max(cfg.Events, 1), Processes: max(cfg.Processes, 1),
	}
	stolen := watchStolen()
	defer func() { res.StoreStolen = stolen() }()
	first := usher.EventID(1)
	for _, n := range naiveConnections {
		m, err := naivePhase(ctx, url, cfg.events(first), n, cfg)
		if err != nil {
			return res, fmt.Errorf("baseline with %d connections: %w", n, err)
		}
		if m.acceptedPerSecond() > res.NaivePerSecond {
			res.NaivePerSecond, res.NaiveConnections, res.NaiveConflictShare = m.acceptedPerSecond(), n, m.conflictShare()
		}
		first += usher.EventID(res.Events)
	}
	m, group, err := ledgerPhase(ctx, url, cfg.events(first), cfg)
	if err != nil {
		return res, fmt.Errorf("ledger: %w", err)
	}
	res.DecidedPerSecond, res.AcceptedPerSecond, res.ConflictShare = m.decidedPerSecond(), m.acceptedPerSecond(), m.conflictShare()
	res.P50Ms, res.P99Ms, res.P999Ms = m.latency.ms(50), m.latency.ms(99), m.latency.ms(99.9)
	res.CPUMicrosPerAccepted, res.MeanGroupSize = m.cpuMicrosPerAccepted(), group
	if res.NaivePerSecond > 0 {
		res.RatioToNaive = res.AcceptedPerSecond / res.NaivePerSecond
	}
	return res, nil
}

// contender places holds for a caller and, if it can, releases them.
type contender struct {
	// place fails with baseline.ErrTaken for seats that are not available.
	place func(ctx context.Context, caller int, event usher.EventID, account usher.AccountID, seats []usher.SeatID) (usher.HoldID, error)
	// release is nil where holds lapse.
	release func(ctx context.Context, caller int, account usher.AccountID, hold usher.HoldID) error
}

// idempotencyKey is every hold's: each has an account of its own.
const idempotencyKey = "k"

func naivePhase(ctx context.Context, url string, events []usher.EventID, connections int, cfg HoldsConfig) (*measurement, error) {
	homes, rules, err := prepare(ctx, url, events, connections+1, cfg.Seats)
	if err != nil {
		return nil, err
	}
	defer homes.Close()
	holds := map[usher.EventID]*baseline.Holds{}
	var wg sync.WaitGroup
	sweep, stop := context.WithCancel(ctx)
	defer func() { stop(); wg.Wait() }()
	for _, event := range events {
		pool, err := homes.Shard(ctx, event)
		if err != nil {
			return nil, err
		}
		h := &baseline.Holds{Pool: pool, Event: event, Rules: rules}
		holds[event] = h
		wg.Go(func() { every(sweep, 250*time.Millisecond, func() { _ = h.Expire(sweep) }) })
	}
	cfg.Clients, cfg.GiveBack = max(connections, len(events)), false
	place := func(ctx context.Context, _ int, event usher.EventID, a usher.AccountID, seats []usher.SeatID) (usher.HoldID, error) {
		err := holds[event].Place(ctx, a, seats, idempotencyKey)
		// The sweep and a hold may meet; the loser asks again, as an application would.
		if pg.IsRetryable(err) {
			err = baseline.ErrTaken
		}
		return usher.HoldID{}, err
	}
	return measureHolds(ctx, events, cfg, contender{place: place}, func() {}, func() {})
}

// ledgerPhase returns the mean size of the groups, too.
func ledgerPhase(ctx context.Context, url string, events []usher.EventID, cfg HoldsConfig) (*measurement, float64, error) {
	first, _, err := prepare(ctx, url, events, 0, cfg.Seats)
	if err != nil {
		return nil, 0, err
	}
	defer first.Close()
	registries := make([]*prometheus.Registry, max(cfg.Processes, 1))
	ledgers := make([]*ledger.Ledger, len(registries))
	for i := range ledgers {
		homes := first
		if i > 0 {
			if homes, err = open(ctx, url, 0); err != nil {
				return nil, 0, err
			}
			defer homes.Close()
		}
		registries[i] = prometheus.NewRegistry()
		ledgers[i] = ledger.New(homes, ledger.WithMetrics(registries[i]))
	}
	by := func(caller int) *ledger.Ledger { return ledgers[caller/len(events)%len(ledgers)] }
	c := contender{place: func(ctx context.Context, caller int, event usher.EventID, a usher.AccountID, seats []usher.SeatID) (usher.HoldID, error) {
		h, err := by(caller).PlaceHold(ctx, ledger.PlaceHold{Event: event, Account: a, Seats: seats, Key: idempotencyKey})
		if usher.CodeOf(err) == usher.CodeSeatsUnavailable {
			err = baseline.ErrTaken
		}
		return h.ID, err
	}}
	if cfg.GiveBack {
		c.release = func(ctx context.Context, caller int, a usher.AccountID, id usher.HoldID) error {
			_, err := by(caller).ReleaseHold(ctx, ledger.ReleaseHold{Hold: id, Account: a})
			return err
		}
	}
	var before, after groups
	m, err := measureHolds(ctx, events, cfg, c, func() { before = readGroups(registries) }, func() { after = readGroups(registries) })
	if err != nil {
		return nil, 0, err
	}
	return m, after.mean(before), nil
}

// groups is what the ledgers' histograms say of the groups so far.
type groups struct {
	count    uint64
	commands float64
}

func readGroups(registries []*prometheus.Registry) (g groups) {
	for _, r := range registries {
		// The ledger's own metrics always gather.
		families, _ := r.Gather()
		for _, f := range families {
			if f.GetName() == "usher_ledger_group_commands" {
				h := f.GetMetric()[0].GetHistogram()
				g.count += h.GetSampleCount()
				g.commands += h.GetSampleSum()
			}
		}
	}
	return g
}

func (g groups) mean(before groups) float64 {
	return (g.commands - before.commands) / float64(max(g.count-before.count, 1))
}

// measureHolds runs cfg.Clients callers in a closed loop, spread over the events,
// for the measured time after a warm-up. begin and end are called at its ends.
func measureHolds(ctx context.Context, events []usher.EventID, cfg HoldsConfig, c contender, begin, end func()) (*measurement, error) {
	pickers := make([]*picker, len(events))
	for i := range events {
		pickers[i] = newPicker(cfg.Seats, cfg.SeatsPerHold, cfg.ConflictShare, shortHold, uint64(events[i]))
	}
	m := newMeasurement(cfg.length())
	ctx, cancel := m.within(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { m.watchCPU(context.WithoutCancel(ctx)) })
	wg.Go(func() { m.atEnds(context.WithoutCancel(ctx), begin, end) })
	failures := make(chan error, cfg.Clients)
	for i := range cfg.Clients {
		b := benchCaller{contender: c, number: i, event: events[i%len(events)], picker: pickers[i%len(events)], m: m}
		wg.Go(func() {
			if err := b.run(ctx); err != nil {
				failures <- err
				cancel()
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failures:
		return nil, err
	default:
		return m, nil
	}
}

// benchCaller asks for holds, one after the other.
type benchCaller struct {
	contender
	number int
	event  usher.EventID
	picker *picker
	m      *measurement
}

// ownHold is a hold that its caller has not given back yet.
type ownHold struct {
	account usher.AccountID
	hold    usher.HoldID
	claim   claim
}

// run ends with ctx. Calls are not cut short at the end: a cancelled transaction
// would be work that nobody counted.
func (b *benchCaller) run(ctx context.Context) error {
	whole := context.WithoutCancel(ctx)
	var last *ownHold
	for ctx.Err() == nil {
		seats, cl := b.picker.pick()
		account, began := usher.NewAccountID(), time.Now()
		id, err := b.place(whole, b.number, b.event, account, seats)
		if err != nil && !errors.Is(err, baseline.ErrTaken) {
			return err
		}
		b.m.add(began, err == nil)
		b.picker.done(cl, err == nil)
		if err != nil || b.release == nil {
			continue
		}
		if err := b.giveBack(whole, last); err != nil {
			return err
		}
		last = &ownHold{account, id, cl}
	}
	return b.giveBack(whole, last)
}

func (b *benchCaller) giveBack(ctx context.Context, h *ownHold) error {
	if h == nil {
		return nil
	}
	if err := b.release(ctx, b.number, h.account, h.hold); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	b.picker.free(h.claim)
	return nil
}
