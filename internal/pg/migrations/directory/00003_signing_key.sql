-- +goose Up
-- Keys that sign tokens, one current key per purpose and older ones through
-- their overlap. Written by package token alone. A secret never leaves this
-- table and the memory of usher processes.
CREATE TABLE signing_key (
    key_id     integer     NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    purpose    text        NOT NULL CHECK (purpose IN ('session', 'queue', 'admission', 'device', 'ticket')),
    secret     bytea       NOT NULL CHECK (octet_length(secret) = 32),
    created_at timestamptz NOT NULL,
    -- Tokens are signed with the key from here on: later than created_at, so that
    -- every process knows the key before any signs with it.
    signs_from timestamptz NOT NULL,
    -- Tokens signed with the key are refused from here on; NULL is the current key.
    retired_at timestamptz
);
CREATE UNIQUE INDEX signing_key_current ON signing_key (purpose) WHERE retired_at IS NULL;

-- +goose Down
DROP TABLE signing_key;
