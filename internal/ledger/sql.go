package ledger

// Trip 0, resolve: ids that commands lack come from columns that never change,
// and the holds of the event that are due. Every key list is sorted in Go, and
// every look-up is a LATERAL with OFFSET 0 on a full key: on tables that were
// never analysed a plain join or = ANY would scan the whole event.
const (
	// The time is a sub-select: a bare clock_timestamp() is volatile and no index
	// condition, so that every live hold of the event would be read per group.
	// Ordered by the index alone: with one more column, and no statistics, every due
	// hold was read and sorted (10.6 ms a group behind 25,000 of them, now 0.4).
	// $2 are freed, $3 once any is late by two seconds: then no group may put it off.
	sqlDueHolds = `
WITH oldest AS (
    SELECT expires_at AS at FROM hold
    WHERE event_id = $1 AND status = 'held' AND expires_at <= (SELECT clock_timestamp())
    ORDER BY expires_at LIMIT 1)
SELECT hold_id, account_id, seat_ids, standing_ids
FROM hold
WHERE event_id = $1 AND status = 'held' AND expires_at >= (SELECT at FROM oldest) AND expires_at <= (SELECT clock_timestamp())
ORDER BY expires_at
LIMIT (SELECT CASE WHEN at <= clock_timestamp() - interval '2 s' THEN $3::bigint ELSE $2::bigint END FROM oldest)`

	sqlResolveHolds = `
SELECT h.hold_id, h.account_id, h.seat_ids, h.standing_ids
FROM unnest($1::uuid[]) k(id)
CROSS JOIN LATERAL (SELECT hold_id, account_id, seat_ids, standing_ids FROM hold WHERE hold_id = k.id OFFSET 0) h`

	sqlResolveOrders = `
SELECT o.order_id, h.hold_id, h.account_id, h.seat_ids, h.standing_ids
FROM unnest($1::uuid[]) k(id)
CROSS JOIN LATERAL (SELECT order_id, hold_id FROM orders WHERE order_id = k.id OFFSET 0) o
CROSS JOIN LATERAL (SELECT hold_id, account_id, seat_ids, standing_ids FROM hold WHERE hold_id = o.hold_id OFFSET 0) h`
)

// Trip 1, lock then read. Classes are locked in this order everywhere: accounts,
// seats, buckets, holds, orders, payment operations; inside a class in key order.
const (
	sqlEnsureUsage = `
INSERT INTO account_usage (event_id, account_id)
SELECT $1, k.id FROM unnest($2::uuid[]) k(id)
ON CONFLICT DO NOTHING`

	sqlLockUsage = `
SELECT u.account_id, u.blocked
FROM unnest($2::uuid[]) k(id)
CROSS JOIN LATERAL (
    SELECT account_id, blocked FROM account_usage WHERE event_id = $1 AND account_id = k.id
    OFFSET 0 FOR NO KEY UPDATE) u`

	sqlLockSeats = `
SELECT s.seat_id, s.tier_id, s.price_version, s.status, s.hold_id, s.hold_expires_at, s.order_id, s.version
FROM unnest($2::text[]) k(id)
CROSS JOIN LATERAL (
    SELECT seat_id, tier_id, price_version, status, hold_id, hold_expires_at, order_id, version
    FROM seat_inventory WHERE event_id = $1 AND seat_id = k.id
    OFFSET 0 FOR NO KEY UPDATE) s`

	sqlLockBuckets = `
SELECT b.tier_id, b.bucket, b.available, b.held, b.sold, b.version
FROM unnest($2::text[]) k(id)
CROSS JOIN LATERAL (
    SELECT tier_id, bucket, available, held, sold, version
    FROM inventory_bucket WHERE event_id = $1 AND tier_id = k.id
    ORDER BY bucket
    OFFSET 0 FOR NO KEY UPDATE) b`

	sqlReadHoldLines = `
SELECT l.hold_id, l.tier_id, l.bucket, l.quantity
FROM unnest($1::uuid[]) k(id)
CROSS JOIN LATERAL (
    SELECT hold_id, tier_id, bucket, quantity FROM hold_line WHERE hold_id = k.id ORDER BY tier_id, bucket OFFSET 0) l`

	sqlLockHolds = `
SELECT h.hold_id, h.account_id, h.session_id, h.status, h.expires_at, h.grace_until, h.seat_ids, h.tier_ids, h.price_version,
    h.amount_minor, h.currency, h.idempotency_key, h.request_digest, h.created_at, h.ended_at, h.places
FROM unnest($1::uuid[]) k(id)
CROSS JOIN LATERAL (
    SELECT hold_id, account_id, session_id, status, expires_at, grace_until, seat_ids, tier_ids, price_version,
        amount_minor, currency, idempotency_key, request_digest, created_at, ended_at, places
    FROM hold WHERE hold_id = k.id
    OFFSET 0 FOR NO KEY UPDATE) h`

	sqlLockOrders = `
SELECT o.order_id, o.hold_id, o.account_id, o.amount_minor, o.currency, o.status, o.payment_operation_id, o.created_at,
    o.confirmed_at, o.captured_at, o.closed_at, o.close_reason
FROM unnest($1::uuid[]) k(id)
CROSS JOIN LATERAL (
    SELECT order_id, hold_id, account_id, amount_minor, currency, status, payment_operation_id, created_at,
        confirmed_at, captured_at, closed_at, close_reason
    FROM orders WHERE hold_id = k.id
    OFFSET 0 FOR NO KEY UPDATE) o`

	// What a run that skips locked rows may have skipped, read without locks.
	sqlReadPayments = `
SELECT o.hold_id, o.order_id, p.operation_id
FROM unnest($1::uuid[]) k(id)
CROSS JOIN LATERAL (SELECT order_id, hold_id FROM orders WHERE hold_id = k.id OFFSET 0) o
LEFT JOIN LATERAL (SELECT operation_id FROM payment_operation WHERE order_id = o.order_id OFFSET 0) p ON true`

	// The orders are locked by now and order_id never changes, so the join is safe.
	sqlLockOperations = `
SELECT p.operation_id, p.order_id, p.kind, p.status, p.provider, p.provider_reference, p.method_token, p.amount_minor,
    p.currency, p.idempotency_key, p.action_url, p.provider_code, p.capture_before, p.sent_at, p.settled_at,
    p.created_at, p.updated_at, p.next_at, p.attempts, p.parked_at, p.last_error
FROM unnest($1::uuid[]) k(id)
CROSS JOIN LATERAL (SELECT order_id FROM orders WHERE hold_id = k.id OFFSET 0) o
CROSS JOIN LATERAL (
    SELECT operation_id, order_id, kind, status, provider, provider_reference, method_token, amount_minor,
        currency, idempotency_key, action_url, provider_code, capture_before, sent_at, settled_at,
        created_at, updated_at, next_at, attempts, parked_at, last_error
    FROM payment_operation WHERE order_id = o.order_id
    ORDER BY operation_id
    OFFSET 0 FOR NO KEY UPDATE) p`

	sqlReadLines = `
SELECT l.order_id, coalesce(l.seat_id, ''), coalesce(l.bucket, 0), l.tier_id, l.amount_minor, l.state
FROM unnest($1::uuid[]) k(id)
CROSS JOIN LATERAL (SELECT order_id FROM orders WHERE hold_id = k.id OFFSET 0) o
CROSS JOIN LATERAL (
    SELECT order_id, line, seat_id, bucket, tier_id, amount_minor, state FROM order_line WHERE order_id = o.order_id
    ORDER BY line OFFSET 0) l`

	sqlReadHoldKeys = `
SELECT h.hold_id, h.account_id, h.session_id, h.status, h.expires_at, h.grace_until, h.seat_ids, h.tier_ids, h.price_version,
    h.amount_minor, h.currency, h.idempotency_key, h.request_digest, h.created_at, h.ended_at, h.places
FROM unnest($2::uuid[], $3::text[]) k(account, key)
CROSS JOIN LATERAL (
    SELECT hold_id, account_id, session_id, status, expires_at, grace_until, seat_ids, tier_ids, price_version,
        amount_minor, currency, idempotency_key, request_digest, created_at, ended_at, places
    FROM hold WHERE event_id = $1 AND account_id = k.account AND idempotency_key = k.key OFFSET 0) h`

	sqlReadRecords = `
SELECT r.account_id, r.operation, r.idempotency_key, r.request_digest, r.result, r.expires_at
FROM unnest($2::uuid[], $3::text[], $4::text[]) k(account, operation, key)
CROSS JOIN LATERAL (
    SELECT account_id, operation, idempotency_key, request_digest, result, expires_at
    FROM idempotency_record
    WHERE event_id = $1 AND account_id = k.account AND operation = k.operation AND idempotency_key = k.key OFFSET 0) r`

	// Usage is a recount under the account's lock, never a counter that could drift.
	sqlReadLive = `
SELECT h.account_id, h.hold_id, h.status, h.expires_at, h.places
FROM unnest($2::uuid[]) k(id)
CROSS JOIN LATERAL (
    SELECT account_id, hold_id, status, expires_at, places FROM hold
    WHERE event_id = $1 AND account_id = k.id AND status IN ('held', 'payment_pending') OFFSET 0) h`

	sqlReadSold = `
SELECT k.id, n.sold
FROM unnest($2::uuid[]) k(id)
CROSS JOIN LATERAL (
    SELECT count(*) AS sold FROM order_line WHERE event_id = $1 AND account_id = k.id AND state = 'sold' OFFSET 0) n
WHERE n.sold > 0`

	sqlReadSessions = `
SELECT s.account_id, s.session_id, s.expires_at
FROM unnest($2::uuid[]) k(id)
CROSS JOIN LATERAL (
    SELECT account_id, session_id, expires_at FROM shopper_session
    WHERE event_id = $1 AND account_id = k.id AND ended_at IS NULL OFFSET 0) s`

	sqlReadPending = `SELECT count(*) FROM hold WHERE event_id = $1 AND status = 'payment_pending'`

	sqlMoreDue = `
SELECT EXISTS (
    SELECT FROM hold
    WHERE event_id = $1 AND status = 'held' AND expires_at <= (SELECT clock_timestamp())
        AND standing_ids && $2::text[] AND hold_id <> ALL ($3::uuid[]))`

	sqlLockLedger = `SELECT 1 FROM event_ledger WHERE event_id = $1 FOR NO KEY UPDATE`

	sqlReadEpoch = `SELECT epoch FROM event_ledger WHERE event_id = $1`

	sqlHasEntry = `SELECT EXISTS (SELECT FROM outbox WHERE event_id = $1 AND seq = $2 AND operation_id = $3)`

	// The clock is read last, after every lock is held: now() would be the start
	// of the transaction, before the waiting.
	sqlReadLedger = `
SELECT l.epoch, l.rules_version, r.sale, r.sale_closes_at, r.admission_required, r.purchase_limit, r.hold_seconds,
    r.grace_seconds, r.pay_margin_seconds, r.pending_per_account_max, r.pending_per_event_max, r.price_version, r.currency,
    clock_timestamp()
FROM event_ledger l
JOIN event_rules r ON r.event_id = l.event_id
WHERE l.event_id = $1`

	sqlReadPrices = `SELECT price_version, tier_id, name, amount_minor, withdrawn FROM price_version WHERE event_id = $1`
)

// Trip 2, write. An INSERT that turns into an UPDATE on its own key cannot be
// planned badly, whatever the statistics say; every row is locked by this
// transaction already, or new. Guards: a seat's version follows the one read, a
// hold, order or operation that has ended is never touched again.
const (
	sqlWriteHolds = `
INSERT INTO hold (hold_id, event_id, account_id, session_id, status, expires_at, grace_until, seat_ids, tier_ids, price_version,
    amount_minor, currency, idempotency_key, request_digest, created_at, ended_at, places, standing_ids)
SELECT u.hold_id, $1, u.account_id, u.session_id, u.status, u.expires_at, u.grace_until, string_to_array(u.seat_ids, E'\x1f'),
    string_to_array(u.tier_ids, E'\x1f'), u.price_version, u.amount_minor, u.currency, u.idempotency_key, u.request_digest,
    u.created_at, u.ended_at, u.places, string_to_array(u.standing_ids, E'\x1f')
FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::timestamptz[], $7::timestamptz[], $8::text[], $9::text[],
    $10::int[], $11::bigint[], $12::text[], $13::text[], $14::bytea[], $15::timestamptz[], $16::timestamptz[], $17::int[], $18::text[])
    u(hold_id, account_id, session_id, status, expires_at, grace_until, seat_ids, tier_ids, price_version, amount_minor, currency,
    idempotency_key, request_digest, created_at, ended_at, places, standing_ids)
ON CONFLICT (hold_id) DO UPDATE
SET status = excluded.status, grace_until = excluded.grace_until, ended_at = excluded.ended_at
WHERE hold.status IN ('held', 'payment_pending')`

	sqlWriteSeats = `
INSERT INTO seat_inventory (event_id, seat_id, tier_id, price_version, status, hold_id, hold_expires_at, order_id, version)
SELECT $1, u.seat_id, u.tier_id, u.price_version, u.status, u.hold_id, u.hold_expires_at, u.order_id, u.version
FROM unnest($2::text[], $3::text[], $4::int[], $5::text[], $6::uuid[], $7::timestamptz[], $8::uuid[], $9::bigint[])
    u(seat_id, tier_id, price_version, status, hold_id, hold_expires_at, order_id, version)
ON CONFLICT (event_id, seat_id) DO UPDATE
SET price_version = excluded.price_version, status = excluded.status, hold_id = excluded.hold_id,
    hold_expires_at = excluded.hold_expires_at, order_id = excluded.order_id, version = excluded.version
WHERE seat_inventory.version < excluded.version`

	sqlWriteBuckets = `
INSERT INTO inventory_bucket (event_id, tier_id, bucket, available, held, sold, version)
SELECT $1, u.tier_id, u.bucket, u.available, u.held, u.sold, u.version
FROM unnest($2::text[], $3::int[], $4::int[], $5::int[], $6::int[], $7::bigint[]) u(tier_id, bucket, available, held, sold, version)
ON CONFLICT (event_id, tier_id, bucket) DO UPDATE
SET available = excluded.available, held = excluded.held, sold = excluded.sold, version = excluded.version
WHERE inventory_bucket.version < excluded.version`

	sqlWriteHoldLines = `
INSERT INTO hold_line (hold_id, tier_id, bucket, quantity)
SELECT u.hold_id, u.tier_id, u.bucket, u.quantity
FROM unnest($1::uuid[], $2::text[], $3::int[], $4::int[]) u(hold_id, tier_id, bucket, quantity)`

	sqlWriteOrders = `
INSERT INTO orders (order_id, hold_id, event_id, account_id, amount_minor, currency, price_version, status, payment_operation_id,
    created_at, confirmed_at, captured_at, closed_at, close_reason)
SELECT u.order_id, u.hold_id, $1, u.account_id, u.amount_minor, u.currency, u.price_version, u.status, u.payment_operation_id,
    u.created_at, u.confirmed_at, u.captured_at, u.closed_at, u.close_reason
FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::bigint[], $6::text[], $7::int[], $8::text[], $9::uuid[], $10::timestamptz[],
    $11::timestamptz[], $12::timestamptz[], $13::timestamptz[], $14::text[])
    u(order_id, hold_id, account_id, amount_minor, currency, price_version, status, payment_operation_id, created_at, confirmed_at,
    captured_at, closed_at, close_reason)
ON CONFLICT (order_id) DO UPDATE
SET status = excluded.status, payment_operation_id = excluded.payment_operation_id, confirmed_at = excluded.confirmed_at,
    captured_at = excluded.captured_at, closed_at = excluded.closed_at, close_reason = excluded.close_reason
WHERE orders.closed_at IS NULL`

	sqlWriteLines = `
INSERT INTO order_line (order_id, line, event_id, account_id, seat_id, bucket, tier_id, amount_minor, state)
SELECT u.order_id, u.line, $1, u.account_id, u.seat_id, u.bucket, u.tier_id, u.amount_minor, u.state
FROM unnest($2::uuid[], $3::smallint[], $4::uuid[], $5::text[], $6::int[], $7::text[], $8::bigint[], $9::text[])
    u(order_id, line, account_id, seat_id, bucket, tier_id, amount_minor, state)
ON CONFLICT (order_id, line) DO UPDATE SET state = excluded.state`

	sqlWriteOperations = `
INSERT INTO payment_operation (operation_id, order_id, event_id, kind, status, provider, provider_reference, method_token,
    amount_minor, currency, idempotency_key, provider_code, capture_before, settled_at, created_at, updated_at, next_at)
SELECT u.operation_id, u.order_id, $1, u.kind, u.status, u.provider, u.provider_reference, u.method_token,
    u.amount_minor, u.currency, u.idempotency_key, u.provider_code, u.capture_before, u.settled_at, u.created_at, u.updated_at,
    u.next_at
FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::text[],
    $11::text[], $12::text[], $13::timestamptz[], $14::timestamptz[], $15::timestamptz[], $16::timestamptz[], $17::timestamptz[])
    u(operation_id, order_id, kind, status, provider, provider_reference, method_token, amount_minor, currency,
    idempotency_key, provider_code, capture_before, settled_at, created_at, updated_at, next_at)
ON CONFLICT (operation_id) DO UPDATE
SET status = excluded.status, provider_code = excluded.provider_code, settled_at = excluded.settled_at,
    updated_at = excluded.updated_at, next_at = excluded.next_at
WHERE payment_operation.status NOT IN ('failed', 'reversed')`

	sqlWriteRecords = `
INSERT INTO idempotency_record (event_id, account_id, operation, idempotency_key, request_digest, result, created_at, expires_at)
SELECT $1, u.account_id, u.operation, u.idempotency_key, u.request_digest, u.result, $2, u.expires_at
FROM unnest($3::uuid[], $4::text[], $5::text[], $6::bytea[], $7::jsonb[], $8::timestamptz[])
    u(account_id, operation, idempotency_key, request_digest, result, expires_at)
ON CONFLICT (event_id, account_id, operation, idempotency_key) DO UPDATE
SET request_digest = excluded.request_digest, result = excluded.result, created_at = excluded.created_at,
    expires_at = excluded.expires_at
WHERE idempotency_record.expires_at <= excluded.created_at`

	// The fence: it numbers and publishes, and changes nothing for a writer whose
	// epoch or rules are old. f runs for a group without entries, too. The ledger
	// row is locked from here to the commit only.
	sqlFenceAndPublish = `
WITH f AS (
    UPDATE event_ledger SET seq = seq + $4
    WHERE event_id = $1 AND epoch = $2 AND rules_version = $3
    RETURNING seq
), published AS (
    INSERT INTO outbox (event_id, seq, operation_id, aggregate_id, type, cause, payload, created_at)
    SELECT $1, f.seq - $4 + u.ord, u.operation_id, u.aggregate_id, u.type, u.cause, u.payload, $5
    FROM f, unnest($6::uuid[], $7::text[], $8::text[], $9::text[], $10::json[])
        WITH ORDINALITY u(operation_id, aggregate_id, type, cause, payload, ord)
    RETURNING 1
)
SELECT (SELECT seq FROM f), (SELECT count(*) FROM published)`
)
