package usher

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code is a stable reason that callers and people can rely on: it never changes
// its meaning, and it is the `code` of a problem answer.
type Code string

// The closed list of codes. web maps each to one HTTP status in one table; a
// test ranges over Codes.
const (
	// The request cannot be understood. Never stored under an idempotency key.
	CodeInvalidJSON            Code = "invalid_json"
	CodeInvalidRequest         Code = "invalid_request"
	CodeInvalidID              Code = "invalid_id"
	CodeInvalidFile            Code = "invalid_file"
	CodeIdempotencyKeyRequired Code = "idempotency_key_required"
	CodeNotFound               Code = "not_found"
	CodeMethodNotAllowed       Code = "method_not_allowed"
	CodeUnsupportedMediaType   Code = "unsupported_media_type"
	CodeTooLarge               Code = "too_large"

	// Who is asking.
	CodeUnauthenticated Code = "unauthenticated"
	CodeForbidden       Code = "forbidden"
	CodeSignInFailed    Code = "sign_in_failed"
	CodeAddressTaken    Code = "address_taken"

	// The waiting room and its tokens.
	CodeQueueClosed       Code = "queue_closed"
	CodeNotInQueue        Code = "not_in_queue"
	CodeNotYourTurn       Code = "not_your_turn"
	CodeTurnLapsed        Code = "turn_lapsed"
	CodeShopFull          Code = "shop_full"
	CodeOlderRound        Code = "older_round"
	CodeAdmissionRequired Code = "admission_required"
	CodeAdmissionInvalid  Code = "admission_invalid"
	CodeAdmissionExpired  Code = "admission_expired"
	CodeSessionEnded      Code = "session_ended"

	// Decisions of the ledger: results that replay under their key.
	CodeSaleNotOpen          Code = "sale_not_open"
	CodeSaleClosed           Code = "sale_closed"
	CodeEventCancelled       Code = "event_cancelled"
	CodeSeatUnknown          Code = "seat_unknown"
	CodeSeatsUnavailable     Code = "seats_unavailable"
	CodeLimitExceeded        Code = "limit_exceeded"
	CodeAccountBlocked       Code = "account_blocked"
	CodeHoldExpired          Code = "hold_expired"
	CodeHoldEnded            Code = "hold_ended"
	CodeHoldPaymentPending   Code = "hold_payment_pending"
	CodeTooLateToPay         Code = "too_late_to_pay"
	CodePendingLimit         Code = "pending_limit"
	CodeOrderNotPayable      Code = "order_not_payable"
	CodeOrderClosed          Code = "order_closed"
	CodePaymentMismatch      Code = "payment_mismatch"
	CodeIdempotencyKeyReused Code = "idempotency_key_reused"
	CodeStateConflict        Code = "state_conflict"

	// Payment providers and their messages.
	CodeWebhookSignature Code = "webhook_signature"
	CodePaymentRejected  Code = "payment_rejected"

	// Redemption.
	CodeCodeUnknown         Code = "code_unknown"
	CodeCodeUsed            Code = "code_used"
	CodeCodeBusy            Code = "code_busy"
	CodeCodeVoided          Code = "code_voided"
	CodeCodeAbnormal        Code = "code_abnormal"
	CodeWrongPool           Code = "wrong_pool"
	CodeTransactionConflict Code = "transaction_conflict"
	CodeRedemptionClosed    Code = "redemption_closed"

	// Not decided: try again. Never stored under an idempotency key.
	CodeRateLimited Code = "rate_limited"
	CodeBusy        Code = "busy"
	CodeUnavailable Code = "unavailable"
	CodeUnknown     Code = "unknown_retry_same_key"
	CodeInternal    Code = "internal"
)

// Codes lists every code once, in the order above.
var Codes = []Code{
	CodeInvalidJSON, CodeInvalidRequest, CodeInvalidID, CodeInvalidFile, CodeIdempotencyKeyRequired,
	CodeNotFound, CodeMethodNotAllowed, CodeUnsupportedMediaType, CodeTooLarge,
	CodeUnauthenticated, CodeForbidden, CodeSignInFailed, CodeAddressTaken,
	CodeQueueClosed, CodeNotInQueue, CodeNotYourTurn, CodeTurnLapsed, CodeShopFull, CodeOlderRound,
	CodeAdmissionRequired, CodeAdmissionInvalid, CodeAdmissionExpired, CodeSessionEnded,
	CodeSaleNotOpen, CodeSaleClosed, CodeEventCancelled, CodeSeatUnknown, CodeSeatsUnavailable,
	CodeLimitExceeded, CodeAccountBlocked, CodeHoldExpired, CodeHoldEnded, CodeHoldPaymentPending,
	CodeTooLateToPay, CodePendingLimit, CodeOrderNotPayable, CodeOrderClosed, CodePaymentMismatch,
	CodeIdempotencyKeyReused, CodeStateConflict,
	CodeWebhookSignature, CodePaymentRejected,
	CodeCodeUnknown, CodeCodeUsed, CodeCodeBusy, CodeCodeVoided, CodeCodeAbnormal, CodeWrongPool,
	CodeTransactionConflict, CodeRedemptionClosed,
	CodeRateLimited, CodeBusy, CodeUnavailable, CodeUnknown, CodeInternal,
}

// Error is what every exported method of the module returns for a reason that a
// caller can act on. An error that is no *Error is internal: its text never
// reaches a client.
type Error struct {
	Code Code
	// Message is for people: safe to show, no secrets, no stock figures.
	Message string
	// RetryAfter is a hint for CodeRateLimited, CodeBusy and CodeUnavailable; 0 is none.
	RetryAfter time.Duration
	// Seats names the places that were the reason, if any.
	Seats []SeatID
	// Tiers names the tiers that were the reason, if any.
	Tiers []TierID
	// Suggestion names seats that may be had instead, if any were looked for.
	Suggestion []SeatID
	// Replayed says that this is the stored refusal of an earlier request with the
	// same idempotency key.
	Replayed bool
	// Err is the cause, for logs only.
	Err error
}

// Errorf makes an *Error with a formatted message. A %w verb is kept as the cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// InField names the field of a request that err is about. An err that is no *Error
// stays as it is.
func InField(field string, err error) error {
	e, ok := err.(*Error)
	if !ok {
		return err
	}
	named := *e
	named.Message = field + ": " + e.Message
	return &named
}

// Error returns code, message and cause, for logs. Clients get Code and Message.
func (e *Error) Error() string {
	s := string(e.Code)
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Err != nil {
		// Errorf's message has its cause already.
		if cause := e.Err.Error(); !strings.Contains(s, cause) {
			s += ": " + cause
		}
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, &Error{Code: c}) match by code alone.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf returns the code of err: "" for nil, CodeInternal for an uncoded error.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
