package work_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"usher/internal/work"
)

// candidate is one process that wants to lead.
type candidate struct {
	leads chan struct{}
	lost  chan struct{}
	stop  context.CancelFunc
	ended chan error
}

func (b *bench) candidate(t *testing.T, now, most *atomic.Int32) *candidate {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	c := &candidate{leads: make(chan struct{}, 10), lost: make(chan struct{}, 10), stop: stop, ended: make(chan error, 1)}
	go func() {
		c.ended <- work.Leader(ctx, b.pool, "loop", func(ctx context.Context) error {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			c.leads <- struct{}{}
			<-ctx.Done()
			now.Add(-1)
			c.lost <- struct{}{}
			return ctx.Err()
		})
	}()
	t.Cleanup(stop)
	return c
}

func TestLeaderIsOneAndIsReplaced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var now, most atomic.Int32
	a, c := b.candidate(t, &now, &most), b.candidate(t, &now, &most)
	first, second := a, c
	select {
	case <-a.leads:
	case <-c.leads:
		first, second = c, a
	}
	first.stop()
	if err := receive(t, first.ended, "end of the first leader"); !errors.Is(err, context.Canceled) {
		t.Errorf("Leader = %v", err)
	}
	// A leader that leaves orderly gives its lease up: the next does not wait it out.
	receive(t, second.leads, "second leader")
	second.stop()
	receive(t, second.ended, "end of the second leader")
	if most.Load() != 1 {
		t.Errorf("%d led at once", most.Load())
	}
}

func TestLeaderStopsWhenTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var now, most atomic.Int32
	a := b.candidate(t, &now, &most)
	receive(t, a.leads, "leader")
	b.exec(t, `UPDATE leader SET holder = $1, lease_until = clock_timestamp() + interval '1 hour'`, id(7))
	receive(t, a.lost, "end of leading after the lease was taken")
	a.stop()
	receive(t, a.ended, "end")
}

func TestLeaderRunsAgainAfterAnError(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	runs := make(chan struct{}, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- work.Leader(ctx, b.pool, "loop", func(context.Context) error {
			runs <- struct{}{}
			return errors.New("tripped")
		})
	}()
	receive(t, runs, "first run")
	receive(t, runs, "second run")
	stop()
	receive(t, ended, "end")
}
