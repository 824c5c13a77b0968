package ledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"usher"
	"usher/internal/ledger"
)

// newField sets up an event with a few seats and a standing tier in buckets.
func newField(t *testing.T, capacity, buckets int, adjust func(*usher.Rules)) *hall {
	t.Helper()
	h := newHall(t, 10, nil)
	rules := usher.DefaultRules("TWD")
	rules.Sale, rules.AdmissionRequired, rules.PurchaseLimit = usher.SaleOpen, false, 12
	if adjust != nil {
		adjust(&rules)
	}
	h.exec(h.homes.Directory, `INSERT INTO event_home (event_id, shard) VALUES ($1, 1)`, fieldEvent)
	setup := ledger.Setup{Event: fieldEvent, Rules: rules, Tiers: []ledger.Tier{
		{ID: "gold", Name: "Gold", Price: usher.Money{AmountMinor: 320000, Currency: "TWD"}},
		{ID: "lawn", Name: "Lawn", Price: usher.Money{AmountMinor: 80000, Currency: "TWD"}},
	}, Standing: []ledger.StandingSetup{{Tier: "lawn", Capacity: capacity, Buckets: buckets}}}
	for i := range 10 {
		setup.Seats = append(setup.Seats, ledger.SeatSetup{ID: seatID(i), Tier: "gold"})
	}
	for range 2 {
		if err := h.SetUp(t.Context(), setup); err != nil {
			t.Fatalf("set up: %v", err)
		}
	}
	t.Cleanup(func() { h.checkBuckets(capacity) })
	return h
}

const fieldEvent = usher.EventID(8)

// checkBuckets recounts what is held and sold from holds and orders.
func (h *hall) checkBuckets(capacity int) {
	var available, held, sold, liveHeld, soldLines int
	h.scan(`SELECT coalesce(sum(available), 0), coalesce(sum(held), 0), coalesce(sum(sold), 0) FROM inventory_bucket`, &available, &held, &sold)
	h.scan(`SELECT coalesce(sum(l.quantity), 0) FROM hold_line l JOIN hold h USING (hold_id) WHERE h.status IN ('held', 'payment_pending')`, &liveHeld)
	h.scan(`SELECT count(*) FROM order_line WHERE bucket IS NOT NULL AND state = 'sold'`, &soldLines)
	if capacity > 0 && available+held+sold != capacity || held != liveHeld || sold != soldLines {
		h.t.Errorf("available %d + held %d + sold %d of %d; live holds have %d, sold lines %d", available, held, sold, capacity, liveHeld, soldLines)
	}
}

func lawn(n int) []ledger.Item { return []ledger.Item{{Tier: "lawn", Quantity: n}} }

func (h *hall) field(l *ledger.Ledger, a usher.AccountID, key string, items []ledger.Item, seats ...usher.SeatID) (ledger.Hold, error) {
	return l.PlaceHold(context.Background(), ledger.PlaceHold{Event: fieldEvent, Account: a, Seats: seats, Items: items, Key: key})
}

func TestStandingOrder(t *testing.T) {
	// Nine places: after four are sold, six are free only if the four come back.
	h := newField(t, 9, 3, nil)
	a := usher.NewAccountID()
	hold, err := h.field(h.Ledger, a, "k", []ledger.Item{{Tier: "lawn", Quantity: 4}}, seatIDs(1, 2)...)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(2*320000 + 4*80000); hold.Amount.AmountMinor != want || len(hold.Items) != 1 || hold.Items[0].Quantity != 4 || hold.Items[0].Price.AmountMinor != 80000 {
		t.Errorf("hold %+v, want amount %d", hold, want)
	}
	read, err := h.Hold(t.Context(), hold.ID)
	if err != nil || !slices.Equal(read.Items, hold.Items) || read.Amount != hold.Amount {
		t.Errorf("read %+v, %v", read, err)
	}
	again, err := h.field(h.Ledger, a, "k", []ledger.Item{{Tier: "lawn", Quantity: 4}}, seatIDs(2, 1)...)
	if err != nil || again.ID != hold.ID || !again.Replayed || !slices.Equal(again.Items, hold.Items) {
		t.Errorf("replay %+v, %v", again, err)
	}
	_, err = h.field(h.Ledger, a, "k", lawn(3), seatIDs(2, 1)...)
	wantCode(t, err, usher.CodeIdempotencyKeyReused)
	o := h.mustConfirm(h.mustBegin(hold, "c"))
	if len(o.Items) != 1 || o.Items[0].Quantity != 4 || len(o.Seats) != 2 {
		t.Errorf("order %+v", o)
	}
	_, err = h.field(h.Ledger, usher.NewAccountID(), "k1", lawn(6))
	wantCode(t, err, usher.CodeSeatsUnavailable)
	if _, err := h.CancelOrder(t.Context(), ledger.CancelOrder{Order: o.ID, By: staff}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.field(h.Ledger, a, "k2", lawn(6)); err != nil {
		t.Errorf("what was given back is not for sale: %v", err)
	}
	for name, c := range map[string]ledger.PlaceHold{
		"none":        {Items: lawn(0)},
		"negative":    {Items: []ledger.Item{{Tier: "lawn", Quantity: -1}}},
		"seven":       {Items: lawn(7)},
		"six and one": {Items: lawn(6), Seats: seatIDs(5)},
		"twice":       {Items: []ledger.Item{{Tier: "lawn", Quantity: 1}, {Tier: "lawn", Quantity: 1}}},
	} {
		c.Event, c.Account, c.Key = fieldEvent, a, "bad"
		if _, err := h.PlaceHold(t.Context(), c); usher.CodeOf(err) != usher.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, tier := range []usher.TierID{"gold", "moon"} {
		_, err := h.field(h.Ledger, a, "bad", []ledger.Item{{Tier: "lawn", Quantity: 1}, {Tier: tier, Quantity: 1}})
		e := wantCode(t, err, usher.CodeInvalidRequest)
		if !slices.Equal(e.Tiers, []usher.TierID{tier}) || !strings.Contains(e.Message, "items.tierId") || !strings.Contains(e.Message, string(tier)) {
			t.Errorf("no standing tier %s: %v names %v", tier, e, e.Tiers)
		}
	}
}

// P18: the last units are sold once, whatever comes at the same time.
func TestLastUnits(t *testing.T) {
	h := newField(t, 2, 1, nil)
	ledgers := []*ledger.Ledger{h.Ledger, h.process()}
	var wg sync.WaitGroup
	var won atomic.Int32
	for i := range 50 {
		wg.Go(func() {
			_, err := h.field(ledgers[i%2], usher.NewAccountID(), "k", lawn(2))
			switch usher.CodeOf(err) {
			case "":
				won.Add(1)
			case usher.CodeSeatsUnavailable:
				if e := wantCode(t, err, usher.CodeSeatsUnavailable); !slices.Equal(e.Tiers, []usher.TierID{"lawn"}) {
					t.Errorf("names %v", e.Tiers)
				}
			default:
				t.Errorf("hold %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d winners", won.Load())
	}
}

func TestMixedSizes(t *testing.T) {
	h := newField(t, 37, 4, nil)
	ledgers := []*ledger.Ledger{h.Ledger, h.process()}
	var wg sync.WaitGroup
	var held atomic.Int32
	for i := range 100 {
		n := 1 + rand.IntN(6)
		wg.Go(func() {
			_, err := h.field(ledgers[i%2], usher.NewAccountID(), "k", lawn(n))
			switch usher.CodeOf(err) {
			case "":
				held.Add(int32(n))
			case usher.CodeSeatsUnavailable:
			default:
				t.Errorf("hold %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	// What is left over all buckets together can be had, however it is spread.
	for left := 37 - int(held.Load()); left > 0; left -= 6 {
		if _, err := h.field(h.Ledger, usher.NewAccountID(), "k", lawn(min(left, 6))); err != nil {
			t.Fatalf("%d are left: %v", left, err)
		}
	}
	_, err := h.field(h.Ledger, usher.NewAccountID(), "k", lawn(1))
	wantCode(t, err, usher.CodeSeatsUnavailable)
}

// Lapsed units return by themselves: no sweeper runs here, and more lapse at once
// than one group frees.
func TestLapsedUnits(t *testing.T) {
	h := newField(t, 400, 2, nil)
	var wg sync.WaitGroup
	for range 400 {
		wg.Go(func() {
			if _, err := h.field(h.Ledger, usher.NewAccountID(), "k", lawn(1)); err != nil {
				t.Errorf("fill: %v", err)
			}
		})
	}
	wg.Wait()
	_, err := h.field(h.Ledger, usher.NewAccountID(), "k", lawn(1))
	wantCode(t, err, usher.CodeSeatsUnavailable)
	h.exec(h.pool, `UPDATE hold SET expires_at = clock_timestamp() - interval '1 second'`)
	for i := range 66 {
		if _, err := h.field(h.Ledger, usher.NewAccountID(), fmt.Sprint("k", i), lawn(6)); err != nil {
			t.Fatalf("hold %d: %v", i, err)
		}
	}
}

// P96: one rule for capacity on all paths.
func TestCapacity(t *testing.T) {
	h := newField(t, 64, 1, func(r *usher.Rules) { r.PurchaseLimit = 100; r.PendingPerAccountMax = 100 })
	a := usher.NewAccountID()
	for i := range 11 {
		hold, err := h.field(h.Ledger, a, fmt.Sprint("k", i), lawn(4))
		if err != nil {
			t.Fatal(err)
		}
		h.mustConfirm(h.mustBegin(hold, fmt.Sprint("c", i)))
	}
	if _, err := h.field(h.Ledger, a, "h", lawn(5)); err != nil {
		t.Fatal(err)
	}
	set := func(n int) error {
		return h.SetCapacity(t.Context(), ledger.SetCapacity{Event: fieldEvent, Tier: "lawn", Bucket: 1, Capacity: n, By: staff})
	}
	for _, n := range []int{16, 45, 48} {
		e := wantCode(t, set(n), usher.CodeStateConflict)
		if !strings.Contains(e.Message, "44 sold and 5 held") || !strings.Contains(e.Message, fmt.Sprint(n)) {
			t.Errorf("to %d: %q does not say why", n, e.Message)
		}
	}
	if err := set(49); err != nil {
		t.Fatal(err)
	}
	_, err := h.field(h.Ledger, usher.NewAccountID(), "k", lawn(1))
	wantCode(t, err, usher.CodeSeatsUnavailable)
	if err := set(64); err != nil {
		t.Fatal(err)
	}
	move := func(from, to, n int) error {
		return h.MoveCapacity(t.Context(), ledger.MoveCapacity{Event: fieldEvent, Tier: "lawn", From: from, To: to, Quantity: n, By: staff})
	}
	if err := move(1, 2, 10); err != nil {
		t.Fatal(err)
	}
	wantCode(t, move(1, 2, 6), usher.CodeStateConflict)
	wantCode(t, move(7, 2, 1), usher.CodeInvalidRequest)
	wantCode(t, move(1, 1, 1), usher.CodeInvalidRequest)
	if _, err := h.field(h.Ledger, usher.NewAccountID(), "k", lawn(6)); err != nil {
		t.Errorf("six are free over two buckets: %v", err)
	}
}
