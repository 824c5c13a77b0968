package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Config says what to rehearse.
type Config struct {
	URL        string
	AdminToken string
	// Events are the events to rehearse; none takes every one that is on sale.
	Events []string
	People int
	// Arrive is the time over which people come; 0 means people / 50 per second.
	Arrive time.Duration
	// Seed decides who does what; the same seed casts the same people.
	Seed uint64
	// Patience is how long people put up with a server that is away.
	Patience time.Duration
	// Settle is how long an order may stay undecided, and how long the end waits
	// for everything to settle.
	Settle time.Duration
	// SimulatorURL, if set, has the payment simulator's own ledger checked, too.
	SimulatorURL string
	// Progress, if set, is told now and then how far the crowd is.
	Progress func(line string)
}

func (c Config) withDefaults() Config {
	if c.Arrive == 0 {
		c.Arrive = time.Duration(c.People) * time.Second / 50
	}
	if c.Patience == 0 {
		c.Patience = 2 * time.Minute
	}
	if c.Settle == 0 {
		c.Settle = 2 * time.Minute
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return c
}

// run is one rehearsal.
type run struct {
	*scene
	cfg Config
	// venues are the events, the largest first.
	venues []*venue
	people []*person

	done atomic.Int64

	mu sync.Mutex
	// owners are by event and seat, codes by code; standing counts by event and tier.
	owners     map[[2]string]*person
	codes      map[string]*person
	standing   map[[2]string]int
	queueWaits []time.Duration
	firstIn    time.Time
	lastIn     time.Time
}

// Run rehearses and returns the report. The error is for a rehearsal that could
// not be carried out; one that fails is a report with Pass false.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	cfg = cfg.withDefaults()
	r := &run{cfg: cfg, scene: newScene(cfg.URL, cfg.AdminToken, cfg.Patience, cfg.Settle, hurried),
		owners: map[[2]string]*person{}, codes: map[string]*person{}, standing: map[[2]string]int{}}
	r.admitted, r.bought = r.recordWait, r.own
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	before, err := r.scrape(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	r.send(ctx)
	rep := r.report(time.Since(began))
	r.settle(ctx, rep, before)
	rep.judge()
	return rep, nil
}

// prepare finds the events, mints buyers and registers a gate for each event.
func (r *run) prepare(ctx context.Context) error {
	events, err := r.findEvents(ctx)
	if err != nil {
		return err
	}
	sizes := make([]int, 0, len(events))
	for _, e := range events {
		v, err := readVenue(ctx, r.client, &e)
		if err != nil {
			return err
		}
		var gate struct {
			Credential string `json:"credential"`
		}
		if err := r.admin(ctx, http.MethodPost, "/v1/admin/events/"+v.event+"/devices", map[string]any{"name": "Rehearsal gate", "settle": "now"}, &gate); err != nil {
			return fmt.Errorf("register a gate of %s: %w", v.event, err)
		}
		v.gate = gate.Credential
		r.venues = append(r.venues, v)
		sizes = append(sizes, e.places())
	}
	tokens, err := r.mint(ctx, r.cfg.People)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(r.cfg.Seed, 1))
	goes := spread(rng, r.cfg.People, sizes)
	for i, token := range tokens {
		r.people = append(r.people, &person{
			scene: r.scene, venue: r.venues[goes[i]], token: token, part: drawPart(rng), rng: rand.New(rand.NewPCG(r.cfg.Seed, uint64(i)+2)),
		})
	}
	return nil
}

// spread says which event each of the people goes to: as many to each, but no more
// than one for two places of a house. The rest goes to the largest, which is the
// first.
func spread(rng *rand.Rand, people int, places []int) []int {
	goes := make([]int, people)
	left := slices.Clone(places)
	for i := range left {
		left[i] /= 2
	}
	for i := 0; i < people; {
		before := i
		for e := range left {
			if left[e] > 0 && i < people {
				goes[i] = e
				left[e]--
				i++
			}
		}
		if i == before {
			break
		}
	}
	rng.Shuffle(people, func(i, j int) { goes[i], goes[j] = goes[j], goes[i] })
	return goes
}

func drawPart(rng *rand.Rand) part {
	n := rng.IntN(100)
	for _, c := range cast {
		if n -= c.share; n < 0 {
			return c.part
		}
	}
	return pays
}

// findEvents returns the events to rehearse, the largest first.
func (r *run) findEvents(ctx context.Context) ([]eventBody, error) {
	events, err := r.listEvents(ctx)
	if err != nil {
		return nil, err
	}
	var found []eventBody
	for _, e := range events {
		if slices.Contains(r.cfg.Events, e.EventID) || len(r.cfg.Events) == 0 && e.Sale == "open" && e.places() > 0 {
			found = append(found, e)
		}
	}
	for _, id := range r.cfg.Events {
		if !slices.ContainsFunc(found, func(e eventBody) bool { return e.EventID == id }) {
			return nil, fmt.Errorf("there is no event %s here", id)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no event is on sale here")
	}
	slices.SortStableFunc(found, func(a, b eventBody) int { return b.places() - a.places() })
	return found, nil
}

// send lets the people come over the arrival time and waits for all of them.
func (r *run) send(ctx context.Context) {
	watch, stop := context.WithCancel(ctx)
	var watching, people sync.WaitGroup
	for _, v := range r.venues {
		if v.queued {
			watching.Go(func() { r.watchQueue(watch, v) })
		}
	}
	watching.Go(func() { r.reportProgress(watch) })
	gap := r.cfg.Arrive / time.Duration(max(len(r.people), 1))
	for i, p := range r.people {
		people.Go(func() {
			wait(ctx, time.Duration(i)*gap)
			p.live(ctx)
			r.done.Add(1)
		})
	}
	people.Wait()
	stop()
	watching.Wait()
}

func (r *run) reportProgress(ctx context.Context) {
	for {
		wait(ctx, 2*time.Second)
		if ctx.Err() != nil {
			return
		}
		r.cfg.Progress(fmt.Sprintf("%d of %d people done, %d holds asked for, %d conflicts, %d orders, %d went in",
			r.done.Load(), len(r.people), r.holds.Load(), r.conflicts.Load(), r.orders.Load(), r.entered.Load()))
	}
}

func (r *run) recordWait(waited time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queueWaits = append(r.queueWaits, waited)
	r.lastIn = time.Now()
	if r.firstIn.IsZero() {
		r.firstIn = r.lastIn
	}
}

// own records whose places are whose. Two owners of one seat are the worst there
// is; a tier without seats must not be sold beyond its capacity, nor one code
// given to two people.
func (r *run) own(p *person) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range p.seats {
		key := [2]string{p.venue.event, s}
		if first := r.owners[key]; first != nil {
			return fmt.Errorf("seat %s of %s was sold twice: orders %s and %s", s, p.venue.event, first.orderID, p.orderID)
		}
		r.owners[key] = p
	}
	for _, i := range p.items {
		key := [2]string{p.venue.event, i.TierID}
		r.standing[key] += i.Quantity
		if capacity := p.venue.capacityOf(i.TierID); capacity > 0 && r.standing[key] > capacity {
			return fmt.Errorf("tier %s of %s has %d places, %d were sold", i.TierID, p.venue.event, capacity, r.standing[key])
		}
	}
	for _, t := range p.tickets {
		if first := r.codes[t.Code]; first != nil {
			return fmt.Errorf("orders %s and %s have a ticket with the same code", first.orderID, p.orderID)
		}
		r.codes[t.Code] = p
	}
	return nil
}

// settle waits until nothing is unknown any more and takes the figures of the
// server: metrics, audit, simulator.
func (r *run) settle(ctx context.Context, rep *Report, before figures) {
	deadline := time.Now().Add(r.cfg.Settle)
	var after figures
	var err error
	for {
		if after, err = r.scrape(ctx); err == nil && after.unknownOpen == 0 && after.captureOpen == 0 || time.Now().After(deadline) || ctx.Err() != nil {
			break
		}
		wait(ctx, time.Second)
	}
	if err != nil {
		rep.fail("the metrics cannot be read: %v", err)
	}
	rep.take(before, after)
	var audit struct {
		Violations int             `json:"violations"`
		Checks     json.RawMessage `json:"checks"`
	}
	if err := r.admin(ctx, http.MethodPost, "/v1/admin/audit", struct{}{}, &audit); err != nil {
		rep.fail("the audit could not be run: %v", err)
		return
	}
	rep.AuditViolations = audit.Violations
	if audit.Violations > 0 {
		rep.fail("the audit found %d violations: %s", audit.Violations, audit.Checks)
	}
	r.askSimulator(ctx, rep)
}

func (r *run) askSimulator(ctx context.Context, rep *Report) {
	if r.cfg.SimulatorURL == "" {
		return
	}
	sim := newClient(r.cfg.SimulatorURL, r.cfg.Patience)
	var out struct {
		OK         bool              `json:"ok"`
		Violations []json.RawMessage `json:"violations"`
	}
	if _, err := sim.call(ctx, http.MethodGet, "/control/invariants", "", nil, nil, &out); err != nil {
		rep.fail("the payment simulator's ledger cannot be read: %v", err)
		return
	}
	if len(out.Violations) > 0 {
		rep.fail("the payment simulator found %d violations: %s", len(out.Violations), out.Violations)
	}
}
