package seatmap

import (
	"testing"
	"time"

	"usher"
)

// Seats are counted by tier as they are shown: what lapsed is free again, what is
// being paid for is held.
func TestTally(t *testing.T) {
	bubble(t, HubConfig{}, func(t *testing.T, h *Hub, home *fakeHome) {
		tier, other := home.chart.Seat(0).Tier, 0
		for i, s := range home.chart.Seats() {
			if s.Tier != tier {
				other = i
				break
			}
		}
		count := func() map[usher.TierID]Tally {
			t.Helper()
			got, err := h.Tally(t.Context(), testEvent)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		whole := count()
		home.wakes(usher.SeatSold, 0, 0, 1)
		home.wakes(usher.SeatBlocked, 0, 2)
		home.wakes(usher.SeatPending, time.Hour, 3)
		home.wakes(usher.SeatHeld, time.Minute, other)
		settle(time.Second)
		want := Tally{Available: whole[tier].Available - 4, Held: 1, Sold: 2, Blocked: 1}
		if got := count(); got[tier] != want || got[home.chart.Seat(other).Tier].Held != 1 {
			t.Errorf("got %+v, want %+v of %s", got, want, tier)
		}
		settle(2 * time.Minute)
		total := 0
		for id, n := range count() {
			total += n.Available + n.Held + n.Sold + n.Blocked
			if id != tier && n != whole[id] {
				t.Errorf("%s is %+v after its hold lapsed, was %+v", id, n, whole[id])
			}
		}
		if total != home.chart.Len() {
			t.Errorf("%d seats are counted, the chart has %d", total, home.chart.Len())
		}
	})
}
