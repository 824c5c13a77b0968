package paysim

import "net/http"

// createRefund answers POST /v1/refunds.
func (s *server) createRefund(t *tx, c *call) answer {
	id := c.form.get("payment_intent")
	if ch := c.form.get("charge"); id == "" && ch != "" {
		if id = s.store.charges[ch]; id == "" {
			return fail(badParam(codeMissing, "charge", "No such charge: '%.60s'", ch))
		}
	}
	if id == "" {
		return fail(missingParam("payment_intent"))
	}
	p := s.store.intents[id]
	if p == nil {
		return fail(badParam(codeMissing, "payment_intent", "No such payment_intent: '%.60s'", id))
	}
	left := p.refundable()
	if err := refuseRefund(p, left); err != nil {
		return fail(err)
	}
	amount := left
	if c.form.has("amount") {
		asked, ok := c.form.integer("amount")
		if !ok || asked < 1 {
			return fail(badParam("parameter_invalid_integer", "amount", "Invalid integer"))
		}
		// The provider names the parameter here and gives no code.
		if asked > left {
			return fail(&apiError{Status: http.StatusBadRequest, Type: typeInvalid, Param: "amount",
				Message: "Refund amount is greater than the unrefunded amount on the charge."})
		}
		amount = asked
	}
	f := t.refund(p.edit(), amount, c.form.get("reason"), c.form.sub("metadata"))
	return answer{refund: f}
}

// refuseRefund says why nothing of an intent can be given back.
func refuseRefund(p *intent, left int64) *apiError {
	switch c := p.latest(); {
	case c == nil || !c.IsCaptured:
		return &apiError{Status: http.StatusBadRequest, Type: typeInvalid, Code: codeUnexpectedState,
			Message: "This PaymentIntent does not have a successful charge to refund."}
	case left == 0:
		return &apiError{Status: http.StatusBadRequest, Type: typeInvalid, Code: "charge_already_refunded",
			Message: "The charge has already been refunded."}
	}
	return nil
}

// getRefund answers GET /v1/refunds/{id}.
func (s *server) getRefund(_ *tx, c *call) answer {
	f := s.store.refunds[c.id]
	if f == nil {
		return fail(notFound("refund", c.id))
	}
	return answer{refund: f}
}
