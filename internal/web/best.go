package web

import (
	"context"
	"fmt"
	"time"

	"usher"
	"usher/internal/ledger"
	"usher/internal/seatmap"
)

// bestRequest asks for the best seats that can be had together.
type bestRequest struct {
	Quantity   int          `json:"quantity" minimum:"1" maximum:"6" doc:"Seats beside each other"`
	TierID     usher.TierID `json:"tierId,omitempty" maxLength:"64" doc:"Of this tier; any by default, better tiers first"`
	Section    string       `json:"section,omitempty" maxLength:"200" doc:"In this section"`
	Accessible bool         `json:"accessible,omitempty" doc:"With a wheelchair place, and its companion's beside it"`
}

// bestSpread is how many of the best groups a try draws its alternatives from:
// the first tries for the very best, later ones keep out of everybody's way.
var bestSpread = []int{ledger.AlternativesMax, 12, 48}

func (b *bestRequest) wish() seatmap.Wish {
	return seatmap.Wish{Quantity: b.Quantity, Tier: b.TierID, Section: b.Section, Accessible: b.Accessible}
}

// meaning is what an idempotency key of such a request stands for.
func (b *bestRequest) meaning() string {
	return fmt.Sprintf("best %d tier=%q section=%q accessible=%v", b.Quantity, string(b.TierID), b.Section, b.Accessible)
}

func (b *bestRequest) check() error {
	if b.TierID != "" {
		if err := usher.CheckText("best.tierId", string(b.TierID), idMax); err != nil {
			return err
		}
	}
	if b.Section != "" {
		return usher.CheckText("best.section", b.Section, 200)
	}
	return nil
}

// placeBest translates the wish into groups on the live picture and lets the
// ledger decide under its locks which can be had; what was taken meanwhile is
// looked for again.
func (s *Server) placeBest(ctx context.Context, c ledger.PlaceHold, b *bestRequest) (ledger.Hold, error) {
	if err := s.shed(c.Event, "best", shedFirst); err != nil {
		return ledger.Hold{}, err
	}
	c.Wish = b.meaning()
	for try, spread := range bestSpread {
		var err error
		if c.Alternatives, err = s.deps.Seats.Best(ctx, c.Event, b.wish(), ledger.AlternativesMax, spread); err != nil {
			return ledger.Hold{}, err
		}
		h, err := s.deps.Ledger.PlaceHold(ctx, c)
		last := try == len(bestSpread)-1
		if usher.CodeOf(err) != usher.CodeSeatsUnavailable || last || len(c.Alternatives) == 0 {
			return h, err
		}
	}
	panic("web: best seats without a try")
}

// suggestionRate bounds how often seats are looked for as a courtesy: in a full
// hall every row is looked at, and a contested seat must not cost a core.
var suggestionRate = Rate{Burst: 50, Every: 20 * time.Millisecond}

// suggest adds seats of the same number and tier that look free to a refusal. It
// is a courtesy: without a picture there is none.
func (s *Server) suggest(ctx context.Context, event usher.EventID, seats []usher.SeatID, err error) error {
	coded, ok := err.(*usher.Error)
	if !ok || coded.Code != usher.CodeSeatsUnavailable || len(seats) == 0 {
		return err
	}
	if s.shed(event, "suggestion", shedFirst) != nil || s.limits.suggestions.allow(event.String()) != nil {
		return err
	}
	chart, chartErr := s.deps.Seats.Chart(ctx, event)
	if chartErr != nil {
		return err
	}
	w := seatmap.Wish{Quantity: len(seats)}
	if n, ok := chart.Ordinal(seats[0]); ok {
		w.Tier = chart.Seat(n).Tier
	}
	groups, bestErr := s.deps.Seats.Best(ctx, event, w, 1, bestSpread[1])
	if bestErr != nil || len(groups) == 0 {
		return err
	}
	with := *coded
	with.Suggestion = groups[0]
	return &with
}
