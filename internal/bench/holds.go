package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

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
	Seconds       float64 `json:"seconds"`
	Seats         int     `json:"seats"`
	SeatsPerHold  int     `json:"seatsPerHold"`
	ConflictShare float64 `json:"conflictShare"`

	// Store level: the ledger on one event, in this process.
	DecidedPerSecond     float64 `json:"decidedPerSecond"`
	AcceptedPerSecond    float64 `json:"acceptedPerSecond"`
	P50Ms                float64 `json:"p50Ms"`
	P99Ms                float64 `json:"p99Ms"`
	P999Ms               float64 `json:"p999Ms"`
	CPUMicrosPerAccepted float64 `json:"cpuMicrosPerAccepted"`

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
}

// HoldsConfig says how to measure.
type HoldsConfig struct {
	// Seconds is the length of each measured phase.
	Seconds float64
	// Seats of the event; SeatsPerHold of each hold.
	Seats, SeatsPerHold int
	// ConflictShare is the share of holds that ask for a seat known to be held:
	// the same for every contender, so that none looks faster by refusing more.
	ConflictShare float64
	// Clients is how many callers wait for answers at once at the store level.
	Clients int
}

const (
	// holdTime is short, so that stock lasts: what is held lapses and is freed.
	holdTime  = 2 * time.Second
	warmUp    = time.Second
	benchTier = "standard"
)

// naiveConnections are the pool sizes tried for the baseline; the best counts.
var naiveConnections = []int{2, 4, 8, 16}

// holdsFunc places one hold and tells whether it was accepted.
type holdsFunc func(ctx context.Context, account usher.AccountID, seats []usher.SeatID, key string) (bool, error)

// HoldsStore measures the ledger and the baseline at the store level, one after
// the other on fresh events of the same database.
func HoldsStore(ctx context.Context, url string, cfg HoldsConfig) (HoldsResult, error) {
	res := HoldsResult{Scenario: "holds", Seconds: cfg.Seconds, Seats: cfg.Seats, SeatsPerHold: cfg.SeatsPerHold}
	event := usher.EventID(1)
	for _, n := range naiveConnections {
		m, err := naivePhase(ctx, url, event, n, cfg)
		if err != nil {
			return res, fmt.Errorf("baseline with %d connections: %w", n, err)
		}
		if m.acceptedPerSecond() > res.NaivePerSecond {
			res.NaivePerSecond, res.NaiveConnections, res.NaiveConflictShare = m.acceptedPerSecond(), n, m.conflictShare()
		}
		event++
	}
	m, err := ledgerPhase(ctx, url, event, cfg)
	if err != nil {
		return res, fmt.Errorf("ledger: %w", err)
	}
	res.DecidedPerSecond, res.AcceptedPerSecond, res.ConflictShare = m.decidedPerSecond(), m.acceptedPerSecond(), m.conflictShare()
	res.P50Ms, res.P99Ms, res.P999Ms = m.latency.ms(50), m.latency.ms(99), m.latency.ms(99.9)
	res.CPUMicrosPerAccepted = m.cpu.Seconds() * 1e6 / float64(max(m.accepted.Load(), 1))
	res.RatioToNaive = res.AcceptedPerSecond / res.NaivePerSecond
	return res, nil
}

func naivePhase(ctx context.Context, url string, event usher.EventID, connections int, cfg HoldsConfig) (*measurement, error) {
	homes, rules, err := prepare(ctx, url, event, connections+1, cfg.Seats)
	if err != nil {
		return nil, err
	}
	defer homes.Close()
	pool, err := homes.Shard(ctx, event)
	if err != nil {
		return nil, err
	}
	h := &baseline.Holds{Pool: pool, Event: event, Rules: rules}
	sweep, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { every(sweep, 250*time.Millisecond, func() { _ = h.Expire(sweep) }) })
	defer func() { stop(); wg.Wait() }()
	cfg.Clients = connections
	return measureHolds(ctx, event, cfg, func(ctx context.Context, a usher.AccountID, seats []usher.SeatID, key string) (bool, error) {
		err := h.Place(ctx, a, seats, key)
		if errors.Is(err, baseline.ErrTaken) {
			return false, nil
		}
		// The sweep and a hold may meet; the loser asks again, as an application would.
		if pg.IsRetryable(err) {
			return false, nil
		}
		return err == nil, err
	})
}

func ledgerPhase(ctx context.Context, url string, event usher.EventID, cfg HoldsConfig) (*measurement, error) {
	homes, _, err := prepare(ctx, url, event, 8, cfg.Seats)
	if err != nil {
		return nil, err
	}
	defer homes.Close()
	l := ledger.New(homes)
	return measureHolds(ctx, event, cfg, func(ctx context.Context, a usher.AccountID, seats []usher.SeatID, key string) (bool, error) {
		_, err := l.PlaceHold(ctx, ledger.PlaceHold{Event: event, Account: a, Seats: seats, Key: key})
		if usher.CodeOf(err) == usher.CodeSeatsUnavailable {
			return false, nil
		}
		return err == nil, err
	})
}

const sqlHome = `INSERT INTO event_home (event_id, shard) VALUES ($1, 1) ON CONFLICT DO NOTHING`

// prepare opens pools and sets up one event of its own for a phase.
func prepare(ctx context.Context, url string, event usher.EventID, poolSize, seats int) (*pg.Homes, usher.Rules, error) {
	rules := usher.DefaultRules("TWD")
	rules.Sale, rules.AdmissionRequired, rules.HoldTime, rules.PayMargin, rules.PurchaseLimit = usher.SaleOpen, false, holdTime, 0, 1000
	homes, err := pg.Open(ctx, pg.Config{
		DirectoryURL: url, RoomURL: url, ShardURLs: map[pg.ShardNumber]string{1: url}, PoolSize: poolSize, ApplicationName: "usher bench",
	})
	if err != nil {
		return nil, rules, err
	}
	if _, err := homes.Directory.Exec(ctx, sqlHome, event); err != nil {
		homes.Close()
		return nil, rules, fmt.Errorf("give the event a home: %w", err)
	}
	setup := ledger.Setup{Event: event, Rules: rules, Tiers: []ledger.Tier{
		{ID: benchTier, Name: "Standard", Price: usher.Money{AmountMinor: 100000, Currency: "TWD"}},
	}}
	for i := range seats {
		setup.Seats = append(setup.Seats, ledger.SeatSetup{ID: benchSeat(i), Tier: benchTier})
	}
	if err := ledger.New(homes).SetUp(ctx, setup); err != nil {
		homes.Close()
		return nil, rules, fmt.Errorf("set up event: %w", err)
	}
	return homes, rules, nil
}

func benchSeat(i int) usher.SeatID { return usher.SeatID(fmt.Sprintf("S%07d", i)) }

// measureHolds runs cfg.Clients callers in a closed loop for the measured time
// after a warm-up. Seats come from a picker that skews towards hot sections and
// offers taken seats for the wanted share of requests.
func measureHolds(ctx context.Context, event usher.EventID, cfg HoldsConfig, place holdsFunc) (*measurement, error) {
	p := newPicker(cfg.Seats, cfg.SeatsPerHold, cfg.ConflictShare)
	m := newMeasurement()
	ctx, cancel := context.WithTimeout(ctx, warmUp+time.Duration(cfg.Seconds*float64(time.Second)))
	defer cancel()
	var wg sync.WaitGroup
	var failure atomic.Pointer[error]
	m.startAfter(ctx, warmUp)
	for c := range cfg.Clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(event), uint64(c)))
			for i := 0; ctx.Err() == nil; i++ {
				seats, groups := p.pick(rng)
				began := time.Now()
				// The call is not cut short at the end: a cancelled transaction would be
				// work that nobody counted.
				ok, err := place(context.WithoutCancel(ctx), usher.NewAccountID(), seats, "k")
				if err != nil {
					failure.CompareAndSwap(nil, &err)
					return
				}
				p.done(groups, ok)
				m.add(time.Since(began), ok)
			}
		})
	}
	wg.Wait()
	m.stop()
	if err := failure.Load(); err != nil {
		return nil, *err
	}
	return m, nil
}
