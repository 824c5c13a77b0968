package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"usher"
)

// adminFlags say which usher to steer, and as whom.
type adminFlags struct {
	URL            string `help:"Address of the usher to steer." default:"http://127.0.0.1:8080" env:"USHER_URL"`
	AdminToken     secret `help:"Operator's key (better: USHER_ADMIN_TOKEN)." env:"USHER_ADMIN_TOKEN" placeholder:"KEY"`
	AdminTokenFile string `help:"File with the operator's key." type:"path" env:"USHER_ADMIN_TOKEN_FILE" placeholder:"FILE"`
}

// adminClient calls the API of a running usher as an operator.
type adminClient struct {
	base, token string
	http        *http.Client
}

const adminTimeout = 2 * time.Minute

func (f *adminFlags) client() (*adminClient, error) {
	token, err := secretFrom("the operator's key", f.AdminToken, f.AdminTokenFile)
	if err != nil {
		return nil, err
	}
	if token == "" {
		return nil, usher.Errorf(usher.CodeUnavailable, "give the operator's key: set USHER_ADMIN_TOKEN, or --admin-token-file")
	}
	return &adminClient{base: strings.TrimRight(f.URL, "/"), token: token, http: &http.Client{Timeout: adminTimeout}}, nil
}

// problem is a refusal as the API words it.
type problem struct {
	Code   usher.Code `json:"code"`
	Title  string     `json:"title"`
	Detail string     `json:"detail"`
	// Seats are the places that were the reason.
	Seats []usher.SeatID `json:"seats"`
}

// call sends a request and decodes the answer into out. A refusal comes back as
// an *usher.Error with the API's code; an usher that does not answer is
// CodeUnavailable and says what to do.
func (c *adminClient) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	return c.send(ctx, method, path, "application/json", body, out)
}

func (c *adminClient) send(ctx context.Context, method, path, media string, body io.Reader, out any) error {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return usher.Errorf(usher.CodeUnavailable, "%q is no address of an usher: give one with --url", c.base)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		r.Header.Set("Content-Type", media)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return &usher.Error{Code: usher.CodeUnavailable, Err: err,
			Message: fmt.Sprintf("no usher answers at %s: start it, or give its address with --url", c.base)}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return refusal(resp.StatusCode, answer)
	}
	if out == nil || len(answer) == 0 {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return errors.New("the answer is not what usher sends: is this address another program's?")
	}
	return nil
}

func refusal(status int, answer []byte) error {
	var p problem
	if json.Unmarshal(answer, &p) != nil || p.Code == "" {
		return fmt.Errorf("the answer is %d, and not as usher words it: is this address another program's?", status)
	}
	if p.Detail == "" {
		p.Detail = p.Title
	}
	for i, seat := range p.Seats {
		if i == 0 {
			p.Detail += ":"
		}
		p.Detail += " " + string(seat)
	}
	return &usher.Error{Code: p.Code, Message: fmt.Sprintf("%s (%s)", p.Detail, p.Code)}
}
