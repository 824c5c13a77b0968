package pg_test

import (
	"context"
	"errors"
	"runtime"
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

// claims says that a command claims its tens and its ones, and that a negative one
// may not be in a second group.
func claims(cmd int) ([]uint64, bool) {
	beside := cmd >= 0
	cmd = max(cmd, -cmd)
	return []uint64{uint64(cmd / 10), 100 + uint64(cmd%10)}, beside
}

// A second group runs beside the first once enough waits that may and claims nothing
// of the first; what does keeps its turn, and nobody who wants the same overtakes it.
func TestGroupPairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// groups are the commands of each, behind a 1 for a first group and a 2 for a second.
		var groups [][]int
		var gates []chan struct{}
		run := func(turn int) func(context.Context, string, items) {
			return func(_ context.Context, _ string, its items) {
				cmds := []int{turn}
				for _, it := range its {
					cmds = append(cmds, it.Cmd)
				}
				gate := make(chan struct{})
				groups, gates = append(groups, cmds), append(gates, gate)
				<-gate
				finish(its)
			}
		}
		g := pg.NewGroup(8, 100, run(1))
		g.Pair(2, claims, run(2))
		var wg sync.WaitGroup
		gone, leave := context.WithCancel(t.Context())
		do := func(call func(context.Context, string, int) (int, error), cmds ...int) {
			for _, cmd := range cmds {
				wg.Go(func() {
					ctx := t.Context()
					if cmd == 98 {
						ctx = gone
					}
					r, err := call(ctx, "k", cmd)
					if cmd != 98 && (r != cmd*10 || err != nil) || cmd == 98 && usher.CodeOf(err) != usher.CodeBusy {
						t.Errorf("command %d: %d, %v", cmd, r, err)
					}
				})
				synctest.Wait()
			}
		}
		want := func(when string, w ...[]int) {
			t.Helper()
			synctest.Wait()
			if !slices.EqualFunc(groups, w, slices.Equal) {
				t.Fatalf("%s: groups of %v, want %v", when, groups, w)
			}
		}
		do(g.Do, 11)
		want("alone", []int{1, 11})
		// 12 claims what 11 does; 32 what 12 does, which is before it; 98 goes.
		do(g.Do, 12, 32, -45, 98)
		want("nothing but what the first claims, or what may not", []int{1, 11})
		leave()
		do(g.Do, 43)
		want("one, that claims what -45 does, which is before it", []int{1, 11})
		do(g.Do, 56)
		want("one", []int{1, 11})
		do(g.Do, 67)
		want("two, but not as many more", []int{1, 11})
		do(g.Do, 70)
		second, next := []int{2, 56, 67, 70}, []int{2, 88, 29}
		want("worth it", []int{1, 11}, second)
		do(g.Do, 88, 29)
		do(g.First, 99)
		want("two run", []int{1, 11}, second)
		close(gates[1])
		want("the second goes on", []int{1, 11}, second, next)
		do(g.Do, 140, 38)
		close(gates[0])
		first := []int{1, 99, 12, 32, -45, 43, 140}
		want("what goes first, and what was passed over, without what the second claims", []int{1, 11}, second, next, first)
		// Too little for a loop of its own: the one that is left takes it.
		close(gates[2])
		want("one loop is left", []int{1, 11}, second, next, first)
		close(gates[3])
		want("the last one", []int{1, 11}, second, next, first, []int{1, 38})
		close(gates[4])
		wg.Wait()
	})
}

// However commands come, at most two groups run at once, they claim nothing in
// common, and everybody is answered.
func TestGroupPairsUnderLoad(t *testing.T) {
	var mu sync.Mutex
	claimed := map[int]bool{}
	groups, most := 0, 0
	run := func(_ context.Context, _ string, its items) {
		own := map[int]bool{}
		for _, it := range its {
			own[it.Cmd] = true
		}
		mu.Lock()
		groups++
		most = max(most, groups)
		for c := range own {
			if claimed[c] {
				t.Errorf("two groups claim %d", c)
			}
			claimed[c] = true
		}
		mu.Unlock()
		runtime.Gosched()
		mu.Lock()
		groups--
		for c := range own {
			delete(claimed, c)
		}
		mu.Unlock()
		finish(its)
	}
	g := pg.NewGroup(6, 10000, run)
	g.Pair(1, func(cmd int) ([]uint64, bool) { return []uint64{uint64(cmd)}, cmd != 7 }, run)
	var wg sync.WaitGroup
	for caller := range 40 {
		wg.Go(func() {
			for turn := range 200 {
				cmd := (caller + turn) % 10
				if r, err := g.Do(t.Context(), "k", cmd); r != cmd*10 || err != nil {
					t.Errorf("command %d: %d, %v", cmd, r, err)
				}
			}
		})
	}
	wg.Wait()
	if most != 2 {
		t.Errorf("at most %d groups ran at once, want 2", most)
	}
}

func TestJitterEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := pg.Jitter(ctx, 20); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
