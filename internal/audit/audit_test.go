package audit_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/audit"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const event = usher.EventID(3)

// house is an event in which every kind of row exists, and which audits clean.
type house struct {
	t    *testing.T
	url  string
	l    *ledger.Ledger
	pool *pgxpool.Pool
	ro   *pg.Homes
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, url: pgtest.Database(t)}
	cfg := pg.Config{DirectoryURL: h.url, RoomURL: h.url, ShardURLs: map[pg.ShardNumber]string{1: h.url}}
	homes, err := pg.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(homes.Close)
	if h.ro, err = pg.OpenReadOnly(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.ro.Close)
	if _, err := homes.Directory.Exec(t.Context(), `INSERT INTO event_home (event_id, shard) VALUES ($1, 1)`, event); err != nil {
		t.Fatal(err)
	}
	h.l = ledger.New(homes, ledger.WithLog(slog.New(slog.DiscardHandler)))
	if h.pool, err = homes.Shard(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	h.fill()
	return h
}

// fill sells, holds, declines, voids, lapses, cancels and releases something.
func (h *house) fill() {
	h.t.Helper()
	rules := usher.DefaultRules("TWD")
	rules.Sale, rules.AdmissionRequired = usher.SaleOpen, false
	setup := ledger.Setup{Event: event, Rules: rules, Tiers: []ledger.Tier{
		{ID: "g", Name: "G", Price: usher.Money{AmountMinor: 10000, Currency: "TWD"}},
		{ID: "lawn", Name: "Lawn", Price: usher.Money{AmountMinor: 5000, Currency: "TWD"}},
	}, Standing: []ledger.StandingSetup{{Tier: "lawn", Capacity: 50, Buckets: 2}}}
	for i := range 40 {
		setup.Seats = append(setup.Seats, ledger.SeatSetup{ID: usher.SeatID(fmt.Sprintf("S%02d", i)), Tier: "g"})
	}
	h.must(h.l.SetUp(h.t.Context(), setup))
	h.place("S00", "S01") // stays held
	h.placeItems(3)       // stays held
	standing := h.confirm(h.begin(h.placeItems(2, "S20")))
	_, err := h.l.SettleCapture(h.t.Context(), ledger.SettleCapture{Order: standing.ID, Operation: standing.Capture.ID, Captured: true})
	h.must(err)
	h.begin(h.placeItems(1))
	h.begin(h.place("S02", "S03"))
	for _, seat := range []usher.SeatID{"S04", "S06"} {
		o := h.confirm(h.begin(h.place(seat)))
		_, err := h.l.SettleCapture(h.t.Context(), ledger.SettleCapture{Order: o.ID, Operation: o.Capture.ID, Captured: true})
		h.must(err)
	}
	h.confirm(h.begin(h.place("S07", "S08")))
	o := h.begin(h.place("S10"))
	_, err = h.l.FailPayment(h.t.Context(), ledger.FailPayment{Order: o.ID, Operation: o.Authorization.ID})
	h.must(err)
	o = h.begin(h.place("S11"))
	_, err = h.l.VoidOrder(h.t.Context(), ledger.VoidOrder{Order: o.ID, Reason: "test"})
	h.must(err)
	o = h.begin(h.place("S12"))
	_, err = h.l.VoidOrder(h.t.Context(), ledger.VoidOrder{Order: o.ID, Reason: "test"})
	h.must(err)
	_, err = h.l.FinishVoid(h.t.Context(), ledger.FinishVoid{Order: o.ID, Operation: h.operation(o.ID, "void")})
	h.must(err)
	o = h.confirm(h.begin(h.place("S13")))
	_, err = h.l.SettleCapture(h.t.Context(), ledger.SettleCapture{Order: o.ID, Operation: o.Capture.ID})
	h.must(err)
	released := h.place("S14")
	_, err = h.l.ReleaseHold(h.t.Context(), ledger.ReleaseHold{Hold: released.ID, Account: released.Account})
	h.must(err)
	lapsed := h.place("S15", "S16")
	h.exec(`UPDATE hold SET expires_at = clock_timestamp() - interval '1 second' WHERE hold_id = '` + uuid(lapsed.ID) + `'`)
	h.exec(`UPDATE seat_inventory SET hold_expires_at = (SELECT expires_at FROM hold h WHERE h.hold_id = seat_inventory.hold_id)
		WHERE hold_id = '` + uuid(lapsed.ID) + `'`)
	if _, err := h.l.ExpireHolds(h.t.Context(), event); err != nil {
		h.t.Fatal(err)
	}
	h.issue()
}

// issue gives captured orders their codes and the issuer its progress; one code is used.
func (h *house) issue() {
	h.exec(`INSERT INTO outbox_cursor (reader, event_id, seq) SELECT 'tickets', event_id, seq FROM event_ledger`)
	h.exec(`INSERT INTO pool (pool_id, event_id, tenant_id, kind, confirm_seconds, created_at)
		VALUES (gen_random_uuid(), 3, gen_random_uuid(), 'ticket', 60, clock_timestamp())`)
	h.exec(`INSERT INTO code (ticket_id, pool_id, event_id, code, order_id, line, seat_id, tier_id, issued_at)
		SELECT gen_random_uuid(), p.pool_id, 3, 'code-' || l.order_id || l.line, o.order_id, l.line, coalesce(l.seat_id, ''), l.tier_id, clock_timestamp()
		FROM orders o JOIN order_line l USING (order_id) CROSS JOIN pool p WHERE o.captured_at IS NOT NULL`)
	h.exec(`INSERT INTO redemption (redemption_id, ticket_id, event_id, device_id, transaction_id, settle, claimed_at, confirm_by, result, settled_at)
		SELECT gen_random_uuid(), ticket_id, 3, gen_random_uuid(), 't1', 'now', clock_timestamp(), clock_timestamp(), 'admitted', clock_timestamp()
		FROM code WHERE seat_id = 'S04'`)
	h.exec(`UPDATE code SET status = 'used', claimed_at = clock_timestamp(), used_at = clock_timestamp(), redemption_id = r.redemption_id
		FROM redemption r WHERE r.ticket_id = code.ticket_id`)
}

func uuid[ID ~[16]byte](id ID) string {
	b := [16]byte(id)
	return fmt.Sprintf("%x", b[:])
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) exec(sql string) {
	h.t.Helper()
	if _, err := h.pool.Exec(h.t.Context(), sql); err != nil {
		h.t.Fatalf("%s: %v", sql, err)
	}
}

func (h *house) operation(o usher.OrderID, kind string) (id usher.OperationID) {
	h.t.Helper()
	h.must(h.pool.QueryRow(h.t.Context(), `SELECT operation_id FROM payment_operation WHERE order_id = $1 AND kind = $2`, o, kind).Scan(&id))
	return id
}

func (h *house) place(seats ...usher.SeatID) ledger.Hold {
	h.t.Helper()
	hold, err := h.l.PlaceHold(h.t.Context(), ledger.PlaceHold{Event: event, Account: usher.NewAccountID(), Seats: seats, Key: "k"})
	h.must(err)
	return hold
}

func (h *house) placeItems(n int, seats ...usher.SeatID) ledger.Hold {
	h.t.Helper()
	hold, err := h.l.PlaceHold(h.t.Context(), ledger.PlaceHold{
		Event: event, Account: usher.NewAccountID(), Seats: seats, Items: []ledger.Item{{Tier: "lawn", Quantity: n}}, Key: "k",
	})
	h.must(err)
	return hold
}

func (h *house) begin(hold ledger.Hold) ledger.Order {
	h.t.Helper()
	o, _, err := h.l.BeginPayment(h.t.Context(), ledger.BeginPayment{Hold: hold.ID, Account: hold.Account, Provider: "test", MethodToken: "pm", Key: "c"})
	h.must(err)
	return o
}

func (h *house) confirm(o ledger.Order) ledger.Order {
	h.t.Helper()
	o, err := h.l.ConfirmOrder(h.t.Context(), ledger.ConfirmOrder{Order: o.ID, Operation: o.Authorization.ID, Authorized: o.Amount})
	h.must(err)
	return o
}

func (h *house) audit() *audit.Report {
	h.t.Helper()
	r, err := audit.Run(context.Background(), h.ro.Shards())
	h.must(err)
	return r
}

func TestCleanHouse(t *testing.T) {
	h := newHouse(t)
	r := h.audit()
	for _, c := range r.Checks {
		for _, v := range c.Violations {
			t.Errorf("%s: %s: %s", c.Check, v.Subject, v.Detail)
		}
		if c.Proves == "" {
			t.Errorf("%s does not say what it proves", c.Check)
		}
	}
	if !r.Clean() || !slices.Equal(r.Events, []usher.EventID{event}) {
		t.Errorf("report %+v", r)
	}
	if _, err := audit.Run(t.Context(), h.ro.Shards(), 99); usher.CodeOf(err) != usher.CodeNotFound {
		t.Errorf("an event that is not there: %v", err)
	}
}

// The audit cannot write, whatever its statements say.
func TestReadOnly(t *testing.T) {
	h := newHouse(t)
	_, err := h.ro.Shards()[0].Pool.Exec(t.Context(), `DELETE FROM outbox`)
	if pg.State(err) != "25006" {
		t.Errorf("a write through the audit's pool: %v", err)
	}
}

// unguarded drops what keeps the schema from letting a violation in at all.
const unguarded = `
DROP INDEX order_line_sold, operation_live;
ALTER TABLE orders DROP CONSTRAINT order_per_hold, DROP CONSTRAINT order_state;
ALTER TABLE hold DROP CONSTRAINT hold_key, DROP CONSTRAINT hold_state;
ALTER TABLE seat_inventory DROP CONSTRAINT seat_state;
ALTER TABLE code DROP CONSTRAINT code_state, DROP CONSTRAINT code_claim, DROP CONSTRAINT code_text;
ALTER TABLE redemption DROP CONSTRAINT redemption_per_code, DROP CONSTRAINT redemption_transaction, DROP CONSTRAINT redemption_settled;
ALTER TABLE payment_operation DROP CONSTRAINT operation_settled;
`

// ended ends the payment operations of the order that has the seat.
func ended(status, seat string) string {
	return fmt.Sprintf(`UPDATE payment_operation SET status = '%s', settled_at = now(), next_at = NULL
		WHERE order_id = (SELECT order_id FROM seat_inventory WHERE seat_id = '%s')`, status, seat)
}

// Each invariant has planted violations, and the audit names each. Every one is
// planted in a transaction of its own that is rolled back afterwards.
func TestPlantedViolations(t *testing.T) {
	h := newHouse(t)
	for _, tc := range []struct{ check, name, plant string }{
		{"one_sold_order_per_seat", "second sold line", `INSERT INTO order_line SELECT gen_random_uuid(), 1, event_id, account_id, seat_id, bucket, tier_id, amount_minor, 'sold'
			FROM order_line WHERE seat_id = 'S04'`},
		{"confirmed_order_owns_its_places", "a seat lost", `UPDATE seat_inventory SET status = 'available', hold_id = NULL, order_id = NULL WHERE seat_id = 'S08'`},
		{"confirmed_order_owns_its_places", "a line lost", `DELETE FROM order_line WHERE seat_id = 'S08'`},
		{"confirmed_order_owns_its_units", "sold from another bucket", `UPDATE order_line SET bucket = bucket + 1 WHERE bucket IS NOT NULL AND state = 'sold'`},
		{"confirmed_order_owns_its_units", "a unit lost", `DELETE FROM order_line WHERE (order_id, line) IN (SELECT order_id, line FROM order_line WHERE bucket IS NOT NULL AND state = 'sold' LIMIT 1)`},
		{"hold_counts_its_places", "more than it has", `UPDATE hold SET places = places + 1 WHERE 'S00' = ANY (seat_ids)`},
		{"hold_counts_its_places", "a seat twice", `UPDATE hold SET seat_ids = ARRAY['S00', 'S00'] WHERE 'S00' = ANY (seat_ids)`},
		{"hold_counts_its_places", "units lost", `DELETE FROM hold_line`},
		{"sold_seat_has_order", "sold to nobody", `UPDATE seat_inventory SET status = 'sold', hold_id = gen_random_uuid(), order_id = gen_random_uuid() WHERE seat_id = 'S30'`},
		{"sold_seat_has_order", "sold by a voided order", `UPDATE orders SET status = 'voided' WHERE order_id = (SELECT order_id FROM seat_inventory WHERE seat_id = 'S07')`},
		{"pending_seat_has_order", "order gone", `UPDATE seat_inventory SET order_id = gen_random_uuid() WHERE seat_id = 'S02'`},
		{"pending_seat_has_order", "hold ended", `UPDATE hold SET status = 'expired' WHERE 'S02' = ANY (seat_ids)`},
		{"held_seat_has_hold", "hold ended", `UPDATE hold SET status = 'released' WHERE 'S00' = ANY (seat_ids)`},
		{"held_seat_has_hold", "other deadline", `UPDATE seat_inventory SET hold_expires_at = hold_expires_at + interval '1 second' WHERE seat_id = 'S01'`},
		{"live_hold_owns_its_seats", "a seat given away", `UPDATE seat_inventory SET status = 'available', hold_id = NULL, hold_expires_at = NULL WHERE seat_id = 'S01'`},
		{"live_hold_owns_its_seats", "a pending seat with another deadline", `UPDATE seat_inventory SET hold_expires_at = hold_expires_at + interval '1 second' WHERE seat_id = 'S03'`},
		{"live_hold_owns_its_seats", "a pending seat given away", `UPDATE seat_inventory SET hold_id = gen_random_uuid() WHERE seat_id = 'S03'`},
		{"order_matches_hold", "other account", `UPDATE orders SET account_id = gen_random_uuid() WHERE status = 'payment_pending'`},
		{"order_matches_hold", "hold still held", `UPDATE hold SET status = 'held' WHERE 'S07' = ANY (seat_ids)`},
		{"order_matches_hold", "bought without an order", `UPDATE hold SET status = 'confirmed' WHERE 'S14' = ANY (seat_ids)`},
		{"order_matches_hold", "places paid for without an order", `UPDATE hold SET status = 'payment_pending', grace_until = now() WHERE status = 'held' AND seat_ids = '{}'`},
		{"order_total", "another tier than the seat's", `UPDATE order_line SET tier_id = 'lawn', amount_minor = 5000 WHERE seat_id = 'S07';
			UPDATE orders SET amount_minor = 15000 WHERE order_id = (SELECT order_id FROM seat_inventory WHERE seat_id = 'S07');
			UPDATE hold SET amount_minor = 15000 WHERE 'S07' = ANY (seat_ids)`},
		{"order_total", "other total", `UPDATE orders SET amount_minor = 1 WHERE status = 'payment_pending'`},
		{"order_total", "other price", `UPDATE order_line SET amount_minor = 5000 WHERE seat_id IN ('S07', 'S08')`},
		{"order_total", "line still sold", `UPDATE order_line SET state = 'sold' WHERE seat_id = 'S13'`},
		{"outbox_without_holes", "a row gone", `DELETE FROM outbox WHERE seq = 5`},
		{"outbox_without_holes", "the last gone", `DELETE FROM outbox WHERE seq = (SELECT max(seq) FROM outbox)`},
		{"outbox_without_holes", "ledger gone", `DELETE FROM event_ledger`},
		{"outbox_replays_to_seats", "a move that made places", `WITH l AS (UPDATE event_ledger SET seq = seq + 1 RETURNING seq),
				b AS (UPDATE inventory_bucket SET available = available + 10, version = version + 1 WHERE bucket = 1 RETURNING *)
			INSERT INTO outbox SELECT 3, l.seq, gen_random_uuid(), 'evt_3', 'capacity_moved', 'MoveCapacity by opr_x: x', jsonb_build_object('buckets', jsonb_build_array(
				jsonb_build_object('tierId', 'lawn', 'bucket', 1, 'available', b.available, 'held', b.held, 'sold', b.sold, 'version', b.version))), now() FROM l, b`},
		{"outbox_replays_to_seats", "version moved", `UPDATE seat_inventory SET version = version + 1 WHERE seat_id = 'S04'`},
		{"outbox_replays_to_seats", "blocked by hand", `UPDATE seat_inventory SET status = 'blocked' WHERE seat_id = 'S33'`},
		{"outbox_replays_to_seats", "owner swapped", `UPDATE seat_inventory SET hold_id = gen_random_uuid() WHERE seat_id = 'S04'`},
		{"outbox_replays_to_seats", "expiry of another's seat", `UPDATE outbox SET payload = jsonb_set(payload::jsonb, '{holdId}', '"hld_00000000000000000000000000"') WHERE type = 'hold_expired'`},
		{"outbox_replays_to_seats", "a seat without its version", `UPDATE outbox SET payload = jsonb_set(payload::jsonb, '{moves,0,versions}', '[]') WHERE type = 'hold_placed' AND seq = 1`},
		{"buckets_add_up", "a unit lost", `UPDATE inventory_bucket SET held = held - 1 WHERE bucket = 1 AND held > 0`},
		{"buckets_add_up", "a unit sold twice", `UPDATE inventory_bucket SET sold = sold + 1, available = available - 1 WHERE bucket = 2`},
		{"buckets_add_up", "lines for another bucket", `UPDATE hold_line SET quantity = quantity + 1`},
		{"outbox_replays_to_seats", "capacity from nowhere", `UPDATE inventory_bucket SET available = available + 1 WHERE bucket = 1`},
		{"outbox_replays_to_seats", "bucket version moved", `UPDATE inventory_bucket SET version = version + 1 WHERE bucket = 1`},
		{"purchase_limit", "limit passed", `UPDATE order_line SET account_id = (SELECT account_id FROM order_line WHERE seat_id = 'S04') WHERE state = 'sold';
			UPDATE event_rules SET purchase_limit = 1, purchase_limit_highest = 1`},
		{"one_live_order_per_hold", "second order", `INSERT INTO orders SELECT gen_random_uuid(), hold_id, event_id, account_id, amount_minor, currency, price_version, status,
			payment_operation_id, created_at, confirmed_at, captured_at, closed_at, close_reason FROM orders WHERE status = 'declined'`},
		{"one_live_authorization", "second authorization", `INSERT INTO payment_operation (operation_id, order_id, event_id, kind, status, provider, amount_minor, currency,
			idempotency_key, created_at, updated_at, next_at) SELECT gen_random_uuid(), order_id, event_id, kind, 'unknown', provider, amount_minor, currency, 'x', created_at, updated_at, next_at
			FROM payment_operation WHERE kind = 'authorize' AND status = 'created'`},
		{"one_live_authorization", "names none", `UPDATE orders SET payment_operation_id = NULL WHERE status = 'payment_pending'`},
		{"captured_is_total", "captured less", `UPDATE payment_operation SET amount_minor = 1 WHERE kind = 'capture' AND status = 'succeeded'`},
		{"captured_is_total", "captured twice", `INSERT INTO payment_operation (operation_id, order_id, event_id, kind, status, provider, amount_minor, currency,
			idempotency_key, created_at, updated_at, settled_at) SELECT gen_random_uuid(), order_id, event_id, kind, status, provider, amount_minor, currency, 'x', created_at, updated_at, settled_at
			FROM payment_operation WHERE kind = 'capture' AND status = 'succeeded'`},
		{"captured_is_total", "marked captured", `UPDATE orders SET captured_at = clock_timestamp() WHERE status = 'confirmed' AND captured_at IS NULL`},
		{"authorization_settled", "no capture", `DELETE FROM payment_operation WHERE kind = 'capture' AND status = 'created'`},
		{"authorization_settled", "open on a closed order", `UPDATE payment_operation SET status = 'unknown', settled_at = NULL, next_at = clock_timestamp()
			WHERE kind = 'authorize' AND order_id = (SELECT order_id FROM orders WHERE status = 'voided')`},
		{"no_live_money_on_freed_seats", "authorized and voided", `UPDATE payment_operation SET status = 'succeeded'
			WHERE kind = 'authorize' AND order_id = (SELECT order_id FROM orders WHERE status = 'voided')`},
		{"no_live_money_on_freed_seats", "void lost", `DELETE FROM payment_operation WHERE kind = 'void' AND order_id = (SELECT order_id FROM orders WHERE status = 'cancelled')`},
		{"order_has_its_payment", "sold for nothing", ended("failed", "S07")},
		{"order_has_its_payment", "sold, money given back", ended("reversed", "S04")},
		{"order_has_its_payment", "sold, authorization failed", ended("failed", "S07") + ` AND kind = 'authorize'`},
		{"order_has_its_payment", "sold, capture failed", ended("failed", "S07") + ` AND kind = 'capture'`},
		{"order_has_its_payment", "captured, not marked", `UPDATE orders SET captured_at = NULL WHERE order_id = (SELECT order_id FROM seat_inventory WHERE seat_id = 'S04')`},
		{"order_has_its_payment", "pending for ever", ended("failed", "S02")},
		{"order_has_its_payment", "authorized, nobody confirms", ended("succeeded", "S02")},
		{"order_has_its_payment", "given up without a void", `DELETE FROM payment_operation WHERE kind = 'void' AND order_id = (SELECT order_id FROM orders WHERE status = 'voiding')`},
		{"order_has_its_payment", "void done, seats still pending", ended("succeeded", "S11") + ` AND kind = 'void'`},
		{"order_has_its_payment", "void and authorization failed", ended("failed", "S11")},
		{"order_has_its_payment", "given back twice", `INSERT INTO payment_operation (operation_id, order_id, event_id, kind, status, provider, amount_minor, currency,
			idempotency_key, created_at, updated_at, settled_at) SELECT gen_random_uuid(), order_id, event_id, 'refund', status, provider, amount_minor, currency, 'x', created_at, updated_at, settled_at
			FROM payment_operation WHERE kind = 'void' AND status = 'succeeded'`},
		{"order_has_its_payment", "authorized less", `UPDATE payment_operation SET amount_minor = 1 WHERE kind = 'authorize'`},
		{"order_has_its_payment", "another currency", `UPDATE payment_operation SET currency = 'USD' WHERE kind = 'authorize'`},
		{"order_has_its_payment", "one payment, two orders", `UPDATE payment_operation SET provider_reference = 'pi_1' WHERE kind = 'authorize'`},
		{"order_has_its_payment", "operation of another event", `UPDATE payment_operation SET event_id = 99 WHERE kind = 'authorize' AND status = 'created'`},
		{"operation_has_work", "forgotten", `UPDATE payment_operation SET next_at = NULL WHERE kind = 'authorize' AND status = 'created'`},
		{"ticket_per_place", "ticket missing", `DELETE FROM code WHERE seat_id = 'S06'`},
		{"ticket_per_place", "ticket without order", `INSERT INTO code (ticket_id, pool_id, event_id, code, order_id, line, seat_id, tier_id, issued_at)
			SELECT gen_random_uuid(), pool_id, 3, 'extra', gen_random_uuid(), 1, 'S20', 'g', clock_timestamp() FROM pool`},
		{"ticket_per_place", "ticket for another place", `UPDATE code SET seat_id = 'S21' WHERE seat_id = 'S06'`},
		{"ticket_per_place", "capture nobody told of", `UPDATE outbox SET type = 'payment_failed' WHERE seq = (SELECT max(seq) FROM outbox WHERE type = 'order_captured')`},
		{"ticket_follows_order", "voided though its order stands", `UPDATE code SET status = 'voided', voided_at = now() WHERE seat_id = 'S06'`},
		{"ticket_follows_order", "unused, its order cancelled", `UPDATE orders SET status = 'cancelled' WHERE order_id = (SELECT order_id FROM code WHERE seat_id = 'S06')`},
		{"codes_told_apart", "two tickets, one text", `UPDATE code SET code = 'same'`},
		{"codes_told_apart", "one transaction, two codes", `INSERT INTO redemption (redemption_id, ticket_id, event_id, device_id, transaction_id, settle, claimed_at, confirm_by, result, settled_at)
			SELECT gen_random_uuid(), (SELECT ticket_id FROM code WHERE seat_id = 'S06'), 3, device_id, transaction_id, settle, claimed_at, confirm_by, result, settled_at FROM redemption`},
		{"one_redemption_per_code", "used, its redemption failed", `UPDATE redemption SET result = 'failed'`},
		{"one_redemption_per_code", "used, its redemption open", `UPDATE redemption SET result = NULL, settled_at = NULL`},
		{"one_redemption_per_code", "back in unused", `UPDATE code SET status = 'unused', claimed_at = NULL, used_at = NULL WHERE seat_id = 'S04'`},
		{"one_redemption_per_code", "redeemed twice", `INSERT INTO redemption (redemption_id, ticket_id, event_id, device_id, transaction_id, settle, claimed_at, confirm_by)
			SELECT gen_random_uuid(), ticket_id, 3, gen_random_uuid(), 't2', 'now', claimed_at, confirm_by FROM redemption`},
		{"one_redemption_per_code", "used without a claim", `UPDATE code SET status = 'used', used_at = clock_timestamp() WHERE seat_id = 'S06'`},
		{"one_meaning_per_key", "one key, two holds", `INSERT INTO hold SELECT gen_random_uuid(), event_id, account_id, session_id, status, expires_at, grace_until, seat_ids, tier_ids,
			standing_ids, places, price_version, amount_minor, currency, idempotency_key, request_digest, created_at, ended_at FROM hold WHERE status = 'released' LIMIT 1`},
		{"one_meaning_per_key", "an order that is not there", `UPDATE idempotency_record SET result = '{"orderId": "ord_00000000000000000000000000"}' WHERE operation = 'checkout'`},
		{"one_meaning_per_key", "another's order", `UPDATE idempotency_record SET account_id = gen_random_uuid() WHERE operation = 'checkout'`},
		{"one_meaning_per_key", "refused and granted", `INSERT INTO idempotency_record SELECT event_id, account_id, 'hold', idempotency_key, '\x00', '{"code":"sale_closed"}', now(), now() + interval '1 day'
			FROM hold WHERE status = 'held' LIMIT 1`},
	} {
		t.Run(tc.check+"/"+tc.name, func(t *testing.T) {
			tx, err := h.pool.Begin(t.Context())
			h.must(err)
			defer pg.Rollback(t.Context(), tx)
			_, err = tx.Exec(t.Context(), unguarded)
			h.must(err)
			_, err = tx.Exec(t.Context(), tc.plant)
			h.must(err)
			r, err := audit.RunOn(t.Context(), tx)
			h.must(err)
			i := slices.IndexFunc(r.Checks, func(c audit.Result) bool { return c.Check == tc.check })
			if i < 0 || r.Checks[i].Count == 0 || r.Checks[i].Violations[0].Subject == "" || strings.Contains(r.Checks[i].Violations[0].Detail, "%!") {
				t.Errorf("%s did not find it: %+v", tc.check, r)
			}
		})
	}
}

// A check that has no planted violation is no check.
func TestEveryCheckIsPlanted(t *testing.T) {
	h := newHouse(t)
	planted := plantedChecks(t)
	for _, c := range h.audit().Checks {
		if len(planted[c.Check]) == 0 {
			t.Errorf("%s has no planted violation", c.Check)
		}
	}
}

// The page lists exactly these checks, what they prove, and what is planted.
func TestPageListsTheChecks(t *testing.T) {
	page, err := os.ReadFile("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	planted := plantedChecks(t)
	for _, c := range newHouse(t).audit().Checks {
		want = append(want, fmt.Sprintf("| `%s` | %s | %s |", c.Check, c.Proves, strings.Join(planted[c.Check], "; ")))
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table of docs/audit.md should be:\n%s", strings.Join(want, "\n"))
	}
}
