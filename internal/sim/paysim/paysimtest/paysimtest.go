// Package paysimtest runs a payment simulator inside a test and talks to its
// control plane. Every helper fails the test on an error of its own.
package paysimtest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"usher/internal/sim/paysim"
)

// WebhookSecret is the secret that a started simulator signs webhooks with.
const WebhookSecret = "whsec_paysimtest"

// Sim is one running simulator. Its fields may be read; they do not change.
type Sim struct {
	// URL is its origin: the API's base URL.
	URL string
	// SecretKey is the API key it accepts.
	SecretKey string
	// DataDir holds its ledger, for another Start over the same data.
	DataDir string

	t    testing.TB
	stop func()
}

// Start runs a simulator until the test ends, or Stop. edit may be nil; what it
// leaves empty gets a value that suits a test: a free port, a temporary
// directory, a fixed seed, no webhooks.
func Start(t testing.TB, edit func(*paysim.Config)) *Sim {
	t.Helper()
	ready := make(chan string, 1)
	cfg := paysim.Config{Addr: "127.0.0.1:0", SecretKey: paysim.SecretKeyDefault, WebhookSecret: WebhookSecret, Seed: 1,
		Ready: func(addr string) { ready <- addr }}
	if edit != nil {
		edit(&cfg)
	}
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- paysim.Run(ctx, cfg) }()
	s := &Sim{SecretKey: cfg.SecretKey, DataDir: cfg.DataDir, t: t}
	select {
	case addr := <-ready:
		s.URL = "http://" + addr
	case err := <-ended:
		cancel()
		t.Fatalf("simulator did not start: %v", err)
	}
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("simulator ended with: %v", err)
		}
	}
	t.Cleanup(s.stop)
	return s
}

// Stop ends the simulator; its data stays.
func (s *Sim) Stop() { s.stop() }

// Fault sets rules that act until ClearFaults.
func (s *Sim) Fault(rules ...paysim.Rule) {
	s.t.Helper()
	s.Post("/control/faults", map[string]any{"rules": rules}, nil)
}

// ClearFaults takes all rules away.
func (s *Sim) ClearFaults() {
	s.t.Helper()
	s.do(http.MethodDelete, "/control/faults", nil, nil)
}

// Rules lists the rules with how often each fitted and acted.
func (s *Sim) Rules() []paysim.Rule {
	s.t.Helper()
	var out struct{ Rules []paysim.Rule }
	s.Get("/control/faults", &out)
	return out.Rules
}

// Ledger returns everything the simulator really did; of one order, or of all for "".
func (s *Sim) Ledger(order string) paysim.Ledger {
	s.t.Helper()
	var out paysim.Ledger
	s.Get("/control/ledger?order="+url.QueryEscape(order), &out)
	return out
}

// Intent returns one intent from the ledger.
func (s *Sim) Intent(id string) paysim.Intent {
	s.t.Helper()
	for _, p := range s.Ledger("").Intents {
		if p.ID == id {
			return p
		}
	}
	s.t.Fatalf("no intent %q in the ledger", id)
	return paysim.Intent{}
}

// Keys returns the idempotency keys that start with the prefix.
func (s *Sim) Keys(prefix string) []paysim.Key {
	s.t.Helper()
	var out struct{ Keys []paysim.Key }
	s.Get("/control/keys?prefix="+url.QueryEscape(prefix), &out)
	return out.Keys
}

// CheckInvariants fails the test with every broken invariant.
func (s *Sim) CheckInvariants() {
	s.t.Helper()
	var out paysim.Verdict
	s.Get("/control/invariants", &out)
	for _, v := range out.Violations {
		s.t.Errorf("invariant broken: %s: %s: %s", v.Invariant, v.Subject, v.Detail)
	}
}

// Decide passes or fails the challenge of an intent, as the buyer's browser
// would, and returns where the browser is sent.
func (s *Sim) Decide(intent, decision string) string {
	s.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.PostForm(s.URL+"/challenge/"+intent, url.Values{"decision": {decision}})
	if err != nil {
		s.t.Fatalf("decide challenge: %v", err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusSeeOther {
		s.t.Fatalf("decide challenge: %s", res.Status)
	}
	return res.Header.Get("Location")
}

// Get reads a page of the control plane into out.
func (s *Sim) Get(path string, out any) {
	s.t.Helper()
	s.do(http.MethodGet, path, nil, out)
}

// Post sends in to the control plane and reads the answer into out, if not nil.
func (s *Sim) Post(path string, in, out any) {
	s.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		s.t.Fatalf("encode for %s: %v", path, err)
	}
	s.do(http.MethodPost, path, body, out)
}

func (s *Sim) do(method, path string, body []byte, out any) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, s.URL+path, bytes.NewReader(body))
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	answer, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || res.StatusCode != http.StatusOK {
		s.t.Fatalf("%s %s: %s %s %v", method, path, res.Status, strings.TrimSpace(string(answer)), err)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(answer, out); err != nil {
		s.t.Fatalf("decode answer of %s: %v", path, err)
	}
}
