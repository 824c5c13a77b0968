package stripe_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	api "github.com/stripe/stripe-go/v85"

	"usher"
	"usher/internal/payment"
	"usher/internal/payment/stripe"
	"usher/internal/sim/paysim"
	"usher/internal/sim/paysim/paysimtest"
)

// endpoint is a receiver as checkout has one: it parses, keeps and answers 200.
type endpoint struct {
	t       *testing.T
	URL     string
	notices chan payment.Notice
}

func newEndpoint(t *testing.T) *endpoint {
	t.Helper()
	e := &endpoint{t: t, notices: make(chan payment.Notice, 1000)}
	a := adapterFor(t, "http://127.0.0.1:1", 0)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read webhook: %v", err)
		}
		n, err := a.ParseWebhook(r.Header, body)
		if err != nil {
			t.Errorf("webhook refused: %v", err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		e.notices <- n
	}))
	t.Cleanup(s.Close)
	e.URL = s.URL
	return e
}

// next returns the next notice.
func (e *endpoint) next() payment.Notice {
	e.t.Helper()
	select {
	case n := <-e.notices:
		return n
	case <-time.After(20 * time.Second):
		e.t.Fatal("no webhook came")
		return payment.Notice{}
	}
}

// await returns the next notice of a type, and those that came before it.
func (e *endpoint) await(kind string) (n payment.Notice, before []payment.Notice) {
	e.t.Helper()
	for {
		if n = e.next(); n.Type == kind {
			return n, before
		}
		before = append(before, n)
	}
}

func setupWebhooks(t *testing.T) (*bundle, *endpoint) {
	t.Helper()
	t.Parallel()
	e := newEndpoint(t)
	sim := paysimtest.Start(t, func(c *paysim.Config) { c.WebhookURL = e.URL })
	return &bundle{Sim: sim, t: t, adapter: adapterFor(t, sim.URL, 0)}, e
}

const (
	capturable = "payment_intent.amount_capturable_updated"
	succeeded  = "payment_intent.succeeded"
	canceled   = "payment_intent.canceled"
)

func TestWebhookTiesAnEventToItsOperation(t *testing.T) {
	b, e := setupWebhooks(t)
	r := b.authorized("pm_card_visa")
	n, _ := e.await(capturable)
	want := payment.Metadata{OperationID: r.OperationID, OrderID: r.OrderID, EventID: 7}
	if n.Reference != r.Reference || n.Metadata != want || n.Key != r.Key+":confirm" || n.State != payment.StateAuthorized ||
		n.Ignored != "" || n.Livemode || n.APIVersion != paysim.APIVersion || !strings.HasPrefix(n.EventID, "evt_") {
		t.Errorf("notice = %+v", n)
	}
	if age := time.Since(n.Created); age < -2*time.Second || age > time.Minute {
		t.Errorf("created %v", n.Created)
	}
	b.adapter.Capture(t.Context(), captureOf(r))
	n, before := e.await(succeeded)
	if n.State != payment.StateCaptured {
		t.Errorf("notice = %+v", n)
	}
	for _, other := range before {
		if other.Reference != r.Reference || other.Ignored != "" {
			t.Errorf("notice = %+v", other)
		}
	}
}

// W1: the same event several times has one id.
func TestWebhookDuplicates(t *testing.T) {
	b, e := setupWebhooks(t)
	b.Fault(paysim.Rule{Event: capturable, Action: "webhook_duplicate", Times: 3})
	b.authorized("pm_card_visa")
	first, _ := e.await(capturable)
	for range 2 {
		if again, _ := e.await(capturable); again.EventID != first.EventID {
			t.Errorf("duplicate has another id: %q, %q", again.EventID, first.EventID)
		}
	}
	b.Post("/control/webhooks/redeliver", map[string]any{"event": first.EventID, "times": 2}, nil)
	for range 2 {
		if again, _ := e.await(capturable); again.EventID != first.EventID {
			t.Errorf("redelivery has another id: %+v", again)
		}
	}
}

// W2: the authorization's event comes after the cancellation's; what it
// suggests is old, and a read tells the truth.
func TestWebhookReordered(t *testing.T) {
	b, e := setupWebhooks(t)
	b.Fault(paysim.Rule{Event: capturable, Action: "webhook_reorder", DelayMS: 60_000})
	r := b.authorized("pm_card_visa")
	b.want(b.adapter.Void(t.Context(), voidOf(r)), payment.Approved, payment.StateVoided)
	late, before := e.await(capturable)
	if len(before) == 0 {
		t.Error("nothing came before the event that was held back")
	}
	if s := b.adapter.Lookup(t.Context(), late.Reference); late.State != payment.StateAuthorized || s.State != payment.StateVoided {
		t.Errorf("late hint %q, truth %q", late.State, s.State)
	}
}

// W3: delayed, and dropped for ever.
func TestWebhookDelayedAndDropped(t *testing.T) {
	b, e := setupWebhooks(t)
	b.Fault(paysim.Rule{Event: capturable, Action: "webhook_drop"}, paysim.Rule{Event: canceled, Action: "webhook_delay", DelayMS: 50})
	r := b.authorized("pm_card_visa")
	b.adapter.Void(t.Context(), voidOf(r))
	_, before := e.await(canceled)
	for _, n := range before {
		if n.Type == capturable {
			t.Errorf("a dropped event came: %+v", n)
		}
	}
}

// W4: the webhook arrives before the answer of the call that caused it.
func TestWebhookBeforeTheAnswer(t *testing.T) {
	b, e := setupWebhooks(t)
	b.Fault(paysim.Rule{Event: capturable, Action: "webhook_before_answer"})
	r := b.authorized("pm_card_visa")
	select {
	case n := <-e.notices:
		for n.Type != capturable {
			n = <-e.notices
		}
		if n.Reference != r.Reference {
			t.Errorf("notice = %+v", n)
		}
	default:
		t.Error("no webhook had come when the call was answered")
	}
}

// signed makes headers for a body, signed at a time by secrets.
func signed(body []byte, at time.Time, secrets ...string) http.Header {
	value := fmt.Sprintf("t=%d", at.Unix())
	for _, s := range secrets {
		value += fmt.Sprintf(",v1=%x", api.ComputeSignature(at, body, s))
	}
	return http.Header{"Stripe-Signature": {value}}
}

// W5 and P38: the signature is over the raw bytes and the time is near.
func TestWebhookSignature(t *testing.T) {
	t.Parallel()
	a, err := stripe.New(stripe.Config{SecretKey: "sk_test_1", WebhookSecrets: []string{"whsec_new", "whsec_old"}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	body := []byte("{ \"object\":\"event\", \"id\" : \"evt_1\",\r\n\t\"type\":\"payment_intent.succeeded\",\"api_version\":\"2026-03-25.dahlia\"," +
		"\"created\":1,\"data\":{\"object\":{\"status\":\"succeeded\",\"description\":\"\\u5ea7\",\"id\":\"pi_1\"}}, \"new_field\": [1] }")
	changed := append([]byte(nil), body...)
	changed[len(changed)-4] = '2'
	v0 := signed(body, now, "whsec_new")
	v0.Set("Stripe-Signature", v0.Get("Stripe-Signature")+",v0=00,v1=zz,x=y")
	tests := []struct {
		name   string
		header http.Header
		body   []byte
		ok     bool
	}{
		{"odd spacing and escapes", signed(body, now, "whsec_new"), body, true},
		{"secret being rolled", signed(body, now, "whsec_old"), body, true},
		{"two signatures, one known", signed(body, now, "whsec_other", "whsec_new"), body, true},
		{"other schemes beside it", v0, body, true},
		{"four minutes old", signed(body, now.Add(-4*time.Minute), "whsec_new"), body, true},
		{"one byte changed", signed(body, now, "whsec_new"), changed, false},
		{"ten minutes old", signed(body, now.Add(-10*time.Minute), "whsec_new"), body, false},
		{"ten minutes ahead", signed(body, now.Add(10*time.Minute), "whsec_new"), body, false},
		{"unknown secret", signed(body, now, "whsec_other"), body, false},
		{"no secret's empty key", signed(body, now, ""), body, false},
		{"no header", http.Header{}, body, false},
		{"garbage", http.Header{"Stripe-Signature": {"t=1,v1"}}, body, false},
		{"no time", http.Header{"Stripe-Signature": {strings.Join(strings.Split(signed(body, now, "whsec_new").Get("Stripe-Signature"), ",")[1:], ",")}}, body, false},
	}
	for _, tt := range tests {
		n, err := a.ParseWebhook(tt.header, tt.body)
		if tt.ok && (err != nil || n.Reference != "pi_1" || n.State != payment.StateCaptured) {
			t.Errorf("%s: %+v, %v", tt.name, n, err)
		}
		if !tt.ok && usher.CodeOf(err) != usher.CodeWebhookSignature {
			t.Errorf("%s: accepted, or another error: %v", tt.name, err)
		}
	}
}

// W6 and P39: what is genuine and of no use is no error.
func TestWebhookOfAnotherKind(t *testing.T) {
	t.Parallel()
	a := adapterFor(t, "http://127.0.0.1:1", 0)
	parse := func(body string) payment.Notice {
		n, err := a.ParseWebhook(signed([]byte(body), time.Now(), paysimtest.WebhookSecret), []byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if n.EventID == "" {
			t.Fatalf("%s: no event id", body)
		}
		return n
	}
	event := func(rest string) string { return `{"id":"evt_1","object":"event",` + rest + `}` }
	intent := `"type":"payment_intent.succeeded","data":{"object":{"id":"pi_1","status":"succeeded"}}`
	tests := []struct {
		name, body, reference string
		state                 payment.State
		ignored               payment.Ignored
	}{
		{"unknown type", event(`"type":"invoice.paid","data":{"object":{"id":"in_1"}}`), "", "", payment.IgnoredType},
		{"other release train: a hint without a state", event(`"api_version":"2025-01-01.acacia",` + intent), "pi_1", "", ""},
		{"version from before trains", event(`"api_version":"2020-08-27",` + intent), "pi_1", "", ""},
		{"null version", event(`"api_version":null,` + intent), "pi_1", "", ""},
		{"live event for a test account", event(`"livemode":true,"api_version":"2026-03-25.dahlia",` + intent), "pi_1", "", payment.IgnoredMode},
		{"thin event", `{"id":"evt_2","object":"v2.core.event","type":"v1.payment_intent.succeeded"}`, "", "", payment.IgnoredUnreadable},
		{"no JSON", `hello`, "", "", payment.IgnoredUnreadable},
		{"no object", event(`"type":"payment_intent.succeeded"`), "", "", payment.IgnoredType},
		{"charge with the intent's id", event(`"type":"charge.refunded","data":{"object":{"id":"ch_1","payment_intent":"pi_1"}}`), "pi_1", "", ""},
		{"charge with the intent whole", event(`"type":"charge.refunded","data":{"object":{"id":"ch_1","payment_intent":{"id":"pi_1"}}}`), "pi_1", "", ""},
		{"charge without an intent", event(`"type":"charge.refunded","data":{"object":{"id":"ch_1","payment_intent":null}}`), "", "", payment.IgnoredType},
		{"metadata of somebody else", event(`"type":"refund.created","data":{"object":{"id":"re_1","payment_intent":"pi_9","metadata":{"order_id":"1001"}}}`), "pi_9", "", ""},
		{"reference that is no id", event(`"type":"payment_intent.succeeded","data":{"object":{"id":"pi_1/../x"}}`), "", "", payment.IgnoredType},
		{"declined", event(`"api_version":"2026-04-22.dahlia","type":"payment_intent.payment_failed","data":{"object":{"id":"pi_1",` +
			`"status":"requires_payment_method","last_payment_error":{"code":"card_declined"}}}`), "pi_1", payment.StateDeclined, ""},
		{"lapsed", event(`"api_version":"2026-04-22.dahlia","type":"payment_intent.canceled","data":{"object":{"id":"pi_1",` +
			`"status":"canceled","cancellation_reason":"automatic"}}`), "pi_1", payment.StateExpired, ""},
	}
	for _, tt := range tests {
		n := parse(tt.body)
		if n.Reference != tt.reference || n.State != tt.state || n.Ignored != tt.ignored || n.Metadata != (payment.Metadata{}) {
			t.Errorf("%s: %+v", tt.name, n)
		}
	}
	first, again, other := parse(`hello`), parse(`hello`), parse(`hullo`)
	if first.EventID != again.EventID || first.EventID == other.EventID {
		t.Error("unreadable bodies are not told apart by their digest")
	}
}

// The SDK accepts what the simulator sends, version check included.
func TestSDKAcceptsTheSimulatorsWebhooks(t *testing.T) {
	t.Parallel()
	got := make(chan error, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = api.ConstructEvent(body, r.Header.Get("Stripe-Signature"), paysimtest.WebhookSecret)
		}
		got <- err
	}))
	t.Cleanup(receiver.Close)
	sim := paysimtest.Start(t, func(c *paysim.Config) { c.WebhookURL = receiver.URL })
	b := &bundle{Sim: sim, t: t, adapter: adapterFor(t, sim.URL, 0)}
	b.authorized("pm_card_visa")
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func FuzzParseWebhook(f *testing.F) {
	a, err := stripe.New(stripe.Config{SecretKey: "sk_test_1", WebhookSecrets: []string{"whsec"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"id":"evt_1","object":"event","type":"charge.refunded","data":{"object":{"payment_intent":"pi_1"}}}`), "t=1,v1=00")
	f.Add([]byte(`{"id":"evt_1","object":"event","type":"payment_intent.x","data":{"object":{"id":"pi_1","metadata":{"a":"b"}}}}`), "t=,v1=")
	f.Fuzz(func(t *testing.T, body []byte, header string) {
		if _, err := a.ParseWebhook(http.Header{"Stripe-Signature": {header}}, body); usher.CodeOf(err) != usher.CodeWebhookSignature {
			t.Errorf("unsigned body accepted: %v", err)
		}
		n, err := a.ParseWebhook(signed(body, time.Now(), "whsec"), body)
		if err != nil || n.EventID == "" {
			t.Errorf("genuine body: %+v, %v", n, err)
		}
		if n.Ignored == "" && !strings.HasPrefix(n.Reference, "pi_") {
			t.Errorf("notice to act on without a reference: %+v", n)
		}
	})
}
