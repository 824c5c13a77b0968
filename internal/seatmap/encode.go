package seatmap

import (
	"compress/gzip"
	"encoding/base64"
	"strconv"
	"sync"
	"time"

	"usher"
)

// resetFloor is the size in bytes below which a frame is never worth a reset.
const resetFloor = 2 << 10

// Encoded is a snapshot as it goes out: made once, shared by every reader, never
// to be changed.
type Encoded struct {
	// Body is the JSON of docs/seat-map.md; Gzip is the same compressed.
	Body []byte
	Gzip []byte
	// ETag is weak, because both forms have it. It changes with seq, when holds
	// lapse, and when the database goes away or comes back.
	ETag string
	// Seq and Lapse are the position.
	Seq   int64
	Lapse int64
	// Live is false when the picture is the last one known and the database is away.
	Live bool
}

// view is a published picture: immutable.
type view struct {
	event  usher.EventID
	chart  *Chart
	pos    Position
	lapsed int64     // see picture
	at     time.Time // database time
	live   bool
	packed []byte
	encode func() Encoded
}

func newView(event usher.EventID, p *picture, at time.Time, live bool, packed []byte) *view {
	v := &view{event: event, chart: p.chart, pos: p.pos, lapsed: p.lapsed, at: at, live: live, packed: packed}
	// Nobody may ask for this one, and then it costs nothing.
	v.encode = sync.OnceValue(v.snapshot)
	return v
}

func (v *view) snapshot() Encoded {
	b := make([]byte, 0, 256+base64.StdEncoding.EncodedLen(len(v.packed)))
	b = append(b, `{"eventId":"`...)
	b = append(b, v.event.String()...)
	b = append(b, `","chart":"`...)
	b = append(b, v.chart.Hash()...)
	b = append(b, `","count":`...)
	b = strconv.AppendInt(b, int64(v.chart.Len()), 10)
	b = append(b, `,"seq":`...)
	b = strconv.AppendInt(b, v.pos.Seq, 10)
	b = append(b, `,"lapse":`...)
	b = strconv.AppendInt(b, v.pos.Lapse, 10)
	b = appendState(append(b, ','), v.at, v.live)
	b = append(b, `,"states":"`...)
	b = base64.StdEncoding.AppendEncode(b, v.packed)
	b = append(b, `"}`...)
	content := Position{v.pos.Seq, v.lapsed}.String()
	if !v.live {
		content += "-away"
	}
	return Encoded{Body: b, Gzip: compress(b, gzip.DefaultCompression), ETag: `W/"` + content + `"`, Seq: v.pos.Seq, Lapse: v.pos.Lapse, Live: v.live}
}

// resetAbove is the most bytes of JSON a frame onto this view may have before
// taking the view's snapshot is the better deal.
func (v *view) resetAbove() int { return max(resetFloor, len(v.encode().Gzip)/2) }

func appendState(b []byte, at time.Time, live bool) []byte {
	b = append(b, `"asOf":"`...)
	b = at.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z07:00")
	b = append(b, `","live":`...)
	return strconv.AppendBool(b, live)
}

// frame is one step between two published views, encoded once as an SSE message.
// A reset has no changes and cannot be stepped over.
type frame struct {
	// from is what a reader has to know: every change to its Seq, every lapse to
	// its Lapse. lapsed is the latest deadline the frame knows of.
	from   Position
	seq    int64
	lapsed int64
	kind   stepKind
	wire   []byte
}

// stepKind says what a message means to readers who come later.
type stepKind int

const (
	stepNothing stepKind = iota // nothing, or news for those who are here
	stepFrame                   // they need it if their position is older
	stepReset                   // whatever came before cannot be continued
)

// newFrame encodes the step from one view to the next; changes are ordinals.
func newFrame(prev, v *view, changes []int32) frame {
	from := Position{prev.pos.Seq, prev.lapsed}
	limit := resetFloor
	b := make([]byte, 0, 160+12*len(changes))
	b = append(b, `{"from":`...)
	b = strconv.AppendInt(b, from.Seq, 10)
	b = append(b, `,"to":`...)
	b = strconv.AppendInt(b, v.pos.Seq, 10)
	b = append(b, `,"lapseFrom":`...)
	b = strconv.AppendInt(b, from.Lapse, 10)
	b = append(b, `,"lapse":`...)
	b = strconv.AppendInt(b, v.pos.Lapse, 10)
	b = appendState(append(b, ','), v.at, v.live)
	b = append(b, `,"changes":[`...)
	for i, ordinal := range changes {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = strconv.AppendInt(b, int64(ordinal), 10)
		b = append(b, ',', '0'+shown(v.packed, int(ordinal)), ']')
	}
	b = append(b, `]}`...)
	if len(b) > limit {
		limit = v.resetAbove()
	}
	if len(b) > limit {
		return newReset(v)
	}
	return frame{from: from, seq: v.pos.Seq, lapsed: v.lapsed, kind: stepFrame, wire: message("frame", v.pos.String(), b)}
}

// newReset tells readers to take a new snapshot, not older than what it names. It
// carries no id: a reader that loses its connection before it did so comes back
// with its old position.
func newReset(v *view) frame {
	b := append([]byte(`{"seq":`), strconv.FormatInt(v.pos.Seq, 10)...)
	b = append(b, `,"lapse":`...)
	b = strconv.AppendInt(b, v.lapsed, 10)
	b = appendState(append(b, ','), v.at, v.live)
	return frame{kind: stepReset, wire: message("reset", "", append(b, '}'))}
}

// newBeat tells readers that the stream lives, and whether the database does.
func newBeat(at time.Time, live bool) []byte {
	return message("beat", "", append(appendState([]byte{'{'}, at, live), '}'))
}

// message words one SSE message; data is one line.
func message(event, id string, data []byte) []byte {
	b := make([]byte, 0, len(event)+len(id)+len(data)+32)
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	b = append(append(append(b, "event: "...), event...), '\n')
	b = append(append(append(b, "data: "...), data...), '\n', '\n')
	return b
}
