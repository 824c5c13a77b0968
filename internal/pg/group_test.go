package pg_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"usher"
	"usher/internal/pg"
)

type items = []*pg.Item[int, int]

func finish(its items) {
	for _, it := range its {
		it.Finish(it.Cmd*10, nil)
	}
}

// What arrives while a group runs forms the next group.
func TestGroupBatchesNaturally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		gate := make(chan struct{})
		g := pg.NewGroup(8, 100, func(_ context.Context, key string, its items) {
			<-gate
			sizes = append(sizes, len(its))
			finish(its)
		})
		var wg sync.WaitGroup
		for i := range 21 {
			wg.Go(func() {
				if r, err := g.Do(t.Context(), "a", i); r != i*10 || err != nil {
					t.Errorf("command %d: %d, %v", i, r, err)
				}
			})
			synctest.Wait()
		}
		close(gate)
		wg.Wait()
		if !slices.Equal(sizes, []int{1, 8, 8, 4}) {
			t.Errorf("groups of %v", sizes)
		}
	})
}

// Completing work goes first and is never refused.
func TestGroupLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []int
		gate := make(chan struct{})
		g := pg.NewGroup(2, 3, func(_ context.Context, _ string, its items) {
			<-gate
			for _, it := range its {
				order = append(order, it.Cmd)
			}
			finish(its)
		})
		var wg sync.WaitGroup
		do := func(cmd int, call func(context.Context, string, int) (int, error), want usher.Code) {
			wg.Go(func() {
				if _, err := call(t.Context(), "k", cmd); usher.CodeOf(err) != want {
					t.Errorf("command %d: %v, want %q", cmd, err, want)
				}
			})
			synctest.Wait()
		}
		do(0, g.Do, "")
		for i := 1; i <= 3; i++ {
			do(i, g.Do, "")
		}
		do(4, g.Do, usher.CodeUnavailable)
		for i := 11; i <= 15; i++ {
			do(i, g.First, "")
		}
		if g.Waiting("k") != 8 || g.Pressure("k") != 1 || g.Pressure("other") != 0 {
			t.Errorf("%d wait, want 8; pressure %v and %v", g.Waiting("k"), g.Pressure("k"), g.Pressure("other"))
		}
		close(gate)
		wg.Wait()
		if !slices.Equal(order, []int{0, 11, 12, 13, 14, 15, 1, 2, 3}) {
			t.Errorf("order %v", order)
		}
	})
}

// A command whose caller gave up before it was taken is dropped; one that was
// taken is unknown to a caller that does not wait; completing work runs anyway.
func TestGroupCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []int
		gate := make(chan struct{})
		g := pg.NewGroup(8, 100, func(_ context.Context, _ string, its items) {
			<-gate
			for _, it := range its {
				ran = append(ran, it.Cmd)
			}
			finish(its)
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		do := func(cmd int, call func(context.Context, string, int) (int, error), want usher.Code) {
			wg.Go(func() {
				if _, err := call(ctx, "k", cmd); usher.CodeOf(err) != want {
					t.Errorf("command %d: %v, want %q", cmd, err, want)
				}
			})
			synctest.Wait()
		}
		do(1, g.Do, usher.CodeUnknown)
		do(2, g.Do, usher.CodeBusy)
		do(3, g.First, usher.CodeUnknown)
		cancel()
		wg.Wait()
		close(gate)
		synctest.Wait()
		if !slices.Equal(ran, []int{1, 3}) {
			t.Errorf("ran %v", ran)
		}
	})
}

// Keys do not wait for each other, and a panic in one group is nobody else's.
func TestGroupKeysAndPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		g := pg.NewGroup(8, 100, func(_ context.Context, key string, its items) {
			switch key {
			case "slow":
				<-gate
			case "bad":
				panic("bug")
			}
			finish(its)
		})
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = g.Do(t.Context(), "slow", 1) })
		synctest.Wait()
		if r, err := g.Do(t.Context(), "quick", 2); r != 20 || err != nil {
			t.Errorf("quick: %d, %v", r, err)
		}
		if _, err := g.Do(t.Context(), "bad", 3); usher.CodeOf(err) != usher.CodeInternal {
			t.Errorf("bad: %v", err)
		}
		if _, err := g.Do(t.Context(), "bad", 3); usher.CodeOf(err) != usher.CodeInternal {
			t.Errorf("bad again: %v", err)
		}
		close(gate)
		wg.Wait()
	})
}

func TestJitterEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := pg.Jitter(ctx, 20); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
