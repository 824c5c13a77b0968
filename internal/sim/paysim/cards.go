package paysim

import "strings"

// behaviour is what a test card does.
type behaviour struct {
	brand, last4 string
	// code and decline refuse it at the bank, at once or after the challenge.
	code, decline string
	blocked       bool
	challenge     bool // the bank wants to see the buyer
	offSession    bool // even when the buyer set the card up before
	dispute       bool
	refund        string // pending: succeeds later; failed: fails later

	// Faults that travel with the card, so that a plain load run can use them.
	lostReply    bool  // executed, then the connection dies
	serverError  bool  // executed, answered by a stored 500
	delayMS      int   // executes late
	shortBy      int64 // authorizes this much less than asked
	noCaptureEnd bool  // does not tell when the authorization lapses
}

// visa is the card that most behaviours vary.
const visa = "visa"

// behaviours maps the part of a token behind "pm_card_" to what the card does.
// The names are the provider's own test names; those that start with "usher_"
// exist only here, as pm_usher_....
var behaviours = map[string]behaviour{
	"visa":       {brand: visa, last4: "4242"},
	"visa_debit": {brand: visa, last4: "5556"},
	"mastercard": {brand: "mastercard", last4: "4444"},
	"amex":       {brand: "amex", last4: "0005"},
	"jcb":        {brand: "jcb", last4: "0505"},

	"visa_chargeDeclined":                      {brand: visa, last4: "0002", code: codeDeclined, decline: "generic_decline"},
	"visa_chargeDeclinedInsufficientFunds":     {brand: visa, last4: "9995", code: codeDeclined, decline: "insufficient_funds"},
	"visa_chargeDeclinedLostCard":              {brand: visa, last4: "9987", code: codeDeclined, decline: "lost_card"},
	"visa_chargeDeclinedStolenCard":            {brand: visa, last4: "9979", code: codeDeclined, decline: "stolen_card"},
	"visa_chargeDeclinedVelocityLimitExceeded": {brand: visa, last4: "6975", code: codeDeclined, decline: "card_velocity_exceeded"},
	"visa_chargeDeclinedDoNotHonor":            {brand: visa, last4: "0226", code: codeDeclined, decline: "do_not_honor"},
	"visa_chargeDeclinedFraudulent":            {brand: visa, last4: "0101", code: codeDeclined, decline: "fraudulent"},
	"visa_chargeDeclinedTryAgainLater":         {brand: visa, last4: "0309", code: codeDeclined, decline: "try_again_later"},
	"visa_chargeDeclinedIssuerNotAvailable":    {brand: visa, last4: "0341", code: codeDeclined, decline: "issuer_not_available"},
	"chargeDeclinedExpiredCard":                {brand: visa, last4: "0069", code: "expired_card", decline: "expired_card"},
	"chargeDeclinedIncorrectCvc":               {brand: visa, last4: "0127", code: "incorrect_cvc", decline: "incorrect_cvc"},
	"chargeDeclinedProcessingError":            {brand: visa, last4: "0119", code: "processing_error", decline: "processing_error"},
	"radarBlock":                               {brand: visa, last4: "4954", code: codeDeclined, decline: "fraudulent", blocked: true},

	"authenticationRequired":             {brand: visa, last4: "3184", challenge: true, offSession: true},
	"authenticationRequiredOnSetup":      {brand: visa, last4: "3155", challenge: true},
	"threeDSecure2Required":              {brand: visa, last4: "3220", challenge: true, offSession: true},
	"threeDSecureRequiredChargeDeclined": {brand: visa, last4: "1629", challenge: true, offSession: true, code: codeDeclined, decline: "generic_decline"},
	"threeDSecureRequiredProcessingError": {brand: visa, last4: "1126", challenge: true, offSession: true, code: "processing_error",
		decline: "processing_error"},

	"createDispute":           {brand: visa, last4: "0259", dispute: true},
	"createIssuerFraudRecord": {brand: visa, last4: "5423"},
	"pendingRefund":           {brand: visa, last4: "7726", refund: refundPending},
	"refundFail":              {brand: visa, last4: "5126", refund: refundFailed},

	"usher_lost_reply":          {brand: visa, last4: "8001", lostReply: true},
	"usher_lost_reply_declined": {brand: visa, last4: "8002", lostReply: true, code: codeDeclined, decline: "generic_decline"},
	"usher_500_executed":        {brand: visa, last4: "8003", serverError: true},
	"usher_slow_2s":             {brand: visa, last4: "8004", delayMS: 2000},
	"usher_short_authorization": {brand: visa, last4: "8005", shortBy: 100},
	"usher_no_capture_before":   {brand: visa, last4: "8006", noCaptureEnd: true},
}

// tokenMark starts the tokens that the card page issues: pm_tok_<random>_<name>.
// The name travels in the token, so issuing one stores nothing.
const tokenMark = "pm_tok_"

// behaviourOf returns what a payment method does; ok is false for a token the
// simulator does not know.
func behaviourOf(paymentMethod string) (b behaviour, ok bool) {
	name := ""
	switch {
	case strings.HasPrefix(paymentMethod, "pm_card_"):
		name = strings.TrimPrefix(paymentMethod, "pm_card_")
	case strings.HasPrefix(paymentMethod, "pm_usher_"):
		name = strings.TrimPrefix(paymentMethod, "pm_")
	case strings.HasPrefix(paymentMethod, tokenMark):
		_, name, _ = strings.Cut(strings.TrimPrefix(paymentMethod, tokenMark), "_")
	}
	b, ok = behaviours[name]
	return b, ok
}

// cardNumbers maps the numbers that people type on the card page to behaviours.
var cardNumbers = map[string]string{
	"4242424242424242": "visa",
	"4000056655665556": "visa_debit",
	"5555555555554444": "mastercard",
	"378282246310005":  "amex",
	"3566002020360505": "jcb",
	"4000000000000002": "visa_chargeDeclined",
	"4000000000009995": "visa_chargeDeclinedInsufficientFunds",
	"4000000000009987": "visa_chargeDeclinedLostCard",
	"4000000000009979": "visa_chargeDeclinedStolenCard",
	"4000000000006975": "visa_chargeDeclinedVelocityLimitExceeded",
	"4000000000000069": "chargeDeclinedExpiredCard",
	"4000000000000127": "chargeDeclinedIncorrectCvc",
	"4000000000000119": "chargeDeclinedProcessingError",
	"4100000000000019": "radarBlock",
	"4000002760003184": "authenticationRequired",
	"4000002500003155": "authenticationRequiredOnSetup",
	"4000000000003220": "threeDSecure2Required",
	"4000008400001629": "threeDSecureRequiredChargeDeclined",
	"4000008400001280": "threeDSecureRequiredProcessingError",
	"4000000000000259": "createDispute",
	"4000000000005423": "createIssuerFraudRecord",
	"4000000000007726": "pendingRefund",
	"4000000000005126": "refundFail",
}
