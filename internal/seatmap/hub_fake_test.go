package seatmap

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"usher"
)

// bubble runs a test in fake time with a hub on a fake home.
func bubble(t *testing.T, cfg HubConfig, test func(t *testing.T, h *Hub, home *fakeHome)) {
	t.Helper()
	chart := Club()
	synctest.Test(t, func(t *testing.T) {
		home := newFakeHome(chart)
		h := newHub(cfg, home)
		defer h.Close()
		test(t, h, home)
	})
}

func mustSnapshot(t testing.TB, h *Hub) Encoded {
	t.Helper()
	e, err := h.Snapshot(t.Context(), testEvent)
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	return e
}

func mustSubscribe(t testing.TB, h *Hub, from Position) *Stream {
	t.Helper()
	s, err := h.Subscribe(t.Context(), testEvent, from)
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	return s
}

// drain hands over what is queued at this moment.
func drain(t testing.TB, s *Stream, v *viewer) {
	t.Helper()
	for {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		messages, err := s.Next(ctx)
		if err != nil {
			return
		}
		for _, m := range messages {
			v.take(t, m)
		}
	}
}

// settle lets fake time pass and every goroutine come to rest.
func settle(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// value reads a counter or gauge.
func value(t testing.TB, m prometheus.Metric) float64 {
	t.Helper()
	var d dto.Metric
	if err := m.Write(&d); err != nil {
		t.Fatalf("read metric: %v", err)
	}
	return d.GetCounter().GetValue() + d.GetGauge().GetValue()
}

func TestSnapshotAndFrames(t *testing.T) {
	bubble(t, HubConfig{}, func(t *testing.T, h *Hub, home *fakeHome) {
		home.commit(usher.SeatSold, 0, 1, 2)
		home.commit(usher.SeatBlocked, 0, 3)
		var v viewer
		first := mustSnapshot(t, h)
		s := v.snapshot(t, first)
		if s.EventID != "evt_7" || s.Chart != home.chart.Hash() || s.Seq != 2 || !s.Live || string(v.states) != home.truth() {
			t.Fatalf("got %+v, states %s", s, v.states)
		}
		if d := s.AsOf.Sub(home.now()).Abs(); d > time.Second {
			t.Errorf("asOf is %v from database time", d)
		}
		if again := mustSnapshot(t, h); again.ETag != first.ETag || &again.Body[0] != &first.Body[0] {
			t.Error("the snapshot was encoded twice")
		}
		stream := mustSubscribe(t, h, v.pos)
		defer stream.Close()
		settle(250 * time.Millisecond)
		home.wakes(usher.SeatHeld, time.Minute, 10, 11)
		settle(0)
		home.wakes(usher.SeatPending, time.Minute, 10, 11)
		home.wakes(usher.SeatHeld, time.Minute, 20)
		settle(250 * time.Millisecond)
		drain(t, stream, &v)
		if v.frames != 2 || v.again || v.pos.Seq != 5 || string(v.states) != home.truth() {
			t.Errorf("after %d frames at %v: %s, want %s", v.frames, v.pos, v.states, home.truth())
		}
		if e := mustSnapshot(t, h); e.ETag == first.ETag || e.Seq != 5 {
			t.Errorf("ETag %s at seq %d", e.ETag, e.Seq)
		}
	})
}

// Changes of other processes come by the poll alone.
func TestPollFindsOthersCommits(t *testing.T) {
	bubble(t, HubConfig{}, func(t *testing.T, h *Hub, home *fakeHome) {
		var v viewer
		v.snapshot(t, mustSnapshot(t, h))
		stream := mustSubscribe(t, h, v.pos)
		defer stream.Close()
		for i := range 20 {
			home.commit(usher.SeatSold, 0, i)
			settle(time.Second)
			drain(t, stream, &v)
			if v.pos.Seq != int64(i+1) || v.again {
				t.Fatalf("a second after commit %d the viewer is at %v", i+1, v.pos)
			}
		}
	})
}

// Held seats lapse by time alone: nobody sweeps here. Pending ones do not.
func TestLapses(t *testing.T) {
	bubble(t, HubConfig{}, func(t *testing.T, h *Hub, home *fakeHome) {
		home.commit(usher.SeatHeld, 10*time.Second, 1, 2)
		home.commit(usher.SeatHeld, 20*time.Second, 3)
		home.commit(usher.SeatPending, 10*time.Second, 4)
		home.commit(usher.SeatHeld, -time.Second, 5)
		var v viewer
		first := mustSnapshot(t, h)
		v.snapshot(t, first)
		if string(v.states) != home.truth() || v.states[5] != 'a' {
			t.Fatalf("first picture %s, want %s", v.states, home.truth())
		}
		stream := mustSubscribe(t, h, v.pos)
		defer stream.Close()
		settle(500 * time.Millisecond)
		for range 25 {
			settle(time.Second)
			drain(t, stream, &v)
			if string(v.states) != home.truth() {
				t.Fatalf("at %v: %s, want %s", v.pos, v.states, home.truth())
			}
		}
		if v.states[1] != 'a' || v.states[3] != 'a' || v.states[4] != 'h' || v.frames != 2 || v.pos.Seq != 4 {
			t.Errorf("after %d frames at %v: %s", v.frames, v.pos, v.states)
		}
		if e := mustSnapshot(t, h); e.ETag == first.ETag || e.Seq != first.Seq || e.Lapse <= first.Lapse {
			t.Errorf("lapses moved %s to %s", first.ETag, e.ETag)
		}
	})
}

// A hold that was prolonged, sold or taken again does not lapse by its old deadline.
func TestLapseFollowsTheSeat(t *testing.T) {
	bubble(t, HubConfig{}, func(t *testing.T, h *Hub, home *fakeHome) {
		home.commit(usher.SeatHeld, 5*time.Second, 1, 2, 3, 4)
		mustSnapshot(t, h)
		home.wakes(usher.SeatHeld, time.Minute, 1)
		home.wakes(usher.SeatPending, time.Minute, 2)
		home.wakes(usher.SeatSold, 0, 3)
		settle(10 * time.Second)
		var v viewer
		v.snapshot(t, mustSnapshot(t, h))
		if got, want := string(v.states[1:5]), "hhsa"; got != want || string(v.states) != home.truth() {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Whatever the moment of subscribing, snapshot plus stream is the truth, at the
// first frame already without a hole.
func TestNothingBetweenSnapshotAndStream(t *testing.T) {
	bubble(t, HubConfig{}, func(t *testing.T, h *Hub, home *fakeHome) {
		r := rand.New(rand.NewPCG(1, 2))
		statuses := []usher.SeatStatus{usher.SeatAvailable, usher.SeatHeld, usher.SeatPending, usher.SeatSold}
		change := func() {
			home.wakes(statuses[r.IntN(len(statuses))], time.Duration(r.IntN(3000))*time.Millisecond, r.Perm(100)[:5]...)
		}
		for range 500 {
			var v viewer
			v.snapshot(t, mustSnapshot(t, h))
			for range r.IntN(5) {
				change()
				settle(time.Duration(r.IntN(300)) * time.Millisecond)
			}
			stream := mustSubscribe(t, h, v.pos)
			for range 3 {
				change()
				settle(time.Duration(r.IntN(300)) * time.Millisecond)
				drain(t, stream, &v)
			}
			// Every hold is over by then, so that the truth stands still.
			settle(5 * time.Second)
			drain(t, stream, &v)
			stream.Close()
			if v.again || v.resets > 0 || string(v.states) != home.truth() {
				t.Fatalf("at %v, again %v, %d resets:\n%s\n%s", v.pos, v.again, v.resets, v.states, home.truth())
			}
			if v.pos.Seq != int64(len(home.entries)) {
				t.Fatalf("viewer at %v of %d", v.pos, len(home.entries))
			}
		}
		if home.reads != 1 {
			t.Errorf("the seats were read %d times", home.reads)
		}
	})
}

// Two processes serve one reader: positions compare, older news is ignored.
func TestReaderMovesBetweenProcesses(t *testing.T) {
	chart := Club()
	synctest.Test(t, func(t *testing.T) {
		home := newFakeHome(chart)
		a, b := newHub(HubConfig{}, home), newHub(HubConfig{Poll: 20 * time.Second}, home)
		defer a.Close()
		defer b.Close()
		mustSnapshot(t, b)
		home.commit(usher.SeatHeld, 3*time.Second, 1)
		home.commit(usher.SeatHeld, time.Minute, 2)
		settle(5 * time.Second)
		var v viewer
		v.snapshot(t, mustSnapshot(t, a))
		if v.pos.Seq != 2 || string(v.states) != home.truth() {
			t.Fatalf("first process shows %s at %v", v.states, v.pos)
		}
		// The second process is behind, and catches up when it hears of it.
		stream := mustSubscribe(t, b, v.pos)
		defer stream.Close()
		home.commit(usher.SeatSold, 0, 2)
		settle(40 * time.Second)
		drain(t, stream, &v)
		if v.resets > 0 || v.again || v.pos.Seq != 3 || string(v.states) != home.truth() {
			t.Errorf("at %v after %d resets: %s, want %s", v.pos, v.resets, v.states, home.truth())
		}
		// A position that the ledger never had is from another past.
		lost := mustSubscribe(t, b, Position{Seq: 99, Lapse: v.pos.Lapse})
		defer lost.Close()
		drain(t, lost, &v)
		if v.resets != 1 {
			t.Error("a position from the future was accepted")
		}
	})
}

func TestResume(t *testing.T) {
	bubble(t, HubConfig{}, func(t *testing.T, h *Hub, home *fakeHome) {
		var v viewer
		v.snapshot(t, mustSnapshot(t, h))
		stream := mustSubscribe(t, h, v.pos)
		drain(t, stream, &v)
		stream.Close()
		home.wakes(usher.SeatHeld, 500*time.Millisecond, 50)
		settle(900 * time.Millisecond)
		for i := range 10 {
			home.wakes(usher.SeatSold, 0, i)
			settle(300 * time.Millisecond)
		}
		now := v.pos.Lapse + 5000
		for name, c := range map[string]struct {
			from   Position
			frames int
			resets int
		}{
			// One frame for the hold, one for its lapse, ten for the sales.
			"where it was": {v.pos, 12, 0},
			"half way":     {Position{6, now}, 5, 0},
			"a lapse ago":  {Position{11, v.pos.Lapse}, 11, 0},
			"up to date":   {Position{11, now}, 0, 0},
			"nowhere":      {Position{}, 0, 1},
			"the future":   {Position{12, now}, 0, 1},
		} {
			again := v
			again.states = slices.Clone(v.states)
			s := mustSubscribe(t, h, c.from)
			drain(t, s, &again)
			s.Close()
			if again.frames != c.frames || again.resets != c.resets {
				t.Errorf("%s: %d frames and %d resets, want %d and %d", name, again.frames, again.resets, c.frames, c.resets)
			}
		}
		// A process that begins now knows which lapses a reader may have missed.
		fresh := newHub(HubConfig{}, home)
		defer fresh.Close()
		home.wakes(usher.SeatHeld, time.Millisecond, 60)
		settle(time.Second)
		for name, c := range map[string]struct {
			from   Position
			resets int
		}{"before the lapse": {Position{12, v.pos.Lapse}, 1}, "after it": {Position{12, now}, 0}} {
			var reader viewer
			s := mustSubscribe(t, fresh, c.from)
			drain(t, s, &reader)
			s.Close()
			if reader.resets != c.resets || reader.frames != 0 {
				t.Errorf("%s: %d resets, %d frames from a fresh process", name, reader.resets, reader.frames)
			}
		}
		// More than the ring holds.
		for i := range ringMax {
			home.wakes(usher.SeatSold, 0, i%100)
			settle(300 * time.Millisecond)
		}
		s := mustSubscribe(t, h, v.pos)
		defer s.Close()
		drain(t, s, &v)
		if v.resets != 1 || !v.again {
			t.Errorf("a reader from before the ring got %d resets", v.resets)
		}
	})
}

// A reader that stops reading costs a bounded queue and is told so; the others
// are on time.
func TestSlowReader(t *testing.T) {
	reg := prometheus.NewRegistry()
	bubble(t, HubConfig{Metrics: reg}, func(t *testing.T, h *Hub, home *fakeHome) {
		var fast, slow viewer
		fast.snapshot(t, mustSnapshot(t, h))
		slow.snapshot(t, mustSnapshot(t, h))
		quick, stuck := mustSubscribe(t, h, fast.pos), mustSubscribe(t, h, slow.pos)
		for i := range 5 * queueMax {
			home.wakes([]usher.SeatStatus{usher.SeatSold, usher.SeatAvailable}[i/100%2], 0, i%100)
			settle(250 * time.Millisecond)
			drain(t, quick, &fast)
			if fast.pos.Seq != int64(i+1) {
				t.Fatalf("the other reader is at %v after %d commits", fast.pos, i+1)
			}
			if n := len(stuck.queue); n > queueMax {
				t.Fatalf("%d messages wait", n)
			}
		}
		drain(t, stuck, &slow)
		if slow.resets != 1 || !slow.again || fast.resets != 0 {
			t.Errorf("resets: slow %d, fast %d", slow.resets, fast.resets)
		}
		slow.snapshot(t, mustSnapshot(t, h))
		home.wakes(usher.SeatSold, 0, 99)
		settle(250 * time.Millisecond)
		drain(t, stuck, &slow)
		if slow.again || string(slow.states) != home.truth() {
			t.Error("after its new snapshot the reader does not follow")
		}
		if n := value(t, h.metrics.resetSlow); n != 1 {
			t.Errorf("%v slow resets counted", n)
		}
		if n := value(t, h.metrics.streams); n != 2 {
			t.Errorf("%v streams counted", n)
		}
		quick.Close()
		quick.Close()
		stuck.Close()
		if n := value(t, h.metrics.streams); n != 0 {
			t.Errorf("%v streams counted after the end", n)
		}
	})
}

// A frame that is bigger than half a snapshot becomes a reset.
func TestBigFrameBecomesReset(t *testing.T) {
	chart := Arena()
	synctest.Test(t, func(t *testing.T) {
		home := newFakeHome(chart)
		h := newHub(HubConfig{}, home)
		defer h.Close()
		var v viewer
		v.snapshot(t, mustSnapshot(t, h))
		stream := mustSubscribe(t, h, v.pos)
		defer stream.Close()
		all := make([]int, 5000)
		for i := range all {
			all[i] = i * 10
		}
		home.wakes(usher.SeatSold, 0, all[:100]...)
		settle(time.Second)
		drain(t, stream, &v)
		if v.resets != 0 || v.frames != 1 {
			t.Fatalf("a small change made %d frames, %d resets", v.frames, v.resets)
		}
		home.wakes(usher.SeatSold, 0, all...)
		settle(time.Second)
		drain(t, stream, &v)
		if v.resets != 1 {
			t.Fatalf("a big change made %d resets", v.resets)
		}
		v.snapshot(t, mustSnapshot(t, h))
		home.wakes(usher.SeatHeld, time.Minute, 1)
		settle(time.Second)
		drain(t, stream, &v)
		if v.again || string(v.states) != home.truth() {
			t.Error("after the reset the reader does not follow")
		}
	})
}

func TestFramesKeepTheirDistance(t *testing.T) {
	for _, c := range []struct{ streams, most int }{{2, 21}, {3, 6}} {
		bubble(t, HubConfig{StreamsBusy: 2}, func(t *testing.T, h *Hub, home *fakeHome) {
			var v viewer
			v.snapshot(t, mustSnapshot(t, h))
			var streams []*Stream
			for range c.streams {
				streams = append(streams, mustSubscribe(t, h, v.pos))
			}
			for i := range 500 {
				home.wakes([]usher.SeatStatus{usher.SeatSold, usher.SeatAvailable}[i%2], 0, i%100)
				settle(10 * time.Millisecond)
				drain(t, streams[0], &v)
			}
			settle(time.Second)
			drain(t, streams[0], &v)
			if v.frames < c.most-2 || v.frames > c.most || string(v.states) != home.truth() {
				t.Errorf("%d streams got %d frames in 5 s, want about %d", c.streams, v.frames, c.most)
			}
		})
	}
}

// With the home away the last picture stands and says so; nothing fails.
func TestHomeAway(t *testing.T) {
	bubble(t, HubConfig{}, func(t *testing.T, h *Hub, home *fakeHome) {
		home.commit(usher.SeatHeld, 20*time.Second, 1)
		var v viewer
		before := mustSnapshot(t, h)
		v.snapshot(t, before)
		stream := mustSubscribe(t, h, v.pos)
		defer stream.Close()
		home.set(func() { home.err = errors.New("connection refused") })
		settle(10 * time.Second)
		e := mustSnapshot(t, h)
		drain(t, stream, &v)
		if e.Live || e.ETag == before.ETag || v.live || v.again || e.Seq != 1 {
			t.Errorf("away: live %v, ETag %s, stream says live %v", e.Live, e.ETag, v.live)
		}
		var s viewer
		if asOf := s.snapshot(t, e).AsOf; home.now().Sub(asOf) < 9*time.Second {
			t.Errorf("the picture claims to be of %v ago", home.now().Sub(asOf))
		}
		if n := value(t, h.metrics.away); n != 1 {
			t.Errorf("%v events away", n)
		}
		settle(20 * time.Second)
		drain(t, stream, &v)
		if v.states[1] != 'a' {
			t.Error("a hold did not lapse while the home was away")
		}
		home.set(func() { home.err = nil })
		home.commit(usher.SeatSold, 0, 2)
		settle(time.Second)
		drain(t, stream, &v)
		if !v.live || v.again || string(v.states) != home.truth() || !mustSnapshot(t, h).Live {
			t.Errorf("back: live %v, again %v, %s", v.live, v.again, v.states)
		}
		if home.reads != 1 {
			t.Errorf("seats read %d times", home.reads)
		}
	})
}

func TestNoFirstPicture(t *testing.T) {
	bubble(t, HubConfig{}, func(t *testing.T, h *Hub, home *fakeHome) {
		home.set(func() {
			home.err = &usher.Error{Code: usher.CodeUnavailable, Message: "temporarily unavailable"}
		})
		if _, err := h.Snapshot(t.Context(), testEvent); usher.CodeOf(err) != usher.CodeUnavailable {
			t.Errorf("away: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := h.Snapshot(ctx, testEvent); usher.CodeOf(err) != usher.CodeUnavailable {
			t.Errorf("caller gave up: %v", err)
		}
		home.set(func() { home.err = nil })
		mustSnapshot(t, h)
		home.set(func() { home.err = usher.Errorf(usher.CodeNotFound, "no such event") })
		if _, err := h.Snapshot(t.Context(), testEvent+1); usher.CodeOf(err) != usher.CodeNotFound {
			t.Errorf("no event: %v", err)
		}
		synctest.Wait()
		if n := len(h.followers); n != 1 {
			t.Errorf("%d events are followed", n)
		}
	})
}

// Between getting a follower and asking it, it may have found that there is no
// such event, or the hub may have closed: the answer is that, and not a wait.
func TestFollowerEndedMeanwhile(t *testing.T) {
	for name, want := range map[string]usher.Code{"no event": usher.CodeNotFound, "closed": usher.CodeUnavailable} {
		t.Run(name, func(t *testing.T) {
			bubble(t, HubConfig{}, func(t *testing.T, h *Hub, home *fakeHome) {
				home.set(func() { home.err = usher.Errorf(want, "so it is") })
				f, err := h.follower(testEvent)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if want == usher.CodeUnavailable {
					h.Close()
				}
				if _, err := f.loaded(t.Context()); usher.CodeOf(err) != want {
					t.Errorf("told %v", err)
				}
			})
		})
	}
}

// The picture is read anew, and readers are told, when it cannot simply go on.
func TestReload(t *testing.T) {
	for name, disturb := range map[string]func(*fakeHome){
		"hole": func(f *fakeHome) {
			f.commit(usher.SeatSold, 0, 5)
			f.commit(usher.SeatSold, 0, 6)
			f.set(func() { f.entries[0].Seq, f.entries[1].Seq = 0, 2 })
		},
		"failover": func(f *fakeHome) { f.set(func() { f.epoch++ }) },
		"lost changes": func(f *fakeHome) {
			f.commit(usher.SeatSold, 0, 5)
			settle(time.Second)
			f.set(func() {
				f.entries = nil
				seat := f.seats[f.chart.Seat(5).ID]
				seat.Status = usher.SeatAvailable
				f.seats[seat.ID] = seat
			})
		},
		"clock set back": func(f *fakeHome) {
			f.commit(usher.SeatHeld, time.Second, 5)
			settle(3 * time.Second)
			f.set(func() { f.offset -= time.Hour })
		},
		"far behind": func(f *fakeHome) {
			for range pageMax*pagesMax + 1 {
				f.commit(usher.SeatSold, 0, 5)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, HubConfig{}, func(t *testing.T, h *Hub, home *fakeHome) {
				var v viewer
				v.snapshot(t, mustSnapshot(t, h))
				stream := mustSubscribe(t, h, v.pos)
				defer stream.Close()
				disturb(home)
				settle(5 * time.Second)
				drain(t, stream, &v)
				if v.resets != 1 || !v.again || home.reads != 2 {
					t.Fatalf("%d resets, %d reads", v.resets, home.reads)
				}
				v.snapshot(t, mustSnapshot(t, h))
				home.commit(usher.SeatSold, 0, 8)
				settle(time.Second)
				drain(t, stream, &v)
				if v.again || string(v.states) != home.truth() {
					t.Errorf("afterwards at %v: %s, want %s", v.pos, v.states, home.truth())
				}
			})
		})
	}
}

func TestOutsider(t *testing.T) {
	bubble(t, HubConfig{}, func(t *testing.T, h *Hub, home *fakeHome) {
		tags := map[string]bool{}
		for i := range 60 {
			home.wakes(usher.SeatSold, 0, i)
			settle(500 * time.Millisecond)
			e, err := h.Outsider(t.Context(), testEvent)
			if err != nil {
				t.Fatalf("outsider: %v", err)
			}
			tags[e.ETag] = true
		}
		if len(tags) < 3 || len(tags) > 4 {
			t.Errorf("%d pictures in 30 s, want one per 10 s", len(tags))
		}
	})
}

func TestStreamsMax(t *testing.T) {
	bubble(t, HubConfig{StreamsMax: 2}, func(t *testing.T, h *Hub, home *fakeHome) {
		a, b := mustSubscribe(t, h, Position{}), mustSubscribe(t, h, Position{})
		_, err := h.Subscribe(t.Context(), testEvent, Position{})
		if usher.CodeOf(err) != usher.CodeBusy {
			t.Fatalf("third stream: %v", err)
		}
		a.Close()
		mustSubscribe(t, h, Position{}).Close()
		b.Close()
	})
}

// An event nobody looks at is let go; the next question starts it again.
func TestRest(t *testing.T) {
	bubble(t, HubConfig{}, func(t *testing.T, h *Hub, home *fakeHome) {
		stream := mustSubscribe(t, h, Position{})
		settle(time.Hour)
		if len(h.followers) != 1 {
			t.Fatal("an event with a stream was let go")
		}
		stream.Close()
		settle(6 * time.Minute)
		if len(h.followers) != 0 {
			t.Fatal("an event without readers is still followed")
		}
		mustSnapshot(t, h)
		if home.reads != 2 {
			t.Errorf("seats read %d times", home.reads)
		}
	})
}

func TestCloseEndsStreams(t *testing.T) {
	bubble(t, HubConfig{}, func(t *testing.T, h *Hub, home *fakeHome) {
		var ends []<-chan error
		for range 100 {
			s, end := mustSubscribe(t, h, Position{}), make(chan error, 1)
			ends = append(ends, end)
			go func() {
				for {
					if _, err := s.Next(context.Background()); err != nil {
						end <- err
						return
					}
				}
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		h.Run(ctx)
		for _, end := range ends {
			if err := <-end; !errors.Is(err, io.EOF) {
				t.Fatalf("stream ended with %v", err)
			}
		}
		if _, err := h.Snapshot(t.Context(), testEvent); usher.CodeOf(err) != usher.CodeUnavailable {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestPosition(t *testing.T) {
	for text, want := range map[string]bool{
		"0.0": true, "12.1764547200123": true, "": false, "12": false, "12.": false, "-1.0": false, "1.-1": false,
		"01.1": false, "+1.1": false, "1.1.1": false, " 1.1": false, "99999999999999999999.1": false,
	} {
		p, ok := ParsePosition(text)
		if ok != want || ok && p.String() != text {
			t.Errorf("%q read as %v, %v", text, p, ok)
		}
	}
}

// 50,000 seats, half of them sold at random: the worst picture to compress that
// a real sale makes, and one that is worse still.
func TestSnapshotSize(t *testing.T) {
	chart := Arena()
	r := rand.New(rand.NewPCG(3, 4))
	for name, pick := range map[string]func() usher.SeatStatus{
		"half sold": func() usher.SeatStatus {
			switch n := r.IntN(100); {
			case n < 48:
				return usher.SeatSold
			case n < 56:
				return usher.SeatHeld
			case n < 58:
				return usher.SeatBlocked
			}
			return usher.SeatAvailable
		},
		"noise": func() usher.SeatStatus {
			return []usher.SeatStatus{usher.SeatSold, usher.SeatPending, usher.SeatBlocked, usher.SeatAvailable}[r.IntN(4)]
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			home := newFakeHome(chart)
			for id, s := range home.seats {
				s.Status = pick()
				if at := home.now().Add(time.Minute); s.Status == usher.SeatHeld {
					s.ExpiresAt = &at
				}
				home.seats[id] = s
			}
			h := newHub(HubConfig{}, home)
			defer h.Close()
			var v viewer
			e := mustSnapshot(t, h)
			v.snapshot(t, e)
			if string(v.states) != home.truth() {
				t.Error("the picture is not the truth")
			}
			if len(e.Gzip) > 16<<10 {
				t.Errorf("%s: %d bytes compressed", name, len(e.Gzip))
			}
			t.Logf("%s: %d bytes, %d compressed", name, len(e.Body), len(e.Gzip))
		})
	}
}
