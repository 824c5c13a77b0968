package web

import (
	"bytes"
	"context"
	"encoding"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"usher"
)

// audience says who may call a route.
type audience string

// The audiences. A route of an audience is refused before its body is read.
const (
	anyone   audience = ""
	buyers   audience = "buyer"
	staff    audience = "operator"
	machines audience = "device"
)

// route describes one operation of the API.
type route struct {
	id      string
	method  string
	path    string
	tag     string
	summary string
	doc     string
	who     audience
	// status of success; 0 is 200, or 204 where nothing is answered.
	status int
	// bodyMax is the most bytes of the body; 0 is bodyMax for all.
	bodyMax int64
}

const (
	// bodyTimeoutDefault is how long a small body may take to arrive; a file gets longer.
	bodyTimeoutDefault = 10 * time.Second
	fileTimeout        = 2 * time.Minute
)

// newAPI makes the huma API on the mux. Only JSON is spoken; its schema links,
// documentation pages and second spellings are left out.
func newAPI(mux *http.ServeMux, version string) huma.API {
	cfg := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:       "usher",
				Version:     version,
				Description: apiDescription,
			},
			Components: &huma.Components{
				Schemas:         huma.NewMapRegistry("#/components/schemas/", schemaName),
				SecuritySchemes: securitySchemes,
			},
		},
		// The second entry is what huma finds problem+json by.
		Formats:       map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat},
		DefaultFormat: "application/json",
	}
	return humago.New(mux, cfg)
}

// add registers one operation. The order is the same for every one: who is
// asking, then the body as bytes, then its JSON, then its schema, then the
// handler. Errors of the handler leave through the one table.
func add[I, O any](s *Server, rt route, handle func(context.Context, *I) (*O, error)) {
	limit := rt.bodyMax
	if limit == 0 {
		limit = bodyMax
	}
	op := huma.Operation{
		OperationID:   rt.id,
		Method:        rt.method,
		Path:          rt.path,
		Tags:          []string{rt.tag},
		Summary:       rt.summary,
		Description:   rt.doc,
		DefaultStatus: rt.status,
		// The body has been read and bounded by readBody: these two only switch
		// huma's own way off. Its read deadline would stay on the connection and
		// cancel a handler that works longer.
		MaxBodyBytes:    -1,
		BodyReadTimeout: -1,
		Middlewares:     huma.Middlewares{s.authenticate(rt.who), s.readBody(limit)},
	}
	if rt.who != anyone {
		op.Security = []map[string][]string{{string(rt.who): {}}}
		if rt.who == buyers {
			op.Security = append(op.Security, map[string][]string{"buyerCookie": {}})
		}
	}
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, s.report(ctx, err)
		}
		return out, nil
	})
}

// readBody reads the body of a request whole before anything is made of it, and
// refuses what is too large, too slow, or no JSON by the strict rules.
func (s *Server) readBody(limit int64) func(huma.Context, func(huma.Context)) {
	timeout := s.cfg.bodyTimeout()
	if limit > bodyMax {
		timeout = fileTimeout
	}
	return func(ctx huma.Context, next func(huma.Context)) {
		if ctx.Operation().RequestBody == nil {
			next(ctx)
			return
		}
		r, w := humago.Unwrap(ctx)
		body, err := readAll(w, r, limit, timeout)
		if err == nil && (len(body) > 0 || ctx.Operation().RequestBody.Required) {
			err = checkJSON(body)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next(ctx)
	}
}

// readAll reads a JSON body under a limit and a deadline, which it lifts again:
// a deadline that stays on the connection cancels the request later on.
func readAll(w http.ResponseWriter, r *http.Request, limit int64, timeout time.Duration) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, errTooLarge(limit)
	}
	if r.ContentLength != 0 && !isJSON(r) {
		return nil, usher.Errorf(usher.CodeUnsupportedMediaType, "send application/json in UTF-8")
	}
	return readBytes(w, r, limit, timeout)
}

// readBytes reads a body of any type under a limit and a deadline. The deadline is
// lifted only when the body is complete: net/http reads what is left of a body
// before it answers, and would wait for ever for one that never ends.
func readBytes(w http.ResponseWriter, r *http.Request, limit int64, timeout time.Duration) ([]byte, error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, usher.Errorf(usher.CodeUnsupportedMediaType, "Content-Encoding: send the body as it is, not compressed")
	}
	rc := http.NewResponseController(w)
	// Not every writer has a connection (tests): then there is no slow client.
	_ = rc.SetReadDeadline(time.Now().Add(timeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err == nil {
		_ = rc.SetReadDeadline(time.Time{})
	}
	var tooLarge *http.MaxBytesError
	var slow net.Error
	switch {
	case errors.As(err, &tooLarge):
		return nil, errTooLarge(limit)
	case errors.As(err, &slow) && slow.Timeout():
		return nil, usher.Errorf(usher.CodeInvalidRequest, "the body did not arrive within %v", timeout)
	case err != nil:
		return nil, &usher.Error{Code: usher.CodeInvalidRequest, Message: "the body broke off", Err: err}
	}
	return body, nil
}

func errTooLarge(limit int64) error {
	return usher.Errorf(usher.CodeTooLarge, "the body is larger than %d bytes", limit)
}

// pathEvent is an event's id in a path. The struct keeps huma, which goes by a
// type's kind, from reading the id as a number.
type pathEvent struct{ usher.EventID }

// bodyID reads an id that a body has under the name of field. A body's own type for
// it would refuse it, too, but without its name.
func bodyID[ID any, P interface {
	*ID
	encoding.TextUnmarshaler
}](field, text string) (id ID, err error) {
	return id, usher.InField(field, P(&id).UnmarshalText([]byte(text)))
}

// Keyed is the header that every write may carry its idempotency key in.
type Keyed struct {
	Header string `header:"Idempotency-Key" doc:"The same as idempotencyKey in the body; give one of the two"`
}

// key returns the idempotency key from the header or the named field of the body.
// It fails with CodeIdempotencyKeyRequired, and with CodeInvalidRequest when two
// different keys are given.
func (k Keyed) key(field, body string) (string, error) {
	key := body
	if key == "" {
		key = k.Header
	}
	if k.Header != "" && k.Header != key {
		return "", usher.Errorf(usher.CodeInvalidRequest, "%s and Idempotency-Key differ", field)
	}
	if err := usher.CheckKey(field, key); err != nil {
		return "", err
	}
	return key, nil
}

// replayed is the header of an answer that was given before.
func replayed(is bool) string {
	if is {
		return "true"
	}
	return ""
}
