package web

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"usher"
)

// Config says how usher is reached and how patient it is with callers.
type Config struct {
	// PublicURL is the origin that people use, for example "https://tickets.example".
	// With https, cookies are Secure and carry the __Host- prefix.
	PublicURL string
	// PaymentOrigins are the origins of card pages that a form or a link may lead to.
	PaymentOrigins []string
	// CardPage is where a buyer's browser gets a payment method token, with the
	// order's return address as "return_url"; empty where there is none.
	CardPage string
	// TrustedProxies may name the client's address in X-Forwarded-For.
	TrustedProxies []netip.Prefix
	// Limits bound single callers.
	Limits Limits
	// BodyTimeout is how long a small body may take to arrive; 0 is 10 seconds.
	// Files get longer.
	BodyTimeout time.Duration
	// ReadsPerEvent is how many of one event's reads use the database at once, so that
	// other events find connections; 0 is 4.
	ReadsPerEvent int
	// Version is shown in the API description.
	Version string
}

// Limits are the rates per caller. Every field's zero value is no limit.
type Limits struct {
	// JoinPerAccount and JoinPerAddress bound joins of the waiting rooms.
	JoinPerAccount, JoinPerAddress Rate
	// CodePerAddress bounds requests for sign-in codes, SignInPerAddress tries.
	CodePerAddress, SignInPerAddress Rate
	// HoldPerAccount and HoldPerAddress bound new holds and checkouts.
	HoldPerAccount, HoldPerAddress Rate
}

// DefaultLimits are generous to people and to many people behind one address,
// and slow down a program.
func DefaultLimits() Limits {
	return Limits{
		JoinPerAccount:   Rate{Burst: 10, Every: time.Second},
		JoinPerAddress:   Rate{Burst: 500, Every: 20 * time.Millisecond},
		CodePerAddress:   Rate{Burst: 30, Every: 2 * time.Second},
		SignInPerAddress: Rate{Burst: 60, Every: time.Second},
		HoldPerAccount:   Rate{Burst: 20, Every: 500 * time.Millisecond},
		HoldPerAddress:   Rate{Burst: 500, Every: 10 * time.Millisecond},
	}
}

func (c Config) secure() bool { return strings.HasPrefix(c.PublicURL, "https://") }

// Server answers every request of the shop and the room.
type Server struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	metrics *metrics
	limits  limiters
	reads   *budget
	api     huma.API
	handler http.Handler
	pages   *pages
	// browsing remembers for a moment what pages of events show.
	browsing browsing
	// watched remembers for a moment what operators see of sales.
	watched watched

	// draining ends when the server stops: streams listen to it.
	draining context.Context
	drain    context.CancelFunc
}

type limiters struct {
	joinAccount, joinAddress, codeAddress, signInAddress, holdAccount, holdAddress *limiter
	// suggestions are a courtesy that is shed first: they have a budget per process.
	suggestions *limiter
}

// New makes the server on what it serves. Reg gets the usher_http_ metrics.
func New(cfg Config, deps Deps, log *slog.Logger, reg prometheus.Registerer) *Server {
	s := &Server{cfg: cfg, deps: deps, log: log, metrics: newMetrics(reg), pages: newPages(),
		browsing: browsing{looks: map[usher.EventID]look{}, seats: map[string]int{}},
		watched:  watched{looks: map[usher.EventID]liveLook{}, decisions: map[usher.EventID]liveDecisionsView{}, since: time.Now()}}
	s.reads = newBudget(cmp.Or(cfg.ReadsPerEvent, readsDefault), readsWaiting)
	s.deps.Ledger, s.deps.Redemption = budgetedLedger{deps.Ledger, s}, budgetedTickets{deps.Redemption, s}
	s.draining, s.drain = context.WithCancel(context.Background())
	l := cfg.Limits
	s.limits = limiters{
		joinAccount: newLimiter(l.JoinPerAccount), joinAddress: newLimiter(l.JoinPerAddress),
		codeAddress: newLimiter(l.CodePerAddress), signInAddress: newLimiter(l.SignInPerAddress),
		holdAccount: newLimiter(l.HoldPerAccount), holdAddress: newLimiter(l.HoldPerAddress),
		suggestions: newLimiter(suggestionRate),
	}
	inner := http.NewServeMux()
	s.api = newAPI(inner, cfg.Version)
	s.addAPI()
	s.addBare(inner)
	s.addPages(inner)

	// What two million waiting phones ask for passes nothing but the mux.
	outer := http.NewServeMux()
	outer.HandleFunc("GET /v1/events/{eventId}/queue/now", s.queueNow)
	outer.Handle("/", s.wrap(inner))
	s.handler = outer
	return s
}

// ServeHTTP implements http.Handler. Whatever a handler does with a body, it has
// to arrive in time: net/http reads the rest of it before it answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		// Not every writer has a connection (tests): then there is no slow client.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.cfg.bodyTimeout()))
	}
	s.handler.ServeHTTP(w, r)
}

func (c Config) bodyTimeout() time.Duration {
	if c.BodyTimeout == 0 {
		return bodyTimeoutDefault
	}
	return c.BodyTimeout
}

// Drain ends every stream, so that a polite stop does not wait for them. The
// server still answers other requests.
func (s *Server) Drain() { s.drain() }

// Timeouts sets the limits that keep slow or idle connections from piling up.
// Handlers set their own where they need more: streams lift the write limit,
// files get longer to arrive.
func Timeouts(h *http.Server) {
	h.ReadHeaderTimeout = 5 * time.Second
	h.WriteTimeout = 60 * time.Second
	h.IdleTimeout = 120 * time.Second
	h.MaxHeaderBytes = 32 << 10
}

// allow counts one call against a limit by account or address.
func (s *Server) allow(name string, l *limiter, key string) error {
	err := l.allow(key)
	if err != nil {
		s.metrics.limited.WithLabelValues(name).Inc()
	}
	return err
}
