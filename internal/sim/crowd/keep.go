package crowd

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// KeepConfig says what crowd to keep about.
type KeepConfig struct {
	URL        string
	AdminToken string
	// People is how many are about at any time.
	People int
	// Speed is how many times human pace they move; 0 means 1.
	Speed float64
	// Leave is the share of every house that is left for others, from 0 to 1: of its
	// seats, and of each standing tier.
	Leave float64
	Log   *slog.Logger

	// every is the time between two lines in the log.
	every time.Duration
}

const (
	// keepPatience and keepSettle are those of people who are only looked at.
	keepPatience = time.Minute
	keepSettle   = 5 * time.Minute
	// arriveWithin is how long it takes, at human pace, until everybody is about.
	arriveWithin = 20 * time.Second
	// countEvery is how old the count of a house may be at human pace; it is never
	// made more often than countLeast.
	countEvery = 3 * time.Second
	countLeast = 250 * time.Millisecond
	mintBatch  = 50
)

// RoomRate returns how many people a second a waiting room should let in so that
// a crowd of so many at that speed has a line, and the line moves: somebody who
// joins it waits for about half a minute of human pace.
func RoomRate(people int, speed float64) float64 {
	const lineSeconds, largestShare = 30, 0.5
	return max(0.2, largestShare*float64(people)*speed/(visitSeconds+lineSeconds))
}

// keeper keeps people about.
type keeper struct {
	*scene
	cfg KeepConfig

	minting sync.Mutex
	tokens  []string

	mu sync.Mutex
	// venues are the houses that are on sale, by event.
	venues   map[string]*venue
	outcomes map[string]int
	places   int
	last     error
}

// Keep keeps people about until ctx ends: each goes through a sale like those of a
// rehearsal, at human pace and with no gate at the end, and is followed by somebody
// new. They go where places are left that are meant for them. What goes wrong is
// logged and ends nothing: people are for looking at, the verdict is Run's.
func Keep(ctx context.Context, cfg KeepConfig) {
	if cfg.Speed == 0 {
		cfg.Speed = 1
	}
	if cfg.every == 0 {
		cfg.every = time.Minute
	}
	k := &keeper{
		scene: newScene(cfg.URL, cfg.AdminToken, keepPatience, keepSettle, human.faster(cfg.Speed)),
		cfg:   cfg, venues: map[string]*venue{}, outcomes: map[string]int{},
	}
	k.admitted = func(time.Duration) {}
	k.bought = k.countPlaces
	var all sync.WaitGroup
	all.Go(func() { k.scout(ctx, &all) })
	all.Go(func() { k.report(ctx) })
	for i := range cfg.People {
		all.Go(func() { k.keepOne(ctx, rand.New(rand.NewPCG(rand.Uint64(), uint64(i)))) })
	}
	all.Wait()
	k.client.http.CloseIdleConnections()
}

// keepOne sends one person after another.
func (k *keeper) keepOne(ctx context.Context, rng *rand.Rand) {
	wait(ctx, time.Duration(rng.Float64()*float64(arriveWithin)/k.cfg.Speed))
	for ctx.Err() == nil {
		if v := k.choose(rng); v != nil {
			k.visit(ctx, rng, v)
		}
		wait(ctx, k.pace.rest.draw(rng))
	}
}

func (k *keeper) visit(ctx context.Context, rng *rand.Rand, v *venue) {
	token, err := k.newcomer(ctx)
	if err != nil {
		k.note(ctx, "", err)
		return
	}
	p := &person{scene: k.scene, venue: v, rng: rng, part: drawPart(rng), token: token}
	p.live(ctx)
	k.note(ctx, p.outcome, p.err)
	if v.queued && ctx.Err() == nil {
		// Whoever is done makes room. That the place lapses by itself later is no harm.
		_, _ = k.client.call(ctx, http.MethodDelete, p.path("/queue"), p.token, nil, nil, nil)
	}
}

// newcomer is somebody who was never here.
func (k *keeper) newcomer(ctx context.Context) (string, error) {
	k.minting.Lock()
	defer k.minting.Unlock()
	if len(k.tokens) == 0 {
		var err error
		if k.tokens, err = k.mint(ctx, min(mintBatch, k.cfg.People)); err != nil {
			return "", err
		}
	}
	token := k.tokens[0]
	k.tokens = k.tokens[1:]
	return token, nil
}

// choose draws a house, large ones more often but not only them; nil when nothing
// is left anywhere.
func (k *keeper) choose(rng *rand.Rand) *venue {
	k.mu.Lock()
	defer k.mu.Unlock()
	weight := func(v *venue) float64 { return math.Cbrt(float64(v.spare())) }
	sum := 0.0
	for _, v := range k.venues {
		sum += weight(v)
	}
	at := rng.Float64() * sum
	for _, v := range k.venues {
		if at -= weight(v); at < 0 {
			return v
		}
	}
	return nil
}

// scout looks for houses that are on sale and counts what is left in them, until
// ctx ends. Watchers of their queues run in the group.
func (k *keeper) scout(ctx context.Context, watchers *sync.WaitGroup) {
	known := map[string]*venue{}
	for ctx.Err() == nil {
		events, err := k.listEvents(ctx)
		if err != nil {
			k.note(ctx, "", err)
		}
		selling := map[string]*venue{}
		for _, e := range events {
			if e.Sale != "open" || e.places() == 0 {
				continue
			}
			v := known[e.EventID]
			if v == nil {
				if v, err = readVenue(ctx, k.client, &e); err != nil {
					k.note(ctx, "", err)
					continue
				}
				known[e.EventID] = v
				if v.queued {
					watchers.Go(func() { k.watchQueue(ctx, v) })
				}
			}
			if err := k.count(ctx, v); err != nil {
				k.note(ctx, "", err)
				continue
			}
			selling[e.EventID] = v
		}
		k.mu.Lock()
		k.venues = selling
		k.mu.Unlock()
		wait(ctx, max(countLeast, time.Duration(float64(countEvery)/k.cfg.Speed)))
	}
}

// count sets what people may still take of a house.
func (k *keeper) count(ctx context.Context, v *venue) error {
	if v.seats > 0 {
		var snap snapshotBody
		if _, err := k.client.call(ctx, http.MethodGet, "/v1/events/"+v.event+"/seats", "", nil, nil, &snap); err != nil {
			return fmt.Errorf("count seats of %s: %w", v.event, err)
		}
		if err := v.take(snap); err != nil {
			return err
		}
		v.leaveSeats(k.cfg.Leave)
	}
	for _, t := range v.tiers() {
		var quota struct {
			Buckets []struct {
				Available int `json:"available"`
				Held      int `json:"held"`
				Sold      int `json:"sold"`
			} `json:"buckets"`
		}
		path := "/v1/admin/events/" + v.event + "/tiers/" + url.PathEscape(t) + "/quota"
		if err := k.admin(ctx, http.MethodGet, path, nil, &quota); err != nil {
			return fmt.Errorf("count %s of %s: %w", t, v.event, err)
		}
		free, total := 0, 0
		for _, b := range quota.Buckets {
			free += b.Available
			total += b.Available + b.Held + b.Sold
		}
		v.leaveStanding(t, free, total, k.cfg.Leave)
	}
	return nil
}

// countPlaces counts who has all tickets.
func (k *keeper) countPlaces(p *person) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.places += p.places()
	return nil
}

// note counts how a visit ended, and keeps what went wrong for the log. A refusal is
// no fault: somebody may have paused the sale. At the end nothing is.
func (k *keeper) note(ctx context.Context, outcome string, err error) {
	if ctx.Err() != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if outcome == failed && codeOf(err) != "" {
		outcome = turnedAway
	}
	if outcome != "" {
		k.outcomes[outcome]++
	}
	if err != nil {
		k.last = err
	}
}

// report writes the figures into the log, and once more at the end.
func (k *keeper) report(ctx context.Context) {
	for {
		wait(ctx, k.cfg.every)
		k.mu.Lock()
		outcomes, places, last := maps.Clone(k.outcomes), k.places, k.last
		k.last = nil
		k.mu.Unlock()
		visits := 0
		for _, n := range outcomes {
			visits += n
		}
		k.cfg.Log.Info("crowd", "people", k.cfg.People, "waiting", k.waiting.Load(), "visits", visits, "places_bought", places,
			"holds", k.holds.Load(), "conflicts", k.conflicts.Load(), "orders", k.orders.Load(), "with_tickets", outcomes[hasTickets],
			"not_paid", outcomes[notPaid], "walked_away", outcomes[leftSeats]+outcomes[returned], "found_nothing", outcomes[gaveUp],
			"turned_away", outcomes[turnedAway], "failed", outcomes[failed], "server_errors", k.client.serverErrors.Load())
		if last != nil {
			k.cfg.Log.Warn("somebody of the crowd was refused or failed", "last", last)
		}
		if ctx.Err() != nil {
			return
		}
	}
}
