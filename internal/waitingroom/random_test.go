package waitingroom_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"usher"
	"usher/internal/waitingroom"
)

// place is one row of the record, with its number worked out.
type place struct {
	account            usher.AccountID
	turn               int
	number             int64
	claimed, left, old bool
}

// record reads every place of the round.
func (b *bench) record() []place {
	b.t.Helper()
	rows, err := b.homes.Room.Query(b.ctx, `
SELECT e.account_id, e.turn, e.join_index, e.claimed_at IS NOT NULL, e.left_at IS NOT NULL, b.base, b.size, b.perm_key,
    EXISTS (SELECT FROM queue_entry n WHERE n.account_id = e.account_id AND n.turn > e.turn), e.number
FROM queue_entry e LEFT JOIN queue_bucket b USING (event_id, round, bucket)`)
	must(b.t, err)
	defer rows.Close()
	var out []place
	for rows.Next() {
		var (
			p                  place
			index              int64
			base, size, stored *int64
			key                []byte
		)
		must(b.t, rows.Scan(&p.account, &p.turn, &index, &p.claimed, &p.left, &base, &size, &key, &p.old, &stored))
		p.number = -1
		if base != nil {
			p.number = *base + int64(waitingroom.Permute([32]byte(key), uint64(*size), uint64(index)))
		}
		if stored != nil && *stored != p.number {
			b.t.Fatalf("number %d is stored for a place that has %d", *stored, p.number)
		}
		out = append(out, p)
	}
	must(b.t, rows.Err())
	return out
}

// checkCounters recounts from the record what the room keeps count of.
func (b *bench) checkCounters(capacity int64) {
	b.t.Helper()
	s := b.status()
	places := b.record()
	numbers := map[int64]bool{}
	waiting := int64(0)
	for _, p := range places {
		if p.number >= 0 && numbers[p.number] {
			b.t.Fatalf("number %d was given twice", p.number)
		}
		numbers[p.number] = true
		if called := p.number >= 0 && p.number < s.Serving; !p.left && !called {
			waiting++
			if p.old {
				b.t.Fatalf("an account has two places that wait: %+v", p)
			}
		}
	}
	if s.Waiting != waiting {
		b.t.Fatalf("the room counts %d waiting, the record %d", s.Waiting, waiting)
	}
	if sum := s.Called + s.AtDoor + *s.Active; sum > capacity {
		b.t.Fatalf("%d called, %d at the door and %d active exceed the cap of %d", s.Called, s.AtDoor, *s.Active, capacity)
	}
	rows, err := b.homes.Room.Query(b.ctx, `SELECT first_number, after_number, claimed, absent FROM queue_call`)
	must(b.t, err)
	defer rows.Close()
	for rows.Next() {
		var first, after, claimed, absent int64
		must(b.t, rows.Scan(&first, &after, &claimed, &absent))
		for _, p := range places {
			switch {
			case p.number < first || p.number >= after:
			case p.claimed:
				claimed--
			case p.left:
				absent--
			}
		}
		if claimed != 0 || absent != 0 {
			b.t.Fatalf("call %d to %d counts %d claimed and %d absent too many", first, after, claimed, absent)
		}
	}
	must(b.t, rows.Err())
}

// TestRandomDay lets a few people do whatever the room offers, in random order,
// and recounts everything after each step.
func TestRandomDay(t *testing.T) {
	const steps, people, capacity = 250, 12, 4
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	b := newBench(t)
	b.setCap(capacity)
	b.setPhase(usher.QueueOpen)
	accounts := make([]usher.AccountID, people)
	for i := range accounts {
		accounts[i] = usher.NewAccountID()
	}
	sessions := map[usher.AccountID]usher.SessionID{}
	allowed := map[usher.Code]bool{
		"": true, usher.CodeNotInQueue: true, usher.CodeNotYourTurn: true, usher.CodeTurnLapsed: true,
		usher.CodeShopFull: true, usher.CodeSessionEnded: true,
	}
	for range steps {
		a := accounts[rng.IntN(people)]
		var err error
		switch rng.IntN(12) {
		case 0, 1, 2:
			_, err = b.rooms.Join(b.ctx, event, a, waitingroom.Risk{})
		case 3:
			err = b.rooms.Leave(b.ctx, event, a)
		case 4, 5, 6:
			var ad waitingroom.Admission
			if ad, err = b.rooms.Admit(b.ctx, event, a); err == nil {
				sessions[a] = ad.Session
			}
		case 7:
			if s, ok := sessions[a]; ok {
				err = b.rooms.EndSession(b.ctx, a, s)
			}
		case 8:
			b.passOpenTime(time.Duration(rng.IntN(40)) * time.Second)
		case 9:
			b.passShopTime(time.Duration(rng.IntN(8)) * time.Minute)
		default:
			b.call()
		}
		if !allowed[usher.CodeOf(err)] {
			t.Fatalf("step failed: %v", err)
		}
		b.checkCounters(capacity)
	}
	if s := b.status(); s.Serving == 0 || len(sessions) == 0 {
		t.Fatal("nobody was called: the day proved nothing")
	}
}
