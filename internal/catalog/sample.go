package catalog

import (
	"context"
	"fmt"
	"time"

	"usher"
	"usher/internal/pg"
	"usher/internal/seatmap"
)

// Slugs of the sample events.
const (
	SampleArena    = "sample-arena"
	SampleClub     = "sample-club"
	SampleFestival = "sample-festival"
	SampleMixed    = "sample-mixed"
)

// Standing tiers of the sample events.
const (
	TierMeadow     usher.TierID = "meadow"
	TierPit        usher.TierID = "pit"
	TierDanceFloor usher.TierID = "dancefloor"
)

// sampleZone is where the sample events take place.
const sampleZone = "Asia/Taipei"

// sample is one of the events that a demonstration begins with.
type sample struct {
	event NewEvent
	// chart is nil for pure general admission.
	chart    func() *seatmap.Chart
	standing []Standing
	prices   map[usher.TierID]int64
}

func samples(tenant usher.TenantID, now, starts time.Time) []sample {
	// Small houses sell without a waiting room.
	small := usher.DefaultRules("TWD")
	small.AdmissionRequired = false
	return []sample{
		{
			event: NewEvent{
				Tenant: tenant, Slug: SampleArena, Name: "Aurora: One Night Only 極光之夜", Venue: "Sample Arena, Taipei",
				StartsAt: starts, TimeZone: sampleZone, OpensAt: &now, Currency: "TWD", RatePerSecond: 200, ActiveMax: 10_000,
			},
			chart: seatmap.Arena,
			prices: map[usher.TierID]int64{
				seatmap.TierFloor: 6800_00, seatmap.TierLower: 4800_00, seatmap.TierMiddle: 3800_00,
				seatmap.TierUpper: 2800_00, seatmap.TierUpperRear: 1800_00,
			},
		},
		{
			event: NewEvent{
				Tenant: tenant, Slug: SampleClub, Name: "Late Set 深夜場", Venue: "Sample Club, Taipei",
				StartsAt: starts.Add(2 * time.Hour), TimeZone: sampleZone, OpensAt: &now, Currency: "TWD", Rules: &small,
			},
			chart:  seatmap.Club,
			prices: map[usher.TierID]int64{seatmap.TierClubFront: 1200_00, seatmap.TierClubTables: 800_00},
		},
		{
			event: NewEvent{
				Tenant: tenant, Slug: SampleFestival, Name: "Meadow Days 草原音樂節", Venue: "Sample Meadow, Taipei",
				StartsAt: starts.Add(-5 * time.Hour), TimeZone: sampleZone, OpensAt: &now, Currency: "TWD", RatePerSecond: 200, ActiveMax: 10_000,
			},
			// Several counters for the tier that everybody wants.
			standing: []Standing{
				{ID: TierMeadow, Name: "Meadow 草地", Capacity: 20_000, Buckets: 8},
				{ID: TierPit, Name: "Front pit 搖滾區", Capacity: 2_000, Buckets: 2},
			},
			prices: map[usher.TierID]int64{TierMeadow: 1600_00, TierPit: 3200_00},
		},
		{
			event: NewEvent{
				Tenant: tenant, Slug: SampleMixed, Name: "Strings and Steps 弦舞夜", Venue: "Sample Hall, Taipei",
				StartsAt: starts.Add(time.Hour), TimeZone: sampleZone, OpensAt: &now, Currency: "TWD", Rules: &small,
			},
			chart:    seatmap.Club,
			standing: []Standing{{ID: TierDanceFloor, Name: "Dance floor 站席", Capacity: 400, Buckets: 2}},
			prices: map[usher.TierID]int64{
				seatmap.TierClubFront: 1500_00, seatmap.TierClubTables: 1000_00, TierDanceFloor: 600_00,
			},
		},
	}
}

// Samples makes the sample events, published and on sale: an arena of 50,000
// seats behind a waiting room, a club of 100 without one, a festival without
// seats behind a waiting room, and a hall with both, without one. Events that are
// there are left as they are, an unfinished one is finished, so that it can be
// called at every start. It fails with CodeUnavailable.
func (c *Catalog) Samples(ctx context.Context, tenant usher.TenantID) ([]Event, error) {
	var now time.Time
	if err := c.homes.Directory.QueryRow(ctx, sqlShardNow).Scan(&now); err != nil {
		return nil, fmt.Errorf("read time: %w", pg.Unavailable(err))
	}
	zone, err := LoadZone(sampleZone)
	if err != nil {
		return nil, err
	}
	day := now.In(zone).AddDate(0, 0, 30)
	starts := time.Date(day.Year(), day.Month(), day.Day(), 19, 30, 0, 0, zone)
	if err := c.refresh(ctx); err != nil {
		return nil, err
	}
	var out []Event
	for _, s := range samples(tenant, now, starts) {
		e, err := c.BySlug(ctx, s.event.Slug)
		if usher.CodeOf(err) == usher.CodeNotFound {
			e, err = c.Create(ctx, s.event)
		}
		if err == nil && e.Status == StatusDraft {
			e, err = c.finishSample(ctx, e, s)
		}
		if err != nil {
			return nil, fmt.Errorf("make sample event %s: %w", s.event.Slug, err)
		}
		out = append(out, e)
	}
	return out, nil
}

func (c *Catalog) finishSample(ctx context.Context, e Event, s sample) (Event, error) {
	if e.FrozenAt == nil {
		if s.chart != nil {
			if _, err := c.ImportChart(ctx, e.ID, s.chart()); err != nil {
				return e, err
			}
		}
		if _, err := c.SetStanding(ctx, e.ID, s.standing); err != nil {
			return e, err
		}
		if _, err := c.SetPrices(ctx, e.ID, s.prices); err != nil {
			return e, err
		}
	}
	return c.Publish(ctx, e.ID)
}
