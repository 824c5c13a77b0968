package waitingroom_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"usher"
	"usher/internal/waitingroom"
)

// expiresIn is how long the session lives by the database clock.
func (b *bench) expiresIn(s usher.SessionID) time.Duration {
	b.t.Helper()
	seconds := scan[float64](b, b.shard(), `
SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 FROM shopper_session WHERE session_id = $1`, s)
	return time.Duration(seconds * float64(time.Second))
}

func (b *bench) wantLife(s usher.SessionID, want time.Duration) {
	b.t.Helper()
	// Deadlines come from a measure of the database time, a round trip off at most,
	// and those of holds are rounded up by a twentieth of the idle window, 45 s.
	if got := b.expiresIn(s); got > want+46*time.Second || got < want-time.Minute {
		b.t.Fatalf("session lives %s, want about %s", got, want)
	}
}

func TestIdleSessionFreesItsSlot(t *testing.T) {
	b := newBench(t)
	accounts := b.openTo(2)
	b.setCap(1)
	first := b.admit(accounts[0])
	b.wantAdmit(accounts[1], usher.CodeShopFull)
	b.passShopTime(16 * time.Minute)
	// No sweeper has run: an expired session does not count.
	b.admit(accounts[1])
	reason := scan[string](b, b.shard(), `SELECT end_reason FROM shopper_session WHERE session_id = $1`, first.Session)
	if reason != "idle" {
		t.Fatalf("ended as %q, want idle", reason)
	}
	b.wantAdmit(accounts[0], usher.CodeSessionEnded)
	if k := b.join(accounts[0]); k.Turn != 2 {
		t.Fatalf("rejoined as %+v", k)
	}
}

func TestSweepEndsIdleSessions(t *testing.T) {
	b := newBench(t)
	accounts := b.openTo(3)
	for _, a := range accounts {
		b.admit(a)
	}
	b.setPhase(usher.QueueClosed)
	b.passShopTime(16 * time.Minute)
	active, err := b.rooms.Sweep(b.ctx, event)
	must(t, err)
	if n := scan[int](b, b.shard(), `SELECT count(*) FROM shopper_session WHERE ended_at IS NULL`); n != 0 || active != 0 {
		t.Fatalf("%d sessions live, %d counted", n, active)
	}
}

func TestTouchExtendsTheSession(t *testing.T) {
	b := newBench(t)
	a := b.openTo(1)[0]
	s := b.admit(a).Session
	b.passShopTime(10 * time.Minute)
	b.wantLife(s, 5*time.Minute)
	b.rooms.Touch(s, time.Time{})
	b.rooms.Flush(b.ctx)
	b.wantLife(s, 15*time.Minute)

	// A second touch within the pause costs nothing ...
	b.passShopTime(10 * time.Minute)
	b.rooms.Touch(s, time.Time{})
	b.rooms.Flush(b.ctx)
	b.wantLife(s, 5*time.Minute)
	// ... unless it brings a hold's deadline, which counts beyond the idle window.
	b.rooms.Touch(s, b.keys.Now().Add(40*time.Minute))
	b.rooms.Flush(b.ctx)
	b.wantLife(s, 40*time.Minute)
	b.rooms.Touch(s, b.keys.Now().Add(20*time.Minute))
	b.rooms.Flush(b.ctx)
	b.wantLife(s, 40*time.Minute)
	// Renewing the token does not shorten it.
	if ad := b.admit(a); ad.SessionExpiresAt.Before(b.keys.Now().Add(39 * time.Minute)) {
		t.Fatalf("the answer says that the session ends at %s", ad.SessionExpiresAt)
	}
	b.wantLife(s, 40*time.Minute)
}

func TestTouchRevivesNothing(t *testing.T) {
	b := newBench(t)
	accounts := b.openTo(2)
	ended, expired := b.admit(accounts[0]).Session, b.admit(accounts[1]).Session
	must(t, b.rooms.EndSession(b.ctx, accounts[0], ended))
	b.passShopTime(16 * time.Minute)
	for _, s := range []usher.SessionID{ended, expired} {
		b.rooms.Touch(s, b.keys.Now().Add(time.Hour))
	}
	b.rooms.Flush(b.ctx)
	if s := b.status(); *s.Active != 0 {
		t.Fatalf("%d sessions came back to life", *s.Active)
	}
}

func TestLeaveEndsTheSession(t *testing.T) {
	b := newBench(t)
	a := b.openTo(1)[0]
	b.admit(a)
	must(t, b.rooms.Leave(b.ctx, event, a))
	if s := b.status(); *s.Active != 0 {
		t.Fatal("the session outlived the leaving")
	}
	b.wantAdmit(a, usher.CodeNotInQueue)
	if k := b.join(a); k.Turn != 2 {
		t.Fatalf("rejoined as %+v", k)
	}
}

// TestEndingASessionWhileOthersEnter races ends, touches, sweeps and admissions:
// the cap holds throughout, and nothing deadlocks.
func TestEndingASessionWhileOthersEnter(t *testing.T) {
	const people, places = 120, 20
	b := newBench(t)
	accounts := b.openTo(people)
	b.setCap(places)
	var wg sync.WaitGroup
	for _, a := range accounts {
		wg.Go(func() {
			ad, err := b.rooms.Admit(b.ctx, event, a)
			if usher.CodeOf(err) == usher.CodeShopFull {
				return
			}
			if err != nil {
				t.Errorf("admit: %v", err)
				return
			}
			b.rooms.Touch(ad.Session, b.keys.Now().Add(time.Hour))
			b.rooms.Flush(b.ctx)
			if err := b.rooms.EndSession(b.ctx, a, ad.Session); err != nil {
				t.Errorf("end session: %v", err)
			}
			if _, err := b.rooms.Sweep(b.ctx, event); err != nil {
				t.Errorf("sweep: %v", err)
			}
		})
	}
	wg.Wait()
	// The most that lived at once, from the record.
	peak := scan[int](b, b.shard(), `
SELECT max(n) FROM (SELECT count(*) AS n FROM shopper_session a
    JOIN shopper_session b ON b.started_at <= a.started_at AND (b.ended_at IS NULL OR b.ended_at > a.started_at)
    GROUP BY a.session_id) p`)
	if peak > places {
		t.Fatalf("%d sessions lived at once, cap %d", peak, places)
	}
}

// TestRun lets the real loops serve an on-sale from join to admission.
func TestRun(t *testing.T) {
	b := newBench(t)
	b.setCap(5)
	ctx, stop := context.WithCancel(b.ctx)
	done := make(chan struct{})
	go func() {
		b.rooms.Run(ctx)
		close(done)
	}()
	b.setPhase(usher.QueueOpen)
	a := usher.NewAccountID()
	b.join(a)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for b.me(a).Status != waitingroom.PlaceCalled {
		<-tick.C
	}
	ad := b.admit(a)
	for b.now()["serving"] != 1.0 {
		<-tick.C
	}
	b.passShopTime(14 * time.Minute)
	b.rooms.Touch(ad.Session, b.keys.Now().Add(time.Hour))
	for b.expiresIn(ad.Session) < 50*time.Minute {
		<-tick.C
	}
	// What was touched last is written, and leads are given up, on the way out.
	b.passShopTime(30 * time.Minute)
	b.rooms.Touch(ad.Session, b.keys.Now().Add(2*time.Hour))
	stop()
	<-done
	b.wantLife(ad.Session, 2*time.Hour)
	if s := b.status(); s.Led {
		t.Fatal("the room is still led")
	}
	for name, want := range map[string]float64{"usher_queue_joins_total": 1, "usher_queue_admits_total": 1, "usher_queue_called_total": 1} {
		if got := b.metric(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func (b *bench) metric(name string) float64 {
	b.t.Helper()
	families, err := b.reg.Gather()
	must(b.t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return -1
}
