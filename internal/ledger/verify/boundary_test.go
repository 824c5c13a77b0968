package verify_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"usher"
	"usher/internal/ledger"
)

// These tests attach doubles of what is outside of usher to the ports that
// docs/boundaries.md names. Each ends with the audit, as all tests here do.

// pricer is a dynamic pricing engine: it knows prices, and nothing of holds.
type pricer struct{ l *ledger.Ledger }

func (p pricer) set(ctx context.Context, amount int64) error {
	return p.l.SetPrices(ctx, event, []ledger.Tier{{ID: "gold", Name: "Gold", Price: usher.Money{AmountMinor: amount, Currency: "TWD"}}})
}

// Dynamic pricing during a sale: a hold keeps the price it was made at to the
// end, whatever the engine does meanwhile.
func TestBoundaryPricing(t *testing.T) {
	h := newHall(t, 60, func(r *usher.Rules) { r.PendingPerAccountMax = 100 })
	engine := pricer{h.process()}
	sold := make(chan struct{}, 60)
	var moving, buying sync.WaitGroup
	moving.Go(func() {
		amount := int64(100000)
		for range sold {
			amount += 1000
			if err := engine.set(context.Background(), amount); err != nil {
				t.Errorf("set prices: %v", err)
			}
		}
	})
	for w := range 6 {
		buying.Go(func() {
			for i := range 10 {
				buyAtHeldPrice(t, h.Ledger, seatID(10*w+i), sold)
			}
		})
	}
	buying.Wait()
	close(sold)
	moving.Wait()
	if n := one[int](h, `SELECT count(DISTINCT price_version) FROM hold`); n < 2 {
		t.Errorf("all holds were made at %d price", n)
	}
}

// buyAtHeldPrice buys one seat; the engine hears of the hold, so that prices move
// between hold and sale. A rule that changes under a group makes it "busy".
func buyAtHeldPrice(t *testing.T, l *ledger.Ledger, seat usher.SeatID, heard chan<- struct{}) {
	ctx := context.Background()
	var hold ledger.Hold
	var begun, o ledger.Order
	for _, command := range []func() error{
		func() (err error) {
			hold, err = l.PlaceHold(ctx, placing(usher.NewAccountID(), "k", seat))
			return err
		},
		func() (err error) { begun, _, err = l.BeginPayment(ctx, beginning(hold, "c")); return err },
		func() (err error) { o, err = l.ConfirmOrder(ctx, confirming(begun)); return err },
	} {
		err := command()
		for tries := 0; usher.CodeOf(err) == usher.CodeBusy && tries < 50; tries++ {
			err = command()
		}
		if err != nil {
			t.Errorf("seat %s: %v", seat, err)
			return
		}
		select {
		case heard <- struct{}{}:
		default:
		}
	}
	if o.Amount != hold.Amount || o.Seats[0].Price != hold.Seats[0].Price {
		t.Errorf("seat %s was held at %v and sold at %v", seat, hold.Amount, o.Amount)
	}
}

// Resale: a sold seat goes back and to one buyer alone, by moves that staff have:
// cancel, block before anybody else has it, unblock for the new buyer's hold.
func TestBoundaryResale(t *testing.T) {
	h := newHall(t, 4, nil)
	desk := ledger.Staff{Operator: usher.NewOperatorID(), Reason: "resale 17"}
	seller := h.mustConfirm(h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatID(0)), "c"))
	if _, err := h.CancelOrder(t.Context(), ledger.CancelOrder{Order: seller.ID, By: desk}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.BlockSeats(t.Context(), ledger.BlockSeats{Event: event, Seats: seatIDs(0), By: desk}); err != nil {
		t.Fatal(err)
	}
	_, err := h.PlaceHold(t.Context(), placing(usher.NewAccountID(), "k", seatID(0)))
	wantCode(t, err, usher.CodeSeatsUnavailable)
	if _, err := h.UnblockSeats(t.Context(), ledger.UnblockSeats{Event: event, Seats: seatIDs(0), By: desk}); err != nil {
		t.Fatal(err)
	}
	buyer := h.mustConfirm(h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatID(0)), "c"))
	h.wantSeat(seatID(0), usher.SeatSold, buyer.Hold)
	if old, err := h.Order(t.Context(), seller.ID); err != nil || old.Status != usher.OrderCancelled {
		t.Errorf("the seller's order: %+v, %v", old, err)
	}
}

// books is an accounting system that knows the changes feed alone.
type books struct {
	after    int64
	amount   map[usher.OrderID]int64
	sold     map[usher.OrderID]bool
	captured map[usher.OrderID]bool
	returned map[usher.OrderID]bool
}

func newBooks() *books {
	return &books{amount: map[usher.OrderID]int64{}, sold: map[usher.OrderID]bool{}, captured: map[usher.OrderID]bool{}, returned: map[usher.OrderID]bool{}}
}

// read consumes a page and reports whether there was one. Reading a page twice
// changes nothing.
func (b *books) read(t *testing.T, l *ledger.Ledger) bool {
	t.Helper()
	page, err := l.Changes(t.Context(), event, b.after, 7)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, e := range page {
			id := e.Payload.Order
			switch e.Type {
			case ledger.EntryOrderConfirmed:
				b.amount[id], b.sold[id] = e.Payload.Amount.AmountMinor, true
			case ledger.EntryOrderCaptured:
				b.captured[id] = true
			case ledger.EntryOrderCancelled:
				b.returned[id] = true
			}
		}
	}
	if len(page) == 0 {
		return false
	}
	b.after = page[len(page)-1].Seq
	return true
}

// totals are what an accountant asks: sold, captured (to be invoiced), and to be
// given back.
func (b *books) totals() (sold, captured, returned int64) {
	for id, amount := range b.amount {
		sold += amount
		if b.captured[id] {
			captured += amount
		}
		if b.returned[id] {
			returned += amount
		}
	}
	return sold, captured, returned
}

// Refund accounting and invoices: a reader of the feed rebuilds the totals, and
// they are the orders'.
func TestBoundaryAccounts(t *testing.T) {
	h := newHall(t, 20, func(r *usher.Rules) { r.PurchaseLimit, r.PendingPerAccountMax = 100, 100 })
	a := usher.NewAccountID()
	for i := range 10 {
		o := h.mustConfirm(h.mustBegin(h.mustPlace(a, fmt.Sprint("k", i), seatIDs(2*i, 2*i+1)...), fmt.Sprint("c", i)))
		if i < 7 {
			if _, err := h.SettleCapture(t.Context(), ledger.SettleCapture{Order: o.ID, Operation: o.Capture.ID, Captured: true}); err != nil {
				t.Fatal(err)
			}
		}
		if i%3 == 0 {
			by := ledger.Staff{Operator: usher.NewOperatorID(), Reason: "asked for"}
			if _, err := h.CancelOrder(t.Context(), ledger.CancelOrder{Order: o.ID, By: by}); err != nil {
				t.Fatal(err)
			}
		}
	}
	b := newBooks()
	for b.read(t, h.Ledger) {
	}
	sold, captured, returned := b.totals()
	want := func(where string) int64 {
		return one[int64](h, `SELECT coalesce(sum(amount_minor), 0)::bigint FROM orders WHERE confirmed_at IS NOT NULL AND `+where)
	}
	if sold != want("true") || captured != want("captured_at IS NOT NULL") || returned != want("status = 'cancelled'") || returned == 0 {
		t.Errorf("books: sold %d, captured %d, to be returned %d; orders: %d, %d, %d", sold, captured, returned,
			want("true"), want("captured_at IS NOT NULL"), want("status = 'cancelled'"))
	}
}
