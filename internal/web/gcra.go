package web

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"sync"
	"time"

	"usher"
)

// Rate is how often one caller may do one thing: Burst at once, and then one
// every Every. A zero Every is no limit.
type Rate struct {
	Burst int
	Every time.Duration
}

// UnmarshalText reads "off", or "<per second>/<burst>", for example "0.5/30". It
// fails with CodeInvalidRequest.
func (r *Rate) UnmarshalText(b []byte) error {
	text := string(b)
	if text == "off" {
		*r = Rate{}
		return nil
	}
	perSecond, burst, ok := strings.Cut(text, "/")
	rate, rateErr := strconv.ParseFloat(perSecond, 64)
	n, burstErr := strconv.Atoi(burst)
	// Written so that NaN fails, too.
	if !ok || rateErr != nil || burstErr != nil || !(rate > 0 && rate <= 1e6) || n < 1 || n > 1e6 {
		return usher.Errorf(usher.CodeInvalidRequest, "%q is no rate: write off, or calls a second and burst, for example 0.5/30", text)
	}
	*r = Rate{Burst: n, Every: time.Duration(float64(time.Second) / rate)}
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (r Rate) MarshalText() ([]byte, error) {
	if r.Every <= 0 {
		return []byte("off"), nil
	}
	return fmt.Appendf(nil, "%g/%d", float64(time.Second)/float64(r.Every), r.Burst), nil
}

// limiter counts callers by key with the generic cell rate algorithm: one time
// per key, sharded so that callers do not meet on one lock. Memory is bounded:
// a shard that is full drops keys whose time has passed, and when there is none,
// lets the newcomer through, since it slows floods down and guards nothing else.
type limiter struct {
	rate   Rate
	now    func() time.Time
	seed   maphash.Seed
	shards [limiterShards]limiterShard
}

const (
	limiterShards = 64
	// shardKeysMax bounds one limiter at about a million keys.
	shardKeysMax = 16 << 10
)

type limiterShard struct {
	mu sync.Mutex
	// free is when each key is back to a full burst.
	free map[string]time.Time
}

func newLimiter(rate Rate) *limiter {
	l := &limiter{rate: rate, now: time.Now, seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].free = map[string]time.Time{}
	}
	return l
}

// allow counts one call of key. It fails with CodeRateLimited, and says when the
// next call will pass.
func (l *limiter) allow(key string) error {
	if l.rate.Every <= 0 {
		return nil
	}
	// The monotonic clock of this process: nothing durable is decided here.
	now := l.now()
	s := &l.shards[maphash.String(l.seed, key)%limiterShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	free, known := s.free[key]
	if free.Before(now) {
		free = now
	}
	window := time.Duration(max(l.rate.Burst, 1)) * l.rate.Every
	if wait := free.Add(l.rate.Every).Sub(now) - window; wait > 0 {
		return &usher.Error{Code: usher.CodeRateLimited, Message: "too many requests: slow down", RetryAfter: wait}
	}
	if !known && len(s.free) >= shardKeysMax && !s.evict(now) {
		return nil
	}
	s.free[key] = free.Add(l.rate.Every)
	return nil
}

// evict drops every key that is back to a full burst.
func (s *limiterShard) evict(now time.Time) bool {
	before := len(s.free)
	for key, free := range s.free {
		if !free.After(now) {
			delete(s.free, key)
		}
	}
	return len(s.free) < before
}
