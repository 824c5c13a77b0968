-- +goose Up
-- Entries say once what happened alike to several seats (package ledger, storedPayload).
-- What was written before becomes a move per seat: the same to every reader.
UPDATE outbox SET payload = (payload - 'seats') || jsonb_build_object('moves', (
    SELECT jsonb_agg((c - 'seatId' - 'version')
        || jsonb_build_object('seatIds', jsonb_build_array(c -> 'seatId'), 'versions', jsonb_build_array(c -> 'version')) ORDER BY n)
    FROM jsonb_array_elements(payload -> 'seats') WITH ORDINALITY e(c, n)))
WHERE payload ? 'seats';

ALTER TABLE outbox ALTER COLUMN payload TYPE json;

-- For readers that want orders only: most entries of a sale are of holds, and those
-- are not in here.
CREATE INDEX outbox_but_holds ON outbox (event_id, seq) WHERE type NOT IN ('hold_placed', 'hold_released', 'hold_expired');

-- +goose Down
DROP INDEX outbox_but_holds;

ALTER TABLE outbox ALTER COLUMN payload TYPE jsonb;

UPDATE outbox SET payload = (payload - 'moves') || jsonb_build_object('seats', (
    SELECT jsonb_agg((m - 'seatIds' - 'versions')
        || jsonb_build_object('seatId', s.id, 'version', m -> 'versions' -> (s.n - 1)::int) ORDER BY e.n, s.n)
    FROM jsonb_array_elements(payload -> 'moves') WITH ORDINALITY e(m, n),
        jsonb_array_elements(m -> 'seatIds') WITH ORDINALITY s(id, n)))
WHERE payload ? 'moves';
