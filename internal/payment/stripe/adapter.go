// Package stripe is the adapter of the payment port for Stripe, on the official
// SDK, with manual capture and card payments only.
//
// Invariants:
//   - One call of the port is at most one write on the wire. The SDK's retries
//     are off, and so is net/http's own repeat of a POST.
//   - An error of the SDK is never logged, wrapped or returned: its text holds
//     the intent with its client secret. What leaves the package is rebuilt
//     from codes that were checked to be codes.
//   - An answer that is marked as replayed, or that says that the intent is in
//     another state than expected, is settled by reading the intent.
package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	api "github.com/stripe/stripe-go/v85"

	"usher"
	"usher/internal/payment"
)

// Name is the name under which this provider's operations are stored.
const Name = "stripe"

// TimeoutDefault bounds one call. It is far below a hold's life, so that an
// unknown outcome is settled while the buyer still waits.
const TimeoutDefault = 8 * time.Second

// Config says how to reach one Stripe account.
type Config struct {
	// SecretKey is the API key; whether it is a live one decides Livemode.
	SecretKey string
	// BaseURL is the origin of the API, without a path; Stripe's own if empty.
	BaseURL string
	// WebhookSecrets sign webhooks: one, or two while a secret is being rolled.
	WebhookSecrets []string
	// Timeout bounds each call; TimeoutDefault if zero.
	Timeout time.Duration
}

// Adapter implements payment.Provider. It holds connections and no state.
type Adapter struct {
	client   *api.Client
	timeout  time.Duration
	secrets  []string
	livemode bool
}

var _ payment.Provider = (*Adapter)(nil)

// New returns an adapter. It fails on a configuration that cannot work; it does
// not reach out to the provider.
func New(cfg Config) (*Adapter, error) {
	if cfg.SecretKey == "" {
		return nil, errors.New("stripe: the secret key is missing")
	}
	if len(cfg.WebhookSecrets) == 0 || containsEmpty(cfg.WebhookSecrets) {
		return nil, errors.New("stripe: a webhook secret is missing")
	}
	base := strings.TrimSuffix(cfg.BaseURL, "/")
	if base == "" {
		base = api.APIURL
	}
	// With a path prefix the SDK refuses its own successful answers.
	if u, err := url.Parse(base); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("stripe: the base URL %q is not an origin", cfg.BaseURL)
	}
	timeout := cfg.Timeout
	if timeout == 0 {
		timeout = TimeoutDefault
	}
	backends := api.NewBackendsWithConfig(&api.BackendConfig{
		URL: &base, HTTPClient: newClient(timeout), MaxNetworkRetries: api.Int64(0), EnableTelemetry: api.Bool(false),
		LeveledLogger: &api.LeveledLogger{Level: api.LevelNull},
	})
	return &Adapter{
		client:  api.NewClient(cfg.SecretKey, api.WithBackends(backends)),
		timeout: timeout, secrets: cfg.WebhookSecrets,
		livemode: strings.HasPrefix(cfg.SecretKey, "sk_live_") || strings.HasPrefix(cfg.SecretKey, "rk_live_"),
	}, nil
}

func containsEmpty(list []string) bool {
	for _, s := range list {
		if s == "" {
			return true
		}
	}
	return false
}

// Name implements payment.Provider.
func (*Adapter) Name() string { return Name }

// Capabilities implements payment.Provider.
func (*Adapter) Capabilities() payment.Capabilities {
	return payment.Capabilities{SeparateCapture: true, FenceByVoid: true, RefundByAPI: true}
}

// The metadata that ties an intent to an operation.
const (
	metaOperation = "operation_id"
	metaOrder     = "order_id"
	metaEvent     = "event_id"
)

func metadataOf(operation usher.OperationID, order usher.OrderID) map[string]string {
	return map[string]string{metaOperation: operation.String(), metaOrder: order.String(), metaEvent: operation.Event().String()}
}

// latestCharge asks for the charge along with the intent: it tells when the
// authorization lapses and what was given back.
func latestCharge() []*string { return []*string{api.String("latest_charge")} }

// step completes a stored key for one kind of request. A key of its own for
// each keeps create and confirm of one operation apart.
func step(key, name string) api.Params {
	return api.Params{IdempotencyKey: api.String(key + ":" + name)}
}

// check refuses what must not be sent: it would be answered as somebody else's
// request, or not at all.
func check(operation usher.OperationID, key string, reference *string) (code string) {
	switch {
	case operation.IsZero():
		return codeNoOperation
	case usher.CheckKey("key", key) != nil:
		return codeNoKey
	case reference != nil && !isIntentID(*reference):
		return codeNoReference
	}
	return ""
}

// isIntentID keeps anything but an intent's id out of a path.
func isIntentID(s string) bool {
	return strings.HasPrefix(s, "pi_") && isCode(s, isWordRune)
}

// Prepare implements payment.Provider.
func (a *Adapter) Prepare(ctx context.Context, r payment.AuthorizeRequest) payment.Outcome {
	amount, currency, err := AmountToProvider(r.Money)
	if code := check(r.OperationID, r.Key, nil); code != "" || err != nil {
		return refuse(code)
	}
	return a.do(ctx, kindPrepare, "", func(ctx context.Context) (*api.PaymentIntent, error) {
		return a.client.V1PaymentIntents.Create(ctx, &api.PaymentIntentCreateParams{
			Params: step(r.Key, "create"), Amount: &amount, Currency: &currency,
			CaptureMethod:      api.String(string(api.PaymentIntentCaptureMethodManual)),
			PaymentMethodTypes: []*string{api.String("card")},
			Metadata:           metadataOf(r.OperationID, r.OrderID),
		})
	})
}

// Authorize implements payment.Provider.
func (a *Adapter) Authorize(ctx context.Context, r payment.AuthorizeRequest) payment.Outcome {
	if code := check(r.OperationID, r.Key, &r.Reference); code != "" {
		return refuse(code)
	}
	if r.PaymentMethodToken == "" {
		return refuse(codeNoMethod)
	}
	return a.do(ctx, kindAuthorize, r.Reference, func(ctx context.Context) (*api.PaymentIntent, error) {
		p := &api.PaymentIntentConfirmParams{Params: step(r.Key, "confirm"), PaymentMethod: &r.PaymentMethodToken, Expand: latestCharge()}
		if r.ReturnURL != "" {
			p.ReturnURL = &r.ReturnURL
		}
		return a.client.V1PaymentIntents.Confirm(ctx, r.Reference, p)
	})
}

// Capture implements payment.Provider.
func (a *Adapter) Capture(ctx context.Context, r payment.CaptureRequest) payment.Outcome {
	amount, _, err := AmountToProvider(r.Money)
	if code := check(r.OperationID, r.Key, &r.Reference); code != "" || err != nil {
		return refuse(code)
	}
	return a.do(ctx, kindCapture, r.Reference, func(ctx context.Context) (*api.PaymentIntent, error) {
		return a.client.V1PaymentIntents.Capture(ctx, r.Reference, &api.PaymentIntentCaptureParams{
			Params: step(r.Key, "capture"), AmountToCapture: &amount, Expand: latestCharge()})
	})
}

// Void implements payment.Provider.
func (a *Adapter) Void(ctx context.Context, r payment.VoidRequest) payment.Outcome {
	if code := check(r.OperationID, r.Key, &r.Reference); code != "" {
		return refuse(code)
	}
	return a.do(ctx, kindVoid, r.Reference, func(ctx context.Context) (*api.PaymentIntent, error) {
		return a.client.V1PaymentIntents.Cancel(ctx, r.Reference, &api.PaymentIntentCancelParams{
			Params:             step(r.Key, "cancel"),
			CancellationReason: api.String(string(api.PaymentIntentCancellationReasonAbandoned)), Expand: latestCharge()})
	})
}

// Lookup implements payment.Provider.
func (a *Adapter) Lookup(ctx context.Context, reference string) payment.Snapshot {
	if !isIntentID(reference) {
		return payment.Snapshot{Reference: reference, LastErrorCode: codeNoReference}
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	ctx, ex := watch(ctx)
	pi, err := a.client.V1PaymentIntents.Retrieve(ctx, reference, &api.PaymentIntentRetrieveParams{Expand: latestCharge()})
	v := readAnswer(ctx, ex, err)
	if err != nil {
		s := payment.Snapshot{Reference: reference, LastErrorCode: v.code, RequestID: v.requestID}
		if v.missing("intent") {
			s.State = payment.StateNotFound
		}
		return s
	}
	// An answer about something else is no answer.
	if pi.ID != reference {
		return payment.Snapshot{Reference: reference, LastErrorCode: codeUnreadable, RequestID: v.requestID}
	}
	s := snapshotOf(pi)
	s.RequestID = v.requestID
	return s
}
