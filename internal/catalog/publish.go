package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/redemption"
	"usher/internal/seatmap"
	"usher/internal/waitingroom"
)

const (
	sqlFreezeEvent = `UPDATE event SET frozen_at = coalesce(frozen_at, clock_timestamp()) WHERE event_id = $1`

	sqlPublishEvent = `
UPDATE event SET status = 'published', published_at = clock_timestamp() WHERE event_id = $1 AND status = 'draft'`
)

// Publish turns a draft into an event that can be sold. Each step is durable
// before the next begins, and repeating it changes nothing, so that a
// publication that crashed or failed is simply published again:
//
//  1. the draft is frozen: chart, standing tiers and prices no longer change;
//  2. the chart, if there is one, is copied to the home shard;
//  3. the ledger makes inventory, rules and prices, with the sale scheduled;
//  4. the waiting room is made, if the rules require admission;
//  5. the ticket pool is made;
//  6. the status becomes published, and the event is seen.
//
// It fails with CodeNotFound, with CodeStateConflict for an event that is over
// or lacks places or prices, with CodeInvalidRequest when a step refuses its
// part, and with CodeUnavailable.
func (c *Catalog) Publish(ctx context.Context, id usher.EventID) (Event, error) {
	e, chart, err := c.freeze(ctx, id)
	if err != nil || e.Status == StatusPublished {
		return e, err
	}
	for _, step := range []struct {
		name string
		run  func(context.Context, Event, *seatmap.Chart) error
	}{
		{"chart", c.copyChart},
		{"ledger", c.setUp},
		{"room", c.createRoom},
		{"pool", c.createPool},
		{"status", c.markPublished},
	} {
		if err := step.run(ctx, e, chart); err != nil {
			return Event{}, fmt.Errorf("publish %s, step %s: %w", id, step.name, err)
		}
		if err := fault.Point(ctx, "catalog.published_"+step.name); err != nil {
			return Event{}, fmt.Errorf("publish %s, after step %s: %w", id, step.name, err)
		}
	}
	c.log.InfoContext(ctx, "event published", "event", id, "chart", e.Chart)
	if e, err = c.current(ctx, id); err != nil {
		return Event{}, err
	}
	// What is due already need not wait for the opener.
	if _, err := c.openDue(ctx, e); err != nil {
		c.log.WarnContext(ctx, "queue or sale opens later", "event", id, "error", err)
	}
	return e, nil
}

// freeze checks that the draft is complete and stops changes to it. From its
// commit on, this publication can only be finished.
func (c *Catalog) freeze(ctx context.Context, id usher.EventID) (Event, *seatmap.Chart, error) {
	e, chart, err := c.withChart(ctx, id)
	if err != nil || e.Status == StatusPublished {
		return e, nil, err
	}
	if e.Status != StatusDraft {
		return e, nil, usher.Errorf(usher.CodeStateConflict, "the event is %s", string(e.Status))
	}
	err = pg.InTx(ctx, c.homes.Directory, func(tx pgx.Tx) error {
		d, err := lockDraft(ctx, tx, id)
		switch {
		case err != nil:
			return err
		case d.status == StatusPublished:
			// Somebody else published it meanwhile.
			return nil
		case d.status != StatusDraft || d.chart != e.Chart:
			return errChanged()
		}
		if err := checkComplete(ctx, tx, id, chart); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, sqlFreezeEvent, id)
		return err
	})
	if err != nil {
		return e, nil, fmt.Errorf("freeze %s: %w", id, err)
	}
	// Read again under the freeze: a price may have changed up to it.
	e, err = c.current(ctx, id)
	return e, chart, err
}

const sqlPricedTiers = `SELECT tier_id, amount_minor IS NOT NULL FROM event_tier WHERE event_id = $1 ORDER BY position`

// checkComplete refuses a locked draft without places, or with a tier that has no
// price.
func checkComplete(ctx context.Context, tx pgx.Tx, id usher.EventID, chart *seatmap.Chart) error {
	rows, err := tx.Query(ctx, sqlPricedTiers, id)
	if err != nil {
		return err
	}
	prices := map[usher.TierID]bool{}
	var need []usher.TierID
	var tier usher.TierID
	var priced bool
	_, err = pgx.ForEachRow(rows, []any{&tier, &priced}, func() error {
		prices[tier], need = priced, append(need, tier)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read tiers: %w", err)
	}
	if chart != nil {
		for _, t := range chart.Tiers() {
			need = append(need, t.ID)
		}
	}
	if len(need) == 0 {
		return usher.Errorf(usher.CodeStateConflict, "the event has neither a chart nor standing tiers yet")
	}
	for _, tier := range need {
		if !prices[tier] {
			return usher.Errorf(usher.CodeStateConflict, "the tier %q has no price yet", string(tier))
		}
	}
	return nil
}

func (c *Catalog) copyChart(ctx context.Context, e Event, chart *seatmap.Chart) error {
	if chart == nil {
		return nil
	}
	return c.charts.Copy(ctx, e.ID, chart)
}

func (c *Catalog) setUp(ctx context.Context, e Event, chart *seatmap.Chart) error {
	s := ledger.Setup{Event: e.ID, Rules: e.Rules, Tiers: ledgerTiers(e.Tiers)}
	if chart != nil {
		for _, seat := range chart.Seats() {
			s.Seats = append(s.Seats, ledger.SeatSetup{ID: seat.ID, Tier: seat.Tier})
		}
	}
	for _, t := range e.Tiers {
		if t.Kind == TierStanding {
			s.Standing = append(s.Standing, ledger.StandingSetup{Tier: t.ID, Capacity: t.Capacity, Buckets: t.Buckets})
		}
	}
	return c.ledger.SetUp(ctx, s)
}

func (c *Catalog) createRoom(ctx context.Context, e Event, _ *seatmap.Chart) error {
	if !e.Rules.AdmissionRequired {
		return nil
	}
	return c.rooms.Create(ctx, waitingroom.RoomSetup{
		Event: e.ID, OpensAt: e.OpensAt, PurchaseLimit: e.Rules.PurchaseLimit, RatePerSecond: e.RatePerSecond, ActiveMax: e.ActiveMax,
	})
}

func (c *Catalog) createPool(ctx context.Context, e Event, _ *seatmap.Chart) error {
	_, err := c.pools.CreatePool(ctx, e.ID, e.Tenant, redemption.DefaultPoolRules())
	return err
}

func (c *Catalog) markPublished(ctx context.Context, e Event, _ *seatmap.Chart) error {
	_, err := c.homes.Directory.Exec(ctx, sqlPublishEvent, e.ID)
	return pg.Unavailable(err)
}
