package crowd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// problem is an RFC 9457 answer.
type problem struct {
	Status int      `json:"status"`
	Code   string   `json:"code"`
	Detail string   `json:"detail"`
	Seats  []string `json:"seats"`
}

func (p *problem) Error() string { return fmt.Sprintf("%d %s: %s", p.Status, p.Code, p.Detail) }

// codeOf returns the code of a refusal, "" for anything else.
func codeOf(err error) string {
	var p *problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

const (
	callTimeout = 20 * time.Second
	bodyMax     = 64 << 20
)

// client talks to usher as one process would; all people share it.
type client struct {
	base string
	http *http.Client
	// patience is how long a call is repeated while the server is away.
	patience time.Duration

	requests, retries, away, serverErrors atomic.Int64
}

func newClient(base string, patience time.Duration) *client {
	t := &http.Transport{MaxIdleConns: 2000, MaxIdleConnsPerHost: 2000, IdleConnTimeout: 90 * time.Second}
	return &client{base: strings.TrimSuffix(base, "/"), http: &http.Client{Transport: t, Timeout: callTimeout}, patience: patience}
}

// call is one request of somebody with the given credential. Requests that may be
// repeated (all of them are: reads, and writes with a key) are repeated while the
// server is away, busy, or asks to try again. It fails with a *problem for a
// refusal, and with the last failure when patience runs out.
func (c *client) call(ctx context.Context, method, path, token string, header map[string]string, in, out any) (http.Header, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(c.patience)
	for try := 0; ; try++ {
		h, err := c.once(ctx, method, path, token, header, body, in != nil, out)
		if err == nil || !again(err) || ctx.Err() != nil || time.Now().After(deadline) {
			return h, err
		}
		c.retries.Add(1)
		wait(ctx, backoff(try))
	}
}

func (c *client) once(ctx context.Context, method, path, token string, header map[string]string, body []byte, hasBody bool, out any) (http.Header, error) {
	var reader io.Reader
	if hasBody {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if hasBody {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	c.requests.Add(1)
	res, err := c.http.Do(req)
	if err != nil {
		c.away.Add(1)
		return nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, bodyMax))
	if err != nil {
		c.away.Add(1)
		return nil, err
	}
	if res.StatusCode >= 300 {
		return res.Header, c.refusal(res.StatusCode, raw)
	}
	if out == nil || len(raw) == 0 {
		return res.Header, nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return res.Header, fmt.Errorf("read answer of %s %s: %w", method, path, err)
	}
	return res.Header, nil
}

func (c *client) refusal(status int, raw []byte) error {
	p := &problem{}
	if json.Unmarshal(raw, p) != nil || p.Code == "" {
		p.Code, p.Detail = "no_problem_body", string(raw[:min(len(raw), 200)])
	}
	p.Status = status
	if status >= 500 && status != http.StatusServiceUnavailable {
		c.serverErrors.Add(1)
	}
	return p
}

// again reports whether a failure says nothing about the request: the server was
// away, busy, or does not know yet. A 500 is an answer, and a defect.
func again(err error) bool {
	var p *problem
	if !errors.As(err, &p) {
		return true
	}
	switch p.Code {
	case "busy", "unavailable", "unknown_retry_same_key", "rate_limited", "code_busy":
		return p.Code != "code_busy"
	}
	return p.Status == http.StatusServiceUnavailable
}

func backoff(try int) time.Duration {
	base := 50 * time.Millisecond << min(try, 5)
	return base/2 + rand.N(base)
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// text reads a plain answer, for metrics.
func (c *client) text(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return "", err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, bodyMax))
	return string(raw), err
}
