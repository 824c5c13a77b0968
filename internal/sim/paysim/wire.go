package paysim

import (
	"encoding/json"
	"hash/fnv"
	"strconv"
	"strings"
)

// APIVersion is the version of the provider's interface that the simulator
// speaks and stamps on events: the one the served SDK is pinned to.
const APIVersion = "2026-03-25.dahlia"

// The wire types hold the fields that 2026-03-25.dahlia shows for a card
// payment. An any field is null, an id, or an object.

type wireIntent struct {
	ID                   string            `json:"id"`
	Object               string            `json:"object"`
	Amount               int64             `json:"amount"`
	AmountCapturable     int64             `json:"amount_capturable"`
	AmountReceived       int64             `json:"amount_received"`
	AutomaticMethods     any               `json:"automatic_payment_methods"`
	CanceledAt           *int64            `json:"canceled_at"`
	CancellationReason   *string           `json:"cancellation_reason"`
	CaptureMethod        string            `json:"capture_method"`
	ClientSecret         string            `json:"client_secret"`
	ConfirmationMethod   string            `json:"confirmation_method"`
	Created              int64             `json:"created"`
	Currency             string            `json:"currency"`
	Customer             *string           `json:"customer"`
	Description          *string           `json:"description"`
	LastPaymentError     *wireError        `json:"last_payment_error"`
	LatestCharge         any               `json:"latest_charge"`
	Livemode             bool              `json:"livemode"`
	Metadata             map[string]string `json:"metadata"`
	NextAction           any               `json:"next_action"`
	PaymentMethod        *string           `json:"payment_method"`
	PaymentMethodOptions struct{}          `json:"payment_method_options"`
	PaymentMethodTypes   []string          `json:"payment_method_types"`
	Processing           any               `json:"processing"`
	ReceiptEmail         *string           `json:"receipt_email"`
	SetupFutureUsage     any               `json:"setup_future_usage"`
	Shipping             any               `json:"shipping"`
	StatementDescriptor  any               `json:"statement_descriptor"`
	DescriptorSuffix     *string           `json:"statement_descriptor_suffix"`
	Status               string            `json:"status"`
	TransferGroup        any               `json:"transfer_group"`
}

type wireCharge struct {
	ID                 string            `json:"id"`
	Object             string            `json:"object"`
	Amount             int64             `json:"amount"`
	AmountCaptured     int64             `json:"amount_captured"`
	AmountRefunded     int64             `json:"amount_refunded"`
	BalanceTransaction any               `json:"balance_transaction"`
	BillingDetails     struct{}          `json:"billing_details"`
	Captured           bool              `json:"captured"`
	Created            int64             `json:"created"`
	Currency           string            `json:"currency"`
	Disputed           bool              `json:"disputed"`
	FailureCode        *string           `json:"failure_code"`
	FailureMessage     *string           `json:"failure_message"`
	Livemode           bool              `json:"livemode"`
	Metadata           map[string]string `json:"metadata"`
	Outcome            wireOutcome       `json:"outcome"`
	Paid               bool              `json:"paid"`
	PaymentIntent      string            `json:"payment_intent"`
	PaymentMethod      string            `json:"payment_method"`
	MethodDetails      wireMethod        `json:"payment_method_details"`
	Refunded           bool              `json:"refunded"`
	Status             string            `json:"status"`
}

type wireOutcome struct {
	Type          string  `json:"type"`
	NetworkStatus string  `json:"network_status"`
	Reason        *string `json:"reason"`
	RiskLevel     string  `json:"risk_level"`
	SellerMessage string  `json:"seller_message"`
}

type wireMethod struct {
	Type string   `json:"type"`
	Card wireCard `json:"card"`
}

type wireCard struct {
	AmountAuthorized int64    `json:"amount_authorized"`
	Brand            string   `json:"brand"`
	CaptureBefore    int64    `json:"capture_before,omitempty"`
	Checks           struct{} `json:"checks"`
	Country          string   `json:"country"`
	ExpMonth         int      `json:"exp_month"`
	ExpYear          int      `json:"exp_year"`
	Funding          string   `json:"funding"`
	Last4            string   `json:"last4"`
	Network          string   `json:"network"`
	ThreeDSecure     any      `json:"three_d_secure"`
}

type wireRefund struct {
	ID                 string            `json:"id"`
	Object             string            `json:"object"`
	Amount             int64             `json:"amount"`
	BalanceTransaction any               `json:"balance_transaction"`
	Charge             string            `json:"charge"`
	Created            int64             `json:"created"`
	Currency           string            `json:"currency"`
	FailureReason      string            `json:"failure_reason,omitempty"`
	Metadata           map[string]string `json:"metadata"`
	PaymentIntent      string            `json:"payment_intent"`
	PendingReason      string            `json:"pending_reason,omitempty"`
	Reason             *string           `json:"reason"`
	Status             string            `json:"status"`
}

type wireDispute struct {
	ID            string `json:"id"`
	Object        string `json:"object"`
	Amount        int64  `json:"amount"`
	Charge        string `json:"charge"`
	Created       int64  `json:"created"`
	Currency      string `json:"currency"`
	Livemode      bool   `json:"livemode"`
	PaymentIntent string `json:"payment_intent"`
	Reason        string `json:"reason"`
	Status        string `json:"status"`
}

type wireEvent struct {
	ID              string      `json:"id"`
	Object          string      `json:"object"`
	APIVersion      string      `json:"api_version"`
	Created         int64       `json:"created"`
	Data            wireData    `json:"data"`
	Livemode        bool        `json:"livemode"`
	PendingWebhooks int         `json:"pending_webhooks"`
	Request         wireRequest `json:"request"`
	Type            string      `json:"type"`
}

type wireData struct {
	Object any `json:"object"`
}

type wireRequest struct {
	ID             *string `json:"id"`
	IdempotencyKey *string `json:"idempotency_key"`
}

type wireList struct {
	Object  string `json:"object"`
	URL     string `json:"url"`
	HasMore bool   `json:"has_more"`
	Data    []any  `json:"data"`
}

type wireError struct {
	Type          string      `json:"type"`
	Code          string      `json:"code,omitempty"`
	DeclineCode   string      `json:"decline_code,omitempty"`
	Message       string      `json:"message"`
	Param         string      `json:"param,omitempty"`
	Charge        string      `json:"charge,omitempty"`
	PaymentIntent *wireIntent `json:"payment_intent,omitempty"`
}

// optional makes "" null.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// clientSecret is the same for an intent for ever, without being stored.
func clientSecret(id string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return id + "_secret_" + strconv.FormatUint(h.Sum64(), 36)
}

// renderer makes wire objects; base is the origin that the challenge page has.
type renderer struct{ base string }

func (r renderer) intent(p *intent, expandCharge bool) *wireIntent {
	w := &wireIntent{
		ID: p.ID, Object: "payment_intent", Amount: p.Amount, AmountCapturable: p.capturable(), AmountReceived: p.Received,
		CancellationReason: optional(p.CancelReason), CaptureMethod: p.CaptureMethod, ClientSecret: clientSecret(p.ID),
		ConfirmationMethod: p.Confirmation, Created: p.Created, Currency: p.Currency, Customer: optional(p.Customer),
		Description: optional(p.Description), LastPaymentError: r.failure(p.LastError, nil), Metadata: metadata(p.Metadata),
		PaymentMethod: optional(p.PaymentMethod), PaymentMethodTypes: p.MethodTypes, ReceiptEmail: optional(p.Email),
		DescriptorSuffix: optional(p.Suffix), Status: p.Status, NextAction: r.nextAction(p),
	}
	if p.CanceledAt != 0 {
		w.CanceledAt = &p.CanceledAt
	}
	if c := p.latest(); c != nil {
		w.LatestCharge = c.ID
		if expandCharge {
			w.LatestCharge = r.charge(p, c)
		}
	}
	return w
}

func (r renderer) nextAction(p *intent) any {
	switch {
	case p.Status != statusNeedsAction:
		return nil
	case p.UseSDK || p.ReturnURL == "":
		return map[string]any{"type": "use_stripe_sdk", "use_stripe_sdk": map[string]string{"type": "three_d_secure_redirect"}}
	default:
		return map[string]any{"type": "redirect_to_url",
			"redirect_to_url": map[string]string{"url": r.base + "/challenge/" + p.ID, "return_url": p.ReturnURL}}
	}
}

func (r renderer) charge(p *intent, c *charge) *wireCharge {
	b, _ := behaviourOf(c.PaymentMethod)
	w := &wireCharge{
		ID: c.ID, Object: "charge", Amount: c.Amount, AmountCaptured: c.Captured, AmountRefunded: c.Released + c.Refunded,
		Captured: c.IsCaptured, Created: c.Created, Currency: p.Currency, Disputed: c.Disputed,
		FailureCode: optional(c.FailureCode), Metadata: metadata(p.Metadata), Paid: c.Paid, PaymentIntent: p.ID,
		PaymentMethod: c.PaymentMethod, Status: "succeeded",
		Outcome: wireOutcome{Type: "authorized", NetworkStatus: "approved_by_network", RiskLevel: "normal", SellerMessage: "Payment complete."},
		MethodDetails: wireMethod{Type: "card", Card: wireCard{AmountAuthorized: c.Amount, Brand: b.brand, CaptureBefore: c.CaptureBefore,
			Country: "US", ExpMonth: 12, ExpYear: 2040, Funding: "credit", Last4: b.last4, Network: b.brand}},
	}
	// The rest of a partial capture shows in the amount only.
	w.Refunded = c.Paid && w.AmountRefunded == c.Amount
	if !c.Paid {
		w.Status, w.FailureMessage = "failed", optional("Your card was declined.")
		w.Outcome = wireOutcome{Type: "issuer_declined", NetworkStatus: "declined_by_network", Reason: optional(c.DeclineCode),
			RiskLevel: "normal", SellerMessage: "The bank did not return any further details with this decline."}
		w.MethodDetails.Card.AmountAuthorized = 0
		if b.blocked {
			w.Outcome.Type, w.Outcome.NetworkStatus, w.Outcome.RiskLevel = "blocked", "not_sent_to_network", "highest"
		}
	}
	if c.IsCaptured {
		w.BalanceTransaction = "txn_" + strings.TrimPrefix(c.ID, "ch_")
	}
	return w
}

func (r renderer) refund(f *refund) *wireRefund {
	w := &wireRefund{ID: f.ID, Object: "refund", Amount: f.Amount, Charge: f.Charge, Created: f.Created, Currency: f.Currency,
		FailureReason: f.Failure, Metadata: metadata(f.Metadata), PaymentIntent: f.Intent, Reason: optional(f.Reason), Status: f.Status}
	if f.Status == refundPending {
		w.PendingReason = "processing"
	}
	return w
}

func (r renderer) event(e *event) *wireEvent {
	w := &wireEvent{ID: e.ID, Object: "event", APIVersion: APIVersion, Created: e.Created, Type: e.Type,
		Request: wireRequest{ID: optional(e.Request), IdempotencyKey: optional(e.Key)}}
	if e.Wanted && !e.delivered {
		w.PendingWebhooks = 1
	}
	switch e.About {
	case aboutCharge:
		w.Data.Object = r.charge(e.intent, e.intent.findCharge(e.Charge))
	case aboutRefund:
		w.Data.Object = r.refund(e.refund)
	case aboutDispute:
		c := e.intent.findCharge(e.Charge)
		w.Data.Object = &wireDispute{ID: "dp_" + strings.TrimPrefix(c.ID, "ch_"), Object: "dispute", Amount: c.Captured, Charge: c.ID,
			Created: e.Created, Currency: e.intent.Currency, PaymentIntent: e.intent.ID, Reason: "fraudulent", Status: "needs_response"}
	default:
		w.Data.Object = r.intent(e.intent, false)
	}
	return w
}

// failure renders an error, with the intent it is about; nil stays null.
func (r renderer) failure(e *apiError, p *intent) *wireError {
	if e == nil {
		return nil
	}
	w := &wireError{Type: e.Type, Code: e.Code, DeclineCode: e.Decline, Message: e.Message, Param: e.Param, Charge: e.Charge}
	if p != nil {
		w.PaymentIntent = r.intent(p, false)
	}
	return w
}

func metadata(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// mustJSON encodes a wire type. None of them can fail.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("paysim: encode wire object: " + err.Error())
	}
	return b
}
