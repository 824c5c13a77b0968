// Package notify tells buyers what happened, by mail: sign-in codes, sent while
// the buyer waits, and tickets, sent from durable rows.
//
// A captured order gets one mail row in its shard, in the commit that advances
// the reader's cursor; package work sends it. The row holds ids: the address is
// asked of the AddressBook and the content of the TicketSource when the mail goes
// out. Invariants:
//
//   - one ticket mail per order, whatever is delivered twice or crashes; the one
//     unavoidable repeat, after a crash between the mail server's answer and our
//     note of it, carries the same Message-ID;
//   - a mail that fails changes nothing about its order and delays no other mail:
//     it is tried again with growing pauses, then parked and listed;
//   - text from people (names of persons, events, seats) is escaped for where it
//     stands, its direction is kept to itself, and control characters never reach
//     a header or a body;
//   - addresses, names and codes are in mails only, never in logs, rows or metrics.
package notify
