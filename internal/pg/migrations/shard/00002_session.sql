-- +goose Up
-- Shopper sessions live with the inventory, so that a hold can read in its own
-- transaction that the session is live. Written by package waitingroom alone.

-- The row that admissions of one event line up on: the cap is counted under it.
CREATE TABLE session_gate (
    event_id   integer NOT NULL PRIMARY KEY,
    active_max integer NOT NULL CHECK (active_max >= 0)
);

CREATE TABLE shopper_session (
    session_id uuid        NOT NULL PRIMARY KEY,
    event_id   integer     NOT NULL,
    account_id uuid        NOT NULL,
    round      integer     NOT NULL,
    started_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    ended_at   timestamptz
);
CREATE UNIQUE INDEX shopper_session_live ON shopper_session (event_id, account_id) WHERE ended_at IS NULL;
CREATE INDEX shopper_session_due ON shopper_session (event_id, expires_at) WHERE ended_at IS NULL;

-- +goose Down
DROP TABLE shopper_session, session_gate;
