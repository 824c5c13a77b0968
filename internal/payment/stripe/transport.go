package stripe

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// exchange is what one call saw of the wire, whatever the SDK makes of it.
type exchange struct {
	mu        sync.Mutex
	connected bool
	status    int
	header    http.Header
}

type exchangeKey struct{}

// watch returns a context that records the exchange made with it.
func watch(ctx context.Context) (context.Context, *exchange) {
	ex := &exchange{header: http.Header{}}
	ctx = context.WithValue(ctx, exchangeKey{}, ex)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		ex.mu.Lock()
		defer ex.mu.Unlock()
		ex.connected = true
	}}), ex
}

// seen copies what was recorded. The transport may still be working for a call
// that gave up waiting.
func (ex *exchange) seen() (connected bool, status int, header http.Header) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return ex.connected, ex.status, ex.header
}

// once sends a write exactly once. net/http would send a POST with an
// Idempotency-Key again by itself when a reused connection dies; it does so only
// if it can get the body again, so that is taken away. Retries have one owner,
// and it is not here.
type once struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		single := *r
		single.GetBody = nil
		r = &single
	}
	res, err := o.next.RoundTrip(r)
	if ex, ok := r.Context().Value(exchangeKey{}).(*exchange); ok && err == nil {
		ex.mu.Lock()
		ex.status, ex.header = res.StatusCode, res.Header
		ex.mu.Unlock()
	}
	return res, err
}

// newClient returns an HTTP client of the adapter's own: it follows no redirect
// (a redirected POST would carry the key elsewhere), keeps enough connections
// for a sale, and drops idle ones before the far side is likely to.
func newClient(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout: timeout,
		Transport: once{&http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			MaxIdleConns:          idleConns,
			MaxIdleConnsPerHost:   idleConns,
			IdleConnTimeout:       30 * time.Second,
			TLSHandshakeTimeout:   timeout,
			ResponseHeaderTimeout: timeout,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// idleConns is how many connections are kept: more than authorizations are ever
// in flight, so that a burst does not pay for handshakes.
const idleConns = 512
