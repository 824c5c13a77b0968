package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"usher"
)

func TestEveryCodeHasAStatus(t *testing.T) {
	titles := map[string]usher.Code{}
	for _, code := range usher.Codes {
		k, ok := kinds[code]
		if !ok {
			t.Errorf("%s is not in the table", code)
			continue
		}
		if k.status < 400 || k.status > 599 || k.title == "" {
			t.Errorf("%s has status %d and title %q", code, k.status, k.title)
		}
		if k.status >= 500 && k.status != 503 && code != usher.CodeInternal {
			t.Errorf("%s answers %d: only internal may be a failure of ours", code, k.status)
		}
		if other, twice := titles[k.title]; twice {
			t.Errorf("%s and %s share a title", code, other)
		}
		titles[k.title] = code
	}
	if len(kinds) != len(usher.Codes) {
		t.Errorf("the table has %d rows for %d codes", len(kinds), len(usher.Codes))
	}
	if Status("no such code") != 500 {
		t.Error("an unlisted code is no internal error")
	}
}

func TestProblemOf(t *testing.T) {
	err := fmt.Errorf("place hold: %w", &usher.Error{
		Code: usher.CodeSeatsUnavailable, Message: "taken", Seats: []usher.SeatID{"A-1"}, Replayed: true, Err: errors.New("secret cause"),
	})
	p := problemOf(err)
	if p.Status != 409 || p.Code != usher.CodeSeatsUnavailable || p.Detail != "taken" || len(p.Seats) != 1 || p.Type != "/problems#seats_unavailable" {
		t.Errorf("problem = %+v", p)
	}
	if p.GetHeaders().Get("Idempotent-Replayed") != "true" {
		t.Error("a stored refusal is not marked as a replay")
	}
	body, jerr := json.Marshal(p)
	if jerr != nil || strings.Contains(string(body), "secret") {
		t.Errorf("body %s (%v)", body, jerr)
	}
}

func TestUncodedErrorLeaksNothing(t *testing.T) {
	for _, err := range []error{
		errors.New("pq: password of db-7"),
		&usher.Error{Code: usher.CodeInternal, Message: "pq: password of db-7"},
		&usher.Error{Code: "made_up", Message: "pq: password of db-7"},
		fmt.Errorf("deep: %w", errors.New("pq: password of db-7")),
	} {
		w := httptest.NewRecorder()
		writeProblem(w, problemOf(err))
		if w.Code != 500 || strings.Contains(w.Body.String(), "db-7") || !strings.Contains(w.Body.String(), `"code":"internal"`) {
			t.Errorf("%v answers %d %s", err, w.Code, w.Body)
		}
		if ct := w.Header().Get("Content-Type"); ct != "application/problem+json" {
			t.Errorf("content type %q", ct)
		}
	}
}

func TestRetryAfterIsWholeSeconds(t *testing.T) {
	for wait, want := range map[time.Duration]string{0: "", time.Millisecond: "1", time.Second: "1", 1001 * time.Millisecond: "2"} {
		p := problemOf(&usher.Error{Code: usher.CodeBusy, RetryAfter: wait})
		if got := p.GetHeaders().Get("Retry-After"); got != want {
			t.Errorf("retry after %v is sent as %q, want %q", wait, got, want)
		}
	}
}

func TestSchemaErrorNamesTheFieldAndNotTheValue(t *testing.T) {
	detail := func(location, message string) error {
		return &huma.ErrorDetail{Location: location, Message: message, Value: "secret"}
	}
	for name, tc := range map[string]struct {
		status int
		errs   []error
		code   usher.Code
		want   string
	}{
		"field":       {422, []error{detail("body.seatIds[0]", "expected string")}, usher.CodeInvalidRequest, "seatIds[0]: expected string"},
		"whole body":  {422, []error{detail("body", "json: cannot unmarshal secret")}, usher.CodeInvalidRequest, "body: does not fit the schema"},
		"path":        {422, []error{detail("path.holdId", "invalid value: secret")}, usher.CodeInvalidID, "holdId: not a valid id"},
		"query":       {422, []error{detail("query.after", "invalid integer")}, usher.CodeInvalidRequest, "after: invalid integer"},
		"media type":  {415, []error{errors.New("unknown")}, usher.CodeUnsupportedMediaType, "send application/json"},
		"too large":   {413, nil, usher.CodeTooLarge, "the body is too large"},
		"no details":  {400, nil, usher.CodeInvalidRequest, "request body is required"},
		"a long name": {422, []error{detail("body."+strings.Repeat("x", 200), "unexpected property")}, usher.CodeInvalidRequest, strings.Repeat("x", 80) + "...: unexpected property"},
	} {
		t.Run(name, func(t *testing.T) {
			p := problemOf(schemaError(tc.status, "request body is required", tc.errs))
			if p.Code != tc.code || p.Detail != tc.want {
				t.Errorf("problem %s %q, want %s %q", p.Code, p.Detail, tc.code, tc.want)
			}
		})
	}
	if p := problemOf(schemaError(500, "cannot read secret", []error{errors.New("secret")})); p.Code != usher.CodeInternal || p.Detail != "" {
		t.Errorf("an internal failure answers %+v", p)
	}
}
