// Package ledger is the event ledger: the one path through which every change
// of an event's inventory goes, and the only writer of seats, holds, orders,
// payment operations, idempotency records and the outbox.
//
// Commands of one event are collected while the previous group commits, decided
// together in memory by pure functions (decide.go), and written by set-based
// statements in one transaction (sql.go, run.go). Invariants it keeps:
//
//   - a seat has at most one live owner; only its own hold releases or sells it;
//   - deadlines are judged by the database clock, read after the locks are held;
//   - what a command changed, its idempotency result and its numbered outbox row
//     commit together or not at all;
//   - a writer with an old epoch or old rules changes nothing.
//
// It must not call a payment provider, send anything, or decide from a replica.
package ledger
