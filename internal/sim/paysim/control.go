package paysim

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// refundTick is how often refunds that change by themselves are looked at.
const refundTick = 200 * time.Millisecond

// outside routes everything that is not the provider's API.
func (s *server) outside() *http.ServeMux {
	m := http.NewServeMux()
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, map[string]bool{"ok": true}) })
	m.HandleFunc("GET /control/faults", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string][]Rule{"rules": s.faults.list()})
	})
	m.HandleFunc("POST /control/faults", s.addFaults)
	m.HandleFunc("DELETE /control/faults", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, map[string]int{"removed": s.faults.remove(r.URL.Query().Get("id"))})
	})
	m.HandleFunc("GET /control/ledger", s.showLedger)
	m.HandleFunc("GET /control/invariants", s.showInvariants)
	m.HandleFunc("GET /control/keys", s.showKeys)
	m.HandleFunc("DELETE /control/keys", s.pruneKeys)
	m.HandleFunc("POST /control/intents/{id}/expire", s.expireIntent)
	m.HandleFunc("POST /control/intents/{id}/cancel", s.staffCancel)
	m.HandleFunc("POST /control/webhooks/redeliver", s.redeliver)
	m.HandleFunc("GET /control/latency", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.latency.get()) })
	m.HandleFunc("POST /control/latency", s.setLatency)
	m.HandleFunc("GET /card", s.showCard)
	m.HandleFunc("POST /card", s.takeCard)
	m.HandleFunc("GET /challenge/{id}", s.showChallenge)
	m.HandleFunc("POST /challenge/{id}", s.decideChallenge)
	return m
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(mustJSON(v), '\n'))
}

func writeProblem(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]string{"error": message})
}

// readStrict decodes a control request; a field it does not know is a mistake.
func readStrict(r *http.Request, v any) error {
	d := json.NewDecoder(io.LimitReader(r.Body, bodyMax))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil && err != io.EOF {
		return err
	}
	return nil
}

// addFaults takes one rule, or several as {"rules": [...]}; all or none.
func (s *server) addFaults(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Rule
		Rules []Rule `json:"rules"`
	}
	if err := readStrict(r, &in); err != nil {
		writeProblem(w, http.StatusBadRequest, err.Error())
		return
	}
	rules := in.Rules
	if in.Action != "" {
		rules = append(rules, in.Rule)
	}
	for i := range rules {
		if err := rules[i].check(); err != nil {
			writeProblem(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	ids := []string{}
	for _, rule := range rules {
		if action(rule.Action) == actionRefuse {
			s.listener.refuse(fault{DelayMS: rule.DelayMS}.delay(time.Second))
			continue
		}
		ids = append(ids, s.faults.add(rule))
	}
	writeJSON(w, http.StatusOK, map[string][]string{"ids": ids})
}

// showKeys tells how often each key came, and what it keeps.
func (s *server) showKeys(w http.ResponseWriter, r *http.Request) {
	prefix := r.URL.Query().Get("prefix")
	s.mu.Lock()
	out := []Key{}
	for key, e := range s.store.keys {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		k := Key{Key: key, Path: e.path, Deliveries: e.deliveries, Running: e.running}
		if e.answer != nil {
			k.Status = e.answer.Status
		}
		out = append(out, k)
	}
	s.mu.Unlock()
	slices.SortFunc(out, func(a, b Key) int { return strings.Compare(a.Key, b.Key) })
	writeJSON(w, http.StatusOK, map[string][]Key{"keys": out})
}

// pruneKeys forgets every key that is not running, as the provider may after a day.
func (s *server) pruneKeys(w http.ResponseWriter, _ *http.Request) {
	s.change(w, func(t *tx) (int, any) {
		t.rec.PruneKeys = true
		return http.StatusOK, map[string]bool{"ok": true}
	})
}

// change makes an effect that no API call asked for, durable before the answer.
func (s *server) change(w http.ResponseWriter, run func(t *tx) (status int, body any)) {
	s.mu.Lock()
	t := s.begin("", "")
	status, body := run(t)
	var events []*event
	if t.rec.Intent != nil || t.rec.Refund != nil || t.rec.PruneKeys {
		events = s.commit(t)
	}
	s.mu.Unlock()
	if s.journal.sync() != nil {
		drop()
	}
	s.publish(events)
	writeJSON(w, status, body)
}

// expireIntent lets an authorization lapse, as its window's end would.
func (s *server) expireIntent(w http.ResponseWriter, r *http.Request) {
	s.change(w, func(t *tx) (int, any) {
		p := s.store.intents[r.PathValue("id")]
		switch {
		case p == nil:
			return http.StatusNotFound, map[string]string{"error": "no such intent"}
		case p.Status != statusNeedsCapture:
			return http.StatusConflict, map[string]string{"error": "nothing is authorized: " + p.Status}
		}
		next := p.edit()
		t.cancel(next, "automatic", true)
		return http.StatusOK, view(next)
	})
}

// staffCancel cancels an intent as somebody in the provider's dashboard would.
func (s *server) staffCancel(w http.ResponseWriter, r *http.Request) {
	s.change(w, func(t *tx) (int, any) {
		p := s.store.intents[r.PathValue("id")]
		switch {
		case p == nil:
			return http.StatusNotFound, map[string]string{"error": "no such intent"}
		case p.Status == statusSucceeded || p.Status == statusCanceled:
			return http.StatusConflict, map[string]string{"error": "cannot be canceled: " + p.Status}
		}
		next := p.edit()
		t.cancel(next, "requested_by_customer", false)
		return http.StatusOK, view(next)
	})
}

// redeliver sends events again, acknowledged or not: one by id, those of one
// intent, or all that the endpoint wants.
func (s *server) redeliver(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Event  string `json:"event"`
		Intent string `json:"intent"`
		Times  int    `json:"times"`
	}
	if err := readStrict(r, &in); err != nil {
		writeProblem(w, http.StatusBadRequest, err.Error())
		return
	}
	if s.cfg.WebhookURL == "" {
		writeProblem(w, http.StatusConflict, "no webhook address is set")
		return
	}
	s.mu.Lock()
	var again []*event
	for _, id := range s.store.eventOrder {
		e := s.store.events[id]
		if e.Wanted && (in.Event == "" || in.Event == id) && (in.Intent == "" || e.intent != nil && e.intent.ID == in.Intent) {
			again = append(again, e)
		}
	}
	s.mu.Unlock()
	for range max(in.Times, 1) {
		s.hooks.enqueue(again...)
	}
	writeJSON(w, http.StatusOK, map[string]int{"queued": len(again) * max(in.Times, 1)})
}

// setLatency takes a profile by name, or the numbers of one.
func (s *server) setLatency(w http.ResponseWriter, r *http.Request) {
	var in Latency
	if err := readStrict(r, &in); err != nil {
		writeProblem(w, http.StatusBadRequest, err.Error())
		return
	}
	if in.Profile != "" {
		p, known := profiles[in.Profile]
		if !known {
			writeProblem(w, http.StatusBadRequest, "unknown profile")
			return
		}
		in = p
	}
	s.latency.set(in)
	writeJSON(w, http.StatusOK, in)
}

// turnRefunds lets refunds that change by themselves do so, until ctx ends.
func (s *server) turnRefunds(ctx context.Context) {
	tick := time.NewTicker(refundTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var events []*event
		s.mu.Lock()
		for id := range s.store.turning {
			f := s.store.refunds[id]
			if f.TurnsAt > time.Now().UnixMilli() {
				continue
			}
			t := s.begin("", "")
			t.turnRefund(s.store.intents[f.Intent], f)
			events = append(events, s.commit(t)...)
		}
		s.mu.Unlock()
		if len(events) > 0 && s.journal.sync() == nil {
			s.publish(events)
		}
	}
}
