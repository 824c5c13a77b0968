package paysim

import (
	"fmt"
	"net/http"
)

// The error types on the wire, and the codes the simulator uses in more than one place.
const (
	typeAPI         = "api_error"
	typeCard        = "card_error"
	typeIdempotency = "idempotency_error"
	typeInvalid     = "invalid_request_error"

	codeDeclined        = "card_declined"
	codeUnexpectedState = "payment_intent_unexpected_state"
	codeMissing         = "resource_missing"
	codeAuthentication  = "authentication_required"
)

// apiError is an error answer without the objects it carries.
type apiError struct {
	Status  int    `json:"status"`
	Type    string `json:"type"`
	Code    string `json:"code,omitempty"`
	Decline string `json:"decline,omitempty"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"`
	Charge  string `json:"charge,omitempty"`
	// Reason goes to the rate limit header.
	Reason string `json:"-"`
	// unstored: decided before the idempotency layer, so the key stays free.
	unstored bool
}

// badParam is a parameter that cannot be used: never stored under the key.
func badParam(code, param, format string, args ...any) *apiError {
	return &apiError{Status: http.StatusBadRequest, Type: typeInvalid, Code: code, Param: param,
		Message: fmt.Sprintf(format, args...), unstored: true}
}

// missingParam is a parameter that has to be there.
func missingParam(param string) *apiError {
	return badParam("parameter_missing", param, "Missing required param: %s.", param)
}

// notFound is an id in the path that does not exist: stored.
func notFound(what, id string) *apiError {
	return &apiError{Status: http.StatusNotFound, Type: typeInvalid, Code: codeMissing, Param: "intent",
		Message: fmt.Sprintf("No such %s: '%s'", what, id)}
}

// unexpectedState refuses a step that the intent's status does not allow: stored.
func unexpectedState(step string, p *intent) *apiError {
	return &apiError{Status: http.StatusBadRequest, Type: typeInvalid, Code: codeUnexpectedState,
		Message: fmt.Sprintf("This PaymentIntent cannot be %s because it has a status of %s.", step, p.Status)}
}

// refused is the bank's no.
func refused(code, decline, chargeID string) *apiError {
	return &apiError{Status: http.StatusPaymentRequired, Type: typeCard, Code: code, Decline: decline, Charge: chargeID,
		Message: "Your card was declined."}
}

// serverFailure is the provider's own failure.
func serverFailure() *apiError {
	return &apiError{Status: http.StatusInternalServerError, Type: typeAPI, Message: "An unknown error occurred."}
}

// keyInUse refuses a key whose first request still runs: not stored.
func keyInUse(key string) *apiError {
	return &apiError{Status: http.StatusConflict, Type: typeInvalid, Code: "idempotency_key_in_use", unstored: true,
		Message: fmt.Sprintf("There is currently another in-progress request using this Idempotent Key (%s).", key)}
}

// keyReused refuses a key that came with another request: not stored.
func keyReused(key, path string) *apiError {
	return &apiError{Status: http.StatusBadRequest, Type: typeIdempotency, unstored: true,
		Message: fmt.Sprintf("Keys for idempotent requests can only be used with the same parameters and endpoint they were first used with ('%s'). "+
			"Try using a key other than '%s'.", path, key)}
}

// rateLimited refuses before the idempotency layer. With the reason
// "lock_timeout" it is the lock of an object, not a limit.
func rateLimited(reason string) *apiError {
	e := &apiError{Status: http.StatusTooManyRequests, Type: typeInvalid, Code: "rate_limit", Reason: reason, unstored: true,
		Message: "Request rate limit exceeded."}
	if reason == "lock_timeout" {
		e.Code, e.Reason = reason, ""
		e.Message = "This object cannot be accessed right now because another request is accessing it."
	}
	return e
}
