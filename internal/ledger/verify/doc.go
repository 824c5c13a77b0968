// Package verify proves package ledger from outside, against a real PostgreSQL:
// linearizability of recorded histories over several processes with crashes,
// lost and late COMMITs, moved database clocks, expiry messages in every order,
// the fault matrix of holds and expiry, and planted bugs that must all be caught.
// It holds tests alone.
//
// What every test here ends with: a clean audit, and an outbox in which each
// acknowledged command stands exactly once.
//
// USHER_VERIFY_SCALE multiplies the traffic; from 2 on every planted bug and
// every order of the clock tests is run instead of a rotating few.
package verify
