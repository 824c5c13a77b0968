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
	// heldFor is after how long a held group counts as free again.
	heldFor time.Duration

	mu   sync.Mutex
	rng  *rand.Rand
	hot  []int
	cold []int
	// hotBelow is the first group that is not in the hot fifth.
	hotBelow int
	// turn counts how often each group came back or was sold: a claim of an earlier
	// turn says nothing any more.
	turn []uint32
	held []heldGroup
}

// claim is a group that pick took out for one request; a group of -1 is one that
// was known to be held.
type claim struct {
	group int
	turn  uint32
}

type heldGroup struct {
	claim
	until time.Time
}

// lapseMargin is added to the hold time before a group counts as free again.
const lapseMargin = 500 * time.Millisecond

func newPicker(seats, perHold int, conflict float64, hold time.Duration, seed uint64) *picker {
	groups := seats / perHold
	p := &picker{
		perHold: perHold, conflict: conflict, heldFor: hold + lapseMargin, rng: rand.New(rand.NewPCG(seed, 1)),
		hotBelow: groups / 5, turn: make([]uint32, groups),
	}
	for g := range groups {
		p.put(g)
	}
	return p
}

// pick returns seats to ask for and the claim on them.
func (p *picker) pick() ([]usher.SeatID, claim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lapse(time.Now())
	if len(p.held) > 1 && p.rng.Float64() < p.conflict {
		if g, ok := p.someHeld(); ok {
			return p.seats(g), claim{group: -1}
		}
	}
	from := &p.hot
	if len(p.hot) == 0 || len(p.cold) > 0 && p.rng.Float64() >= 0.8 {
		from = &p.cold
	}
	if len(*from) == 0 {
		return p.seats(p.rng.IntN(len(p.turn))), claim{group: -1}
	}
	i := p.rng.IntN(len(*from))
	g := (*from)[i]
	(*from)[i] = (*from)[len(*from)-1]
	*from = (*from)[:len(*from)-1]
	return p.seats(g), claim{g, p.turn[g]}
}

// lapse frees what is due, and forgets what has come back already.
func (p *picker) lapse(now time.Time) {
	for len(p.held) > 0 && (p.stale(p.held[0].claim) || now.After(p.held[0].until)) {
		p.end(p.held[0].claim, true)
		p.held = p.held[1:]
	}
}

// someHeld returns a group of the newest half of what is held: most of its time
// is left.
func (p *picker) someHeld() (int, bool) {
	n := len(p.held)
	for range 8 {
		if h := p.held[n/2+p.rng.IntN(n-n/2)]; !p.stale(h.claim) {
			return h.group, true
		}
	}
	return 0, false
}

func (p *picker) stale(c claim) bool { return p.turn[c.group] != c.turn }

// done records what became of a group that pick took out.
func (p *picker) done(c claim, accepted bool) {
	if c.group < 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if accepted {
		p.held = append(p.held, heldGroup{c, time.Now().Add(p.heldFor)})
	} else {
		p.put(c.group)
	}
}

// free puts a held group back before its time.
func (p *picker) free(c claim) { p.endLocked(c, true) }

// sell takes a held group out for good.
func (p *picker) sell(c claim) { p.endLocked(c, false) }

func (p *picker) endLocked(c claim, back bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(c, back)
}

// end ends a claim once, whoever comes first.
func (p *picker) end(c claim, back bool) {
	if c.group < 0 || p.stale(c) {
		return
	}
	p.turn[c.group]++
	if back {
		p.put(c.group)
	}
}

func (p *picker) put(group int) {
	if group < p.hotBelow {
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
