package crowd

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// wish is what a person asks for at once: seats by name, quantities of standing
// tiers, both, or so many of the best seats.
type wish struct {
	seats []string
	items []item
	best  int
}

// item is a quantity of a tier without seats.
type item struct {
	TierID   string `json:"tierId"`
	Quantity int    `json:"quantity"`
}

// taste is what kind of places a person is after.
type taste int

const (
	tasteSeats taste = iota
	tasteStanding
	tasteBoth
	tasteBest
)

// placesMax is the most places people ask for at once.
const placesMax = 4

// drawTaste says what a person is after in this house, and how many places. It
// reports false when people have taken what is meant for them.
func drawTaste(rng *rand.Rand, v *venue) (t taste, n int, ok bool) {
	seats, standing := v.open()
	if !seats && !standing {
		return 0, 0, false
	}
	n = 1 + rng.IntN(placesMax)
	if v.limit > 0 {
		n = min(n, v.limit)
	}
	switch {
	case !seats:
		return tasteStanding, n, true
	case !standing && rng.IntN(10) == 0:
		return tasteBest, n, true
	case !standing:
		return tasteSeats, n, true
	}
	t = taste(rng.IntN(4))
	if t == tasteBoth && n < 2 {
		t = tasteStanding
	}
	return t, n, true
}

// wishFor chooses among what looks free. It reports false when nothing does.
func (v *venue) wishFor(rng *rand.Rand, t taste, n int, hot bool) (wish, bool) {
	switch t {
	case tasteBest:
		return wish{best: n}, true
	case tasteStanding:
		w := wish{items: v.pickTiers(rng, n)}
		return w, w.items != nil
	case tasteBoth:
		standing := 1 + rng.IntN(n-1)
		w := wish{seats: v.pick(rng, n-standing, hot), items: v.pickTiers(rng, standing)}
		return w, w.seats != nil && w.items != nil
	}
	w := wish{seats: v.pick(rng, n, hot)}
	return w, w.seats != nil
}

// fewer is what a person settles for when so many cannot be had.
func fewer(t taste, n int) (taste, int) {
	if n > 1 {
		n--
	}
	if t == tasteBoth && n == 1 {
		t = tasteStanding
	}
	return t, n
}

// body is the request for it.
func (w wish) body() map[string]any {
	b := map[string]any{}
	if w.seats != nil {
		b["seatIds"] = w.seats
	}
	if w.items != nil {
		b["items"] = w.items
	}
	if w.best > 0 {
		b["best"] = map[string]int{"quantity": w.best}
	}
	return b
}

// grantedBy checks that a hold is what was asked for, no more, no less and nothing
// else.
func (w wish) grantedBy(h *holdBody) error {
	got := h.seatIDs()
	asked := slices.Sorted(slices.Values(w.seats))
	switch {
	case w.best > 0 && len(got) != w.best:
		return fmt.Errorf("hold %s: asked for the best %d, got %v", h.HoldID, w.best, got)
	case w.best == 0 && !slices.Equal(slices.Sorted(slices.Values(got)), asked):
		return fmt.Errorf("hold %s: asked for %v, got %v", h.HoldID, asked, got)
	case !maps.Equal(quantities(w.items), quantities(h.Items)):
		return fmt.Errorf("hold %s: asked for %v, got %v", h.HoldID, w.items, h.Items)
	}
	return nil
}

func quantities(items []item) map[string]int {
	q := map[string]int{}
	for _, i := range items {
		q[i.TierID] += i.Quantity
	}
	return q
}

type holdBody struct {
	HoldID string `json:"holdId"`
	Status string `json:"status"`
	Seats  []struct {
		SeatID string `json:"seatId"`
	} `json:"seats"`
	Items []item `json:"items"`
}

func (h *holdBody) seatIDs() []string {
	ids := make([]string, 0, len(h.Seats))
	for _, s := range h.Seats {
		ids = append(ids, s.SeatID)
	}
	return ids
}
