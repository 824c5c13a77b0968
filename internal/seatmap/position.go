package seatmap

import (
	"strconv"
	"strings"
)

// Position says how much a picture contains: every change up to Seq, and every
// hold drawn as free whose deadline is not after Lapse, in milliseconds of
// database time since 1970. Lapse goes with the clock, whether or not anything
// lapses, so that positions of different processes compare.
type Position struct {
	Seq   int64
	Lapse int64
}

// String returns the text form, "seq.lapse": the id of SSE events.
func (p Position) String() string {
	return strconv.FormatInt(p.Seq, 10) + "." + strconv.FormatInt(p.Lapse, 10)
}

// ParsePosition reads the text form; ok is false for anything else.
func ParsePosition(s string) (p Position, ok bool) {
	seq, lapse, found := strings.Cut(s, ".")
	a, errSeq := strconv.ParseInt(seq, 10, 64)
	b, errLapse := strconv.ParseInt(lapse, 10, 64)
	p = Position{a, b}
	return p, found && errSeq == nil && errLapse == nil && a >= 0 && b >= 0 && p.String() == s
}
