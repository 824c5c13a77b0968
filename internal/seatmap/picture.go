package seatmap

import (
	"errors"
	"math"
	"slices"
	"time"

	"usher"
	"usher/internal/ledger"
)

// How a seat is shown, two bits each. Pending seats are shown as held: to
// everybody but their buyer they are the same.
const (
	shownAvailable byte = 0
	shownHeld      byte = 1
	shownSold      byte = 2
	shownBlocked   byte = 3
)

// errHole says that the outbox did not go on where the picture ended.
var errHole = errors.New("seat map: hole in the sequence of changes")

// noDeadline is the deadline of seats that no time frees.
const noDeadline = math.MaxInt64

// picture is the state of one event's seats at one position. It is owned by one
// goroutine. Everything here is a function of the snapshot, the entries and the
// database time that were put in.
type picture struct {
	chart *Chart
	pos   Position
	// lapsed is the latest deadline that passed: between it and pos.Lapse nothing
	// lapsed, so that a reader who knows the picture as of lapsed knows it as of
	// pos.Lapse.
	lapsed int64
	// raw is what the ledger says of each seat (pending counts as held), deadline
	// when a held one lapses, in database milliseconds.
	raw      []byte
	deadline []int64
	nextDue  int64
	// packed is what is shown, as snapshots carry it, up to date for every seat
	// that is not in touched.
	packed  []byte
	touched []int32
	marked  []bool
	// oldest is when the oldest change that was not taken yet was committed.
	oldest time.Time
	// strangers counts seats of the ledger that the chart does not have.
	strangers int
}

// newPicture starts from a ledger snapshot. Seats of the chart that the ledger
// does not have are not for sale and shown blocked.
func newPicture(chart *Chart, snap ledger.Snapshot) *picture {
	n := chart.Len()
	p := &picture{
		chart: chart, pos: Position{snap.Seq, snap.Now.UnixMilli()}, nextDue: noDeadline,
		raw: make([]byte, n), deadline: make([]int64, n), packed: make([]byte, (n+3)/4), marked: make([]bool, n),
	}
	for i := range n {
		p.raw[i], p.deadline[i] = shownBlocked, noDeadline
	}
	for _, s := range snap.Seats {
		p.set(s.ID, s.Status, s.ExpiresAt)
	}
	p.lapseTo(p.pos.Lapse)
	for i := range n {
		p.pack(i)
	}
	p.take()
	return p
}

// apply adds the next entry of the outbox. Entries the picture has already are
// ignored; one that leaves a hole fails with errHole and changes nothing.
func (p *picture) apply(e ledger.Entry) error {
	if e.Seq <= p.pos.Seq {
		return nil
	}
	if e.Seq != p.pos.Seq+1 {
		return errHole
	}
	p.pos.Seq = e.Seq
	for _, c := range e.Payload.Seats {
		p.set(c.Seat, c.To, c.ExpiresAt)
	}
	if p.oldest.IsZero() {
		p.oldest = e.At
	}
	return nil
}

func (p *picture) set(id usher.SeatID, status usher.SeatStatus, expires *time.Time) {
	i, ok := p.chart.Ordinal(id)
	if !ok {
		p.strangers++
		return
	}
	p.raw[i], p.deadline[i] = shownBlocked, noDeadline
	switch status {
	case usher.SeatAvailable:
		p.raw[i] = shownAvailable
	case usher.SeatHeld:
		p.raw[i] = shownHeld
		if expires != nil {
			// Rounded up: a seat is never shown free before it can be taken.
			p.deadline[i] = expires.Add(time.Millisecond - time.Nanosecond).UnixMilli()
			p.nextDue = min(p.nextDue, p.deadline[i])
		}
	case usher.SeatPending:
		p.raw[i] = shownHeld
	case usher.SeatSold:
		p.raw[i] = shownSold
	}
	p.touch(i)
}

func (p *picture) touch(i int) {
	if !p.marked[i] {
		p.marked[i] = true
		p.touched = append(p.touched, int32(i))
	}
}

// lapseTo lets time pass to now, in database milliseconds.
func (p *picture) lapseTo(now int64) {
	now = max(now, p.pos.Lapse)
	p.pos.Lapse = now
	if now < p.nextDue {
		return
	}
	p.nextDue = noDeadline
	for i, due := range p.deadline {
		if due > now {
			p.nextDue = min(p.nextDue, due)
			continue
		}
		// It stays held in the ledger until somebody takes or sweeps it; for the
		// picture its time is over.
		p.deadline[i] = noDeadline
		p.raw[i] = shownAvailable
		p.lapsed = max(p.lapsed, due)
		p.touch(i)
	}
}

// take brings packed up to date and returns the ordinals of every seat that was
// touched since the last call, sorted. All of them, even those that look as
// before: a reader may stand at a position in between.
func (p *picture) take() []int32 {
	out := slices.Clone(p.touched)
	slices.Sort(out)
	for _, i := range out {
		p.marked[i] = false
		p.pack(int(i))
	}
	p.touched, p.oldest = p.touched[:0], time.Time{}
	return out
}

// pack writes one seat's two bits: the first seat is in the highest bits of the
// first byte, so that a character of base64 holds exactly three seats and
// compresses well.
func (p *picture) pack(i int) {
	shift := 6 - 2*(i&3)
	p.packed[i>>2] = p.packed[i>>2]&^(3<<shift) | p.raw[i]<<shift
}

// shown returns how a packed state shows a seat.
func shown(packed []byte, i int) byte { return packed[i>>2] >> (6 - 2*(i&3)) & 3 }
