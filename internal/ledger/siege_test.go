package ledger_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/pg/pgtest"
)

// gate stops each group after its commit and before its answers, outside any
// transaction, until it is let go.
type gate struct {
	reached chan struct{}
	step    chan struct{}
	open    chan struct{}
	// free lets every group pass from now on.
	free func()
}

func newGate(t testing.TB) *gate {
	g := &gate{reached: make(chan struct{}), step: make(chan struct{}), open: make(chan struct{})}
	g.free = sync.OnceFunc(func() { close(g.open) })
	t.Cleanup(g.free)
	t.Cleanup(fault.Arm("ledger.after_commit", 0, func(context.Context) error {
		select {
		case g.reached <- struct{}{}:
		case <-g.open:
			return nil
		}
		select {
		case <-g.step:
		case <-g.open:
		}
		return nil
	}))
	return g
}

// letGo answers the group that stands at the gate and waits for the next one.
func (g *gate) letGo() {
	g.step <- struct{}{}
	<-g.reached
}

// crowd asks for places, each as somebody else, and counts the answers.
type crowd struct {
	h       *hall
	wg      sync.WaitGroup
	mu      sync.Mutex
	answers map[usher.Code]int
	holds   map[usher.HoldID]bool
	// gone are accounts whose command was answered as undecided.
	gone map[usher.AccountID]bool
}

func newCrowd(h *hall) *crowd {
	return &crowd{h: h, answers: map[usher.Code]int{}, holds: map[usher.HoldID]bool{}, gone: map[usher.AccountID]bool{}}
}

func (c *crowd) arrive(ctx context.Context, n int) {
	for range n {
		c.wg.Go(func() {
			a := usher.NewAccountID()
			hold, err := c.h.PlaceHold(ctx, ledger.PlaceHold{
				Event: testEvent, Account: a, Seats: []usher.SeatID{seatID(100 + rand.IntN(400))}, Key: "k",
			})
			code := usher.CodeOf(err)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.answers[code]++
			switch code {
			case "":
				c.holds[hold.ID] = true
			case usher.CodeUnavailable, usher.CodeBusy:
				c.gone[a] = true
				if e := err.(*usher.Error); e.RetryAfter <= 0 {
					c.h.t.Errorf("%s does not say when to come back", code)
				}
			}
		})
	}
}

func (c *crowd) answered(code usher.Code) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers[code]
}

// completing is the work of every kind that goes first, on seats from 0 on.
func (h *hall) completing() (calls []func() error) {
	ctx := context.Background()
	account := usher.NewAccountID
	for i := range 40 {
		hold := h.mustPlace(account(), "k", seatID(i))
		if i%5 == 0 {
			calls = append(calls, func() error {
				_, _, err := h.BeginPayment(ctx, ledger.BeginPayment{Hold: hold.ID, Account: hold.Account, Provider: "test", MethodToken: "m", Key: "c"})
				return err
			})
			continue
		}
		if i%5 == 1 {
			calls = append(calls, func() error {
				_, err := h.ReleaseHold(ctx, ledger.ReleaseHold{Hold: hold.ID, Account: hold.Account})
				return err
			})
			continue
		}
		o := h.mustBegin(hold, "c")
		calls = append(calls, func() (err error) {
			switch i % 5 {
			case 2:
				_, err = h.confirm(o)
			case 3:
				_, err = h.VoidOrder(ctx, ledger.VoidOrder{Order: o.ID, Reason: "buyer left"})
			case 4:
				_, err = h.FailPayment(ctx, ledger.FailPayment{Order: o.ID, Operation: o.Authorization.ID})
			}
			return err
		})
	}
	return calls
}

// Holds are offered at ten times what a group takes, and five times what may
// wait. All completing work is decided in the group after the one that is under
// way, and none is refused; holds beyond the bound are, at once; holds whose
// callers give up are never decided.
func TestSiege(t *testing.T) {
	const offered, bound = 5000, 1000
	h := newHall(t, 500, nil)
	h.Ledger = ledger.New(h.homes, ledger.WithLog(slog.New(slog.DiscardHandler)), ledger.WithWaiting(bound), ledger.WithPairs(0))
	calls := h.completing()
	g := newGate(t)
	c := newCrowd(h)

	c.arrive(t.Context(), 1)
	<-g.reached
	c.arrive(t.Context(), offered)
	pgtest.Until(t, "the refusals", func() bool { return c.answered(usher.CodeUnavailable) == offered-bound })
	if h.Waiting(testEvent) != bound || h.Pressure(testEvent) != 1 {
		t.Errorf("%d holds wait, pressure %v", h.Waiting(testEvent), h.Pressure(testEvent))
	}
	var done atomic.Int32
	for i, call := range calls {
		c.wg.Go(func() {
			if err := call(); err != nil {
				t.Errorf("completing work %d: %v", i, err)
			}
			done.Add(1)
		})
	}
	pgtest.Until(t, "completing work in line", func() bool { return h.Waiting(testEvent) == bound+len(calls) })
	// The group under way is answered, then the next; the third stands at the gate.
	g.letGo()
	if n := done.Load(); n != 0 {
		t.Errorf("%d were answered by a group that was under way before", n)
	}
	g.letGo()
	pgtest.Until(t, "the answers", func() bool { return int(done.Load()) == len(calls) })

	// A second crowd gives up while that third group is under way; some of it stays.
	patience, cancel := context.WithCancel(t.Context())
	before := h.Waiting(testEvent)
	c.arrive(patience, 300)
	pgtest.Until(t, "the second crowd", func() bool { return h.Waiting(testEvent) == before+300 })
	c.arrive(t.Context(), 50)
	pgtest.Until(t, "those who stay", func() bool { return h.Waiting(testEvent) == before+350 })
	cancel()
	pgtest.Until(t, "those who leave", func() bool { return c.answered(usher.CodeBusy) == 300 })
	g.free()
	c.wg.Wait()
	c.check(offered + 351)
	h.wantVoided(8)
}

// check compares what was answered with what is in the outbox: each granted hold
// once, and nothing of those who were turned away or left.
func (c *crowd) check(all int) {
	h := c.h
	sum := 0
	for _, n := range c.answers {
		sum += n
	}
	if sum != all || len(c.answers) != 4 || c.answers[""]+c.answers[usher.CodeSeatsUnavailable]+c.answers[usher.CodeUnavailable]+c.answers[usher.CodeBusy] != all {
		h.t.Errorf("answers %v of %d", c.answers, all)
	}
	granted := 0
	for at := int64(0); ; {
		entries, err := h.Changes(context.Background(), testEvent, at, 1000)
		if err != nil {
			h.t.Fatal(err)
		}
		if len(entries) == 0 {
			break
		}
		for _, e := range entries {
			at = e.Seq
			if c.gone[e.Payload.Account] {
				h.t.Errorf("entry %d is of an account that was told that nothing was decided", e.Seq)
			}
			if e.Type == ledger.EntryHoldPlaced && c.holds[e.Payload.Hold] {
				granted++
			}
		}
	}
	if granted != len(c.holds) || granted == 0 {
		h.t.Errorf("%d holds are in the outbox, %d were granted", granted, len(c.holds))
	}
	remembered := 0
	h.scan(`SELECT count(*) FROM idempotency_record WHERE operation = 'hold'`, &remembered)
	if want := c.answers[usher.CodeSeatsUnavailable]; remembered != want {
		h.t.Errorf("%d refusals are remembered, %d were given", remembered, want)
	}
}

// wantVoided counts the orders that were given up: only those that were asked to.
func (h *hall) wantVoided(n int) {
	h.t.Helper()
	var voided, confirmed int
	h.scan(`SELECT count(*) FILTER (WHERE status = 'voiding'), count(*) FILTER (WHERE status = 'confirmed') FROM orders`, &voided, &confirmed)
	if voided != n || confirmed != n {
		h.t.Errorf("%d orders are given up and %d confirmed, want %d each", voided, confirmed, n)
	}
}

// A long group leaves most of what is due to shorter ones, so that those who wait
// for seats do not wait for it, until it is late.
func TestLongGroupsFreeLess(t *testing.T) {
	const due, waiting = 80, 300
	h := newHall(t, 500, nil)
	h.Ledger = ledger.New(h.homes, ledger.WithLog(slog.New(slog.DiscardHandler)), ledger.WithPairs(0))
	for i := range due {
		h.mustPlace(usher.NewAccountID(), "k", seatID(i))
	}
	c := newCrowd(h)
	deadlines := func(at string) {
		h.exec(h.pool, `UPDATE seat_inventory SET hold_expires_at = clock_timestamp() `+at+` WHERE status = 'held' AND seat_id < 'A-100'`)
		h.exec(h.pool, `UPDATE hold SET expires_at = clock_timestamp() `+at+` WHERE status = 'held' AND seat_ids[1] < 'A-100'`)
	}
	// freed is how many are free after a long group when what was left fell due so
	// long before it, and whether it came within a second of that.
	freed := func(before string) (n int, prompt bool) {
		deadlines("+ interval '10 minutes'")
		g := newGate(t)
		c.arrive(t.Context(), 1)
		<-g.reached
		c.arrive(t.Context(), waiting)
		pgtest.Until(t, "a long group", func() bool { return h.Waiting(testEvent) == waiting })
		deadlines("- interval '" + before + "'")
		start := time.Now()
		g.letGo()
		prompt = time.Since(start) < time.Second
		h.scan(`SELECT count(*) FROM hold WHERE status = 'expired'`, &n)
		g.free()
		c.wg.Wait()
		return n, prompt
	}
	if n, prompt := freed("0 s"); n != 32 && prompt {
		t.Errorf("a group of %d freed %d of %d holds that had just fallen due, want 32", waiting, n, due)
	}
	if n, _ := freed("3 s"); n != due {
		t.Errorf("%d of %d holds that are seconds overdue are free after a long group", n, due)
	}
}

// A second group runs beside the first once it is worth it. What completes a sale is
// in the next first group, whatever waits; and only first groups free what is due.
func TestSiegeInPairs(t *testing.T) {
	const bound = 1000
	h := newHall(t, 500, nil)
	h.Ledger = ledger.New(h.homes, ledger.WithLog(slog.New(slog.DiscardHandler)), ledger.WithWaiting(bound))
	calls := h.completing()
	lapsed, named := h.mustPlace(usher.NewAccountID(), "k", seatID(90)), h.mustPlace(usher.NewAccountID(), "k", seatID(91))
	g := newGate(t)
	c := newCrowd(h)

	c.arrive(t.Context(), 1)
	<-g.reached
	h.lapse(lapsed)
	c.arrive(t.Context(), 5000)
	<-g.reached
	pgtest.Until(t, "a full lane", func() bool { return h.Pressure(testEvent) == 1 })
	if got := h.holdStatus(lapsed.ID); got != usher.HoldHeld {
		t.Errorf("the second group left a lapsed hold %s, want it left to the first", got)
	}
	var running int64
	h.scan(`SELECT seq FROM event_ledger`, &running)
	if running < 100 {
		t.Errorf("the second group published up to entry %d: it was not worth it", running)
	}
	for i, call := range calls {
		c.wg.Go(func() {
			if err := call(); err != nil {
				t.Errorf("completing work %d: %v", i, err)
			}
		})
	}
	pgtest.Until(t, "completing work in line", func() bool { return h.Waiting(testEvent) == bound+len(calls) })
	// The first one is answered; the group that forms then stands at the gate.
	g.letGo()
	entries, err := h.Changes(context.Background(), testEvent, running, len(calls))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Type == ledger.EntryHoldPlaced {
			t.Errorf("a hold that waited is entry %d, before what completes a sale", e.Seq)
		}
	}
	if len(entries) != len(calls) {
		t.Errorf("the next group published %d entries, completing work alone has %d", len(entries), len(calls))
	}
	if got := h.holdStatus(lapsed.ID); got != usher.HoldExpired {
		t.Errorf("the next first group left a lapsed hold %s", got)
	}
	// The second one is answered, and another forms, which does not free either.
	h.lapse(named)
	waiting := h.Waiting(testEvent)
	c.wg.Go(func() {
		got, err := h.ReleaseHold(context.Background(), ledger.ReleaseHold{Hold: named.ID, Account: named.Account})
		if err != nil || got.Status != usher.HoldExpired {
			t.Errorf("a hold that was over by time is %s, %v", got.Status, err)
		}
	})
	pgtest.Until(t, "the release in line", func() bool { return h.Waiting(testEvent) == waiting+1 })
	g.letGo()
	if got := h.holdStatus(named.ID); got != usher.HoldHeld {
		t.Errorf("another second group left a lapsed hold %s, want it left to the first", got)
	}
	g.free()
	c.wg.Wait()
	h.wantVoided(8)
}

func (h *hall) holdStatus(id usher.HoldID) (status usher.HoldStatus) {
	h.t.Helper()
	if err := h.pool.QueryRow(context.Background(), `SELECT status FROM hold WHERE hold_id = $1`, id).Scan(&status); err != nil {
		h.t.Fatalf("read hold: %v", err)
	}
	return status
}

// Data that PostgreSQL refuses fails its own command; the rest of the group is
// decided without it.
func TestBadDataIsFoundInItsGroup(t *testing.T) {
	h := newHall(t, 20, nil)
	bad := h.mustPlace(usher.NewAccountID(), "k", seatID(19))
	g := newGate(t)
	var wg sync.WaitGroup
	place := func(seat int) {
		wg.Go(func() {
			if _, err := h.PlaceHold(context.Background(), ledger.PlaceHold{
				Event: testEvent, Account: usher.NewAccountID(), Seats: []usher.SeatID{seatID(seat)}, Key: "k",
			}); err != nil {
				t.Errorf("seat %d: %v", seat, err)
			}
		})
	}
	place(0)
	<-g.reached
	for i := range 9 {
		place(i + 1)
	}
	wg.Go(func() {
		_, _, err := h.BeginPayment(context.Background(), ledger.BeginPayment{
			Hold: bad.ID, Account: bad.Account, Provider: "no UTF-8: \xff", MethodToken: "m", Key: "c",
		})
		if usher.CodeOf(err) != usher.CodeInternal {
			t.Errorf("bad data: %v", err)
		}
	})
	pgtest.Until(t, "the group", func() bool { return h.Waiting(testEvent) == 10 })
	g.free()
	wg.Wait()
	h.wantSeat(seatID(19), usher.SeatHeld, bad.ID)
}
