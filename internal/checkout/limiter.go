package checkout

import (
	"sync"
	"time"
)

// limiter bounds the authorizations in flight. The bound shrinks by a fifth for
// every window in which more than a tenth of the answers were slow or missing,
// and grows by one per bound's worth of good answers: what the provider can take
// is found out, not configured.
type limiter struct {
	min, max float64
	target   time.Duration

	mu       sync.Mutex
	bound    float64
	inFlight int
	// since is when the current window began; answers and bad count it.
	since        time.Time
	answers, bad int
}

const (
	cutFactor   = 0.8
	cutWindow   = time.Second
	badShareMax = 0.1
)

func newLimiter(minimum, maximum int, target time.Duration) *limiter {
	return &limiter{min: float64(minimum), max: float64(maximum), target: target, bound: float64(maximum)}
}

// acquire takes a slot; false: all are taken.
func (l *limiter) acquire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if float64(l.inFlight) >= l.bound {
		return false
	}
	l.inFlight++
	return true
}

// cancel gives back a slot that was not used for a payment.
func (l *limiter) cancel() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
}

// release gives a slot back and learns from how it went: answered says that the
// provider gave a definite answer in time.
func (l *limiter) release(now time.Time, took time.Duration, answered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	busy := float64(l.inFlight) >= l.bound/2
	l.inFlight--
	l.answers++
	switch {
	case !answered || took > l.target:
		l.bad++
	case busy:
		// A bound that is not in use teaches nothing about a higher one.
		l.bound = min(l.max, l.bound+1/l.bound)
	}
	if now.Sub(l.since) < cutWindow {
		return
	}
	if float64(l.bad) > badShareMax*float64(l.answers) {
		l.bound = max(l.min, l.bound*cutFactor)
	}
	l.since, l.answers, l.bad = now, 0, 0
}

// read returns the slots in use and the bound.
func (l *limiter) read() (inFlight, bound int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight, int(l.bound)
}
