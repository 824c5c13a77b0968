package bench

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"usher"
)

// hotServer is an usher with one seat too many, or another fault, to see that the
// figures tell.
type hotServer struct {
	// answer decides a hold of the phase (its idempotency key) from its number.
	answer func(phase string, n int, seats []usher.SeatID) (status int, granted []usher.SeatID)
	// violations is what the audit finds.
	violations int

	mu     sync.Mutex
	asked  map[string]int
	orders map[string]bool
	closed bool
}

func (h *hotServer) start(t *testing.T) Target {
	h.asked, h.orders = map[string]int{}, map[string]bool{}
	m := http.NewServeMux()
	fixed := func(pattern string, status int, body string) {
		m.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
	fixed("GET /healthz", 200, "ok")
	fixed("POST /v1/admin/events", 201, `{"event":{"eventId":"evt_7"}}`)
	for _, step := range []string{"PUT /v1/admin/events/evt_7/chart", "PUT /v1/admin/events/evt_7/prices", "POST /v1/admin/events/evt_7/publish",
		"POST /v1/admin/events/evt_7/open", "POST /v1/events/evt_7/queue"} {
		fixed(step, 200, "{}")
	}
	fixed("POST /v1/events/evt_7/queue/admit", 200, `{"admissionToken":"a"}`)
	m.HandleFunc("POST /v1/admin/buyer-sessions", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Count int }
		_ = json.NewDecoder(r.Body).Decode(&in)
		_ = json.NewEncoder(w).Encode(map[string]any{"buyers": make([]struct{ Token string }, in.Count)})
	})
	m.HandleFunc("POST /v1/admin/events/evt_7/close", func(http.ResponseWriter, *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.closed = true
	})
	m.HandleFunc("POST /v1/admin/audit", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]int{"violations": h.violations})
	})
	m.HandleFunc("POST /v1/events/evt_7/holds", h.hold)
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	return Target{URL: s.URL, AdminToken: "usk_x"}
}

func (h *hotServer) hold(w http.ResponseWriter, r *http.Request) {
	var in struct {
		SeatIDs        []usher.SeatID
		IdempotencyKey string
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	h.mu.Lock()
	n := h.asked[in.IdempotencyKey]
	h.asked[in.IdempotencyKey]++
	var order strings.Builder
	for _, s := range in.SeatIDs {
		order.WriteString(string(s))
	}
	h.orders[order.String()] = true
	h.mu.Unlock()
	status, granted := h.answer(in.IdempotencyKey, n, in.SeatIDs)
	w.WriteHeader(status)
	var seats []map[string]usher.SeatID
	for _, s := range granted {
		seats = append(seats, map[string]usher.SeatID{"seatId": s})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"seats": seats})
}

// A good server has one winner a phase; all six orders of the three seats are
// asked for.
func TestHotseat(t *testing.T) {
	h := &hotServer{answer: func(_ string, n int, seats []usher.SeatID) (int, []usher.SeatID) {
		if n == 17 {
			return 201, seats
		}
		return 409, nil
	}}
	r, err := Hotseat(t.Context(), h.start(t), 60)
	if err != nil {
		t.Fatal(err)
	}
	if r.Clients != 60 || r.Connections != 60 || r.Winners != 1 || r.InstantWinners != 1 || r.GroupWinners != 1 || r.GroupBroken != 0 ||
		r.Errors5xx+r.InstantErrors5xx+r.GroupErrors5xx+r.Failed != 0 || r.P99Ms < r.P50Ms || r.InstantP99Ms <= 0 || r.GroupP99Ms <= 0 {
		t.Errorf("%+v", r)
	}
	if len(h.orders) != 2+6 || len(h.asked) != 3 || !h.closed {
		t.Errorf("%d orders in %d phases were asked for, sale closed: %v", len(h.orders), len(h.asked), h.closed)
	}
}

// Each fault of a server shows in a figure of its own.
func TestHotseatTells(t *testing.T) {
	h := &hotServer{violations: 2, answer: func(phase string, n int, seats []usher.SeatID) (int, []usher.SeatID) {
		switch {
		case n < 2 && phase == "hot3":
			return 201, seats[:1] // a part of the group
		case n < 2:
			return 201, seats
		case n == 2 && phase == "hot1":
			return 503, nil
		case n < 6 && phase == "hot2":
			return 500, nil
		case n == 6:
			return 418, nil
		}
		return 409, nil
	}}
	r, err := Hotseat(t.Context(), h.start(t), 12)
	if err != nil {
		t.Fatal(err)
	}
	if r.Winners != 2 || r.InstantWinners != 2 || r.GroupWinners != 0 || r.GroupBroken != 2 || r.Errors5xx != 1 || r.InstantErrors5xx != 4 ||
		r.GroupErrors5xx != 0 || r.Failed != 3 || r.AuditViolations != 2 || r.FirstError == "" {
		t.Errorf("%+v", r)
	}
}

// Failures are told by route, without ids.
func TestRouteOf(t *testing.T) {
	if got := routeOf("/v1/events/evt_12/holds"); got != "/v1/events/.../holds" {
		t.Errorf("%s", got)
	}
}

// So many accounts do not meet the limit of 20 at once and 2 a second.
func TestBuyersFor(t *testing.T) {
	for rate, want := range map[float64]int{1: 1, 480: 148} {
		if got := buyersFor(rate, 10e9); got < want || got > want+1 {
			t.Errorf("%v a second for 10 s after the warm-up: %d buyers, want %d", rate, got, want)
		}
	}
}
