package seatmap

import (
	"context"

	"usher"
)

// Tally is how many seats of a tier stand how. Held counts those that are being
// paid for, too.
type Tally struct{ Available, Held, Sold, Blocked int }

// Tally counts the event's seats by tier, as the picture shows them: no SQL runs
// for it once the event is followed. It fails as Snapshot does; an event without a
// chart has no tally and fails with CodeNotFound.
func (h *Hub) Tally(ctx context.Context, event usher.EventID) (map[usher.TierID]Tally, error) {
	_, v, err := h.loaded(ctx, event)
	if err != nil {
		return nil, err
	}
	return v.tally(), nil
}

func (v *view) tally() map[usher.TierID]Tally {
	counts := map[usher.TierID]*[4]int{}
	var of *[4]int
	var tier usher.TierID
	for i, seat := range v.chart.Seats() {
		if of == nil || seat.Tier != tier {
			tier = seat.Tier
			if of = counts[tier]; of == nil {
				of = &[4]int{}
				counts[tier] = of
			}
		}
		of[shown(v.packed, i)]++
	}
	out := make(map[usher.TierID]Tally, len(counts))
	for tier, n := range counts {
		out[tier] = Tally{Available: n[shownAvailable], Held: n[shownHeld], Sold: n[shownSold], Blocked: n[shownBlocked]}
	}
	return out
}
