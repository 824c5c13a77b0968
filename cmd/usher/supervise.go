package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// supervisor runs the background loops of a process. A loop that ends before it
// is told to ends the process: a worker that has silently stopped is worse than
// a restart.
type supervisor struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	log    *slog.Logger

	wg sync.WaitGroup
	mu sync.Mutex
	// running names the loops that have not ended, for a stop that takes too long.
	running map[string]int
}

func newSupervisor(ctx context.Context, log *slog.Logger) *supervisor {
	s := &supervisor{log: log, running: map[string]int{}}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

// run starts a loop, which must end soon after its context does.
func (s *supervisor) run(name string, loop func(ctx context.Context) error) {
	s.mu.Lock()
	s.running[name]++
	s.mu.Unlock()
	s.wg.Go(func() {
		err := loop(s.ctx)
		s.mu.Lock()
		if s.running[name]--; s.running[name] == 0 {
			delete(s.running, name)
		}
		s.mu.Unlock()
		if s.ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("ended by itself")
		}
		s.log.Error("a background loop failed", "loop", name, "error", err)
		s.cancel(fmt.Errorf("%s: %w", name, err))
	})
}

// loop adapts a loop that returns nothing.
func loop(fn func(ctx context.Context)) func(context.Context) error {
	return func(ctx context.Context) error {
		fn(ctx)
		return nil
	}
}

// failed returns why the supervisor ended before it was told to, or nil.
func (s *supervisor) failed() error {
	if cause := context.Cause(s.ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// stop ends every loop and waits for them, up to a limit. It returns the error
// that ended the supervisor early, or names the loops that do not end.
func (s *supervisor) stop(limit time.Duration) error {
	failed := s.failed()
	s.cancel(context.Canceled)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.wg.Wait()
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-ended:
		return failed
	case <-t.C:
		s.mu.Lock()
		defer s.mu.Unlock()
		return errors.Join(failed, fmt.Errorf("loops that did not end within %v: %v", limit, s.running))
	}
}
