package paysim

import (
	"net/http"
	"strconv"
	"time"
)

// headers sets what every answer carries.
func (s *server) headers(w http.ResponseWriter, c *call, out reply) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Request-Id", c.request)
	h.Set("Stripe-Version", APIVersion)
	h.Set("Stripe-Should-Retry", "false")
	if c.key != "" {
		h.Set("Idempotency-Key", c.key)
		if out.original != "" {
			h.Set("Original-Request", out.original)
		}
	}
	if out.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if out.err == nil {
		return
	}
	if out.err.Reason != "" {
		h.Set("Stripe-Rate-Limited-Reason", out.err.Reason)
	}
	if out.err.Status == http.StatusConflict || out.err.Code == "lock_timeout" {
		h.Set("Stripe-Should-Retry", "true")
	}
}

// write sends an answer whole.
func (s *server) write(w http.ResponseWriter, c *call, out reply) {
	s.headers(w, c, out)
	w.Header().Set("Content-Length", strconv.Itoa(len(out.body)))
	w.WriteHeader(out.status)
	_, _ = w.Write(out.body)
}

// trickle sends an answer in ten pieces.
func (s *server) trickle(w http.ResponseWriter, c *call, f fault, out reply) {
	const pieces = 10
	s.headers(w, c, out)
	w.WriteHeader(out.status)
	flush := http.NewResponseController(w)
	size := len(out.body)/pieces + 1
	for rest := out.body; len(rest) > 0; rest = rest[min(size, len(rest)):] {
		if _, err := w.Write(rest[:min(size, len(rest))]); err != nil || flush.Flush() != nil || !s.pause(f.delay(time.Second)/pieces) {
			return
		}
	}
}

// writeTruncated promises the whole body, sends half of it and closes.
func writeTruncated(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	drop()
}

// writeHTML502 is what a proxy in front of the provider says.
func writeHTML502(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(http.StatusBadGateway)
	_, _ = w.Write([]byte("<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"))
}

// drop ends the handler and closes the connection without an answer.
func drop() { panic(http.ErrAbortHandler) }
