package waitingroom_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"usher"
	"usher/internal/waitingroom"
)

// checkNumbers proves that the round's numbers are dense and unique, and that
// indexes are dense in every bucket.
func (b *bench) checkNumbers(round, want int) {
	b.t.Helper()
	rows, err := b.homes.Room.Query(b.ctx, `
SELECT e.join_index, b.base, b.size, b.perm_key
FROM queue_entry e JOIN queue_bucket b USING (event_id, round, bucket)
WHERE e.event_id = $1 AND e.round = $2`, event, round)
	must(b.t, err)
	defer rows.Close()
	seen := make([]bool, want)
	n := 0
	for rows.Next() {
		var index, base, size int64
		var key []byte
		must(b.t, rows.Scan(&index, &base, &size, &key))
		number := base + int64(waitingroom.Permute([32]byte(key), uint64(size), uint64(index)))
		if number >= int64(want) || seen[number] {
			b.t.Fatalf("number %d of %d is outside or given twice", number, want)
		}
		seen[number] = true
		n++
	}
	must(b.t, rows.Err())
	if n != want {
		b.t.Fatalf("%d places have numbers, want %d", n, want)
	}
}

func TestJoinsGiveDenseUniqueNumbers(t *testing.T) {
	const people = 5000
	b := newBench(t, func(s *waitingroom.RoomSetup) { s.BucketTime = 100 * time.Millisecond })
	accounts := make([]usher.AccountID, people)
	for i := range accounts {
		accounts[i] = usher.NewAccountID()
	}
	var wg sync.WaitGroup
	for part := range slices.Chunk(accounts, people/250) {
		wg.Go(func() {
			for _, a := range part {
				if _, err := b.rooms.Join(b.ctx, event, a, waitingroom.Risk{}); err != nil {
					t.Errorf("join: %v", err)
				}
			}
		})
	}
	wg.Wait()
	b.closeBucket()
	b.checkNumbers(1, people)
	if s := b.status(); s.Waiting != people || s.Numbered != people {
		t.Fatalf("status is %+v, want %d waiting", s, people)
	}
}

func TestJoinsOfSeveralProcesses(t *testing.T) {
	b := newBench(t)
	other := b.another()
	must(t, other.rooms.Refresh(other.ctx))
	var wg sync.WaitGroup
	for range 100 {
		a := usher.NewAccountID()
		for _, p := range []*bench{b, other, b} {
			wg.Go(func() {
				if _, err := p.rooms.Join(p.ctx, event, a, waitingroom.Risk{}); err != nil {
					t.Errorf("join: %v", err)
				}
			})
		}
	}
	wg.Wait()
	b.closeBucket()
	b.checkNumbers(1, 100)
}

func TestJoinTwiceGivesOnePlace(t *testing.T) {
	b := newBench(t)
	a := usher.NewAccountID()
	var wg sync.WaitGroup
	tickets := make([]waitingroom.Ticket, 50)
	for i := range tickets {
		wg.Go(func() {
			var err error
			if tickets[i], err = b.rooms.Join(b.ctx, event, a, waitingroom.Risk{}); err != nil {
				t.Errorf("join: %v", err)
			}
		})
	}
	wg.Wait()
	fresh := 0
	for _, k := range tickets {
		if k.Token != tickets[0].Token || k.Bucket != tickets[0].Bucket || k.Turn != 1 {
			t.Errorf("place differs: %+v and %+v", k, tickets[0])
		}
		if !k.Replayed {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d joins say that they made the place", fresh)
	}
	if n := scan[int](b, b.homes.Room, `SELECT count(*) FROM queue_entry`); n != 1 {
		t.Errorf("%d entries", n)
	}
}

func TestNumberIsGivenWhenTheBucketCloses(t *testing.T) {
	b := newBench(t, func(s *waitingroom.RoomSetup) { s.BucketTime = time.Hour })
	a := usher.NewAccountID()
	k := b.join(a)
	b.tick()
	if k.Number != nil || b.me(a).Number != nil {
		t.Fatal("a number was given while the bucket was open")
	}
	if n, err := b.rooms.Place(b.ctx, event, a, k.Token); err != nil || n != nil {
		t.Fatalf("place of an open bucket is %v, %v", n, err)
	}
}

func TestNumbersNeverChange(t *testing.T) {
	b := newBench(t)
	accounts := b.joinMany(20)
	numbers := map[usher.AccountID]int64{}
	for _, a := range accounts {
		numbers[a] = *b.me(a).Number
	}
	must(t, b.rooms.Leave(b.ctx, event, accounts[3]))
	b.joinMany(10)
	b.setCap(5)
	b.setPhase(usher.QueueOpen)
	b.call()
	for a, want := range numbers {
		k := b.join(a)
		if a == accounts[3] {
			if k.Turn != 2 {
				t.Fatal("the leaver did not go to the end")
			}
			continue
		}
		if *k.Number != want {
			t.Fatalf("number changed from %d to %d", want, *k.Number)
		}
		n, err := b.rooms.Place(b.ctx, event, a, k.Token)
		if err != nil || *n != want {
			t.Fatalf("ticket says %v (%v), want %d", n, err, want)
		}
	}
}

func TestPlaceRefusesForeignTickets(t *testing.T) {
	b := newBench(t)
	a := usher.NewAccountID()
	k := b.join(a)
	b.closeBucket()
	for name, c := range map[string]struct {
		event   usher.EventID
		account usher.AccountID
		ticket  string
	}{
		"other account": {event, usher.NewAccountID(), k.Token},
		"other event":   {event + 1, a, k.Token},
		"tampered":      {event, a, tamper(k.Token)},
		"empty":         {event, a, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.rooms.Place(b.ctx, c.event, c.account, c.ticket)
			wantCode(t, err, usher.CodeNotInQueue)
		})
	}
}

func TestJoinByPhase(t *testing.T) {
	b := newBench(t)
	a := usher.NewAccountID()
	join := func() error {
		_, err := b.rooms.Join(b.ctx, event, a, waitingroom.Risk{})
		return err
	}
	must(t, join())
	for _, phase := range []usher.QueuePhase{usher.QueueOpen, usher.QueuePaused} {
		b.setPhase(phase)
		a = usher.NewAccountID()
		must(t, join())
	}
	b.setPhase(usher.QueueClosed)
	wantCode(t, join(), usher.CodeQueueClosed)
	_, err := b.rooms.ResetRound(b.ctx, event, "test")
	must(t, err)
	wantCode(t, join(), usher.CodeQueueClosed)
	_, err = b.rooms.Join(b.ctx, event+1, a, waitingroom.Risk{})
	wantCode(t, err, usher.CodeNotFound)
}

func TestJoinStoresRisk(t *testing.T) {
	b := newBench(t)
	a := usher.NewAccountID()
	_, err := b.rooms.Join(b.ctx, event, a, waitingroom.Risk{Score: 40, Signals: []string{"new_account"}})
	must(t, err)
	got := scan[string](b, b.homes.Room, `SELECT risk ->> 'score' || (risk -> 'signals' ->> 0) FROM queue_entry`)
	if got != "40new_account" {
		t.Fatalf("risk is %q", got)
	}
	for _, bad := range []waitingroom.Risk{
		{Score: -1}, {Score: 101}, {Signals: []string{"a\x00b"}}, {Signals: make([]string, 17)},
	} {
		_, err := b.rooms.Join(b.ctx, event, a, bad)
		wantCode(t, err, usher.CodeInvalidRequest)
	}
}

func TestLeave(t *testing.T) {
	b := newBench(t)
	accounts := b.joinMany(5)
	stranger := usher.NewAccountID()
	wantCode(t, b.rooms.Leave(b.ctx, event, stranger), usher.CodeNotInQueue)
	for range 2 {
		must(t, b.rooms.Leave(b.ctx, event, accounts[1]))
	}
	b.wantStatus(accounts[1], waitingroom.PlaceLeft)
	if w := b.status().Waiting; w != 4 {
		t.Fatalf("%d wait, want 4", w)
	}
	b.setCap(3)
	b.setPhase(usher.QueueOpen)
	b.call()
	// The leaver's number is stepped over: three people are called, not two.
	for i, want := range []waitingroom.PlaceStatus{"called", "left", "called", "called", "waiting"} {
		b.wantStatus(accounts[i], want)
	}
	b.wantAdmit(accounts[1], usher.CodeNotInQueue)
	must(t, b.rooms.Leave(b.ctx, event, accounts[2]))
	if s := b.status(); s.Called != 2 || s.Waiting != 1 {
		t.Fatalf("status is %+v, want 2 called and 1 waiting", s)
	}
	b.call()
	b.wantStatus(accounts[4], waitingroom.PlaceCalled)
}

// TestLeaveBeforeTheNumber lets people leave an open bucket, and join it again.
func TestLeaveBeforeTheNumber(t *testing.T) {
	b := newBench(t, func(s *waitingroom.RoomSetup) { s.BucketTime = time.Hour })
	accounts := make([]usher.AccountID, 4)
	for i := range accounts {
		accounts[i] = usher.NewAccountID()
		b.join(accounts[i])
	}
	must(t, b.rooms.Leave(b.ctx, event, accounts[0]))
	must(t, b.rooms.Leave(b.ctx, event, accounts[1]))
	b.join(accounts[1])
	// The hour passes.
	b.exec(b.homes.Room, `UPDATE queue_state SET bucket = bucket - 1`)
	b.exec(b.homes.Room, `UPDATE queue_entry SET bucket = bucket - 1`)
	b.tick()
	b.checkNumbers(1, 5)
	if s := b.status(); s.Waiting != 3 || s.Numbered != 5 {
		t.Fatalf("status is %+v, want 3 of 5 waiting", s)
	}
	b.setCap(5)
	b.setPhase(usher.QueueOpen)
	b.call()
	for _, a := range accounts[1:] {
		b.admit(a)
	}
	if s := b.status(); s.Waiting != 0 || s.Called != 0 || *s.Active != 3 {
		t.Fatalf("status is %+v, want 3 active and nobody waiting", s)
	}
}

func TestRestartLosesNothing(t *testing.T) {
	b := newBench(t)
	accounts := b.joinMany(50)
	b.setCap(10)
	b.setPhase(usher.QueueOpen)
	b.call()
	admitted := b.admit(accounts[0])

	other := b.another()
	for i, a := range accounts {
		k := other.me(a)
		if *k.Number != int64(i) {
			t.Fatalf("number %d became %d", i, *k.Number)
		}
		if again := other.join(a); !again.Replayed || *again.Number != int64(i) {
			t.Fatalf("joining again after a restart gave %+v", again)
		}
	}
	session, err := other.rooms.VerifyAdmission(admitted.Token, event, accounts[0])
	must(t, err)
	if again := other.admit(accounts[0]); again.Session != session || session != admitted.Session {
		t.Fatal("the session is another one after a restart")
	}
	other.admit(accounts[9])
	other.wantAdmit(accounts[10], usher.CodeNotYourTurn)
	if s := other.status(); s.Phase != usher.QueueOpen || s.ActiveMax != 10 || s.Serving != 10 {
		t.Fatalf("settings are %+v after a restart", s)
	}
}
