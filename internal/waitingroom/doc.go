// Package waitingroom is the queue in front of an event's sale: joins, buckets,
// calls, admission tokens and shopper sessions. It protects the flow and is
// never a substitute for the ledger's own checks: when it fails or is bypassed,
// fairness suffers and inventory does not.
//
// Life of a place. A join is one durable row, written in groups under the lock
// of the room's queue_state row, which gives it a bucket and a dense index. When
// the bucket closes every place in it gets its number for good: the bucket's
// base plus a keyed permutation of the index. A leader (one per event, by a
// lease row) raises the serving number at a fixed rate; a number below it is
// called. A called account is admitted: its turn is claimed in the room, then
// the home shard creates its shopper session under the cap, then the room notes
// the session. Each step is idempotent and the next call repeats what a crash
// left out, so the two databases converge without a common transaction.
//
// Invariants it keeps:
//
//   - one place per round and account; an account's place is its highest turn,
//     and a new turn begins only when the earlier one lapsed, left or was used;
//   - numbers are dense and never change; people who leave or lapse leave gaps;
//   - live sessions never exceed the cap: they are counted in the transaction
//     that creates one, under the event's session_gate row;
//   - called but unclaimed turns, claimed turns at the door and live sessions
//     together never exceed the cap when somebody is called;
//   - one turn gives one session, and an account has one live session per event;
//   - turns lapse by the room's own clock, which only runs while the room admits:
//     a pause, a lost shard or a dead leader makes nobody's turn lapse;
//   - with the home shard down joins, polls and places keep working, and nobody
//     is called or admitted.
//
// All tables of the room and session_gate and shopper_session in the shards are
// written by this package alone. It must not read or move inventory.
package waitingroom
