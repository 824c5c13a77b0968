package stripe_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/stripe/stripe-go/v85"

	"usher/internal/payment"
	"usher/internal/sim/paysim"
	"usher/internal/sim/paysim/paysimtest"
)

// These tests pin what the adapter relies on in the SDK's pinned version. One
// that fails after an upgrade names a belief to look at again.

// rawClient is the SDK as it comes, with its own retries.
func rawClient(base string, retries int64) *api.Client {
	return api.NewClient(paysim.SecretKeyDefault, api.WithBackends(api.NewBackendsWithConfig(&api.BackendConfig{
		URL: &base, MaxNetworkRetries: &retries, EnableTelemetry: api.Bool(false), LeveledLogger: &api.LeveledLogger{},
		HTTPClient: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}},
	})))
}

func TestSDKVersionIsTheOneTheSimulatorSpeaks(t *testing.T) {
	t.Parallel()
	if api.APIVersion != paysim.APIVersion {
		t.Errorf("SDK speaks %q, simulator %q", api.APIVersion, paysim.APIVersion)
	}
}

// The SDK decides by itself what it sends again; the adapter therefore turns
// that off. A 409 and a 500 come straight back although its README promises more.
func TestSDKRetries(t *testing.T) {
	t.Parallel()
	sim := paysimtest.Start(t, nil)
	tests := []struct {
		name       string
		rule       paysim.Rule
		deliveries int
	}{
		{"409 in use is not sent again", paysim.Rule{Action: "in_use"}, 1},
		{"500 is not sent again", paysim.Rule{Action: "status_500"}, 1},
		{"429 is not sent again", paysim.Rule{Action: "rate_limit", Reason: "endpoint-rate"}, 1},
		{"429 lock_timeout is sent again", paysim.Rule{Action: "rate_limit", Reason: "lock_timeout"}, 2},
		{"a proxy's 502 is sent again", paysim.Rule{Action: "html502"}, 2},
		{"a closed connection is sent again", paysim.Rule{Action: "close_before"}, 2},
	}
	for _, tt := range tests {
		sim.ClearFaults()
		tt.rule.Count, tt.rule.Method, tt.rule.ID = 1, "POST", "r"
		always := paysim.Rule{Method: "POST", Action: "in_use", ID: "rest"}
		sim.Fault(tt.rule, always)
		_, _ = rawClient(sim.URL, 1).V1PaymentIntents.Create(t.Context(), &api.PaymentIntentCreateParams{
			Params: api.Params{IdempotencyKey: api.String("sdk:" + tt.name)}, Amount: api.Int64(1000), Currency: api.String("usd")})
		n := 0
		for _, r := range sim.Rules() {
			n += r.Acted
		}
		if n != tt.deliveries {
			t.Errorf("%s: came %d times, want %d", tt.name, n, tt.deliveries)
		}
	}
}

// The text of an SDK error holds the client secret: it must never be logged.
func TestSDKErrorTextHoldsTheClientSecret(t *testing.T) {
	t.Parallel()
	sim := paysimtest.Start(t, nil)
	c := rawClient(sim.URL, 0)
	pi, err := c.V1PaymentIntents.Create(t.Context(), &api.PaymentIntentCreateParams{Amount: api.Int64(1000), Currency: api.String("usd")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.V1PaymentIntents.Confirm(t.Context(), pi.ID, &api.PaymentIntentConfirmParams{PaymentMethod: api.String("pm_card_visa_chargeDeclined")})
	if err == nil || !strings.Contains(err.Error(), pi.ClientSecret) {
		t.Errorf("error text = %v", err)
	}
}

// With a path in the base URL the SDK refuses its own successful answer.
func TestSDKNeedsAnOrigin(t *testing.T) {
	t.Parallel()
	base := answers(t, 200, nil, `{"id":"pi_1"}`) + "/prefix"
	_, err := rawClient(base, 0).V1PaymentIntents.Retrieve(t.Context(), "pi_1", nil)
	if err == nil || !strings.Contains(err.Error(), "unknown path prefix") {
		t.Errorf("err = %v", err)
	}
}

// recorder keeps what the adapter put on the wire.
type recorder struct {
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	r.requests, r.bodies = append(r.requests, req), append(r.bodies, string(body))
	r.mu.Unlock()
	_, _ = w.Write([]byte(`{"id":"pi_1","status":"requires_capture","object":"payment_intent"}`))
}

// What is on the wire: our keys unchanged, the pinned version, no telemetry,
// bracketed parameters, and the same bytes for the same request.
func TestOnTheWire(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	rec := &recorder{}
	s := httptest.NewServer(rec)
	defer s.Close()
	a := adapterFor(t, s.URL, 0)
	r := request("pm_card_visa")
	r.Reference = "pi_1"
	a.Prepare(t.Context(), r)
	for range 2 {
		a.Authorize(t.Context(), r)
	}
	a.Capture(t.Context(), payment.CaptureRequest{OperationID: r.OperationID, OrderID: r.OrderID, Money: r.Money, Key: r.Key, Reference: "pi_1"})
	a.Void(t.Context(), payment.VoidRequest{OperationID: r.OperationID, OrderID: r.OrderID, Key: r.Key, Reference: "pi_1"})
	a.Refund(t.Context(), payment.RefundRequest{OperationID: r.OperationID, OrderID: r.OrderID, Money: r.Money, Key: r.Key, Reference: "pi_1"})
	a.Lookup(t.Context(), "pi_1")

	want := []struct{ path, key string }{
		{"/v1/payment_intents", "create"}, {"/v1/payment_intents/pi_1/confirm", "confirm"}, {"/v1/payment_intents/pi_1/confirm", "confirm"},
		{"/v1/payment_intents/pi_1/capture", "capture"}, {"/v1/payment_intents/pi_1/cancel", "cancel"}, {"/v1/refunds", "refund"},
		{"/v1/payment_intents/pi_1", ""},
	}
	if len(rec.requests) != len(want) {
		t.Fatalf("%d requests, want %d", len(rec.requests), len(want))
	}
	for i, w := range want {
		h := rec.requests[i].Header
		key := ""
		if w.key != "" {
			key = r.Key + ":" + w.key
		}
		if rec.requests[i].URL.Path != w.path || h.Get("Idempotency-Key") != key || h.Get("Stripe-Version") != paysim.APIVersion ||
			h.Get("Authorization") != "Bearer "+paysim.SecretKeyDefault || h.Get("X-Stripe-Client-Telemetry") != "" {
			t.Errorf("request %d: %s %v", i, rec.requests[i].URL.Path, h)
		}
	}
	if rec.bodies[1] != rec.bodies[2] {
		t.Errorf("a repeat differs:\n%s\n%s", rec.bodies[1], rec.bodies[2])
	}
	create, _ := url.ParseQuery(rec.bodies[0])
	for name, value := range map[string]string{"amount": "240000", "currency": "twd", "capture_method": "manual",
		"payment_method_types[0]": "card", "metadata[operation_id]": r.OperationID.String(), "metadata[order_id]": r.OrderID.String(),
		"metadata[event_id]": "evt_7"} {
		if create.Get(name) != value {
			t.Errorf("create %s = %q, want %q", name, create.Get(name), value)
		}
	}
	confirm, _ := url.ParseQuery(rec.bodies[1])
	if confirm.Get("expand[0]") != "latest_charge" || confirm.Get("return_url") != r.ReturnURL || confirm.Has("off_session") {
		t.Errorf("confirm = %q", rec.bodies[1])
	}
	left, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "*"))
	more, _ := filepath.Glob(filepath.Join(os.Getenv("HOME"), ".*", "*"))
	if len(left)+len(more) > 0 {
		t.Errorf("the SDK left files behind: %v %v", left, more)
	}
}

// A declined payment writes nothing anywhere: the SDK's logger is silent.
func TestNothingIsPrinted(t *testing.T) {
	sim := paysimtest.Start(t, nil)
	a := adapterFor(t, sim.URL, 0)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = w, w
	req := request("pm_card_visa_chargeDeclined")
	req.Reference = a.Prepare(t.Context(), req).Reference
	out := a.Authorize(t.Context(), req)
	os.Stdout, os.Stderr = stdout, stderr
	_ = w.Close()
	printed, _ := io.ReadAll(r)
	if len(bytes.TrimSpace(printed)) > 0 || out.Kind != payment.Declined {
		t.Errorf("outcome %v, printed %q", out.Kind, printed)
	}
}
