package seatmap

import (
	"strconv"
	"testing"
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
