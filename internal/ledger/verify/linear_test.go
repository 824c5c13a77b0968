package verify_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg/pgproxy"
	"usher/internal/pg/pgtest"
)

// quick are rules under which deadlines pass within a test.
func quick(r *usher.Rules) {
	r.HoldTime, r.PayMargin, r.Grace = time.Second, 0, time.Second
	r.PendingPerAccountMax = 10
}

// hotSeats are so few that everybody meets on them.
var hotSeats = seatIDs(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)

// plague breaks what passes the proxy until ctx ends, and heals it at the end.
// It returns how many faults met a statement or a connection.
func plague(ctx context.Context, p *pgproxy.Proxy) (fired int) {
	var armed []*pgproxy.Fault
	defer func() {
		p.Heal()
		for _, f := range armed {
			f.Disarm()
			fired += f.Fired()
		}
	}()
	statements := []struct {
		sql string
		do  pgproxy.Action
	}{
		{"commit", pgproxy.SwallowAnswer()},
		{"commit", pgproxy.Late(50 * time.Millisecond)},
		{"commit", pgproxy.Reset()},
		{"commit", pgproxy.Delay(30 * time.Millisecond)},
		{"FROM seat_inventory", pgproxy.Refuse("40P01")},
		{"UPDATE event_ledger", pgproxy.Refuse("40001")},
		{"INSERT INTO hold ", pgproxy.Reset()},
	}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return fired
		case <-pause.C:
		}
		switch n := rand.IntN(len(statements) + 2); n {
		case len(statements):
			p.Cut()
			fired++
		case len(statements) + 1:
			p.Hush()
			fired++
		default:
			armed = append(armed, p.Arm(statements[n].sql, 1, statements[n].do))
		}
		pause.Reset(time.Duration(50+rand.IntN(100)) * time.Millisecond)
		select {
		case <-ctx.Done():
		case <-pause.C:
			p.Heal()
		}
		pause.Reset(time.Duration(150+rand.IntN(250)) * time.Millisecond)
	}
}

// trafficExtra is how much longer the traffic may go on until everything has
// happened at least once.
const trafficExtra = time.Minute

// history is the traffic of one event with its faults.
type history struct {
	h       *hall
	event   usher.EventID
	journal *journal
	fired   int
	kills   int
	tally   *tally
}

// tally counts what happened. What never happened was not tested.
type tally struct {
	done, refused          map[kind]int
	unknown, fired, killed int
}

func newTally() *tally { return &tally{done: map[kind]int{}, refused: map[kind]int{}} }

func (y *tally) wantAll(t testing.TB) {
	t.Helper()
	t.Logf("in all: done %v, refused %v, %d without an answer, %d faults, %d kills", y.done, y.refused, y.unknown, y.fired, y.killed)
	for _, k := range kinds {
		if y.done[k] == 0 {
			t.Errorf("no %s was ever done", k)
		}
	}
	if y.unknown == 0 || y.fired == 0 || y.refused[kindHold] == 0 {
		t.Error("no call stayed without an answer, no fault met anything, or no hold was refused")
	}
}

// record lets clients of two processes behind proxies meet on the event for a
// time, and of children that are killed and started again.
func (y *history) record(seats []usher.SeatID, places [2]int, d time.Duration, children int) {
	h := y.h
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), d+trafficExtra)
	defer cancel()
	w := &traffic{event: y.event, seats: seats, places: places, journal: y.journal}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 2 {
		p := pgproxy.Start(h.t, h.url)
		w.ledgers = append(w.ledgers, h.through(p.URL()))
		wg.Go(func() {
			n := plague(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			y.fired += n
		})
	}
	file := journalFile(h.t)
	for range children {
		wg.Go(func() {
			n := h.killAgainAndAgain(ctx, "traffic", envJournal+"="+file, envEvent+"="+fmt.Sprint(int(y.event)))
			mu.Lock()
			defer mu.Unlock()
			y.kills += n
		})
	}
	tidy := &traffic{event: y.event, journal: y.journal, ledgers: []*ledger.Ledger{h.process()}}
	wg.Go(func() {
		if err := tidy.tidy(ctx, h.shard()); err != nil {
			h.t.Errorf("tidy: %v", err)
		}
	})
	wg.Go(func() {
		defer cancel()
		enough := time.NewTimer(d)
		defer enough.Stop()
		<-enough.C
		pgtest.Until(h.t, "every kind of call", y.journal.covered)
	})
	w.run(ctx, 12)
	wg.Wait()
	h.childrenGone()
	// Whatever a process still has to do for a caller that left goes before this.
	for _, l := range append(tidy.ledgers, w.ledgers...) {
		pgtest.Until(h.t, "rest", func() bool {
			_, err := l.ExpireHolds(context.Background(), y.event)
			return err == nil
		})
	}
	if children > 0 {
		y.journal.load(h.t, file)
	}
}

// killAgainAndAgain runs a child, one after the other, and kills each.
func (h *hall) killAgainAndAgain(ctx context.Context, what string, env ...string) (kills int) {
	for ctx.Err() == nil {
		p := h.spawn(what, env...)
		t := time.NewTimer(time.Duration(800+rand.IntN(1200)) * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
		p.kill()
		kills++
	}
	return kills
}

// check closes the history and checks everything but the model.
func (y *history) check() []call {
	y.h.t.Helper()
	calls, unknown := settled(y.h.t, y.journal.all(), y.h.entries(y.event))
	inOrder(y.h.t, calls)
	for _, c := range calls {
		if c.Code == "" {
			y.tally.done[c.Kind]++
		} else {
			y.tally.refused[c.Kind]++
		}
	}
	y.tally.unknown += unknown
	y.tally.fired += y.fired
	y.tally.killed += y.kills
	known := map[kind]map[usher.Code]bool{
		kindHold:    {usher.CodeSeatsUnavailable: true},
		kindRelease: {usher.CodeHoldPaymentPending: true, usher.CodeHoldEnded: true},
		kindBegin:   {usher.CodeHoldExpired: true, usher.CodeHoldEnded: true},
		kindConfirm: {usher.CodeOrderClosed: true, usher.CodeStateConflict: true},
		kindFail:    {usher.CodeStateConflict: true},
		kindVoid:    {usher.CodeStateConflict: true},
	}
	for _, c := range calls {
		if c.Code != "" && !known[c.Kind][c.Code] {
			y.h.t.Errorf("%s was answered %q", c.Kind, c.Code)
		}
	}
	return calls
}

// Three processes and more, two of them behind broken lines, the others killed
// and started again, on a dozen seats: what each client saw of each seat is what
// one seat could have done.
func TestSeatHistories(t *testing.T) {
	h := newHall(t, len(hotSeats), quick)
	ctx, cancel := context.WithCancel(t.Context())
	var sweeper sync.WaitGroup
	l := h.process()
	sweeper.Go(func() { _ = l.RunSweeper(ctx) })
	y := &history{h: h, event: event, journal: newJournal(nil), tally: newTally()}
	y.record(hotSeats, [2]int{1, 3}, time.Duration(scale())*8*time.Second, 2)
	cancel()
	sweeper.Wait()
	if y.kills < 3 {
		t.Errorf("only %d processes were killed", y.kills)
	}
	mustLinearize(t, "seats", seatModel(), y.check())
	y.tally.wantAll(t)
}

// Groups of two and three on six seats: each is held whole, in one moment, or
// not at all, and seats that move together move in one moment.
func TestGroupHistories(t *testing.T) {
	h := newHall(t, 1, nil)
	all := newTally()
	for i := range 2 * scale() {
		e := event + 1 + usher.EventID(i)
		h.addEvent(e, universe, quick)
		y := &history{h: h, event: e, journal: newJournal(nil), tally: all}
		y.record(universeSeats, [2]int{2, 3}, 4*time.Second, 0)
		mustLinearize(t, "groups", groupModel(), y.check())
	}
	all.wantAll(t)
}

// The checkers themselves: each finds what is wrong in a small history.
func TestCheckersFindPlantedErrors(t *testing.T) {
	a, b := usher.NewHoldID(event), usher.NewHoldID(event)
	o := usher.NewOrderID(event)
	s := seatIDs(0, 1)
	hold := func(h usher.HoldID, at, expires int64, seats ...usher.SeatID) call {
		return call{Kind: kindHold, Hold: h, Seats: seats, Call: at, Return: at + 5, At: at + 2, Expires: expires}
	}
	at := func(k kind, h usher.HoldID, t int64) call {
		return call{Kind: k, Hold: h, Order: o, Call: t, Return: t + 5, At: t + 2}
	}
	refused := func(c call, code usher.Code) call { c.Code = code; return c }
	seen := func(c call) call { c.Seen = true; return c }
	taken := func(c call, seats ...usher.SeatID) call {
		c.Code, c.Taken = usher.CodeSeatsUnavailable, seats
		return c
	}
	const ms = int64(time.Millisecond)
	for _, tc := range []struct {
		name  string
		legal bool
		calls []call
	}{
		{"hold, release, hold", true, []call{hold(a, 10, 9*ms, s...), at(kindRelease, a, 20), hold(b, 30, 9*ms, s...)}},
		{"takeover past the deadline", true, []call{hold(a, 10, ms, s...), hold(b, 2*ms, 9*ms, s[0])}},
		{"takeover before the deadline", false, []call{hold(a, 10, 9*ms, s...), hold(b, 20, 9*ms, s[0])}},
		{"double sale", false, []call{hold(a, 10, ms, s[0]), at(kindBegin, a, 20), at(kindConfirm, a, 30), hold(b, 2*ms, 9*ms, s[0])}},
		{"pending seat taken by time", false, []call{hold(a, 10, ms, s[0]), at(kindBegin, a, 20), hold(b, 2*ms, 9*ms, s[0])}},
		{"payment begun past the deadline", false, []call{hold(a, 10, ms, s[0]), at(kindBegin, a, 2*ms)}},
		{"release of another's hold", false, []call{hold(a, 10, ms, s[0]), hold(b, 2*ms, 9*ms, s[0]), at(kindRelease, a, 3*ms), hold(a, 4*ms, 9*ms, s[0])}},
		{"confirmed behind a closed door", false, []call{hold(a, 10, ms, s[0]), at(kindBegin, a, 20), at(kindVoid, a, 30), at(kindConfirm, a, 40)}},
		{"door closed, late success refused", true, []call{hold(a, 10, ms, s[0]), at(kindBegin, a, 20), at(kindVoid, a, 30), refused(at(kindConfirm, a, 40), usher.CodeOrderClosed), at(kindFinish, a, 50)}},
		{"a free seat called taken", false, []call{taken(hold(a, 10, ms, s...), s[0])}},
		{"a taken seat called free", false, []call{hold(a, 10, 9*ms, s...), taken(hold(b, 20, 9*ms, s...), s[0])}},
		{"release that changed nothing", false, []call{hold(a, 10, 9*ms, s[0]), seen(at(kindRelease, a, 20))}},
		{"release past the deadline", true, []call{hold(a, 10, ms, s[0]), seen(at(kindRelease, a, 2*ms))}},
		{"decline that changed nothing", false, []call{hold(a, 10, ms, s[0]), at(kindBegin, a, 20), seen(at(kindFail, a, 30))}},
		{"half a group", false, []call{hold(a, 10, 9*ms, s...), at(kindRelease, a, 20), hold(b, 30, 9*ms, s[0]), taken(hold(usher.NewHoldID(event), 40, 9*ms, s[1]), s[1])}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ops := operations(tc.calls)
			if groups := linear(groupModel(), ops); groups != tc.legal {
				t.Errorf("the group model says %v", groups)
			}
			if seats := linear(seatModel(), ops); seats != tc.legal {
				t.Errorf("the seat model says %v", seats)
			}
		})
	}
}

func linear(m porcupine.Model, ops []porcupine.Operation) bool {
	return porcupine.CheckOperations(m, ops)
}
