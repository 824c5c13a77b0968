package stripe_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"usher"
	"usher/internal/payment"
	"usher/internal/payment/stripe"
	"usher/internal/sim/paysim"
	"usher/internal/sim/paysim/paysimtest"
)

// bundle is one simulator and two adapters that talk to it over real HTTP: the
// hasty one is for calls that are meant to run out of time.
type bundle struct {
	*paysimtest.Sim
	t       *testing.T
	adapter *stripe.Adapter
	hasty   *stripe.Adapter
}

// shortTimeout bounds the hasty adapter's calls.
const shortTimeout = 300 * time.Millisecond

func setup(t *testing.T) *bundle {
	t.Helper()
	t.Parallel()
	sim := paysimtest.Start(t, nil)
	return &bundle{Sim: sim, t: t, adapter: adapterFor(t, sim.URL, time.Minute), hasty: adapterFor(t, sim.URL, shortTimeout)}
}

func adapterFor(t *testing.T, base string, timeout time.Duration) *stripe.Adapter {
	t.Helper()
	a, err := stripe.New(stripe.Config{SecretKey: paysim.SecretKeyDefault, BaseURL: base,
		WebhookSecrets: []string{paysimtest.WebhookSecret}, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var total = usher.Money{AmountMinor: 240000, Currency: "TWD"}

// request is a fresh authorization of NT$2,400 with the card.
func request(card string) payment.AuthorizeRequest {
	op := usher.NewOperationID(7)
	return payment.AuthorizeRequest{OperationID: op, OrderID: usher.NewOrderID(7), Money: total, Key: op.String(),
		PaymentMethodToken: card, ReturnURL: "http://shop.example/orders/1"}
}

// prepare creates the intent of a request and stores its reference in it.
func (b *bundle) prepare(card string) payment.AuthorizeRequest {
	b.t.Helper()
	r := request(card)
	out := b.adapter.Prepare(b.t.Context(), r)
	if out.Kind != payment.Approved || out.Reference == "" || out.State != payment.StateCreated || out.Amount != total {
		b.t.Fatalf("prepare = %+v", out)
	}
	r.Reference = out.Reference
	return r
}

// authorized returns a request whose authorization was approved.
func (b *bundle) authorized(card string) payment.AuthorizeRequest {
	b.t.Helper()
	r := b.prepare(card)
	b.want(b.adapter.Authorize(b.t.Context(), r), payment.Approved, payment.StateAuthorized)
	return r
}

func (b *bundle) want(out payment.Outcome, kind payment.Kind, state payment.State) {
	b.t.Helper()
	if out.Kind != kind || out.State != state {
		b.t.Fatalf("outcome = %v %q (code %q, retry %v), want %v %q", out.Kind, out.State, out.ProviderCode, out.Retry, kind, state)
	}
}

func (b *bundle) wantRetry(out payment.Outcome, retry payment.Retry) {
	b.t.Helper()
	if out.Retry != retry {
		b.t.Fatalf("retry = %v (kind %v, code %q), want %v", out.Retry, out.Kind, out.ProviderCode, retry)
	}
}

func captureOf(r payment.AuthorizeRequest) payment.CaptureRequest {
	op := usher.NewOperationID(7)
	return payment.CaptureRequest{OperationID: op, OrderID: r.OrderID, Money: r.Money, Key: op.String(), Reference: r.Reference}
}

func voidOf(r payment.AuthorizeRequest) payment.VoidRequest {
	op := usher.NewOperationID(7)
	return payment.VoidRequest{OperationID: op, OrderID: r.OrderID, Key: op.String(), Reference: r.Reference}
}

func refundOf(r payment.AuthorizeRequest, money usher.Money) payment.RefundRequest {
	op := usher.NewOperationID(7)
	return payment.RefundRequest{OperationID: op, OrderID: r.OrderID, Money: money, Key: op.String(), Reference: r.Reference}
}

func TestAuthorizeCaptureRefund(t *testing.T) {
	b := setup(t)
	ctx := t.Context()
	r := b.prepare("pm_card_visa")

	out := b.adapter.Authorize(ctx, r)
	b.want(out, payment.Approved, payment.StateAuthorized)
	if out.Amount != total || out.Reference != r.Reference || out.RequestID == "" || out.Replayed {
		t.Errorf("authorize = %+v", out)
	}
	if left := time.Until(out.CaptureBefore); left < 6*24*time.Hour || left > 8*24*time.Hour {
		t.Errorf("capture before %v, want about a week from now", out.CaptureBefore)
	}

	out = b.adapter.Capture(ctx, captureOf(r))
	b.want(out, payment.Approved, payment.StateCaptured)
	if out.Amount != total {
		t.Errorf("captured %v, want %v", out.Amount, total)
	}
	half := usher.Money{AmountMinor: 120000, Currency: "TWD"}
	out = b.adapter.Refund(ctx, refundOf(r, half))
	b.want(out, payment.Approved, payment.StateUnknown)
	if out.Amount != half {
		t.Errorf("refunded %v, want %v", out.Amount, half)
	}
	s := b.adapter.Lookup(ctx, r.Reference)
	if s.State != payment.StatePartlyRefunded || s.AmountReceived != total || s.AmountRefunded != half {
		t.Errorf("snapshot = %+v", s)
	}
	b.want(b.adapter.Refund(ctx, refundOf(r, half)), payment.Approved, payment.StateUnknown)
	if s := b.adapter.Lookup(ctx, r.Reference); s.State != payment.StateRefunded {
		t.Errorf("state = %q, want refunded", s.State)
	}
	b.CheckInvariants()
}

func TestLookupCarriesWhatPrepareAttached(t *testing.T) {
	b := setup(t)
	r := b.prepare("pm_card_visa")
	s := b.adapter.Lookup(t.Context(), r.Reference)
	want := payment.Metadata{OperationID: r.OperationID, OrderID: r.OrderID, EventID: 7}
	if s.State != payment.StateCreated || s.Metadata != want || s.Amount != total || s.Livemode || s.Reference != r.Reference {
		t.Errorf("snapshot = %+v, want created with %+v", s, want)
	}
	if s := b.adapter.Lookup(t.Context(), "pi_nosuch"); s.State != payment.StateNotFound {
		t.Errorf("unknown reference: %+v", s)
	}
	if s := b.adapter.Lookup(t.Context(), "../refunds"); s.State != payment.StateUnknown || s.LastErrorCode != "reference_unusable" {
		t.Errorf("unusable reference: %+v", s)
	}
}

// B1: every decline is its own code, the buyer's intent stays usable for a new attempt.
func TestDeclines(t *testing.T) {
	b := setup(t)
	tests := map[string]string{
		"pm_card_visa_chargeDeclined":                      "card_declined/generic_decline",
		"pm_card_visa_chargeDeclinedInsufficientFunds":     "card_declined/insufficient_funds",
		"pm_card_visa_chargeDeclinedLostCard":              "card_declined/lost_card",
		"pm_card_visa_chargeDeclinedStolenCard":            "card_declined/stolen_card",
		"pm_card_visa_chargeDeclinedVelocityLimitExceeded": "card_declined/card_velocity_exceeded",
		"pm_card_visa_chargeDeclinedDoNotHonor":            "card_declined/do_not_honor",
		"pm_card_visa_chargeDeclinedFraudulent":            "card_declined/fraudulent",
		"pm_card_visa_chargeDeclinedTryAgainLater":         "card_declined/try_again_later",
		"pm_card_visa_chargeDeclinedIssuerNotAvailable":    "card_declined/issuer_not_available",
		"pm_card_chargeDeclinedExpiredCard":                "expired_card",
		"pm_card_chargeDeclinedIncorrectCvc":               "incorrect_cvc",
		"pm_card_chargeDeclinedProcessingError":            "processing_error",
		"pm_card_radarBlock":                               "card_declined/fraudulent",
	}
	for card, code := range tests {
		r := b.prepare(card)
		out := b.adapter.Authorize(t.Context(), r)
		b.want(out, payment.Declined, payment.StateDeclined)
		b.wantRetry(out, payment.RetryNewAttempt)
		if out.ProviderCode != code {
			t.Errorf("%s: code = %q, want %q", card, out.ProviderCode, code)
		}
		if s := b.adapter.Lookup(t.Context(), r.Reference); s.State != payment.StateDeclined || s.LastErrorCode != code {
			t.Errorf("%s: snapshot = %+v", card, s)
		}
		if got := b.Intent(r.Reference); got.Authorizations != 0 || got.Attempts != 1 {
			t.Errorf("%s: ledger = %+v", card, got)
		}
	}
}

func TestDeclineThenAnotherAttemptOfTheSameOrder(t *testing.T) {
	b := setup(t)
	first := b.prepare("pm_card_visa_chargeDeclined")
	b.want(b.adapter.Authorize(t.Context(), first), payment.Declined, payment.StateDeclined)
	second := request("pm_card_visa")
	second.OrderID = first.OrderID
	second.Reference = b.adapter.Prepare(t.Context(), second).Reference
	b.want(b.adapter.Authorize(t.Context(), second), payment.Approved, payment.StateAuthorized)
	// The first attempt's key still gives its own answer and nothing else.
	again := b.adapter.Authorize(t.Context(), first)
	b.want(again, payment.Declined, payment.StateDeclined)
	if !again.Replayed {
		t.Error("the repeat of a stored decline is not marked as replayed")
	}
	b.CheckInvariants()
}

// S3 and S8: a step that finds the work done, or undone by others, says so.
func TestStepsOnAnIntentInAnotherState(t *testing.T) {
	b := setup(t)
	ctx := t.Context()
	t.Run("capture with a new key after capture counts as done", func(t *testing.T) {
		r := b.authorized("pm_card_visa")
		b.want(b.adapter.Capture(ctx, captureOf(r)), payment.Approved, payment.StateCaptured)
		out := b.adapter.Capture(ctx, captureOf(r))
		b.want(out, payment.Approved, payment.StateCaptured)
		if out.Amount != total || b.Intent(r.Reference).Captures != 1 {
			t.Errorf("second capture = %+v, ledger %+v", out, b.Intent(r.Reference))
		}
	})
	t.Run("void after capture needs a refund", func(t *testing.T) {
		r := b.authorized("pm_card_visa")
		b.adapter.Capture(ctx, captureOf(r))
		out := b.adapter.Void(ctx, voidOf(r))
		b.want(out, payment.Declined, payment.StateCaptured)
		b.wantRetry(out, payment.RetryNever)
	})
	t.Run("void twice is done twice", func(t *testing.T) {
		r := b.authorized("pm_card_visa")
		b.want(b.adapter.Void(ctx, voidOf(r)), payment.Approved, payment.StateVoided)
		b.want(b.adapter.Void(ctx, voidOf(r)), payment.Approved, payment.StateVoided)
		if b.Intent(r.Reference).Voids != 1 {
			t.Errorf("ledger = %+v", b.Intent(r.Reference))
		}
	})
	t.Run("capture after the authorization lapsed", func(t *testing.T) {
		r := b.authorized("pm_card_visa")
		b.Post("/control/intents/"+r.Reference+"/expire", nil, nil)
		out := b.adapter.Capture(ctx, captureOf(r))
		b.want(out, payment.Declined, payment.StateExpired)
		b.wantRetry(out, payment.RetryNever)
		b.want(b.adapter.Void(ctx, voidOf(r)), payment.Approved, payment.StateExpired)
	})
	t.Run("capture after staff cancelled at the provider", func(t *testing.T) {
		r := b.authorized("pm_card_visa")
		b.Post("/control/intents/"+r.Reference+"/cancel", nil, nil)
		b.want(b.adapter.Capture(ctx, captureOf(r)), payment.Declined, payment.StateVoided)
		if s := b.adapter.Lookup(ctx, r.Reference); !s.State.Closed() {
			t.Errorf("snapshot = %+v", s)
		}
	})
	t.Run("confirm with a new key after authorization counts as done", func(t *testing.T) {
		r := b.authorized("pm_card_visa")
		r.Key += ":second"
		out := b.adapter.Authorize(ctx, r)
		b.want(out, payment.Approved, payment.StateAuthorized)
		if out.CaptureBefore.IsZero() || b.Intent(r.Reference).Authorizations != 1 {
			t.Errorf("outcome = %+v, ledger %+v", out, b.Intent(r.Reference))
		}
	})
	t.Run("capture of what was never authorized", func(t *testing.T) {
		b.want(b.adapter.Capture(ctx, captureOf(b.prepare("pm_card_visa"))), payment.Rejected, payment.StateCreated)
	})
	b.CheckInvariants()
}

// S7: the released rest of a partial capture is not a refund.
func TestPartialCaptureIsNoRefund(t *testing.T) {
	b := setup(t)
	r := b.authorized("pm_card_visa")
	c := captureOf(r)
	c.Money.AmountMinor = 100000
	out := b.adapter.Capture(t.Context(), c)
	b.want(out, payment.Approved, payment.StateCaptured)
	s := b.adapter.Lookup(t.Context(), r.Reference)
	if out.Amount != c.Money || s.AmountReceived != c.Money || s.AmountRefunded.AmountMinor != 0 || s.State != payment.StateCaptured {
		t.Errorf("captured %v, snapshot = %+v", out.Amount, s)
	}
}

// B4 and S2: the amount and the end of the authorization are the provider's, not what was asked for.
func TestAnswersAreTheProvidersOwn(t *testing.T) {
	b := setup(t)
	out := b.adapter.Authorize(t.Context(), b.prepare("pm_usher_short_authorization"))
	b.want(out, payment.Approved, payment.StateAuthorized)
	if want := (usher.Money{AmountMinor: 239900, Currency: "TWD"}); out.Amount != want {
		t.Errorf("amount = %v, want %v", out.Amount, want)
	}
	out = b.adapter.Authorize(t.Context(), b.prepare("pm_usher_no_capture_before"))
	b.want(out, payment.Approved, payment.StateAuthorized)
	if !out.CaptureBefore.IsZero() {
		t.Errorf("capture before = %v, want not told", out.CaptureBefore)
	}
	r := b.authorized("pm_card_createDispute")
	b.adapter.Capture(t.Context(), captureOf(r))
	if s := b.adapter.Lookup(t.Context(), r.Reference); s.State != payment.StateDisputed {
		t.Errorf("state = %q, want disputed", s.State)
	}
}

func TestRejected(t *testing.T) {
	b := setup(t)
	ctx := t.Context()
	good := b.prepare("pm_card_visa")
	with := func(edit func(*payment.AuthorizeRequest)) payment.AuthorizeRequest {
		r := good
		edit(&r)
		return r
	}
	over := captureOf(b.authorized("pm_card_visa"))
	over.Money.AmountMinor *= 2
	tests := []struct {
		name string
		out  payment.Outcome
		code string
	}{
		{"unknown card token", b.adapter.Authorize(ctx, with(func(r *payment.AuthorizeRequest) { r.PaymentMethodToken = "pm_nosuch" })), payment.MethodUnknown},
		{"no card token", b.adapter.Authorize(ctx, with(func(r *payment.AuthorizeRequest) { r.PaymentMethodToken = "" })), "payment_method_missing"},
		{"no key", b.adapter.Authorize(ctx, with(func(r *payment.AuthorizeRequest) { r.Key = "" })), "key_unusable"},
		{"reference of another kind", b.adapter.Authorize(ctx, with(func(r *payment.AuthorizeRequest) { r.Reference = "ch_1" })), "reference_unusable"},
		{"no operation", b.adapter.Prepare(ctx, with(func(r *payment.AuthorizeRequest) { r.OperationID = usher.OperationID{} })), "operation_id_missing"},
		{"amount of zero", b.adapter.Prepare(ctx, with(func(r *payment.AuthorizeRequest) { r.Money.AmountMinor = 0 })), "amount_unusable"},
		{"amount below the provider's least", b.adapter.Prepare(ctx, with(func(r *payment.AuthorizeRequest) {
			r.Key, r.Money = "small", usher.Money{AmountMinor: 10, Currency: "USD"}
		})), "amount_too_small"},
		{"capture above what is authorized", b.adapter.Capture(ctx, over), "amount_too_large"},
		{"refund of what was never captured", b.adapter.Refund(ctx, refundOf(good, total)), "payment_intent_unexpected_state"},
	}
	for _, tt := range tests {
		if tt.out.Kind != payment.Rejected || tt.out.ProviderCode != tt.code || tt.out.Retry != payment.RetryNever {
			t.Errorf("%s: %+v, want rejected with %q", tt.name, tt.out, tt.code)
		}
	}
	// A rejected token leaves the key free: the buyer can give another card under it.
	b.want(b.adapter.Authorize(ctx, good), payment.Approved, payment.StateAuthorized)
}

func TestRefundOutcomes(t *testing.T) {
	b := setup(t)
	ctx := t.Context()
	captured := func(card string) payment.AuthorizeRequest {
		r := b.authorized(card)
		b.want(b.adapter.Capture(ctx, captureOf(r)), payment.Approved, payment.StateCaptured)
		return r
	}
	t.Run("refund again with another operation finds nothing left", func(t *testing.T) {
		r := captured("pm_card_visa")
		b.want(b.adapter.Refund(ctx, refundOf(r, total)), payment.Approved, payment.StateUnknown)
		out := b.adapter.Refund(ctx, refundOf(r, total))
		b.want(out, payment.Rejected, payment.StateRefunded)
	})
	t.Run("refund again with the same operation and a new key is done", func(t *testing.T) {
		r := captured("pm_card_visa")
		f := refundOf(r, total)
		b.want(b.adapter.Refund(ctx, f), payment.Approved, payment.StateUnknown)
		f.Key += ":again"
		b.want(b.adapter.Refund(ctx, f), payment.Approved, payment.StateUnknown)
		if got := b.Intent(r.Reference); got.Refunds != 1 || got.Refunded != total.AmountMinor {
			t.Errorf("ledger = %+v", got)
		}
	})
	t.Run("pending", func(t *testing.T) {
		f := refundOf(captured("pm_card_pendingRefund"), total)
		b.want(b.adapter.Refund(ctx, f), payment.Pending, payment.StateUnknown)
		// The same call again tells how it went in the end.
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		out := b.adapter.Refund(ctx, f)
		for ; out.Kind == payment.Pending; out = b.adapter.Refund(ctx, f) {
			<-tick.C
		}
		b.want(out, payment.Approved, payment.StateUnknown)
	})
	t.Run("failed afterwards", func(t *testing.T) {
		f := refundOf(captured("pm_card_refundFail"), total)
		b.want(b.adapter.Refund(ctx, f), payment.Approved, payment.StateUnknown)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		out := b.adapter.Refund(ctx, f)
		for ; out.Kind == payment.Approved; out = b.adapter.Refund(ctx, f) {
			<-tick.C
		}
		b.want(out, payment.Declined, payment.StateUnknown)
		if out.ProviderCode != "lost_or_stolen_card" {
			t.Errorf("code = %q", out.ProviderCode)
		}
	})
	t.Run("stored 500, executed: the repeat finds it", func(t *testing.T) {
		r := captured("pm_card_visa")
		b.Fault(paysim.Rule{Method: "POST", Path: "/v1/refunds", Metadata: map[string]string{"order_id": r.OrderID.String()},
			Action: "status_500_executed", Count: 1})
		f := refundOf(r, total)
		out := b.adapter.Refund(ctx, f)
		b.want(out, payment.Unknown, payment.StateUnknown)
		b.wantRetry(out, payment.RetrySameKey)
		out = b.adapter.Refund(ctx, f)
		b.want(out, payment.Approved, payment.StateUnknown)
		if !out.Replayed || b.Intent(r.Reference).Refunds != 1 {
			t.Errorf("outcome = %+v, ledger = %+v", out, b.Intent(r.Reference))
		}
	})
	b.CheckInvariants()
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	good := stripe.Config{SecretKey: "sk_test_1", WebhookSecrets: []string{"whsec"}, BaseURL: "http://127.0.0.1:1"}
	if _, err := stripe.New(good); err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(*stripe.Config){
		"no key":           func(c *stripe.Config) { c.SecretKey = "" },
		"no webhook":       func(c *stripe.Config) { c.WebhookSecrets = nil },
		"empty webhook":    func(c *stripe.Config) { c.WebhookSecrets = []string{""} },
		"path in base URL": func(c *stripe.Config) { c.BaseURL = "http://127.0.0.1:1/stripe" },
		"no scheme":        func(c *stripe.Config) { c.BaseURL = "127.0.0.1:1" },
	}
	for name, edit := range tests {
		c := good
		edit(&c)
		if _, err := stripe.New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestPort(t *testing.T) {
	t.Parallel()
	a := adapterFor(t, "http://127.0.0.1:1", 0)
	want := payment.Capabilities{SeparateCapture: true, FenceByVoid: true, RefundByAPI: true}
	if a.Name() != "stripe" || a.Capabilities() != want {
		t.Errorf("name %q, capabilities %+v", a.Name(), a.Capabilities())
	}
	if _, err := a.ParseWebhook(http.Header{}, nil); usher.CodeOf(err) != usher.CodeWebhookSignature {
		t.Errorf("unsigned webhook: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out := a.Prepare(ctx, request("pm_card_visa")); out.Kind != payment.NotExecuted {
		t.Errorf("ended context: %+v", out)
	}
}
