package seatmap

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"usher"
)

// Wish is what a buyer of the best available seats asks for.
type Wish struct {
	// Quantity is how many seats beside each other, 1 to usher.PlacesMax.
	Quantity int
	// Tier and Section narrow the choice; empty is any.
	Tier    usher.TierID
	Section string
	// Accessible wants a wheelchair place, with its companion's when there is more
	// than one seat. Without it, such places are left to those who need them.
	Accessible bool
}

// group is a candidate: seats beside each other in one row.
type group struct {
	first int
	rank
}

// rank is how good a group is, or at best can be.
type rank struct {
	// apart says that a wheelchair place is without its companion's, although more than
	// one seat is wanted.
	apart bool
	// wheelchairs is how many wheelchair places a wish for one takes besides.
	wheelchairs int
	// orphan says that taking the group leaves a single free seat beside it.
	orphan bool
	// tier is the tier's place among the chart's.
	tier int
	// away is the mean distance of its seats from the stage.
	away float64
}

// Best returns up to n groups of seat ids that fit the wish and look free, good
// ones first and none sharing a seat. Groups that leave no single seat behind go
// before those that do, then the order of tiers, then nearness to the stage.
// spread is how many of the best candidates the groups are drawn from: buyers who
// ask at the same moment should not all be given the same three.
func (c *Chart) Best(free func(ordinal int) bool, w Wish, n, spread int) [][]usher.SeatID {
	candidates := c.candidates(free, w, spread)
	pool := make([]group, 0, spread)
	taken := map[int]bool{}
	for _, g := range candidates {
		if len(pool) == spread {
			break
		}
		if overlaps(taken, g.first, w.Quantity) {
			continue
		}
		for i := range w.Quantity {
			taken[g.first+i] = true
		}
		pool = append(pool, g)
	}
	if len(pool) > n {
		rand.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
		pool = pool[:n]
		slices.SortFunc(pool, better)
	}
	out := make([][]usher.SeatID, len(pool))
	for i, g := range pool {
		for k := range w.Quantity {
			out[i] = append(out[i], c.seats[g.first+k].ID)
		}
	}
	return out
}

// checkWish refuses a wish that no state of the hall could grant: a word misspelt is
// not a hall sold out.
func (c *Chart) checkWish(w Wish) error {
	if w.Tier != "" && !slices.ContainsFunc(c.tiers, func(t Tier) bool { return t.ID == w.Tier }) {
		return usher.Errorf(usher.CodeInvalidRequest, "best.tierId: this event has no seats of a tier %q", string(w.Tier))
	}
	if w.Section != "" && !slices.ContainsFunc(c.rows, func(r Row) bool { return r.Section == w.Section }) {
		return usher.Errorf(usher.CodeInvalidRequest, "best.section: this event has no section %q", w.Section)
	}
	return nil
}

func overlaps(taken map[int]bool, first, n int) bool {
	for i := range n {
		if taken[first+i] {
			return true
		}
	}
	return false
}

func (a rank) compare(b rank) int {
	return cmp.Or(compareBools(a.apart, b.apart), a.wheelchairs-b.wheelchairs, compareBools(a.orphan, b.orphan), a.tier-b.tier,
		cmp.Compare(a.away, b.away))
}

// compareBools puts false first.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func better(a, b group) int {
	if n := a.compare(b.rank); n != 0 {
		return n
	}
	return a.first - b.first
}

// outlook is what a chart's seats are like to sit on, worked out once.
type outlook struct {
	// tier and away are by seat.
	tier []int
	away []float64
	// rows are ordered by the best that a group of theirs can be.
	rows []outlookRow
}

type outlookRow struct {
	Row
	best rank
}

func (c *Chart) look() outlook {
	tiers := map[usher.TierID]int{}
	for i, t := range c.tiers {
		tiers[t.ID] = i
	}
	stageX, stageY := c.stage()
	v := outlook{tier: make([]int, len(c.seats)), away: make([]float64, len(c.seats))}
	for i, s := range c.seats {
		v.tier[i], v.away[i] = tiers[s.Tier], math.Hypot(s.X-stageX, s.Y-stageY)
	}
	for _, r := range c.rows {
		if r.Count > 0 {
			seats := [2]int{r.First, r.First + r.Count}
			v.rows = append(v.rows, outlookRow{r, rank{tier: slices.Min(v.tier[seats[0]:seats[1]]), away: slices.Min(v.away[seats[0]:seats[1]])}})
		}
	}
	slices.SortStableFunc(v.rows, func(a, b outlookRow) int { return a.best.compare(b.best) })
	return v
}

// candidates lists the best groups, best first: enough of them that spread are
// left when those that share seats have been dropped. Rows are looked at in the
// order of the best they can give, so that most need not be.
func (c *Chart) candidates(free func(int) bool, w Wish, spread int) []group {
	// A group shares seats with at most 2*Quantity-2 others.
	enough := spread * (2*w.Quantity - 1)
	v := c.outlook()
	var out []group
	for _, r := range v.rows {
		if len(out) >= enough && r.best.compare(out[enough-1].rank) > 0 {
			break
		}
		if w.Section != "" && r.Section != w.Section {
			continue
		}
		before := len(out)
		for first := r.First; first+w.Quantity <= r.First+r.Count; first++ {
			if !c.fits(free, w, first) {
				continue
			}
			g := group{first, rank{tier: v.tier[first], orphan: c.leavesOrphan(free, r.Row, first, w.Quantity)}}
			if w.Accessible {
				g.apart, g.wheelchairs = c.company(first, w.Quantity)
			}
			for _, d := range v.away[first : first+w.Quantity] {
				g.away += d / float64(w.Quantity)
			}
			if before < enough || better(g, out[enough-1]) < 0 {
				out = append(out, g)
			}
		}
		if len(out) > before {
			slices.SortFunc(out, better)
			out = out[:min(len(out), enough)]
		}
	}
	return out
}

// fits reports whether the seats from first are free, beside each other, of one
// tier, and meant for whoever asks.
func (c *Chart) fits(free func(int) bool, w Wish, first int) bool {
	wheelchair := false
	for i := range w.Quantity {
		s := &c.seats[first+i]
		if !free(first+i) || w.Tier != "" && s.Tier != w.Tier || s.Tier != c.seats[first].Tier || i > 0 && !c.beside(first+i-1) {
			return false
		}
		if !w.Accessible && (s.Accessible || s.Companion) {
			return false
		}
		wheelchair = wheelchair || s.Accessible
	}
	return wheelchair || !w.Accessible
}

// company reports whether none of the seats' wheelchair places, of more than one seat,
// has a companion's place beside it among them, and how many there are besides the one
// that is wished for.
func (c *Chart) company(first, n int) (apart bool, besides int) {
	apart = n > 1
	for i := first; i < first+n; i++ {
		if !c.seats[i].Accessible {
			continue
		}
		besides++
		if i > first && c.seats[i-1].Companion || i+1 < first+n && c.seats[i+1].Companion {
			apart = false
		}
	}
	return apart, besides - 1
}

// aisleFactor is how much wider than the usual gap of its row, the median, a gap is
// taken to be an aisle.
const aisleFactor = 1.7

// beside reports whether no aisle lies between a seat and the next in its row.
func (c *Chart) beside(ordinal int) bool { return c.besides()[ordinal] }

// neighbours works out beside for every seat.
func (c *Chart) neighbours() []bool {
	out := make([]bool, len(c.seats))
	gap := func(i int) float64 {
		a, b := c.seats[i], c.seats[i+1]
		return math.Hypot(b.X-a.X, b.Y-a.Y)
	}
	for _, r := range c.rows {
		if r.Count < 2 {
			continue
		}
		gaps := make([]float64, r.Count-1)
		for i := range gaps {
			gaps[i] = gap(r.First + i)
		}
		usual := slices.Sorted(slices.Values(gaps))[(len(gaps)-1)/2]
		for i, g := range gaps {
			out[r.First+i] = g <= usual*aisleFactor
		}
	}
	return out
}

// leavesOrphan reports whether taking the seats leaves one free seat alone
// between them and a taken seat, an aisle, the end of the row, or seats that are not
// for the same buyers.
func (c *Chart) leavesOrphan(free func(int) bool, r Row, first, n int) bool {
	left, right := first-1, first+n
	open := func(i int) bool { return i >= r.First && i < r.First+r.Count && free(i) }
	reserved := func(i int) bool { return c.seats[i].Accessible || c.seats[i].Companion }
	if open(left) && c.beside(left) && !(open(left-1) && c.beside(left-1) && reserved(left) == reserved(left-1)) {
		return true
	}
	return open(right) && c.beside(right-1) && !(open(right+1) && c.beside(right) && reserved(right) == reserved(right+1))
}

// stage is the point that seats look at: the middle of the first decoration with
// an extent, or of the chart's upper edge.
func (c *Chart) stage() (x, y float64) {
	for _, d := range c.decorations {
		switch {
		case d.Width > 0 && d.Height > 0 && d.Shape == "ellipse":
			return d.X, d.Y
		case d.Width > 0 && d.Height > 0:
			return d.X + d.Width/2, d.Y + d.Height/2
		}
	}
	minX, maxX, minY := math.Inf(1), math.Inf(-1), math.Inf(1)
	for _, s := range c.seats {
		minX, maxX, minY = min(minX, s.X), max(maxX, s.X), min(minY, s.Y)
	}
	return (minX + maxX) / 2, minY
}

// Best looks for the best available seats on the live picture, which is a hint:
// the ledger decides which of the groups can be had. It fails as Snapshot does.
func (h *Hub) Best(ctx context.Context, event usher.EventID, w Wish, n, spread int) ([][]usher.SeatID, error) {
	if w.Quantity < 1 || w.Quantity > usher.PlacesMax {
		return nil, usher.Errorf(usher.CodeInvalidRequest, "ask for 1 to %d seats", usher.PlacesMax)
	}
	_, v, err := h.loaded(ctx, event)
	if err != nil {
		return nil, err
	}
	if err := v.chart.checkWish(w); err != nil {
		return nil, err
	}
	return v.chart.Best(func(i int) bool { return shown(v.packed, i) == shownAvailable }, w, n, spread), nil
}
