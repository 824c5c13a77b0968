package stripe

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	api "github.com/stripe/stripe-go/v85"

	"usher"
	"usher/internal/payment"
)

// tolerance bounds how far a signature's time may be from now, both ways: the
// SDK bounds only the past.
const tolerance = 5 * time.Minute

// ParseWebhook implements payment.Provider.
func (a *Adapter) ParseWebhook(h http.Header, rawBody []byte) (payment.Notice, error) {
	header := h.Get("Stripe-Signature")
	if !a.genuine(header, rawBody) || tooNew(header, time.Now()) {
		return payment.Notice{}, usher.Errorf(usher.CodeWebhookSignature, "the webhook signature is not valid")
	}
	n := readNotice(rawBody)
	if n.Ignored == "" && n.Livemode != a.livemode {
		n.Ignored, n.State = payment.IgnoredMode, payment.StateUnknown
	}
	return n, nil
}

// genuine accepts a signature by any of the secrets over the raw body.
func (a *Adapter) genuine(header string, rawBody []byte) bool {
	for _, secret := range a.secrets {
		if api.ValidatePayload(rawBody, header, secret, api.WithTolerance(tolerance)) == nil {
			return true
		}
	}
	return false
}

// tooNew reports a time further in the future than clocks differ. The last t
// counts, as it does for the SDK.
func tooNew(header string, now time.Time) bool {
	var stamp int64
	for part := range strings.SplitSeq(header, ",") {
		if value, ok := strings.CutPrefix(part, "t="); ok {
			stamp, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return time.Unix(stamp, 0).After(now.Add(tolerance))
}

// wireEvent is the part of an event that a hint needs. The object is read with
// only the fields that all versions of the interface share, so that a message
// in another version is still a hint.
type wireEvent struct {
	ID         string `json:"id"`
	Object     string `json:"object"`
	APIVersion string `json:"api_version"`
	Created    int64  `json:"created"`
	Livemode   bool   `json:"livemode"`
	Type       string `json:"type"`
	Request    *struct {
		IdempotencyKey string `json:"idempotency_key"`
	} `json:"request"`
	Data struct {
		Object wireObject `json:"object"`
	} `json:"data"`
}

type wireObject struct {
	ID                 string                              `json:"id"`
	Object             string                              `json:"object"`
	Status             api.PaymentIntentStatus             `json:"status"`
	CancellationReason api.PaymentIntentCancellationReason `json:"cancellation_reason"`
	LastPaymentError   json.RawMessage                     `json:"last_payment_error"`
	PaymentIntent      json.RawMessage                     `json:"payment_intent"`
	Metadata           map[string]string                   `json:"metadata"`
}

// readNotice makes a hint of a genuine body.
func readNotice(rawBody []byte) payment.Notice {
	var e wireEvent
	if err := json.Unmarshal(rawBody, &e); err != nil || e.ID == "" || e.Object != "event" {
		// It is signed, so it is stored like any other; its digest is its id.
		sum := sha256.Sum256(rawBody)
		return payment.Notice{EventID: "body_" + hex.EncodeToString(sum[:16]), Ignored: payment.IgnoredUnreadable}
	}
	n := payment.Notice{EventID: e.ID, Type: e.Type, Created: time.Unix(e.Created, 0).UTC(), Livemode: e.Livemode,
		APIVersion: e.APIVersion, Metadata: parseMetadata(e.Data.Object.Metadata)}
	if e.Request != nil {
		n.Key = e.Request.IdempotencyKey
	}
	o := e.Data.Object
	switch family, _, _ := strings.Cut(e.Type, "."); family {
	case "payment_intent":
		n.Reference = o.ID
		if sameTrain(e.APIVersion) {
			n.State = o.suggested()
		}
	case "charge", "refund":
		n.Reference = expandedID(o.PaymentIntent)
	}
	if !isIntentID(n.Reference) {
		n.Reference, n.State, n.Ignored = "", payment.StateUnknown, payment.IgnoredType
	}
	return n
}

// suggested is the state that an intent in an event was in.
func (o wireObject) suggested() payment.State {
	pi := &api.PaymentIntent{Status: o.Status, CancellationReason: o.CancellationReason}
	if len(o.LastPaymentError) > 0 && string(o.LastPaymentError) != "null" {
		pi.LastPaymentError = &api.Error{}
	}
	return stateOf(pi)
}

// sameTrain reports that a version names statuses as the SDK does.
func sameTrain(version string) bool {
	_, train, ok := strings.Cut(version, ".")
	return ok && train == api.APIMajorVersion
}

// expandedID reads a field that holds an id or the object with that id.
func expandedID(raw json.RawMessage) string {
	var id string
	if json.Unmarshal(raw, &id) == nil {
		return id
	}
	var object struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(raw, &object)
	return object.ID
}
