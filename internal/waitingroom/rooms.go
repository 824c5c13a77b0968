package waitingroom

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/pg"
	"usher/internal/token"
)

const (
	// groupMax bounds the commands of one transaction, waitingMax those that wait
	// for it: beyond it callers are told to come back.
	groupMax   = 512
	waitingMax = 16 * groupMax

	refreshEvery = time.Second
	tickEvery    = 500 * time.Millisecond
	flushEvery   = 2 * time.Second
	sweepEvery   = 15 * time.Second
	// callTimeout bounds what the background loops ask of a database.
	callTimeout = 3 * time.Second
)

// Config is what the waiting rooms of one process need.
type Config struct {
	Homes *pg.Homes
	// Keys signs queue tickets and admission tokens, and tells the database time.
	Keys *token.Keyring
	Log  *slog.Logger
	// Metrics takes the collectors.
	Metrics prometheus.Registerer
}

// Rooms is the waiting rooms of all events, as one process serves them. Any
// number of processes may serve the same rooms. Its methods may be called at
// the same time.
type Rooms struct {
	homes   *pg.Homes
	keys    *token.Keyring
	log     *slog.Logger
	metrics *metrics
	// name tells this process from the others that would lead a room.
	name string

	queue *pg.Group[usher.EventID, command, decision]
	shop  *pg.Group[usher.EventID, entrant, entrance]

	// views is replaced as a whole: readers take no lock and issue no SQL.
	views     atomic.Pointer[map[usher.EventID]*view]
	refreshMu sync.Mutex

	stockMu sync.Mutex
	stocks  map[usher.EventID]usher.Stock

	buckets bucketCache
	touches touches
	shards  shardHealth
}

// New makes the waiting rooms of this process and reads every room once. It
// fails with CodeUnavailable.
func New(ctx context.Context, cfg Config) (*Rooms, error) {
	r := &Rooms{
		homes:   cfg.Homes,
		keys:    cfg.Keys,
		log:     cfg.Log,
		metrics: newMetrics(cfg.Metrics),
		name:    rand.Text(),
		stocks:  map[usher.EventID]usher.Stock{},
		touches: newTouches(),
		shards:  shardHealth{down: map[usher.EventID]bool{}},
	}
	r.queue = pg.NewGroup(groupMax, waitingMax, r.runQueue)
	r.shop = pg.NewGroup(groupMax, waitingMax, r.runShop)
	r.views.Store(&map[usher.EventID]*view{})
	return r, r.refresh(ctx, true)
}

// Run keeps the now documents fresh, leads rooms, writes touches and ends idle
// sessions until ctx ends; then it writes what is left and gives its leads up.
func (r *Rooms) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { r.runRefresh(ctx) })
	wg.Go(func() { r.runTicks(ctx) })
	wg.Go(func() { r.runFlush(ctx) })
	wg.Go(func() { r.runSweep(ctx) })
	wg.Wait()
}

// every calls fn at the interval, each call with its own bounded context, until
// ctx ends.
func every(ctx context.Context, interval time.Duration, fn func(ctx context.Context)) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		own, cancel := context.WithTimeout(ctx, callTimeout)
		fn(own)
		cancel()
	}
}
