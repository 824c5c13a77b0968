package bench

import (
	"math/rand/v2"
	"sync"
	"time"

	"usher"
)

// picker hands out groups of adjacent seats. It keeps the stock's own record of
// what is held, so that the share of conflicts is chosen and not a matter of how
// fast a contender is: with probability conflict it names a group that is held
// right now, otherwise one that is free, four times in five from the hot fifth.
type picker struct {
	perHold  int
	conflict float64

	mu   sync.Mutex
	hot  []int
	cold []int
	held []heldGroup
}

type heldGroup struct {
	group int
	until time.Time
}

// lapseMargin is added to the hold time before a group counts as free again.
const lapseMargin = 500 * time.Millisecond

func newPicker(seats, perHold int, conflict float64) *picker {
	p := &picker{perHold: perHold, conflict: conflict}
	groups := seats / perHold
	for g := range groups {
		if g < groups/5 {
			p.hot = append(p.hot, g)
		} else {
			p.cold = append(p.cold, g)
		}
	}
	return p
}

// pick returns the seats to ask for and the free group among them (-1 when the
// seats are known to be held).
func (p *picker) pick(rng *rand.Rand) ([]usher.SeatID, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for len(p.held) > 0 && now.After(p.held[0].until) {
		p.put(p.held[0].group)
		p.held = p.held[1:]
	}
	// The newest half of what is held has most of its time left.
	if n := len(p.held); n > 1 && rng.Float64() < p.conflict {
		return p.seats(p.held[n/2+rng.IntN(n-n/2)].group), -1
	}
	from := &p.hot
	if len(p.hot) == 0 || len(p.cold) > 0 && rng.Float64() >= 0.8 {
		from = &p.cold
	}
	if len(*from) == 0 {
		return p.seats(p.held[len(p.held)-1].group), -1
	}
	i := rng.IntN(len(*from))
	g := (*from)[i]
	(*from)[i] = (*from)[len(*from)-1]
	*from = (*from)[:len(*from)-1]
	return p.seats(g), g
}

// done records what became of a group that pick took out.
func (p *picker) done(group int, accepted bool) {
	if group < 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if accepted {
		p.held = append(p.held, heldGroup{group, time.Now().Add(holdTime + lapseMargin)})
	} else {
		p.put(group)
	}
}

func (p *picker) put(group int) {
	if group < (len(p.hot)+len(p.cold)+len(p.held))/5 {
		p.hot = append(p.hot, group)
	} else {
		p.cold = append(p.cold, group)
	}
}

func (p *picker) seats(group int) []usher.SeatID {
	out := make([]usher.SeatID, p.perHold)
	for i := range out {
		out[i] = benchSeat(group*p.perHold + i)
	}
	return out
}
