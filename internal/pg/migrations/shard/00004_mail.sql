-- +goose Up
-- Mails that orders cause, due and done. Written by package notify alone; sent
-- by package work. It holds account ids, never addresses or names.
CREATE TABLE mail (
    mail_id          uuid        NOT NULL PRIMARY KEY,
    event_id         integer     NOT NULL,
    order_id         uuid        NOT NULL,
    account_id       uuid        NOT NULL,
    kind             text        NOT NULL CHECK (kind IN ('tickets')),
    created_at       timestamptz NOT NULL,
    -- The mail server took it. A crash right after that sends it once more, with
    -- the same Message-ID.
    sent_at          timestamptz,
    -- It need not be sent any more.
    withdrawn_at     timestamptz,
    withdrawn_reason text        NOT NULL DEFAULT '',
    -- Sendings that failed in a row; waiting for tickets is no failure.
    failures         integer     NOT NULL DEFAULT 0,
    next_at          timestamptz,
    attempts         integer     NOT NULL DEFAULT 0,
    lease_until      timestamptz,
    last_error       text        NOT NULL DEFAULT '',
    parked_at        timestamptz,
    CONSTRAINT mail_per_order UNIQUE (order_id, kind),
    CONSTRAINT mail_settled CHECK ((sent_at IS NULL AND withdrawn_at IS NULL) = (next_at IS NOT NULL))
);
CREATE INDEX mail_due ON mail (next_at) WHERE next_at IS NOT NULL AND parked_at IS NULL;
CREATE INDEX mail_parked ON mail (parked_at) WHERE parked_at IS NOT NULL;

-- +goose Down
DROP TABLE mail;
