package ledger

import (
	"cmp"
	"slices"
	"strings"

	"usher"
)

// General admission: places without names, counted in buckets.

type bucketKey struct {
	tier   usher.TierID
	bucket int
}

// bucket is one counter row. available + held + sold is its capacity; held
// includes what is being paid for.
type bucket struct {
	available, held, sold int
	version               int64
	dirty                 bool
}

// holdLine says from which bucket a hold's places come; it never changes.
type holdLine struct {
	tier     usher.TierID
	bucket   int
	quantity int
}

// BucketMax is the highest bucket number.
const BucketMax = 1000

// validateItems sorts the items by tier and drops those of quantity 0, which a
// form sends for tiers that nobody chose.
func (c *PlaceHold) validateItems() error {
	var items []Item
	for _, i := range c.Items {
		if err := usher.CheckText("tier id", string(i.Tier), 64); err != nil {
			return err
		}
		if i.Quantity < 0 || i.Quantity > usher.PlacesMax {
			return usher.Errorf(usher.CodeInvalidRequest, "a quantity is 0 to %d", usher.PlacesMax)
		}
		if i.Quantity > 0 {
			items = append(items, Item{Tier: i.Tier, Quantity: i.Quantity})
		}
	}
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(string(a.Tier), string(b.Tier)) })
	for i := 1; i < len(items); i++ {
		if items[i].Tier == items[i-1].Tier {
			return usher.Errorf(usher.CodeInvalidRequest, "tier %q is named twice", string(items[i].Tier))
		}
	}
	c.Items = items
	return nil
}

// tier returns a tier's buckets in order of number.
func (s *state) tier(id usher.TierID) []bucketKey {
	var keys []bucketKey
	for k := range s.buckets {
		if k.tier == id {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b bucketKey) int { return cmp.Compare(a.bucket, b.bucket) })
	return keys
}

// shortOf names the tiers that do not exist, and those that have too little left
// over all their buckets together.
func (s *state) shortOf(items []Item) (unknown, short []usher.TierID) {
	for _, i := range items {
		keys, free := s.tier(i.Tier), 0
		for _, k := range keys {
			free += s.buckets[k].available
		}
		if len(keys) == 0 {
			unknown = append(unknown, i.Tier)
		}
		if free < i.Quantity || s.prices[s.rules.PriceVersion][i.Tier].withdrawn {
			short = append(short, i.Tier)
		}
	}
	return unknown, short
}

// draw chooses the buckets that the items come from: the fullest first, so that a
// hold is rarely split. shortOf has made sure that there is enough.
func (s *state) draw(items []Item) []holdLine {
	var lines []holdLine
	for _, i := range items {
		keys := s.tier(i.Tier)
		slices.SortStableFunc(keys, func(a, b bucketKey) int { return cmp.Compare(s.buckets[b].available, s.buckets[a].available) })
		left := i.Quantity
		for _, k := range keys {
			if n := min(left, s.buckets[k].available); n > 0 {
				lines = append(lines, holdLine{k.tier, k.bucket, n})
				left -= n
			}
		}
		if left > 0 {
			panic("ledger: tier " + string(i.Tier) + " was not enough after all")
		}
	}
	return lines
}

// column is where a place in the given state is counted.
func (b *bucket) column(status usher.SeatStatus) *int {
	switch status {
	case usher.SeatAvailable:
		return &b.available
	case usher.SeatHeld, usher.SeatPending:
		return &b.held
	case usher.SeatSold:
		return &b.sold
	}
	panic("ledger: no bucket counts " + string(status))
}

// moveLines moves a hold's counted places between states, exactly once each.
func (s *state) moveLines(h *hold, from, to usher.SeatStatus) []BucketChange {
	var changes []BucketChange
	for _, l := range h.lines {
		b := s.buckets[bucketKey{l.tier, l.bucket}]
		if b.column(from) == b.column(to) {
			continue
		}
		*b.column(from) -= l.quantity
		*b.column(to) += l.quantity
		if *b.column(from) < 0 {
			panic("ledger: bucket of " + string(l.tier) + " below zero")
		}
		changes = append(changes, b.changed(l.tier, l.bucket))
	}
	return changes
}

func (b *bucket) changed(tier usher.TierID, n int) BucketChange {
	b.version++
	b.dirty = true
	return BucketChange{Tier: tier, Bucket: n, Available: b.available, Held: b.held, Sold: b.sold, Version: b.version}
}

// movePlaces moves every place of an order's hold, seats and counted ones, and
// returns the payload that reports it.
func (s *state) movePlaces(h *hold, from, to usher.SeatStatus, o *order) Payload {
	p := Payload{Account: h.Account, Hold: h.ID, Order: o.ID, Buckets: s.moveLines(h, from, to)}
	for _, place := range h.Seats {
		st, expires := s.seats[place.ID], h.ExpiresAt
		var c SeatChange
		switch to {
		case usher.SeatAvailable:
			c = st.free()
		case usher.SeatHeld:
			c = st.move(to, h.ID, &expires, usher.OrderID{})
		case usher.SeatPending:
			c = st.move(to, h.ID, &expires, o.ID)
		default:
			c = st.move(to, h.ID, nil, o.ID)
		}
		p.Seats = append(p.Seats, c)
	}
	return p
}

// itemsAt prices items at one price version.
func (t priceTable) itemsAt(version int, currency usher.Currency, items []Item) []Item {
	out := slices.Clone(items)
	for i := range out {
		out[i].Price = usher.Money{AmountMinor: t[version][out[i].Tier].amount, Currency: currency}
	}
	return out
}

// itemsOf sums a hold's lines by tier.
func itemsOf(lines []holdLine) []Item {
	var items []Item
	for _, l := range lines {
		if n := len(items); n > 0 && items[n-1].Tier == l.tier {
			items[n-1].Quantity += l.quantity
		} else {
			items = append(items, Item{Tier: l.tier, Quantity: l.quantity})
		}
	}
	return items
}
