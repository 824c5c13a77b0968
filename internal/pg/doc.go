// Package pg is how usher talks to PostgreSQL: pools per home with their
// timeouts, the one Commit helper, transactions with bounded retries, the group
// collector, error classification by SQLSTATE, and the embedded migrations.
//
// It knows homes and transactions but no business: no table of the domain is
// named here outside the migrations.
package pg
