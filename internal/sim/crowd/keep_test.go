package crowd

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines is a log that can be waited for.
type lines struct {
	slog.Handler
	seen chan map[string]any
}

func newLines() *lines {
	return &lines{Handler: slog.DiscardHandler, seen: make(chan map[string]any, 10_000)}
}

func (*lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	line := map[string]any{"msg": r.Message}
	r.Attrs(func(a slog.Attr) bool {
		line[a.Key] = a.Value.Any()
		return true
	})
	l.seen <- line
	return nil
}

// keep keeps a crowd about until the log says what is waited for, and returns the
// last figures.
func keep(t *testing.T, f *fakeSeller, leave float64, enough func(line map[string]any) bool) map[string]any {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	log := newLines()
	var wg sync.WaitGroup
	wg.Go(func() {
		Keep(ctx, KeepConfig{
			URL: f.start(), AdminToken: "usk_x", People: 20, Speed: 2000, Leave: leave, Log: slog.New(log), every: 20 * time.Millisecond,
		})
		close(log.seen)
	})
	var last map[string]any
	reached := false
	for line := range log.seen {
		if line["msg"] == "crowd" {
			last = line
		}
		if !reached && enough(line) {
			reached = true
			stop()
		}
	}
	wg.Wait()
	if !reached {
		t.Fatalf("it never came: %v", last)
	}
	return last
}

// People come and go, buy what is meant for them in every house that is on sale,
// and stop there.
func TestKeep(t *testing.T) {
	f := newFakeSeller(t, "")
	last := keep(t, f, 0.5, func(line map[string]any) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return line["msg"] == "crowd" && len(f.taken) >= 30 && f.left[[2]string{"evt_2", "lawn"}] <= 40 && f.left[[2]string{"evt_3", "lawn"}] <= 40
	})
	if last["people"] != int64(20) || last["failed"] != int64(0) || last["server_errors"] != int64(0) || last["with_tickets"] == int64(0) || last["waiting"] != int64(0) {
		t.Errorf("the last line is %v", last)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := map[string]int{}
	for seat := range f.taken {
		taken[seat[0]]++
	}
	// Twenty people may ask at one moment, for four places each.
	for event, n := range taken {
		if n > 40 || event == "evt_4" {
			t.Errorf("%d seats of %s are taken", n, event)
		}
	}
	if f.left[[2]string{"evt_2", "pit"}] == 12 && f.left[[2]string{"evt_2", "lawn"}] == 60 {
		t.Error("nobody went to the meadow")
	}
	if len(f.used) != 0 {
		t.Errorf("%d tickets were used: the doors are closed", len(f.used))
	}
}

// What is left for others is not drawn, wished for or visited.
func TestLeave(t *testing.T) {
	v := &venue{seats: 8, states: []byte{0x00, 0x55}, sections: [][]row{{{ids: []string{"1", "2", "3", "4", "5", "6", "7", "8"}}}},
		standing: []tier{{ID: "lawn", Kind: kindStanding, spare: noLimit}, {ID: "pit", Kind: kindStanding, spare: noLimit}}}
	rng := rand.New(rand.NewPCG(1, 1))
	v.leaveSeats(0.25)
	v.leaveStanding("lawn", 10, 30, 1.0/3)
	v.leaveStanding("pit", 11, 30, 1.0/3)
	if n := v.spare(); n != 2+0+1 {
		t.Errorf("4 of 8 seats are free, 10 and 11 of 30 places: %d may be taken", n)
	}
	if items := v.pickTiers(rng, 1); len(items) != 1 || items[0].TierID != "pit" {
		t.Errorf("picked %v", items)
	}
	v.took(&holdBody{Items: []item{{"pit", 1}}})
	for range 50 {
		if taste, _, ok := drawTaste(rng, v); !ok || taste == tasteStanding || taste == tasteBoth {
			t.Fatalf("drawn: %v %v", taste, ok)
		}
	}
	v.leaveSeats(0.5)
	if _, _, ok := drawTaste(rng, v); ok || v.spare() != 0 {
		t.Errorf("%d places may be taken of a house that is left alone", v.spare())
	}
	if k := (&keeper{venues: map[string]*venue{"evt_1": v}}); k.choose(rng) != nil {
		t.Error("somebody goes to a house where nothing is meant for them")
	}
}

// A refusal turns people away and is no fault: an operator may pause a sale. A
// broken promise is one. Both are told.
func TestKeepGoes(t *testing.T) {
	refusing := newFakeSeller(t, "")
	refusing.refuses = "sale_paused"
	var told string
	last := keep(t, refusing, 0, func(line map[string]any) bool {
		if err, ok := line["last"].(error); ok {
			told = err.Error()
		}
		return line["msg"] == "crowd" && line["turned_away"].(int64) > 30 && told != ""
	})
	if last["failed"] != int64(0) || last["places_bought"] != int64(0) || !strings.Contains(told, "sale_paused") {
		t.Errorf("%v, and %q", last, told)
	}
	breaking := newFakeSeller(t, grantsOthers)
	last = keep(t, breaking, 0, func(line map[string]any) bool { return line["msg"] == "crowd" && line["failed"].(int64) > 0 })
	if last["turned_away"] != int64(0) {
		t.Errorf("%v", last)
	}
}

// At the end of the demo nothing is a fault.
func TestNoteAtTheEnd(t *testing.T) {
	k := &keeper{outcomes: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k.note(ctx, failed, errors.New("away"))
	if len(k.outcomes) != 0 || k.last != nil {
		t.Errorf("%v %v", k.outcomes, k.last)
	}
}

// A room is slower than the crowd, and moves.
func TestRoomRate(t *testing.T) {
	if r := RoomRate(1, 1); r != 0.2 {
		t.Errorf("one person: %v", r)
	}
	if slow, fast := RoomRate(180, 1), RoomRate(180, 10); slow != 1 || fast != 10 {
		t.Errorf("180 people: %v a second, %v at ten times the speed", slow, fast)
	}
}
