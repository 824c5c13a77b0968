-- +goose Up
-- The event ledger: everything that decides who owns a place. All tables here
-- are written by package ledger alone. No foreign keys: the ledger inserts in
-- lock order and the audit proves the references. seat_inventory carries no
-- index on hold, status or deadline, so that its updates stay heap-only.

-- One row per event: fencing (epoch, rules_version) and the dense number of the
-- last published change. It is locked by the last statement of a group only.
CREATE TABLE event_ledger (
    event_id      integer NOT NULL PRIMARY KEY,
    epoch         bigint  NOT NULL DEFAULT 1,
    rules_version bigint  NOT NULL DEFAULT 1,
    seq           bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- The rules in force; any change bumps event_ledger.rules_version in the same commit.
CREATE TABLE event_rules (
    event_id                integer     NOT NULL PRIMARY KEY,
    sale                    text        NOT NULL CHECK (sale IN ('scheduled', 'open', 'paused', 'closed', 'cancelled')),
    sale_closes_at          timestamptz,
    admission_required      boolean     NOT NULL,
    purchase_limit          integer     NOT NULL CHECK (purchase_limit > 0),
    -- The highest limit that was ever in force: what accounts own today was
    -- allowed under it at the time.
    purchase_limit_highest  integer     NOT NULL CHECK (purchase_limit_highest >= purchase_limit),
    hold_seconds            integer     NOT NULL CHECK (hold_seconds > 0),
    grace_seconds           integer     NOT NULL CHECK (grace_seconds >= 0),
    pay_margin_seconds      integer     NOT NULL CHECK (pay_margin_seconds >= 0),
    pending_per_account_max integer     NOT NULL CHECK (pending_per_account_max > 0),
    pending_per_event_max   integer     NOT NULL CHECK (pending_per_event_max > 0),
    price_version           integer     NOT NULL,
    currency                text        NOT NULL
);

-- Prices, immutable: a change is a new version.
CREATE TABLE price_version (
    event_id      integer NOT NULL,
    price_version integer NOT NULL,
    tier_id       text    COLLATE "C" NOT NULL,
    name          text    NOT NULL,
    amount_minor  bigint  NOT NULL CHECK (amount_minor >= 0),
    withdrawn     boolean NOT NULL DEFAULT false,
    PRIMARY KEY (event_id, price_version, tier_id)
);

CREATE TABLE seat_inventory (
    event_id        integer     NOT NULL,
    seat_id         text        COLLATE "C" NOT NULL,
    tier_id         text        COLLATE "C" NOT NULL,
    price_version   integer     NOT NULL,
    status          text        NOT NULL DEFAULT 'available',
    hold_id         uuid,
    hold_expires_at timestamptz,
    order_id        uuid,
    version         bigint      NOT NULL DEFAULT 0,
    PRIMARY KEY (event_id, seat_id),
    CONSTRAINT seat_state CHECK (
        CASE status
            WHEN 'available' THEN hold_id IS NULL AND hold_expires_at IS NULL AND order_id IS NULL
            WHEN 'blocked' THEN hold_id IS NULL AND hold_expires_at IS NULL AND order_id IS NULL
            WHEN 'held' THEN hold_id IS NOT NULL AND hold_expires_at IS NOT NULL AND order_id IS NULL
            WHEN 'pending' THEN hold_id IS NOT NULL AND hold_expires_at IS NOT NULL AND order_id IS NOT NULL
            WHEN 'sold' THEN hold_id IS NOT NULL AND hold_expires_at IS NULL AND order_id IS NOT NULL
            ELSE false
        END)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);

-- General admission: places without names, counted per tier. A tier may be split
-- into buckets (channels, or separate ledgers for extreme heat); capacity is
-- available + held + sold, and held includes what is being paid for.
CREATE TABLE inventory_bucket (
    event_id  integer NOT NULL,
    tier_id   text    COLLATE "C" NOT NULL,
    bucket    integer NOT NULL,
    available integer NOT NULL CHECK (available >= 0),
    held      integer NOT NULL DEFAULT 0 CHECK (held >= 0),
    sold      integer NOT NULL DEFAULT 0 CHECK (sold >= 0),
    version   bigint  NOT NULL DEFAULT 0,
    PRIMARY KEY (event_id, tier_id, bucket)
) WITH (fillfactor = 50);

-- The row an account's commands of one event line up on: limits are recounted under it.
CREATE TABLE account_usage (
    event_id   integer NOT NULL,
    account_id uuid    NOT NULL,
    blocked    boolean NOT NULL DEFAULT false,
    PRIMARY KEY (event_id, account_id)
);

CREATE TABLE hold (
    hold_id         uuid        NOT NULL PRIMARY KEY,
    event_id        integer     NOT NULL,
    account_id      uuid        NOT NULL,
    session_id      uuid,
    status          text        NOT NULL,
    expires_at      timestamptz NOT NULL,
    grace_until     timestamptz,
    seat_ids        text[]      COLLATE "C" NOT NULL,
    tier_ids        text[]      COLLATE "C" NOT NULL,
    -- The tiers of which the hold has places without names (see hold_line), and
    -- how many places it has in all.
    standing_ids    text[]      COLLATE "C" NOT NULL DEFAULT '{}',
    places          integer     NOT NULL CHECK (places BETWEEN 1 AND 6),
    price_version   integer     NOT NULL,
    amount_minor    bigint      NOT NULL,
    currency        text        NOT NULL,
    idempotency_key text        COLLATE "C" NOT NULL,
    request_digest  bytea       NOT NULL,
    created_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    CONSTRAINT hold_key UNIQUE (event_id, account_id, idempotency_key),
    CONSTRAINT hold_state CHECK (
        CASE status
            WHEN 'held' THEN ended_at IS NULL
            WHEN 'payment_pending' THEN ended_at IS NULL AND grace_until IS NOT NULL
            WHEN 'confirmed' THEN ended_at IS NOT NULL
            WHEN 'released' THEN ended_at IS NOT NULL
            WHEN 'expired' THEN ended_at IS NOT NULL
            ELSE false
        END)
) WITH (fillfactor = 80);
CREATE INDEX hold_due ON hold (event_id, expires_at) WHERE status = 'held';
CREATE INDEX hold_live ON hold (event_id, account_id) WHERE status IN ('held', 'payment_pending') AND account_id IS NOT NULL;
CREATE INDEX hold_pending ON hold (event_id, grace_until) WHERE status = 'payment_pending';

-- From which buckets a hold's places without names come. Never changed.
CREATE TABLE hold_line (
    hold_id  uuid    NOT NULL,
    tier_id  text    COLLATE "C" NOT NULL,
    bucket   integer NOT NULL,
    quantity integer NOT NULL CHECK (quantity > 0),
    PRIMARY KEY (hold_id, tier_id, bucket)
);

CREATE TABLE orders (
    order_id             uuid        NOT NULL PRIMARY KEY,
    hold_id              uuid        NOT NULL,
    event_id             integer     NOT NULL,
    account_id           uuid        NOT NULL,
    amount_minor         bigint      NOT NULL CHECK (amount_minor >= 0),
    currency             text        NOT NULL,
    price_version        integer     NOT NULL,
    status               text        NOT NULL,
    payment_operation_id uuid,
    created_at           timestamptz NOT NULL,
    confirmed_at         timestamptz,
    captured_at          timestamptz,
    closed_at            timestamptz,
    close_reason         text,
    CONSTRAINT order_per_hold UNIQUE (hold_id),
    CONSTRAINT order_state CHECK (
        CASE status
            WHEN 'payment_pending' THEN confirmed_at IS NULL AND closed_at IS NULL
            WHEN 'declined' THEN confirmed_at IS NULL AND closed_at IS NULL
            WHEN 'voiding' THEN confirmed_at IS NULL AND closed_at IS NULL
            WHEN 'confirmed' THEN confirmed_at IS NOT NULL AND closed_at IS NULL
            WHEN 'voided' THEN confirmed_at IS NULL AND closed_at IS NOT NULL
            WHEN 'lapsed' THEN confirmed_at IS NULL AND closed_at IS NOT NULL
            WHEN 'cancelled' THEN confirmed_at IS NOT NULL AND closed_at IS NOT NULL
            ELSE false
        END)
);
CREATE INDEX orders_by_account ON orders (event_id, account_id, created_at);

CREATE TABLE order_line (
    order_id     uuid     NOT NULL,
    line         smallint NOT NULL,
    event_id     integer  NOT NULL,
    account_id   uuid     NOT NULL,
    -- A line is one place: a seat, or one unit of a bucket.
    seat_id      text     COLLATE "C",
    bucket       integer,
    tier_id      text     COLLATE "C" NOT NULL,
    amount_minor bigint   NOT NULL,
    state        text     NOT NULL CHECK (state IN ('pending', 'sold', 'released', 'cancelled')),
    PRIMARY KEY (order_id, line),
    CONSTRAINT order_line_place CHECK ((seat_id IS NULL) <> (bucket IS NULL))
);
-- The promise itself: whatever the code forgets, a seat has one sold line at most.
-- That it names a seat also keeps a planner without statistics from counting an
-- account's places through it, over every sold line of the event.
CREATE UNIQUE INDEX order_line_sold ON order_line (event_id, seat_id) WHERE state = 'sold' AND seat_id IS NOT NULL;
CREATE INDEX order_line_account ON order_line (event_id, account_id) WHERE state = 'sold';

CREATE TABLE payment_operation (
    operation_id       uuid        NOT NULL PRIMARY KEY,
    order_id           uuid        NOT NULL,
    event_id           integer     NOT NULL,
    kind               text        NOT NULL CHECK (kind IN ('authorize', 'capture', 'void', 'refund')),
    status             text        NOT NULL CHECK (status IN ('created', 'unknown', 'action_required', 'succeeded', 'failed', 'reversed')),
    provider           text        NOT NULL,
    provider_reference text        NOT NULL DEFAULT '',
    method_token       text        NOT NULL DEFAULT '',
    amount_minor       bigint      NOT NULL CHECK (amount_minor > 0),
    currency           text        NOT NULL,
    idempotency_key    text        NOT NULL,
    action_url         text        NOT NULL DEFAULT '',
    provider_code      text        NOT NULL DEFAULT '',
    capture_before     timestamptz,
    sent_at            timestamptz,
    settled_at         timestamptz,
    created_at         timestamptz NOT NULL,
    updated_at         timestamptz NOT NULL,
    next_at            timestamptz,
    attempts           integer     NOT NULL DEFAULT 0,
    lease_until        timestamptz,
    last_error         text        NOT NULL DEFAULT '',
    parked_at          timestamptz,
    CONSTRAINT operation_settled CHECK ((settled_at IS NOT NULL) = (status IN ('succeeded', 'failed', 'reversed')))
);
-- One authorization in motion per order, and one of each follow-up that has not failed.
CREATE UNIQUE INDEX operation_live ON payment_operation (order_id, kind)
    WHERE status IN ('created', 'unknown', 'action_required', 'succeeded');
CREATE INDEX operation_by_order ON payment_operation (order_id);
CREATE INDEX operation_reference ON payment_operation (provider_reference) WHERE provider_reference <> '';
CREATE INDEX operation_due ON payment_operation (next_at) WHERE next_at IS NOT NULL AND parked_at IS NULL;

-- Results of commands that have no row of their own to carry key and digest:
-- granted checkouts (kept for the event's life) and refusals (24 h).
CREATE TABLE idempotency_record (
    event_id        integer     NOT NULL,
    account_id      uuid        NOT NULL,
    operation       text        NOT NULL,
    idempotency_key text        COLLATE "C" NOT NULL,
    request_digest  bytea       NOT NULL,
    result          jsonb       NOT NULL,
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz,
    PRIMARY KEY (event_id, account_id, operation, idempotency_key)
);
CREATE INDEX idempotency_record_due ON idempotency_record (expires_at) WHERE expires_at IS NOT NULL;

-- One row per changing command, numbered per event without holes in commit order.
CREATE TABLE outbox (
    event_id     integer     NOT NULL,
    seq          bigint      NOT NULL,
    operation_id uuid        NOT NULL,
    aggregate_id text        NOT NULL,
    type         text        NOT NULL,
    cause        text        NOT NULL,
    payload      jsonb       NOT NULL,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (event_id, seq)
);

CREATE TABLE outbox_cursor (
    reader     text        NOT NULL,
    event_id   integer     NOT NULL,
    seq        bigint      NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (reader, event_id)
);

-- +goose Down
DROP TABLE outbox_cursor, outbox, idempotency_record, payment_operation, order_line, orders, hold_line, hold, account_usage,
    inventory_bucket, seat_inventory, price_version, event_rules, event_ledger;
