package waitingroom_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"usher"
	"usher/internal/fault"
	"usher/internal/waitingroom"
)

func TestAdmitIsRepeatable(t *testing.T) {
	b := newBench(t)
	a := b.openTo(1)[0]
	b.wantStatus(a, waitingroom.PlaceCalled)
	first := b.admit(a)
	for range 3 {
		if again := b.admit(a); again.Session != first.Session {
			t.Fatal("admitting again made another session")
		}
	}
	if k := b.me(a); k.Status != waitingroom.PlaceAdmitted || k.Session != first.Session {
		t.Fatalf("place is %+v, want admitted to %s", k, first.Session)
	}
	if life := first.ExpiresAt.Sub(b.keys.Now()); life > waitingroom.AdmissionLife || life < waitingroom.AdmissionLife-time.Minute {
		t.Fatalf("token lives %s", life)
	}
	session, err := b.rooms.VerifyAdmission(first.Token, event, a)
	must(t, err)
	if session != first.Session {
		t.Fatalf("token names session %s, want %s", session, first.Session)
	}
	if s := b.status(); *s.Active != 1 || s.Called != 0 || s.AtDoor != 0 {
		t.Fatalf("status is %+v, want one active alone", s)
	}
}

func TestAdmitRefusals(t *testing.T) {
	b := newBench(t)
	accounts := b.joinMany(3)
	b.wantAdmit(usher.NewAccountID(), usher.CodeNotInQueue)
	b.wantAdmit(accounts[0], usher.CodeNotYourTurn)
	_, err := b.rooms.Admit(b.ctx, event+1, accounts[0])
	wantCode(t, err, usher.CodeNotFound)

	b.setCap(2)
	b.setPhase(usher.QueueOpen)
	b.call()
	b.wantAdmit(accounts[2], usher.CodeNotYourTurn)
	b.admit(accounts[0])
	b.setPhase(usher.QueuePaused)
	b.wantAdmit(accounts[1], usher.CodeNotYourTurn)
	b.admit(accounts[0])
	b.setPhase(usher.QueueOpen)
	b.admit(accounts[1])
	b.setPhase(usher.QueueClosed)
	b.wantAdmit(accounts[2], usher.CodeQueueClosed)
	// Who is inside finishes after the doors have closed.
	b.admit(accounts[0])
}

func TestCapIsNeverExceeded(t *testing.T) {
	const people, places = 500, 120
	b := newBench(t)
	other := b.another()
	accounts := b.openTo(people)
	b.setCap(places)
	var in atomic.Int64
	var wg sync.WaitGroup
	for i, a := range accounts {
		for _, p := range []*bench{b, other} {
			if i%5 != 0 && p == other {
				continue
			}
			wg.Go(func() {
				_, err := p.rooms.Admit(p.ctx, event, a)
				switch usher.CodeOf(err) {
				case "":
					in.Add(1)
				case usher.CodeShopFull:
				default:
					t.Errorf("admit: %v", err)
				}
			})
		}
	}
	wg.Wait()
	live := scan[int](b, b.shard(), `SELECT count(*) FROM shopper_session WHERE ended_at IS NULL`)
	if live != places || in.Load() < places {
		t.Fatalf("%d live sessions of at most %d, %d answers let somebody in", live, places, in.Load())
	}
	if s := b.status(); s.AtDoor+s.Called+*s.Active != people {
		t.Fatalf("status is %+v: %d people were called", s, people)
	}
}

func TestShopFullKeepsTheTurn(t *testing.T) {
	b := newBench(t)
	accounts := b.openTo(3)
	b.setCap(1)
	first := b.admit(accounts[0])
	for range 5 {
		b.wantAdmit(accounts[1], usher.CodeShopFull)
		b.passOpenTime(40 * time.Second)
	}
	// The one who kept coming back is still called; the one who did not has lapsed.
	b.wantStatus(accounts[1], waitingroom.PlaceCalled)
	b.wantAdmit(accounts[2], usher.CodeTurnLapsed)
	must(t, b.rooms.EndSession(b.ctx, accounts[0], first.Session))
	b.admit(accounts[1])
}

func TestCallsStayUnderTheCap(t *testing.T) {
	b := newBench(t)
	accounts := b.joinMany(30)
	b.setCap(10)
	b.setPhase(usher.QueueOpen)
	for range 3 {
		b.call()
	}
	if s := b.status(); s.Serving != 10 {
		t.Fatalf("%d were called, want 10", s.Serving)
	}
	var first waitingroom.Admission
	for i, a := range accounts[:6] {
		if ad := b.admit(a); i == 0 {
			first = ad
		}
	}
	b.call()
	if s := b.status(); s.Serving != 10 || s.Called != 4 || *s.Active != 6 {
		t.Fatalf("status is %+v, want 10 called: 4 outstanding, 6 active", s)
	}
	must(t, b.rooms.EndSession(b.ctx, accounts[0], first.Session))
	b.call()
	if s := b.status(); s.Serving != 11 {
		t.Fatalf("%d were called after a slot became free, want 11", s.Serving)
	}
	// Four who do not come free their places; a fifth was called since.
	b.passOpenTime(2 * time.Minute)
	b.call()
	if s := b.status(); s.Serving != 16 || s.Called != 5 {
		t.Fatalf("status is %+v, want 5 more called", s)
	}
}

func TestRate(t *testing.T) {
	b := newBench(t)
	b.joinMany(20)
	b.setCap(1000)
	must(t, b.rooms.SetRate(b.ctx, event, 0.5))
	b.setPhase(usher.QueueOpen)
	// Each tick makes up for at most one second, so half a person.
	for range 7 {
		b.call()
	}
	if got := b.status().Serving; got != 3 {
		t.Fatalf("7 seconds at 0.5 a second called %d, want 3", got)
	}
	must(t, b.rooms.SetRate(b.ctx, event, 0))
	for range 3 {
		b.call()
	}
	if got := b.status().Serving; got != 3 {
		t.Fatalf("rate 0 called %d", got-3)
	}
}

// TestPauseStopsTheTurnClock: what passes while nobody can be admitted makes
// nobody's turn lapse.
func TestPauseStopsTheTurnClock(t *testing.T) {
	b := newBench(t)
	a := b.openTo(1)[0]
	b.setPhase(usher.QueuePaused)
	before := b.me(a).ClaimWithin
	for range 200 {
		b.call()
	}
	if after := b.me(a).ClaimWithin; after != before {
		t.Fatalf("the turn ran from %s to %s while paused", before, after)
	}
	b.setPhase(usher.QueueOpen)
	b.admit(a)
}

func TestCrashDuringAdmission(t *testing.T) {
	for _, point := range []string{"waitingroom.after_claim", "waitingroom.after_session"} {
		t.Run(point, func(t *testing.T) {
			b := newBench(t)
			a := b.openTo(1)[0]
			disarm := fault.Arm(point, 1, fault.Fail)
			_, err := b.rooms.Admit(b.ctx, event, a)
			passes := fault.Passes(point)
			disarm()
			if err == nil || passes != 1 {
				t.Fatalf("the point was not reached: %v, %d passes", err, passes)
			}
			// Until the room is told, the turn is counted, so nobody else is called for it.
			b.joinMany(1)
			b.call()
			if s := b.status(); s.Serving != 1 || s.AtDoor != 1 {
				t.Fatalf("status is %+v, want one at the door", s)
			}
			first := b.admit(a)
			if n := scan[int](b, b.shard(), `SELECT count(*) FROM shopper_session`); n != 1 {
				t.Fatalf("%d sessions", n)
			}
			if s := b.status(); s.AtDoor != 0 || *s.Active != 1 {
				t.Fatalf("status is %+v, want one active", s)
			}
			b.wantStatus(a, waitingroom.PlaceAdmitted)
			must(t, b.rooms.EndSession(b.ctx, a, first.Session))
			b.wantAdmit(a, usher.CodeSessionEnded)
		})
	}
}

// TestCrashBeforeTheRoomKnew covers people who never come back, or come back late.
func TestCrashBeforeTheRoomKnew(t *testing.T) {
	b := newBench(t)
	accounts := b.openTo(3)
	disarm := fault.Arm("waitingroom.after_session", 0, fault.Fail)
	for _, a := range accounts {
		if _, err := b.rooms.Admit(b.ctx, event, a); err == nil {
			t.Fatal("the point was not reached")
		}
	}
	disarm()
	b.passOpenTime(2 * time.Minute)
	// Too late for the turn, but the session lives: it is theirs, and joining
	// again gives no second place.
	b.admit(accounts[0])
	if k := b.join(accounts[1]); !k.Replayed || k.Turn != 1 {
		t.Fatalf("joined again beside a live session: %+v", k)
	}
	// A session that ended before the room heard of it used the turn up.
	b.passShopTime(time.Hour)
	b.wantAdmit(accounts[2], usher.CodeSessionEnded)
	if k := b.join(accounts[2]); k.Turn != 2 {
		t.Fatalf("no new place after the session: %+v", k)
	}
}

// TestSessionOverBeforeTheRoomKnew: the room learns late that the turn was used.
func TestSessionOverBeforeTheRoomKnew(t *testing.T) {
	b := newBench(t)
	a := b.openTo(1)[0]
	disarm := fault.Arm("waitingroom.after_session", 1, fault.Fail)
	_, err := b.rooms.Admit(b.ctx, event, a)
	disarm()
	if err == nil {
		t.Fatal("the point was not reached")
	}
	b.passShopTime(time.Hour)
	b.wantAdmit(a, usher.CodeSessionEnded)
	if s := b.status(); s.AtDoor != 0 || *s.Active != 0 {
		t.Fatalf("status is %+v, want nobody", s)
	}
	if k := b.join(a); k.Turn != 2 {
		t.Fatalf("rejoined as %+v", k)
	}
}

// TestLeaveOvertakesAdmission: who leaves while being admitted is out.
func TestLeaveOvertakesAdmission(t *testing.T) {
	b := newBench(t)
	a := b.openTo(1)[0]
	disarm := fault.Arm("waitingroom.after_session", 1, func(ctx context.Context) error {
		return b.rooms.Leave(ctx, event, a)
	})
	b.wantAdmit(a, usher.CodeNotInQueue)
	disarm()
	if s := b.status(); *s.Active != 0 || s.AtDoor != 0 {
		t.Fatalf("status is %+v, want nobody", s)
	}
}

func TestLostCommitAnswers(t *testing.T) {
	b := newBench(t)
	disarm := fault.Arm("pg.after_commit", 1, fault.Fail)
	a := usher.NewAccountID()
	b.join(a)
	disarm()
	b.closeBucket()
	b.setCap(1)
	b.setPhase(usher.QueueOpen)
	b.call()
	for pass := 1; pass <= 3; pass++ {
		disarm := fault.Arm("pg.after_commit", pass, fault.Fail)
		b.admit(a)
		disarm()
	}
	if n := scan[int](b, b.homes.Room, `SELECT count(*) FROM queue_entry`); n != 1 {
		t.Errorf("%d places", n)
	}
	if n := scan[int](b, b.shard(), `SELECT count(*) FROM shopper_session`); n != 1 {
		t.Errorf("%d sessions", n)
	}
	if n := scan[int](b, b.homes.Room, `SELECT claimed FROM queue_call`); n != 1 {
		t.Errorf("claimed %d times", n)
	}
}

// TestTwoLeadersCallOnce lets two processes tick at once: the capacity that both
// measured is given away once.
func TestTwoLeadersCallOnce(t *testing.T) {
	b := newBench(t)
	other := b.another()
	b.joinMany(40)
	b.setCap(10)
	b.setPhase(usher.QueueOpen)
	for range 5 {
		b.exec(b.homes.Room, `UPDATE queue_state SET ticked_at = ticked_at - interval '1 second', leader = ''`)
		var wg sync.WaitGroup
		for _, p := range []*bench{b, other} {
			wg.Go(func() {
				if err := p.rooms.Tick(p.ctx, event); err != nil {
					t.Errorf("tick: %v", err)
				}
			})
		}
		wg.Wait()
	}
	if got := b.status().Serving; got != 10 {
		t.Fatalf("%d were called with a cap of 10", got)
	}
}

func TestAdvance(t *testing.T) {
	for _, c := range []struct {
		name                   string
		serving, next, people  int64
		gaps                   []int64
		wantAfter, wantSkipped int64
	}{
		{"nobody waits", 5, 5, 3, nil, 5, 0},
		{"no capacity", 5, 9, 0, nil, 5, 0},
		{"negative capacity", 5, 9, -2, []int64{5}, 5, 0},
		{"some", 5, 9, 3, nil, 8, 0},
		{"all", 5, 9, 30, nil, 9, 0},
		{"over gaps", 5, 12, 3, []int64{5, 7, 8}, 11, 3},
		{"trailing gap stays", 5, 9, 2, []int64{7}, 7, 0},
		{"only gaps", 5, 7, 1, []int64{5, 6}, 7, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			after, skipped := waitingroom.Advance(c.serving, c.next, c.people, c.gaps)
			if after != c.wantAfter || skipped != c.wantSkipped {
				t.Fatalf("advanced to %d over %d gaps, want %d over %d", after, skipped, c.wantAfter, c.wantSkipped)
			}
		})
	}
}
