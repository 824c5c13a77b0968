package stripe

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"

	api "github.com/stripe/stripe-go/v85"
)

// The adapter's own reasons, where the provider gave none.
const (
	codeTimeout      = "timeout"
	codeLost         = "connection_lost"
	codeNoConnection = "no_connection"
	codeUnreadable   = "unreadable_answer"
	codeNoOperation  = "operation_id_missing"
	codeNoKey        = "key_unusable"
	codeNoReference  = "reference_unusable"
	codeNoMethod     = "payment_method_missing"
	codeAmount       = "amount_unusable"
)

// reading is what one exchange said, without anything that must not leave.
type reading struct {
	connected bool
	// status is the HTTP status, 0 if no answer came.
	status int
	// decoded: the answer was an object or an error object of the provider.
	decoded   bool
	replayed  bool
	requestID string
	errType   api.ErrorType
	errCode   api.ErrorCode
	param     string
	// code is the reason for people: the provider's, or the adapter's own.
	code string
	// intent is what an error was about, nil if it did not say.
	intent *api.PaymentIntent
}

// missing reports that the provider does not know the thing the parameter names.
func (v reading) missing(param string) bool {
	return (v.status == http.StatusNotFound || v.status == http.StatusBadRequest) && v.errCode == api.ErrorCodeResourceMissing && v.param == param
}

// readAnswer takes an SDK result apart. err itself goes no further.
func readAnswer(ctx context.Context, ex *exchange, err error) reading {
	connected, status, header := ex.seen()
	v := reading{connected: connected, status: status, requestID: safe(header.Get("Request-Id")),
		replayed: header.Get("Idempotent-Replayed") == "true"}
	if err == nil {
		v.decoded = true
		return v
	}
	var known *api.Error
	if errors.As(err, &known) {
		v.decoded = true
		v.errType, v.errCode, v.param, v.intent = known.Type, known.Code, known.Param, known.PaymentIntent
		v.code = joinCodes(string(known.Code), string(known.DeclineCode))
		if v.code == "" {
			v.code = joinCodes(string(known.Type), "")
		}
		return v
	}
	var timeout net.Error
	switch {
	case !connected:
		v.code = codeNoConnection
	// A body that was cut off by the timeout counts as no answer too.
	case ctx.Err() != nil || errors.As(err, &timeout) && timeout.Timeout():
		v.code = codeTimeout
	case status == 0:
		v.code = codeLost
	case status >= http.StatusBadRequest:
		v.code = "http_" + strconv.Itoa(status)
	default:
		v.code = codeUnreadable
	}
	return v
}

// joinCodes makes "card_declined/insufficient_funds".
func joinCodes(code, decline string) string {
	code, decline = safe(code), safe(decline)
	if decline == "" || decline == code {
		return code
	}
	return code + "/" + decline
}

// safe passes what looks like a code and nothing else, so that no text of the
// far side's choosing gets into logs and rows.
func safe(s string) string {
	if !isCode(s, isWordRune) {
		return ""
	}
	return s
}

func isCode(s string, ok func(rune) bool) bool {
	return s != "" && len(s) <= 80 && !strings.Contains(s, "_secret_") && strings.IndexFunc(s, func(r rune) bool { return !ok(r) }) < 0
}

func isWordRune(r rune) bool {
	return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
