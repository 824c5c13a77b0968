-- +goose Up
-- Shopper sessions live with the inventory, so that a hold can read in its own
-- transaction that the session is live. Written by package waitingroom alone.

-- The row that admissions of one event line up on: the cap is counted under it.
-- It is a copy of the room's settings, replaced only by a newer version; a claim
-- of a round older than its round creates no session any more.
CREATE TABLE session_gate (
    event_id         integer NOT NULL PRIMARY KEY,
    active_max       integer NOT NULL CHECK (active_max >= 0),
    round            integer NOT NULL CHECK (round > 0),
    idle_seconds     integer NOT NULL CHECK (idle_seconds > 0),
    settings_version bigint  NOT NULL
) WITH (fillfactor = 50);

-- A session is live while it has not ended and its time is not over, by database
-- time. One turn in the queue gives one session, ever.
CREATE TABLE shopper_session (
    session_id uuid        NOT NULL PRIMARY KEY,
    event_id   integer     NOT NULL,
    account_id uuid        NOT NULL,
    round      integer     NOT NULL,
    turn       integer     NOT NULL,
    started_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    ended_at   timestamptz,
    end_reason text        CHECK (end_reason IN ('idle', 'left', 'round')),
    CONSTRAINT shopper_session_turn UNIQUE (event_id, account_id, round, turn),
    CONSTRAINT shopper_session_end CHECK ((ended_at IS NULL) = (end_reason IS NULL))
);
CREATE UNIQUE INDEX shopper_session_live ON shopper_session (event_id, account_id) WHERE ended_at IS NULL;
-- The second condition holds for every row: with it, a look-up by account does not
-- imply the predicate, and a planner without statistics cannot take this index for
-- it and read every live session of the event.
CREATE INDEX shopper_session_due ON shopper_session (event_id, expires_at) WHERE ended_at IS NULL AND expires_at IS NOT NULL;

-- +goose Down
DROP TABLE shopper_session, session_gate;
