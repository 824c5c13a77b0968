package checkout

import (
	"testing"
	"time"

	"usher"
	"usher/internal/ledger"
	"usher/internal/payment"
)

func TestStatusOf(t *testing.T) {
	auth := func(s usher.OperationStatus) *ledger.Operation {
		return &ledger.Operation{Status: s, ActionURL: "https://bank.example/3ds"}
	}
	now := epoch
	tests := []struct {
		name string
		o    ledger.Order
		want PaymentStatus
		next ActionType
	}{
		{"just begun", ledger.Order{Status: usher.OrderPaymentPending, Authorization: auth(usher.OperationCreated)}, PaymentProcessing, ActionWait},
		{"free, not confirmed yet", ledger.Order{Status: usher.OrderPaymentPending}, PaymentProcessing, ActionWait},
		{"unknown is said", ledger.Order{Status: usher.OrderPaymentPending, Authorization: auth(usher.OperationUnknown)}, PaymentUnknown, ActionWait},
		{"challenge", ledger.Order{Status: usher.OrderPaymentPending, Authorization: auth(usher.OperationActionRequired)}, PaymentActionRequired, ActionRedirect},
		{"challenge without an address", ledger.Order{Status: usher.OrderPaymentPending, Authorization: &ledger.Operation{Status: usher.OperationActionRequired}}, PaymentActionRequired, ActionWait},
		{"sold", ledger.Order{Status: usher.OrderConfirmed, Authorization: auth(usher.OperationSucceeded)}, PaymentApproved, ActionNone},
		{"sold, capture unknown", ledger.Order{Status: usher.OrderConfirmed, Authorization: auth(usher.OperationSucceeded),
			Capture: &ledger.Operation{Status: usher.OperationUnknown}}, PaymentApproved, ActionNone},
		{"free and sold", ledger.Order{Status: usher.OrderConfirmed}, PaymentApproved, ActionNone},
		{"declined, hold lives", ledger.Order{Status: usher.OrderDeclined, Now: now, HoldExpiresAt: now.Add(time.Second), Authorization: auth(usher.OperationFailed)}, PaymentDeclined, ActionPayAgain},
		{"declined, hold over", ledger.Order{Status: usher.OrderDeclined, Now: now, HoldExpiresAt: now, Authorization: auth(usher.OperationFailed)}, PaymentDeclined, ActionNone},
		{"lapsed", ledger.Order{Status: usher.OrderLapsed, Authorization: auth(usher.OperationFailed)}, PaymentDeclined, ActionNone},
		{"door closed, not proven", ledger.Order{Status: usher.OrderVoiding, Authorization: auth(usher.OperationUnknown)}, PaymentUnknown, ActionWait},
		{"given up", ledger.Order{Status: usher.OrderVoided, Authorization: auth(usher.OperationReversed)}, PaymentVoided, ActionNone},
		{"capture failed", ledger.Order{Status: usher.OrderCancelled, Authorization: auth(usher.OperationReversed)}, PaymentVoided, ActionNone},
	}
	for _, tt := range tests {
		if got := StatusOf(tt.o); got != tt.want {
			t.Errorf("%s: status %s, want %s", tt.name, got, tt.want)
		}
		next := NextActionOf(tt.o)
		if next.Type != tt.next || (next.URL != "") != (tt.next == ActionRedirect) {
			t.Errorf("%s: next %+v, want %s", tt.name, next, tt.next)
		}
	}
}

func TestLimiterShrinksWithLatencyAndRecovers(t *testing.T) {
	l := newLimiter(2, 10, time.Second)
	now := epoch
	take := func(n int) {
		t.Helper()
		for range n {
			if !l.acquire() {
				t.Fatal("no slot below the bound")
			}
		}
	}
	take(10)
	if l.acquire() {
		t.Fatal("an eleventh slot of ten")
	}
	l.cancel()
	take(1)
	// Ten slow answers of the same moment are one reason to slow down, not ten.
	for range 10 {
		l.release(now, 5*time.Second, true)
	}
	if _, bound := l.read(); bound != 8 {
		t.Errorf("bound %d after one slow moment, want 8", bound)
	}
	for range 20 {
		now = now.Add(2 * cutWindow)
		take(1)
		l.release(now, 0, false)
	}
	if n, bound := l.read(); bound != 2 || n != 0 {
		t.Errorf("bound %d with %d in flight in an outage, want the minimum 2 and 0", bound, n)
	}
	// A few lost answers among many good ones are no reason to slow down.
	l.max, l.bound = 10, 10
	for i := range 100 {
		now = now.Add(cutWindow / 20)
		take(1)
		l.release(now, time.Millisecond, i%20 != 0)
	}
	if _, bound := l.read(); bound != 10 {
		t.Errorf("bound %d with one answer in twenty lost, want 10", bound)
	}
	l.bound = 2
	// An idle limiter learns nothing from one good answer; a busy one grows.
	l.max = 4
	for range 100 {
		take(2)
		l.release(now, time.Millisecond, true)
		l.release(now, time.Millisecond, true)
	}
	if _, bound := l.read(); bound != 4 {
		t.Errorf("bound %d after recovery, want the maximum 4", bound)
	}
}

func TestTargetOf(t *testing.T) {
	base := at(inTime, sent)
	hinted := func(s string) hint {
		return hint{provider: "fake", operation: base.op.ID, reference: "pi_1", state: payment.State(s)}
	}
	tests := []struct {
		name string
		h    hint
		v    view
		want target
	}{
		{"authorized while open", hinted("authorized"), base, targetAuthorization},
		{"nothing suggested while open: read", hinted(""), base, targetAuthorization},
		{"created tells nothing", hinted("created"), base, targetNone},
		{"declined of an open attempt", hinted("declined"), base, targetAuthorization},
		{"late decline of an earlier attempt", hinted("declined"), at(inTime, sent, is(usher.OperationFailed)), targetNone},
		{"late pending of a paid order", hinted("pending"), at(inTime, sent, is(usher.OperationSucceeded), order(usher.OrderConfirmed)), targetNone},
		{"authorized on an operation that had failed", hinted("authorized"), at(inTime, sent, is(usher.OperationFailed), order(usher.OrderLapsed)), targetOrphan},
		{"captured on a reversed operation", hinted("captured"), at(inTime, sent, is(usher.OperationReversed), order(usher.OrderVoided)), targetOrphan},
		{"cancelled, as we did", hinted("voided"), at(inTime, sent, is(usher.OperationReversed), order(usher.OrderVoided)), targetNone},
		{"another intent under our name", hint{provider: "fake", reference: "pi_other", state: payment.State("authorized")}, base, targetNone},
		{"another provider", hint{provider: "other", reference: "pi_1", state: payment.State("authorized")}, base, targetNone},
		{"door closed: the void asks by itself", hinted("authorized"), at(late, sent, order(usher.OrderVoiding)), targetNone},
	}
	for _, tt := range tests {
		if got := targetOf(tt.h, tt.v.op, tt.v.order); got != tt.want {
			t.Errorf("%s: target %d, want %d", tt.name, got, tt.want)
		}
	}
	sold := at(inTime, sent, is(usher.OperationSucceeded), order(usher.OrderConfirmed))
	capture := ledger.Operation{Kind: usher.OperationCapture, Status: usher.OperationUnknown}
	sold.order.Capture = &capture
	for s, want := range map[string]target{"captured": targetCapture, "voided": targetCapture, "expired": targetCapture, "": targetCapture,
		"authorized": targetNone, "declined": targetNone, "refunded": targetCapture} {
		if got := targetOf(hinted(s), sold.op, sold.order); got != want {
			t.Errorf("sold, capture open, hint %q: target %d, want %d", s, got, want)
		}
	}
	capture.Status = usher.OperationSucceeded
	if got := targetOf(hinted("captured"), sold.op, sold.order); got != targetNone {
		t.Errorf("captured again: target %d", got)
	}
}
