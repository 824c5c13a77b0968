package ledger_test

import (
	"strings"
	"testing"
	"time"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg/pgtest"
)

// A look tells holds, payments and what is overdue apart, and other events' apart
// from its own.
func TestLive(t *testing.T) {
	h := newHall(t, 10, nil)
	look := func() ledger.Live {
		t.Helper()
		out, err := h.Live(t.Context(), testEvent)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := look(); got.Held+got.Paying+got.Overdue+len(got.Open) != 0 || got.Now.IsZero() {
		t.Errorf("an event at rest: %+v", got)
	}
	h.mustPlace(usher.NewAccountID(), "k", seatIDs(0, 1)...)
	late := h.mustPlace(usher.NewAccountID(), "k", seatIDs(2)...)
	h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatIDs(3)...), "c")
	h.mustConfirm(h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatIDs(4)...), "c"))
	h.lapse(late)
	h.exec(h.pool, `UPDATE payment_operation SET parked_at = clock_timestamp(), created_at = created_at - interval '1 hour' WHERE kind = 'capture'`)
	got := look()
	if got.Held != 1 || got.Paying != 1 || got.Overdue != 1 || got.OldestOverdue < time.Second || got.OldestOverdue > 5*time.Minute {
		t.Errorf("holds: %+v", got)
	}
	if len(got.Open) != 2 || got.Open[0].Kind != usher.OperationAuthorize || got.Open[0].Count != 1 || got.Open[0].Parked != 0 {
		t.Fatalf("open operations: %+v", got.Open)
	}
	if c := got.Open[1]; c.Kind != usher.OperationCapture || c.Count != 1 || c.Parked != 1 || c.Oldest < time.Hour {
		t.Errorf("the parked capture: %+v", c)
	}
	h.exec(h.pool, `UPDATE payment_operation SET event_id = 8`)
	if got := look(); len(got.Open) != 0 {
		t.Errorf("another event's operations: %+v", got.Open)
	}
	h.exec(h.pool, `UPDATE payment_operation SET event_id = 7`)
}

// A look reads by index alone, so that watching a sale does not slow it.
func TestLiveByIndex(t *testing.T) {
	h := newHall(t, 1, nil)
	h.exec(h.pool, `SET LOCAL statement_timeout = 0; INSERT INTO hold (hold_id, event_id, account_id, status, expires_at, seat_ids, tier_ids, price_version, amount_minor, currency,
			idempotency_key, request_digest, created_at, ended_at, places)
		SELECT gen_random_uuid(), 7, gen_random_uuid(), 'released', now(), '{A}', '{gold}', 1, 1, 'TWD', 'k' || i, '\x00', now(), now(), 1
		FROM generate_series(1, 20000) i`)
	for name, sql := range statementsOf(t, "live.go") {
		text := pgtest.Explain(t, h.pool, strings.NewReplacer("$1", "7", "$2", "10000").Replace(sql))
		if strings.Contains(text, "Seq Scan") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
	h.exec(h.pool, `DELETE FROM hold`)
}
