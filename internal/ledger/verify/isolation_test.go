package verify_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
)

// Hundreds of holds of one event wait for a row that somebody keeps locked. They
// take one connection of two, and another event is sold to with the other.
func TestHotEventTakesOneConnection(t *testing.T) {
	const crowd = 300
	h := newHall(t, 1, nil)
	h.addEvent(event+1, 20, func(r *usher.Rules) { r.PurchaseLimit = 20 })
	cfg := config(h.url)
	cfg.PoolSize = 2
	homes, err := pg.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(homes.Close)
	l, pool := newLedger(homes), homes.Shards()[0].Pool
	free := h.lockRow(sqlOneSeat, event, seatID(0))
	var arrived atomic.Int32
	var wg sync.WaitGroup
	for range crowd {
		wg.Go(func() {
			arrived.Add(1)
			// Granted, taken, or busy with the locked row: whatever it is, it comes later.
			_, err := l.PlaceHold(context.Background(), placing(usher.NewAccountID(), "k", seatID(0)))
			if code := usher.CodeOf(err); code != "" && code != usher.CodeSeatsUnavailable && code != usher.CodeBusy {
				t.Errorf("hot event: %v", err)
			}
		})
	}
	pgtest.Until(t, "the crowd", func() bool { return arrived.Load() == crowd && h.blocked() > 0 })
	a := usher.NewAccountID()
	for i := range 20 {
		hold, err := l.PlaceHold(t.Context(), ledger.PlaceHold{Event: event + 1, Account: a, Seats: seatIDs(i), Key: fmt.Sprint("k", i)})
		if err != nil {
			t.Fatalf("another event's hold: %v", err)
		}
		o, _, err := l.BeginPayment(t.Context(), beginning(hold, fmt.Sprint("c", i)))
		if err == nil {
			o, err = l.ConfirmOrder(t.Context(), confirming(o))
		}
		if err == nil {
			o, err = l.Order(t.Context(), o.ID)
		}
		if err != nil || o.Status != usher.OrderConfirmed {
			t.Fatalf("another event's order: %s, %v", o.Status, err)
		}
		if n := pool.Stat().AcquiredConns(); n > 1 {
			t.Errorf("%d connections are in use by the hot event", n)
		}
	}
	free()
	wg.Wait()
}
