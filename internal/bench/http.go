package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"usher"
)

// Target is a running usher to measure. Its limits per address must be off: every
// request comes from one.
type Target struct {
	URL        string `json:"url"`
	AdminToken string `json:"adminToken"`
}

// caller sends requests to one usher.
type caller struct {
	*wires
}

func newCaller(base string) (*caller, error) {
	w, err := newWires(base)
	return &caller{w}, err
}

const jsonMedia = "application/json"

// call is one request.
type call struct {
	method, path, token string
	// media is the body's type; "" is JSON.
	media  string
	body   []byte
	header map[string]string
}

// do sends a request and decodes a 2xx answer into out, if given. The status
// comes back with every answer; err is for no answer at all.
func (c *caller) do(ctx context.Context, q call, out any) (status int, err error) {
	err = c.roundTrip(ctx, q, func(res *http.Response) error {
		status = res.StatusCode
		if out == nil || status >= 300 {
			return nil
		}
		return json.NewDecoder(res.Body).Decode(out)
	})
	return status, err
}

// want sends a request whose answer has to be one of the statuses, 2xx if none is
// given, and returns it.
func (c *caller) want(ctx context.Context, q call, out any, statuses ...int) (int, error) {
	status, err := c.do(ctx, q, out)
	if err != nil {
		return status, fmt.Errorf("%s %s: %w", q.method, routeOf(q.path), err)
	}
	ok := len(statuses) == 0 && status < 300
	for _, s := range statuses {
		ok = ok || s == status
	}
	if !ok {
		return status, fmt.Errorf("%s %s was answered %d", q.method, routeOf(q.path), status)
	}
	return status, nil
}

// routeOf leaves the ids out of a path: failures are told by kind.
func routeOf(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if strings.ContainsAny(p, "_") {
			parts[i] = "..."
		}
	}
	return strings.Join(parts, "/")
}

// must sends JSON as somebody and wants a 2xx answer.
func (c *caller) must(ctx context.Context, method, path, token string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	_, err = c.want(ctx, call{method: method, path: path, token: token, body: body}, out)
	return err
}

// holdCall asks for seats.
func holdCall(event string, b *buyer, seats []usher.SeatID, key string) (call, error) {
	body, err := json.Marshal(map[string]any{"seatIds": seats, "idempotencyKey": key, "admissionToken": b.admission})
	return call{method: http.MethodPost, path: "/v1/events/" + event + "/holds", token: b.token, body: body}, err
}

// hold asks for seats; a conflict is an answer, anything else but a hold a failure.
func (c *caller) hold(ctx context.Context, event string, b *buyer, seats []usher.SeatID, key string, out any) (bool, error) {
	q, err := holdCall(event, b, seats, key)
	if err != nil {
		return false, err
	}
	status, err := c.want(ctx, q, out, http.StatusCreated, http.StatusConflict)
	return err == nil && status == http.StatusCreated, err
}
