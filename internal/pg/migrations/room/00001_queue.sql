-- +goose Up
-- The waiting rooms of the events. Written by package waitingroom alone. All
-- times are the database's. Numbers count from 0; a number is called once it is
-- below queue_state.serving.

-- One row per event, locked first by whatever changes its queue: that lock gives
-- joins their order. Only its primary key is indexed, so its updates stay heap-only.
CREATE TABLE queue_state (
    event_id         integer          NOT NULL PRIMARY KEY,
    round            integer          NOT NULL CHECK (round > 0),
    phase            text             NOT NULL CHECK (phase IN ('scheduled', 'prequeue', 'open', 'paused', 'closed')),
    phase_at         timestamptz      NOT NULL,
    -- Frozen with the round's published rules.
    policy           text             NOT NULL CHECK (policy IN ('fifo', 'draw')),
    bucket_ms        integer          NOT NULL CHECK (bucket_ms > 0),
    claim_seconds    integer          NOT NULL CHECK (claim_seconds > 0),
    idle_seconds     integer          NOT NULL CHECK (idle_seconds > 0),
    -- What operators set. Changes that the home shard must learn get a new version.
    rate_per_second  double precision NOT NULL CHECK (rate_per_second >= 0),
    active_max       integer          NOT NULL CHECK (active_max >= 0),
    message          text             NOT NULL DEFAULT '',
    opens_at         timestamptz,
    settings_version bigint           NOT NULL DEFAULT 1,
    -- The newest bucket; it is open while it has joins that are not numbered yet.
    bucket           bigint           NOT NULL DEFAULT 0,
    bucket_size      bigint           NOT NULL DEFAULT 0 CHECK (bucket_size >= 0),
    bucket_left      bigint           NOT NULL DEFAULT 0 CHECK (bucket_left BETWEEN 0 AND bucket_size),
    -- next_number is the base of the next bucket to close. left_waiting counts the
    -- people who left before they were called.
    next_number      bigint           NOT NULL DEFAULT 0,
    serving          bigint           NOT NULL DEFAULT 0,
    left_waiting     bigint           NOT NULL DEFAULT 0 CHECK (left_waiting >= 0),
    -- The room's own clock: milliseconds of the round during which it admitted.
    -- Turns lapse by it, so a pause, an outage or a dead leader eats nobody's turn.
    open_ms          bigint           NOT NULL DEFAULT 0,
    credit           double precision NOT NULL DEFAULT 0,
    ticked_at        timestamptz      NOT NULL,
    leader           text             NOT NULL DEFAULT '',
    leader_until     timestamptz      NOT NULL DEFAULT 'epoch',
    CONSTRAINT queue_serving CHECK (serving BETWEEN 0 AND next_number)
) WITH (fillfactor = 50);

-- One row per round: its rules as published, byte for byte (type json keeps
-- them; the hash is over these bytes), and the seed that its permutation keys
-- come from. The rules carry the seed's hash.
CREATE TABLE queue_round (
    event_id   integer     NOT NULL,
    round      integer     NOT NULL,
    rules      json        NOT NULL,
    rules_hash bytea       NOT NULL,
    seed       bytea       NOT NULL,
    reason     text        NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at   timestamptz,
    PRIMARY KEY (event_id, round)
);

-- Closed buckets: number = base + permute(perm_key, size, join_index).
CREATE TABLE queue_bucket (
    event_id  integer     NOT NULL,
    round     integer     NOT NULL,
    bucket    bigint      NOT NULL,
    base      bigint      NOT NULL CHECK (base >= 0),
    size      bigint      NOT NULL CHECK (size > 0),
    perm_key  bytea       NOT NULL,
    closed_at timestamptz NOT NULL,
    PRIMARY KEY (event_id, round, bucket)
);
-- Conditions that hold for every row, here and below, keep an index to look-ups by
-- its own columns: a planner without statistics takes it for others, too, that share
-- event and round, and reads the whole queue for each.
CREATE UNIQUE INDEX queue_bucket_base ON queue_bucket (event_id, round, base) WHERE base IS NOT NULL;

-- One row per advance of the serving number: numbers in [first_number,
-- after_number) were called together and lapse together at lapses_ms of the
-- room's clock. absent counts those who left, before or after the call.
CREATE TABLE queue_call (
    event_id     integer     NOT NULL,
    round        integer     NOT NULL,
    first_number bigint      NOT NULL,
    after_number bigint      NOT NULL,
    called_at    timestamptz NOT NULL,
    lapses_ms    bigint      NOT NULL,
    claimed      bigint      NOT NULL DEFAULT 0 CHECK (claimed >= 0),
    absent       bigint      NOT NULL DEFAULT 0 CHECK (absent >= 0),
    PRIMARY KEY (event_id, round, first_number),
    CONSTRAINT queue_call_size CHECK (claimed + absent <= after_number - first_number)
) WITH (fillfactor = 70);
CREATE INDEX queue_call_open ON queue_call (event_id, round, lapses_ms);

-- One row per place. An account's place is its highest turn; earlier turns have
-- lapsed, left or been used, and stay as history. number is stored once it
-- matters to somebody (claimed, left); until then it follows from the bucket.
CREATE TABLE queue_entry (
    event_id    integer     NOT NULL,
    round       integer     NOT NULL,
    account_id  uuid        NOT NULL,
    turn        integer     NOT NULL CHECK (turn > 0),
    bucket      bigint      NOT NULL,
    join_index  bigint      NOT NULL CHECK (join_index >= 0),
    joined_at   timestamptz NOT NULL,
    risk        jsonb       NOT NULL,
    number      bigint,
    claimed_at  timestamptz,
    -- Until when, by the room's clock, a claimed turn waits for a free slot.
    door_ms     bigint,
    admitted_at timestamptz,
    session_id  uuid,
    left_at     timestamptz,
    lapsed_at   timestamptz,
    PRIMARY KEY (event_id, round, account_id, turn),
    CONSTRAINT queue_entry_state CHECK (
        (claimed_at IS NULL OR number IS NOT NULL)
        AND (door_ms IS NULL OR claimed_at IS NOT NULL AND admitted_at IS NULL AND left_at IS NULL AND lapsed_at IS NULL)
        AND (admitted_at IS NULL OR claimed_at IS NOT NULL)
        AND ((admitted_at IS NULL) = (session_id IS NULL))
        AND (left_at IS NULL OR lapsed_at IS NULL))
) WITH (fillfactor = 90);
CREATE UNIQUE INDEX queue_entry_place ON queue_entry (event_id, round, bucket, join_index) WHERE bucket IS NOT NULL;
CREATE INDEX queue_entry_door ON queue_entry (event_id, round, door_ms) WHERE door_ms IS NOT NULL;
CREATE INDEX queue_entry_gap ON queue_entry (event_id, round, number) WHERE left_at IS NOT NULL AND number IS NOT NULL;

-- +goose Down
DROP TABLE queue_entry, queue_call, queue_bucket, queue_round, queue_state;
