package paysim

import (
	"net/http"
	"slices"
	"strings"
)

// The provider's limits on an amount, in the wire's units.
const (
	amountMax = 99_999_999
	amountMin = 50
)

// answer is what an endpoint decided. Exactly one of intent, refund, list and
// err is the body; intent goes along with an err that is about it.
type answer struct {
	intent *intent
	refund *refund
	list   any
	err    *apiError
	expand bool
}

func fail(err *apiError) answer { return answer{err: err} }

// The parameters that each endpoint knows; another one is a caller's mistake.
var (
	paramsCreate = []string{"amount", "currency", "capture_method", "confirm", "payment_method", "payment_method_types",
		"automatic_payment_methods", "return_url", "confirmation_method", "off_session", "error_on_requires_action", "use_stripe_sdk",
		"metadata", "description", "statement_descriptor_suffix", "receipt_email", "customer", "expand"}
	paramsConfirm = []string{"payment_method", "return_url", "off_session", "error_on_requires_action", "use_stripe_sdk", "expand"}
	paramsCapture = []string{"amount_to_capture", "final_capture", "metadata", "statement_descriptor_suffix", "expand"}
	paramsCancel  = []string{"cancellation_reason", "expand"}
	paramsRefund  = []string{"payment_intent", "charge", "amount", "reason", "metadata", "expand"}
)

// expandable finds out whether the latest charge is wanted whole.
func expandable(c *call, prefix string) (bool, *apiError) {
	wanted := c.form.list("expand")
	for _, name := range wanted {
		if name != prefix+"latest_charge" {
			return false, badParam("", "expand", "This property cannot be expanded (%s).", name)
		}
	}
	return len(wanted) > 0, nil
}

// createIntent answers POST /v1/payment_intents.
func (s *server) createIntent(t *tx, c *call) answer {
	p, err := newIntent(c.form)
	if err != nil {
		return fail(err)
	}
	expand, err := expandable(c, "")
	if err != nil {
		return fail(err)
	}
	var b behaviour
	if p.PaymentMethod != "" {
		var known bool
		if b, known = behaviourOf(p.PaymentMethod); !known {
			return fail(noMethod(p.PaymentMethod))
		}
		p.Status = statusNeedsConfirm
	}
	if c.form.flag("confirm") && p.PaymentMethod == "" {
		return fail(missingParam("payment_method"))
	}
	p.ID, p.Created = t.newID("pi_"), t.unix()
	t.rec.Intent = p
	t.emit("payment_intent.created", aboutIntent, "")
	if c.form.flag("confirm") {
		err := t.confirm(p, b, c.form.flag("off_session"), c.form.flag("error_on_requires_action"))
		return answer{intent: p, err: err, expand: expand}
	}
	return answer{intent: p, expand: expand}
}

// newIntent checks the parameters of a create.
func newIntent(f form) (*intent, *apiError) {
	if !f.has("amount") {
		return nil, missingParam("amount")
	}
	if !f.has("currency") {
		return nil, missingParam("currency")
	}
	amount, ok := f.integer("amount")
	currency := strings.ToLower(f.get("currency"))
	switch {
	case !ok:
		return nil, badParam("parameter_invalid_integer", "amount", "Invalid integer: %s", f.get("amount"))
	case len(currency) != 3:
		return nil, badParam("", "currency", "Invalid currency: %s", currency)
	case amount > amountMax:
		return nil, badParam("amount_too_large", "amount", "Amount must be no more than %d", amountMax)
	case amount < amountMin:
		return nil, badParam("amount_too_small", "amount", "Amount must be at least %d", amountMin)
	case slices.Contains([]string{"bhd", "jod", "kwd", "omr", "tnd"}, currency) && amount%10 != 0:
		return nil, badParam("", "amount", "The last digit of a three-decimal amount must be 0")
	}
	p := &intent{Amount: amount, Currency: currency, Status: statusNeedsMethod, CaptureMethod: "automatic_async",
		Confirmation: "automatic", MethodTypes: f.list("payment_method_types"), PaymentMethod: f.get("payment_method"),
		ReturnURL: f.get("return_url"), UseSDK: f.flag("use_stripe_sdk"), Metadata: f.sub("metadata"), Description: f.get("description"),
		Suffix: f.get("statement_descriptor_suffix"), Email: f.get("receipt_email"), Customer: f.get("customer")}
	if m := f.get("capture_method"); m != "" {
		if !slices.Contains([]string{captureManual, "automatic", "automatic_async"}, m) {
			return nil, badParam("", "capture_method", "Invalid capture_method: %s", m)
		}
		p.CaptureMethod = m
	}
	if len(p.MethodTypes) == 0 {
		p.MethodTypes = []string{"card"}
	}
	return p, nil
}

func noMethod(token string) *apiError {
	return badParam(codeMissing, "payment_method", "No such PaymentMethod: '%.60s'", token)
}

// getIntent answers GET /v1/payment_intents/{id}.
func (s *server) getIntent(_ *tx, c *call) answer {
	expand, err := expandable(c, "")
	if err != nil {
		return fail(err)
	}
	p := s.store.intents[c.id]
	if p == nil {
		return fail(notFound("payment_intent", c.id))
	}
	return answer{intent: p, expand: expand}
}

// confirmIntent answers POST /v1/payment_intents/{id}/confirm.
func (s *server) confirmIntent(t *tx, c *call) answer {
	expand, err := expandable(c, "")
	if err != nil {
		return fail(err)
	}
	p := s.store.intents[c.id]
	if p == nil {
		return fail(notFound("payment_intent", c.id))
	}
	if !slices.Contains([]string{statusNeedsMethod, statusNeedsConfirm, statusNeedsAction}, p.Status) {
		return answer{err: unexpectedState("confirmed", p), intent: p}
	}
	next := p.edit()
	if m := c.form.get("payment_method"); m != "" {
		next.PaymentMethod = m
	}
	if next.PaymentMethod == "" {
		return answer{err: unexpectedState("confirmed without a payment method", p), intent: p}
	}
	b, known := behaviourOf(next.PaymentMethod)
	if !known {
		return fail(noMethod(next.PaymentMethod))
	}
	if u := c.form.get("return_url"); u != "" {
		next.ReturnURL = u
	}
	next.UseSDK = next.UseSDK || c.form.flag("use_stripe_sdk")
	err = t.confirm(next, b, c.form.flag("off_session"), c.form.flag("error_on_requires_action"))
	if err == nil && b.serverError {
		err = serverFailure()
	}
	return answer{intent: next, err: err, expand: expand}
}

// captureIntent answers POST /v1/payment_intents/{id}/capture.
func (s *server) captureIntent(t *tx, c *call) answer {
	expand, err := expandable(c, "")
	if err != nil {
		return fail(err)
	}
	p := s.store.intents[c.id]
	switch {
	case p == nil:
		return fail(notFound("payment_intent", c.id))
	case c.form.get("final_capture") == "false":
		return fail(badParam("", "final_capture", "Multicapture is not available on this account."))
	case p.Status != statusNeedsCapture:
		return answer{err: unexpectedState("captured", p), intent: p}
	}
	amount := p.capturable()
	if c.form.has("amount_to_capture") {
		asked, ok := c.form.integer("amount_to_capture")
		switch {
		case !ok || asked < 1:
			return fail(badParam("parameter_invalid_integer", "amount_to_capture", "Invalid integer"))
		case asked > amount:
			return answer{intent: p, err: &apiError{Status: http.StatusBadRequest, Type: typeInvalid, Code: "amount_too_large",
				Param: "amount_to_capture", Message: "The amount to capture is greater than the amount you can capture."}}
		}
		amount = asked
	}
	next := p.edit()
	t.capture(next, amount)
	return answer{intent: next, expand: expand}
}

// cancelIntent answers POST /v1/payment_intents/{id}/cancel.
func (s *server) cancelIntent(t *tx, c *call) answer {
	expand, err := expandable(c, "")
	if err != nil {
		return fail(err)
	}
	reason := c.form.get("cancellation_reason")
	if reason != "" && !slices.Contains([]string{"duplicate", "fraudulent", "requested_by_customer", "abandoned"}, reason) {
		return fail(badParam("", "cancellation_reason", "Invalid cancellation_reason: %.40s", reason))
	}
	p := s.store.intents[c.id]
	switch {
	case p == nil:
		return fail(notFound("payment_intent", c.id))
	case p.Status == statusSucceeded || p.Status == statusCanceled:
		return answer{err: unexpectedState("canceled", p), intent: p}
	}
	next := p.edit()
	t.cancel(next, reason, false)
	return answer{intent: next, expand: expand}
}
