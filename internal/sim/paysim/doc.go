// Package paysim is a stand-in for a card payment provider: a process of its
// own that speaks enough of Stripe's wire protocol for the official SDK, keeps
// its own durable ledger, sends signed webhooks, shows the buyer a card page
// and a bank's challenge page, and injects faults on command.
//
// Invariants:
//   - A request's whole effect (objects, events, the answer stored under its
//     idempotency key) is one line of the journal. No answer and no webhook
//     leaves before every line it could be based on is on disk, so a killed
//     process comes back knowing everything it ever told anybody.
//   - Objects are immutable versions: a change puts a new version in place. An
//     event and a stored answer keep the version they were made from, so what
//     they show never changes.
//   - An intent is authorized at most once, captured at most once, and never
//     beyond what was authorized; GET /control/invariants proves it over the
//     whole ledger and per order.
//   - Latency, chance and faults never change what an executed request does,
//     only when, whether, and how it is answered.
//
// It has no real money and no secrets worth keeping: its control plane is open
// to whoever reaches the port. docs/payments.md describes it for its users.
package paysim
