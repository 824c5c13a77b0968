package catalog_test

import (
	"strings"
	"sync"
	"testing"

	"usher"
	"usher/internal/catalog"
	"usher/internal/ledger"
	"usher/internal/seatmap"
)

var (
	floor    = catalog.Standing{ID: "floor", Name: "Floor 站席", Capacity: 10, Buckets: 3}
	terraces = catalog.Standing{ID: "terraces", Name: "Terraces", Capacity: 5}
)

func TestStandingRefuses(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	e := h.draft(concert())
	for name, tiers := range map[string][]catalog.Standing{
		"no id":               {{Name: "x", Capacity: 1}},
		"no name":             {{ID: "x", Name: " ", Capacity: 1}},
		"no places":           {{ID: "x", Name: "x"}},
		"negative":            {{ID: "x", Name: "x", Capacity: -1}},
		"too many":            {{ID: "x", Name: "x", Capacity: 10_000_001}},
		"more buckets":        {{ID: "x", Name: "x", Capacity: 2, Buckets: 3}},
		"too many buckets":    {{ID: "x", Name: "x", Capacity: 5000, Buckets: 1001}},
		"negative buckets":    {{ID: "x", Name: "x", Capacity: 2, Buckets: -1}},
		"named twice":         {floor, floor},
		"a tier of the chart": {{ID: seatmap.TierClubFront, Name: "x", Capacity: 1}},
		"many tiers":          make([]catalog.Standing, 51),
	} {
		_, err := h.SetStanding(ctx, e.ID, tiers)
		wantCode(t, name, err, usher.CodeInvalidRequest)
	}
	_, err := h.SetStanding(ctx, e.ID+1, []catalog.Standing{floor})
	wantCode(t, "no event", err, usher.CodeNotFound)
	if got, _ := h.Get(ctx, e.ID); len(got.Tiers) != 2 {
		t.Errorf("tiers %v", got.Tiers)
	}
	if _, err := h.Publish(ctx, e.ID); err != nil {
		t.Fatalf("publish: %v", err)
	}
	_, err = h.SetStanding(ctx, e.ID, []catalog.Standing{floor})
	wantCode(t, "after publication", err, usher.CodeStateConflict)
}

// A draft with seats and standing places: tiers keep their prices while others
// come and go, and every one needs a price.
func TestMixedDraft(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	e := h.draft(concert())
	e, err := h.SetStanding(ctx, e.ID, []catalog.Standing{floor, terraces})
	if err != nil || len(e.Tiers) != 4 || e.Tiers[2].ID != "floor" || e.Tiers[2].Priced() || e.Tiers[3].Buckets != 1 {
		t.Fatalf("standing: %+v, %v", e.Tiers, err)
	}
	_, err = h.Publish(ctx, e.ID)
	wantCode(t, "publish without their prices", err, usher.CodeStateConflict)
	_, err = h.SetPrices(ctx, e.ID, clubPrices)
	wantCode(t, "prices of the seats alone", err, usher.CodeInvalidRequest)
	for field, amount := range map[string]int64{"prices.floor": -1, `no tier "roof"`: 0} {
		prices := map[usher.TierID]int64{seatmap.TierClubFront: 3000, seatmap.TierClubTables: 2000, "floor": amount, "terraces": 0, "roof": 1}
		if _, err = h.SetPrices(ctx, e.ID, prices); usher.CodeOf(err) != usher.CodeInvalidRequest || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	prices := map[usher.TierID]int64{seatmap.TierClubFront: 3000, seatmap.TierClubTables: 2000, "floor": 1500, "terraces": 0}
	if e, err = h.SetPrices(ctx, e.ID, prices); err != nil || !e.Tiers[3].Priced() || e.Tiers[2].Price.AmountMinor != 1500 {
		t.Fatalf("prices: %+v, %v", e.Tiers, err)
	}
	// One goes, the other grows and keeps its price.
	bigger := floor
	bigger.Capacity, bigger.Name = 12, "Big floor"
	if e, err = h.SetStanding(ctx, e.ID, []catalog.Standing{bigger}); err != nil || len(e.Tiers) != 3 ||
		e.Tiers[2].Capacity != 12 || e.Tiers[2].Price.AmountMinor != 1500 || e.Tiers[2].Name != "Big floor" {
		t.Fatalf("changed: %+v, %v", e.Tiers, err)
	}
	clash, err := seatmap.Parse("Other", []byte("seat_id,section,row,number,tier,x,y\n1,S,1,1,floor,0,0\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.ImportChart(ctx, e.ID, clash)
	wantCode(t, "a chart with the standing tier", err, usher.CodeInvalidRequest)
	if e, err = h.Publish(ctx, e.ID); err != nil {
		t.Fatalf("publish: %v", err)
	}
	s, err := h.ledger.Seats(ctx, e.ID)
	if err != nil || len(s.Seats) != 100 || len(s.Buckets) != 3 || s.Buckets[0] != (ledger.BucketState{Tier: "floor", Bucket: 1, Available: 4}) {
		t.Errorf("inventory: %d seats, %+v, %v", len(s.Seats), s.Buckets, err)
	}
	// New prices during the sale cover all tiers, too.
	prices = map[usher.TierID]int64{seatmap.TierClubFront: 3000, seatmap.TierClubTables: 2000, "floor": 1800}
	if e, err = h.SetPrices(ctx, e.ID, prices); err != nil || e.Tiers[2].Price.AmountMinor != 1800 {
		t.Errorf("new prices: %+v, %v", e.Tiers, err)
	}
	if _, tiers, err := h.ledger.Rules(ctx, e.ID); err != nil || len(tiers) != 3 || tiers[2].Price.AmountMinor != 1800 {
		t.Errorf("in the ledger: %+v, %v", tiers, err)
	}
}

// General admission without any chart, published twice at the same moment.
func TestGeneralAdmission(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	e, err := h.Create(ctx, concert())
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if _, err = h.SetStanding(ctx, e.ID, []catalog.Standing{floor}); err == nil {
		_, err = h.SetPrices(ctx, e.ID, map[usher.TierID]int64{"floor": 700})
	}
	if err != nil {
		t.Fatalf("draft: %v", err)
	}
	other := h.again()
	var both sync.WaitGroup
	for _, c := range []*house{h, other} {
		both.Go(func() {
			if _, err := c.Publish(ctx, e.ID); err != nil {
				t.Errorf("publish: %v", err)
			}
		})
	}
	both.Wait()
	h.wantSale(e.ID, usher.SaleScheduled, usher.QueuePrequeue)
	s, err := h.ledger.Seats(ctx, e.ID)
	if err != nil || len(s.Seats) != 0 || len(s.Buckets) != 3 {
		t.Errorf("inventory: %+v, %v", s, err)
	}
	_, err = h.charts.OfEvent(ctx, e.ID)
	wantCode(t, "chart", err, usher.CodeNotFound)
}
