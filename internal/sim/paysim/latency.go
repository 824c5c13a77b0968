package paysim

import (
	"math/rand/v2"
	"sync"
	"time"
)

// The names of the latency profiles.
const (
	LatencyNone     = "none"
	LatencyNormal   = "normal"
	LatencySlowTail = "slow_tail"
	LatencyBrownOut = "brown_out"
)

// Latency is how long calls take before they execute. Confirmations ask the
// bank and take ConfirmMS; everything else takes OtherMS. Jitter adds up to
// that share of it. TailShare of the calls take TailMS more.
type Latency struct {
	Profile   string  `json:"profile,omitempty"`
	ConfirmMS int     `json:"confirmMs"`
	OtherMS   int     `json:"otherMs"`
	Jitter    float64 `json:"jitter"`
	TailMS    int     `json:"tailMs"`
	TailShare float64 `json:"tailShare"`
}

// profiles are rounded from what sellers report of real providers.
var profiles = map[string]Latency{
	LatencyNone:     {Profile: LatencyNone},
	LatencyNormal:   {Profile: LatencyNormal, ConfirmMS: 400, OtherMS: 80, Jitter: 0.5},
	LatencySlowTail: {Profile: LatencySlowTail, ConfirmMS: 400, OtherMS: 80, Jitter: 0.5, TailMS: 5000, TailShare: 0.05},
	LatencyBrownOut: {Profile: LatencyBrownOut, ConfirmMS: 4000, OtherMS: 1500, Jitter: 1, TailMS: 10000, TailShare: 0.2},
}

// latency draws from the profile in force.
type latency struct {
	mu   sync.Mutex
	now  Latency
	dice *rand.Rand
}

func newLatency(profile string, seed uint64) *latency {
	return &latency{now: profiles[profile], dice: rand.New(rand.NewPCG(seed, 0))}
}

func (l *latency) set(n Latency) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = n
}

func (l *latency) get() Latency {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// of draws how long one call of the route takes.
func (l *latency) of(route string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	ms := float64(l.now.OtherMS)
	if route == "confirm" {
		ms = float64(l.now.ConfirmMS)
	}
	if ms == 0 && l.now.TailMS == 0 {
		return 0
	}
	ms *= 1 + l.now.Jitter*l.dice.Float64()
	if l.dice.Float64() < l.now.TailShare {
		ms += float64(l.now.TailMS)
	}
	return time.Duration(ms * float64(time.Millisecond))
}
