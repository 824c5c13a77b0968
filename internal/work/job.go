package work

import (
	"context"
	"math/rand/v2"
	"time"
)

// Table is a table whose rows are worked. All three are constants of the code,
// never input.
type Table struct {
	// Name is the table, Key its uuid primary key.
	Name, Key string
	// Only is an SQL condition on the table's own columns that narrows a queue to
	// a part of the rows, for example "kind = 'capture'"; empty takes all.
	Only string
}

// Job is one leased row.
type Job struct {
	// ID is the row's key.
	ID [16]byte
	// Attempts counts the starts, this one included: 1 is the first.
	Attempts int
}

// Handler works one row. ctx ends before the row's lease does. A handler may be
// run again for the same row at any time after it returned, or after its process
// died at any line.
type Handler func(ctx context.Context, j Job) Verdict

type verdictKind uint8

const (
	verdictAgain verdictKind = iota
	verdictDone
	verdictPark
)

var verdictNames = [...]string{"again", "done", "park"}

// Verdict is what becomes of a row after its handler returned. The zero value
// runs it again after a while: forgetting to decide loses nothing.
type Verdict struct {
	kind   verdictKind
	after  time.Duration
	reason string
}

// Done ends the row's work: it is due no more, unless it was made due again
// while it ran.
func Done() Verdict { return Verdict{kind: verdictDone} }

// Again makes the row due after the given time; reason is kept in last_error and
// must hold no secret.
func Again(after time.Duration, reason string) Verdict {
	return Verdict{kind: verdictAgain, after: max(after, time.Millisecond), reason: reason}
}

// Park sets the row aside until Redrive; reason is kept in last_error and must
// hold no secret.
func Park(reason string) Verdict { return Verdict{kind: verdictPark, reason: reason} }

// String returns "again", "done" or "park".
func (v Verdict) String() string { return verdictNames[v.kind] }

// After returns the pause of an Again, 0 otherwise.
func (v Verdict) After() time.Duration { return v.after }

// Reason returns the text that last_error gets.
func (v Verdict) Reason() string { return v.reason }

// Options bound one queue; zero fields take the defaults.
type Options struct {
	// Batch is the most rows one claim takes; default 64.
	Batch int
	// Workers is the most rows run at once by this process; default 16.
	Workers int
	// Lease is how long a row belongs to one run; default 30 s. A crashed run is
	// taken over after it. The handler's context ends a tenth earlier.
	Lease time.Duration
	// Poll is the mean pause between looks for due rows when nothing wakes the
	// queue; default 500 ms. It is jittered by half both ways.
	Poll time.Duration
}

func (o Options) withDefaults() Options {
	if o.Batch == 0 {
		o.Batch = 64
	}
	if o.Workers == 0 {
		o.Workers = 16
	}
	if o.Lease == 0 {
		o.Lease = 30 * time.Second
	}
	if o.Poll == 0 {
		o.Poll = 500 * time.Millisecond
	}
	return o
}

// Backoff returns the pause before the next attempt after the given number of
// attempts: random between half of base and a ceiling that doubles with every
// attempt up to limit, so that many rows that failed together do not return
// together.
func Backoff(attempts int, base, limit time.Duration) time.Duration {
	ceiling := limit
	if n := max(attempts, 1) - 1; n < 32 && base<<n>>n == base && base<<n < limit {
		ceiling = base << n
	}
	floor := min(base, limit) / 2
	return floor + rand.N(max(ceiling-floor, 1))
}
