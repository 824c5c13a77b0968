package paysim

import (
	"time"
)

// What an event's data.object is.
const (
	aboutIntent  = "intent"
	aboutCharge  = "charge"
	aboutRefund  = "refund"
	aboutDispute = "dispute"
)

// refundTurn is how long a refund that changes by itself stays as it is.
const refundTurn = 2 * time.Second

// tx gathers one request's whole effect. It runs under the server's mutex and
// becomes one line of the journal.
type tx struct {
	now     time.Time
	newID   func(prefix string) string
	wanted  map[string]bool // event types that the endpoint subscribes to
	window  time.Duration   // life of an authorization
	request string
	key     string
	rec     record
}

func (t *tx) unix() int64 { return t.now.Unix() }

// emit adds an event about the record's objects.
func (t *tx) emit(kind, about, chargeID string) {
	t.rec.Events = append(t.rec.Events, &event{ID: t.newID("evt_"), Type: kind, Created: t.unix(), About: about,
		Charge: chargeID, Request: t.request, Key: t.key, Wanted: t.wanted[kind]})
}

// confirm sends next, an edited copy, to the bank or to the challenge. The error
// is the bank's no, which is an effect too.
func (t *tx) confirm(next *intent, b behaviour, offSession, errorOnAction bool) *apiError {
	next.LastError, next.Status = nil, statusNeedsConfirm
	t.rec.Intent = next
	if b.challenge {
		if offSession && b.offSession || errorOnAction {
			b.code, b.decline = codeAuthentication, codeAuthentication
			return t.decline(next, b)
		}
		next.Status = statusNeedsAction
		t.emit("payment_intent.requires_action", aboutIntent, "")
		return nil
	}
	return t.bank(next, b)
}

// bank asks the issuer, after the challenge if there was one.
func (t *tx) bank(next *intent, b behaviour) *apiError {
	if b.code != "" {
		return t.decline(next, b)
	}
	c := charge{ID: t.newID("ch_"), Created: t.unix(), Amount: max(next.Amount-b.shortBy, 1), PaymentMethod: next.PaymentMethod, Paid: true}
	if !b.noCaptureEnd {
		c.CaptureBefore = t.now.Add(t.window).Unix()
	}
	next.Charges = append(next.Charges, c)
	next.Status = statusNeedsCapture
	next.Authorizations++
	t.rec.Intent = next
	t.emit("charge.succeeded", aboutCharge, c.ID)
	if next.CaptureMethod == captureManual {
		t.emit("payment_intent.amount_capturable_updated", aboutIntent, "")
		return nil
	}
	t.capture(next, c.Amount)
	return nil
}

// decline records the bank's no; the intent can be confirmed again.
func (t *tx) decline(next *intent, b behaviour) *apiError {
	c := charge{ID: t.newID("ch_"), Created: t.unix(), Amount: next.Amount, PaymentMethod: next.PaymentMethod,
		FailureCode: b.code, DeclineCode: b.decline}
	err := refused(b.code, b.decline, c.ID)
	next.Charges = append(next.Charges, c)
	next.Status, next.PaymentMethod, next.LastError = statusNeedsMethod, "", err
	t.rec.Intent = next
	t.emit("charge.failed", aboutCharge, c.ID)
	t.emit("payment_intent.payment_failed", aboutIntent, "")
	return err
}

// failChallenge records that the buyer did not pass.
func (t *tx) failChallenge(next *intent) {
	next.LastError = &apiError{Status: 400, Type: typeInvalid, Code: "payment_intent_authentication_failure",
		Message: "The provided PaymentMethod has failed authentication."}
	next.Status, next.PaymentMethod = statusNeedsMethod, ""
	t.rec.Intent = next
	t.emit("payment_intent.payment_failed", aboutIntent, "")
}

// capture takes amount, at most what is capturable; the rest is released.
func (t *tx) capture(next *intent, amount int64) {
	c := next.latest()
	c.IsCaptured, c.Captured, c.Released = true, amount, c.Amount-amount
	next.Status, next.Received = statusSucceeded, amount
	next.Captures++
	t.rec.Intent = next
	t.emit("charge.captured", aboutCharge, c.ID)
	t.emit("payment_intent.succeeded", aboutIntent, "")
	if b, _ := behaviourOf(c.PaymentMethod); b.dispute {
		c.Disputed = true
		t.emit("charge.dispute.created", aboutDispute, c.ID)
	}
}

// cancel gives the intent up, for the caller's reason or the provider's own.
func (t *tx) cancel(next *intent, reason string, lapsed bool) {
	held := next.capturable()
	next.Status, next.CanceledAt, next.CancelReason = statusCanceled, t.unix(), reason
	t.rec.Intent = next
	if held > 0 {
		c := next.latest()
		c.Released = held
		kind := "charge.refunded"
		if lapsed {
			kind = "charge.expired"
		} else {
			next.Voids++
		}
		t.emit(kind, aboutCharge, c.ID)
	}
	t.emit("payment_intent.canceled", aboutIntent, "")
}

// refund gives amount back, at most what is refundable.
func (t *tx) refund(next *intent, amount int64, reason string, meta map[string]string) *refund {
	c := next.latest()
	f := &refund{ID: t.newID("re_"), Created: t.unix(), Amount: amount, Currency: next.Currency, Intent: next.ID, Charge: c.ID,
		Reason: reason, Status: refundSucceeded, Metadata: meta}
	b, _ := behaviourOf(c.PaymentMethod)
	switch b.refund {
	case refundPending:
		f.Status, f.TurnsTo = refundPending, refundSucceeded
	case refundFailed:
		f.TurnsTo = refundFailed
	}
	if f.TurnsTo != "" {
		f.TurnsAt = t.now.Add(refundTurn).UnixMilli()
	}
	c.Refunded += amount
	next.Refunds++
	t.rec.Intent, t.rec.Refund = next, f
	t.emit("refund.created", aboutRefund, "")
	t.emit("charge.refunded", aboutCharge, c.ID)
	return f
}

// turnRefund lets a refund take the status it was bound for. A failed one gives
// the amount back to the charge.
func (t *tx) turnRefund(p *intent, f *refund) {
	next := *f
	next.Status, next.TurnsTo, next.TurnsAt = f.TurnsTo, "", 0
	t.rec.Refund = &next
	if next.Status == refundFailed {
		next.Failure = "lost_or_stolen_card"
		edited := p.edit()
		edited.findCharge(f.Charge).Refunded -= f.Amount
		edited.Refunds--
		t.rec.Intent = edited
		t.emit("refund.failed", aboutRefund, "")
		return
	}
	t.rec.Intent = p
	t.emit("refund.updated", aboutRefund, "")
}
