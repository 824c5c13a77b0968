package ledger

import "usher"

// WithWaiting bounds how many new holds of one event wait for a group.
func WithWaiting(n int) Option { return func(l *Ledger) { l.waitingMax = n } }

// Waiting is how many commands of the event wait for a group.
func (l *Ledger) Waiting(event usher.EventID) int { return l.group.Waiting(event) }

// RoomForPairs reports whether an event may have two groups on these pools.
var RoomForPairs = roomForPairs
