package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/seatmap"
)

const (
	sqlInsertEvent = `
INSERT INTO event (tenant_id, slug, name, venue, starts_at, time_zone, queue_opens_at, opens_at, currency, rules,
    rate_per_second, active_max)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
RETURNING event_id`

	sqlInsertHome = `INSERT INTO event_home (event_id, shard) VALUES ($1, $2)`
)

// Create makes a draft and gives it its home. Creating the same event again
// returns the one that is there. It fails with CodeInvalidRequest, with
// CodeStateConflict when the slug is another event's, and with CodeUnavailable.
func (c *Catalog) Create(ctx context.Context, n NewEvent) (Event, error) {
	n, err := n.normalize()
	if err != nil {
		return Event{}, err
	}
	shard, err := c.place(n.Shard)
	if err != nil {
		return Event{}, err
	}
	rules, err := encodeRules(*n.Rules)
	if err != nil {
		return Event{}, fmt.Errorf("encode rules: %w", err)
	}
	err = pg.InTx(ctx, c.homes.Directory, func(tx pgx.Tx) error {
		var id usher.EventID
		err := tx.QueryRow(ctx, sqlInsertEvent, n.Tenant, n.Slug, n.Name, n.Venue, n.StartsAt, n.TimeZone, n.QueueOpensAt,
			n.OpensAt, n.Currency, rules, n.RatePerSecond, n.ActiveMax).Scan(&id)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, sqlInsertHome, id, shard)
		return err
	})
	if err != nil && !pg.IsUnique(err, "event_slug") {
		return Event{}, fmt.Errorf("create event: %w", err)
	}
	if err := c.refresh(ctx); err != nil {
		return Event{}, err
	}
	e, findErr := c.BySlug(ctx, n.Slug)
	if findErr != nil {
		return Event{}, findErr
	}
	// The database keeps microseconds.
	if err != nil && !e.same(n.microseconds()) {
		return Event{}, usher.Errorf(usher.CodeStateConflict, "the slug %q is another event's", n.Slug)
	}
	return e, nil
}

func (c *Catalog) place(want pg.ShardNumber) (pg.ShardNumber, error) {
	for _, s := range c.homes.Shards() {
		if want == 0 || want == s.Number {
			return s.Number, nil
		}
	}
	return 0, usher.Errorf(usher.CodeInvalidRequest, "shard %d is not configured here", want)
}

const (
	// sqlLockDraft lines up with a publication that begins.
	sqlLockDraft = `SELECT status, frozen_at IS NOT NULL, currency, coalesce(chart_hash, '') FROM event WHERE event_id = $1 FOR NO KEY UPDATE`

	sqlSetChart = `UPDATE event SET chart_hash = $2 WHERE event_id = $1`

	sqlDropTiers = `DELETE FROM event_tier WHERE event_id = $1 AND tier_id <> ALL($2)`

	sqlSetTier = `
INSERT INTO event_tier (event_id, tier_id, position, name, amount_minor) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (event_id, tier_id) DO UPDATE SET position = excluded.position, name = excluded.name, amount_minor = excluded.amount_minor`
)

// draft is what a locked event row says.
type draft struct {
	status   Status
	frozen   bool
	currency usher.Currency
	chart    string
}

func lockDraft(ctx context.Context, tx pgx.Tx, id usher.EventID) (d draft, err error) {
	err = tx.QueryRow(ctx, sqlLockDraft, id).Scan(&d.status, &d.frozen, &d.currency, &d.chart)
	if errors.Is(err, pgx.ErrNoRows) {
		return d, usher.Errorf(usher.CodeNotFound, "no such event")
	}
	return d, err
}

// ImportChart gives a draft its chart. Prices of tiers that the chart does not
// have are dropped. It fails with CodeNotFound, with CodeStateConflict once a
// publication has begun, and with CodeUnavailable.
func (c *Catalog) ImportChart(ctx context.Context, id usher.EventID, chart *seatmap.Chart) (Event, error) {
	// A crash after this line leaves a chart that nobody uses: harmless.
	if err := c.charts.Save(ctx, chart); err != nil {
		return Event{}, err
	}
	var tiers []string
	for _, t := range chart.Tiers() {
		tiers = append(tiers, string(t.ID))
	}
	err := pg.InTx(ctx, c.homes.Directory, func(tx pgx.Tx) error {
		d, err := lockDraft(ctx, tx, id)
		if err != nil {
			return err
		}
		if d.frozen || d.status != StatusDraft {
			return errFrozen()
		}
		if _, err := tx.Exec(ctx, sqlSetChart, id, chart.Hash()); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, sqlDropTiers, id, tiers)
		return err
	})
	if err != nil {
		return Event{}, fmt.Errorf("import chart of %s: %w", id, err)
	}
	return c.current(ctx, id)
}

// SetPrices sets the price of every tier that the event's chart has, in minor
// units of the event's currency. While the sale runs it makes a new price
// version: what is held or ordered keeps its price. It fails with CodeNotFound,
// CodeInvalidRequest, CodeStateConflict without a chart, while a publication is
// unfinished or after the event's end, and CodeUnavailable.
func (c *Catalog) SetPrices(ctx context.Context, id usher.EventID, prices map[usher.TierID]int64) (Event, error) {
	e, err := c.current(ctx, id)
	if err != nil {
		return Event{}, err
	}
	if e.Chart == "" {
		return Event{}, usher.Errorf(usher.CodeStateConflict, "import a chart first: prices are those of its tiers")
	}
	chart, err := c.charts.ByHash(ctx, e.Chart)
	if err != nil {
		return Event{}, err
	}
	tiers, err := priced(chart, e.Currency, prices)
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
		b := &pgx.Batch{}
		for i, t := range tiers {
			b.Queue(sqlSetTier, id, t.ID, i, t.Name, t.Price.AmountMinor)
		}
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return Event{}, fmt.Errorf("set prices of %s: %w", id, err)
	}
	return c.current(ctx, id)
}

// priced joins the chart's tiers with their prices: each needs one, and there
// are no others.
func priced(chart *seatmap.Chart, currency usher.Currency, prices map[usher.TierID]int64) ([]Tier, error) {
	var out []Tier
	for _, t := range chart.Tiers() {
		amount, ok := prices[t.ID]
		if !ok {
			return nil, usher.Errorf(usher.CodeInvalidRequest, "the tier %q has no price", string(t.ID))
		}
		price := usher.Money{AmountMinor: amount, Currency: currency}
		if err := price.Validate(); err != nil {
			return nil, err
		}
		out = append(out, Tier{t.ID, t.Name, price})
	}
	if len(prices) != len(out) {
		return nil, usher.Errorf(usher.CodeInvalidRequest, "a price is for a tier that the chart does not have")
	}
	return out, nil
}

func ledgerTiers(tiers []Tier) []ledger.Tier {
	var out []ledger.Tier
	for _, t := range tiers {
		out = append(out, ledger.Tier{ID: t.ID, Name: t.Name, Price: t.Price})
	}
	return out
}

func errFrozen() error {
	return usher.Errorf(usher.CodeStateConflict, "the event can no longer be changed: its publication has begun")
}
