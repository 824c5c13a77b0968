package waitingroom

import (
	"time"

	"usher"
)

// state is one room's queue_state row, as the decisions see it.
type state struct {
	event       usher.EventID
	round       int
	phase       usher.QueuePhase
	bucketMs    int64
	claimMs     int64
	rate        float64
	activeMax   int64
	bucket      int64
	bucketSize  int64
	bucketLeft  int64
	next        int64
	serving     int64
	leftWaiting int64
	openMs      int64
	credit      float64
	tickedAt    time.Time
	leader      string
	leaderUntil time.Time
}

// bucketAt is the number of the bucket that covers the time: milliseconds since
// 1970, in bucket lengths.
func (s *state) bucketAt(t time.Time) int64 { return t.UnixMilli() / s.bucketMs }

// bucketDue reports whether the open bucket's time is over.
func (s *state) bucketDue(now time.Time) bool { return s.bucketSize > 0 && s.bucketAt(now) > s.bucket }

// bucketRow is a closed bucket.
type bucketRow struct {
	number, base, size int64
	key                [32]byte
}

// place is the number that the bucket gives its index.
func (b *bucketRow) place(index int64) int64 {
	return b.base + int64(Permute(b.key, uint64(b.size), uint64(index)))
}

// callRow is one advance of the serving number.
type callRow struct {
	first, after     int64
	lapsesMs         int64
	claimed, absent  int64
	inserted, edited bool
}

// numberless marks an entry whose bucket is still open.
const numberless = -1

// entry is one queue_entry row.
type entry struct {
	account    usher.AccountID
	turn       int
	bucket     int64
	index      int64
	joinedAt   time.Time
	risk       []byte
	number     int64
	claimedAt  *time.Time
	doorMs     *int64
	admittedAt *time.Time
	session    *usher.SessionID
	leftAt     *time.Time
	lapsedAt   *time.Time
}

// PlaceStatus says where a place stands.
type PlaceStatus string

// The states of a place. Waiting: not called yet. Called: may be admitted now.
// Lapsed: called and not claimed in time; joining again gives a place at the
// end. Admitted: its turn became a shopper session. Left: given up.
const (
	PlaceWaiting  PlaceStatus = "waiting"
	PlaceCalled   PlaceStatus = "called"
	PlaceLapsed   PlaceStatus = "lapsed"
	PlaceAdmitted PlaceStatus = "admitted"
	PlaceLeft     PlaceStatus = "left"
)

// standing judges an entry by the room's own clock. c is the call that the
// entry's number belongs to; it is looked at only for a called entry that nobody
// claimed. lapsesMs is when a called turn lapses by that clock.
func (s *state) standing(e *entry, c *callRow) (status PlaceStatus, lapsesMs int64) {
	switch {
	case e.leftAt != nil:
		return PlaceLeft, 0
	case e.lapsedAt != nil:
		return PlaceLapsed, 0
	case e.admittedAt != nil:
		return PlaceAdmitted, 0
	case e.number == numberless || e.number >= s.serving:
		return PlaceWaiting, 0
	case e.doorMs != nil:
		lapsesMs = *e.doorMs
	case c != nil:
		lapsesMs = c.lapsesMs
	}
	if s.openMs >= lapsesMs {
		return PlaceLapsed, lapsesMs
	}
	return PlaceCalled, lapsesMs
}
