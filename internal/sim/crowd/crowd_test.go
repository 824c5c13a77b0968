package crowd

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func rehearse(t *testing.T, f *fakeSeller, people int, events ...string) *Report {
	t.Helper()
	rep, err := Run(t.Context(), Config{
		URL: f.start(), AdminToken: "usk_x", Events: events, People: people, Arrive: 100 * time.Millisecond, Seed: 7,
		Patience: 5 * time.Second, Settle: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", rep)
	return rep
}

// People of each kind of event ask for what it sells, and a seller that keeps its
// promises passes.
func TestRehearsal(t *testing.T) {
	f := newFakeSeller(t, "")
	rep := rehearse(t, f, 60)
	if !rep.Pass || len(rep.Failures) > 0 {
		t.Errorf("failures: %v", rep.Failures)
	}
	var names []string
	people, seated, standing := 0, 0, 0
	for _, e := range rep.Events {
		names = append(names, e.Event)
		people += e.People
		seated += e.SoldSeated
		standing += e.SoldStanding
		switch {
		case e.People == 0:
			t.Errorf("nobody went to %s", e.Event)
		case e.Event == "evt_1" && (e.SoldStanding > 0 || e.SoldSeated == 0), e.Event == "evt_2" && (e.SoldSeated > 0 || e.SoldStanding == 0),
			e.Event == "evt_3" && (e.SoldSeated == 0 || e.SoldStanding == 0):
			t.Errorf("%s sold %d seated and %d standing places", e.Event, e.SoldSeated, e.SoldStanding)
		}
	}
	if !slices.Equal(names, []string{"evt_3", "evt_2", "evt_1"}) || rep.Event != "evt_3" || people != 60 {
		t.Errorf("%d people at %v: every event on sale, the largest first", people, names)
	}
	if seated != rep.SoldSeated || standing != rep.SoldStanding || rep.Sold != seated+standing || rep.UnitsSold != rep.Sold || rep.TicketsIssued != rep.Sold {
		t.Errorf("%d seated and %d standing places, the report says %+v", seated, standing, rep)
	}
	checkWants(t, f)
}

// checkWants looks at what people asked for.
func checkWants(t *testing.T, f *fakeSeller) {
	t.Helper()
	seen := map[string]bool{}
	for _, w := range f.wants {
		body, event := w["body"].(map[string]any), w["event"].(string)
		seats, _ := body["seatIds"].([]any)
		items, _ := body["items"].([]any)
		places := len(seats)
		for _, i := range items {
			places += int(i.(map[string]any)["quantity"].(float64))
		}
		if best, ok := body["best"].(map[string]any); ok {
			places += int(best["quantity"].(float64))
			seen[event+" best"] = true
			if seats != nil || items != nil {
				t.Errorf("best is asked for with more: %v", body)
			}
		}
		if places < 1 || places > 4 || event == "evt_3" && places > 3 {
			t.Errorf("%d places are asked for at %s: %v", places, event, body)
		}
		if seats != nil && items != nil {
			seen[event+" both"] = true
		}
		if len(items) == 2 {
			seen[event+" two tiers"] = true
		}
	}
	for _, want := range []string{"evt_3 both", "evt_3 best", "evt_2 two tiers"} {
		if !seen[want] {
			t.Errorf("nobody asked for %s: %v", want, seen)
		}
	}
}

// An event may be named, on sale or not; one that is not there cannot be rehearsed.
func TestNamedEvents(t *testing.T) {
	f := newFakeSeller(t, "")
	rep := rehearse(t, f, 5, "evt_2")
	if len(rep.Events) != 1 || rep.Event != "evt_2" || rep.Events[0].People != 5 {
		t.Errorf("rehearsed %+v", rep.Events)
	}
	_, err := Run(t.Context(), Config{URL: f.start(), People: 1, Events: []string{"evt_9"}})
	if err == nil || !strings.Contains(err.Error(), "no event evt_9") {
		t.Errorf("an unknown event: %v", err)
	}
	for i := range f.events {
		f.events[i].Sale = "closed"
	}
	if _, err := Run(t.Context(), Config{URL: f.start(), People: 1}); err == nil {
		t.Error("nothing is on sale, and nobody says so")
	}
}

// Each broken promise is found, whatever else goes well.
func TestBrokenPromises(t *testing.T) {
	for breaks, says := range map[string]string{
		sellsTwice: "was sold twice", oversells: "were sold", losesTicket: "tickets after", otherTier: "a ticket too many for backstage",
		sameCode: "the same code", opensTwice: "a second scan was answered", grantsOthers: "asked for",
	} {
		t.Run(breaks, func(t *testing.T) {
			t.Parallel()
			rep := rehearse(t, newFakeSeller(t, breaks), 80)
			if rep.Pass || !slices.ContainsFunc(rep.Failures, func(s string) bool { return strings.Contains(s, says) }) {
				t.Errorf("a seller that %s: pass %v, failures %q", breaks, rep.Pass, rep.Failures)
			}
		})
	}
}

// A small house is not flooded; who finds no room goes to the largest.
func TestSpread(t *testing.T) {
	count := func(people int, places ...int) []int {
		n := make([]int, len(places))
		for _, e := range spread(rand.New(rand.NewPCG(1, 1)), people, places) {
			n[e]++
		}
		return n
	}
	for _, tc := range []struct {
		people int
		places []int
		want   []int
	}{
		{300, []int{50_000, 22_000, 500, 100}, []int{84, 83, 83, 50}},
		{7, []int{100}, []int{7}},
		{50, []int{20, 10}, []int{45, 5}},
		{0, []int{10}, []int{0}},
	} {
		if got := count(tc.people, tc.places...); !slices.Equal(got, tc.want) {
			t.Errorf("%d people over %v: %v, want %v", tc.people, tc.places, got, tc.want)
		}
	}
}
