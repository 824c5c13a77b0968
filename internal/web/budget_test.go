package web

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"usher"
)

// Reads wait in the order they came; other events pass by; the line is bounded.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(2, 3)
		var leaves []func()
		for range 2 {
			leave, err := b.enter(t.Context(), 7)
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leave)
		}
		var order []int
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				leave, err := b.enter(t.Context(), 7)
				if err != nil {
					t.Errorf("read %d: %v", i, err)
					return
				}
				order = append(order, i)
				leave()
			})
			synctest.Wait()
		}
		if p := b.pressure(7); p != 1 || b.pressure(8) != 0 {
			t.Errorf("pressure %v and %v", p, b.pressure(8))
		}
		if _, err := b.enter(t.Context(), 7); usher.CodeOf(err) != usher.CodeUnavailable || err.(*usher.Error).RetryAfter <= 0 {
			t.Errorf("a full line: %v", err)
		}
		leave, err := b.enter(t.Context(), 8)
		if err != nil {
			t.Fatalf("another event: %v", err)
		}
		leave()
		leaves[0]()
		wg.Wait()
		leaves[1]()
		if !slices.Equal(order, []int{0, 1, 2}) {
			t.Errorf("order %v", order)
		}
		if len(b.lines) != 0 {
			t.Errorf("%d lines are left", len(b.lines))
		}
	})
}

// Whoever gives up leaves the line, and a turn that comes at that moment goes to
// the next.
func TestBudgetGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(1, 10)
		first, err := b.enter(t.Context(), 7)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := b.enter(ctx, 7); usher.CodeOf(err) != usher.CodeBusy {
					t.Errorf("gave up: %v", err)
				}
			})
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		turn, err := b.queue(7)
		if err != nil || b.pressure(7) != 0.1 {
			t.Fatalf("%v, pressure %v", err, b.pressure(7))
		}
		first()
		if <-turn; b.giveUp(7, turn) {
			t.Error("a turn that has come was given up")
		}
		b.leave(7)
		if len(b.lines) != 0 || b.giveUp(7, turn) {
			t.Errorf("%d lines are left", len(b.lines))
		}
	})
}
