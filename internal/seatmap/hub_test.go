package seatmap

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
	"usher/internal/seatmap/linetest"
)

// hall is a published event in a real database, as two processes see it.
type hall struct {
	shard  *linetest.Line
	ledger *ledger.Ledger
	hub    *Hub // wakes when ledger commits
	other  *Hub // in another process: polls
}

func newHall(t *testing.T, rules func(*usher.Rules), hub HubConfig) *hall {
	t.Helper()
	ctx := t.Context()
	url := pgtest.Database(t)
	h := &hall{shard: linetest.New(t, url)}
	open := func() (*pg.Homes, *ledger.Ledger) {
		homes, err := pg.Open(ctx, pg.Config{DirectoryURL: url, RoomURL: url, ShardURLs: map[pg.ShardNumber]string{1: h.shard.URL()}})
		if err != nil {
			t.Fatalf("open homes: %v", err)
		}
		t.Cleanup(homes.Close)
		return homes, ledger.New(homes, ledger.WithLog(slog.New(slog.DiscardHandler)))
	}
	homes, book := open()
	otherHomes, otherBook := open()
	h.ledger = book
	if _, err := homes.Directory.Exec(ctx, `INSERT INTO event_home (event_id, shard) VALUES ($1, 1)`, testEvent); err != nil {
		t.Fatalf("insert home: %v", err)
	}
	r := usher.DefaultRules("TWD")
	r.Sale, r.AdmissionRequired, r.PurchaseLimit = usher.SaleOpen, false, 100
	if rules != nil {
		rules(&r)
	}
	chart := Club()
	setup := ledger.Setup{Event: testEvent, Rules: r}
	for _, tier := range chart.Tiers() {
		setup.Tiers = append(setup.Tiers, ledger.Tier{ID: tier.ID, Name: tier.Name, Price: usher.Money{AmountMinor: 100, Currency: "TWD"}})
	}
	for _, s := range chart.Seats() {
		setup.Seats = append(setup.Seats, ledger.SeatSetup{ID: s.ID, Tier: s.Tier})
	}
	if err := NewCharts(homes).Copy(ctx, testEvent, chart); err != nil {
		t.Fatalf("copy chart: %v", err)
	}
	if err := h.ledger.SetUp(ctx, setup); err != nil {
		t.Fatalf("set up: %v", err)
	}
	hub.Log = slog.New(slog.DiscardHandler)
	make := func(homes *pg.Homes, book *ledger.Ledger) *Hub {
		cfg := hub
		cfg.Homes, cfg.Ledger, cfg.Charts = homes, book, NewCharts(homes)
		hub := NewHub(cfg)
		t.Cleanup(hub.Close)
		return hub
	}
	h.hub, h.other = make(homes, book), make(otherHomes, otherBook)
	return h
}

// truth reads the seats from the database, as they should be shown.
func (h *hall) truth(t *testing.T) (states string, seq int64) {
	t.Helper()
	snap, err := h.ledger.Seats(context.Background(), testEvent)
	if err != nil {
		t.Fatalf("read seats: %v", err)
	}
	p := newPicture(Club(), snap)
	b := make([]byte, p.chart.Len())
	for i := range b {
		b[i] = "ahsb"[shown(p.packed, i)]
	}
	return string(b), snap.Seq
}

// buy places, releases and lets go of holds at random, for a bounded while.
func (h *hall) buy(t *testing.T, seed uint64, rounds int) {
	r := rand.New(rand.NewPCG(seed, seed))
	account := usher.NewAccountID()
	chart := Club()
	for i := range rounds {
		seats := r.Perm(100)[:1+r.IntN(6)]
		var ids []usher.SeatID
		for _, s := range seats {
			ids = append(ids, chart.Seat(s).ID)
		}
		hold, err := h.ledger.PlaceHold(t.Context(), ledger.PlaceHold{
			Event: testEvent, Account: account, Seats: ids, Key: strings.Repeat("k", i+1),
		})
		switch {
		case usher.CodeOf(err) == usher.CodeSeatsUnavailable, usher.CodeOf(err) == usher.CodeLimitExceeded:
		case err != nil:
			t.Errorf("place hold: %v", err)
			return
		case r.IntN(10) > 0:
			if _, err := h.ledger.ReleaseHold(t.Context(), ledger.ReleaseHold{Hold: hold.ID, Account: account}); err != nil && usher.CodeOf(err) != usher.CodeHoldExpired {
				t.Errorf("release hold: %v", err)
				return
			}
		}
	}
}

// watch follows the event until it has seen seq, taking snapshots from one hub
// and frames from the other.
func (h *hall) watch(t *testing.T, snapshots, frames *Hub, until func() (seq int64, over bool)) *viewer {
	v := &viewer{again: true}
	var stream *Stream
	defer func() {
		if stream != nil {
			stream.Close()
		}
	}()
	for {
		if v.again {
			e, err := snapshots.Snapshot(t.Context(), testEvent)
			if usher.CodeOf(err) == usher.CodeUnavailable {
				continue
			}
			if err != nil {
				t.Errorf("snapshot: %v", err)
				return v
			}
			v.snapshot(t, e)
		}
		if stream == nil {
			var err error
			stream, err = frames.Subscribe(t.Context(), testEvent, v.pos)
			if usher.CodeOf(err) == usher.CodeUnavailable {
				continue
			}
			if err != nil {
				t.Errorf("subscribe: %v", err)
				return v
			}
		}
		if seq, over := until(); over && v.pos.Seq >= seq {
			return v
		}
		// So that a reader with nothing to come looks again whether it is over.
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		messages, err := stream.Next(ctx)
		cancel()
		if err != nil && t.Context().Err() != nil {
			t.Errorf("still at %v: %v", v.pos, err)
			return v
		}
		for _, m := range messages {
			v.take(t, m)
		}
	}
}

// Readers that come at any moment of a busy sale, whichever process they ask,
// end with what the database says.
func TestHubUnderLoad(t *testing.T) {
	h := newHall(t, nil, HubConfig{FrameEvery: 5 * time.Millisecond, Poll: 20 * time.Millisecond})
	var buyers, viewers sync.WaitGroup
	var mu sync.Mutex
	last, over := int64(0), false
	until := func() (int64, bool) {
		mu.Lock()
		defer mu.Unlock()
		return last, over
	}
	for i := range 8 {
		buyers.Go(func() { h.buy(t, uint64(i), 40) })
	}
	hubs := []*Hub{h.hub, h.other}
	seen := make([]*viewer, 40)
	for i := range seen {
		viewers.Go(func() {
			// The first halves of their lives end at random moments.
			r := rand.New(rand.NewPCG(uint64(i), 9))
			for range 5 {
				stop := r.Int64N(120)
				h.watch(t, hubs[r.IntN(2)], hubs[r.IntN(2)], func() (int64, bool) {
					if _, over := until(); over {
						return 0, true
					}
					return stop, true
				})
			}
			seen[i] = h.watch(t, hubs[i%2], hubs[i/2%2], until)
		})
	}
	buyers.Wait()
	want, seq := h.truth(t)
	mu.Lock()
	last, over = seq, true
	mu.Unlock()
	viewers.Wait()
	for i, v := range seen {
		if string(v.states) != want || v.pos.Seq != seq {
			t.Errorf("viewer %d at %v sees\n%s, want at %d\n%s", i, v.pos, v.states, seq, want)
		}
	}
	if seq < 100 {
		t.Errorf("only %d changes: the run proves little", seq)
	}
}

// Real holds lapse on the map by database time, with nothing sweeping.
func TestHubLapsesRealHolds(t *testing.T) {
	h := newHall(t, func(r *usher.Rules) { r.HoldTime, r.PayMargin = time.Second, 0 }, HubConfig{FrameEvery: 5 * time.Millisecond})
	var v viewer
	e, err := h.other.Snapshot(t.Context(), testEvent)
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	v.snapshot(t, e)
	stream, err := h.other.Subscribe(t.Context(), testEvent, v.pos)
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	defer stream.Close()
	seat := Club().Seat(3).ID
	hold, err := h.ledger.PlaceHold(t.Context(), ledger.PlaceHold{Event: testEvent, Account: usher.NewAccountID(), Seats: []usher.SeatID{seat}, Key: "k"})
	if err != nil {
		t.Fatalf("place hold: %v", err)
	}
	held := false
	for v.states[3] != 'a' || !held {
		held = held || v.states[3] == 'h'
		messages, err := stream.Next(t.Context())
		if err != nil {
			t.Fatalf("next: %v", err)
		}
		for _, m := range messages {
			v.take(t, m)
		}
	}
	if v.pos.Seq != 1 || v.pos.Lapse < hold.ExpiresAt.UnixMilli() {
		t.Errorf("lapsed at %v, the deadline was %d", v.pos, hold.ExpiresAt.UnixMilli())
	}
}

// A shard that goes away is said to be away, browsing goes on, and what happened
// meanwhile is there when it comes back.
func TestHubShardAway(t *testing.T) {
	h := newHall(t, nil, HubConfig{FrameEvery: 5 * time.Millisecond, Poll: 20 * time.Millisecond, AwayAfter: 200 * time.Millisecond})
	var v viewer
	e, err := h.hub.Snapshot(t.Context(), testEvent)
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	v.snapshot(t, e)
	stream, err := h.hub.Subscribe(t.Context(), testEvent, v.pos)
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	defer stream.Close()
	until := func(live bool) {
		for v.live != live {
			messages, err := stream.Next(t.Context())
			if err != nil {
				t.Fatalf("next: %v", err)
			}
			for _, m := range messages {
				v.take(t, m)
			}
		}
	}
	h.shard.Cut()
	until(false)
	if e, err = h.hub.Snapshot(t.Context(), testEvent); err != nil || e.Live {
		t.Errorf("while away: live %v, %v", e.Live, err)
	}
	h.shard.Mend()
	until(true)
	if _, err := h.ledger.PlaceHold(t.Context(), ledger.PlaceHold{Event: testEvent, Account: usher.NewAccountID(), Seats: []usher.SeatID{"A1"}, Key: "k"}); err != nil {
		t.Fatalf("place hold: %v", err)
	}
	w := h.watch(t, h.hub, h.other, func() (int64, bool) { return 1, true })
	if want, _ := h.truth(t); string(w.states) != want {
		t.Errorf("afterwards %s, want %s", w.states, want)
	}
}

func TestHubUnpublished(t *testing.T) {
	h := newHall(t, nil, HubConfig{})
	if _, err := h.hub.Snapshot(t.Context(), testEvent+1); usher.CodeOf(err) != usher.CodeNotFound {
		t.Errorf("event without a home: %v", err)
	}
	if c, err := h.hub.Chart(t.Context(), testEvent); err != nil || c.Hash() != Club().Hash() {
		t.Errorf("chart: %v", err)
	}
}

func TestServeSnapshot(t *testing.T) {
	e := Encoded{Body: []byte(`{"a":1}`), ETag: `W/"1.2"`}
	e.Gzip = compress(e.Body, 6)
	for _, c := range []struct {
		name, method, accept, match string
		status                      int
		body                        []byte
	}{
		{"plain", "GET", "", "", 200, e.Body},
		{"gzip", "GET", "br, gzip", "", 200, e.Gzip},
		{"no gzip", "GET", "gzip;q=0", "", 200, e.Body},
		{"known", "GET", "gzip", `"x", W/"1.2"`, 304, nil},
		{"any", "GET", "gzip", `*`, 304, nil},
		{"other", "GET", "gzip", `W/"1.3"`, 200, e.Gzip},
		{"head", "HEAD", "gzip", "", 200, nil},
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		r.Header.Set("Accept-Encoding", c.accept)
		r.Header.Set("If-None-Match", c.match)
		w := httptest.NewRecorder()
		ServeSnapshot(w, r, e)
		if w.Code != c.status || !slices.Equal(w.Body.Bytes(), c.body) || w.Header().Get("ETag") != e.ETag {
			t.Errorf("%s: %d %q %v", c.name, w.Code, w.Body, w.Header())
		}
	}
}
