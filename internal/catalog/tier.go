package catalog

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/seatmap"
)

// TierKind says what a tier's places are.
type TierKind string

// The kinds of tiers: seats of the chart, or places without names.
const (
	TierSeated   TierKind = "seated"
	TierStanding TierKind = "standing"
)

// Tier is a price tier of an event.
type Tier struct {
	ID   usher.TierID
	Name string
	// Price has no currency before it is set.
	Price usher.Money
	Kind  TierKind
	// Capacity is the number of places of a standing tier at publication, spread
	// evenly over Buckets; both are 0 for a seated one. The ledger has the capacity
	// in force.
	Capacity int
	Buckets  int
}

// Priced reports whether the tier has a price, which may be 0.
func (t Tier) Priced() bool { return t.Price.Currency != "" }

// Seated reports whether the event has seats; one that has none is pure general
// admission, or a draft at its beginning.
func (e *Event) Seated() bool { return e.Chart != "" }

// Standing returns how many places without seats the event was published with.
func (e *Event) Standing() int {
	n := 0
	for _, t := range e.Tiers {
		n += t.Capacity
	}
	return n
}

// Standing is a tier without seats as a draft is given it.
type Standing struct {
	ID       usher.TierID
	Name     string // 1 to 200 characters of any script
	Capacity int    // 1 to 10,000,000
	Buckets  int    // 1 to 1000, at most Capacity; 0 is 1
}

const (
	standingMax = 50
	// standingAfter is where standing tiers come after those of any chart.
	standingAfter = 1000
)

const (
	sqlDropStanding = `DELETE FROM event_tier WHERE event_id = $1 AND kind = 'standing' AND tier_id <> ALL($2)`

	// A tier that is there keeps its price.
	sqlSetStanding = `
INSERT INTO event_tier (event_id, tier_id, position, name, kind, capacity, buckets) VALUES ($1, $2, $3, $4, 'standing', $5, $6)
ON CONFLICT (event_id, tier_id) DO UPDATE
SET position = excluded.position, name = excluded.name, kind = excluded.kind, capacity = excluded.capacity, buckets = excluded.buckets`
)

// SetStanding gives a draft its tiers without seats, instead of those it has; a
// tier that stays keeps its price. With a chart the event is mixed, without one
// it is pure general admission. It fails with CodeNotFound, CodeInvalidRequest
// (also when the chart has a tier of that id), CodeStateConflict once a
// publication has begun, and CodeUnavailable.
func (c *Catalog) SetStanding(ctx context.Context, id usher.EventID, tiers []Standing) (Event, error) {
	tiers, err := checkStanding(tiers)
	if err != nil {
		return Event{}, err
	}
	e, chart, err := c.withChart(ctx, id)
	if err != nil {
		return Event{}, err
	}
	ids := make([]string, 0, len(tiers))
	for _, t := range tiers {
		if hasTier(chart, t.ID) {
			return Event{}, errClash(t.ID)
		}
		ids = append(ids, string(t.ID))
	}
	err = pg.InTx(ctx, c.homes.Directory, func(tx pgx.Tx) error {
		d, err := lockDraft(ctx, tx, id)
		switch {
		case err != nil:
			return err
		case d.frozen || d.status != StatusDraft:
			return errFrozen()
		case d.chart != e.Chart:
			return errChanged()
		}
		b := &pgx.Batch{}
		b.Queue(sqlDropStanding, id, ids)
		for i, t := range tiers {
			b.Queue(sqlSetStanding, id, t.ID, standingAfter+i, t.Name, t.Capacity, t.Buckets)
		}
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return Event{}, fmt.Errorf("set standing tiers of %s: %w", id, err)
	}
	return c.current(ctx, id)
}

func checkStanding(tiers []Standing) ([]Standing, error) {
	if len(tiers) > standingMax {
		return nil, usher.Errorf(usher.CodeInvalidRequest, "tiers: an event has at most %d standing ones", standingMax)
	}
	seen := map[usher.TierID]bool{}
	out := make([]Standing, 0, len(tiers))
	for i, t := range tiers {
		at := fmt.Sprintf("tiers[%d]", i)
		if t.Buckets == 0 {
			t.Buckets = 1
		}
		if err := usher.CheckText(at+".tierId", string(t.ID), 64); err != nil {
			return nil, err
		}
		if err := checkName(at+".name", t.Name); err != nil {
			return nil, err
		}
		switch {
		case seen[t.ID]:
			return nil, usher.Errorf(usher.CodeInvalidRequest, "%s.tierId: %q is named twice", at, string(t.ID))
		case t.Capacity < 1 || t.Capacity > ledger.CapacityMax:
			return nil, usher.Errorf(usher.CodeInvalidRequest, "%s.capacity must be 1 to %d", at, ledger.CapacityMax)
		case t.Buckets < 1 || t.Buckets > ledger.BucketMax || t.Buckets > t.Capacity:
			return nil, usher.Errorf(usher.CodeInvalidRequest, "%s.buckets must be 1 to %d, and no more than its capacity", at, ledger.BucketMax)
		}
		seen[t.ID] = true
		out = append(out, t)
	}
	return out, nil
}

// withChart returns the event as it is now and its chart, nil if it has none.
func (c *Catalog) withChart(ctx context.Context, id usher.EventID) (Event, *seatmap.Chart, error) {
	e, err := c.current(ctx, id)
	if err != nil || e.Chart == "" {
		return e, nil, err
	}
	chart, err := c.charts.ByHash(ctx, e.Chart)
	return e, chart, err
}

func hasTier(chart *seatmap.Chart, id usher.TierID) bool {
	if chart == nil {
		return false
	}
	for _, t := range chart.Tiers() {
		if t.ID == id {
			return true
		}
	}
	return false
}

const (
	sqlSetSeatedPrice = `
INSERT INTO event_tier (event_id, tier_id, position, name, amount_minor) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (event_id, tier_id) DO UPDATE SET position = excluded.position, name = excluded.name, amount_minor = excluded.amount_minor
WHERE event_tier.kind = 'seated'`

	sqlSetStandingPrice = `UPDATE event_tier SET amount_minor = $3 WHERE event_id = $1 AND tier_id = $2 AND kind = 'standing'`
)

// SetPrices sets the price of every tier that the event has, those of its chart
// and the standing ones, in minor units of the event's currency. While the sale
// runs it makes a new price version: what is held or ordered keeps its price. It
// fails with CodeNotFound, CodeInvalidRequest, CodeStateConflict without a tier,
// while a publication is unfinished or after the event's end, and
// CodeUnavailable.
func (c *Catalog) SetPrices(ctx context.Context, id usher.EventID, prices map[usher.TierID]int64) (Event, error) {
	e, chart, err := c.withChart(ctx, id)
	if err != nil {
		return Event{}, err
	}
	tiers, err := priced(&e, chart, prices)
	if err != nil {
		return Event{}, err
	}
	if e.Status == StatusPublished {
		// The ledger decides what is paid. A crash after this line leaves the old
		// prices on the event page until this is repeated.
		if err := c.ledger.SetPrices(ctx, id, ledgerTiers(tiers)); err != nil {
			return Event{}, err
		}
	}
	err = pg.InTx(ctx, c.homes.Directory, func(tx pgx.Tx) error {
		d, err := lockDraft(ctx, tx, id)
		switch {
		case err != nil:
			return err
		case d.chart != e.Chart || d.status != e.Status || (d.frozen && d.status != StatusPublished):
			return errFrozen()
		}
		return writePrices(ctx, tx, id, tiers)
	})
	if err != nil {
		return Event{}, fmt.Errorf("set prices of %s: %w", id, err)
	}
	return c.current(ctx, id)
}

// writePrices writes the prices of tiers that are still what they were.
func writePrices(ctx context.Context, tx pgx.Tx, id usher.EventID, tiers []Tier) error {
	b := &pgx.Batch{}
	for i, t := range tiers {
		if t.Kind == TierStanding {
			b.Queue(sqlSetStandingPrice, id, t.ID, t.Price.AmountMinor)
		} else {
			b.Queue(sqlSetSeatedPrice, id, t.ID, i, t.Name, t.Price.AmountMinor)
		}
	}
	results := tx.SendBatch(ctx, b)
	for range tiers {
		tag, err := results.Exec()
		if err == nil && tag.RowsAffected() == 0 {
			err = errChanged()
		}
		if err != nil {
			_ = results.Close()
			return err
		}
	}
	return results.Close()
}

// priced joins the event's tiers with their prices: each needs one, and there
// are no others.
func priced(e *Event, chart *seatmap.Chart, prices map[usher.TierID]int64) ([]Tier, error) {
	out := tiersOf(e, chart)
	if len(out) == 0 {
		return nil, usher.Errorf(usher.CodeStateConflict, "import a chart or set standing tiers first: prices are those of tiers")
	}
	for i := range out {
		amount, ok := prices[out[i].ID]
		if !ok {
			return nil, usher.Errorf(usher.CodeInvalidRequest, "prices: the tier %q has none", string(out[i].ID))
		}
		out[i].Price = usher.Money{AmountMinor: amount, Currency: e.Currency}
		if err := out[i].Price.Validate(); err != nil {
			return nil, usher.InField("prices."+string(out[i].ID), err)
		}
	}
	for id := range prices {
		if !slices.ContainsFunc(out, func(t Tier) bool { return t.ID == id }) {
			return nil, usher.Errorf(usher.CodeInvalidRequest, "prices: the event has no tier %q", string(id))
		}
	}
	return out, nil
}

// tiersOf are the tiers that the event has to have prices for, in their order.
func tiersOf(e *Event, chart *seatmap.Chart) []Tier {
	var out []Tier
	if chart != nil {
		for _, t := range chart.Tiers() {
			out = append(out, Tier{ID: t.ID, Name: t.Name, Kind: TierSeated})
		}
	}
	for _, t := range e.Tiers {
		if t.Kind == TierStanding {
			out = append(out, t)
		}
	}
	return out
}

func ledgerTiers(tiers []Tier) []ledger.Tier {
	var out []ledger.Tier
	for _, t := range tiers {
		out = append(out, ledger.Tier{ID: t.ID, Name: t.Name, Price: t.Price})
	}
	return out
}

func errClash(tier usher.TierID) error {
	return usher.Errorf(usher.CodeInvalidRequest, "tiers: %q cannot both have seats and be standing", string(tier))
}

func errChanged() error {
	return usher.Errorf(usher.CodeStateConflict, "the event was changed at the same moment: repeat this")
}
