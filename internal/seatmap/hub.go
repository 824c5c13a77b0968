package seatmap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg"
)

// HubConfig is what a Hub needs. Zero durations and numbers mean the defaults.
type HubConfig struct {
	Homes  *pg.Homes
	Ledger *ledger.Ledger
	Charts *Charts
	// Log defaults to slog.Default, Metrics to none.
	Log     *slog.Logger
	Metrics prometheus.Registerer

	// StreamsMax is the most streams per event; 0 means 10,000.
	StreamsMax int
	// FrameEvery is the least time between frames, 250 ms, and FrameEveryBusy that
	// above StreamsBusy streams, 1 s above 2,000.
	FrameEvery     time.Duration
	FrameEveryBusy time.Duration
	StreamsBusy    int
	// Poll is how often changes of other processes are looked for, 500 ms.
	Poll time.Duration
	// OutsiderEvery is the least age at which the outsiders' picture is renewed, 10 s.
	OutsiderEvery time.Duration
	// AwayAfter is how long the home may be silent before the picture says so, 3 s.
	AwayAfter time.Duration
	// RestAfter is how long an event nobody looks at is still followed, 5 min.
	RestAfter time.Duration
}

func (c HubConfig) withDefaults() HubConfig {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.FrameEvery, 250*time.Millisecond)
	def(&c.FrameEveryBusy, time.Second)
	def(&c.Poll, 500*time.Millisecond)
	def(&c.OutsiderEvery, 10*time.Second)
	def(&c.AwayAfter, 3*time.Second)
	def(&c.RestAfter, 5*time.Minute)
	if c.StreamsMax == 0 {
		c.StreamsMax = 10_000
	}
	if c.StreamsBusy == 0 {
		c.StreamsBusy = 2_000
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	return c
}

// source is what a follower reads. Everything comes from the event's home, the
// primary; nothing is written.
type source interface {
	Chart(ctx context.Context, event usher.EventID) (*Chart, error)
	Seats(ctx context.Context, event usher.EventID) (ledger.Snapshot, error)
	Changes(ctx context.Context, event usher.EventID, after int64, limit int) ([]ledger.Entry, error)
	Mark(ctx context.Context, event usher.EventID) (mark, error)
	Watch(event usher.EventID) (wake <-chan struct{}, stop func())
}

// mark is where an event's ledger stands, and the database time.
type mark struct {
	epoch int64
	seq   int64
	now   time.Time
}

// home is the source in production.
type home struct {
	*ledger.Ledger
	homes  *pg.Homes
	charts *Charts
}

// Chart reads the event's chart copy.
func (s home) Chart(ctx context.Context, event usher.EventID) (*Chart, error) {
	return s.charts.OfEvent(ctx, event)
}

const sqlLedgerMark = `SELECT epoch, seq, clock_timestamp() FROM event_ledger WHERE event_id = $1`

// Mark reads where the ledger stands.
func (s home) Mark(ctx context.Context, event usher.EventID) (m mark, err error) {
	pool, err := s.homes.Shard(ctx, event)
	if err != nil {
		return m, err
	}
	err = pool.QueryRow(ctx, sqlLedgerMark, event).Scan(&m.epoch, &m.seq, &m.now)
	if errors.Is(err, pgx.ErrNoRows) {
		return m, usher.Errorf(usher.CodeNotFound, "the event is not published")
	}
	if err != nil {
		return m, fmt.Errorf("read mark of %s: %w", event, pg.Unavailable(err))
	}
	return m, nil
}

// Hub serves the seat maps of every event this process is asked about. It is
// safe for concurrent use.
type Hub struct {
	cfg     HubConfig
	source  source
	metrics *metrics
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	followers map[usher.EventID]*follower
}

// NewHub makes a hub. It follows an event from the first question about it.
// Close it, or let Run end.
func NewHub(cfg HubConfig) *Hub {
	return newHub(cfg, home{cfg.Ledger, cfg.Homes, cfg.Charts})
}

func newHub(cfg HubConfig, src source) *Hub {
	cfg = cfg.withDefaults()
	h := &Hub{cfg: cfg, source: src, metrics: newMetrics(cfg.Metrics), followers: map[usher.EventID]*follower{}}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// Run waits for ctx to end and then closes the hub.
func (h *Hub) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-h.ctx.Done():
	}
	h.Close()
}

// Close ends every stream and stops following. Whoever asks afterwards is told
// that it is unavailable.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stop()
	h.running.Wait()
}

// Snapshot returns the event's seats as they stand, shared by all who ask. It is
// a hint and never confirms a sale. While the home is away it is the last
// picture, with Live false. It fails with CodeNotFound, and with CodeUnavailable
// when there is no picture yet.
func (h *Hub) Snapshot(ctx context.Context, event usher.EventID) (Encoded, error) {
	_, v, err := h.loaded(ctx, event)
	if err != nil {
		return Encoded{}, err
	}
	h.metrics.snapshots.Inc()
	return v.encode(), nil
}

// Outsider returns a slower picture for people who are not in the shop: renewed
// at most every 10 s. It fails as Snapshot does.
func (h *Hub) Outsider(ctx context.Context, event usher.EventID) (Encoded, error) {
	f, v, err := h.loaded(ctx, event)
	if err != nil {
		return Encoded{}, err
	}
	h.metrics.snapshots.Inc()
	return f.forOutsiders(v).encode(), nil
}

// Chart returns the chart of a published event. It fails as Snapshot does.
func (h *Hub) Chart(ctx context.Context, event usher.EventID) (*Chart, error) {
	_, v, err := h.loaded(ctx, event)
	if err != nil {
		return nil, err
	}
	return v.chart, nil
}

// loaded returns the event's follower and its current view, waiting for the
// first one.
func (h *Hub) loaded(ctx context.Context, event usher.EventID) (*follower, *view, error) {
	f, err := h.follower(event)
	if err != nil {
		return nil, nil, err
	}
	v, err := f.loaded(ctx)
	return f, v, err
}

// follower returns the event's follower, starting it.
func (h *Hub) follower(event usher.EventID) (*follower, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errAway(errors.New("seat map: closed"))
	}
	f := h.followers[event]
	if f == nil {
		f = newFollower(h, event)
		h.followers[event] = f
		h.running.Go(func() { f.run(h.ctx) })
	}
	return f, nil
}

// forget takes an ended follower out.
func (h *Hub) forget(f *follower) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.followers[f.event] == f {
		delete(h.followers, f.event)
	}
}

func errAway(cause error) error {
	return &usher.Error{Code: usher.CodeUnavailable, Message: "temporarily unavailable", RetryAfter: 2 * time.Second, Err: cause}
}
