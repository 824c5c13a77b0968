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
    event_id        integer     NOT NULL GENERATED ALWAYS AS IDENTITY (MINVALUE 1 MAXVALUE 16777215) PRIMARY KEY,
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
    CONSTRAINT event_frozen CHECK (frozen_at IS NULL OR chart_hash IS NOT NULL),
    CONSTRAINT event_state CHECK (
        CASE status
            WHEN 'draft' THEN published_at IS NULL AND closed_at IS NULL
            WHEN 'published' THEN published_at IS NOT NULL AND frozen_at IS NOT NULL AND closed_at IS NULL
            WHEN 'cancelled' THEN closed_at IS NOT NULL
            WHEN 'ended' THEN published_at IS NOT NULL AND closed_at IS NOT NULL
            ELSE false
        END)
);

CREATE TABLE event_tier (
    event_id     integer NOT NULL REFERENCES event (event_id),
    tier_id      text    COLLATE "C" NOT NULL,
    position     integer NOT NULL,
    name         text    NOT NULL,
    amount_minor bigint  NOT NULL CHECK (amount_minor >= 0),
    PRIMARY KEY (event_id, tier_id)
);

-- +goose Down
DROP TABLE event_tier, event, chart;
