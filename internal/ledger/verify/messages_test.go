package verify_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/pg/pgtest"
)

// runs starts a loop of a ledger that ends with the test, or earlier.
func runs(t testing.TB, loop func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = loop(ctx) })
	stop = func() {
		cancel()
		wg.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// expired waits until so many holds have expired, each once.
func (h *hall) expired(n int) {
	h.t.Helper()
	pgtest.Until(h.t, "the expiry", func() bool { return h.count(ledger.EntryHoldExpired) >= n })
	if got := h.count(ledger.EntryHoldExpired); got != n {
		h.t.Errorf("%d holds expired, want %d", got, n)
	}
}

// passed counts passes of a point that changes nothing.
func passed(t testing.TB, point string) func() int64 {
	t.Helper()
	t.Cleanup(fault.Arm(point, 0, func(context.Context) error { return nil }))
	return func() int64 { return fault.Passes(point) }
}

// Without a sweeper and without anybody who asks for places, a message frees what
// its process placed, and after a restart what anybody placed.
func TestMessageFrees(t *testing.T) {
	h := newHall(t, 4, quick)
	runs(t, h.RunExpiry)
	h.mustPlace(usher.NewAccountID(), "k", seatIDs(0, 1)...)
	h.expired(1)
	h.wantSeat(seatID(0), usher.SeatAvailable, usher.HoldID{})

	other := newHall(t, 4, nil)
	hold := other.mustPlace(usher.NewAccountID(), "k", seatIDs(0, 1)...)
	live := other.mustPlace(usher.NewAccountID(), "k", seatID(2))
	overdue := other.mustPlace(usher.NewAccountID(), "k", seatID(3))
	other.expireIn(hold, 500*time.Millisecond)
	other.expireIn(overdue, -time.Hour)
	runs(t, other.process().RunExpiry)
	other.expired(2)
	other.wantSeat(seatID(0), usher.SeatAvailable, usher.HoldID{})
	other.wantSeat(seatID(2), usher.SeatHeld, live.ID)
}

// A declined attempt leaves the hold waiting for its deadline again; a restart
// in between has forgotten it, the commit of the decline has not.
func TestMessageAfterDecline(t *testing.T) {
	h := newHall(t, 1, nil)
	o := h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatID(0)), "c")
	h.expireIn(ledger.Hold{ID: o.Hold}, 2*time.Second)
	l := h.process()
	runs(t, l.RunExpiry)
	if _, err := l.FailPayment(t.Context(), ledger.FailPayment{Order: o.ID, Operation: o.Authorization.ID}); err != nil {
		t.Fatal(err)
	}
	h.wantSeat(seatID(0), usher.SeatHeld, o.Hold)
	h.expired(1)
	h.wantSeat(seatID(0), usher.SeatAvailable, usher.HoldID{})
}

// B05/R: every message is lost. The rows stay as they are, the next buyer's group
// frees what it needs, and the sweep what nobody needs.
func TestMatrixMessageLost(t *testing.T) {
	h := newHall(t, 2, quick)
	disarm := fault.Arm("expiry.message", 0, fault.Fail)
	defer disarm()
	runs(t, h.RunExpiry)
	groups := passed(t, "expiry.before_group")
	lost := h.mustPlace(usher.NewAccountID(), "k", seatID(0))
	pgtest.Until(t, "the loss", func() bool { return fault.Passes("expiry.message") > 0 })
	if h.wantSeat(seatID(0), usher.SeatHeld, lost.ID); groups() != 0 || h.count(ledger.EntryHoldExpired) != 0 {
		t.Error("a lost message freed something")
	}
	bought := h.mustConfirm(h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatID(0)), "c"))
	h.expired(1)
	h.mustPlace(usher.NewAccountID(), "k", seatID(1))
	runs(t, h.process().RunSweeper)
	h.expired(2)
	h.wantSeat(seatID(0), usher.SeatSold, bought.Hold)
	h.wantSeat(seatID(1), usher.SeatAvailable, usher.HoldID{})
}

// B05/L: the first of two messages is late and comes after the second, when its
// seat is somebody else's. It changes nothing.
func TestMatrixMessageLate(t *testing.T) {
	h := newHall(t, 3, quick)
	late := make(chan struct{})
	defer fault.Arm("expiry.message", 1, func(context.Context) error {
		<-late
		return nil
	})()
	deliveries := passed(t, "expiry.before_group")
	l := h.process()
	runs(t, l.RunExpiry)
	place := func(seat int) ledger.Hold {
		hold, err := l.PlaceHold(t.Context(), placing(usher.NewAccountID(), "k", seatID(seat)))
		if err != nil {
			t.Fatal(err)
		}
		return hold
	}
	place(0)
	pgtest.Until(t, "the late message", func() bool { return fault.Passes("expiry.message") == 1 })
	place(1)
	h.expired(2)
	// Holds by another process have no messages here, and a deadline far away.
	next := h.mustPlace(usher.NewAccountID(), "k", seatIDs(0, 1)...)
	h.expireIn(next, time.Hour)
	before, groups := deliveries(), passed(t, "ledger.before_write")
	close(late)
	pgtest.Until(t, "its delivery", func() bool { return deliveries() == before+1 && groups() > 0 })
	// The same ledger's next group is decided after that one.
	if n, err := l.ExpireHolds(t.Context(), event); n != 0 || err != nil {
		t.Errorf("freed %d, %v", n, err)
	}
	h.expired(2)
	h.wantSeat(seatID(0), usher.SeatHeld, next.ID)
}

// B05/D: each message comes twice, from two processes. Each hold expires once.
func TestMatrixMessageTwice(t *testing.T) {
	h := newHall(t, 4, nil)
	hold := h.mustPlace(usher.NewAccountID(), "k", seatIDs(0, 1)...)
	live := h.mustPlace(usher.NewAccountID(), "k", seatIDs(2, 3)...)
	h.expireIn(hold, 300*time.Millisecond)
	// Neither delivers before both know of the hold.
	var messages atomic.Int64
	both := make(chan struct{})
	defer fault.Arm("expiry.message", 0, func(ctx context.Context) error {
		if messages.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
		case <-ctx.Done():
		}
		return fault.ErrTwice
	})()
	deliveries := passed(t, "expiry.before_group")
	stop := []func(){runs(t, h.process().RunExpiry), runs(t, h.process().RunExpiry)}
	pgtest.Until(t, "four deliveries", func() bool { return deliveries() >= 4 })
	h.expired(1)
	for _, s := range stop {
		s()
	}
	h.wantSeat(seatID(2), usher.SeatHeld, live.ID)
}

// B05/K: the process that was to send the message dies sending it; the next one
// reads the deadlines anew.
func TestMatrixMessageSenderKilled(t *testing.T) {
	h := newHall(t, 1, nil)
	h.expireIn(h.mustPlace(usher.NewAccountID(), "k", seatID(0)), 0)
	h.spawn("scene", envScene+"=messages", envFaults+"=expiry.message=kill").dies(t, "expiry.message")
	if n := h.count(ledger.EntryHoldExpired); n != 0 {
		t.Errorf("%d holds expired", n)
	}
	runs(t, h.process().RunExpiry)
	h.expired(1)
}

// An operator sees what is due and not freed: how much, since when, and a line
// that says what to do, once a minute at most.
func TestOverdueIsReported(t *testing.T) {
	h := newHall(t, 3, nil)
	var holds []ledger.Hold
	for i := range 3 {
		holds = append(holds, h.mustPlace(usher.NewAccountID(), "k", seatID(i)))
	}
	for i, hold := range holds {
		h.expireIn(hold, -time.Duration(i+1)*100*time.Second)
	}
	defer fault.Arm("expiry.before_group", 0, fault.Fail)()
	reg := prometheus.NewRegistry()
	var log lines
	l := ledger.New(h.homes, ledger.WithMetrics(reg), ledger.WithLog(slog.New(slog.NewTextHandler(&log, nil))))
	stop := runs(t, l.RunSweeper)
	pgtest.Until(t, "the line", func() bool { return log.count("holds are overdue") == 1 })
	stop()
	if n := gauge(t, reg, "usher_ledger_expiry_backlog"); n != 3 {
		t.Errorf("the backlog is %v", n)
	}
	if n := gauge(t, reg, "usher_ledger_expiry_oldest_seconds"); n < 300 || n > 400 {
		t.Errorf("the oldest is %v s", n)
	}
	for _, want := range []string{"shard=1", "event=" + event.String(), "holds=3", "oldest=5m"} {
		if log.count(want) == 0 {
			t.Errorf("the line lacks %s: %s", want, log.text())
		}
	}
	fault.Arm("expiry.before_group", 0, func(context.Context) error { return nil })
	runs(t, l.RunSweeper)
	h.expired(3)
}

// gauge reads the one value of a metric.
func gauge(t testing.TB, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name && len(f.GetMetric()) == 1 {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

// lines collects a log.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) count(s string) int { return strings.Count(l.text(), s) }

// While one event's expiry stands still, another's messages and sweeps do not.
func TestExpiryOfEventsIsApart(t *testing.T) {
	h := newHall(t, 1, nil)
	h.addEvent(event+1, 1, nil)
	for name, loop := range map[string]func(context.Context) error{"messages": h.process().RunExpiry, "sweep": h.process().RunSweeper} {
		for _, e := range []usher.EventID{event, event + 1} {
			hold, err := h.PlaceHold(t.Context(), ledger.PlaceHold{Event: e, Account: usher.NewAccountID(), Seats: seatIDs(0), Key: "k"})
			if err != nil {
				t.Fatal(err)
			}
			h.expireIn(hold, 0)
		}
		reached, goOn := paused(t)
		stop := runs(t, loop)
		<-reached
		pgtest.Until(t, "the other event's expiry by "+name, func() bool {
			return one[int](h, `SELECT count(*) FROM hold WHERE status = 'held'`) == 1
		})
		goOn()
		stop()
		for _, e := range []usher.EventID{event, event + 1} {
			if _, err := h.ExpireHolds(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
	}
}
