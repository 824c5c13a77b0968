package crowd

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// fakeSeller is an usher in memory, good enough for a crowd, that can be told to
// break a promise.
type fakeSeller struct {
	t *testing.T

	mu     sync.Mutex
	events []eventBody
	// taken are seats and left is stock, by event and name.
	taken map[[2]string]bool
	left  map[[2]string]int
	holds map[string]*fakeHold
	byKey map[string]string
	used  map[string]bool
	wants []map[string]any
	// breaks is the promise that is broken: one of the words below.
	breaks string
	// refuses is the code that every hold is refused with.
	refuses string
}

type fakeHold struct {
	event string
	seats []string
	items []item
}

const (
	sellsTwice   = "sells seats twice"
	oversells    = "oversells a tier"
	losesTicket  = "loses a ticket"
	otherTier    = "issues a ticket of another tier"
	sameCode     = "gives one code twice"
	opensTwice   = "opens the gate twice"
	grantsOthers = "holds other quantities than asked for"
	fakeRow      = 10
)

// newFakeSeller sells a seated event of 40 seats, a standing one of two tiers, and
// one with both.
func newFakeSeller(t *testing.T, breaks string) *fakeSeller {
	f := &fakeSeller{t: t, breaks: breaks, taken: map[[2]string]bool{}, left: map[[2]string]int{}, holds: map[string]*fakeHold{},
		byKey: map[string]string{}, used: map[string]bool{}}
	lawn, pit := tier{ID: "lawn", Kind: kindStanding, Capacity: 60}, tier{ID: "pit", Kind: kindStanding, Capacity: 12}
	seated := tier{ID: "stalls", Kind: "seated"}
	f.events = []eventBody{
		{EventID: "evt_1", Sale: "open", Seats: 40, PurchaseLimit: 6, Tiers: []tier{seated}},
		{EventID: "evt_2", Sale: "open", Standing: 72, PurchaseLimit: 6, Tiers: []tier{lawn, pit}},
		{EventID: "evt_3", Sale: "open", Seats: 40, Standing: 60, PurchaseLimit: 3, Tiers: []tier{seated, lawn}},
		{EventID: "evt_4", Sale: "paused", Seats: 40, PurchaseLimit: 6, Tiers: []tier{seated}},
	}
	for _, e := range f.events {
		for _, k := range e.Tiers {
			f.left[[2]string{e.EventID, k.ID}] = k.Capacity
		}
	}
	return f
}

func (f *fakeSeller) start() string {
	m := http.NewServeMux()
	route := func(pattern string, fn func(r *http.Request, in map[string]any) (int, any)) {
		m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			in := map[string]any{}
			_ = json.NewDecoder(r.Body).Decode(&in)
			status, out := fn(r, in)
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(out)
		})
	}
	route("GET /v1/events", func(*http.Request, map[string]any) (int, any) { return 200, map[string]any{"events": f.stocked()} })
	route("GET /v1/events/{event}", func(r *http.Request, _ map[string]any) (int, any) {
		for _, e := range f.stocked() {
			if e.EventID == r.PathValue("event") {
				return 200, e
			}
		}
		return refused(404, "not_found")
	})
	route("GET /v1/events/{event}/seats", f.snapshot)
	route("GET /v1/charts/{hash}", f.chart)
	route("POST /v1/events/{event}/holds", f.hold)
	route("DELETE /v1/holds/{hold}", f.release)
	route("POST /v1/holds/{hold}/checkout", func(r *http.Request, _ map[string]any) (int, any) {
		return 201, map[string]any{"orderId": "ord_" + r.PathValue("hold"), "orderStatus": "confirmed"}
	})
	route("GET /v1/orders/{order}/tickets", f.tickets)
	route("POST /v1/redemptions", f.claim)
	route("POST /v1/admin/buyer-sessions", func(_ *http.Request, in map[string]any) (int, any) {
		buyers := make([]map[string]string, int(in["count"].(float64)))
		for i := range buyers {
			buyers[i] = map[string]string{"token": fmt.Sprint("buyer", i)}
		}
		return 201, map[string]any{"buyers": buyers}
	})
	route("POST /v1/admin/events/{event}/devices", func(r *http.Request, _ map[string]any) (int, any) {
		return 201, map[string]string{"credential": "gate of " + r.PathValue("event")}
	})
	route("GET /v1/admin/events/{event}/tiers/{tier}/quota", f.quota)
	route("POST /v1/admin/audit", func(*http.Request, map[string]any) (int, any) { return 200, map[string]any{"violations": 0} })
	m.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, `usher_ledger_holds_expired_total 0`) })
	s := httptest.NewServer(m)
	f.t.Cleanup(s.Close)
	return s.URL
}

// quota counts what is gone as sold.
func (f *fakeSeller) quota(r *http.Request, _ map[string]any) (int, any) {
	for _, e := range f.events {
		for _, k := range e.Tiers {
			if e.EventID == r.PathValue("event") && k.ID == r.PathValue("tier") {
				left := f.left[[2]string{e.EventID, k.ID}]
				return 200, map[string]any{"buckets": []map[string]int{{"available": left, "held": 0, "sold": k.Capacity - left}}}
			}
		}
	}
	return refused(404, "not_found")
}

func refused(status int, code string) (int, any) { return status, map[string]any{"code": code} }

// stocked is the events with the words for what is left.
func (f *fakeSeller) stocked() []eventBody {
	out := make([]eventBody, len(f.events))
	for i, e := range f.events {
		e.Tiers = append([]tier(nil), e.Tiers...)
		for k := range e.Tiers {
			if e.Tiers[k].Kind != kindStanding {
				continue
			}
			e.Tiers[k].Stock = "many"
			if f.left[[2]string{e.EventID, e.Tiers[k].ID}] == 0 {
				e.Tiers[k].Stock = stockSoldOut
			}
		}
		out[i] = e
	}
	return out
}

func fakeSeat(i int) string { return fmt.Sprintf("S%02d", i) }

// snapshot has no answer for an event without seats: nobody may ask.
func (f *fakeSeller) snapshot(r *http.Request, _ map[string]any) (int, any) {
	id := r.PathValue("event")
	for _, e := range f.events {
		if e.EventID == id && e.Seats > 0 {
			states := make([]byte, (e.Seats+3)/4)
			for i := range e.Seats {
				if f.taken[[2]string{id, fakeSeat(i)}] {
					states[i>>2] |= 1 << (6 - 2*(i&3))
				}
			}
			return 200, snapshotBody{Chart: "c", Count: e.Seats, States: base64.StdEncoding.EncodeToString(states)}
		}
	}
	f.t.Errorf("somebody asks for the seats of %s", id)
	return refused(404, "not_found")
}

func (f *fakeSeller) chart(*http.Request, map[string]any) (int, any) {
	var rows []map[string]any
	for from := 0; from < 40; from += fakeRow {
		var seats []map[string]string
		for i := range fakeRow {
			seats = append(seats, map[string]string{"id": fakeSeat(from + i)})
		}
		rows = append(rows, map[string]any{"seats": seats})
	}
	return 200, map[string]any{"sections": []any{map[string]any{"rows": rows}}}
}

// hold grants all or nothing, and replays its key.
func (f *fakeSeller) hold(r *http.Request, in map[string]any) (int, any) {
	if f.refuses != "" {
		return refused(409, f.refuses)
	}
	event, key := r.PathValue("event"), r.Header.Get("Authorization")+fmt.Sprint(in["idempotencyKey"])
	if id := f.byKey[key]; id != "" {
		return 201, f.holdBody(id)
	}
	f.wants = append(f.wants, map[string]any{"event": event, "body": in})
	raw, _ := json.Marshal(in)
	var want struct {
		SeatIDs []string       `json:"seatIds"`
		Items   []item         `json:"items"`
		Best    map[string]int `json:"best"`
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		f.t.Errorf("hold %s: %v", raw, err)
	}
	h := &fakeHold{event: event, seats: want.SeatIDs, items: want.Items}
	for i := 0; i < 40 && len(h.seats) < want.Best["quantity"]; i++ {
		if !f.taken[[2]string{event, fakeSeat(i)}] {
			h.seats = append(h.seats, fakeSeat(i))
		}
	}
	short := len(h.seats) < want.Best["quantity"]
	for _, s := range h.seats {
		short = short || f.taken[[2]string{event, s}] && f.breaks != sellsTwice
	}
	for _, i := range h.items {
		short = short || f.left[[2]string{event, i.TierID}] < i.Quantity && f.breaks != oversells
	}
	if short {
		return refused(409, "seats_unavailable")
	}
	f.take(h)
	id := fmt.Sprint("hld_", len(f.byKey))
	f.byKey[key], f.holds[id] = id, h
	return 201, f.holdBody(id)
}

func (f *fakeSeller) take(h *fakeHold) {
	for _, s := range h.seats {
		f.taken[[2]string{h.event, s}] = f.breaks != sellsTwice
	}
	for _, i := range h.items {
		if f.breaks != oversells {
			f.left[[2]string{h.event, i.TierID}] -= i.Quantity
		}
	}
}

func (f *fakeSeller) holdBody(id string) any {
	h := f.holds[id]
	var seats []map[string]string
	for _, s := range h.seats {
		seats = append(seats, map[string]string{"seatId": s, "tierId": "stalls"})
	}
	items := append([]item(nil), h.items...)
	if f.breaks == grantsOthers && len(items) > 0 {
		items[0].Quantity++
	}
	return map[string]any{"holdId": id, "status": "held", "seats": seats, "items": items}
}

func (f *fakeSeller) release(r *http.Request, _ map[string]any) (int, any) {
	h := f.holds[r.PathValue("hold")]
	for _, s := range h.seats {
		delete(f.taken, [2]string{h.event, s})
	}
	for _, i := range h.items {
		f.left[[2]string{h.event, i.TierID}] += i.Quantity
	}
	return 200, map[string]any{}
}

func (f *fakeSeller) tickets(r *http.Request, _ map[string]any) (int, any) {
	id := strings.TrimPrefix(r.PathValue("order"), "ord_")
	h := f.holds[id]
	var out []ticketBody
	add := func(seat, tier string) {
		code := fmt.Sprintf("%s|%s|%d", h.event, id, len(out))
		if f.breaks == sameCode {
			code = h.event + "|the code"
		}
		out = append(out, ticketBody{SeatID: seat, TierID: tier, Code: code})
	}
	for _, s := range h.seats {
		add(s, "stalls")
	}
	for _, i := range h.items {
		for range i.Quantity {
			add("", i.TierID)
		}
	}
	switch last := &out[len(out)-1]; {
	case f.breaks == losesTicket:
		out = out[:len(out)-1]
	case f.breaks == otherTier && last.SeatID == "":
		last.TierID = "backstage"
	}
	return 200, map[string]any{"tickets": out}
}

// claim lets a code in once, at the gate of its own event.
func (f *fakeSeller) claim(r *http.Request, in map[string]any) (int, any) {
	code, tx := in["code"].(string), in["transactionId"].(string)
	event, _, _ := strings.Cut(code, "|")
	if r.Header.Get("Authorization") != "Bearer gate of "+event {
		return refused(409, "wrong_pool")
	}
	if f.used[code] && !f.used[code+tx] && f.breaks != opensTwice {
		return refused(409, "code_used")
	}
	f.used[code], f.used[code+tx] = true, true
	return 201, map[string]string{"redemptionId": "red " + code}
}
