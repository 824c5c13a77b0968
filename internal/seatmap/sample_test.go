package seatmap_test

import (
	"math"
	"testing"

	"usher"
	"usher/internal/seatmap"
)

// Sample charts are data that people bookmark: a new hash must be a decision.
func TestSamplesAreDeterministic(t *testing.T) {
	for _, c := range []struct {
		chart *seatmap.Chart
		again *seatmap.Chart
		seats int
		tiers int
	}{
		{seatmap.Arena(), seatmap.Arena(), seatmap.ArenaSeats, 5},
		{seatmap.Club(), seatmap.Club(), 100, 2},
	} {
		if c.chart.Len() != c.seats || len(c.chart.Tiers()) != c.tiers || c.chart.Hash() != c.again.Hash() {
			t.Errorf("%s has %d seats, %d tiers, hashes %s and %s", c.chart.Name(), c.chart.Len(), len(c.chart.Tiers()), c.chart.Hash(), c.again.Hash())
		}
		count := map[usher.TierID]int{}
		accessible, companions := 0, 0
		for _, s := range c.chart.Seats() {
			count[s.Tier]++
			if s.Accessible {
				accessible++
			}
			if s.Companion {
				companions++
			}
		}
		if len(count) != c.tiers || accessible == 0 || accessible != companions {
			t.Errorf("%s: seats by tier %v, %d accessible, %d companions", c.chart.Name(), count, accessible, companions)
		}
	}
}

// A companion place is beside its wheelchair place, and no two seats touch.
func TestSampleGeometry(t *testing.T) {
	for _, c := range []*seatmap.Chart{seatmap.Arena(), seatmap.Club()} {
		grid := map[[2]int][]seatmap.Seat{}
		for i, s := range c.Seats() {
			if s.Companion && !(c.RowOf(i) == c.RowOf(i-1) && c.Seat(i-1).Accessible) {
				t.Fatalf("%s: companion place %s is beside %+v", c.Name(), s.ID, c.Seat(i-1))
			}
			cell := [2]int{int(math.Floor(s.X / 10)), int(math.Floor(s.Y / 10))}
			for dx := -1; dx <= 1; dx++ {
				for dy := -1; dy <= 1; dy++ {
					for _, o := range grid[[2]int{cell[0] + dx, cell[1] + dy}] {
						if d := math.Hypot(o.X-s.X, o.Y-s.Y); d < 8 {
							t.Fatalf("%s: seats %s and %s are %.1f apart", c.Name(), s.ID, o.ID, d)
						}
					}
				}
			}
			grid[cell] = append(grid[cell], s)
		}
	}
}
