package checkout_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"usher"
	"usher/internal/ledger"
	"usher/internal/payment"
)

// fate is what happens to one call on its way.
type fate uint8

const (
	arrives    fate = iota
	lostBefore      // never executed, and the caller cannot know
	lostAfter       // executed, and the answer is lost
	refused         // the provider is not there at all
)

// fake is a provider with a truth of its own. Every test sees what it really
// did; hook decides what happens to calls.
type fake struct {
	caps payment.Capabilities
	// hook is asked before each call; nil lets all arrive. It runs without locks.
	hook func(ctx context.Context, call, reference string) fate

	mu      sync.Mutex
	intents map[string]*intent
	byKey   map[string]*intent
	calls   map[string]int
	keys    map[string]bool
}

// intent is one payment at the fake. Its method token says what the bank does:
// "decline", "challenge", "short" (authorizes another amount); others approve.
type intent struct {
	reference string
	meta      payment.Metadata
	state     payment.State
	amount    usher.Money
	captured  usher.Money
	captures  int
	refunds   int
}

func newFake() *fake {
	return &fake{
		caps:    payment.Capabilities{SeparateCapture: true, FenceByVoid: true, RefundByAPI: true},
		intents: map[string]*intent{}, byKey: map[string]*intent{}, calls: map[string]int{}, keys: map[string]bool{},
	}
}

func (*fake) Name() string { return "fake" }

func (f *fake) Capabilities() payment.Capabilities { return f.caps }

// do lets a call meet its fate; execute runs under the lock.
func (f *fake) do(ctx context.Context, call, key, reference string, execute func() payment.Outcome) payment.Outcome {
	way := arrives
	if f.hook != nil {
		way = f.hook(ctx, call, reference)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[call]++
	switch way {
	case lostBefore:
		return payment.Outcome{ProviderCode: "timeout"}
	case refused:
		return payment.Outcome{Kind: payment.NotExecuted, ProviderCode: "no_connection"}
	}
	if key != "" {
		f.keys[call+" "+key] = true
	}
	o := execute()
	if way == lostAfter {
		return payment.Outcome{ProviderCode: "timeout"}
	}
	return o
}

func (f *fake) Prepare(ctx context.Context, r payment.AuthorizeRequest) payment.Outcome {
	return f.do(ctx, "prepare", r.Key, "", func() payment.Outcome {
		p := f.byKey[r.Key]
		if p == nil {
			p = &intent{
				reference: fmt.Sprintf("pi_%d", len(f.intents)+1), state: payment.StateCreated, amount: r.Money,
				meta: payment.Metadata{OperationID: r.OperationID, OrderID: r.OrderID, EventID: r.OperationID.Event()},
			}
			f.intents[p.reference], f.byKey[r.Key] = p, p
		}
		return payment.Outcome{Kind: payment.Approved, State: p.state, Reference: p.reference, Amount: p.amount}
	})
}

func (f *fake) Authorize(ctx context.Context, r payment.AuthorizeRequest) payment.Outcome {
	return f.do(ctx, "authorize", r.Key, r.Reference, func() payment.Outcome {
		p := f.intents[r.Reference]
		if p.state == payment.StateCreated {
			p.confirm(r.PaymentMethodToken, f.caps.SeparateCapture)
		}
		return p.answer()
	})
}

func (p *intent) confirm(token string, separate bool) {
	switch token {
	case "decline":
		p.state = payment.StateDeclined
	case "challenge":
		p.state = payment.StateActionRequired
	default:
		if token == "short" {
			p.amount.AmountMinor -= 100
		}
		p.state = payment.StateAuthorized
		if !separate {
			p.state, p.captured, p.captures = payment.StateCaptured, p.amount, 1
		}
	}
}

func (p *intent) answer() payment.Outcome {
	o := payment.Outcome{State: p.state, Reference: p.reference, Amount: p.amount}
	switch p.state {
	case payment.StateAuthorized, payment.StateCaptured:
		o.Kind, o.CaptureBefore = payment.Approved, time.Now().Add(7*24*time.Hour)
	case payment.StateActionRequired:
		o.Kind, o.Action = payment.ActionRequired, payment.Action{Kind: payment.ActionRedirect, URL: "http://bank.example/" + p.reference}
	case payment.StateDeclined, payment.StateVoided, payment.StateExpired:
		o.Kind, o.Retry, o.ProviderCode = payment.Declined, payment.RetryNewAttempt, "card_declined"
	}
	return o
}

func (f *fake) Lookup(ctx context.Context, reference string) payment.Snapshot {
	if f.hook != nil && f.hook(ctx, "lookup", reference) != arrives {
		return payment.Snapshot{LastErrorCode: "no_connection"}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls["lookup"]++
	p := f.intents[reference]
	if p == nil {
		return payment.Snapshot{State: payment.StateNotFound}
	}
	s := payment.Snapshot{State: p.state, Reference: reference, Amount: p.amount, AmountReceived: p.captured, Metadata: p.meta}
	if p.state == payment.StateActionRequired {
		s.Action = payment.Action{Kind: payment.ActionRedirect, URL: "http://bank.example/" + reference}
	}
	return s
}

func (f *fake) Capture(ctx context.Context, r payment.CaptureRequest) payment.Outcome {
	return f.do(ctx, "capture", r.Key, r.Reference, func() payment.Outcome {
		p := f.intents[r.Reference]
		switch {
		case p.state == payment.StateAuthorized:
			p.state, p.captured = payment.StateCaptured, r.Money
			p.captures++
		case p.state.Closed():
			return payment.Outcome{Kind: payment.Declined, State: p.state, ProviderCode: "charge_expired"}
		}
		return payment.Outcome{Kind: payment.Approved, State: p.state, Reference: r.Reference, Amount: p.captured}
	})
}

func (f *fake) Void(ctx context.Context, r payment.VoidRequest) payment.Outcome {
	return f.do(ctx, "void", r.Key, r.Reference, func() payment.Outcome {
		p := f.intents[r.Reference]
		if p.state.MoneyTaken() {
			return payment.Outcome{Kind: payment.Declined, State: p.state, Amount: p.captured}
		}
		p.state = payment.StateVoided
		return payment.Outcome{Kind: payment.Approved, State: p.state}
	})
}

func (f *fake) Refund(ctx context.Context, r payment.RefundRequest) payment.Outcome {
	return f.do(ctx, "refund", r.Key, r.Reference, func() payment.Outcome {
		p := f.intents[r.Reference]
		if p.state != payment.StateRefunded {
			p.state = payment.StateRefunded
			p.refunds++
		}
		return payment.Outcome{Kind: payment.Approved, State: p.state, Amount: r.Money}
	})
}

// message is the body of the fake's webhooks.
type message struct {
	ID        string
	State     payment.State
	Reference string
	Operation usher.OperationID
	Ignored   payment.Ignored
}

func (f *fake) ParseWebhook(h http.Header, rawBody []byte) (payment.Notice, error) {
	if h.Get("Signature") != "good" {
		return payment.Notice{}, usher.Errorf(usher.CodeWebhookSignature, "bad signature")
	}
	var m message
	if json.Unmarshal(rawBody, &m) != nil {
		return payment.Notice{EventID: "unreadable", Ignored: payment.IgnoredUnreadable}, nil
	}
	n := payment.Notice{EventID: m.ID, Type: "intent." + string(m.State), Created: time.Now(), Reference: m.Reference, State: m.State, Ignored: m.Ignored}
	n.Metadata.OperationID = m.Operation
	return n, nil
}

// count returns how often a call reached the fake, whatever became of it.
func (f *fake) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
}

// all returns a copy of every intent.
func (f *fake) all() []intent {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []intent
	for i := range len(f.intents) {
		out = append(out, *f.intents[fmt.Sprintf("pi_%d", i+1)])
	}
	return out
}

// set changes an intent behind usher's back, as a buyer, a bank or staff would.
func (f *fake) set(reference string, s payment.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.intents[reference].state = s
}

// prepareOf is the request that checkout makes first for the order.
func prepareOf(o ledger.Order) payment.AuthorizeRequest {
	a := o.Authorization
	return payment.AuthorizeRequest{OperationID: a.ID, OrderID: o.ID, Money: a.Amount, Key: a.Key}
}
