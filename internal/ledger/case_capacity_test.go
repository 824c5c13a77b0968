package ledger_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"usher"
	"usher/internal/ledger"
)

// P96: capacity shrinks and grows while buyers buy. Nobody hears anything but yes,
// "sold out" or "state conflict", and what is free is never below nothing.
func TestCapacityMovesUnderBuyers(t *testing.T) {
	h := newField(t, 30, 2, func(r *usher.Rules) { r.PurchaseLimit = 100 })
	other := h.process()
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			a := usher.NewAccountID()
			for i := range 12 {
				_, err := h.field(h.Ledger, a, fmt.Sprint("k", i), lawn(1+i%3))
				if c := usher.CodeOf(err); c != "" && c != usher.CodeSeatsUnavailable {
					t.Errorf("buyer %d: %v", w, err)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 20 {
			err := other.SetCapacity(context.Background(), ledger.SetCapacity{Event: fieldEvent, Tier: "lawn", Bucket: 1 + i%2, Capacity: 5 * (i % 4), By: staff})
			if c := usher.CodeOf(err); c != "" && c != usher.CodeStateConflict {
				t.Errorf("capacity: %v", err)
			}
		}
	})
	wg.Wait()
	var least int
	h.scan(`SELECT min(available) FROM inventory_bucket`, &least)
	if least < 0 {
		t.Errorf("%d are free in a bucket", least)
	}
	// Back to what the field began with, for the recount at the end.
	for bucket, left := 1, 30; bucket <= 2; bucket++ {
		var used int
		h.scan(fmt.Sprintf(`SELECT held + sold FROM inventory_bucket WHERE bucket = %d`, bucket), &used)
		capacity := used
		if bucket == 2 {
			capacity = left
		}
		if err := h.SetCapacity(t.Context(), ledger.SetCapacity{Event: fieldEvent, Tier: "lawn", Bucket: bucket, Capacity: capacity, By: staff}); err != nil {
			t.Fatal(err)
		}
		left -= used
	}
}
