-- +goose Up
-- Leases of loops that run in one process at a time. Written by package work alone.
CREATE TABLE leader (
    name        text        COLLATE "C" NOT NULL PRIMARY KEY,
    holder      uuid        NOT NULL,
    lease_until timestamptz NOT NULL
);

-- +goose Down
DROP TABLE leader;
