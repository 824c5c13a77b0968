package waitingroom_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"usher"
	"usher/internal/waitingroom"
)

// now is the document as a phone reads it.
func (b *bench) now() map[string]any {
	b.t.Helper()
	doc, ok := b.rooms.Now(event)
	if !ok {
		b.t.Fatal("no document")
	}
	var m map[string]any
	must(b.t, json.Unmarshal(doc.Body, &m))
	return m
}

func TestNowDocument(t *testing.T) {
	opens := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	b := newBench(t, func(s *waitingroom.RoomSetup) { s.OpensAt = &opens })
	if _, ok := b.rooms.Now(event + 1); ok {
		t.Fatal("an event without a room has a document")
	}
	b.openTo(4)
	must(t, b.rooms.SetMessage(b.ctx, event, "提早開放"))
	b.joinMany(3)
	b.rooms.SetStock(event, usher.StockFew)
	b.rooms.SetStock(event, "plenty")
	must(t, b.rooms.Refresh(b.ctx))
	n := b.now()
	for field, want := range map[string]any{
		"eventId": "evt_7", "round": 1.0, "phase": "open", "policy": "fifo", "serving": 4.0, "numbered": 7.0,
		"rate": 100_000.0, "admitting": true, "waiting": 3.0, "stock": "few", "message": "提早開放",
		"opensAt": "2030-01-02T03:04:05Z",
	} {
		if n[field] != want {
			t.Errorf("%s is %v, want %v", field, n[field], want)
		}
	}
	doc, _ := b.rooms.Now(event)
	if len(doc.Body) > 1024 {
		t.Errorf("the document has %d bytes", len(doc.Body))
	}
	if doc.ETag[0] != '"' || len(doc.ETag) != 18 {
		t.Errorf("ETag is %s", doc.ETag)
	}
	b.setPhase(usher.QueuePaused)
	if n := b.now(); n["admitting"] != false || n["phase"] != "paused" {
		t.Errorf("document of a paused room says %v", n)
	}
	if again, _ := b.rooms.Now(event); again.ETag == doc.ETag {
		t.Error("another document has the same ETag")
	}
}

// TestPace: the nearer the turn, the more often to read; the last row fits all.
func TestPace(t *testing.T) {
	b := newBench(t)
	for _, rate := range []float64{0, 0.5, 20, 500} {
		must(t, b.rooms.SetRate(b.ctx, event, rate))
		rows := b.now()["pace"].([]any)
		ahead, every := -1.0, 0.0
		for i, row := range rows {
			r := row.(map[string]any)
			if r["everySeconds"].(float64) <= every {
				t.Fatalf("rate %v: pace %v does not slow down", rate, rows)
			}
			every = r["everySeconds"].(float64)
			if i == len(rows)-1 {
				if r["ahead"] != nil {
					t.Fatalf("rate %v: the last row of %v does not fit all", rate, rows)
				}
				continue
			}
			if r["ahead"].(float64) <= ahead {
				t.Fatalf("rate %v: pace %v is not ascending", rate, rows)
			}
			ahead = r["ahead"].(float64)
		}
	}
}

func TestPublishedRules(t *testing.T) {
	b := newBench(t)
	rounds, err := b.rooms.Rounds(b.ctx, event)
	must(t, err)
	if len(rounds) != 1 || sha256.Sum256(rounds[0].Rules) != rounds[0].Hash {
		t.Fatal("the hash is not over the published bytes")
	}
	if b.now()["rulesHash"] != hex.EncodeToString(rounds[0].Hash[:]) {
		t.Fatal("the document names other rules")
	}
	var rules waitingroom.Rules
	must(t, json.Unmarshal(rounds[0].Rules, &rules))
	if rules.Policy != waitingroom.PolicyFIFO || rules.ClaimSeconds != 60 || rules.IdleSeconds != 900 || rules.PurchaseLimit != 6 {
		t.Fatalf("rules are %+v", rules)
	}
	seed := scan[[]byte](b, b.homes.Room, `SELECT seed FROM queue_round WHERE event_id = $1`, event)
	if sum := sha256.Sum256(seed); rules.SeedHash != hex.EncodeToString(sum[:]) {
		t.Fatal("the rules do not commit to the seed")
	}
	_, err = b.rooms.Rounds(b.ctx, event+1)
	wantCode(t, err, usher.CodeNotFound)
}

func TestCreateAgain(t *testing.T) {
	b := newBench(t)
	setup := waitingroom.RoomSetup{
		Event: event, PurchaseLimit: 6, RatePerSecond: 1, ActiveMax: 9, BucketTime: time.Millisecond, ClaimWindow: time.Minute,
	}
	// Frozen: the same rules are accepted and leave the operator's settings alone.
	must(t, b.rooms.Create(b.ctx, setup))
	if s := b.status(); s.ActiveMax != 0 || s.RatePerSecond != 100_000 {
		t.Fatalf("settings became %+v", s)
	}
	setup.PurchaseLimit = 4
	wantCode(t, b.rooms.Create(b.ctx, setup), usher.CodeStateConflict)
	// A new round is scheduled: its rules can still change, with settings.
	_, err := b.rooms.ResetRound(b.ctx, event, "new limit")
	must(t, err)
	must(t, b.rooms.Create(b.ctx, setup))
	must(t, b.rooms.Create(b.ctx, setup))
	rounds, err := b.rooms.Rounds(b.ctx, event)
	must(t, err)
	if len(rounds) != 2 || !strings.Contains(string(rounds[1].Rules), `"purchaseLimit":4`) || !strings.Contains(string(rounds[1].Rules), `"round":2`) {
		t.Fatalf("rules are %s", rounds[len(rounds)-1].Rules)
	}
	if n := scan[int](b, b.shard(), `SELECT active_max FROM session_gate`); n != 9 {
		t.Fatalf("the shard's cap is %d, want 9", n)
	}
	setup.Event = event + 1
	wantCode(t, b.rooms.Create(b.ctx, setup), usher.CodeNotFound)
}

func TestSettingsAreChecked(t *testing.T) {
	b := newBench(t)
	for name, change := range map[string]func(*waitingroom.RoomSetup){
		"event":  func(s *waitingroom.RoomSetup) { s.Event = 0 },
		"bucket": func(s *waitingroom.RoomSetup) { s.BucketTime = time.Microsecond },
		"claim":  func(s *waitingroom.RoomSetup) { s.ClaimWindow = 1500 * time.Millisecond },
		"idle":   func(s *waitingroom.RoomSetup) { s.IdleWindow = -time.Second },
		"limit":  func(s *waitingroom.RoomSetup) { s.PurchaseLimit = 0 },
		"rate":   func(s *waitingroom.RoomSetup) { s.RatePerSecond = math.NaN() },
		"cap":    func(s *waitingroom.RoomSetup) { s.ActiveMax = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			s := waitingroom.RoomSetup{Event: event, PurchaseLimit: 6}
			change(&s)
			wantCode(t, b.rooms.Create(b.ctx, s), usher.CodeInvalidRequest)
		})
	}
	wantCode(t, b.rooms.SetRate(b.ctx, event, -1), usher.CodeInvalidRequest)
	wantCode(t, b.rooms.SetCap(b.ctx, event, 1_000_001), usher.CodeInvalidRequest)
	wantCode(t, b.rooms.SetMessage(b.ctx, event, strings.Repeat("x", 501)), usher.CodeInvalidRequest)
	wantCode(t, b.rooms.SetMessage(b.ctx, event, "soon\tnow"), usher.CodeInvalidRequest)
	// Characters are counted, not bytes, and lines are kept.
	long := strings.Repeat("開", 250) + "\n" + strings.Repeat("門", 249)
	must(t, b.rooms.SetMessage(b.ctx, event, long))
	if s := b.status(); s.Message != long {
		t.Fatalf("the message is %q", s.Message)
	}
	must(t, b.rooms.SetMessage(b.ctx, event, ""))
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	must(t, b.rooms.SetOpensAt(b.ctx, event, &at))
	if s := b.status(); s.Message != "" || !s.OpensAt.Equal(at) {
		t.Fatalf("status is %+v", s)
	}
	for _, err := range []error{
		b.rooms.SetRate(b.ctx, event+1, 1), b.rooms.SetCap(b.ctx, event+1, 1), b.rooms.SetMessage(b.ctx, event+1, "x"),
		b.rooms.SetPhase(b.ctx, event+1, usher.QueueOpen), b.rooms.Leave(b.ctx, event+1, usher.NewAccountID()),
	} {
		wantCode(t, err, usher.CodeNotFound)
	}
	_, err := b.rooms.ResetRound(b.ctx, event, "  ")
	wantCode(t, err, usher.CodeInvalidRequest)
	_, err = b.rooms.ResetRound(b.ctx, event+1, "x")
	wantCode(t, err, usher.CodeNotFound)
	_, err = b.rooms.Status(b.ctx, event+1)
	wantCode(t, err, usher.CodeNotFound)
}

// TestPhasesFollowTheGraph tries every move.
func TestPhasesFollowTheGraph(t *testing.T) {
	b := newBench(t)
	phases := []usher.QueuePhase{
		usher.QueueScheduled, usher.QueuePrequeue, usher.QueueOpen, usher.QueuePaused, usher.QueueClosed,
	}
	for _, from := range phases {
		for _, to := range phases {
			b.exec(b.homes.Room, `UPDATE queue_state SET phase = $2 WHERE event_id = $1`, event, from)
			err := b.rooms.SetPhase(b.ctx, event, to)
			if from == to || usher.CanMove(usher.QueueTransitions, from, to) {
				must(t, err)
				if got := b.status().Phase; got != to {
					t.Fatalf("moved from %s to %s, want %s", from, got, to)
				}
				continue
			}
			wantCode(t, err, usher.CodeStateConflict)
		}
	}
}

// TestCapReachesTheShardLater: a cap set while the shard was away is brought
// there by the leader, and an older one never replaces a newer one.
func TestCapReachesTheShardLater(t *testing.T) {
	b := newBench(t)
	b.setPhase(usher.QueueOpen)
	b.setCap(5)
	b.exec(b.shard(), `UPDATE session_gate SET active_max = 1, settings_version = settings_version - 1`)
	b.call()
	cap := func() int { return scan[int](b, b.shard(), `SELECT active_max FROM session_gate`) }
	if cap() != 5 {
		t.Fatalf("the shard's cap is %d, want 5", cap())
	}
	b.exec(b.shard(), `UPDATE session_gate SET active_max = 7, settings_version = settings_version + 1`)
	b.call()
	if cap() != 7 {
		t.Fatalf("an older setting replaced a newer one: %d", cap())
	}
	// A lost gate is made anew.
	b.exec(b.shard(), `DELETE FROM session_gate`)
	b.call()
	if cap() != 5 {
		t.Fatalf("the shard's cap is %d, want 5", cap())
	}
}
