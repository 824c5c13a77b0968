-- +goose Up
-- Tickets and their redemption. Every table here is written by package
-- redemption alone. Nothing ever returns to unused: each UPDATE names the state
-- it leaves, and the checks tie a state to its times.

-- Where codes live: one pool per event for its tickets.
CREATE TABLE pool (
    pool_id         uuid        NOT NULL PRIMARY KEY,
    event_id        integer     NOT NULL,
    tenant_id       uuid        NOT NULL,
    kind            text        NOT NULL CHECK (kind IN ('ticket')),
    confirm_seconds integer     NOT NULL CHECK (confirm_seconds BETWEEN 1 AND 86400),
    valid_from      timestamptz,
    valid_until     timestamptz,
    created_at      timestamptz NOT NULL,
    CONSTRAINT pool_window CHECK (valid_from < valid_until)
);
CREATE UNIQUE INDEX pool_of_event ON pool (event_id) WHERE kind = 'ticket';

-- One row per code. No index has status in its columns or its predicate, so that
-- a claim is a heap-only update.
CREATE TABLE code (
    ticket_id     uuid        NOT NULL PRIMARY KEY,
    pool_id       uuid        NOT NULL,
    event_id      integer     NOT NULL,
    code          text        COLLATE "C" NOT NULL CHECK (code <> ''),
    order_id      uuid        NOT NULL,
    -- The order's line: one place. seat_id is empty for a place without a name.
    line          smallint    NOT NULL,
    seat_id       text        COLLATE "C" NOT NULL,
    tier_id       text        COLLATE "C" NOT NULL,
    status        text        NOT NULL DEFAULT 'unused',
    redemption_id uuid,
    issued_at     timestamptz NOT NULL,
    claimed_at    timestamptz,
    used_at       timestamptz,
    abnormal_at   timestamptz,
    voided_at     timestamptz,
    -- The order was cancelled. An unused code is voided in the same statement; one
    -- that was claimed before keeps its state and shows as voided to later scans.
    cancelled_at  timestamptz,
    CONSTRAINT code_text UNIQUE (pool_id, code),
    CONSTRAINT code_per_place UNIQUE (order_id, line),
    CONSTRAINT code_claim CHECK ((redemption_id IS NULL) = (claimed_at IS NULL)),
    CONSTRAINT code_state CHECK (
        CASE status
            WHEN 'unused' THEN claimed_at IS NULL AND used_at IS NULL AND abnormal_at IS NULL
                AND voided_at IS NULL AND cancelled_at IS NULL
            WHEN 'processing' THEN claimed_at IS NOT NULL AND used_at IS NULL AND abnormal_at IS NULL AND voided_at IS NULL
            WHEN 'used' THEN claimed_at IS NOT NULL AND used_at IS NOT NULL AND voided_at IS NULL
            WHEN 'abnormal' THEN claimed_at IS NOT NULL AND abnormal_at IS NOT NULL AND used_at IS NULL AND voided_at IS NULL
            WHEN 'voided' THEN voided_at IS NOT NULL AND used_at IS NULL AND (claimed_at IS NULL) = (abnormal_at IS NULL)
            ELSE false
        END)
) WITH (fillfactor = 70);

-- One row per won claim. A code can be claimed once, so it has one redemption at
-- most; (device, transaction) finds the first answer again.
CREATE TABLE redemption (
    redemption_id  uuid        NOT NULL PRIMARY KEY,
    ticket_id      uuid        NOT NULL,
    event_id       integer     NOT NULL,
    device_id      uuid        NOT NULL,
    transaction_id text        COLLATE "C" NOT NULL,
    settle         text        NOT NULL CHECK (settle IN ('now', 'later')),
    claimed_at     timestamptz NOT NULL,
    confirm_by     timestamptz NOT NULL,
    -- The first settlement: the device's word, or 'expired' when the limit passed.
    result         text        CHECK (result IN ('dispensed', 'admitted', 'failed', 'unknown', 'expired')),
    settled_at     timestamptz,
    CONSTRAINT redemption_per_code UNIQUE (ticket_id),
    CONSTRAINT redemption_transaction UNIQUE (device_id, transaction_id),
    CONSTRAINT redemption_settled CHECK ((result IS NULL) = (settled_at IS NULL))
) WITH (fillfactor = 80);
-- The second condition holds for every row and keeps the index to look-ups by time.
CREATE INDEX redemption_open ON redemption (confirm_by) WHERE result IS NULL AND confirm_by IS NOT NULL;

-- What a device reported after its redemption was settled otherwise: evidence
-- for reconciliation, never a change. Append-only, one row per result.
CREATE TABLE late_confirm (
    redemption_id uuid        NOT NULL,
    result        text        NOT NULL CHECK (result IN ('dispensed', 'admitted', 'failed', 'unknown')),
    event_id      integer     NOT NULL,
    device_id     uuid        NOT NULL,
    code_status   text        NOT NULL,
    received_at   timestamptz NOT NULL,
    PRIMARY KEY (redemption_id, result)
);

-- Refused scans, append-only: the audit list of a gate. The code's text is kept
-- as a digest only, because it may be a valid code of another event.
CREATE TABLE scan_refusal (
    refusal_id     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id       integer     NOT NULL,
    device_id      uuid        NOT NULL,
    transaction_id text        COLLATE "C" NOT NULL CHECK (length(transaction_id) <= 128),
    ticket_id      uuid,
    code_digest    bytea       NOT NULL CHECK (length(code_digest) = 32),
    reason         text        NOT NULL CHECK (reason IN ('code_unknown', 'wrong_pool', 'code_voided', 'redemption_closed',
        'code_abnormal', 'code_used', 'code_busy', 'transaction_conflict')),
    refused_at     timestamptz NOT NULL
);
CREATE INDEX scan_refusal_of_event ON scan_refusal (event_id, refusal_id);

-- Gates and machines. Everything but revoked_at is fixed at registration.
CREATE TABLE device (
    device_id   uuid        NOT NULL PRIMARY KEY,
    event_id    integer     NOT NULL,
    name        text        NOT NULL,
    settle      text        NOT NULL CHECK (settle IN ('now', 'later')),
    instruction text        NOT NULL,
    secret_hash bytea       NOT NULL CHECK (length(secret_hash) = 32),
    created_at  timestamptz NOT NULL,
    revoked_at  timestamptz
);
CREATE INDEX device_of_event ON device (event_id);

-- +goose Down
DROP TABLE device, scan_refusal, late_confirm, redemption, code, pool;
