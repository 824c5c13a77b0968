-- +goose Up
-- Messages of payment providers, kept until they are done and for a while after,
-- so that a repeat is known as one. Written by package checkout alone. The key
-- follows from the provider's name and its id of the message, so it is unique
-- exactly when they are.
CREATE TABLE provider_event (
    message_id        uuid        NOT NULL PRIMARY KEY,
    provider          text        NOT NULL,
    provider_event_id text        NOT NULL,
    event_id          integer     NOT NULL,
    operation_id      uuid        NOT NULL,
    type              text        NOT NULL,
    reference         text        NOT NULL,
    suggested_state   text        NOT NULL,
    ignored           text        NOT NULL DEFAULT '',
    sent_at           timestamptz NOT NULL,
    received_at       timestamptz NOT NULL,
    next_at           timestamptz,
    attempts          integer     NOT NULL DEFAULT 0,
    lease_until       timestamptz,
    last_error        text        NOT NULL DEFAULT '',
    parked_at         timestamptz,
    CONSTRAINT provider_event_ignored CHECK (ignored = '' OR next_at IS NULL)
);
CREATE INDEX provider_event_due ON provider_event (next_at) WHERE next_at IS NOT NULL AND parked_at IS NULL;
CREATE INDEX provider_event_parked ON provider_event (parked_at) WHERE parked_at IS NOT NULL;
CREATE INDEX provider_event_received ON provider_event (received_at);

-- What checkout looks for among the ledger's rows: due operations of one kind, so
-- that a backlog of captures costs the others nothing; operations without an end, for
-- reconciliation and their age; parked ones; and free orders, which have no
-- operation that would drive them.
DROP INDEX operation_due;
CREATE INDEX operation_due ON payment_operation (kind, next_at) WHERE next_at IS NOT NULL AND parked_at IS NULL;
CREATE INDEX operation_open ON payment_operation (created_at) WHERE status IN ('created', 'unknown', 'action_required');
CREATE INDEX operation_parked ON payment_operation (parked_at) WHERE parked_at IS NOT NULL;
CREATE INDEX orders_free ON orders (created_at) WHERE status = 'payment_pending' AND payment_operation_id IS NULL;

-- +goose Down
DROP INDEX orders_free, operation_parked, operation_open, operation_due;
CREATE INDEX operation_due ON payment_operation (next_at) WHERE next_at IS NOT NULL AND parked_at IS NULL;
DROP TABLE provider_event;
