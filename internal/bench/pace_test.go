package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A clock starts requests, evenly; the loop returns when all are answered.
func TestOpenLoop(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var mu sync.Mutex
	due := map[int]time.Time{}
	openLoop(ctx, 500, func(i int, at time.Time) {
		mu.Lock()
		defer mu.Unlock()
		due[i] = at
	}, func(err error) { t.Error(err) })
	if len(due) == 0 {
		t.Fatal("nothing was sent")
	}
	for i := range len(due) {
		if at, ok := due[i]; !ok || at.Sub(due[0]) != time.Duration(i)*2*time.Millisecond {
			t.Fatalf("request %d of %d was due %v after the first", i, len(due), at.Sub(due[0]))
		}
	}
}

// Answers that do not come start nothing and hold nothing up; the generator's own
// bound is told.
func TestOpenLoopIsBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var open, most, skipped atomic.Int64
	openLoop(ctx, 1_000_000, func(int, time.Time) {
		n := open.Add(1)
		defer open.Add(-1)
		for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
		}
		<-ctx.Done()
	}, func(err error) {
		if !errors.Is(err, errBehind) {
			t.Error(err)
		}
		skipped.Add(1)
		cancel()
	})
	if most.Load() > inFlightMax || skipped.Load() == 0 || open.Load() != 0 {
		t.Errorf("at most %d were under way, %d skipped, %d left behind", most.Load(), skipped.Load(), open.Load())
	}
}

// Latency is of what was due in the window, rates are of what was answered in it.
func TestMeasurement(t *testing.T) {
	now := time.Now()
	m := &measurement{from: now.Add(-time.Second), to: now.Add(time.Hour), latency: newLatencies()}
	m.add(now.Add(-time.Minute), true) // due before the window
	m.add(now.Add(-500*time.Millisecond), false)
	if m.accepted.Load() != 1 || m.refused.Load() != 1 || m.latency.h.TotalCount() != 1 || m.latency.ms(50) < 500 {
		t.Errorf("accepted %d, refused %d, latencies %d", m.accepted.Load(), m.refused.Load(), m.latency.h.TotalCount())
	}
	over := &measurement{from: now.Add(-2 * time.Second), to: now.Add(-time.Second), latency: newLatencies()}
	over.add(now.Add(-1500*time.Millisecond), true) // due in time, answered too late
	over.fail(errBehind)
	over.fail(errors.New("another"))
	if over.accepted.Load() != 0 || over.latency.h.TotalCount() != 1 || over.failed.Load() != 2 || over.firstFailure() != errBehind.Error() {
		t.Errorf("accepted %d, latencies %d, failed %d, %q", over.accepted.Load(), over.latency.h.TotalCount(), over.failed.Load(), over.firstFailure())
	}
	if over.seconds() != 1 || over.cpuMicrosPerAccepted() != 0 || over.conflictShare() != 0 {
		t.Errorf("a window without answers: %v s, %v us, %v", over.seconds(), over.cpuMicrosPerAccepted(), over.conflictShare())
	}
}
