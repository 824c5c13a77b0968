package crowd

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// eventBody is an event as the list of events shows it.
type eventBody struct {
	EventID       string `json:"eventId"`
	Sale          string `json:"sale"`
	Queue         bool   `json:"queue"`
	Seats         int    `json:"seats"`
	Standing      int    `json:"standing"`
	PurchaseLimit int    `json:"purchaseLimit"`
	Tiers         []tier `json:"tiers"`
}

func (e *eventBody) places() int { return e.Seats + e.Standing }

// tier is a price tier. Only standing ones have a capacity and a word for their stock.
type tier struct {
	ID       string `json:"tierId"`
	Kind     string `json:"kind"`
	Capacity int    `json:"capacity"`
	Stock    string `json:"stock"`
	// spare is how many places people may still take.
	spare int
}

const (
	kindStanding = "standing"
	stockSoldOut = "soldOut"
)

// venue is what people see of an event: its seats in rows with the picture of what
// is free, and its standing tiers with the words for their stock. Picture and
// words are shared and a little old, as everybody's are.
type venue struct {
	event  string
	queued bool
	limit  int
	// gate is the credential of the gate that people go through.
	gate     string
	sections [][]row
	seats    int
	// serving is where the queue stands.
	serving atomic.Int64

	mu     sync.Mutex
	states []byte
	// standing are the tiers without seats; which ones there are does not change.
	standing []tier
	// spareSeats is how many seats people may still take.
	spareSeats int
}

// noLimit lets people take all there is.
const noLimit = math.MaxInt

// row is the ordinals and ids of adjacent seats.
type row struct {
	first int
	ids   []string
}

type chartBody struct {
	Sections []struct {
		Rows []struct {
			Seats []struct {
				ID string `json:"id"`
			} `json:"seats"`
		} `json:"rows"`
	} `json:"sections"`
}

type snapshotBody struct {
	Chart  string `json:"chart"`
	Count  int    `json:"count"`
	States string `json:"states"`
}

// readVenue reads chart and first picture of an event; one without seats has neither.
func readVenue(ctx context.Context, c *client, e *eventBody) (*venue, error) {
	v := &venue{event: e.EventID, queued: e.Queue, limit: e.PurchaseLimit, spareSeats: noLimit}
	for _, t := range e.Tiers {
		if t.Kind == kindStanding {
			t.spare = noLimit
			v.standing = append(v.standing, t)
		}
	}
	if e.Seats == 0 {
		return v, nil
	}
	var snap snapshotBody
	if _, err := c.call(ctx, http.MethodGet, "/v1/events/"+v.event+"/seats", "", nil, nil, &snap); err != nil {
		return nil, fmt.Errorf("read seats of %s: %w", v.event, err)
	}
	var chart chartBody
	if _, err := c.call(ctx, http.MethodGet, "/v1/charts/"+snap.Chart, "", nil, nil, &chart); err != nil {
		return nil, fmt.Errorf("read chart of %s: %w", v.event, err)
	}
	for _, s := range chart.Sections {
		var rows []row
		for _, r := range s.Rows {
			x := row{first: v.seats}
			for _, seat := range r.Seats {
				x.ids = append(x.ids, seat.ID)
			}
			v.seats += len(x.ids)
			rows = append(rows, x)
		}
		v.sections = append(v.sections, rows)
	}
	if v.seats != snap.Count {
		return nil, fmt.Errorf("chart of %s has %d seats, its picture %d", v.event, v.seats, snap.Count)
	}
	return v, v.take(snap)
}

// look takes a fresh picture and fresh words, as a person in the shop does.
func (v *venue) look(ctx context.Context, c *client, token, admission string) error {
	if len(v.standing) > 0 {
		var e eventBody
		if _, err := c.call(ctx, http.MethodGet, "/v1/events/"+v.event, "", nil, nil, &e); err != nil {
			return err
		}
		v.takeStock(e.Tiers)
	}
	if v.seats == 0 {
		return nil
	}
	var header map[string]string
	if admission != "" {
		header = map[string]string{"Usher-Admission": admission}
	}
	var snap snapshotBody
	if _, err := c.call(ctx, http.MethodGet, "/v1/events/"+v.event+"/seats", token, header, nil, &snap); err != nil {
		return err
	}
	return v.take(snap)
}

func (v *venue) take(snap snapshotBody) error {
	states, err := base64.StdEncoding.DecodeString(snap.States)
	if err == nil && len(states) != (v.seats+3)/4 {
		err = fmt.Errorf("%d bytes for %d seats", len(states), v.seats)
	}
	if err != nil {
		return fmt.Errorf("read picture of %s: %w", v.event, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.states = states
	return nil
}

func (v *venue) takeStock(tiers []tier) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.standing {
		if n := slices.IndexFunc(tiers, func(t tier) bool { return t.ID == v.standing[i].ID }); n >= 0 {
			v.standing[i].Stock = tiers[n].Stock
			v.standing[i].Capacity = max(v.standing[i].Capacity, tiers[n].Capacity)
		}
	}
}

// capacityOf returns the most places a standing tier was seen to have, 0 for one
// that is not known.
func (v *venue) capacityOf(id string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range v.standing {
		if t.ID == id {
			return t.Capacity
		}
	}
	return 0
}

// open says which kinds of places people may still take here.
func (v *venue) open() (seats, standing bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seats > 0 && v.spareSeats > 0, slices.ContainsFunc(v.standing, func(t tier) bool { return t.spare > 0 })
}

// spare is how many places people may still take.
func (v *venue) spare() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := 0
	if v.seats > 0 {
		n = max(0, v.spareSeats)
	}
	for _, t := range v.standing {
		n += max(0, t.spare)
	}
	return n
}

// tiers are the standing ones.
func (v *venue) tiers() []string {
	ids := make([]string, len(v.standing))
	for i := range ids {
		ids[i] = v.standing[i].ID
	}
	return ids
}

// leaveSeats counts the picture and leaves a share of all seats for others.
func (v *venue) leaveSeats(share float64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.spareSeats = -int(math.Ceil(share * float64(v.seats)))
	for i := range v.seats {
		if v.free(i) {
			v.spareSeats++
		}
	}
}

// leaveStanding leaves a share of a tier for others.
func (v *venue) leaveStanding(tier string, free, total int, share float64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.standing {
		if v.standing[i].ID == tier {
			v.standing[i].spare = free - int(math.Ceil(share*float64(total)))
		}
	}
}

// took counts what somebody holds until the house is counted again.
func (v *venue) took(h *holdBody) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.spareSeats -= len(h.Seats)
	for _, i := range h.Items {
		if n := slices.IndexFunc(v.standing, func(t tier) bool { return t.ID == i.TierID }); n >= 0 {
			v.standing[n].spare -= i.Quantity
		}
	}
}

// free reports whether the picture shows the seat as available (two bits a seat,
// first seat highest, 0 is available).
func (v *venue) free(i int) bool { return v.states[i>>2]>>(6-2*(i&3))&3 == 0 }

// hotRows is how many rows of the first section everybody wants.
const hotRows = 6

// pick chooses n adjacent seats that look free. Most people want the same few
// rows: that is where they quarrel. It returns nil when nothing looks free.
func (v *venue) pick(rng *rand.Rand, n int, hot bool) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	for range 200 {
		rows := v.sections[rng.IntN(len(v.sections))]
		if hot {
			rows = v.sections[0][:min(hotRows, len(v.sections[0]))]
		}
		if len(rows) == 0 {
			continue
		}
		r := rows[rng.IntN(len(rows))]
		if len(r.ids) < n {
			continue
		}
		at := rng.IntN(len(r.ids) - n + 1)
		ok := true
		for k := range n {
			ok = ok && v.free(r.first+at+k)
		}
		if ok {
			return append([]string(nil), r.ids[at:at+n]...)
		}
	}
	return nil
}

// pickTiers spreads n places over standing tiers that are not sold out: mostly
// one, sometimes two. It returns nil when all are.
func (v *venue) pickTiers(rng *rand.Rand, n int) []item {
	v.mu.Lock()
	defer v.mu.Unlock()
	var open []string
	for _, t := range v.standing {
		if t.Stock != stockSoldOut && t.spare > 0 {
			open = append(open, t.ID)
		}
	}
	if len(open) == 0 || n == 0 {
		return nil
	}
	rng.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
	if n > 1 && len(open) > 1 && rng.IntN(4) == 0 {
		first := 1 + rng.IntN(n-1)
		return []item{{open[0], first}, {open[1], n - first}}
	}
	return []item{{open[0], n}}
}
