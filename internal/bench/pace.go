package bench

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// inFlightMax bounds the generator per kind of request: what would wait longer
// counts as a failure.
const inFlightMax = 4000

var errBehind = errors.New("not sent: too many requests wait for their answer")

// traffic is one kind of request at a rate of its own: send makes request i and
// tells whether it was granted.
type traffic struct {
	rate     float64
	send     func(ctx context.Context, i int) (ok bool, err error)
	measured *measurement
}

// offerTogether runs all open loops over the same window, which follows a warm-up.
func offerTogether(ctx context.Context, length time.Duration, loops ...*traffic) {
	window := newMeasurement(length)
	ends, cancel := window.within(ctx)
	defer cancel()
	var running sync.WaitGroup
	for _, k := range loops {
		k.measured = &measurement{from: window.from, to: window.to, latency: newLatencies()}
		running.Go(func() {
			openLoop(ends, k.rate, func(i int, due time.Time) {
				ok, err := k.send(ctx, i)
				if err != nil {
					k.measured.fail(err)
					return
				}
				k.measured.add(due, ok)
			}, k.measured.fail)
		})
	}
	running.Wait()
}

// openLoop starts requests at a fixed rate until ctx ends, whatever the answers
// do, and returns when the last has its answer. A clock starts requests, answers
// start nothing: due is when a request was to start, and its latency counts from
// there even if the generator itself was late.
func openLoop(ctx context.Context, rate float64, send func(i int, due time.Time), skipped func(error)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	var inFlight atomic.Int64
	began, sent := time.Now(), 0
	every(ctx, time.Millisecond, func() {
		for due := int(math.Ceil(time.Since(began).Seconds() * rate)); sent < due && ctx.Err() == nil; sent++ {
			i, at := sent, began.Add(time.Duration(float64(sent)/rate*float64(time.Second)))
			if inFlight.Add(1) > inFlightMax {
				inFlight.Add(-1)
				skipped(errBehind)
				continue
			}
			wg.Go(func() {
				defer inFlight.Add(-1)
				send(i, at)
			})
		}
	})
}
