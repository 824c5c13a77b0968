package web

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"usher"
	"usher/internal/account"
	"usher/internal/redemption"
)

// request is what the middleware knows about one request. It is written by the
// request's own goroutine alone.
type request struct {
	id   string
	addr netip.Addr
	// account is the buyer who asks, once the credential has been verified; zero before.
	account usher.AccountID
	// One of the three is set on routes of that audience.
	session  account.Session
	operator account.Operator
	device   redemption.Device
	// code is why the request failed, for the log.
	code usher.Code
	// stream says that the request was answered by a stream, whose length is no latency.
	stream bool
}

type requestKey struct{}

// requestOf returns the request's record, or nil outside the middleware.
func requestOf(ctx context.Context) *request {
	q, _ := ctx.Value(requestKey{}).(*request)
	return q
}

// newRequestID makes a name for one request: random, so that two processes
// never give the same one.
func newRequestID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// wrap puts the whole chain around the routes: it names the request, counts and
// logs it, catches panics, sets the headers of every answer, refuses forged
// cross-site writes, and turns the mux's own answers into problems.
func (s *Server) wrap(routes http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, usher.Errorf(usher.CodeForbidden, "a request from another site may not change anything here"))
	}))
	inner := cross.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := checkTarget(r)
		if err == nil {
			err = s.shedRequest(r)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		routes.ServeHTTP(&muxErrors{ResponseWriter: w, server: s, request: r}, r)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := &request{id: newRequestID(), addr: clientAddr(r, s.cfg.TrustedProxies)}
		r = r.WithContext(context.WithValue(r.Context(), requestKey{}, q))
		out := &recorder{ResponseWriter: w}
		start := time.Now()
		s.metrics.inFlight.Inc()
		defer func() {
			s.metrics.inFlight.Dec()
			if v := recover(); v != nil {
				s.panicked(out, r, v)
			}
			took := time.Since(start)
			if !q.stream {
				s.metrics.route(routeName(r)).observe(out.status, took)
			}
			s.logRequest(r, q, out, took)
		}()
		setCommonHeaders(w.Header(), q.id, s.cfg.secure())
		inner.ServeHTTP(out, r)
	})
}

// routeName is the pattern that answered: a closed set, whatever was asked for.
func routeName(r *http.Request) string {
	if r.Pattern == "" || r.Pattern == "/" {
		return "none"
	}
	return r.Pattern
}

func (s *Server) logRequest(r *http.Request, q *request, out *recorder, took time.Duration) {
	level := slog.LevelInfo
	if strings.HasPrefix(r.URL.Path, "/static/") || isProbe(r.URL.Path) {
		level = slog.LevelDebug
	}
	if !s.log.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request", q.id),
		slog.String("route", routeName(r)),
		slog.Int("status", out.status),
		slog.Duration("took", took),
		slog.Int64("bytes", out.bytes),
	}
	if !q.account.IsZero() {
		attrs = append(attrs, slog.String("account", q.account.String()))
	}
	if q.code != "" {
		attrs = append(attrs, slog.String("code", string(q.code)))
	}
	s.log.LogAttrs(r.Context(), level, "request", attrs...)
}

func isProbe(path string) bool { return path == "/healthz" || path == "/readyz" || path == "/metrics" }

// panicked answers a request whose handler panicked. ErrAbortHandler is the
// standard way to cut a connection and stays one.
func (s *Server) panicked(out *recorder, r *http.Request, v any) {
	if v == http.ErrAbortHandler {
		panic(v)
	}
	s.metrics.panics.Inc()
	s.log.ErrorContext(r.Context(), "panic in a request",
		"request", requestOf(r.Context()).id, "route", routeName(r), "panic", v, "stack", string(debug.Stack()))
	if out.status == 0 {
		writeProblem(out, s.report(r.Context(), &usher.Error{Code: usher.CodeInternal}))
	}
}

// setCommonHeaders sets what every answer carries; pages loosen what they need.
func setCommonHeaders(h http.Header, id string, secure bool) {
	h.Set("X-Request-Id", id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(self), microphone=(), geolocation=(), payment=(self)")
	h.Set("Cache-Control", "no-store")
	if secure {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// checkTarget refuses paths and queries with bytes that no honest client sends:
// they would reach logs and databases as text.
func checkTarget(r *http.Request) error {
	if !clean(r.URL.Path) {
		return usher.Errorf(usher.CodeInvalidRequest, "the path has characters that are not allowed")
	}
	if r.URL.RawQuery == "" {
		return nil
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return usher.Errorf(usher.CodeInvalidRequest, "the query cannot be read")
	}
	for name, list := range values {
		if !clean(name) {
			return usher.Errorf(usher.CodeInvalidRequest, "the query has characters that are not allowed")
		}
		for _, value := range list {
			if !clean(value) {
				return usher.Errorf(usher.CodeInvalidRequest, "the query has characters that are not allowed")
			}
		}
	}
	return nil
}

// clean reports text without broken UTF-8 and without control characters.
func clean(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// recorder notes status and size of an answer.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController find the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// muxErrors turns the mux's own "404 page not found" and "405" into problems:
// the mux leaves the request's pattern empty only then.
type muxErrors struct {
	http.ResponseWriter
	server  *Server
	request *http.Request
	instead bool
}

func (w *muxErrors) WriteHeader(status int) {
	if w.request.Pattern != "" || status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.instead = true
	err := usher.Errorf(usher.CodeNotFound, "there is nothing at this address")
	if status == http.StatusMethodNotAllowed {
		err = usher.Errorf(usher.CodeMethodNotAllowed, "allowed here: %s", w.Header().Get("Allow"))
	}
	w.server.notFound(w.ResponseWriter, w.request, err)
}

func (w *muxErrors) Write(b []byte) (int, error) {
	if w.instead {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController find the connection.
func (w *muxErrors) Unwrap() http.ResponseWriter { return w.ResponseWriter }
