package seatmap

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"usher"
	"usher/internal/ledger"
)

const testEvent = usher.EventID(7)

// fakeHome is an event's home whose every answer the test decides.
type fakeHome struct {
	chart *Chart

	mu      sync.Mutex
	seats   map[usher.SeatID]ledger.SeatState
	entries []ledger.Entry
	base    int64 // seq before the first entry
	epoch   int64
	offset  time.Duration // of the database clock from this machine's
	err     error
	wake    chan struct{}
	reads   int
}

func newFakeHome(chart *Chart) *fakeHome {
	f := &fakeHome{chart: chart, seats: map[usher.SeatID]ledger.SeatState{}, epoch: 1, offset: 42 * time.Minute, wake: make(chan struct{}, 1)}
	for _, s := range chart.Seats() {
		f.seats[s.ID] = ledger.SeatState{ID: s.ID, Tier: s.Tier, Status: usher.SeatAvailable}
	}
	return f
}

func (f *fakeHome) now() time.Time { return time.Now().Add(f.offset) }

func (f *fakeHome) Chart(context.Context, usher.EventID) (*Chart, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.chart, f.err
}

func (f *fakeHome) Mark(context.Context, usher.EventID) (mark, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return mark{f.epoch, f.base + int64(len(f.entries)), f.now()}, f.err
}

func (f *fakeHome) Seats(_ context.Context, event usher.EventID) (ledger.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	s := ledger.Snapshot{Event: event, Seq: f.base + int64(len(f.entries)), Now: f.now()}
	for _, seat := range f.seats {
		s.Seats = append(s.Seats, seat)
	}
	return s, f.err
}

func (f *fakeHome) Changes(_ context.Context, _ usher.EventID, after int64, limit int) ([]ledger.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	var out []ledger.Entry
	for _, e := range f.entries {
		if e.Seq > after && len(out) < limit {
			out = append(out, e)
		}
	}
	return out, nil
}

func (f *fakeHome) Watch(usher.EventID) (<-chan struct{}, func()) { return f.wake, func() {} }

// commit makes one entry that moves the seats; held ones get the given time.
func (f *fakeHome) commit(to usher.SeatStatus, hold time.Duration, seats ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := ledger.Entry{Event: testEvent, Seq: f.base + int64(len(f.entries)) + 1, At: f.now()}
	for _, i := range seats {
		id := f.chart.Seat(i).ID
		s := f.seats[id]
		c := ledger.SeatChange{Seat: id, From: s.Status, To: to, Version: s.Version + 1}
		if to == usher.SeatHeld || to == usher.SeatPending {
			at := f.now().Add(hold)
			c.ExpiresAt = &at
		}
		s.Status, s.Version, s.ExpiresAt = to, c.Version, c.ExpiresAt
		f.seats[id] = s
		e.Payload.Seats = append(e.Payload.Seats, c)
	}
	f.entries = append(f.entries, e)
}

// wakes commits as this process does: the hub is woken.
func (f *fakeHome) wakes(to usher.SeatStatus, hold time.Duration, seats ...int) {
	f.commit(to, hold, seats...)
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *fakeHome) set(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
}

// truth is what the home says of each seat now, as it should be shown.
func (f *fakeHome) truth() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := make([]byte, 0, f.chart.Len())
	for _, seat := range f.chart.Seats() {
		s := f.seats[seat.ID]
		c := byte('?')
		switch s.Status {
		case usher.SeatAvailable:
			c = 'a'
		case usher.SeatHeld:
			if c = 'h'; !s.ExpiresAt.After(f.now()) {
				c = 'a'
			}
		case usher.SeatPending:
			c = 'h'
		case usher.SeatSold:
			c = 's'
		case usher.SeatBlocked:
			c = 'b'
		}
		b = append(b, c)
	}
	return string(b)
}

// viewer follows docs/seat-map.md as a browser has to.
type viewer struct {
	pos    Position
	states []byte // "ahsb" per seat
	again  bool   // a new snapshot is due
	need   Position
	kept   []wireFrame // that came while it is
	live   bool
	frames int
	resets int
	beats  int
}

type wireSnapshot struct {
	EventID, Chart, States string
	Count                  int
	Seq, Lapse             int64
	AsOf                   time.Time
	Live                   bool
}

func (v *viewer) snapshot(t testing.TB, e Encoded) wireSnapshot {
	t.Helper()
	var s wireSnapshot
	if err := json.Unmarshal(e.Body, &s); err != nil {
		t.Fatalf("read snapshot: %v", err)
	}
	packed, err := base64.StdEncoding.DecodeString(s.States)
	if err != nil {
		t.Fatalf("read states: %v", err)
	}
	v.states = make([]byte, s.Count)
	for i := range v.states {
		v.states[i] = "ahsb"[packed[i>>2]>>(6-2*(i&3))&3]
	}
	v.pos, v.live = Position{s.Seq, s.Lapse}, s.Live
	v.again = s.Seq < v.need.Seq || s.Lapse < v.need.Lapse
	for len(v.kept) > 0 && !v.again {
		if v.again = v.hole(v.kept[0]); !v.again {
			v.apply(v.kept[0])
			v.kept = v.kept[1:]
		}
	}
	if !v.again {
		v.need = Position{}
	}
	return s
}

type wireFrame struct {
	Seq, From, To, LapseFrom, Lapse int64
	Live                            bool
	Changes                         [][2]int
}

// take handles one SSE message by the written rule.
func (v *viewer) take(t testing.TB, wire []byte) {
	t.Helper()
	var event, data, id string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(wire), "\n\n"), "\n") {
		key, value, _ := strings.Cut(line, ": ")
		switch key {
		case "event":
			event = value
		case "data":
			data = value
		case "id":
			id = value
		case "retry":
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	var f wireFrame
	if data != "" {
		if err := json.Unmarshal([]byte(data), &f); err != nil {
			t.Fatalf("read %s %s: %v", event, data, err)
		}
		v.live = f.Live
	}
	switch event {
	case "beat":
		v.beats++
	case "reset":
		v.again, v.resets, v.kept, v.need = true, v.resets+1, nil, Position{f.Seq, f.Lapse}
	case "frame":
		v.frames++
		if want := fmt.Sprintf("%d.%d", f.To, f.Lapse); id != want {
			t.Errorf("frame to %s has the id %s", want, id)
		}
		if v.again = v.again || v.hole(f); v.again {
			if v.kept = append(v.kept, f); len(v.kept) > 100 {
				t.Fatal("100 frames wait for a snapshot")
			}
			return
		}
		v.apply(f)
	default:
		t.Fatalf("unknown event in %q", wire)
	}
}

func (v *viewer) old(f wireFrame) bool {
	return f.To < v.pos.Seq || f.To == v.pos.Seq && f.Lapse <= v.pos.Lapse
}

func (v *viewer) hole(f wireFrame) bool {
	return !v.old(f) && (f.From > v.pos.Seq || f.LapseFrom > v.pos.Lapse)
}

func (v *viewer) apply(f wireFrame) {
	if v.old(f) {
		return
	}
	for _, c := range f.Changes {
		v.states[c[0]] = "ahsb"[c[1]]
	}
	v.pos = Position{f.To, f.Lapse}
}
