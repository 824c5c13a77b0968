// Package crowd is a crowd of simulated people who go through a whole on-sale
// over HTTP: queue, map, hold, payment, ticket, gate. They want seats, places
// without seats, or both; they quarrel over them, get declined, walk away, lose
// answers and ask again, as people and their phones do.
//
// It knows usher by its HTTP interface alone, keeps its own record of what it was
// told, and judges at the end: whoever paid has exactly the tickets paid for, no
// seat was sold to two people and no tier beyond its capacity, no ticket opened
// the gate twice, nothing is left unknown, and the audit is clean. A server that
// dies and comes back in between is no excuse for anything.
//
// The same people can be kept about in a demo, to be looked at instead of judged:
// Keep lets them move at human pace, one after another, without an end.
package crowd
