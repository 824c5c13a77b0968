package web

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"usher"
	"usher/internal/redemption"
)

const (
	// webhookMax is the most bytes of a provider's message.
	webhookMax = 1 << 20
	// readyTimeout bounds the check behind /readyz.
	readyTimeout = 2 * time.Second
)

// addBare adds the routes that huma does not serve: shared bytes, streams, raw
// bodies, pictures and what machines read of the process itself.
func (s *Server) addBare(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/events/{eventId}/seats", s.getSeats)
	mux.HandleFunc("GET /v1/events/{eventId}/seats/stream", s.streamSeats)
	mux.HandleFunc("GET /v1/charts/{hash}", s.getChart)
	mux.HandleFunc("GET /v1/orders/{orderId}/tickets/{ticketId}/qr.svg", s.ticketQR(redemption.QRSVG, "image/svg+xml"))
	mux.HandleFunc("GET /v1/orders/{orderId}/tickets/{ticketId}/qr.png", s.ticketQR(func(code string) []byte {
		return redemption.QRPNG(code, qrScale)
	}, "image/png"))
	mux.HandleFunc("PUT /v1/admin/events/{eventId}/chart", s.importChart)
	mux.HandleFunc("POST /v1/providers/{provider}/webhook", s.webhook)
	// The outer mux answers this one; here it makes other methods a 405.
	mux.HandleFunc("GET /v1/events/{eventId}/queue/now", s.queueNow)
	mux.HandleFunc("GET /healthz", s.healthy)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /openapi.json", s.describe)
	if s.deps.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.deps.Gatherer, promhttp.HandlerOpts{}))
	}
	s.document(huma.Operation{
		OperationID: "receiveWebhook", Method: http.MethodPost, Path: "/v1/providers/{provider}/webhook", Tags: []string{"Providers"},
		Summary:     "A payment provider's message",
		Description: "Signed over the raw body. 2xx once it is stored, known, or of no concern; the work comes afterwards.",
		Parameters:  []*huma.Param{{Name: "provider", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}},
	}, map[int]string{http.StatusNoContent: ""})
}

// webhook stores a provider's message. The body stays as it came: its signature
// is over these bytes.
func (s *Server) webhook(w http.ResponseWriter, r *http.Request) {
	body, err := readBytes(w, r, webhookMax, s.cfg.bodyTimeout())
	if err == nil {
		err = s.deps.Checkout.Webhook(r.Context(), r.PathValue("provider"), r.Header, body)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// healthy says that the process lives, and nothing about what it depends on: a
// restart would not help a database.
func (s *Server) healthy(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// ready says whether requests should be sent here.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	err := s.deps.Ready(ctx)
	if s.draining.Err() != nil {
		err = usher.Errorf(usher.CodeUnavailable, "stopping")
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.healthy(w, r)
}

// describe answers the API's description.
func (s *Server) describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	// A reader that went away is no failure of ours.
	_, _ = w.Write(s.OpenAPI())
}

// Probes returns a handler for what machines ask of a process that serves no
// people: whether it lives, whether it is ready, and its metrics.
func (s *Server) Probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthy)
	mux.HandleFunc("GET /readyz", s.ready)
	if s.deps.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.deps.Gatherer, promhttp.HandlerOpts{}))
	}
	return s.wrap(mux)
}
