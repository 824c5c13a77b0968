package paysim

import (
	"crypto/subtle"
	"hash/fnv"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// bodyMax bounds a request body in bytes.
const bodyMax = 1 << 20

// server is one running simulator.
type server struct {
	cfg      Config
	listener *gate
	render   renderer
	journal  *journal
	hooks    *deliverer
	faults   *faultTable
	latency  *latency
	other    *http.ServeMux // everything outside /v1
	wanted   map[string]bool
	stopping chan struct{}
	boot     string
	requests atomic.Int64

	mu    sync.Mutex
	store *store
}

// call is one request to the API, decoded.
type call struct {
	method, path, id string
	route            *route
	form             form
	key, digest      string
	request          string // Request-Id
}

// route is one endpoint of the API.
type route struct {
	name    string
	allowed []string
	run     func(s *server, t *tx, c *call) answer
}

// routes are the endpoints by method and path, with {id} for an id.
var routes = map[string]*route{
	"POST payment_intents":              {"create", paramsCreate, (*server).createIntent},
	"GET payment_intents":               {"list", paramsListIntents, (*server).listIntents},
	"GET payment_intents/{id}":          {"get", []string{"expand"}, (*server).getIntent},
	"POST payment_intents/{id}/confirm": {"confirm", paramsConfirm, (*server).confirmIntent},
	"POST payment_intents/{id}/capture": {"capture", paramsCapture, (*server).captureIntent},
	"POST payment_intents/{id}/cancel":  {"cancel", paramsCancel, (*server).cancelIntent},
	"POST refunds":                      {"refund", paramsRefund, (*server).createRefund},
	"GET refunds":                       {"list", paramsListRefunds, (*server).listRefunds},
	"GET refunds/{id}":                  {"get", []string{"expand"}, (*server).getRefund},
	"GET charges":                       {"list", paramsListCharges, (*server).listCharges},
	"GET charges/{id}":                  {"get", []string{"expand"}, (*server).getCharge},
	"GET events":                        {"list", paramsListEvents, (*server).listEvents},
	"GET events/{id}":                   {"get", []string{"expand"}, (*server).getEvent},
}

func newServer(cfg Config, st *store, j *journal, listener *gate) *server {
	base := cfg.PublicURL
	if base == "" {
		base = "http://" + listener.Addr().String()
	}
	s := &server{cfg: cfg, listener: listener, store: st, journal: j, render: renderer{base: strings.TrimSuffix(base, "/")},
		faults: newFaultTable(cfg.Seed), latency: newLatency(cfg.Latency, cfg.Seed), wanted: map[string]bool{},
		stopping: make(chan struct{}), boot: strconv.FormatInt(time.Now().UnixMilli(), 36)}
	if cfg.WebhookURL != "" {
		for _, kind := range cfg.WebhookEvents {
			s.wanted[kind] = true
		}
	}
	s.hooks = newDeliverer(s)
	s.other = s.outside()
	return s
}

// ServeHTTP keeps the API off the general mux: it is the hot path.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		s.serveAPI(w, r)
		return
	}
	s.other.ServeHTTP(w, r)
}

// serveAPI answers one API call: faults before the idempotency layer, the
// layer, then durability, then faults on the way back.
func (s *server) serveAPI(w http.ResponseWriter, r *http.Request) {
	c, err := s.decode(r)
	if err != nil {
		s.write(w, c, reply{status: err.Status, body: s.errorBody(err, nil), err: err})
		return
	}
	f := s.faultFor(c)
	switch f.Action {
	case actionCloseBefore:
		drop()
	case actionStallThenExecute:
		if !s.pause(f.pause()) {
			drop()
			return
		}
	case actionHTML502:
		writeHTML502(w)
		return
	}
	out := s.layer(c, f)
	if s.journal.sync() != nil {
		drop()
	}
	s.publish(out.events)
	s.leave(w, c, f, out)
}

// decode reads and checks a request up to its parameters' names.
func (s *server) decode(r *http.Request) (*call, *apiError) {
	c := &call{method: r.Method, path: r.URL.Path, request: s.newRequestID()}
	if r.Method == http.MethodPost {
		c.key = strings.TrimSpace(r.Header.Get("Idempotency-Key"))
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(token), []byte(s.cfg.SecretKey)) != 1 {
		return c, &apiError{Status: http.StatusUnauthorized, Type: typeInvalid, Message: "Invalid API Key provided."}
	}
	c.route, c.id = findRoute(r.Method, strings.TrimPrefix(r.URL.Path, "/v1/"))
	if c.route == nil {
		return c, &apiError{Status: http.StatusNotFound, Type: typeInvalid,
			Message: "Unrecognized request URL (" + r.Method + ": " + r.URL.Path + ")."}
	}
	raw := r.URL.RawQuery
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(io.LimitReader(r.Body, bodyMax))
		if err != nil {
			return c, badParam("", "", "The request body could not be read.")
		}
		raw = string(body)
	}
	var err error
	if c.form, err = parseForm(raw); err != nil {
		return c, badParam("", "", "The parameters are not well formed.")
	}
	if name, bad := c.form.unknown(c.route.allowed); bad {
		return c, badParam("parameter_unknown", name, "Received unknown parameter: %.60s", name)
	}
	if len(c.key) > 255 {
		return c, badParam("", "", "Idempotency keys are at most 255 characters.")
	}
	if c.key != "" {
		c.digest = c.form.digest(c.path)
	}
	return c, nil
}

// findRoute matches "payment_intents", "payment_intents/pi_1" and "payment_intents/pi_1/confirm".
func findRoute(method, path string) (*route, string) {
	kind, rest, _ := strings.Cut(path, "/")
	id, step, _ := strings.Cut(rest, "/")
	pattern := method + " " + kind
	if id != "" {
		pattern += "/{id}"
	}
	if step != "" {
		pattern += "/" + step
	}
	return routes[pattern], id
}

// commit appends the effect of t to the journal and puts it in place. The
// caller holds the mutex; the effect is durable after the journal's next sync.
func (s *server) commit(t *tx) []*event {
	t.rec.Seq = s.store.seq
	s.journal.append(mustJSON(&t.rec))
	s.store.apply(&t.rec)
	return t.rec.Events
}

// begin starts an effect. The caller holds the mutex.
func (s *server) begin(request, key string) *tx {
	return &tx{now: time.Now(), newID: s.newID, wanted: s.wanted, window: s.cfg.CaptureWindow, request: request, key: key}
}

// newID issues an id that sorts after all before it. The caller holds the mutex.
func (s *server) newID(prefix string) string {
	s.store.seq++
	n := strconv.FormatInt(s.store.seq, 36)
	h := fnv.New64a()
	_, _ = h.Write(strconv.AppendUint(strconv.AppendInt(nil, s.store.seq, 10), s.cfg.Seed, 16))
	tail := strconv.FormatUint(h.Sum64(), 36)
	return prefix + "00000000"[:8-min(len(n), 8)] + n + tail
}

func (s *server) newRequestID() string {
	return "req_" + s.boot + strconv.FormatInt(s.requests.Add(1), 36)
}

// pause waits and reports whether the simulator still runs.
func (s *server) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stopping:
		return false
	}
}
