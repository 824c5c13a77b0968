-- +goose Up
-- The waiting rooms of the events. Written by package waitingroom alone.
CREATE TABLE queue_state (
    event_id integer NOT NULL PRIMARY KEY
);

-- +goose Down
DROP TABLE queue_state;
