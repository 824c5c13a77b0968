package checkout

import (
	"time"

	"usher"
	"usher/internal/ledger"
	"usher/internal/payment"
)

// call names what was asked of the provider.
type call string

const (
	callPrepare   call = "prepare"
	callAuthorize call = "authorize"
	callLookup    call = "lookup"
	callVoid      call = "void"
	callCapture   call = "capture"
	callRefund    call = "refund"
)

// fact is what is known to be true of an intent at the provider.
type fact uint8

const (
	// factUnknown: nothing can be concluded.
	factUnknown fact = iota
	// factCreated: not confirmed, or the confirmation has not arrived yet.
	factCreated
	factActionRequired
	factPending
	factAuthorized
	// factCapturing: authorized, and a capture is under way.
	factCapturing
	factCaptured
	factPartlyRefunded
	factRefunded
	// factDeclined: nothing is authorized, and nothing will be unless we confirm again.
	factDeclined
	// factClosed: nothing is authorized and nothing can ever be.
	factClosed
)

var factOfState = map[payment.State]fact{
	payment.StateCreated:        factCreated,
	payment.StateActionRequired: factActionRequired,
	payment.StatePending:        factPending,
	payment.StateAuthorized:     factAuthorized,
	payment.StateCapturePending: factCapturing,
	payment.StateCaptured:       factCaptured,
	payment.StateDisputed:       factCaptured,
	payment.StatePartlyRefunded: factPartlyRefunded,
	payment.StateRefunded:       factRefunded,
	payment.StateDeclined:       factDeclined,
	payment.StateVoided:         factClosed,
	payment.StateExpired:        factClosed,
	// StateUnknown and StateNotFound prove nothing, and neither does a state that
	// a later version of the port may add.
}

// evidence is one thing the provider said, whatever way it came.
type evidence struct {
	call  call
	kind  payment.Kind
	retry payment.Retry
	fact  fact
	// amount is what is authorized, or after a capture what was taken.
	amount        usher.Money
	captureBefore time.Time
	reference     string
	actionURL     string
	// code is the provider's reason, for staff.
	code string
}

// ofOutcome reads an answer to a call that changes something.
func ofOutcome(c call, o payment.Outcome) evidence {
	e := evidence{
		call: c, kind: o.Kind, retry: o.Retry, fact: factOfState[o.State], amount: o.Amount, captureBefore: o.CaptureBefore,
		reference: o.Reference, code: o.ProviderCode,
	}
	if o.Action.Kind == payment.ActionRedirect {
		e.actionURL = o.Action.URL
	}
	switch o.Kind {
	case payment.Unknown, payment.NotExecuted, payment.Rejected:
		// Such an answer says nothing about what an earlier call with this key did.
		e.fact = factUnknown
	case payment.Pending:
		if e.fact != factCapturing {
			e.fact = factPending
		}
	case payment.ActionRequired:
		e.fact = factActionRequired
	}
	if c == callAuthorize {
		e.fact = authorizeFact(o.Kind, e.fact)
	}
	return e
}

// authorizeFact settles what an answer to Authorize means where its state is
// missing, and distrusts a verdict that its own state contradicts.
func authorizeFact(k payment.Kind, f fact) fact {
	switch {
	case k == payment.Approved && f == factUnknown:
		return factAuthorized
	case k == payment.Declined && f == factUnknown:
		return factDeclined
	case k == payment.Declined && f != factDeclined && f != factClosed:
		return factUnknown
	}
	return f
}

// ofSnapshot reads a look-up of the authorization's intent. An intent that does
// not carry the authorization's own id is not ours to judge by.
func ofSnapshot(s payment.Snapshot, auth ledger.Operation) evidence {
	e := evidence{
		call: callLookup, fact: factOfState[s.State], amount: s.Amount, captureBefore: s.CaptureBefore,
		reference: s.Reference, code: s.LastErrorCode,
	}
	if s.Action.Kind == payment.ActionRedirect {
		e.actionURL = s.Action.URL
	}
	if s.State.MoneyTaken() {
		e.amount = s.AmountReceived
	}
	if e.fact != factUnknown && (s.Metadata.OperationID != auth.ID || s.Reference != auth.Reference) {
		return evidence{call: callLookup, code: "foreign_intent"}
	}
	return e
}
