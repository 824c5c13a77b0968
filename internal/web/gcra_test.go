package web

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"usher"
)

// still is a limiter whose time moves only when the test says so.
func still(rate Rate) (*limiter, func(time.Duration)) {
	l, now := newLimiter(rate), time.Unix(1_000_000, 0)
	l.now = func() time.Time { return now }
	return l, func(d time.Duration) { now = now.Add(d) }
}

func TestLimiterBurstThenPace(t *testing.T) {
	l, pass := still(Rate{Burst: 3, Every: time.Second})
	for i := range 3 {
		if err := l.allow("a"); err != nil {
			t.Fatalf("call %d of the burst: %v", i+1, err)
		}
	}
	err := l.allow("a")
	if usher.CodeOf(err) != usher.CodeRateLimited {
		t.Fatalf("call over the burst = %v, want rate_limited", err)
	}
	if wait := err.(*usher.Error).RetryAfter; wait != time.Second {
		t.Errorf("retry after %v, want 1s", wait)
	}
	if err := l.allow("b"); err != nil {
		t.Errorf("another key is refused: %v", err)
	}
	pass(999 * time.Millisecond)
	if l.allow("a") == nil {
		t.Error("passes a millisecond early")
	}
	pass(time.Millisecond)
	if err := l.allow("a"); err != nil {
		t.Errorf("refused when its time has come: %v", err)
	}
	// A refused call costs nothing: the burst comes back in full.
	pass(3 * time.Second)
	for i := range 3 {
		if err := l.allow("a"); err != nil {
			t.Fatalf("call %d after a rest: %v", i+1, err)
		}
	}
}

func TestLimiterOff(t *testing.T) {
	l, _ := still(Rate{})
	for range 1000 {
		if err := l.allow("a"); err != nil {
			t.Fatalf("a zero rate limits: %v", err)
		}
	}
}

func TestLimiterMemoryIsBounded(t *testing.T) {
	l, pass := still(Rate{Burst: 1, Every: time.Second})
	one := &l.shards[0]
	for i := range shardKeysMax {
		one.free[fmt.Sprint(i)] = l.now().Add(time.Second)
	}
	if one.evict(l.now()) {
		t.Fatal("evicts keys whose time has not passed")
	}
	pass(2 * time.Second)
	if !one.evict(l.now()) || len(one.free) != 0 {
		t.Fatalf("%d keys stay after their time", len(one.free))
	}
}

func TestLimiterConcurrently(t *testing.T) {
	l, _ := still(Rate{Burst: 100, Every: time.Hour})
	var passed sync.Map
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				if l.allow("same") == nil {
					passed.Store(g*50+i, true)
				}
			}
		})
	}
	wg.Wait()
	n := 0
	passed.Range(func(any, any) bool { n++; return true })
	if n != 100 {
		t.Errorf("%d of 400 calls pass, want exactly the burst of 100", n)
	}
}

func TestRateText(t *testing.T) {
	for text, want := range map[string]Rate{
		"off":    {},
		"50/500": {Burst: 500, Every: 20 * time.Millisecond},
		"0.5/30": {Burst: 30, Every: 2 * time.Second},
		"1/1":    {Burst: 1, Every: time.Second},
	} {
		var r Rate
		if err := r.UnmarshalText([]byte(text)); err != nil || r != want {
			t.Errorf("%q reads as %+v, %v", text, r, err)
		}
		if back, err := r.MarshalText(); err != nil || string(back) != text {
			t.Errorf("%+v is written as %q, %v", r, back, err)
		}
	}
	for _, text := range []string{"", "0", "0/5", "-1/5", "5", "5/", "5/0", "/5", "x/5", "5/x", "NaN/5", "Inf/5", "1e9/5", "5/5/5"} {
		var r Rate
		if err := r.UnmarshalText([]byte(text)); usher.CodeOf(err) != usher.CodeInvalidRequest {
			t.Errorf("%q reads as %+v, %v", text, r, err)
		}
	}
}
