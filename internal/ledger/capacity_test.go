package ledger_test

import (
	"testing"

	"usher"
	"usher/internal/ledger"
)

// quota is what the buckets of the lawn have free, and their capacity together.
func (h *hall) quota() (free []int, capacity int) {
	h.t.Helper()
	buckets, err := h.Quota(h.t.Context(), fieldEvent)
	if err != nil {
		h.t.Fatalf("quota: %v", err)
	}
	for _, b := range buckets {
		free = append(free, b.Available)
		capacity += b.Available + b.Held + b.Sold
	}
	return free, capacity
}

// P96 over several buckets: the rule counts the whole tier, and free places keep
// their shares.
func TestCapacityOfTier(t *testing.T) {
	h := newField(t, 60, 3, func(r *usher.Rules) { r.PurchaseLimit = 100 })
	set := func(bucket, n int) error {
		return h.SetCapacity(t.Context(), ledger.SetCapacity{Event: fieldEvent, Tier: "lawn", Bucket: bucket, Capacity: n, By: staff})
	}
	want := func(what string, capacity int, free ...int) {
		t.Helper()
		got, sum := h.quota()
		if sum != capacity || len(got) != len(free) {
			t.Fatalf("%s: %v, together %d, want %d", what, got, sum, capacity)
		}
		for i, n := range free {
			if got[i] != n {
				t.Errorf("%s: %v, want %v", what, got, free)
			}
		}
	}
	if _, err := h.field(h.Ledger, usher.NewAccountID(), "k", lawn(6)); err != nil {
		t.Fatal(err)
	}
	want("six held", 60, 14, 20, 20)
	if err := h.MoveCapacity(t.Context(), ledger.MoveCapacity{Event: fieldEvent, Tier: "lawn", From: 2, To: 3, Quantity: 20, By: staff}); err != nil {
		t.Fatal(err)
	}
	want("all of bucket 2 moved", 60, 14, 0, 40)
	wantCode(t, set(0, 5), usher.CodeStateConflict)
	wantCode(t, set(0, -1), usher.CodeInvalidRequest)
	wantCode(t, set(4, 10), usher.CodeInvalidRequest)
	wantCode(t, set(-1, 10), usher.CodeInvalidRequest)
	want("refused", 60, 14, 0, 40)
	for _, step := range []struct {
		capacity int
		free     []int
	}{{114, []int{28, 0, 80}}, {33, []int{7, 0, 20}}, {6, []int{0, 0, 0}}, {14, []int{3, 3, 2}}, {14, []int{3, 3, 2}}, {15, []int{4, 3, 2}}} {
		if err := set(0, step.capacity); err != nil {
			t.Fatalf("to %d: %v", step.capacity, err)
		}
		want("set", step.capacity, step.free...)
	}
	if err := set(2, 0); err != nil {
		t.Fatal(err)
	}
	want("an empty bucket", 12, 4, 0, 2)
	if err := set(0, 60); err != nil {
		t.Fatal(err)
	}
}
