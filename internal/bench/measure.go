// Package bench measures usher under load, each figure beside its limit on the
// same machine in the same run. It reports; tests never assert its numbers.
package bench

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// measurement counts answers and their latency within a window of time that is
// fixed beforehand. Rates count answers that came within the window; latency
// counts requests that were due within it, however late their answer was, so that
// a server that falls behind cannot hide it at the end.
type measurement struct {
	from, to          time.Time
	latency           latencies
	accepted, refused atomic.Int64
	failed            atomic.Int64
	first             atomic.Pointer[string]
	cpu               time.Duration
}

// warmUp is how long traffic runs before a window of that length: a short look is
// worth no long one.
func warmUp(length time.Duration) time.Duration { return min(2*length, warmUpMax) }

// newMeasurement makes a window of that length after its warm-up.
func newMeasurement(length time.Duration) *measurement {
	from := time.Now().Add(warmUp(length))
	return &measurement{from: from, to: from.Add(length), latency: newLatencies()}
}

// within returns a context that ends with the window.
func (m *measurement) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, m.to)
}

// atEnds runs begin and end when the window begins and ends, unless ctx ends first.
func (m *measurement) atEnds(ctx context.Context, begin, end func()) {
	for _, step := range []struct {
		at time.Time
		do func()
	}{{m.from, begin}, {m.to, end}} {
		t := time.NewTimer(time.Until(step.at))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
			step.do()
		}
	}
}

// watchCPU takes the CPU time that the window cost.
func (m *measurement) watchCPU(ctx context.Context) {
	var before cpuTimes
	m.atEnds(ctx, func() { before = cpuNow() }, func() { m.cpu = cpuNow().since(before) })
}

// add counts an answer that has just come to a request that was due then.
func (m *measurement) add(due time.Time, accepted bool) {
	now := time.Now()
	if !due.Before(m.from) && due.Before(m.to) {
		m.latency.add(now.Sub(due))
	}
	if now.Before(m.from) || !now.Before(m.to) {
		return
	}
	if accepted {
		m.accepted.Add(1)
	} else {
		m.refused.Add(1)
	}
}

// fail counts a request that got no answer, or one that is a failure. Those of
// the warm-up count too: nothing may fail.
func (m *measurement) fail(err error) {
	m.failed.Add(1)
	text := err.Error()
	m.first.CompareAndSwap(nil, &text)
}

// firstFailure is for a person to see what went wrong.
func (m *measurement) firstFailure() string {
	if text := m.first.Load(); text != nil {
		return *text
	}
	return ""
}

func (m *measurement) seconds() float64 { return m.to.Sub(m.from).Seconds() }

func (m *measurement) acceptedPerSecond() float64 { return float64(m.accepted.Load()) / m.seconds() }

func (m *measurement) decidedPerSecond() float64 {
	return float64(m.accepted.Load()+m.refused.Load()) / m.seconds()
}

func (m *measurement) conflictShare() float64 {
	return float64(m.refused.Load()) / float64(max(m.accepted.Load()+m.refused.Load(), 1))
}

func (m *measurement) cpuMicrosPerAccepted() float64 {
	return m.cpu.Seconds() * 1e6 / float64(max(m.accepted.Load(), 1))
}

// latencies is a histogram from 10 microseconds to a minute, three digits.
type latencies struct {
	mu *sync.Mutex
	h  *hdrhistogram.Histogram
}

func newLatencies() latencies {
	return latencies{&sync.Mutex{}, hdrhistogram.New(10, 60_000_000, 3)}
}

func (l latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Beyond a minute the longest bucket is close enough.
	_ = l.h.RecordValue(min(max(d.Microseconds(), 10), 60_000_000))
}

// ms returns a percentile in milliseconds.
func (l latencies) ms(percentile float64) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return float64(l.h.ValueAtQuantile(percentile)) / 1000
}

// cpuTimes is the CPU time of processes by pid; 0 stands for this process.
type cpuTimes map[string]time.Duration

// cpuNow reads the CPU time of this process and of every PostgreSQL server
// process on the machine. Without /proc it is this process alone.
func cpuNow() cpuTimes {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	times := cpuTimes{"0": time.Duration(ru.Utime.Nano() + ru.Stime.Nano())}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		if raw, err := os.ReadFile(path); err == nil {
			if t := postgresTime(string(raw)); t > 0 {
				times[path] = t
			}
		}
	}
	return times
}

// since returns what was used after the earlier reading by processes that still
// run; connections that ended in between are not counted.
func (c cpuTimes) since(before cpuTimes) time.Duration {
	var total time.Duration
	for pid, t := range c {
		total += max(t-before[pid], 0)
	}
	return total
}

// clockTick is the unit of /proc times on every Linux that Go runs on (USER_HZ).
const clockTick = 10 * time.Millisecond

// postgresTime reads user and system time of a stat line (proc(5), fields 14 and
// 15) if the process is a PostgreSQL server process.
func postgresTime(stat string) time.Duration {
	name, rest, ok := strings.Cut(stat, ") ")
	if !ok || !strings.HasSuffix(name, "(postgres") {
		return 0
	}
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * clockTick
}

// every calls fn at the interval until ctx ends.
func every(ctx context.Context, d time.Duration, fn func()) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			fn()
		}
	}
}
