package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"usher"
	"usher/internal/account"
	"usher/internal/seatmap"
)

// addSeats documents the routes of the live picture; bare handlers answer them,
// since bodies are shared bytes and streams do not end.
func (s *Server) addSeats() {
	s.document(huma.Operation{
		OperationID: "getSeats", Method: http.MethodGet, Path: "/v1/events/{eventId}/seats", Tags: []string{"Seat map"},
		Summary:     "A snapshot of every seat",
		Description: "While the event has a queue, only an admitted buyer gets the live picture; everybody else gets one that is renewed every ten seconds. The picture is a hint and never confirms a sale. See docs/seat-map.md for its packing. An event without a chart has no picture: 404.",
		Parameters:  []*huma.Param{eventParam, admissionParam},
		Security:    []map[string][]string{{}, {string(buyers): {}}, {"buyerCookie": {}}},
	}, map[int]string{http.StatusOK: "application/json", http.StatusNotModified: ""})
	s.document(huma.Operation{
		OperationID: "streamSeats", Method: http.MethodGet, Path: "/v1/events/{eventId}/seats/stream", Tags: []string{"Seat map"},
		Summary:     "Changes of the seats as server-sent events",
		Description: "Continue from a snapshot with ?after=<seq>.<lapse>, or Last-Event-ID. Events: frame, reset (take a new snapshot), beat.",
		Parameters: []*huma.Param{eventParam, admissionParam,
			{Name: "after", In: "query", Schema: &huma.Schema{Type: huma.TypeString}}},
		Security: []map[string][]string{{}, {string(buyers): {}}, {"buyerCookie": {}}},
	}, map[int]string{http.StatusOK: "text/event-stream"})
	s.document(huma.Operation{
		OperationID: "getChart", Method: http.MethodGet, Path: "/v1/charts/{hash}", Tags: []string{"Seat map"},
		Summary:     "A venue's geometry",
		Description: "Immutable: the address is a hash of the content.",
		Parameters:  []*huma.Param{{Name: "hash", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}},
	}, map[int]string{http.StatusOK: "application/json", http.StatusNotModified: ""})
}

var eventParam = &huma.Param{Name: "eventId", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}

var admissionParam = &huma.Param{
	Name: "Usher-Admission", In: "header", Description: "The admission token, where the event requires admission",
	Schema: &huma.Schema{Type: huma.TypeString},
}

// viewer returns the event whose seats are asked for, and whether the caller is
// inside its shop.
func (s *Server) viewer(r *http.Request) (event usher.EventID, inside bool, err error) {
	if event, err = usher.ParseEventID(r.PathValue("eventId")); err != nil {
		return 0, false, err
	}
	if err = s.seated(r.Context(), event); err != nil {
		return 0, false, err
	}
	inside, err = s.insideShop(r, event)
	return event, inside, err
}

// getSeats answers a snapshot: the live one inside the shop, a slower one outside.
func (s *Server) getSeats(w http.ResponseWriter, r *http.Request) {
	event, inside, err := s.viewer(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	read, cache := s.deps.Seats.Outsider, "public, max-age=5, stale-while-revalidate=10, stale-if-error=60"
	if inside {
		read, cache = s.deps.Seats.Snapshot, "private, no-cache"
	}
	snapshot, err := read(r.Context(), event)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", cache)
	h.Set("Vary", "Authorization, Cookie, Usher-Admission")
	seatmap.ServeSnapshot(w, r, snapshot)
}

// streamSeats serves the live picture's changes until either side ends it.
func (s *Server) streamSeats(w http.ResponseWriter, r *http.Request) {
	event, inside, err := s.viewer(r)
	if err == nil && !inside {
		err = usher.Errorf(usher.CodeAdmissionRequired, "the live picture is for admitted buyers; take snapshots instead")
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if r.Method == http.MethodHead {
		// The headers are the whole answer.
		w.Header().Set("Content-Type", "text/event-stream")
		return
	}
	// A stream ends with the server as well as with its reader: a polite stop does
	// not wait for people to close their tabs.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)()
	stream, err := s.deps.Seats.Subscribe(ctx, event, seatmap.From(r))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	requestOf(ctx).stream = true
	s.metrics.inFlight.Dec()
	s.metrics.streams.Inc()
	defer func() {
		s.metrics.streams.Dec()
		s.metrics.inFlight.Inc()
	}()
	err = seatmap.Serve(w, r.WithContext(ctx), stream)
	if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		s.log.DebugContext(ctx, "stream ended", "request", requestOf(ctx).id, "event", event, "error", err)
	}
}

// seated refuses an event whose places are all without seats: it has no picture,
// and its entry says so by having no chart. A directory that is away refuses
// nothing: the picture has its own answer.
func (s *Server) seated(ctx context.Context, event usher.EventID) error {
	if e, err := s.deps.Catalog.Get(ctx, event); err == nil && !e.Seated() && e.Standing() > 0 {
		return usher.Errorf(usher.CodeNotFound, "this event has no seats and no seat map: its places are asked for by items")
	}
	return nil
}

// insideShop reports whether the request may see the live picture: the event has
// no queue, or the request carries an admission of its account. A credential that
// is there and wrong is refused rather than ignored, so that a client learns of
// it; the cookie, which a browser sends by itself, only grants.
func (s *Server) insideShop(r *http.Request, event usher.EventID) (bool, error) {
	if queued, err := s.queued(r.Context(), event); err != nil || !queued {
		return !queued, err
	}
	if text := r.Header.Get("Usher-Admission"); text != "" {
		session, err := s.session(r)
		if err != nil {
			return false, err
		}
		return true, s.enter(r, event, session, text)
	}
	cookie, err := r.Cookie(admissionCookieName)
	if err != nil {
		return false, nil
	}
	session, err := s.session(r)
	if err != nil {
		return false, nil
	}
	return s.enter(r, event, session, cookie.Value) == nil, nil
}

// enter verifies an admission without SQL and notes that the visit is used.
func (s *Server) enter(r *http.Request, event usher.EventID, who account.Session, token string) error {
	requestOf(r.Context()).account = who.Account
	visit, err := s.deps.Rooms.VerifyAdmission(token, event, who.Account)
	if err != nil {
		return err
	}
	s.deps.Rooms.Touch(visit, time.Time{})
	return nil
}

// getChart answers a venue's geometry, which never changes under its address.
func (s *Server) getChart(w http.ResponseWriter, r *http.Request) {
	hash := r.PathValue("hash")
	if strings.ContainsFunc(hash, func(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') }) {
		s.fail(w, r, usher.Errorf(usher.CodeNotFound, "no such chart"))
		return
	}
	chart, err := s.deps.Charts.ByHash(r.Context(), hash)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("ETag", `"`+chart.Hash()+`"`)
	h.Set("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == `"`+chart.Hash()+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "application/json")
	body := chart.Body()
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = chart.Gzip()
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		// A reader that went away is no failure of ours.
		_, _ = w.Write(body)
	}
}

// acceptsGzip reads Accept-Encoding; "gzip;q=0" is a no.
func acceptsGzip(r *http.Request) bool {
	for item := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		coding, params, _ := strings.Cut(item, ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			q := strings.ReplaceAll(params, " ", "")
			return q != "q=0" && !strings.HasPrefix(q, "q=0.0")
		}
	}
	return false
}
