package checkout

import (
	"testing"
	"time"

	"usher"
	"usher/internal/ledger"
	"usher/internal/payment"
)

// epoch is the database time at which every order of these tests began.
var epoch = time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)

var (
	total    = usher.Money{AmountMinor: 120000, Currency: "TWD"}
	fencing  = payment.Capabilities{SeparateCapture: true, FenceByVoid: true, RefundByAPI: true}
	chargers = payment.Capabilities{RefundByAPI: true, LookupAuthoritativeAfter: 10 * time.Minute}
)

// at makes a view of an order that began at epoch, holds until +5 min and has
// grace until +7 min.
func at(age time.Duration, change ...func(*view)) view {
	grace := epoch.Add(7 * time.Minute)
	op := ledger.Operation{
		ID: usher.NewOperationID(7), Order: usher.NewOrderID(7), Event: 7, Kind: usher.OperationAuthorize, Status: usher.OperationCreated,
		Provider: "fake", Amount: total, Key: "pop_key", CreatedAt: epoch, Attempts: 1,
	}
	v := view{
		op: op, auth: op, now: epoch.Add(age), caps: fencing,
		order: ledger.Order{ID: op.Order, Event: 7, Status: usher.OrderPaymentPending, Amount: total, HoldExpiresAt: epoch.Add(5 * time.Minute), GraceUntil: &grace},
	}
	for _, f := range change {
		f(&v)
	}
	return v
}

func prepared(v *view) { v.op.Reference, v.auth.Reference = "pi_1", "pi_1" }

// sent marks the authorization as sent at epoch.
func sent(v *view) {
	prepared(v)
	v.op.SentAt, v.auth.SentAt = &epoch, &epoch
}

func is(s usher.OperationStatus) func(*view) {
	return func(v *view) { v.op.Status, v.auth.Status = s, s }
}

func order(s usher.OrderStatus) func(*view) { return func(v *view) { v.order.Status = s } }

func charging(v *view) { v.caps = chargers }

func asked(v *view) { v.asked = true }

// follow makes the view that of a capture or void after a sent authorization.
func follow(k usher.OperationKind, o usher.OrderStatus) func(*view) {
	return func(v *view) {
		sent(v)
		v.auth.Status = usher.OperationSucceeded
		v.op = ledger.Operation{ID: usher.NewOperationID(7), Order: v.order.ID, Event: 7, Kind: k, Status: usher.OperationCreated,
			Provider: "fake", Reference: "pi_1", Amount: total, Key: "pop_follow", CreatedAt: epoch, Attempts: 1}
		v.order.Status = o
	}
}

func attempts(n int) func(*view) { return func(v *view) { v.op.Attempts = n } }

func sentFollow(v *view) { v.op.SentAt = &epoch }

func said(c call, k payment.Kind, f fact, change ...func(*evidence)) *evidence {
	e := &evidence{call: c, kind: k, fact: f, amount: total, reference: "pi_1"}
	for _, c := range change {
		c(e)
	}
	return e
}

func seen(f fact, change ...func(*evidence)) *evidence { return said(callLookup, 0, f, change...) }

func url(e *evidence) { e.actionURL = "https://bank.example/3ds" }

func newKey(e *evidence) { e.retry = payment.RetryNewAttempt }

func amount(n int64) func(*evidence) { return func(e *evidence) { e.amount.AmountMinor = n } }

func noReference(e *evidence) { e.reference = "" }

type decision struct {
	name string
	v    view
	e    *evidence
	want do
	// also checks more of the step.
	also func(step) bool
}

func check(t *testing.T, decide func(view, *evidence) step, tests []decision) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := decide(tt.v, tt.e)
			if s.do != tt.want || tt.also != nil && !tt.also(s) {
				t.Errorf("decided %s %+v, want %s", s.do, s, tt.want)
			}
		})
	}
}

func learns(to usher.OperationStatus) func(step) bool {
	return func(s step) bool { return s.learned.Status == to }
}

func waits(lo, hi time.Duration) func(step) bool {
	return func(s step) bool { return s.after >= lo && s.after <= hi }
}

func because(reason string) func(step) bool { return func(s step) bool { return s.reason == reason } }

const (
	inTime = time.Minute
	late   = 7 * time.Minute
)

func TestDecideAuthorizationStart(t *testing.T) {
	check(t, decideAuthorization, []decision{
		{"fresh: prepare", at(0), nil, doPrepare, nil},
		{"never reached the provider: give up", at(unsentFor), nil, doFail, because("not_sent")},
		{"past the door, nothing sent", at(late), nil, doFail, because("not_sent")},
		{"prepared: send", at(inTime, prepared), nil, doSend, nil},
		{"prepared, past the door: cancel proves it", at(late, prepared), nil, doCloseDoor, because("not_sent")},
		{"sent: look, never guess", at(inTime, sent), nil, doLookup, nil},
		{"sent, past the door: look first", at(late, sent), nil, doLookup, nil},
		{"unknown: look", at(inTime, sent, is(usher.OperationUnknown)), nil, doLookup, nil},
		{"succeeded: end", at(inTime, sent, is(usher.OperationSucceeded)), nil, doEnd, nil},
		{"failed: end", at(inTime, sent, is(usher.OperationFailed)), nil, doEnd, nil},
		{"door closed: the void goes on", at(inTime, sent, order(usher.OrderVoiding)), nil, doEnd, nil},
		{"late answer after the door closed", at(late, sent, order(usher.OrderVoiding)), said(callAuthorize, payment.Approved, factAuthorized), doEnd, nil},
		{"late decline of a paid order", at(inTime, sent, order(usher.OrderConfirmed), is(usher.OperationSucceeded)), seen(factDeclined), doEnd, nil},
	})
}

func TestDecideAuthorizationPrepared(t *testing.T) {
	ref := func(s step) bool { return s.learned.Reference == "pi_1" }
	check(t, decideAuthorization, []decision{
		{"created: store and send", at(0), said(callPrepare, payment.Approved, factCreated), doSend, ref},
		{"created with another amount", at(0), said(callPrepare, payment.Approved, factCreated, amount(1)), doCloseDoor,
			func(s step) bool { return ref(s) && s.reason == "payment_mismatch" }},
		{"created past the door", at(late), said(callPrepare, payment.Approved, factCreated), doCloseDoor, ref},
		{"approved without an id is no answer", at(0), said(callPrepare, payment.Approved, factCreated, noReference), doWait, nil},
		{"declined", at(0), said(callPrepare, payment.Declined, factUnknown), doFail, nil},
		{"rejected", at(0), said(callPrepare, payment.Rejected, factUnknown), doFail, nil},
		{"no answer: same key again", at(0), said(callPrepare, payment.Unknown, factUnknown), doWait, waits(askMin/2, lookMax)},
		{"failure stored under the key: nothing was confirmed", at(0), said(callPrepare, payment.Unknown, factUnknown, newKey), doFail, nil},
		{"not executed: same key again", at(0), said(callPrepare, payment.NotExecuted, factUnknown), doWait, nil},
		{"not executed for too long", at(unsentFor), said(callPrepare, payment.NotExecuted, factUnknown), doFail, because("not_sent")},
	})
}

func TestDecideAuthorizationAnswers(t *testing.T) {
	before := func(e *evidence) { e.captureBefore = epoch.Add(7 * 24 * time.Hour) }
	check(t, decideAuthorization, []decision{
		{"authorized: sell", at(inTime, sent), said(callAuthorize, payment.Approved, factAuthorized, before), doConfirm,
			func(s step) bool { return s.amount == total && s.learned.CaptureBefore != nil }},
		{"authorized past the door: the seats are still its own", at(late, sent), seen(factAuthorized), doConfirm, nil},
		{"authorized for another amount: the ledger refuses", at(inTime, sent), seen(factAuthorized, amount(1)), doConfirm,
			func(s step) bool { return s.amount.AmountMinor == 1 }},
		{"charged at once", at(inTime, sent, charging), said(callAuthorize, payment.Approved, factCaptured), doConfirm, nil},
		{"captured by somebody: look-up", at(inTime, sent), seen(factCaptured), doConfirm, nil},
		{"declined", at(inTime, sent), said(callAuthorize, payment.Declined, factDeclined), doFail, nil},
		{"declined: look-up", at(inTime, sent), seen(factDeclined), doFail, nil},
		{"declined past the door", at(late, sent), seen(factDeclined), doFail, nil},
		{"cancelled at the provider by staff", at(inTime, sent), seen(factClosed), doFail, nil},
		{"given back at the provider", at(inTime, sent), seen(factRefunded), doCloseDoor, because("refunded_at_provider")},
		{"a look-up's no is not final yet", at(inTime, sent, charging), seen(factDeclined), doWait, learns(usher.OperationUnknown)},
		{"a look-up's no is final now", at(11*time.Minute, sent, charging), seen(factDeclined), doFail, nil},
		{"an answer's no is final at once", at(inTime, sent, charging), said(callAuthorize, payment.Declined, factDeclined), doFail, nil},
		{"rejected at the first sending", at(0, sent, asked), said(callAuthorize, payment.Rejected, factUnknown), doFail, nil},
		{"timeout: look at once", at(3*time.Second, sent, asked), said(callAuthorize, payment.Unknown, factUnknown), doLookup, nil},
		{"and then soon again", at(3*time.Second, sent, asked), seen(factUnknown), doWait,
			func(s step) bool {
				return s.learned.Status == usher.OperationUnknown && s.after >= 2*time.Second && s.after <= 4*time.Second
			}},
		{"not executed: may still be executed by an earlier sending", at(3*time.Second, sent, asked), said(callAuthorize, payment.NotExecuted, factUnknown), doWait, nil},
		{"pending", at(inTime, sent), said(callAuthorize, payment.Pending, factPending), doWait, learns(usher.OperationUnknown)},
		{"look-up fails: status stays unknown", at(inTime, sent, is(usher.OperationUnknown)), seen(factUnknown), doWait, learns("")},
		{"unknown past the door from an answer: look once more", at(late, sent), said(callAuthorize, payment.Unknown, factUnknown), doLookup, nil},
		{"unknown past the door from a look-up: close it", at(late, sent), seen(factUnknown), doCloseDoor, because("grace_ended")},
		{"pending past the door", at(late, sent), seen(factPending), doCloseDoor, nil},
	})
}

func TestDecideAuthorizationChallenge(t *testing.T) {
	challenged := is(usher.OperationActionRequired)
	known := func(v *view) { v.op.ActionURL = "https://bank.example/3ds" }
	check(t, decideAuthorization, []decision{
		{"challenge asked", at(time.Second, sent), said(callAuthorize, payment.ActionRequired, factActionRequired, url), doWait,
			func(s step) bool {
				return s.learned.Status == usher.OperationActionRequired && s.learned.ActionURL != ""
			}},
		{"still waiting for the buyer: nothing to store", at(inTime, sent, challenged, known), seen(factActionRequired, url), doWait,
			func(s step) bool { return s.learned == (ledger.Learned{}) && s.after == lookMax }},
		{"a failed look keeps the challenge", at(inTime, sent, challenged), seen(factUnknown), doWait, learns("")},
		{"not confirmed yet after the challenge", at(inTime, sent, challenged), seen(factCreated), doWait, learns("")},
		{"bank decides after the challenge", at(inTime, sent, challenged), seen(factPending), doWait, learns(usher.OperationUnknown)},
		{"passed after the deadline, inside grace", at(6*time.Minute, sent, challenged), seen(factAuthorized), doConfirm, nil},
		{"abandoned: the door closes", at(late, sent, challenged), seen(factActionRequired, url), doCloseDoor, nil},
		{"failed challenge", at(inTime, sent, challenged), seen(factDeclined), doFail, nil},
		{"a challenge that cannot be shown", at(inTime, sent), said(callAuthorize, payment.ActionRequired, factActionRequired), doFence, nil},
	})
}

func TestDecideAuthorizationUnconfirmed(t *testing.T) {
	check(t, decideAuthorization, []decision{
		{"soon: same key again", at(5*time.Second, sent), seen(factCreated), doResend, nil},
		{"once per run", at(5*time.Second, sent, asked), seen(factCreated), doWait, learns(usher.OperationUnknown)},
		{"later: only look", at(15*time.Second, sent), seen(factCreated), doWait, nil},
		{"silent for long: fence", at(fenceAfter, sent), seen(factCreated), doFence, nil},
		{"no fence at this provider", at(fenceAfter, sent, charging), seen(factCreated), doWait, nil},
		{"past the door", at(late, sent), seen(factCreated), doCloseDoor, nil},
	})
}

func TestDecideAuthorizationFenced(t *testing.T) {
	fenced := func(v *view) { sent(v); v.op.ProviderCode = fenceMark + "no_confirmation" }
	check(t, decideAuthorization, []decision{
		{"the fence is durable before it is sent", at(fenceAfter, sent), seen(factCreated), doFence,
			func(s step) bool { return s.learned.ProviderCode == fenceMark+"no_confirmation" }},
		{"after a crash: look", at(inTime, fenced), nil, doLookup, nil},
		{"cancelled: the buyer may try again", at(inTime, fenced, asked), said(callVoid, payment.Approved, factClosed), doFail, because(fenceMark + "no_confirmation")},
		{"cancelled: look-up", at(inTime, fenced), seen(factClosed), doFail, nil},
		{"declined meanwhile", at(inTime, fenced), seen(factDeclined), doFail, nil},
		{"authorized meanwhile: never sold, a cancel may be on its way", at(inTime, fenced), seen(factAuthorized), doFence, nil},
		{"still open: fence again", at(inTime, fenced), seen(factCreated), doFence, nil},
		{"once per run", at(inTime, fenced, asked), seen(factAuthorized), doWait, nil},
		{"look-up fails", at(inTime, fenced), seen(factUnknown), doWait, nil},
		{"unanswered", at(inTime, fenced, asked), said(callVoid, payment.Unknown, factUnknown), doWait,
			func(s step) bool { return s.learned.Status == usher.OperationUnknown && s.learned.ProviderCode == "" }},
		{"unanswered past the door: look once more", at(late, fenced, asked), said(callVoid, payment.Unknown, factUnknown), doLookup, nil},
		{"past the door", at(late, fenced), seen(factAuthorized), doCloseDoor, nil},
		{"charged", at(inTime, fenced, asked), said(callVoid, payment.Declined, factCaptured), doCloseDoor, nil},
		{"pending at the provider", at(inTime, fenced, asked), said(callVoid, payment.Pending, factPending), doLookup, nil},
	})
}

func TestLookUpsAreSpacedAndMeetTheDoor(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{
		0: 2 * time.Second, 2 * time.Second: 2 * time.Second, 4 * time.Second: 4 * time.Second, 8 * time.Second: 8 * time.Second,
		time.Minute: 30 * time.Second, 7*time.Minute - 3*time.Second: 3 * time.Second,
	} {
		if got := at(age, sent).lookAfter(); got != want {
			t.Errorf("%s after sending: next look in %s, want %s", age, got, want)
		}
	}
	v := at(0, sent)
	v.order.GraceUntil = nil
	if !v.door().Equal(v.order.HoldExpiresAt) {
		t.Error("without grace the door is the hold's deadline")
	}
	if v := at(0, sent, charging); !v.door().Equal(epoch.Add(10 * time.Minute)) {
		t.Errorf("the door does not wait until a look-up can be believed: %s", v.door())
	}
}

func TestDecideVoid(t *testing.T) {
	void := follow(usher.OperationVoid, usher.OrderVoiding)
	after := follow(usher.OperationVoid, usher.OrderCancelled)
	unsent := func(v *view) { v.auth.Reference, v.auth.SentAt, v.auth.Status = "", nil, usher.OperationCreated }
	driven := func(v *view) { v.auth.NextAt = &epoch }
	lost := func(v *view) { v.auth.Reference = "" }
	check(t, decideVoid, []decision{
		{"start: cancel", at(late, void), nil, doVoid, nil},
		{"after a failed capture: cancel too", at(late, after), nil, doVoid, nil},
		{"no fence: look first", at(late, void, charging), nil, doLookup, nil},
		{"nothing was ever sent", at(late, void, unsent), nil, doFinishVoid, nil},
		{"never sent, but somebody may be about to", at(inTime, void, unsent, driven), nil, doQuiesce, nil},
		{"sent without a reference", at(late, void, lost), nil, doPark, nil},
		{"done", at(late, void, is(usher.OperationSucceeded)), nil, doEnd, nil},
		{"order sold meanwhile: never void", at(late, void, order(usher.OrderConfirmed)), nil, doEnd, nil},
		{"cancelled: proven", at(late, void), said(callVoid, payment.Approved, factClosed), doFinishVoid, nil},
		{"expired: proven by look-up", at(late, void, asked), seen(factClosed), doFinishVoid, nil},
		{"no answer: look", at(late, void, asked), said(callVoid, payment.Unknown, factUnknown), doLookup, nil},
		{"no answer to the look either: keep asking", at(late, void, asked), seen(factUnknown), doWait, learns(usher.OperationUnknown)},
		{"still authorized: keep asking", at(late, void, asked), seen(factAuthorized), doWait, nil},
		{"unconfirmed proves nothing without a cancel", at(late, void, asked), seen(factCreated), doWait, nil},
		{"declined proves nothing without a cancel", at(late, void, asked), seen(factDeclined), doWait, nil},
		{"not found proves nothing", at(late, void, asked), seen(factUnknown), doWait, nil},
		{"already charged: give it back", at(late, void, asked), said(callVoid, payment.Declined, factCaptured), doRefund, nil},
		{"refunded", at(late, void, asked), said(callRefund, payment.Approved, factRefunded), doFinishVoid, nil},
		{"refund unanswered: look, do not refund twice", at(late, void, asked), said(callRefund, payment.Unknown, factUnknown), doLookup, nil},
		{"refund under way", at(late, void, asked), seen(factCaptured), doWait, nil},
		{"no fence, not authoritative yet", at(inTime, void, charging), seen(factDeclined), doWait, nil},
		{"no fence, authoritative", at(11*time.Minute, void, charging), seen(factDeclined), doFinishVoid, nil},
		{"no fence, charged", at(inTime, void, charging), seen(factCaptured), doRefund, nil},
		{"no fence, authorized", at(inTime, void, charging), seen(factAuthorized), doVoid, nil},
	})
}

func TestDecideCapture(t *testing.T) {
	capture := follow(usher.OperationCapture, usher.OrderConfirmed)
	stays := func(s step) bool { return s.do != doSettle }
	check(t, decideCapture, []decision{
		{"start: intent durable, then capture", at(inTime, capture), nil, doCapture, func(s step) bool { return s.learned.Sent }},
		{"after a crash: look first", at(inTime, capture, sentFollow), nil, doLookup, nil},
		{"captured", at(inTime, capture, asked), said(callCapture, payment.Approved, factCaptured), doSettle, func(s step) bool { return s.captured }},
		{"captured: look-up", at(inTime, capture, sentFollow), seen(factCaptured), doSettle, func(s step) bool { return s.captured }},
		{"another amount captured", at(inTime, capture), seen(factCaptured, amount(1)), doPark, nil},
		{"no answer: look", at(inTime, capture, asked), said(callCapture, payment.Unknown, factUnknown), doLookup, stays},
		{"no answer to the look: seats stay sold", at(inTime, capture, asked, sentFollow), seen(factUnknown), doWait, learns(usher.OperationUnknown)},
		{"not executed: again later", at(inTime, capture, asked), said(callCapture, payment.NotExecuted, factUnknown), doWait, nil},
		{"the earlier call never arrived: capture", at(inTime, capture, sentFollow), seen(factAuthorized), doCapture, nil},
		{"not twice in one run", at(inTime, capture, sentFollow, asked), seen(factAuthorized), doWait, nil},
		{"accepted, not certain", at(inTime, capture, sentFollow, asked), seen(factCapturing), doWait, nil},
		{"authorization lapsed", at(inTime, capture, asked), said(callCapture, payment.Declined, factClosed), doSettle, func(s step) bool { return !s.captured }},
		{"authorization cancelled by staff: look-up", at(inTime, capture, sentFollow), seen(factClosed), doSettle, func(s step) bool { return !s.captured }},
		{"declined without a reason is no proof", at(inTime, capture, asked), said(callCapture, payment.Declined, factUnknown), doLookup, nil},
		{"provider contradicts itself", at(inTime, capture, asked, sentFollow), seen(factDeclined), doWait, nil},
		{"for too long", at(inTime, capture, asked, sentFollow, attempts(contradictionsMax)), seen(factDeclined), doPark, nil},
		{"rejected for too long", at(inTime, capture, asked, attempts(contradictionsMax)), said(callCapture, payment.Rejected, factUnknown), doPark, nil},
		{"order cancelled: the capture ends", at(inTime, capture, order(usher.OrderCancelled)), nil, doEnd, nil},
		{"already settled", at(inTime, capture, is(usher.OperationSucceeded)), seen(factAuthorized), doEnd, nil},
	})
}

func TestStepKeys(t *testing.T) {
	v := at(0)
	for n, want := range map[int]string{0: "pop_key", 1: "pop_key", 3: "pop_key", 4: "pop_key.1", 6: "pop_key.1", 7: "pop_key.2"} {
		v.op.Attempts = n
		if got := stepKey(v.op); got != want {
			t.Errorf("attempt %d uses key %q, want %q", n, got, want)
		}
	}
}
