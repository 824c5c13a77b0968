-- +goose Up
-- Charts by their address. Immutable. Written by package seatmap alone.
CREATE TABLE chart (
    hash       text        COLLATE "C" NOT NULL PRIMARY KEY CHECK (hash ~ '^[0-9a-f]{32}$'),
    name       text        NOT NULL,
    seats      integer     NOT NULL CHECK (seats > 0),
    body       bytea       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The events and their tiers. Written by package catalog alone. Once frozen_at
-- is set a publication has begun, and what it copies elsewhere no longer changes.
CREATE TABLE event (
    -- The lower half of the 24 bits that ids have for it; tenants have the upper.
    event_id        integer     NOT NULL GENERATED ALWAYS AS IDENTITY (MINVALUE 1 MAXVALUE 8388607) PRIMARY KEY,
    tenant_id       uuid        NOT NULL,
    slug            text        COLLATE "C" NOT NULL,
    name            text        NOT NULL,
    venue           text        NOT NULL,
    starts_at       timestamptz NOT NULL,
    time_zone       text        NOT NULL,
    queue_opens_at  timestamptz,
    opens_at        timestamptz,
    currency        text        NOT NULL,
    rules           jsonb       NOT NULL,
    rate_per_second double precision NOT NULL CHECK (rate_per_second >= 0),
    active_max      integer     NOT NULL CHECK (active_max >= 0),
    status          text        NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'published', 'cancelled', 'ended')),
    chart_hash      text        COLLATE "C" REFERENCES chart (hash),
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    frozen_at       timestamptz,
    published_at    timestamptz,
    closed_at       timestamptz,
    CONSTRAINT event_slug UNIQUE (slug),
    CONSTRAINT event_state CHECK (
        CASE status
            WHEN 'draft' THEN published_at IS NULL AND closed_at IS NULL
            WHEN 'published' THEN published_at IS NOT NULL AND frozen_at IS NOT NULL AND closed_at IS NULL
            WHEN 'cancelled' THEN closed_at IS NOT NULL
            WHEN 'ended' THEN published_at IS NOT NULL AND closed_at IS NOT NULL
            ELSE false
        END)
);

-- A standing tier has a capacity and no seats, and is there before its price is.
CREATE TABLE event_tier (
    event_id     integer NOT NULL REFERENCES event (event_id),
    tier_id      text    COLLATE "C" NOT NULL,
    position     integer NOT NULL,
    name         text    NOT NULL,
    amount_minor bigint  CHECK (amount_minor >= 0),
    kind         text    NOT NULL DEFAULT 'seated' CHECK (kind IN ('seated', 'standing')),
    capacity     integer,
    buckets      integer,
    PRIMARY KEY (event_id, tier_id),
    CONSTRAINT event_tier_kind CHECK (
        CASE kind
            WHEN 'seated' THEN capacity IS NULL AND buckets IS NULL AND amount_minor IS NOT NULL
            ELSE capacity IS NOT NULL AND buckets IS NOT NULL AND capacity >= buckets AND buckets > 0
        END)
);

-- +goose Down
DROP TABLE event_tier, event, chart;
