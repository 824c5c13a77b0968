package pg

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"usher"
)

// Group collects commands per key and hands them over together: while one group
// of a key runs, the next one forms. There is no timer; a lone command runs at
// once. Keys run independently of each other.
//
// Two lanes: First goes to the front of every group and is never refused; Do is
// bounded and refused when the lane is full.
type Group[K comparable, C, R any] struct {
	max, waitingMax int
	run             func(ctx context.Context, key K, items []*Item[C, R])
	// pairAt, claims and beside are Pair's; without them one group of a key runs at a time.
	pairAt int
	claims func(C) (claims []uint64, beside bool)
	beside func(ctx context.Context, key K, items []*Item[C, R])

	mu    sync.Mutex
	lanes map[K]*lanes[C, R]
}

type lanes[C, R any] struct {
	first, ordinary []*Item[C, R]
	// loops are the key's one or two loops.
	loops [2]groupLoop[C, R]
	// tried is how many of the waiting commands are known to be no second group.
	tried int
}

func (l *lanes[C, R]) waiting() int { return len(l.first) + len(l.ordinary) }

// groupLoop runs one group after the other; items is what it runs now, beside
// whether that is a second group.
type groupLoop[C, R any] struct {
	alive, beside bool
	items         []*Item[C, R]
}

// Item is one command in a group. run must finish every item exactly once.
type Item[C, R any] struct {
	Cmd C

	// claims and beside are what Pair's claims said.
	claims  []uint64
	beside  bool
	ctx     context.Context
	started atomic.Bool
	done    chan outcome[R]
}

type outcome[R any] struct {
	result R
	err    error
}

// Finish answers the caller. It never blocks.
func (i *Item[C, R]) Finish(r R, err error) {
	select {
	case i.done <- outcome[R]{r, err}:
	default:
	}
}

// NewGroup makes a collector whose groups hold at most max commands and whose
// ordinary lane lets at most waitingMax commands wait per key.
func NewGroup[K comparable, C, R any](max, waitingMax int, run func(ctx context.Context, key K, items []*Item[C, R])) *Group[K, C, R] {
	return &Group[K, C, R]{max: max, waitingMax: waitingMax, run: run, lanes: map[K]*lanes[C, R]{}}
}

// Pair lets a second group of a key run beside the first where that many commands
// of the ordinary lane wait that may: run is called for second groups, and never
// while another second group of the key runs. claims names what a command is going
// to lock, as hashes, and says whether it may be in a second group; none is that
// claims what the first group or a command before it does. What is not claimed may
// meet all the same: claims save waiting, and both runs must bear what several
// processes do to each other. Call it before the first command.
func (g *Group[K, C, R]) Pair(at int, claims func(C) ([]uint64, bool), run func(ctx context.Context, key K, items []*Item[C, R])) {
	g.pairAt, g.claims, g.beside = at, claims, run
}

// Do puts a command in the ordinary lane and waits for its answer. It fails with
// CodeUnavailable and a RetryAfter when the lane is full. When ctx ends before
// the command was taken it is never run and the answer is CodeBusy; once taken,
// its outcome is CodeUnknown to a caller that does not wait.
func (g *Group[K, C, R]) Do(ctx context.Context, key K, cmd C) (R, error) {
	return g.do(ctx, key, cmd, false)
}

// First puts a command in the lane that goes first and is never refused. It is
// run even when its caller gives up.
func (g *Group[K, C, R]) First(ctx context.Context, key K, cmd C) (R, error) {
	return g.do(ctx, key, cmd, true)
}

// Waiting returns how many commands of the key wait in both lanes.
func (g *Group[K, C, R]) Waiting(key K) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.lanes[key]; l != nil {
		return l.waiting()
	}
	return 0
}

// Pressure says how full the ordinary lane of the key is, from 0 to 1, where it
// refuses.
func (g *Group[K, C, R]) Pressure(key K) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.lanes[key]; l != nil {
		return float64(len(l.ordinary)) / float64(g.waitingMax)
	}
	return 0
}

func (g *Group[K, C, R]) do(ctx context.Context, key K, cmd C, first bool) (R, error) {
	it := &Item[C, R]{Cmd: cmd, ctx: ctx, done: make(chan outcome[R], 1)}
	if g.claims != nil && !first {
		it.claims, it.beside = g.claims(cmd)
	}
	if !g.enqueue(key, it, first) {
		var zero R
		return zero, &usher.Error{Code: usher.CodeUnavailable, Message: "too many requests at once", RetryAfter: time.Second}
	}
	select {
	case o := <-it.done:
		return o.result, o.err
	case <-ctx.Done():
	}
	var zero R
	// Whoever sets started first decides: the caller to drop it, or the group to run it.
	if !first && it.started.CompareAndSwap(false, true) {
		return zero, &usher.Error{Code: usher.CodeBusy, Message: "not decided in time", RetryAfter: time.Second, Err: ctx.Err()}
	}
	select {
	case o := <-it.done:
		return o.result, o.err
	default:
		return zero, &usher.Error{Code: usher.CodeUnknown, Message: ErrCommitUnknown.Message, Err: ctx.Err()}
	}
}

// enqueue adds the item and starts a loop where one is due. It reports false when
// the ordinary lane is full.
func (g *Group[K, C, R]) enqueue(key K, it *Item[C, R], first bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lanes[key]
	if l == nil {
		l = &lanes[C, R]{}
		g.lanes[key] = l
	}
	switch {
	case first:
		l.first = append(l.first, it)
	case len(l.ordinary) >= g.waitingMax:
		return false
	default:
		l.ordinary = append(l.ordinary, it)
	}
	if n := g.due(l); n >= 0 {
		l.loops[n].alive = true
		go g.loop(context.Background(), key, n)
	}
	return true
}

// due returns which loop has to start, -1 for none.
func (g *Group[K, C, R]) due(l *lanes[C, R]) int {
	switch a, b := l.loops[0].alive, l.loops[1].alive; {
	case !a && !b:
		return 0
	case a && b || g.claims == nil || l.waiting()-l.tried < g.pairAt:
		return -1
	case a:
		return 1
	}
	return 0
}

// loop runs groups of one key until none is left for it.
func (g *Group[K, C, R]) loop(ctx context.Context, key K, n int) {
	for {
		run, items := g.take(key, n)
		if items == nil {
			return
		}
		if len(items) > 0 {
			runGuarded(ctx, key, run, items)
		}
	}
}

// take returns the loop's next group and what runs it: nil when there is none (and
// the loop ends), empty when all callers of what was taken gave up just then. The
// last loop of a key takes whatever waits; beside another one a group has to be
// worth it.
func (g *Group[K, C, R]) take(key K, n int) (run func(context.Context, K, []*Item[C, R]), items []*Item[C, R]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lanes[key]
	own, other := &l.loops[n], &l.loops[1-n]
	own.items, own.beside = nil, other.alive && !other.beside
	least, firsts, run := 1, min(g.max, len(l.first)), g.run
	if other.alive {
		least = g.pairAt
	}
	if own.beside {
		firsts, run = 0, g.beside
	}
	chosen, rest, passed := choose(l.ordinary, g.max-firsts, own.beside, other.items)
	l.tried = passed
	if firsts+len(chosen) < least {
		// Looked at again when a group has ended or as many more have come, so that a
		// crowd that wants the same costs one look for each pairAt of it.
		l.tried = l.waiting()
		if own.alive = false; !other.alive {
			delete(g.lanes, key)
		}
		return nil, nil
	}
	items = make([]*Item[C, R], 0, firsts+len(chosen))
	for _, it := range l.first[:firsts] {
		it.started.Store(true)
		items = append(items, it)
	}
	for _, it := range chosen {
		if it.started.CompareAndSwap(false, true) {
			items = append(items, it)
		}
	}
	l.first = append([]*Item[C, R](nil), l.first[firsts:]...)
	l.ordinary = rest
	own.items = items
	return run, items
}

// choose splits waiting commands into the next group's, in order, and the rest, of
// which it passed over some: what may not run beside another group if this one does,
// and what claims the same as the running group or as a command passed over before.
// So nobody is overtaken by who wants the same. Those whose callers have gone are in
// neither.
func choose[C, R any](waiting []*Item[C, R], most int, beside bool, running []*Item[C, R]) (chosen, rest []*Item[C, R], passed int) {
	claimed := map[uint64]struct{}{}
	claim := func(it *Item[C, R]) {
		for _, c := range it.claims {
			claimed[c] = struct{}{}
		}
	}
	taken := func(c uint64) bool { _, ok := claimed[c]; return ok }
	for _, it := range running {
		claim(it)
	}
	for i, it := range waiting {
		switch {
		case it.ctx.Err() != nil:
		case len(chosen) == most:
			return chosen, append(rest, waiting[i:]...), passed
		case beside && !it.beside || len(claimed) > 0 && slices.ContainsFunc(it.claims, taken):
			claim(it)
			rest = append(rest, it)
			passed++
		default:
			chosen = append(chosen, it)
		}
	}
	return chosen, rest, passed
}

// runGuarded turns a panic of one group into internal errors for its commands:
// a programming error met by one command must not end every other event's loop.
func runGuarded[K comparable, C, R any](ctx context.Context, key K, run func(context.Context, K, []*Item[C, R]), items []*Item[C, R]) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		slog.ErrorContext(ctx, "group panicked", "key", key, "panic", p, "stack", string(debug.Stack()))
		var zero R
		for _, it := range items {
			it.Finish(zero, fmt.Errorf("group panicked: %v", p))
		}
	}()
	run(ctx, key, items)
}
