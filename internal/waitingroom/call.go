package waitingroom

import (
	"math"
	"time"
)

const (
	// leadTime is how long a leader that stopped ticking keeps others from leading.
	leadTime = 5 * time.Second
	// tickMax is the most time one tick makes up for: after a gap there is no burst.
	tickMax = time.Second
	// creditMax is how many calls may be saved up while nobody can be called.
	creditMax = 1.0
	// gapsMax bounds how many gaps one tick reads.
	gapsMax = 10_000
)

// capacity is what a tick knows of the shop, measured in this order: first the
// room's outstanding turns, then the shard's live sessions. A turn that becomes a
// session in between is counted twice, never zero times.
type capacity struct {
	leader string
	round  int
	// serving is where the room stood when it was measured: the numbers count only
	// for a room that has called nobody since.
	serving int64
	// outstanding are called turns nobody claimed yet, and claimed ones at the door.
	outstanding int64
	// active are live sessions; healthy says that the shard could tell.
	active  int64
	healthy bool
}

// tick lets the room's clock run and calls as many people as rate and cap allow.
func (g *group) tick(c capacity) decision {
	d := decision{round: g.round, now: g.now}
	if !g.mayLead(c) {
		return d
	}
	d.leads = true
	g.leader, g.leaderUntil = c.leader, g.now.Add(leadTime)
	if c.serving != g.serving {
		return d
	}
	dt := min(max(g.now.Sub(g.tickedAt), 0), tickMax)
	g.tickedAt = g.now
	g.openMs += dt.Milliseconds()
	g.credit += g.rate * dt.Seconds()
	people := min(int64(math.Floor(g.credit)), g.activeMax-c.active-c.outstanding)
	after, skipped := advance(g.serving, min(g.next, g.gapsEnd), people, g.gaps)
	d.called = after - g.serving - skipped
	g.credit = min(g.credit-float64(d.called), creditMax)
	if after == g.serving {
		return d
	}
	g.calls = append(g.calls, &callRow{
		first: g.serving, after: after, lapsesMs: g.openMs + g.claimMs, absent: skipped, inserted: true,
	})
	g.serving = after
	g.leftWaiting -= skipped
	return d
}

// advance returns the serving number after calling so many people, and how many
// of the numbers up to it nobody waits behind any more.
func advance(serving, next, people int64, gaps []int64) (after, skipped int64) {
	for after = serving; people > 0 && after < next; {
		step := min(people, next-after)
		if len(gaps) > 0 && gaps[0] == after {
			gaps = gaps[1:]
			after++
			skipped++
			continue
		}
		if len(gaps) > 0 {
			step = min(step, gaps[0]-after)
		}
		after += step
		people -= step
	}
	return after, skipped
}
