-- +goose Up
-- Where each event's shard is. Written by package catalog alone; read once per
-- process and event by pg.Homes.
CREATE TABLE event_home (
    event_id integer NOT NULL PRIMARY KEY,
    shard    integer NOT NULL CHECK (shard > 0)
);

-- +goose Down
DROP TABLE event_home;
