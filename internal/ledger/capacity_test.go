package ledger_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

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

// Holds of a tier lapse all the time while a command counts it: it runs once more, and
// is answered then. The number that it is refused with was right when it began.
func TestLapsesAllTheTime(t *testing.T) {
	const n = 4000
	h := newField(t, n, 1, nil)
	metrics := prometheus.NewRegistry()
	l := ledger.New(h.homes, ledger.WithLog(slog.New(slog.DiscardHandler)), ledger.WithMetrics(metrics))
	h.exec(h.pool, fmt.Sprintf(`INSERT INTO hold (hold_id, event_id, account_id, status, expires_at, seat_ids, tier_ids, standing_ids, places, price_version,
			amount_minor, currency, idempotency_key, request_digest, created_at)
		SELECT gen_random_uuid(), %d, gen_random_uuid(), 'held', clock_timestamp() + i * interval '500 us', '{}', '{}', '{lawn}', 1, 1,
			80000, 'TWD', 'k', 'x', now()
		FROM generate_series(1, %d) i`, fieldEvent, n))
	h.exec(h.pool, `INSERT INTO hold_line SELECT hold_id, 'lawn', 1, 1 FROM hold`)
	h.exec(h.pool, fmt.Sprintf(`UPDATE inventory_bucket SET available = 0, held = %d`, n))
	set := func(capacity int) error {
		return l.SetCapacity(t.Context(), ledger.SetCapacity{Event: fieldEvent, Tier: "lawn", Capacity: capacity, By: staff})
	}
	refused := 0
	err := set(0)
	for ; err != nil; err = set(0) {
		wantCode(t, err, usher.CodeStateConflict)
		refused++
	}
	// The last command, which is granted, may have run twice as well.
	if again := reruns(t, metrics, "lapsed"); refused == 0 || again == 0 || again > float64(refused+1) {
		t.Errorf("%d refusals took %v more runs", refused, again)
	}
	if err := set(n); err != nil {
		t.Fatal(err)
	}
}
