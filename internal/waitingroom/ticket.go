package waitingroom

import (
	"encoding/binary"
	"time"

	"usher"
	"usher/internal/token"
)

// Ticket is an account's place in a queue.
type Ticket struct {
	// Token proves the place to Place: signed, bound to event, round and account.
	Token string
	Event usher.EventID
	Round int
	// Turn counts the account's places in the round, from 1.
	Turn int
	// Bucket is the bucket's number; Number is the place in line, from 0, and nil
	// until the bucket closes. It never changes.
	Bucket int64
	Number *int64
	Status PlaceStatus
	// ClaimWithin is how much longer a called turn waits, while the room admits.
	ClaimWithin time.Duration
	JoinedAt    time.Time
	// Session is the shopper session that an admitted turn became; it may have
	// ended since.
	Session usher.SessionID
	// Now is the database time of this answer.
	Now time.Time
	// Replayed says that a join found the place that the account had.
	Replayed bool
}

// queuePayload is what a queue ticket's token says. Layout: version 1, event 4,
// round 4, account 16, bucket 8, index 8, big endian.
type queuePayload struct {
	event   usher.EventID
	round   int
	account usher.AccountID
	bucket  int64
	index   int64
}

const (
	queuePayloadVersion = 1
	queuePayloadSize    = 1 + 4 + 4 + 16 + 8 + 8
)

func (p queuePayload) encode() []byte {
	b := make([]byte, 0, queuePayloadSize)
	b = append(b, queuePayloadVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(p.event))
	b = binary.BigEndian.AppendUint32(b, uint32(p.round))
	b = append(b, p.account[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(p.bucket))
	return binary.BigEndian.AppendUint64(b, uint64(p.index))
}

func decodeQueuePayload(b []byte) (p queuePayload, ok bool) {
	if len(b) != queuePayloadSize || b[0] != queuePayloadVersion {
		return p, false
	}
	p.event = usher.EventID(binary.BigEndian.Uint32(b[1:]))
	p.round = int(binary.BigEndian.Uint32(b[5:]))
	copy(p.account[:], b[9:25])
	p.bucket = int64(binary.BigEndian.Uint64(b[25:]))
	p.index = int64(binary.BigEndian.Uint64(b[33:]))
	return p, true
}

// ticket describes a decided place to its owner.
func (r *Rooms) ticket(event usher.EventID, d decision) Ticket {
	e := d.entry
	p := queuePayload{event: event, round: d.round, account: e.account, bucket: e.bucket, index: e.index}
	t := Ticket{
		Token: r.keys.Sign(token.Queue, p.encode()),
		Event: event, Round: d.round, Turn: e.turn, Bucket: e.bucket, Status: d.status,
		ClaimWithin: d.lapsesIn, JoinedAt: e.joinedAt, Now: d.now, Replayed: d.replayed,
	}
	if e.number != numberless {
		t.Number = &e.number
	}
	if e.session != nil {
		t.Session = *e.session
	}
	return t
}
