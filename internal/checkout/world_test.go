package checkout

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"usher"
	"usher/internal/payment"
)

// world is a provider with one intent, a buyer, and a network that loses,
// delays and repeats, around the pure decisions. Everything random is drawn, so
// a failure shrinks to the shortest story.
type world struct {
	t *rapid.T
	v view
	// void is the operation that gives the authorization up, once the door is closed.
	void *view

	exists   bool
	state    fact
	executed bool // the confirmation's key was executed once
	confirms int  // confirmations still on their way
	cancels  int  // cancellations still on their way
	healthy  bool
	stories  []string
}

func newWorld(t *rapid.T) *world {
	w := &world{t: t, v: at(0)}
	return w
}

func (w *world) note(s string) { w.stories = append(w.stories, s) }

func (w *world) pick(what string, n int) int {
	if w.healthy {
		return 0
	}
	return rapid.IntRange(0, n-1).Draw(w.t, what)
}

// happen lets something happen that nobody asked for just now.
func (w *world) happen() {
	switch rapid.IntRange(0, 5).Draw(w.t, "happens") {
	case 0:
		w.arriveConfirm()
	case 1:
		w.arriveCancel()
	case 2:
		if w.state == factActionRequired {
			w.state = rapid.SampledFrom([]fact{factAuthorized, factDeclined, factActionRequired}).Draw(w.t, "challenge")
		}
	case 3:
		if w.state == factPending {
			w.state = rapid.SampledFrom([]fact{factAuthorized, factDeclined}).Draw(w.t, "bank")
		}
	default:
		w.pass(time.Duration(rapid.IntRange(0, 120).Draw(w.t, "seconds")) * time.Second)
	}
}

func (w *world) pass(d time.Duration) {
	w.v.now = w.v.now.Add(d)
	if w.void != nil {
		w.void.now = w.v.now
	}
}

func (w *world) arriveConfirm() {
	if w.confirms > 0 {
		w.confirms--
		w.execute()
	}
}

func (w *world) arriveCancel() {
	if w.cancels > 0 {
		w.cancels--
		w.cancel()
	}
}

// execute confirms the intent, at most once per key and never after a cancel.
func (w *world) execute() {
	if w.executed || w.state == factClosed {
		return
	}
	w.executed = true
	w.state = rapid.SampledFrom([]fact{factAuthorized, factDeclined, factActionRequired, factPending}).Draw(w.t, "bank says")
}

func (w *world) cancel() { w.state = factClosed }

// ask is the network and the provider: one call, one of the fates a call can meet.
func (w *world) ask(v *view, d do) *evidence {
	e := &evidence{amount: total, reference: "pi_1", actionURL: "https://bank.example"}
	fate := w.pick("fate of "+d.String(), 5)
	silent := func(c call) *evidence { return &evidence{call: c, kind: payment.Unknown} }
	switch d {
	case doPrepare:
		e.call, e.kind, e.fact = callPrepare, payment.Approved, factCreated
		if fate > 2 {
			w.exists = w.exists || fate == 3
			return silent(callPrepare)
		}
		if !w.exists {
			w.exists, w.state = true, factCreated
		}
	case doLookup:
		e.call, e.fact = callLookup, w.state
		if fate > 2 {
			return silent(callLookup)
		}
	case doSend, doResend:
		return w.sendConfirm(v, e, fate)
	case doFence, doVoid:
		v.asked = true
		e.call = callVoid
		switch fate {
		case 3:
			w.cancels++
			return silent(callVoid)
		case 4:
			return silent(callVoid)
		}
		w.cancel()
		if fate == 2 {
			return silent(callVoid)
		}
		e.kind, e.fact = payment.Approved, factClosed
	default:
		w.t.Fatalf("unexpected call %s", d)
	}
	return e
}

func (w *world) sendConfirm(v *view, e *evidence, fate int) *evidence {
	v.asked = true
	e.call = callAuthorize
	switch fate {
	case 2: // executed, reply lost
		w.execute()
		return &evidence{call: callAuthorize, kind: payment.Unknown}
	case 3: // still on its way when we stop waiting
		w.confirms++
		return &evidence{call: callAuthorize, kind: payment.Unknown}
	case 4: // never got there
		return &evidence{call: callAuthorize, kind: payment.NotExecuted}
	}
	w.execute()
	e.fact = w.state
	e.kind = map[fact]payment.Kind{factAuthorized: payment.Approved, factDeclined: payment.Declined, factActionRequired: payment.ActionRequired,
		factPending: payment.Pending, factClosed: payment.Declined}[w.state]
	return e
}

// run works one operation until it waits or ends, or the process dies.
func (w *world) run(v *view, decide func(view, *evidence) step) (again bool, pause time.Duration) {
	var e *evidence
	v.asked = false
	v.op.Attempts++
	for range stepsMax {
		s := decide(*v, e)
		w.note(s.do.String())
		w.store(v, s)
		if w.pick("dies", 12) == 11 {
			w.note("dies")
			return true, operationLease
		}
		switch s.do {
		case doEnd:
			return false, 0
		case doWait:
			return true, s.after
		case doConfirm, doFail, doCloseDoor, doFinishVoid:
			w.command(v, s)
			return false, 0
		case doPark, doRefund, doSettle, doQuiesce, doCapture:
			w.t.Fatalf("unexpected step %s after %v", s.do, w.stories)
		}
		e = w.ask(v, s.do)
	}
	w.t.Fatalf("a run of more than %d steps: %v", stepsMax, w.stories)
	return false, 0
}

func (w *world) store(v *view, s step) {
	n := s.learned
	if n.Status != "" {
		if !usher.CanMove(usher.OperationTransitions, v.op.Status, n.Status) {
			w.t.Fatalf("learned an illegal move from %s to %s", v.op.Status, n.Status)
		}
		v.op.Status = n.Status
	}
	if n.ProviderCode != "" {
		v.op.ProviderCode = n.ProviderCode
	}
	if n.Reference != "" {
		v.op.Reference = n.Reference
	}
	if (s.do == doSend || n.Sent) && v.op.SentAt == nil {
		now := v.now
		v.op.SentAt = &now
	}
	if v == &w.v {
		v.auth = v.op
	}
}

// live reports that the intent holds money, or may still come to hold some by
// itself.
func (w *world) live() bool {
	switch w.state {
	case factAuthorized, factActionRequired, factPending:
		return true
	case factCreated:
		return w.exists && w.v.op.SentAt != nil && w.confirms > 0 && !w.executed
	}
	return false
}

// command is the ledger. Here every release of seats is judged.
func (w *world) command(v *view, s step) {
	switch s.do {
	case doConfirm:
		if w.state != factAuthorized || s.amount != total {
			w.t.Fatalf("sold without an authorization: provider %d, story %v", w.state, w.stories)
		}
		w.v.order.Status, w.v.op.Status = usher.OrderConfirmed, usher.OperationSucceeded
	case doFail:
		if w.live() {
			w.t.Fatalf("seats given back while the provider may authorize: provider %d, story %v", w.state, w.stories)
		}
		w.v.order.Status, w.v.op.Status = usher.OrderDeclined, usher.OperationFailed
	case doCloseDoor:
		w.v.order.Status = usher.OrderVoiding
		void := w.v
		void.op.ID, void.op.Kind, void.op.Status, void.op.Attempts = usher.NewOperationID(7), usher.OperationVoid, usher.OperationCreated, 0
		void.auth = w.v.op
		w.void = &void
	case doFinishVoid:
		if w.live() {
			w.t.Fatalf("void finished while the provider may authorize: provider %d, story %v", w.state, w.stories)
		}
		w.v.order.Status, v.order.Status, v.op.Status = usher.OrderVoided, usher.OrderVoided, usher.OperationSucceeded
		w.v.op.Status = usher.OperationFailed
	}
}

// turn runs whatever is due once; false when nothing is left to do.
func (w *world) turn() bool {
	again, pause := w.run(&w.v, decideAuthorization)
	if w.void != nil {
		more, after := w.run(w.void, decideVoid)
		again, pause = again || more, max(pause, after)
	}
	w.pass(pause)
	return again
}

func TestWhateverHappensNothingIsGuessedAndEverythingEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(0, 25).Draw(t, "turns") {
			w.turn()
			for range rapid.IntRange(0, 3).Draw(t, "events") {
				w.happen()
			}
		}
		// From here on everything works: every order must come to an end.
		w.healthy = true
		for range 60 {
			w.arriveConfirm()
			w.arriveCancel()
			if w.state == factPending {
				w.state = factDeclined
			}
			w.turn()
		}
		switch s := w.v.order.Status; s {
		case usher.OrderConfirmed:
			if w.state != factAuthorized {
				t.Fatalf("sold, and the provider holds nothing (%d): %v", w.state, w.stories)
			}
		case usher.OrderDeclined, usher.OrderVoided:
			if w.live() {
				t.Fatalf("%s, and the provider holds money (%d): %v", s, w.state, w.stories)
			}
		default:
			t.Fatalf("the order never ends, it is %s: %v", s, w.stories)
		}
	})
}
