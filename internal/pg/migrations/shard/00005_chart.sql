-- +goose Up
-- The chart of each event, copied here at publish: a running sale draws its map
-- without the directory. Immutable. Written by package seatmap alone.
CREATE TABLE event_chart (
    event_id   integer     NOT NULL PRIMARY KEY,
    hash       text        COLLATE "C" NOT NULL CHECK (hash ~ '^[0-9a-f]{32}$'),
    body       bytea       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX event_chart_hash ON event_chart (hash);

-- +goose Down
DROP TABLE event_chart;
