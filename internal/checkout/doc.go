// Package checkout moves orders and their payments: from the buyer's checkout to
// a sold and captured order, or to a proof that nothing is authorized. It calls
// the provider and tells the ledger what it learned; it decides nothing about
// seats itself.
//
// docs/checkout-cycle.md is the numbered money path. Invariants:
//
//   - every provider call follows the commit that makes its intent and its
//     idempotency key durable, and no database connection is held while it runs;
//   - the outcome of a call is done, not done or unknown; unknown is recorded as
//     unknown and found out by asking, never by time alone;
//   - an answer, a webhook, a look-up and reconciliation end in one pure function
//     per kind of operation (decide.go); repeats and late news change nothing;
//   - one operation is worked by one goroutine at a time, wherever it runs, under
//     the lease of its row;
//   - an order is confirmed only by the provider's own statement that exactly its
//     amount is authorized, and its seats go back only after the provider's own
//     statement that nothing is or can still be authorized, or because nothing was
//     ever sent.
//
// It writes provider_event alone. payment_operation belongs to the ledger; work
// keeps the schedule columns of its rows.
package checkout
