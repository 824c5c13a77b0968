package paysim

import "maps"

// event is something that happened, with the versions of the objects it is
// about. It is what GET /v1/events lists and what a webhook carries.
type event struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Created int64  `json:"created"`
	// About says which object data.object is: "intent", "charge", "refund", "dispute".
	About   string `json:"about"`
	Charge  string `json:"charge,omitempty"`
	Request string `json:"request,omitempty"`
	Key     string `json:"key,omitempty"`
	// Wanted: the endpoint subscribes to it, so it is delivered until acknowledged.
	Wanted bool `json:"wanted,omitempty"`

	intent    *intent
	refund    *refund
	delivered bool
	attempts  int
}

// storedAnswer is what an idempotency key gives back.
type storedAnswer struct {
	Key     string    `json:"key"`
	Path    string    `json:"path"`
	Digest  string    `json:"digest"`
	Request string    `json:"request"`
	Created int64     `json:"created"`
	Status  int       `json:"status"`
	Intent  string    `json:"intent,omitempty"`
	Refund  string    `json:"refund,omitempty"`
	Expand  bool      `json:"expand,omitempty"`
	Err     *apiError `json:"err,omitempty"`

	intent *intent
	refund *refund
}

// keyEntry is what is known of one idempotency key. Deliveries is counted in
// memory only: it tells a test how often a request really came.
type keyEntry struct {
	running    bool
	digest     string
	path       string
	deliveries int
	answer     *storedAnswer
}

// record is one line of the journal: one request's whole effect, or a note on
// webhook delivery. Applying the lines in order rebuilds the store.
type record struct {
	Seq       int64         `json:"seq"`
	Intent    *intent       `json:"intent,omitempty"`
	Refund    *refund       `json:"refund,omitempty"`
	Events    []*event      `json:"events,omitempty"`
	Answer    *storedAnswer `json:"answer,omitempty"`
	Delivered string        `json:"delivered,omitempty"`
	PruneKeys bool          `json:"pruneKeys,omitempty"`
}

// store is everything the simulator knows, in memory. The server's mutex guards it.
type store struct {
	intents     map[string]*intent
	intentOrder []string
	charges     map[string]string // charge id -> intent id
	chargeOrder []string
	refunds     map[string]*refund
	refundOrder []string
	refundsOf   map[string][]string // intent id -> refund ids
	turning     map[string]bool     // refunds that will change by themselves
	events      map[string]*event
	eventOrder  []string
	keys        map[string]*keyEntry
	seq         int64
}

func newStore() *store {
	return &store{
		intents: map[string]*intent{}, charges: map[string]string{}, refunds: map[string]*refund{},
		refundsOf: map[string][]string{}, turning: map[string]bool{}, events: map[string]*event{}, keys: map[string]*keyEntry{},
	}
}

// apply puts a record's versions in place. It is the only way the store
// changes, live and at replay.
func (s *store) apply(r *record) {
	s.seq = max(s.seq, r.Seq)
	if r.PruneKeys {
		maps.DeleteFunc(s.keys, func(_ string, e *keyEntry) bool { return !e.running })
	}
	if r.Intent != nil {
		s.putIntent(r.Intent)
	}
	if r.Refund != nil {
		s.putRefund(r.Refund)
	}
	for _, e := range r.Events {
		e.intent, e.refund = r.Intent, r.Refund
		s.events[e.ID] = e
		s.eventOrder = append(s.eventOrder, e.ID)
	}
	if r.Answer != nil {
		s.putAnswer(r.Answer)
	}
	if e := s.events[r.Delivered]; e != nil {
		e.delivered = true
	}
}

func (s *store) putIntent(p *intent) {
	if _, known := s.intents[p.ID]; !known {
		s.intentOrder = append(s.intentOrder, p.ID)
	}
	s.intents[p.ID] = p
	for i := range p.Charges {
		id := p.Charges[i].ID
		if _, known := s.charges[id]; !known {
			s.charges[id] = p.ID
			s.chargeOrder = append(s.chargeOrder, id)
		}
	}
}

func (s *store) putRefund(r *refund) {
	if _, known := s.refunds[r.ID]; !known {
		s.refundOrder = append(s.refundOrder, r.ID)
		s.refundsOf[r.Intent] = append(s.refundsOf[r.Intent], r.ID)
	}
	s.refunds[r.ID] = r
	delete(s.turning, r.ID)
	if r.TurnsTo != "" {
		s.turning[r.ID] = true
	}
}

func (s *store) putAnswer(a *storedAnswer) {
	a.intent, a.refund = s.intents[a.Intent], s.refunds[a.Refund]
	entry := s.keys[a.Key]
	if entry == nil {
		entry = &keyEntry{digest: a.Digest, path: a.Path, deliveries: 1}
		s.keys[a.Key] = entry
	}
	entry.running, entry.answer = false, a
}

// undelivered lists the events that the endpoint has not acknowledged, oldest first.
func (s *store) undelivered() []*event {
	var out []*event
	for _, id := range s.eventOrder {
		if e := s.events[id]; e.Wanted && !e.delivered {
			out = append(out, e)
		}
	}
	return out
}
