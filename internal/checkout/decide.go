package checkout

import (
	"strconv"
	"strings"
	"time"

	"usher"
	"usher/internal/ledger"
	"usher/internal/payment"
	"usher/internal/work"
)

// view is everything a decision rests on. It is read once per run; now is the
// database time of that read plus the time that passed since.
type view struct {
	// op is the operation being worked, auth the authorization it is about (the
	// same one when op is an authorization).
	op, auth ledger.Operation
	order    ledger.Order
	now      time.Time
	caps     payment.Capabilities
	// asked: this run has already sent the call that changes something, so what
	// comes next is a look, not another send.
	asked bool
	// rest is what a look-up found to be left of a capture of which a part was given back
	// by other hands; restAsked that this run has asked for it.
	rest      usher.Money
	restAsked bool
}

// do is what to do next.
type do uint8

const (
	// doEnd: nothing is left to do for this operation.
	doEnd do = iota
	// doWait: store what was learned and come back after a while.
	doWait
	// doPark: only a person can go on.
	doPark
	doPrepare
	// doSend: store reference and "sent", durably, and then authorize.
	doSend
	// doResend: authorize again with the same key.
	doResend
	doLookup
	// doFence: cancel at the provider so that "not paid" becomes true.
	doFence
	doVoid
	doCapture
	doRefund
	// doConfirm, doFail, doCloseDoor, doFinishVoid and doSettle are commands to the ledger.
	doConfirm
	doFail
	doCloseDoor
	doFinishVoid
	doSettle
	// doQuiesce: make sure that nobody is still driving the authorization.
	doQuiesce
)

var doNames = [...]string{"end", "wait", "park", "prepare", "send", "resend", "lookup", "fence", "void", "capture", "refund",
	"confirm", "fail", "close_door", "finish_void", "settle", "quiesce"}

// String returns the stable name, for logs and tests.
func (d do) String() string { return doNames[d] }

// step is one decision.
type step struct {
	do do
	// learned is stored before anything else is done.
	learned ledger.Learned
	// after is the pause of doWait.
	after time.Duration
	// amount is what doConfirm tells the ledger was authorized.
	amount usher.Money
	// captured is how doSettle ends the capture.
	captured bool
	// reason is the provider's code, or ours, for staff.
	reason string
}

// The ages that decide. Each is counted from a time the database wrote.
const (
	// unsentFor is how long a checkout tries to reach the provider before it is
	// given up: nothing was sent, so nothing can be authorized.
	unsentFor = 45 * time.Second
	// resendFor is how long an unconfirmed intent is confirmed again with the same
	// key; after that its silence is answered by reading and fencing only.
	resendFor = 10 * time.Second
	// fenceAfter is when an intent that still shows no confirmation is cancelled,
	// so that the buyer can try again while the hold lasts. It is longer than any
	// call that may still be on its way.
	fenceAfter = 30 * time.Second
	lookMin    = 2 * time.Second
	lookMax    = 30 * time.Second
	askMin     = time.Second
	askMax     = time.Minute
	// contradictionsMax is after how many attempts a person looks at a provider
	// that keeps refusing or contradicting what it said before.
	contradictionsMax = 12
)

func settled(s usher.OperationStatus) bool {
	return s == usher.OperationSucceeded || s == usher.OperationFailed || s == usher.OperationReversed
}

// door is the time at which the order's grace ends and an authorization that is
// still open is given up. A provider whose "not paid" can be wrong for a while
// keeps it open for that while.
func (v view) door() time.Time {
	d := v.order.HoldExpiresAt
	if v.order.GraceUntil != nil {
		d = *v.order.GraceUntil
	}
	if a := v.authoritative(); a.After(d) {
		return a
	}
	return d
}

// authoritative is the time from which a "not paid" of a look-up is right.
func (v view) authoritative() time.Time {
	if v.auth.SentAt == nil {
		return time.Time{}
	}
	return v.auth.SentAt.Add(v.caps.LookupAuthoritativeAfter)
}

func (v view) late() bool { return !v.now.Before(v.door()) }

// sentAge is how long ago the provider was first asked to move money.
func (v view) sentAge() time.Duration {
	if v.auth.SentAt == nil {
		return 0
	}
	return v.now.Sub(*v.auth.SentAt)
}

// lookAfter spaces look-ups at about 2, 4, 8 and then every 30 s after sending,
// and has one at the door.
func (v view) lookAfter() time.Duration {
	d := min(max(v.sentAge(), lookMin), lookMax)
	if left := v.door().Sub(v.now); left > 0 {
		d = min(d, left)
	}
	return d
}

// wait stores a status and comes back. A status that holds already, or that
// would hide a challenge the buyer can still pass, is not stored.
func (v view) wait(to usher.OperationStatus, after time.Duration, e evidence) step {
	s := step{do: doWait, after: after, reason: e.code}
	s.learned.ProviderCode = e.code
	if to != v.op.Status && usher.CanMove(usher.OperationTransitions, v.op.Status, to) {
		s.learned.Status = to
	}
	return s
}

// decideAuthorization says what to do next for an authorization. e is what the
// provider said last in this run, nil at its start.
func decideAuthorization(v view, e *evidence) step {
	switch {
	case settled(v.op.Status) || v.order.Status != usher.OrderPaymentPending:
		// Decided, or the door is closed and the void operation goes on.
		return step{do: doEnd}
	case e == nil:
		return startAuthorization(v)
	case e.call == callPrepare:
		return reducePrepared(v, *e)
	case v.fenced():
		return reduceFenced(v, *e)
	}
	return reduceAuthorization(v, *e)
}

func startAuthorization(v view) step {
	switch {
	case v.op.SentAt != nil:
		return step{do: doLookup}
	case v.op.Reference == "" && (v.late() || v.now.Sub(v.op.CreatedAt) >= unsentFor):
		return step{do: doFail, reason: "not_sent"}
	case v.op.Reference == "":
		return step{do: doPrepare}
	case v.late():
		// There is an intent, so its cancellation proves what our rows already say.
		return step{do: doCloseDoor, reason: "not_sent"}
	}
	return step{do: doSend}
}

func reducePrepared(v view, e evidence) step {
	stored := ledger.Learned{Reference: e.reference}
	switch {
	case e.kind == payment.Approved && e.reference != "" && e.amount == v.op.Amount && !v.late():
		return step{do: doSend, learned: stored}
	case e.kind == payment.Approved && e.reference != "" && e.amount == v.op.Amount:
		return step{do: doCloseDoor, learned: stored, reason: "not_sent"}
	case e.kind == payment.Approved && e.reference != "":
		return step{do: doCloseDoor, learned: stored, reason: string(usher.CodePaymentMismatch)}
	case e.kind == payment.Declined || e.kind == payment.Rejected:
		return step{do: doFail, reason: e.code}
	case e.kind == payment.Unknown && e.retry == payment.RetryNewAttempt:
		// The key gives back a failure for ever, and an intent without an id can never
		// be confirmed.
		return step{do: doFail, reason: e.code}
	case v.late() || v.now.Sub(v.op.CreatedAt) >= unsentFor:
		return step{do: doFail, reason: "not_sent"}
	}
	return step{do: doWait, after: work.Backoff(v.op.Attempts, askMin, lookMax), learned: ledger.Learned{ProviderCode: e.code}, reason: e.code}
}

// reduceAuthorization is the one place where an answer to Authorize, a look-up,
// and so every webhook and reconciliation too, turn into a move.
func reduceAuthorization(v view, e evidence) step {
	switch e.fact {
	case factAuthorized, factCapturing, factCaptured:
		// Also past the door: the seats are still pending and the order's own.
		s := step{do: doConfirm, amount: e.amount, reason: e.code}
		if !e.captureBefore.IsZero() {
			s.learned.CaptureBefore = &e.captureBefore
		}
		return s
	case factDeclined, factClosed:
		if e.call == callLookup && e.fact == factDeclined && v.now.Before(v.authoritative()) {
			return v.wait(usher.OperationUnknown, v.lookAfter(), e)
		}
		return step{do: doFail, reason: e.code}
	case factPartlyRefunded, factRefunded:
		return step{do: doCloseDoor, reason: "refunded_at_provider"}
	}
	switch {
	case e.call != callLookup && (v.late() || e.kind == payment.Unknown):
		// A lost answer is usually there to be read at once.
		return step{do: doLookup}
	case v.late():
		return step{do: doCloseDoor, reason: "grace_ended"}
	case e.kind == payment.Rejected && v.op.SentAt != nil && v.asked:
		// Rejected at the first sending: nothing was done, and nothing is on its way.
		return step{do: doFail, reason: e.code}
	}
	return reduceOpen(v, e)
}

// reduceOpen is for an authorization that is not decided, within its time.
func reduceOpen(v view, e evidence) step {
	switch e.fact {
	case factActionRequired:
		if e.actionURL == "" {
			return v.fence("challenge_cannot_be_shown")
		}
		s := v.wait(usher.OperationActionRequired, v.lookAfter(), e)
		if e.actionURL != v.op.ActionURL {
			s.learned.ActionURL = e.actionURL
		}
		return s
	case factCreated:
		switch {
		case v.op.Status == usher.OperationActionRequired:
			return v.wait(v.op.Status, v.lookAfter(), e)
		case v.sentAge() < resendFor && !v.asked:
			return step{do: doResend}
		case v.sentAge() >= max(fenceAfter, v.caps.LookupAuthoritativeAfter) && v.caps.FenceByVoid:
			return v.fence("no_confirmation")
		}
		return v.wait(usher.OperationUnknown, v.lookAfter(), e)
	case factPending:
		return v.wait(usher.OperationUnknown, v.lookAfter(), e)
	}
	if v.op.Status == usher.OperationActionRequired {
		return v.wait(v.op.Status, v.lookAfter(), e)
	}
	return v.wait(usher.OperationUnknown, v.lookAfter(), e)
}

// fenceMark begins the provider code of an authorization that is being given up
// within the hold's time. It is durable before the first cancellation is sent:
// from then on the operation is never confirmed, since a cancellation that is
// still on its way would take the authorization back after the sale.
const fenceMark = "fenced:"

func (v view) fenced() bool { return strings.HasPrefix(v.op.ProviderCode, fenceMark) }

func (v view) fence(reason string) step {
	return step{do: doFence, reason: reason, learned: ledger.Learned{ProviderCode: fenceMark + reason}}
}

// reduceFenced is for an authorization that is being given up so that the buyer
// can try again: it ends failed, whatever it was when the fence went up.
func reduceFenced(v view, e evidence) step {
	switch {
	case e.fact == factClosed || e.fact == factDeclined && e.call != callVoid:
		return step{do: doFail, reason: v.op.ProviderCode}
	case e.fact >= factCapturing && e.fact <= factRefunded:
		// Only a void operation can give taken money back.
		return step{do: doCloseDoor, reason: "charged_behind_the_fence"}
	case e.call != callLookup && (v.late() || e.kind != payment.Unknown && e.kind != payment.NotExecuted):
		return step{do: doLookup}
	case v.late():
		return step{do: doCloseDoor, reason: "grace_ended"}
	case e.call == callLookup && e.fact != factUnknown && !v.asked:
		return step{do: doFence}
	}
	e.code = ""
	return v.wait(usher.OperationUnknown, v.lookAfter(), e)
}

// decideVoid says what to do next for a void: the door is closed, or a capture
// failed, and whatever the authorization holds has to be given back, provably.
func decideVoid(v view, e *evidence) step {
	switch {
	case settled(v.op.Status) || v.order.Status != usher.OrderVoiding && v.order.Status != usher.OrderCancelled:
		return step{do: doEnd}
	case v.auth.SentAt == nil && v.auth.Reference == "" && !settled(v.auth.Status) && v.auth.NextAt != nil:
		return step{do: doQuiesce}
	case v.auth.SentAt == nil && v.auth.Reference == "":
		return step{do: doFinishVoid, reason: "not_sent"}
	case v.auth.Reference == "":
		return step{do: doPark, reason: "sent without a reference"}
	case e == nil && !v.caps.FenceByVoid:
		return step{do: doLookup}
	case e == nil:
		return step{do: doVoid}
	}
	switch e.fact {
	case factClosed, factRefunded:
		return step{do: doFinishVoid, reason: e.code}
	case factCaptured:
		if e.call != callRefund && !(e.call == callLookup && v.asked) {
			return step{do: doRefund}
		}
	case factPartlyRefunded:
		// The rest is asked for once a look-up has said how much it is.
		if e.call == callLookup && !v.restAsked {
			return step{do: doRefund}
		}
	case factCreated, factDeclined:
		if e.call == callLookup && !v.caps.FenceByVoid && !v.now.Before(v.authoritative()) {
			return step{do: doFinishVoid, reason: e.code}
		}
	case factAuthorized:
		if e.call == callLookup && !v.caps.FenceByVoid && !v.asked {
			return step{do: doVoid}
		}
	}
	if e.call != callLookup {
		return step{do: doLookup}
	}
	return v.keepAsking(*e)
}

// decideCapture says what to do next for the capture of a sold order. The seats
// stay sold until the provider's answer is definite.
func decideCapture(v view, e *evidence) step {
	switch {
	case settled(v.op.Status) || v.order.Status != usher.OrderConfirmed:
		return step{do: doEnd}
	case e == nil && v.op.SentAt == nil:
		return step{do: doCapture, learned: ledger.Learned{Sent: true}}
	case e == nil:
		return step{do: doLookup}
	}
	switch e.fact {
	case factCaptured, factPartlyRefunded, factRefunded:
		if e.amount != v.op.Amount {
			return step{do: doPark, reason: "the amount captured is not the amount of the order"}
		}
		return step{do: doSettle, captured: true, reason: e.code}
	case factClosed:
		return step{do: doSettle, captured: false, reason: e.code}
	case factAuthorized:
		if e.call == callLookup && !v.asked {
			return step{do: doCapture, learned: ledger.Learned{Sent: true}}
		}
	}
	switch {
	case e.call != callLookup && e.kind == payment.Rejected && v.op.Attempts >= contradictionsMax:
		return step{do: doPark, reason: "capture rejected: " + e.code}
	case e.call != callLookup && e.kind != payment.NotExecuted:
		return step{do: doLookup}
	case e.fact == factCreated || e.fact == factActionRequired || e.fact == factDeclined:
		// The provider said "authorized" once. Time may heal this; if not, a person must.
		if v.op.Attempts >= contradictionsMax {
			return step{do: doPark, reason: "provider contradicts its authorization"}
		}
	}
	return v.keepAsking(*e)
}

// keepAsking records that the answer is not known and asks again later, for as
// long as it takes.
func (v view) keepAsking(e evidence) step {
	return v.wait(usher.OperationUnknown, work.Backoff(v.op.Attempts, askMin, askMax), e)
}

// keyAttemptsMax is how often one idempotency key is used for a void or capture.
// A provider may have stored its own failure under the key for a day. Both calls
// do their work at most once per intent whatever the key, so a new one is safe.
const keyAttemptsMax = 3

// stepKey returns the key for this attempt. It follows from two columns that
// were committed before the call: the operation's key and its attempts.
func stepKey(op ledger.Operation) string {
	n := (op.Attempts - 1) / keyAttemptsMax
	if n <= 0 {
		return op.Key
	}
	return op.Key + "." + strconv.Itoa(n)
}
