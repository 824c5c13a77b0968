package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"usher"
)

// kind is how a code looks in HTTP.
type kind struct {
	status int
	title  string
}

// kinds is the one table from code to status. A refusal that the ledger or the
// redemption took under its locks is 409 unless another status says more; what
// was not decided is 429 or 503, and the caller retries with the same key.
var kinds = map[usher.Code]kind{
	usher.CodeInvalidJSON:            {http.StatusBadRequest, "The body is not JSON as usher reads it"},
	usher.CodeInvalidRequest:         {http.StatusBadRequest, "The request is not valid"},
	usher.CodeInvalidID:              {http.StatusBadRequest, "The id is not valid"},
	usher.CodeInvalidFile:            {http.StatusUnprocessableEntity, "The file cannot be read"},
	usher.CodeIdempotencyKeyRequired: {http.StatusBadRequest, "An idempotency key is required"},
	usher.CodeNotFound:               {http.StatusNotFound, "Not found"},
	usher.CodeMethodNotAllowed:       {http.StatusMethodNotAllowed, "Method not allowed"},
	usher.CodeUnsupportedMediaType:   {http.StatusUnsupportedMediaType, "The content type is not supported"},
	usher.CodeTooLarge:               {http.StatusRequestEntityTooLarge, "The request is too large"},

	usher.CodeUnauthenticated: {http.StatusUnauthorized, "Sign in first"},
	usher.CodeForbidden:       {http.StatusForbidden, "Not allowed"},
	usher.CodeSignInFailed:    {http.StatusUnauthorized, "Sign-in failed"},
	usher.CodeAddressTaken:    {http.StatusConflict, "The address is taken"},

	usher.CodeQueueClosed:       {http.StatusConflict, "The queue is closed"},
	usher.CodeNotInQueue:        {http.StatusNotFound, "Not in the queue"},
	usher.CodeNotYourTurn:       {http.StatusConflict, "Not your turn yet"},
	usher.CodeTurnLapsed:        {http.StatusConflict, "The turn has lapsed"},
	usher.CodeShopFull:          {http.StatusConflict, "The shop is full"},
	usher.CodeOlderRound:        {http.StatusConflict, "The queue has been reset since"},
	usher.CodeAdmissionRequired: {http.StatusForbidden, "Admission is required"},
	usher.CodeAdmissionInvalid:  {http.StatusUnauthorized, "The admission is not valid"},
	usher.CodeAdmissionExpired:  {http.StatusUnauthorized, "The admission has expired"},
	usher.CodeSessionEnded:      {http.StatusForbidden, "The visit to the shop has ended"},

	usher.CodeSaleNotOpen:          {http.StatusConflict, "The sale is not open"},
	usher.CodeSaleClosed:           {http.StatusConflict, "The sale is closed"},
	usher.CodeEventCancelled:       {http.StatusConflict, "The event is cancelled"},
	usher.CodeSeatUnknown:          {http.StatusUnprocessableEntity, "No such seat"},
	usher.CodeSeatsUnavailable:     {http.StatusConflict, "Seats are not available"},
	usher.CodeLimitExceeded:        {http.StatusConflict, "Over the purchase limit"},
	usher.CodeAccountBlocked:       {http.StatusForbidden, "The account is blocked for this event"},
	usher.CodeHoldExpired:          {http.StatusConflict, "The hold has expired"},
	usher.CodeHoldEnded:            {http.StatusConflict, "The hold has ended"},
	usher.CodeHoldPaymentPending:   {http.StatusConflict, "The hold is being paid for"},
	usher.CodeTooLateToPay:         {http.StatusConflict, "Too little time is left to pay"},
	usher.CodePendingLimit:         {http.StatusConflict, "Too many payments are under way"},
	usher.CodeOrderNotPayable:      {http.StatusConflict, "The order cannot be paid for"},
	usher.CodeOrderClosed:          {http.StatusConflict, "The order is closed"},
	usher.CodePaymentMismatch:      {http.StatusConflict, "The payment does not fit the order"},
	usher.CodeIdempotencyKeyReused: {http.StatusUnprocessableEntity, "The idempotency key was used for another request"},
	usher.CodeStateConflict:        {http.StatusConflict, "Not possible in this state"},

	usher.CodeWebhookSignature: {http.StatusBadRequest, "The signature is not valid"},
	usher.CodePaymentRejected:  {http.StatusBadRequest, "The payment provider knows no such payment method"},

	usher.CodeCodeUnknown:         {http.StatusConflict, "The code is unknown"},
	usher.CodeCodeUsed:            {http.StatusConflict, "The code was used"},
	usher.CodeCodeBusy:            {http.StatusConflict, "The code is being used"},
	usher.CodeCodeVoided:          {http.StatusConflict, "The code was cancelled"},
	usher.CodeCodeAbnormal:        {http.StatusConflict, "The code is under review"},
	usher.CodeWrongPool:           {http.StatusConflict, "The code is for something else"},
	usher.CodeTransactionConflict: {http.StatusConflict, "The transaction id was used for another request"},
	usher.CodeRedemptionClosed:    {http.StatusConflict, "Redemption is closed"},

	usher.CodeRateLimited: {http.StatusTooManyRequests, "Too many requests"},
	usher.CodeBusy:        {http.StatusServiceUnavailable, "Busy: try again"},
	usher.CodeUnavailable: {http.StatusServiceUnavailable, "Temporarily unavailable"},
	usher.CodeUnknown:     {http.StatusServiceUnavailable, "The outcome is not known yet: retry with the same key"},
	usher.CodeInternal:    {http.StatusInternalServerError, "Internal error"},
}

// Status returns the HTTP status of a code; an unlisted code is an internal error.
func Status(code usher.Code) int { return kindOf(code).status }

func kindOf(code usher.Code) kind {
	if k, ok := kinds[code]; ok {
		return k
	}
	return kinds[usher.CodeInternal]
}

// Problem is the body of every failure (RFC 9457).
type Problem struct {
	Type   string     `json:"type" doc:"A reference to what is written about this code" example:"/problems#seats_unavailable"`
	Title  string     `json:"title" doc:"The code in a few words; the same every time"`
	Status int        `json:"status" doc:"The HTTP status"`
	Detail string     `json:"detail,omitempty" doc:"What happened this time, for people"`
	Code   usher.Code `json:"code" doc:"The stable reason to act on"`
	// Seats names the places that were the reason of seats_unavailable and seat_unknown.
	Seats []usher.SeatID `json:"seats,omitempty" doc:"The places that were the reason"`
	// Tiers names the standing tiers that have too little left, or the tiers of a
	// request that are none.
	Tiers []usher.TierID `json:"tiers,omitempty" doc:"The tiers that were the reason: too little is left of them, or the event has no such standing tier"`
	// Suggestion names as many seats of the same tier that look free.
	Suggestion []usher.SeatID `json:"suggestion,omitempty" doc:"Seats beside each other that may be had instead"`
	// RequestID finds the log line of this request.
	RequestID string `json:"requestId,omitempty" doc:"Names this request in the server's log"`

	retryAfter time.Duration
	replayed   bool
}

// problemType is the media type of every failure.
const problemType = "application/problem+json"

// Error implements error.
func (p *Problem) Error() string { return string(p.Code) + ": " + p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return problemType }

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retryAfter.Seconds()))))
	}
	if p.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="usher"`)
	}
	return h
}

// problemOf turns any error into the problem that a client may see. An uncoded
// error is internal, and so is text that only a log should carry.
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var coded *usher.Error
	if !errors.As(err, &coded) {
		coded = &usher.Error{Code: usher.CodeInternal}
	}
	k := kindOf(coded.Code)
	p = &Problem{
		Type:       "/problems#" + string(coded.Code),
		Title:      k.title,
		Status:     k.status,
		Detail:     coded.Message,
		Code:       coded.Code,
		Seats:      coded.Seats,
		Tiers:      coded.Tiers,
		Suggestion: coded.Suggestion,
		retryAfter: coded.RetryAfter,
		replayed:   coded.Replayed,
	}
	if k.status == http.StatusInternalServerError {
		p.Code, p.Detail = usher.CodeInternal, ""
	}
	return p
}

// fail writes err as a problem, for handlers outside huma, and logs what the
// client is not told.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := s.report(r.Context(), err)
	writeProblem(w, p)
}

// statusGone is what a request counts as whose client went away before its answer:
// nobody reads it, and it is no failure of ours (nginx, "499").
const statusGone = 499

// report makes the problem of err, stamps it with the request's id, and logs
// the cause of a failure of ours.
func (s *Server) report(ctx context.Context, err error) *Problem {
	p := problemOf(err)
	if errors.Is(ctx.Err(), context.Canceled) && p.Status >= http.StatusInternalServerError {
		p.Status = statusGone
	}
	if q := requestOf(ctx); q != nil {
		p.RequestID = q.id
		q.code = p.Code
	}
	if p.Status >= http.StatusInternalServerError {
		level := slog.LevelWarn
		if p.Code == usher.CodeInternal {
			level = slog.LevelError
		}
		s.log.Log(ctx, level, "request failed", "request", p.RequestID, "code", p.Code, "error", err)
	}
	return p
}

func writeProblem(w http.ResponseWriter, p *Problem) {
	body, err := json.Marshal(p)
	if err != nil {
		// Only strings and numbers: a failure here is a programming error.
		panic("web: problem cannot be encoded: " + err.Error())
	}
	h := w.Header()
	for name, values := range p.GetHeaders() {
		h[name] = values
	}
	h.Set("Content-Type", problemType)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	// A client that is gone is not worth a line.
	_, _ = w.Write(body)
}

// Huma makes its own refusals (validation, negotiation) through this package
// variable; it has no other way in. They go through the same table.
func init() {
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return problemOf(schemaError(status, message, errs))
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		p := problemOf(schemaError(status, message, errs))
		if q := requestOf(ctx.Context()); q != nil {
			p.RequestID, q.code = q.id, p.Code
		}
		return p
	}
	// Bounds are written out, and integers are what they are in the strict reading.
	huma.ErrorFormatter = func(format string, args ...any) string {
		for i, arg := range args {
			if f, ok := arg.(float64); ok {
				args[i] = strconv.FormatFloat(f, 'f', -1, 64)
			}
		}
		return fmt.Sprintf(format, args...)
	}
	validation.MsgExpectedInteger = "expected integer, without fraction or exponent"
	// Names are what they are, letter by letter, and null is no empty list.
	huma.ValidateStrictCasing = true
	huma.DefaultArrayNullable = false
}

// schemaError names what the schema refused, without repeating what was sent:
// a code or an address does not belong in an answer or a log.
func schemaError(status int, message string, errs []error) error {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, 0:
	case http.StatusUnsupportedMediaType:
		return usher.Errorf(usher.CodeUnsupportedMediaType, "send application/json")
	case http.StatusRequestEntityTooLarge:
		return usher.Errorf(usher.CodeTooLarge, "the body is too large")
	default:
		return errors.Join(append(errs, errors.New(message))...)
	}
	code, details, fraction := usher.CodeInvalidRequest, make([]string, 0, 1), ""
	for _, err := range errs {
		var detail *huma.ErrorDetail
		if !errors.As(err, &detail) || len(details) == 3 {
			continue
		}
		where, name, _ := strings.Cut(detail.Location, ".")
		switch {
		case detail.Location == fraction:
			// Its bounds are for integers.
		case where == "path":
			code = usher.CodeInvalidID
			details = append(details, name+": not a valid id")
		case name == "" && strings.HasPrefix(detail.Message, "expected "):
			// The schema's own words, for example of a property that is missing.
			details = append(details, where+": "+detail.Message)
		case name == "":
			details = append(details, where+": does not fit the schema")
		default:
			details = append(details, clip(name)+": "+detail.Message)
		}
		if detail.Message == validation.MsgExpectedInteger {
			fraction = detail.Location
		}
	}
	if len(details) == 0 {
		details = append(details, message)
	}
	return &usher.Error{Code: code, Message: strings.Join(details, "; ")}
}

// clip bounds a name that a client chose.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}
