// Package work runs due rows. A durable intent (authorize this, send that mail)
// is a row in its owner's table with the time at which it is due; a Runner
// leases due rows by database time, hands each to its handler, and writes the
// verdict back. There is no second queue: the row is the job.
//
// A table that is worked has these columns beside its own:
//
//	next_at     timestamptz            when it is due; NULL is "nothing to do"
//	attempts    integer DEFAULT 0      how often it was started
//	lease_until timestamptz            until when one runner has it for itself
//	last_error  text    DEFAULT ''     why it has to run again
//	parked_at   timestamptz            set: nobody runs it until a person redrives it
//
// a uuid key, an index on (next_at) WHERE next_at IS NOT NULL AND parked_at IS
// NULL, and, where parked rows are listed, one on (parked_at) WHERE parked_at IS
// NOT NULL.
//
// Invariants:
//   - a row is run by one handler at a time while its lease lasts, in whatever
//     process; a handler's context ends before its lease does;
//   - a runner that died loses nothing: the lease runs out and the row runs again,
//     so every handler must be safe to repeat;
//   - a row that was made due again while it ran stays due, and a row that its
//     owner settled while it ran stays settled, whatever the verdict;
//   - a row that fails, panics or hangs costs its own slot and no other row's;
//   - no database connection is held while a handler runs.
//
// It must not know what a row means.
package work
