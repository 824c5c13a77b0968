package audit

// checks lists every invariant, in the order of the specification's section 10.
// Each has a test that plants a violation of it and sees it named.
var checks = []check{
	{"one_sold_order_per_seat", "No seat has more than one sold order line.", query(sqlSoldTwice)},
	{"confirmed_order_owns_its_places", "A confirmed order owns exactly the places it records, and its hold's places are the same.", query(sqlConfirmedOwns)},
	{"confirmed_order_owns_its_units", "A confirmed order's places without seats are those of its hold, bucket by bucket.", query(sqlConfirmedUnits)},
	{"hold_counts_its_places", "A hold's number of places is that of its seats, none twice, and its units.", query(sqlHoldPlaces)},
	{"sold_seat_has_order", "Every sold seat points to one confirmed order that has a sold line for it.", query(sqlSoldSeat)},
	{"pending_seat_has_order", "Every pending seat points to an order that is being paid for or given up, with the same hold.", query(sqlPendingSeat)},
	{"held_seat_has_hold", "Every held seat belongs to a hold of its event, names its deadline, and that hold is live or past its deadline.", query(sqlHeldSeat)},
	{"live_hold_owns_its_seats", "A live hold owns all its seats, in the state that its own state says.", query(sqlLiveHold)},
	{"order_matches_hold", "An order and its hold agree on event, account, amount and on how far they are; a hold that is paid for or bought has an order.", query(sqlOrderHold)},
	{"order_total", "An order's total is the sum of its lines, of its hold's tiers at the prices of its price version, and its hold's amount.", query(sqlOrderTotal)},
	{"outbox_without_holes", "Each event has a ledger, and its outbox is numbered from 1 to the ledger's number without holes.", query(sqlOutboxHoles)},
	{"outbox_replays_to_seats", "Replaying the outbox gives exactly today's seats and buckets; no expiry or release changed anything but its own hold's seats, and moving places made none.", replay},
	{"buckets_add_up", "Of every bucket, what live holds have is held and what sold orders have is sold.", query(sqlBuckets)},
	{"purchase_limit", "No account holds, pays for and owns more places than the highest limit that was in force.", query(sqlLimit)},
	{"one_live_order_per_hold", "A hold has one order.", query(sqlOrdersPerHold)},
	{"one_live_authorization", "An order has at most one authorization in motion or done, and it is the one it names.", query(sqlAuthorizations)},
	{"captured_is_total", "What was captured is the order's total, once, and only captured or free orders are marked captured.", query(sqlCaptured)},
	{"authorization_settled", "Each authorization is captured, given up, or pending with a reason.", query(sqlAuthorizationSettled)},
	{"no_live_money_on_freed_seats", "No order whose seats went back may still hold a live authorization without a void on its way.", query(sqlFreedMoney)},
	{"order_has_its_payment", "An order's payment operations are those that its state asks for, of its amount, and no payment of a provider belongs to two orders.", query(sqlOrderPayments)},
	{"operation_has_work", "No payment operation is open without a next look or a place among the parked.", query(sqlIdleOperation)},
	{"ticket_per_place", "Each captured order that the ticket issuer has passed has exactly one ticket per place, and no ticket lacks its order.", tickets},
	{"ticket_follows_order", "No ticket of a cancelled order opens a gate, and none of another order was voided before it was scanned.", query(sqlTicketOrder)},
	{"codes_told_apart", "No two codes of a pool have one text, and no transaction of a device redeemed two codes.", query(sqlCodeTexts)},
	{"one_redemption_per_code", "A code has one redemption exactly when it was claimed, which says the same as the code, and none is back in unused.", query(sqlRedemptions)},
	{"one_meaning_per_key", "A key stands for one result, and a granted checkout names an order of the same account and event.", keys},
}

const (
	sqlSoldTwice = `
SELECT seat_id, format('sold by %s orders: %s', count(*), string_agg(order_id::text, ', '))
FROM order_line WHERE event_id = $1 AND state = 'sold' AND seat_id IS NOT NULL
GROUP BY seat_id HAVING count(*) > 1`

	// Every side is gathered once for the whole event: looked up per order, the sold
	// seats of a young sale were read anew for each (7.5 s for 20,000 orders that no
	// statistics knew, now 0.2).
	sqlConfirmedOwns = `
SELECT order_id::text, format('records %s, owns %s, held %s', l.seats, coalesce(s.seats, '{}'), h.seats)
FROM orders o
LEFT JOIN (
    SELECT order_id, array_agg(seat_id ORDER BY seat_id) AS seats FROM order_line
    WHERE event_id = $1 AND state = 'sold' AND seat_id IS NOT NULL GROUP BY order_id) l USING (order_id)
LEFT JOIN (
    SELECT order_id, array_agg(seat_id ORDER BY seat_id) AS seats FROM seat_inventory
    WHERE event_id = $1 AND status = 'sold' GROUP BY order_id) s USING (order_id)
LEFT JOIN (
    SELECT hold_id, (SELECT array_agg(id ORDER BY id) FROM unnest(seat_ids) id) AS seats FROM hold
    WHERE event_id = $1) h USING (hold_id)
WHERE o.event_id = $1 AND o.status = 'confirmed'
    AND (l.seats IS DISTINCT FROM s.seats OR l.seats IS DISTINCT FROM h.seats)`

	sqlConfirmedUnits = `
SELECT order_id::text, format('%s of bucket %s/%s held, %s sold', coalesce(held, 0), tier_id, bucket, coalesce(sold, 0))
FROM (
    SELECT o.order_id, l.tier_id, l.bucket, l.quantity AS held FROM orders o JOIN hold_line l ON l.hold_id = o.hold_id
    WHERE o.event_id = $1 AND o.status = 'confirmed') h
FULL JOIN (
    SELECT o.order_id, l.tier_id, l.bucket, count(*) AS sold FROM orders o JOIN order_line l ON l.order_id = o.order_id
    WHERE o.event_id = $1 AND o.status = 'confirmed' AND l.bucket IS NOT NULL AND l.state = 'sold'
    GROUP BY o.order_id, l.tier_id, l.bucket) s USING (order_id, tier_id, bucket)
WHERE held IS DISTINCT FROM sold`

	sqlHoldPlaces = `
SELECT h.hold_id::text, format('%s places, %s seats of which %s differ, %s units', h.places, cardinality(h.seat_ids), s.n, l.n)
FROM hold h
CROSS JOIN LATERAL (SELECT count(DISTINCT id) AS n FROM unnest(h.seat_ids) id) s
CROSS JOIN LATERAL (SELECT coalesce(sum(quantity), 0) AS n FROM hold_line WHERE hold_id = h.hold_id) l
WHERE h.event_id = $1 AND (s.n <> cardinality(h.seat_ids) OR h.places <> s.n + l.n)`

	sqlSoldSeat = `
SELECT s.seat_id, format('sold to %s, which is %s', s.order_id, coalesce(o.status, 'missing'))
FROM seat_inventory s
LEFT JOIN orders o ON o.order_id = s.order_id
LEFT JOIN order_line l ON l.order_id = s.order_id AND l.seat_id = s.seat_id AND l.state = 'sold'
WHERE s.event_id = $1 AND s.status = 'sold'
    AND (o.status IS DISTINCT FROM 'confirmed' OR l.order_id IS NULL OR o.event_id <> s.event_id OR o.hold_id <> s.hold_id)`

	sqlPendingSeat = `
SELECT s.seat_id, format('pending for %s, which is %s', s.order_id, coalesce(o.status, 'missing'))
FROM seat_inventory s
LEFT JOIN orders o ON o.order_id = s.order_id
LEFT JOIN hold h ON h.hold_id = s.hold_id
WHERE s.event_id = $1 AND s.status = 'pending'
    AND (o.order_id IS NULL OR o.status NOT IN ('payment_pending', 'voiding') OR o.event_id <> s.event_id
        OR o.hold_id <> s.hold_id OR h.status IS DISTINCT FROM 'payment_pending')`

	sqlHeldSeat = `
SELECT s.seat_id, format('held by %s, which is %s', s.hold_id, coalesce(h.status, 'missing'))
FROM seat_inventory s
LEFT JOIN hold h ON h.hold_id = s.hold_id
WHERE s.event_id = $1 AND s.status = 'held'
    AND (h.hold_id IS NULL OR h.status <> 'held' OR h.event_id <> s.event_id OR h.expires_at <> s.hold_expires_at
        OR NOT s.seat_id = ANY (h.seat_ids))`

	sqlLiveHold = `
SELECT h.hold_id::text, format('%s, but its seat %s is %s of %s', h.status, id, coalesce(s.status, 'missing'), s.hold_id)
FROM hold h
CROSS JOIN LATERAL unnest(h.seat_ids) id
LEFT JOIN seat_inventory s ON s.event_id = h.event_id AND s.seat_id = id
WHERE h.event_id = $1
    AND (h.status = 'payment_pending' OR h.status = 'held' AND h.expires_at > clock_timestamp())
    AND (s.hold_id IS DISTINCT FROM h.hold_id
        OR s.status <> CASE h.status WHEN 'held' THEN 'held' ELSE 'pending' END
        OR s.hold_expires_at IS DISTINCT FROM h.expires_at)`

	sqlOrderHold = `
SELECT o.order_id::text, format('order %s, hold %s', o.status, coalesce(h.status, 'missing'))
FROM orders o
LEFT JOIN hold h ON h.hold_id = o.hold_id
WHERE o.event_id = $1
    AND (h.hold_id IS NULL OR h.event_id <> o.event_id OR h.account_id <> o.account_id OR h.amount_minor <> o.amount_minor
        OR h.currency <> o.currency
        OR NOT CASE o.status
            WHEN 'payment_pending' THEN h.status = 'payment_pending'
            WHEN 'voiding' THEN h.status = 'payment_pending'
            WHEN 'declined' THEN h.status = 'held'
            WHEN 'confirmed' THEN h.status = 'confirmed'
            WHEN 'cancelled' THEN h.status = 'confirmed'
            WHEN 'voided' THEN h.status = 'released'
            ELSE h.status IN ('expired', 'released')
        END)
UNION ALL
SELECT h.hold_id::text, format('%s, and has no order', h.status)
FROM hold h LEFT JOIN orders o USING (hold_id)
WHERE h.event_id = $1 AND h.status IN ('payment_pending', 'confirmed') AND o.order_id IS NULL`

	sqlOrderTotal = `
SELECT o.order_id::text, format('total %s, lines %s', o.amount_minor, l.total)
FROM orders o
LEFT JOIN hold h USING (hold_id)
CROSS JOIN LATERAL (
    SELECT coalesce(sum(l.amount_minor), 0) AS total, count(*) AS places,
        count(*) FILTER (WHERE p.amount_minor IS DISTINCT FROM l.amount_minor
            OR l.tier_id <> h.tier_ids[array_position(h.seat_ids, l.seat_id)]) AS mispriced,
        count(*) FILTER (WHERE l.account_id <> o.account_id OR l.event_id <> o.event_id
            OR l.state <> CASE o.status
                WHEN 'confirmed' THEN 'sold'
                WHEN 'cancelled' THEN 'cancelled'
                WHEN 'voided' THEN 'released'
                WHEN 'lapsed' THEN 'released'
                ELSE 'pending'
            END) AS strange
    FROM order_line l
    LEFT JOIN price_version p ON p.event_id = l.event_id AND p.price_version = o.price_version AND p.tier_id = l.tier_id
    WHERE l.order_id = o.order_id) l
WHERE o.event_id = $1
    AND (l.total <> o.amount_minor OR l.mispriced > 0 OR l.strange > 0 OR l.places IS DISTINCT FROM h.places)`

	sqlBuckets = `
SELECT format('%s/%s', b.tier_id, b.bucket), format('held %s, live holds have %s; sold %s, orders have %s', b.held, coalesce(h.n, 0), b.sold, coalesce(o.n, 0))
FROM (SELECT tier_id, bucket, held, sold FROM inventory_bucket WHERE event_id = $1) b
FULL JOIN (
    SELECT l.tier_id, l.bucket, sum(l.quantity) AS n FROM hold_line l JOIN hold h ON h.hold_id = l.hold_id
    WHERE h.event_id = $1 AND h.status IN ('held', 'payment_pending') GROUP BY l.tier_id, l.bucket) h
    ON h.tier_id = b.tier_id AND h.bucket = b.bucket
FULL JOIN (
    SELECT tier_id, bucket, count(*) AS n FROM order_line
    WHERE event_id = $1 AND state = 'sold' AND bucket IS NOT NULL GROUP BY tier_id, bucket) o
    ON o.tier_id = b.tier_id AND o.bucket = b.bucket
WHERE b.tier_id IS NULL OR b.held <> coalesce(h.n, 0) OR b.sold <> coalesce(o.n, 0)`

	sqlOutboxHoles = `
SELECT l.event_id::text, format('ledger at %s, outbox has %s rows from %s to %s', l.seq, o.n, o.first, o.last)
FROM event_ledger l
CROSS JOIN LATERAL (
    SELECT count(*) AS n, coalesce(min(seq), 1) AS first, coalesce(max(seq), 0) AS last FROM outbox WHERE event_id = l.event_id) o
WHERE l.event_id = $1 AND (o.n <> l.seq OR o.first <> 1 OR o.last <> l.seq)
UNION ALL
SELECT $1::text, 'the event has no ledger row' WHERE NOT EXISTS (SELECT FROM event_ledger WHERE event_id = $1)`

	sqlLimit = `
SELECT account_id::text, format('%s places, limit %s', sum(places), max(r.purchase_limit_highest))
FROM (
    SELECT account_id, places FROM hold
    WHERE event_id = $1 AND (status = 'payment_pending' OR status = 'held' AND expires_at > clock_timestamp())
    UNION ALL
    SELECT account_id, 1 FROM order_line WHERE event_id = $1 AND state = 'sold') owned
CROSS JOIN (SELECT purchase_limit_highest FROM event_rules WHERE event_id = $1) r
GROUP BY account_id
HAVING sum(places) > max(r.purchase_limit_highest)`

	sqlOrdersPerHold = `
SELECT hold_id::text, format('%s orders', count(*)) FROM orders WHERE event_id = $1 GROUP BY hold_id HAVING count(*) > 1`

	sqlAuthorizations = `
SELECT o.order_id::text, format('names %s, has %s', coalesce(o.payment_operation_id::text, 'none'), coalesce(p.ids, 'none'))
FROM orders o
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE status IN ('created', 'unknown', 'action_required', 'succeeded')) AS live,
        count(*) FILTER (WHERE operation_id = o.payment_operation_id) AS named,
        count(*) FILTER (WHERE status IN ('created', 'unknown', 'action_required', 'succeeded')
            AND operation_id IS DISTINCT FROM o.payment_operation_id) AS strays,
        string_agg(operation_id::text, ', ') AS ids
    FROM payment_operation WHERE order_id = o.order_id AND kind = 'authorize') p
WHERE o.event_id = $1
    AND (p.live > 1 OR p.strays > 0 OR p.named <> CASE WHEN o.payment_operation_id IS NULL THEN 0 ELSE 1 END
        OR (o.payment_operation_id IS NULL) <> (o.amount_minor = 0))`

	sqlCaptured = `
SELECT o.order_id::text, format('total %s %s, captured %s times, %s', o.amount_minor, o.currency, c.n, coalesce(c.total, 0))
FROM orders o
CROSS JOIN LATERAL (
    SELECT count(*) AS n, sum(amount_minor) AS total, max(currency) AS currency FROM payment_operation
    WHERE order_id = o.order_id AND kind = 'capture' AND status IN ('succeeded', 'reversed')) c
WHERE o.event_id = $1
    AND (c.n > 1 OR c.n = 1 AND (c.total <> o.amount_minor OR c.currency <> o.currency OR o.captured_at IS NULL)
        OR o.captured_at IS NOT NULL AND c.n <> CASE WHEN o.amount_minor = 0 THEN 0 ELSE 1 END
        OR o.captured_at IS NOT NULL AND o.confirmed_at IS NULL)`

	sqlAuthorizationSettled = `
SELECT a.operation_id::text, format('authorization %s on an order that is %s', a.status, coalesce(o.status, 'missing'))
FROM payment_operation a
LEFT JOIN orders o ON o.order_id = a.order_id
WHERE a.event_id = $1 AND a.kind = 'authorize'
    AND NOT CASE
        WHEN o.order_id IS NULL THEN false
        WHEN a.status IN ('created', 'unknown', 'action_required') THEN o.status IN ('payment_pending', 'voiding')
        WHEN a.status = 'succeeded' AND o.status = 'confirmed' THEN EXISTS (
            SELECT 1 FROM payment_operation c WHERE c.order_id = o.order_id AND c.kind = 'capture' AND c.status <> 'failed')
        WHEN a.status = 'succeeded' THEN EXISTS (
            SELECT 1 FROM payment_operation v WHERE v.order_id = o.order_id AND v.kind IN ('void', 'refund') AND v.settled_at IS NULL)
        ELSE true
    END`

	sqlFreedMoney = `
SELECT o.order_id::text, format('%s, but its authorization %s is %s', o.status, a.operation_id, a.status)
FROM orders o
JOIN payment_operation a ON a.order_id = o.order_id AND a.kind = 'authorize'
WHERE o.event_id = $1 AND o.status IN ('voided', 'lapsed', 'cancelled')
    AND a.status IN ('created', 'unknown', 'action_required', 'succeeded')
    AND NOT (o.status = 'cancelled' AND EXISTS (
        SELECT 1 FROM payment_operation v WHERE v.order_id = o.order_id AND v.kind IN ('void', 'refund') AND v.settled_at IS NULL))`

	sqlIdleOperation = `
SELECT operation_id::text, format('%s is %s and nothing will look at it', kind, status)
FROM payment_operation p
WHERE event_id = $1 AND settled_at IS NULL AND next_at IS NULL AND parked_at IS NULL
    AND NOT (kind = 'capture' AND EXISTS (
        SELECT 1 FROM payment_operation v WHERE v.order_id = p.order_id AND v.kind IN ('void', 'refund') AND v.settled_at IS NULL))`

	sqlRedemptions = `
SELECT coalesce(c.ticket_id, r.ticket_id)::text, format('code %s, redemption %s', coalesce(c.status, 'missing'), coalesce(r.redemption_id::text, 'none'))
FROM (SELECT ticket_id, status, redemption_id FROM code WHERE event_id = $1) c
FULL JOIN (
    SELECT ticket_id, max(redemption_id::text)::uuid AS redemption_id, count(*) AS n, max(result) AS result
    FROM redemption WHERE event_id = $1 GROUP BY ticket_id) r
    ON r.ticket_id = c.ticket_id
WHERE c.ticket_id IS NULL OR r.n > 1 OR c.redemption_id IS DISTINCT FROM r.redemption_id
    OR CASE c.status
        WHEN 'processing' THEN r.result IS NOT NULL
        WHEN 'used' THEN coalesce(r.result, '') NOT IN ('admitted', 'dispensed')
        WHEN 'abnormal' THEN coalesce(r.result, 'admitted') IN ('admitted', 'dispensed')
    END
    OR (r.ticket_id IS NOT NULL) <> (c.status IN ('processing', 'used', 'abnormal') OR c.status = 'voided' AND c.redemption_id IS NOT NULL)`

	sqlTicketOrder = `
SELECT c.ticket_id::text, format('ticket %s, order %s', c.status, o.status)
FROM code c JOIN orders o USING (order_id)
WHERE c.event_id = $1
    AND (o.status = 'cancelled' AND c.status = 'unused' OR o.status <> 'cancelled' AND c.status = 'voided' AND c.redemption_id IS NULL)`

	sqlCodeTexts = `
SELECT min(ticket_id::text), format('%s codes of one text', count(*)) FROM code
WHERE event_id = $1 GROUP BY pool_id, code HAVING count(*) > 1
UNION ALL
SELECT device_id::text, format('transaction %s redeemed %s codes', transaction_id, count(*)) FROM redemption
WHERE event_id = $1 GROUP BY device_id, transaction_id HAVING count(*) > 1`
)
