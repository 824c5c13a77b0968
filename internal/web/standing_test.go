package web_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"usher"
	"usher/internal/catalog"
	"usher/internal/ledger"
	"usher/internal/redemption"
)

var price = usher.Money{AmountMinor: 60000, Currency: "TWD"}

// standing makes the world's event pure general admission.
func (w *world) standing(buckets ...ledger.BucketState) {
	w.catalog.tiers = []catalog.Tier{
		{ID: "meadow", Name: "Meadow 草地", Kind: catalog.TierStanding, Capacity: 100, Buckets: 2, Price: price},
		{ID: "pit", Name: "Pit", Kind: catalog.TierStanding, Capacity: 10, Buckets: 1, Price: price},
	}
	w.ledger.quota = func() ([]ledger.BucketState, error) { return buckets, nil }
}

type shownTier struct {
	TierID, Kind, Stock string
	Capacity            int
}

// Buyers learn a word for what is left, never a figure.
func TestStandingTiersOnTheWire(t *testing.T) {
	for name, tc := range map[string]struct {
		bucket ledger.BucketState
		want   string
	}{
		"all free":          {ledger.BucketState{Available: 200}, "many"},
		"above a tenth":     {ledger.BucketState{Available: 21, Sold: 179}, "many"},
		"a tenth":           {ledger.BucketState{Available: 20, Sold: 180}, "few"},
		"above two orders":  {ledger.BucketState{Available: 13, Sold: 2}, "many"},
		"two orders":        {ledger.BucketState{Available: 12, Sold: 3}, "few"},
		"others may return": {ledger.BucketState{Held: 1, Sold: 9}, "few"},
		"nothing":           {ledger.BucketState{Sold: 10}, "soldOut"},
		"no capacity left":  {ledger.BucketState{}, "soldOut"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.bucket.Tier = "pit"
			w.standing(ledger.BucketState{Tier: "meadow", Bucket: 1, Available: 90}, ledger.BucketState{Tier: "meadow", Bucket: 2, Held: 20}, tc.bucket)
			a := w.do(t, "GET", "/v1/events/evt_7", "", "")
			var got struct {
				Seats, Standing int
				Chart           *string
				Tiers           []shownTier
			}
			if err := json.Unmarshal([]byte(a.body), &got); err != nil {
				t.Fatalf("read %s: %v", a.body, err)
			}
			capacity := tc.bucket.Available + tc.bucket.Held + tc.bucket.Sold
			if got.Chart != nil || got.Seats != 0 || got.Standing != 110+capacity || len(got.Tiers) != 2 {
				t.Fatalf("%d %s", a.status, a.body)
			}
			if got.Tiers[0] != (shownTier{"meadow", "standing", "many", 110}) || got.Tiers[1] != (shownTier{"pit", "standing", tc.want, capacity}) {
				t.Errorf("tiers %+v", got.Tiers)
			}
			for _, figure := range []string{"available", "held", `"sold"`} {
				if strings.Contains(a.body, figure) {
					t.Errorf("a buyer reads %q: %s", figure, a.body)
				}
			}
		})
	}
}

// A home that is away takes the word with it, and nothing else.
func TestStockThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.standing()
	w.ledger.quota = func() ([]ledger.BucketState, error) {
		return nil, &usher.Error{Code: usher.CodeUnavailable, Message: "temporarily unavailable", Err: errors.New("shard 3 refused the connection")}
	}
	a := w.do(t, "GET", "/v1/events/evt_7", "", "")
	if a.status != 200 || !strings.Contains(a.body, `"sale":"unavailable"`) || strings.Contains(a.body, "stock") || !strings.Contains(a.body, `"standing":110`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	// The log says why; the answer does not.
	if !strings.Contains(w.logText(), "shard 3 refused") || strings.Contains(a.body, "shard 3") {
		t.Errorf("logged %s", w.logText())
	}
}

// What is shown of an event is what its home says now, also when nothing is sold any
// more; the set-up is what it began with.
func TestEventsShowWhatIsInForce(t *testing.T) {
	closes := time.Date(2026, 12, 24, 18, 0, 0, 0, time.FixedZone("", 8*3600))
	for status, sale := range map[catalog.Status]string{
		catalog.StatusPublished: "open", catalog.StatusCancelled: "cancelled", catalog.StatusEnded: "closed",
	} {
		t.Run(string(status), func(t *testing.T) {
			w := newWorld(t)
			w.catalog.status = status
			w.standing(ledger.BucketState{Tier: "meadow", Available: 30, Sold: 20}, ledger.BucketState{Tier: "pit", Sold: 4})
			w.ledger.rules = func() (usher.Rules, error) {
				r := usher.DefaultRules("TWD")
				r.Sale, r.PurchaseLimit, r.HoldTime, r.Grace, r.SaleClosesAt = usher.SaleOpen, 2, 90*time.Second, 30*time.Second, &closes
				return r, nil
			}
			a := w.do(t, "GET", "/v1/events/evt_7", "", "")
			for _, want := range []string{
				`"sale":"` + sale + `"`, `"standing":54`, `"capacity":50`, `"capacity":4`,
				`"purchaseLimit":2`, `"holdSeconds":90`, `"graceSeconds":30`, `"saleClosesAt":"2026-12-24T10:00:00Z"`,
			} {
				if !strings.Contains(a.body, want) {
					t.Errorf("lacks %s: %s", want, a.body)
				}
			}
			if strings.Contains(a.body, "stock") != (status == catalog.StatusPublished) {
				t.Errorf("a word for what is left: %s", a.body)
			}
			page := w.do(t, "GET", "/events/evt_7?lang=en", "", "")
			if !strings.Contains(page.body, "<dt>Sale closes</dt><dd>Thu, 24 Dec 2026, 18:00 (Asia/Taipei)</dd>") {
				t.Errorf("the page does not say when the sale closes: %s", page.body)
			}
		})
	}
	// Everybody may look at what is a second old; an operator who changes it may not.
	w := newWorld(t)
	limit := 4
	w.ledger.rules = func() (usher.Rules, error) {
		r := usher.DefaultRules("TWD")
		r.PurchaseLimit = limit
		return r, nil
	}
	for limit = range 3 {
		w.do(t, "GET", "/v1/events/evt_7", "", "")
		want := fmt.Sprintf(`"purchaseLimit":%d`, limit)
		if a := w.do(t, "GET", "/v1/admin/events/evt_7", staffKey, ""); strings.Count(a.body, want) != 2 {
			t.Errorf("an operator reads an old limit, not %s: %s", want, a.body)
		}
	}
	w = newWorld(t)
	w.catalog.draft = true
	w.standing()
	if a := w.do(t, "GET", "/v1/admin/events/evt_7", staffKey, ""); !strings.Contains(a.body, `"standing":110`) || strings.Contains(a.body, `"saleClosesAt":"`) {
		t.Errorf("a draft: %s", a.body)
	}
}

func TestStandingTiersOnThePages(t *testing.T) {
	w := newWorld(t)
	w.standing(ledger.BucketState{Tier: "meadow", Available: 100}, ledger.BucketState{Tier: "pit", Sold: 10})
	for l, words := range map[string][]string{"en": {"Meadow 草地", "TWD 600", "Available", "Sold out"}, "zh-Hant": {"Meadow 草地", "尚有票", "已售完"}} {
		a := w.do(t, "GET", "/events/evt_7?lang="+l, "", "")
		for _, word := range words {
			if !strings.Contains(a.body, word) {
				t.Errorf("the page in %s lacks %q: %s", l, word, a.body)
			}
		}
	}
	a := w.do(t, "GET", "/events/evt_7/seats", "", "")
	if a.status != 200 || !strings.Contains(a.body, `id="app"`) || !strings.Contains(a.body, `"kind":"standing"`) || !strings.Contains(a.body, `"seated":false`) {
		t.Errorf("the choice: %d %s", a.status, a.body)
	}
}

// An event without a chart has no picture, and no best seat.
func TestNoSeatMapWithoutSeats(t *testing.T) {
	w := newWorld(t)
	w.standing()
	for _, path := range []string{"/v1/events/evt_7/seats", "/v1/events/evt_7/seats/stream?after=1.0"} {
		if a := w.do(t, "GET", path, "", ""); a.status != 404 || a.code() != usher.CodeNotFound || !strings.Contains(a.detail(), "items") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	a := w.do(t, "POST", "/v1/events/evt_7/holds", aliceToken, `{"best":{"quantity":2},"idempotencyKey":"k"}`)
	if a.status != 400 || a.code() != usher.CodeInvalidRequest || !strings.Contains(a.detail(), "best") {
		t.Errorf("best: %d %s", a.status, a.body)
	}
}

// A refusal names the tiers that were the reason.
func TestShortTiersAreNamed(t *testing.T) {
	w := newWorld(t)
	w.standing()
	w.ledger.placeHold = func(c ledger.PlaceHold) (ledger.Hold, error) {
		e := usher.Errorf(usher.CodeSeatsUnavailable, "not enough")
		e.Tiers = []usher.TierID{c.Items[0].Tier}
		return ledger.Hold{}, e
	}
	a := w.do(t, "POST", "/v1/events/evt_7/holds", aliceToken, `{"items":[{"tierId":"pit","quantity":2}],"idempotencyKey":"k"}`)
	if a.status != 409 || a.code() != usher.CodeSeatsUnavailable || !strings.Contains(a.body, `"tiers":["pit"]`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A ticket without a seat says what it is for.
func TestStandingTicket(t *testing.T) {
	w := newWorld(t)
	w.standing()
	o := someOrder(alice)
	w.ledger.orders = map[usher.OrderID]ledger.Order{o.ID: o}
	w.redeem.tickets = []redemption.Ticket{{ID: usher.NewTicketID(event), Event: event, Order: o.ID, Tier: "meadow", Code: "secret", Status: usher.CodeUnused}}
	a := w.do(t, "GET", "/v1/orders/"+o.ID.String()+"/tickets", aliceToken, "")
	if a.status != 200 || !strings.Contains(a.body, `"tierName":"Meadow 草地"`) || strings.Contains(a.body, "seatId") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
