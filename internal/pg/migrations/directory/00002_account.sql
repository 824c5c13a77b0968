-- +goose Up
-- Who there is: buyers, tenants and operators. All tables here are written by
-- package account alone. Names, addresses and network addresses are stored
-- nowhere else in usher; its package comment holds the retention table.
CREATE TABLE account (
    account_id uuid        NOT NULL PRIMARY KEY,
    status     text        NOT NULL CHECK (status IN ('active', 'blocked')),
    created_at timestamptz NOT NULL
);
CREATE INDEX account_blocked ON account (account_id) WHERE status = 'blocked';

-- The person behind an account. Erasing a person deletes this row and keeps the account.
CREATE TABLE person (
    account_id       uuid        NOT NULL PRIMARY KEY,
    email            text        NOT NULL,
    email_normalized text        COLLATE "C" NOT NULL CONSTRAINT person_email UNIQUE,
    name             text        NOT NULL DEFAULT '',
    name_normalized  text        COLLATE "C" NOT NULL DEFAULT '',
    locale           text        NOT NULL CHECK (locale IN ('en', 'zh-Hant')),
    updated_at       timestamptz NOT NULL
);
CREATE INDEX person_name ON person (name_normalized) WHERE name_normalized <> '';

-- One row per code sent; it counts for the limits for a day. sent_to is where
-- the mail went, which is what entering the code proves.
CREATE TABLE login_code (
    code_id          bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email_normalized text        COLLATE "C" NOT NULL,
    sent_to          text        NOT NULL,
    remote           text        COLLATE "C" NOT NULL,
    locale           text        NOT NULL,
    salt             bytea       NOT NULL,
    code_hash        bytea       NOT NULL,
    created_at       timestamptz NOT NULL,
    expires_at       timestamptz NOT NULL,
    attempts         integer     NOT NULL DEFAULT 0,
    used_at          timestamptz
);
CREATE INDEX login_code_email ON login_code (email_normalized, created_at);
CREATE INDEX login_code_remote ON login_code (remote, created_at);
CREATE INDEX login_code_created ON login_code (created_at);

-- Failed sign-ins per network address, for its limit.
CREATE TABLE login_failure (
    failure_id bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    remote     text        COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL
);
CREATE INDEX login_failure_remote ON login_failure (remote, created_at);
CREATE INDEX login_failure_created ON login_failure (created_at);

-- Sessions that were signed out before their end.
CREATE TABLE revoked_session (
    session_id uuid        NOT NULL PRIMARY KEY,
    revoked_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX revoked_session_revoked ON revoked_session (revoked_at);
CREATE INDEX revoked_session_expires ON revoked_session (expires_at);

-- Tenant numbers stand where a shard id carries an event number, so they have
-- the upper half of its 24 bits for themselves.
CREATE TABLE tenant (
    tenant_id     uuid        NOT NULL PRIMARY KEY,
    tenant_number integer     NOT NULL CONSTRAINT tenant_number UNIQUE CHECK (tenant_number BETWEEN 8388608 AND 16777215),
    name          text        NOT NULL CONSTRAINT tenant_name UNIQUE,
    created_at    timestamptz NOT NULL
);

-- Staff. An operator with a tenant acts for that tenant alone.
CREATE TABLE operator (
    operator_id uuid        NOT NULL PRIMARY KEY,
    tenant_id   uuid,
    name        text        NOT NULL,
    created_at  timestamptz NOT NULL
);

-- key_hash is the SHA-256 of a 256-bit random secret that is shown once.
CREATE TABLE api_key (
    key_id      bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operator_id uuid        NOT NULL,
    label       text        NOT NULL,
    prefix      text        NOT NULL,
    key_hash    bytea       NOT NULL CONSTRAINT api_key_hash UNIQUE CHECK (octet_length(key_hash) = 32),
    created_at  timestamptz NOT NULL,
    revoked_at  timestamptz
);
CREATE INDEX api_key_operator ON api_key (operator_id);

-- What operators did and why. Append-only, numbered without holes: a missing
-- number is a deleted line.
CREATE TABLE operator_action (
    action_number bigint      NOT NULL PRIMARY KEY,
    operator_id   uuid        NOT NULL,
    verb          text        NOT NULL,
    target        text        NOT NULL,
    reason        text        NOT NULL,
    detail        jsonb       NOT NULL,
    created_at    timestamptz NOT NULL
);
CREATE INDEX operator_action_operator ON operator_action (operator_id, action_number);
CREATE INDEX operator_action_target ON operator_action (target, action_number);

-- +goose Down
DROP TABLE operator_action, api_key, operator, tenant, revoked_session, login_failure, login_code, person, account;
