package verify_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"testing"

	"usher"
	"usher/internal/ledger"
)

// kind is what a call of a history asks for.
type kind string

const (
	kindHold    kind = "hold"
	kindRelease kind = "release"
	kindBegin   kind = "begin"
	kindConfirm kind = "confirm"
	kindFail    kind = "fail"
	kindVoid    kind = "void"
	kindFinish  kind = "finish"
	kindCancel  kind = "cancel"
)

var kinds = []kind{kindHold, kindRelease, kindBegin, kindConfirm, kindFail, kindVoid, kindFinish, kindCancel}

// call is one call of a history with the answer that its caller got. Times are
// nanoseconds of this machine's clock, which is the database's, too.
type call struct {
	ID      string
	Kind    kind
	Account usher.AccountID `json:",omitzero"`
	Hold    usher.HoldID    `json:",omitzero"`
	Order   usher.OrderID   `json:",omitzero"`
	Seats   []usher.SeatID
	// Return is 0 while no answer has come: the outcome is not known.
	Call, Return int64
	// Code is empty when it was done.
	Code usher.Code
	// Taken are the seats that a refused hold named.
	Taken []usher.SeatID
	// Status is the hold's or order's state in the answer.
	Status string
	// At is the database's time of the decision and Expires the hold's deadline,
	// both from the outbox. Seq is the number there, 0 when nothing changed.
	At, Expires, Seq int64
	// Seen says that the call changed nothing: what it asked for had ended before.
	Seen bool
}

// open is a return that is later than everything.
const open = math.MaxInt64 / 2

// journal records calls. A call is written before it is made and again when it
// was answered, so that what a killed process had begun is known.
type journal struct {
	mu    sync.Mutex
	calls map[string]call
	order []string
	// file is the same for a process that may be killed: what write returned is
	// with the kernel, and outlives the process.
	file io.Writer
	err  error
}

func newJournal(file io.Writer) *journal { return &journal{calls: map[string]call{}, file: file} }

func (j *journal) put(c call) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, seen := j.calls[c.ID]; !seen {
		j.order = append(j.order, c.ID)
	}
	j.calls[c.ID] = c
	if j.file == nil {
		return
	}
	b, err := json.Marshal(c)
	if err == nil {
		_, err = j.file.Write(append(b, '\n'))
	}
	if err != nil && j.err == nil {
		j.err = err
	}
}

// load reads what processes wrote to a file. A kill may have cut the last line
// of each short.
func (j *journal) load(t testing.TB, name string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatalf("open journal: %v", err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var c call
		if json.Unmarshal(s.Bytes(), &c) == nil {
			j.put(c)
		}
	}
	if err := s.Err(); err != nil {
		t.Fatalf("read journal: %v", err)
	}
}

func (j *journal) all() []call {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]call, len(j.order))
	for i, id := range j.order {
		out[i] = j.calls[id]
	}
	return out
}

// covered reports whether every kind of call has been done, and a hold refused.
func (j *journal) covered() bool {
	done := map[kind]bool{}
	refused := false
	for _, c := range j.all() {
		if changed(c) {
			done[c.Kind] = true
		}
		refused = refused || c.Code == usher.CodeSeatsUnavailable
	}
	return refused && len(done) == len(kinds)
}

// entryKinds says which call an outbox entry must come from. Expiry comes from
// no call.
var entryKinds = map[ledger.EntryType]kind{
	ledger.EntryHoldPlaced: kindHold, ledger.EntryHoldReleased: kindRelease, ledger.EntryPaymentBegun: kindBegin,
	ledger.EntryOrderConfirmed: kindConfirm, ledger.EntryPaymentFailed: kindFail, ledger.EntryOrderVoiding: kindVoid,
	ledger.EntryOrderVoided: kindFinish, ledger.EntryOrderCancelled: kindCancel,
}

func subject(k kind, a usher.AccountID, h usher.HoldID, o usher.OrderID) string {
	switch k {
	case kindHold:
		// Every hold of a history has an account of its own.
		return fmt.Sprint(k, " ", a)
	case kindRelease, kindBegin:
		return fmt.Sprint(k, " ", h)
	}
	return fmt.Sprint(k, " ", o)
}

// settled closes a history with the outbox: a call without an answer was made
// if its entry is there, and never if it is not. It fails the test when a call
// that was acknowledged has no entry or an entry has no call.
func settled(t testing.TB, calls []call, entries []ledger.Entry) (closed []call, unknown int) {
	t.Helper()
	merged := map[string]call{}
	refused := map[string]call{}
	for _, c := range calls {
		s := subject(c.Kind, c.Account, c.Hold, c.Order)
		was, seen := merged[s]
		switch {
		case c.Return == 0:
			unknown++
			fallthrough
		case changed(c):
			if !seen {
				was = c
			}
			merged[s] = was.merge(c)
		case c.Code != usher.CodeBusy && c.Code != usher.CodeUnavailable:
			c.Seen = c.Code == ""
			closed = append(closed, c)
			refused[s] = c
		}
	}
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			t.Fatalf("the outbox jumps to %d after %d entries", e.Seq, i)
		}
		k, ours := entryKinds[e.Type]
		if !ours {
			continue
		}
		s := subject(k, e.Payload.Account, e.Payload.Hold, e.Payload.Order)
		c, asked := merged[s]
		if !asked && k == kindConfirm && cancelledSince(entries[i:], refused[s]) {
			// Its COMMIT got no answer, and the run after it found that staff had taken
			// the order back meanwhile: both are true.
			c, asked = refused[s], true
		}
		if !asked {
			t.Errorf("%s was done, but nobody asked for it, was told so, or it was done twice: %+v", s, refused[s])
			continue
		}
		delete(merged, s)
		closed = append(closed, c.withEntry(e))
	}
	for s, c := range merged {
		switch {
		case c.Return == 0:
		case c.Kind == kindRelease || c.Kind == kindFail:
			// It was over already, by a void: the model sees to it that it was.
			c.Seen = true
			closed = append(closed, c)
		default:
			t.Errorf("%s was acknowledged, but the outbox does not have it", s)
		}
	}
	return closed, unknown
}

// cancelledSince reports whether the order of a confirmation that was told "the
// order is closed" was taken back before that answer.
func cancelledSince(later []ledger.Entry, c call) bool {
	return c.Code == usher.CodeOrderClosed && slices.ContainsFunc(later, func(e ledger.Entry) bool {
		return e.Type == ledger.EntryOrderCancelled && e.Payload.Order == c.Order && e.At.UnixNano() <= c.Return
	})
}

// merge is one call for several that asked for the same and were not refused:
// whichever of them did it, it was done between the first question and the first
// answer.
func (c call) merge(d call) call {
	c.Call = min(c.Call, d.Call)
	if d.Return != 0 && (c.Return == 0 || d.Return < c.Return) {
		c.Return = d.Return
	}
	return c
}

// changed reports whether an answer says that the call, or an earlier one like
// it, changed something.
func changed(c call) bool { return c.Return != 0 && c.Code == "" && !overBefore(c) }

// overBefore reports an answer that says that a hold or its order ended by other
// means.
func overBefore(c call) bool {
	return c.Kind == kindRelease && c.Status == string(usher.HoldExpired) ||
		c.Kind == kindFail && (c.Status == string(usher.OrderVoiding) || c.Status == string(usher.OrderVoided))
}

// withEntry takes over what the outbox knows better than the caller.
func (c call) withEntry(e ledger.Entry) call {
	c.At, c.Seq = e.At.UnixNano(), e.Seq
	c.Hold, c.Order = e.Payload.Hold, e.Payload.Order
	c.Code = ""
	c.Seats = nil
	for _, s := range e.Payload.Seats {
		c.Seats = append(c.Seats, s.Seat)
		if s.ExpiresAt != nil {
			c.Expires = s.ExpiresAt.UnixNano()
		}
		if c.Kind == kindFail {
			c.Status = string(s.To)
		}
	}
	if c.Return == 0 {
		c.Return = open
	}
	return c
}

// inOrder checks the real-time order against the numbers of the outbox: what was
// answered before another call began has the smaller number.
func inOrder(t testing.TB, calls []call) {
	t.Helper()
	type edge struct{ at, seq int64 }
	var returns []edge
	for _, c := range calls {
		if c.Seq > 0 && c.Return != open {
			returns = append(returns, edge{c.Return, c.Seq})
		}
	}
	sortBy(returns, func(e edge) int64 { return e.at })
	starts := append([]call(nil), calls...)
	sortBy(starts, func(c call) int64 { return c.Call })
	var highest int64
	next := 0
	for _, c := range starts {
		for ; next < len(returns) && returns[next].at < c.Call; next++ {
			highest = max(highest, returns[next].seq)
		}
		if c.Seq > 0 && c.Seq < highest {
			t.Errorf("%s began after number %d was answered, and has number %d", c.Kind, highest, c.Seq)
		}
	}
}
