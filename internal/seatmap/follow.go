package seatmap

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"usher"
)

const (
	// pageMax and pagesMax bound what is read to catch up: beyond it reading the
	// seats anew is cheaper.
	pageMax  = 1000
	pagesMax = 20
	// readTimeout bounds one look at the home.
	readTimeout = 2 * time.Second
	// loadTimeout bounds reading chart and seats.
	loadTimeout = 10 * time.Second
	// markEvery is how often the database time and the epoch are looked at.
	markEvery = 2 * time.Second
	// freshEvery is how old a published picture may get before its time is renewed.
	freshEvery = 5 * time.Second
	// backMax is how far the database clock may step back before the picture, whose
	// lapses it could contradict, is read anew.
	backMax = time.Second
	// ringMax bounds the frames that are kept for readers who come back.
	ringMax = 64
)

// attempt is one try at reading an event; done closes when err is known.
type attempt struct {
	done chan struct{}
	err  error
}

// follower keeps one event's picture, in one goroutine, and its readers.
type follower struct {
	hub   *Hub
	event usher.EventID
	// view is what is published; nil before the first reading.
	view atomic.Pointer[view]
	// kick asks for a tick now and is told when it is over; done closes when the
	// follower has ended.
	kick chan chan struct{}
	done chan struct{}

	// Owned by run.
	picture  *picture
	reload   bool // the picture cannot go on and has to be read anew
	fresh    bool // it was read anew and not published yet
	epoch    int64
	clock    clock
	markedAt time.Time // local, of the last mark
	okAt     time.Time // local, of the home's last answer
	tickedAt time.Time // local, of the last tick
	failing  bool      // the last look at the home failed
	cause    error     // why there is nothing to follow

	mu         sync.Mutex
	ended      bool
	used       time.Time
	attempt    *attempt
	streams    map[*Stream]bool
	ring       []frame
	outsider   *view
	outsiderAt time.Time
}

// clock tells the database time between two looks at it. Go's monotonic clock
// carries it on, so that steps of the machine's own clock do not matter.
type clock struct {
	local    time.Time
	database time.Time
}

func (c clock) at(local time.Time) time.Time { return c.database.Add(local.Sub(c.local)) }

func newFollower(h *Hub, event usher.EventID) *follower {
	return &follower{
		hub: h, event: event, kick: make(chan chan struct{}), done: make(chan struct{}), used: time.Now(),
		attempt: &attempt{done: make(chan struct{})}, streams: map[*Stream]bool{},
	}
}

// run follows the event until ctx ends, the event proves not to exist, or nobody
// has asked about it for a while.
func (f *follower) run(ctx context.Context) {
	wake, unwatch := f.hub.source.Watch(f.event)
	defer unwatch()
	defer f.end()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var waiting []chan struct{}
		select {
		case <-ctx.Done():
			return
		case <-wake:
			// Frames keep their distance: the tick comes as soon as that allows.
			timer.Reset(max(0, f.distance()-time.Since(f.tickedAt)))
			continue
		case c := <-f.kick:
			waiting = f.kicks(c)
		case <-timer.C:
		}
		goOn := f.tick(ctx)
		for _, c := range waiting {
			close(c)
		}
		if !goOn {
			return
		}
		timer.Reset(f.untilNext())
	}
}

// kicks collects everybody who waits for the tick that comes now.
func (f *follower) kicks(first chan struct{}) []chan struct{} {
	all := []chan struct{}{first}
	for {
		select {
		case c := <-f.kick:
			all = append(all, c)
		default:
			return all
		}
	}
}

// distance is the least time between two frames.
func (f *follower) distance() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.streams) > f.hub.cfg.StreamsBusy {
		return f.hub.cfg.FrameEveryBusy
	}
	return f.hub.cfg.FrameEvery
}

// untilNext says when the next tick is due by itself: the poll, jittered so that
// processes do not march in step, or the next lapse if that is earlier.
func (f *follower) untilNext() time.Duration {
	next := f.hub.cfg.Poll/2 + rand.N(f.hub.cfg.Poll)
	if f.picture != nil && f.picture.nextDue != noDeadline {
		next = min(next, time.UnixMilli(f.picture.nextDue).Sub(f.clock.at(time.Now())))
	}
	return max(next, f.distance())
}

// tick catches up with the home, lets time pass and publishes what changed. It
// returns false when there is nothing more to follow.
func (f *follower) tick(ctx context.Context) bool {
	f.tickedAt = time.Now()
	var err error
	if f.picture != nil && !f.reload {
		if err = f.catchUp(ctx); errors.Is(err, errHole) {
			f.reload = true
		}
	}
	if f.picture == nil || f.reload {
		err = f.read(ctx)
	}
	f.note(ctx, err)
	if f.picture == nil {
		if usher.CodeOf(err) == usher.CodeNotFound {
			f.cause = err
			return false
		}
		f.tried(err)
		return true
	}
	f.picture.lapseTo(f.clock.at(time.Now()).UnixMilli())
	f.publish()
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.streams) > 0 || time.Since(f.used) < f.hub.cfg.RestAfter
}

// note remembers whether the home answered.
func (f *follower) note(ctx context.Context, err error) {
	switch {
	case err == nil:
		f.okAt, f.failing = time.Now(), false
		return
	case ctx.Err() != nil:
		return
	}
	f.hub.metrics.failures.Inc()
	if !f.failing {
		f.hub.cfg.Log.WarnContext(ctx, "seat map cannot read its home", "event", f.event, "error", err)
	}
	f.failing = true
}

// catchUp applies what the outbox has after the picture. It fails with errHole
// when the picture cannot simply go on: it is too far behind, the ledger is
// another one than before (failover, restore), or its clock went back.
func (f *follower) catchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if time.Since(f.markedAt) >= markEvery {
		m, err := f.mark(ctx)
		if err != nil {
			return err
		}
		if m.epoch != f.epoch || m.seq < f.picture.pos.Seq || m.now.Add(backMax).UnixMilli() < f.picture.pos.Lapse {
			return errHole
		}
	}
	for range pagesMax {
		entries, err := f.hub.source.Changes(ctx, f.event, f.picture.pos.Seq, pageMax)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := f.picture.apply(e); err != nil {
				return err
			}
		}
		if len(entries) < pageMax {
			return nil
		}
	}
	return errHole
}

// mark looks at the ledger and sets the clock by it.
func (f *follower) mark(ctx context.Context) (mark, error) {
	begin := time.Now()
	m, err := f.hub.source.Mark(ctx, f.event)
	if err != nil {
		return m, err
	}
	end := time.Now()
	// The database read its clock somewhere between; the middle is the best guess.
	f.clock = clock{local: begin.Add(end.Sub(begin) / 2), database: m.now}
	f.markedAt = end
	return m, nil
}

// read makes the picture from one ledger snapshot.
func (f *follower) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	f.hub.metrics.reloads.Inc()
	chart, err := f.hub.source.Chart(ctx, f.event)
	if err != nil {
		return err
	}
	m, err := f.mark(ctx)
	if err != nil {
		return err
	}
	snap, err := f.hub.source.Seats(ctx, f.event)
	if err != nil {
		return err
	}
	p := newPicture(chart, snap)
	if p.strangers > 0 {
		f.hub.cfg.Log.ErrorContext(ctx, "seat map: the ledger has seats that the chart has not", "event", f.event, "seats", p.strangers)
	}
	f.picture, f.epoch, f.reload, f.fresh = p, m.epoch, false, true
	return nil
}

// loaded returns the current view, waiting for the first one.
func (f *follower) loaded(ctx context.Context) (*view, error) {
	for {
		f.mu.Lock()
		f.used = time.Now()
		attempt := f.attempt
		f.mu.Unlock()
		if v := f.view.Load(); v != nil {
			return v, nil
		}
		select {
		case <-attempt.done:
			if attempt.err != nil {
				return nil, attempt.err
			}
		case <-ctx.Done():
			return nil, errAway(ctx.Err())
		}
	}
}

// tried tells whoever waits for the first picture how the attempt ended. The
// last attempt of a follower that has ended stays: whoever got hold of the
// follower just before and asks just after hears it, too.
func (f *follower) tried(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attempt.err = err
	close(f.attempt.done)
	if !f.ended {
		f.attempt = &attempt{done: make(chan struct{})}
	}
}

// publish makes the picture's state the published one, if it differs, and hands
// the step to every stream.
func (f *follower) publish() {
	prev, oldest, live := f.view.Load(), f.picture.oldest, time.Since(f.okAt) < f.hub.cfg.AwayAfter
	at := f.clock.at(f.okAt)
	if live {
		at = f.clock.at(time.Now())
	}
	changes := f.picture.take()
	moved := prev == nil || f.fresh || f.picture.pos.Seq != prev.pos.Seq || len(changes) > 0
	switched := prev != nil && live != prev.live
	if !moved && !switched && !(live && at.Sub(prev.at) >= freshEvery) {
		return
	}
	v := newView(f.event, f.picture, at, live, slices.Clone(f.picture.packed))
	switch {
	case prev == nil:
		f.set(v, frame{})
		f.tried(nil)
	case f.fresh:
		f.hub.metrics.resetReload.Inc()
		f.set(v, newReset(v))
	case moved:
		step := newFrame(prev, v, changes)
		f.hub.metrics.frame(step, oldest, at)
		f.set(v, step)
	case switched:
		f.set(v, frame{wire: newBeat(at, live)})
	default:
		f.set(v, frame{})
	}
	f.fresh = false
	if switched {
		f.hub.metrics.away.Add(map[bool]float64{true: -1, false: 1}[live])
		f.hub.cfg.Log.Warn("seat map availability changed", "event", f.event, "live", live)
	}
}

// set publishes a view together with the message that leads to it, so that a
// stream which begins now has exactly one of: the view, the message.
func (f *follower) set(v *view, step frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.view.Store(v)
	switch step.kind {
	case stepReset:
		f.ring = nil
	case stepFrame:
		f.ring = append(f.ring, step)
		if len(f.ring) > ringMax {
			f.ring = slices.Delete(f.ring, 0, len(f.ring)-ringMax)
		}
	}
	if step.wire == nil {
		return
	}
	reset := sync.OnceValue(func() []byte { return newReset(v).wire })
	for s := range f.streams {
		if s.push(step.wire, reset) {
			f.hub.metrics.resetSlow.Inc()
		}
	}
}

// refresh waits for a tick that begins after the call.
func (f *follower) refresh(ctx context.Context) error {
	over := make(chan struct{})
	select {
	case f.kick <- over:
	case <-f.done:
		return nil
	case <-ctx.Done():
		return errAway(ctx.Err())
	}
	select {
	case <-over:
	case <-f.done:
	case <-ctx.Done():
		return errAway(ctx.Err())
	}
	return nil
}

// forOutsiders returns the slower picture, renewing it when it is old enough.
func (f *follower) forOutsiders(current *view) *view {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.outsider == nil || time.Since(f.outsiderAt) >= f.hub.cfg.OutsiderEvery {
		f.outsider, f.outsiderAt = current, time.Now()
	}
	return f.outsider
}

// beat is a heartbeat of the published view.
func (f *follower) beat() []byte {
	v := f.view.Load()
	return newBeat(v.at, v.live)
}

// end ends every stream and whoever waits.
func (f *follower) end() {
	f.hub.forget(f)
	f.mu.Lock()
	f.ended = true
	streams := slices.Collect(maps.Keys(f.streams))
	f.mu.Unlock()
	close(f.done)
	for _, s := range streams {
		s.end()
	}
	switch v := f.view.Load(); {
	case v != nil && !v.live:
		f.hub.metrics.away.Dec()
	case v == nil && f.cause == nil:
		f.tried(errAway(errors.New("seat map: no longer followed")))
	case v == nil:
		f.tried(f.cause)
	}
}
