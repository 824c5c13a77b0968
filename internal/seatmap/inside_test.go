package seatmap

import (
	"strconv"
	"strings"
	"testing"

	"usher"
)

// The chart that everybody looks at stays in memory, however many others come by.
func TestChartInUseIsKept(t *testing.T) {
	s := NewCharts(nil)
	s.keep(&Chart{hash: "hot"})
	for i := range 3 * chartsCached {
		s.keep(&Chart{hash: strconv.Itoa(i)})
		if s.cached("hot") == nil {
			t.Fatalf("gone after %d others", i+1)
		}
	}
	if s.cached("0") != nil {
		t.Error("nothing was dropped")
	}
	if len(s.byHash) != chartsCached || len(s.order) != chartsCached {
		t.Errorf("%d charts, %d in order", len(s.byHash), len(s.order))
	}
}

// A wish that no hall of this chart could grant is refused as such, whatever is free.
func TestWishIsOfThisChart(t *testing.T) {
	c := Club()
	for _, w := range []Wish{{}, {Tier: TierClubFront}, {Section: c.rows[0].Section}} {
		if err := c.checkWish(w); err != nil {
			t.Errorf("%+v: %v", w, err)
		}
	}
	for word, w := range map[string]Wish{"fornt": {Tier: "fornt"}, "Balcony": {Tier: TierClubFront, Section: "Balcony"}} {
		err := c.checkWish(w)
		if usher.CodeOf(err) != usher.CodeInvalidRequest || !strings.Contains(err.Error(), word) {
			t.Errorf("%+v: %v", w, err)
		}
	}
}
