package waitingroom_test

import (
	"sync"
	"testing"
	"time"

	"usher"
	"usher/internal/token"
	"usher/internal/waitingroom"
)

// The cases of this file are named after the field reports they come from.

// TestP02LapsedPlacesDoNotWait: sizes leave lapsed places out, and a lapsed
// person is told so and can join again.
func TestP02LapsedPlacesDoNotWait(t *testing.T) {
	b := newBench(t)
	accounts := b.joinMany(6)
	b.setCap(4)
	b.setPhase(usher.QueueOpen)
	b.call()
	b.admit(accounts[0])
	b.admit(accounts[1])
	b.passOpenTime(time.Minute)
	b.call()
	b.wantStatus(accounts[4], waitingroom.PlaceCalled)
	b.wantStatus(accounts[5], waitingroom.PlaceCalled)
	if w := b.status().Waiting; w != 0 {
		t.Errorf("an operator sees %d waiting, want 0", w)
	}
	must(t, b.rooms.Refresh(b.ctx))
	if w := b.now()["waiting"]; w != 0.0 {
		t.Errorf("the public sees %v waiting, want 0", w)
	}
	for _, a := range accounts[2:4] {
		b.wantStatus(a, waitingroom.PlaceLapsed)
		b.wantAdmit(a, usher.CodeTurnLapsed)
		if k := b.join(a); k.Turn != 2 || k.Replayed || k.Status != waitingroom.PlaceWaiting {
			t.Fatalf("rejoined as %+v, want a new place at the end", k)
		}
	}
	b.closeBucket()
	if k := b.me(accounts[2]); *k.Number < 6 {
		t.Fatalf("rejoined with number %d, want one at the end", *k.Number)
	}
	if n := scan[int](b, b.homes.Room, `SELECT count(*) FROM queue_entry WHERE lapsed_at IS NOT NULL`); n != 2 {
		t.Fatalf("%d lapsed places in the record, want 2", n)
	}
	b.setCap(100)
	b.call()
	b.admit(accounts[2])
}

// TestP03ReloadsChangeNothing: reloading, more tabs and an offline while keep one
// place each and everybody's order.
func TestP03ReloadsChangeNothing(t *testing.T) {
	b := newBench(t)
	accounts := b.joinMany(4)
	check := func() {
		t.Helper()
		seen := map[int64]bool{}
		for i, a := range accounts {
			n := *b.me(a).Number
			if n != int64(i) || seen[n] {
				t.Fatalf("person %d has number %d", i, n)
			}
			seen[n] = true
		}
	}
	for range 20 {
		b.join(accounts[1])
		check()
	}
	var wg sync.WaitGroup
	other := b.another()
	for i := range 5 {
		p := []*bench{b, other}[i%2]
		wg.Go(func() {
			if _, err := p.rooms.Join(p.ctx, event, accounts[2], waitingroom.Risk{}); err != nil {
				t.Errorf("join: %v", err)
			}
		})
	}
	wg.Wait()
	check()
	if n := scan[int](b, b.homes.Room, `SELECT count(*) FROM queue_entry`); n != 4 {
		t.Fatalf("%d places, want 4", n)
	}
}

// TestP04ResetStartsAnew: tickets, tokens and sessions of the earlier round are
// refused by name, and the count starts anew.
func TestP04ResetStartsAnew(t *testing.T) {
	b := newBench(t)
	accounts := b.openTo(5)
	tickets := map[usher.AccountID]string{}
	for _, a := range accounts {
		tickets[a] = b.join(a).Token
	}
	old := b.admit(accounts[0])
	round, err := b.rooms.ResetRound(b.ctx, event, "rehearsal is over")
	must(t, err)
	if round != 2 {
		t.Fatalf("round %d, want 2", round)
	}
	if live := *b.status().Active; live != 0 {
		t.Fatalf("%d sessions of the old round live", live)
	}
	b.setPhase(usher.QueuePrequeue)
	b.setPhase(usher.QueueOpen)
	for _, a := range accounts {
		_, err := b.rooms.Place(b.ctx, event, a, tickets[a])
		wantCode(t, err, usher.CodeOlderRound)
		_, err = b.rooms.Me(b.ctx, event, a)
		wantCode(t, err, usher.CodeNotInQueue)
		b.wantAdmit(a, usher.CodeNotInQueue)
	}
	_, err = b.rooms.VerifyAdmission(old.Token, event, accounts[0])
	wantCode(t, err, usher.CodeOlderRound)

	again := b.joinMany(3)
	b.checkNumbers(2, 3)
	b.call()
	if ad := b.admit(again[0]); ad.Session == old.Session {
		t.Fatal("the old session came back")
	}
	rounds, err := b.rooms.Rounds(b.ctx, event)
	must(t, err)
	if len(rounds) != 2 || rounds[0].EndedAt == nil || rounds[1].Reason != "rehearsal is over" || rounds[0].Hash == rounds[1].Hash {
		t.Fatalf("rounds are %+v", rounds)
	}
	b.checkNumbers(1, 5)
}

// TestResetOvertakesAdmission: an admission that had its turn claimed before the
// reset creates no session after it.
func TestResetOvertakesAdmission(t *testing.T) {
	b := newBench(t)
	a := b.openTo(1)[0]
	gate, err := b.shard().Begin(b.ctx)
	must(t, err)
	_, err = gate.Exec(b.ctx, `SELECT FROM session_gate WHERE event_id = $1 FOR UPDATE`, event)
	must(t, err)
	done := make(chan error)
	go func() {
		_, err := b.rooms.Admit(b.ctx, event, a)
		done <- err
	}()
	// The claim is durable when the call waits at the gate.
	for scan[int](b, b.homes.Room, `SELECT count(*) FROM queue_entry WHERE claimed_at IS NOT NULL`) == 0 {
	}
	_, err = gate.Exec(b.ctx, `UPDATE session_gate SET round = 2, settings_version = settings_version + 1`)
	must(t, err)
	must(t, gate.Commit(b.ctx))
	wantCode(t, <-done, usher.CodeOlderRound)
	if n := scan[int](b, b.shard(), `SELECT count(*) FROM shopper_session`); n != 0 {
		t.Fatal("a session of the old round was created")
	}
}

// TestP05TokenIsBound: a token is good for its own account and event alone, and
// one turn is one session.
func TestP05TokenIsBound(t *testing.T) {
	b := newBench(t)
	accounts := b.openTo(2)
	a, other := accounts[0], accounts[1]
	ad := b.admit(a)
	verify := func(text string, e usher.EventID, who usher.AccountID) error {
		_, err := b.rooms.VerifyAdmission(text, e, who)
		return err
	}
	wantCode(t, verify("", event, a), usher.CodeAdmissionRequired)
	wantCode(t, verify(ad.Token, event, other), usher.CodeAdmissionInvalid)
	wantCode(t, verify(ad.Token, event+1, a), usher.CodeAdmissionInvalid)
	wantCode(t, verify(tamper(ad.Token), event, a), usher.CodeAdmissionInvalid)
	wantCode(t, verify(b.join(a).Token, event, a), usher.CodeAdmissionInvalid)
	wantCode(t, verify("none."+ad.Token, event, a), usher.CodeAdmissionInvalid)
	// A session of another event cannot ride on this one's token.
	now := b.keys.Now()
	foreign := b.rooms.SignAdmission(event, a, usher.NewSessionID(event+1), 1, now, now.Add(time.Minute))
	wantCode(t, verify(foreign, event, a), usher.CodeAdmissionInvalid)
	must(t, verify(ad.Token, event, a))

	// All of one account's requests get the one session.
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if again, err := b.rooms.Admit(b.ctx, event, a); err != nil || again.Session != ad.Session {
				t.Errorf("admitted to %s (%v), want %s", again.Session, err, ad.Session)
			}
		})
	}
	wg.Wait()

	// Ended: the hold reads it in its own transaction; a new one needs a new turn.
	wantCode(t, b.rooms.EndSession(b.ctx, other, ad.Session), usher.CodeNotFound)
	must(t, b.rooms.EndSession(b.ctx, a, ad.Session))
	must(t, b.rooms.EndSession(b.ctx, a, ad.Session))
	if n := scan[int](b, b.shard(), `SELECT count(*) FROM shopper_session WHERE ended_at IS NULL`); n != 0 {
		t.Fatalf("%d live sessions after the end", n)
	}
	b.wantAdmit(a, usher.CodeSessionEnded)
	if k := b.join(a); k.Turn != 2 || k.Replayed {
		t.Fatalf("rejoined as %+v, want a new place", k)
	}
}

// TestP06ClocksApart: a fresh token works on a process whose measure of the
// database time is 30 s off either way; the tolerance is the same at both ends.
func TestP06ClocksApart(t *testing.T) {
	b := newBench(t)
	a := usher.NewAccountID()
	session := usher.NewSessionID(event)
	now := b.keys.Now()
	const life = waitingroom.AdmissionLife
	for _, c := range []struct {
		name   string
		issued time.Duration
		want   usher.Code
	}{
		{"fresh", 0, ""},
		{"issuer 30 s ahead", 30 * time.Second, ""},
		{"issuer 30 s behind", -30 * time.Second, ""},
		{"within tolerance of issue", waitingroom.ClockTolerance - 5*time.Second, ""},
		{"beyond tolerance of issue", waitingroom.ClockTolerance + 5*time.Second, usher.CodeAdmissionInvalid},
		{"within tolerance of expiry", -life - waitingroom.ClockTolerance + 5*time.Second, ""},
		{"beyond tolerance of expiry", -life - waitingroom.ClockTolerance - 5*time.Second, usher.CodeAdmissionExpired},
		{"expired 5 min ago", -life - 5*time.Minute, usher.CodeAdmissionExpired},
	} {
		t.Run(c.name, func(t *testing.T) {
			issued := now.Add(c.issued)
			text := b.rooms.SignAdmission(event, a, session, 1, issued, issued.Add(life))
			_, err := b.rooms.VerifyAdmission(text, event, a)
			wantCode(t, err, c.want)
		})
	}
}

// TestP07KeyRotation: tokens of the old key work until their own expiry, and not
// beyond the overlap; unknown keys and unsigned tokens are refused.
func TestP07KeyRotation(t *testing.T) {
	b := newBench(t)
	accounts := b.openTo(100)
	tokens := b.admitAll(accounts)
	other := b.another()
	must(t, b.keys.Rotate(b.ctx, token.Admission))
	must(t, other.keys.Refresh(b.ctx))
	for _, p := range []*bench{b, other} {
		for a, text := range tokens {
			_, err := p.rooms.VerifyAdmission(text, event, a)
			must(t, err)
		}
	}
	// The new key's time comes. A token begins with the number of its key.
	b.exec(b.homes.Directory, `UPDATE signing_key SET signs_from = signs_from - interval '1 minute' WHERE purpose = 'admission'`)
	must(t, b.keys.Refresh(b.ctx))
	a := accounts[0]
	fresh := b.admit(a).Token
	if fresh[:7] == tokens[a][:7] {
		t.Fatal("the old key still signs")
	}
	b.exec(b.homes.Directory, `
UPDATE signing_key SET retired_at = clock_timestamp() WHERE purpose = 'admission' AND retired_at IS NOT NULL`)
	must(t, b.keys.Refresh(b.ctx))
	_, err := b.rooms.VerifyAdmission(tokens[a], event, a)
	wantCode(t, err, usher.CodeAdmissionInvalid)
	_, err = b.rooms.VerifyAdmission(fresh, event, a)
	must(t, err)
	// The other process has not refreshed: a key it has never heard of.
	must(t, b.keys.Replace(b.ctx, token.Admission))
	_, err = other.rooms.VerifyAdmission(b.admit(a).Token, event, a)
	wantCode(t, err, usher.CodeAdmissionInvalid)
	for _, unsigned := range []string{"AQAAAAA", fresh[:len(fresh)-22], "AQ" + fresh} {
		_, err := b.rooms.VerifyAdmission(unsigned, event, a)
		wantCode(t, err, usher.CodeAdmissionInvalid)
	}
}
