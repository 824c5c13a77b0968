package verify_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"usher"
)

func sortBy[V any](vs []V, key func(V) int64) {
	slices.SortFunc(vs, func(a, b V) int { return cmp.Compare(key(a), key(b)) })
}

// register is what the model knows of one seat. It is comparable.
type register struct {
	status  usher.SeatStatus
	hold    usher.HoldID
	order   usher.OrderID
	expires int64
	// closed says that the door of its order is closed.
	closed bool
}

var freeSeat = register{status: usher.SeatAvailable}

// tick is the resolution of the database's clock; this machine's is finer.
const tick = int64(time.Microsecond)

// lapsed reports a hold that is over at the given time.
func (r register) lapsed(at int64) bool { return r.status == usher.SeatHeld && at >= r.expires }

func (r register) takeable(at int64) bool { return r.status == usher.SeatAvailable || r.lapsed(at) }

func (r register) ours(c call) bool { return r.hold == c.Hold && r.status != usher.SeatAvailable }

// paying reports whether the seat waits for the payment that the call is about.
func (r register) paying(c call) bool {
	return r.status == usher.SeatPending && r.order == c.Order && !r.closed
}

// step says whether the call may have had its answer when the seat was as r
// says, and how the seat is afterwards. A refusal has no time of its own: it was
// decided somewhere between call and return.
func (r register) step(c call, seat usher.SeatID) (bool, register) {
	switch c.Kind {
	case kindHold:
		switch {
		case c.Code == "":
			return r.takeable(c.At), register{status: usher.SeatHeld, hold: c.Hold, expires: c.Expires}
		case slices.Contains(c.Taken, seat):
			return !r.takeable(c.Call - tick), r
		}
		return r.takeable(c.Return), r
	case kindRelease:
		return r.release(c)
	case kindBegin:
		pending := r
		pending.status, pending.order = usher.SeatPending, c.Order
		switch c.Code {
		case "":
			return r.status == usher.SeatHeld && r.hold == c.Hold && c.At < r.expires, pending
		case usher.CodeHoldExpired:
			return !r.ours(c) || r.lapsed(c.Return), r
		}
		return !r.ours(c) || r.status == usher.SeatSold, r
	}
	return r.pay(c)
}

func (r register) release(c call) (bool, register) {
	switch {
	case c.Code == usher.CodeHoldPaymentPending:
		return r.ours(c) && r.status == usher.SeatPending, r
	case c.Code == usher.CodeHoldEnded:
		return r.ours(c) && r.status == usher.SeatSold, r
	case c.Seen:
		return !r.ours(c) || r.lapsed(c.Return), r
	}
	return r.ours(c) && r.status == usher.SeatHeld, freeSeat
}

// pay steps the calls about an order. A refusal says that it waits for no payment.
func (r register) pay(c call) (bool, register) {
	if c.Kind == kindCancel {
		return r.status == usher.SeatSold && r.order == c.Order && c.Code == "", freeSeat
	}
	if c.Code != "" || c.Seen {
		return !r.paying(c), r
	}
	next := r
	switch c.Kind {
	case kindConfirm:
		next.status = usher.SeatSold
	case kindVoid:
		next.closed = true
	case kindFinish:
		return r.status == usher.SeatPending && r.order == c.Order && r.closed, freeSeat
	case kindFail:
		if c.Status == string(usher.SeatAvailable) {
			return r.paying(c) && c.At >= r.expires, freeSeat
		}
		next.status, next.order = usher.SeatHeld, usher.OrderID{}
		return r.paying(c) && c.At < r.expires, next
	}
	return r.paying(c), next
}

// universe is the state of a few seats that are decided together.
const universe = 6

type registers [universe]register

// operation is what porcupine sees of a call: the seats it is about.
type operation struct {
	call
	seats []usher.SeatID
}

// seatsOf gives every call its seats: those its hold was placed with.
func seatsOf(calls []call) map[usher.HoldID][]usher.SeatID {
	out := map[usher.HoldID][]usher.SeatID{}
	for _, c := range calls {
		if c.Kind == kindHold && c.Code == "" {
			out[c.Hold] = c.Seats
		}
	}
	return out
}

func operations(calls []call) []porcupine.Operation {
	held := seatsOf(calls)
	var out []porcupine.Operation
	for i, c := range calls {
		seats := c.Seats
		if c.Kind != kindHold {
			seats = held[c.Hold]
		}
		out = append(out, porcupine.Operation{ClientId: i, Input: operation{c, seats}, Call: c.Call, Output: c.Code, Return: c.Return})
	}
	return out
}

// groupModel decides all seats of a universe in one step: a hold of several is
// whole or not at all.
func groupModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any {
			var s registers
			for i := range s {
				s[i] = freeSeat
			}
			return s
		},
		Step: func(state, input, _ any) (bool, any) {
			s, o := state.(registers), input.(operation)
			for _, id := range o.seats {
				i := slices.IndexFunc(universeSeats, func(u usher.SeatID) bool { return u == id })
				ok, next := s[i].step(o.call, id)
				if !ok {
					return false, state
				}
				s[i] = next
			}
			return true, s
		},
	}
}

var universeSeats = seatIDs(0, 1, 2, 3, 4, 5)

// seatModel decides each seat by itself, which keeps long histories cheap.
func seatModel() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			bySeat := map[usher.SeatID][]porcupine.Operation{}
			for _, p := range history {
				o := p.Input.(operation)
				for _, id := range o.seats {
					p.Input = operation{o.call, []usher.SeatID{id}}
					bySeat[id] = append(bySeat[id], p)
				}
			}
			return slices.Collect(maps.Values(bySeat))
		},
		Init: func() any { return freeSeat },
		Step: func(state, input, _ any) (bool, any) {
			o := input.(operation)
			return state.(register).step(o.call, o.seats[0])
		},
	}
}

// checkMax bounds one check; a history that takes longer proves nothing.
const checkMax = time.Minute

func mustLinearize(t testing.TB, name string, m porcupine.Model, calls []call) {
	t.Helper()
	start := time.Now()
	if got := porcupine.CheckOperationsTimeout(m, operations(calls), checkMax); got != porcupine.Ok {
		t.Errorf("%s: %d calls are %s", name, len(calls), got)
		explain(t, calls)
	}
	t.Logf("%s: %d calls checked in %v", name, len(calls), time.Since(start).Round(time.Millisecond))
}

// explain names what is wrong with a history: the first change of a seat that
// its predecessors do not allow, or each refusal that no moment allows.
func explain(t testing.TB, calls []call) {
	t.Helper()
	bySeat := map[usher.SeatID][]porcupine.Operation{}
	for _, p := range operations(calls) {
		for _, id := range p.Input.(operation).seats {
			q := p
			q.Input = operation{p.Input.(operation).call, []usher.SeatID{id}}
			bySeat[id] = append(bySeat[id], q)
		}
	}
	m := seatModel()
	m.Partition = nil
	for id, ops := range bySeat {
		if porcupine.CheckOperations(m, ops) {
			continue
		}
		var changes, others []porcupine.Operation
		for _, p := range ops {
			if p.Input.(operation).Seq > 0 {
				changes = append(changes, p)
			} else {
				others = append(others, p)
			}
		}
		sortBy(changes, func(p porcupine.Operation) int64 { return p.Input.(operation).Seq })
		r := freeSeat
		for _, p := range changes {
			c := p.Input.(operation).call
			ok, next := r.step(c, id)
			if !ok {
				t.Errorf("seat %s: %+v is illegal on %+v", id, c, r)
				return
			}
			r = next
		}
		for _, p := range others {
			if !porcupine.CheckOperations(m, append(slices.Clone(changes), p)) {
				t.Errorf("seat %s: no moment allows %+v", id, p.Input.(operation).call)
			}
		}
	}
}
