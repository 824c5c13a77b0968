package paysim

import (
	"fmt"
	"net/http"
)

// Intent is one intent as the control plane shows it: what was really done.
// Amounts are in the wire's units.
type Intent struct {
	ID             string `json:"id"`
	Status         string `json:"status"`
	OperationID    string `json:"operationId,omitempty"`
	OrderID        string `json:"orderId,omitempty"`
	EventID        string `json:"eventId,omitempty"`
	Amount         int64  `json:"amount"`
	Currency       string `json:"currency"`
	PaymentMethod  string `json:"paymentMethod,omitempty"`
	CancelReason   string `json:"cancelReason,omitempty"`
	Attempts       int    `json:"attempts"`
	Authorizations int    `json:"authorizations"`
	Captures       int    `json:"captures"`
	Voids          int    `json:"voids"`
	Refunds        int    `json:"refunds"`
	Authorized     int64  `json:"authorized"`
	Captured       int64  `json:"captured"`
	Refunded       int64  `json:"refunded"`
}

// Event is one event as the control plane shows it.
type Event struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Intent    string `json:"intent,omitempty"`
	Wanted    bool   `json:"wanted"`
	Delivered bool   `json:"delivered"`
	// Attempts counts deliveries since the process started.
	Attempts int `json:"attempts"`
}

// Key is one idempotency key as the control plane shows it.
type Key struct {
	Key  string `json:"key"`
	Path string `json:"path"`
	// Deliveries counts how often a request with the key came since the process started.
	Deliveries int  `json:"deliveries"`
	Running    bool `json:"running"`
	// Status is that of the kept answer, 0 if none is kept.
	Status int `json:"status"`
}

// Ledger is everything that the simulator really did.
type Ledger struct {
	Intents []Intent `json:"intents"`
	Events  []Event  `json:"events"`
	Totals  Totals   `json:"totals"`
}

// Totals sums a ledger up.
type Totals struct {
	Intents        int `json:"intents"`
	Authorizations int `json:"authorizations"`
	Captures       int `json:"captures"`
	Voids          int `json:"voids"`
	Refunds        int `json:"refunds"`
	// Open is how many intents hold an authorization right now.
	Open int `json:"open"`
	// Undelivered is how many wanted events are not acknowledged.
	Undelivered int `json:"undelivered"`
}

// Violation is one broken invariant.
type Violation struct {
	Invariant string `json:"invariant"`
	Subject   string `json:"subject"`
	Detail    string `json:"detail"`
}

// Verdict is the answer of GET /control/invariants.
type Verdict struct {
	OK         bool        `json:"ok"`
	Violations []Violation `json:"violations"`
}

// view shows one intent.
func view(p *intent) Intent {
	v := Intent{ID: p.ID, Status: p.Status, OperationID: p.Metadata["operation_id"], OrderID: p.Metadata["order_id"],
		EventID: p.Metadata["event_id"], Amount: p.Amount, Currency: p.Currency, PaymentMethod: p.PaymentMethod,
		CancelReason: p.CancelReason, Attempts: len(p.Charges), Authorizations: p.Authorizations, Captures: p.Captures,
		Voids: p.Voids, Refunds: p.Refunds}
	for _, c := range p.Charges {
		if c.Paid {
			v.Authorized += c.Amount
			v.Captured += c.Captured
			v.Refunded += c.Refunded
		}
	}
	return v
}

// showLedger lists the ledger, of one order or operation if asked; with
// totals=1 only the sums.
func (s *server) showLedger(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	order, operation := q.Get("order"), q.Get("operation")
	out := Ledger{Intents: []Intent{}, Events: []Event{}}
	s.mu.Lock()
	shown := map[string]bool{}
	for _, id := range s.store.intentOrder {
		v := view(s.store.intents[id])
		if order != "" && v.OrderID != order || operation != "" && v.OperationID != operation {
			continue
		}
		shown[id] = true
		out.Totals.add(v)
		if q.Get("totals") == "" {
			out.Intents = append(out.Intents, v)
		}
	}
	for _, id := range s.store.eventOrder {
		e := s.store.events[id]
		if e.intent == nil || !shown[e.intent.ID] {
			continue
		}
		if e.Wanted && !e.delivered {
			out.Totals.Undelivered++
		}
		if q.Get("totals") == "" {
			out.Events = append(out.Events, Event{e.ID, e.Type, e.intent.ID, e.Wanted, e.delivered, e.attempts})
		}
	}
	s.mu.Unlock()
	if s.journal.sync() != nil {
		drop()
	}
	writeJSON(w, http.StatusOK, out)
}

func (t *Totals) add(v Intent) {
	t.Intents++
	t.Authorizations += v.Authorizations
	t.Captures += v.Captures
	t.Voids += v.Voids
	t.Refunds += v.Refunds
	if v.Status == statusNeedsCapture {
		t.Open++
	}
}

// showInvariants judges the whole ledger.
func (s *server) showInvariants(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	views := make([]Intent, 0, len(s.store.intentOrder))
	for _, id := range s.store.intentOrder {
		views = append(views, view(s.store.intents[id]))
	}
	s.mu.Unlock()
	found := judge(views)
	writeJSON(w, http.StatusOK, Verdict{OK: len(found) == 0, Violations: found})
}

// judge names everything in a ledger that must never be. Intents without an
// order are judged alone.
func judge(views []Intent) []Violation {
	found := []Violation{}
	captured, live := map[string]int{}, map[string]int{}
	for _, v := range views {
		if v.Captured > v.Authorized {
			found = append(found, Violation{"captured <= authorized", v.ID, fmt.Sprintf("%d > %d", v.Captured, v.Authorized)})
		}
		if v.Refunded > v.Captured {
			found = append(found, Violation{"refunded <= captured", v.ID, fmt.Sprintf("%d > %d", v.Refunded, v.Captured)})
		}
		if v.Captures > 1 || v.Authorizations > 1 {
			found = append(found, Violation{"one authorization and one capture per intent", v.ID,
				fmt.Sprintf("%d authorizations, %d captures", v.Authorizations, v.Captures)})
		}
		if v.OrderID == "" {
			continue
		}
		if v.Captured > 0 {
			captured[v.OrderID]++
			if captured[v.OrderID] == 2 {
				found = append(found, Violation{"one captured charge per order", v.OrderID, "second: " + v.ID})
			}
		}
		// Money held for an order: authorized and open, or captured and not given back.
		if v.Status == statusNeedsCapture || v.Captured > v.Refunded {
			live[v.OrderID]++
			if live[v.OrderID] == 2 {
				found = append(found, Violation{"one live authorization per order", v.OrderID, "second: " + v.ID})
			}
		}
	}
	return found
}
