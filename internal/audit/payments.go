package audit

// sqlOrderPayments is the table of what each state of an order asks of its payment
// operations. All of them are of one snapshot, and a decision writes order and
// operations in one commit, so there is no moment at which they may differ.
//
// Of an order's authorizations all but the last one have failed. open ones are created,
// unknown or wait for the buyer; v counts voids and refunds.
const sqlOrderPayments = `
SELECT o.order_id::text, format('%s%s, with %s', o.status, CASE WHEN o.captured_at IS NULL THEN '' ELSE ' and captured' END, coalesce(p.all_of_it, 'no operation'))
FROM orders o
LEFT JOIN (
    SELECT order_id, count(*) AS n, string_agg(kind || ' ' || status, ', ' ORDER BY kind, operation_id) AS all_of_it,
        count(*) FILTER (WHERE kind = 'authorize' AND settled_at IS NULL) AS a_open,
        count(*) FILTER (WHERE kind = 'authorize' AND status = 'succeeded') AS a_done,
        count(*) FILTER (WHERE kind = 'authorize' AND status = 'reversed') AS a_reversed,
        count(*) FILTER (WHERE kind = 'capture') AS c,
        count(*) FILTER (WHERE kind = 'capture' AND settled_at IS NULL) AS c_open,
        count(*) FILTER (WHERE kind = 'capture' AND status = 'succeeded') AS c_done,
        count(*) FILTER (WHERE kind IN ('void', 'refund')) AS v,
        count(*) FILTER (WHERE kind IN ('void', 'refund') AND settled_at IS NULL) AS v_open,
        count(*) FILTER (WHERE kind IN ('void', 'refund') AND status = 'succeeded') AS v_done
    FROM payment_operation WHERE event_id = $1 GROUP BY order_id) p USING (order_id)
WHERE o.event_id = $1 AND NOT CASE
    WHEN o.amount_minor = 0 THEN p.n IS NULL AND o.status <> 'declined'
    WHEN p.n IS NULL THEN false
    WHEN o.status = 'payment_pending' THEN a_open = 1 AND a_done + a_reversed + c + v = 0
    WHEN o.status IN ('declined', 'lapsed') THEN a_open + a_done + a_reversed + c + v = 0
    WHEN o.status = 'voiding' THEN a_open + a_done = 1 AND a_reversed + c = 0 AND v = 1 AND v_open = 1
    WHEN o.status = 'voided' THEN a_open + a_done + c = 0 AND v = 1 AND v_done = 1
    WHEN o.status = 'confirmed' THEN a_done = 1 AND a_open + a_reversed + v = 0 AND c = 1 AND c_open + c_done = 1
        AND (o.captured_at IS NOT NULL) = (c_done = 1)
    WHEN o.status = 'cancelled' THEN a_open = 0 AND c = 1 AND v = 1
        AND (v_open = 1 AND a_done = 1 OR v_done = 1 AND a_reversed = 1 AND c_open + c_done = 0)
END
UNION ALL
SELECT p.operation_id::text, format('%s of %s %s on an order of %s %s', p.kind, p.amount_minor, p.currency, o.amount_minor, o.currency)
FROM payment_operation p JOIN orders o USING (order_id)
WHERE p.event_id = $1 AND (p.amount_minor <> o.amount_minor OR p.currency <> o.currency OR p.event_id <> o.event_id)
UNION ALL
SELECT provider_reference, format('%s orders on one payment of %s', count(DISTINCT order_id), provider)
FROM payment_operation WHERE event_id = $1 AND provider_reference <> ''
GROUP BY provider, provider_reference HAVING count(DISTINCT order_id) > 1`
