package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
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
		// After the insert: a creation that is repeated finds its event, however late.
		if err := checkCloses(ctx, tx, n.Rules.SaleClosesAt); err != nil {
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

// checkCloses refuses a sale that is over before it began, by the database's time.
func checkCloses(ctx context.Context, tx pgx.Tx, closes *time.Time) error {
	if closes == nil {
		return nil
	}
	var now time.Time
	if err := tx.QueryRow(ctx, sqlShardNow).Scan(&now); err != nil {
		return fmt.Errorf("read time: %w", err)
	}
	if !now.Before(*closes) {
		return usher.Errorf(usher.CodeInvalidRequest, "rules.saleClosesAt is past: %s", closes.UTC().Format(time.RFC3339))
	}
	return nil
}

func (c *Catalog) place(want pg.ShardNumber) (pg.ShardNumber, error) {
	for _, s := range c.homes.Shards() {
		if want == 0 || want == s.Number {
			return s.Number, nil
		}
	}
	return 0, usher.Errorf(usher.CodeInvalidRequest, "shard: there is no shard %d here", want)
}

const (
	// sqlLockDraft lines up with a publication that begins.
	sqlLockDraft = `SELECT status, frozen_at IS NOT NULL, currency, coalesce(chart_hash, '') FROM event WHERE event_id = $1 FOR NO KEY UPDATE`

	sqlSetChart = `UPDATE event SET chart_hash = $2 WHERE event_id = $1`

	sqlDropTiers = `DELETE FROM event_tier WHERE event_id = $1 AND kind = 'seated' AND tier_id <> ALL($2)`

	sqlClashingTier = `SELECT tier_id FROM event_tier WHERE event_id = $1 AND kind = 'standing' AND tier_id = ANY($2) LIMIT 1`
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

// ImportChart gives a draft its chart. Prices of seated tiers that the chart does
// not have are dropped, standing tiers stay. It fails with CodeNotFound, with
// CodeInvalidRequest when a tier of the chart is a standing one of the event, with
// CodeStateConflict once a publication has begun, and with CodeUnavailable.
func (c *Catalog) ImportChart(ctx context.Context, id usher.EventID, chart *seatmap.Chart) (Event, error) {
	// A crash after this line leaves a chart that nobody uses: harmless.
	if err := c.charts.Save(ctx, chart); err != nil {
		return Event{}, err
	}
	tiers := []string{}
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
		var clash usher.TierID
		switch err := tx.QueryRow(ctx, sqlClashingTier, id, tiers).Scan(&clash); {
		case err == nil:
			return errClash(clash)
		case !errors.Is(err, pgx.ErrNoRows):
			return err
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

func errFrozen() error {
	return usher.Errorf(usher.CodeStateConflict, "the event can no longer be changed: its publication has begun")
}
