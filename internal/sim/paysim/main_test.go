package paysim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"usher/internal/sim/paysim"
	"usher/internal/sim/paysim/paysimtest"
)

// childDir in the environment makes the test binary run as a simulator, so that
// a test can kill a real process.
const childDir = "PAYSIM_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	dir := os.Getenv(childDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	err := paysim.Run(context.Background(), paysim.Config{Addr: "127.0.0.1:0", DataDir: dir, Seed: 1,
		WebhookURL: os.Getenv("PAYSIM_TEST_WEBHOOK_URL"), WebhookSecret: paysimtest.WebhookSecret,
		Ready: func(addr string) { fmt.Println(addr) }})
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// response is one answer of the API, decoded as far as tests look.
type response struct {
	status int
	header http.Header
	raw    string
	body   map[string]any
}

func (r response) str(path ...string) string {
	var v any = r.body
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return ""
		}
		v = m[p]
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// api calls the simulator as any HTTP client would: params are "name=value" pairs.
type api struct {
	t   testing.TB
	url string
}

func (a api) post(path, key string, params ...string) response {
	a.t.Helper()
	return a.send(http.MethodPost, path, key, params)
}

func (a api) get(path string, params ...string) response {
	a.t.Helper()
	return a.send(http.MethodGet, path, "", params)
}

func (a api) send(method, path, key string, params []string) response {
	a.t.Helper()
	form := url.Values{}
	for _, p := range params {
		k, v, _ := strings.Cut(p, "=")
		form.Add(k, v)
	}
	target, body := a.url+path, io.Reader(http.NoBody)
	if method == http.MethodPost {
		body = strings.NewReader(form.Encode())
	} else if len(form) > 0 {
		target += "?" + form.Encode()
	}
	req, err := http.NewRequestWithContext(a.t.Context(), method, target, body)
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+paysim.SecretKeyDefault)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatalf("%s %s: %v", method, path, err)
	}
	raw, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		a.t.Fatalf("%s %s: %v", method, path, err)
	}
	out := response{status: res.StatusCode, header: res.Header, raw: string(raw)}
	if err := json.Unmarshal(raw, &out.body); err != nil {
		a.t.Fatalf("%s %s: %v: %s", method, path, err, raw)
	}
	return out
}

// create makes an intent with manual capture and returns its id.
func (a api) create(key string, params ...string) string {
	a.t.Helper()
	r := a.post("/v1/payment_intents", key, append([]string{"amount=5000", "currency=usd", "capture_method=manual"}, params...)...)
	if r.status != http.StatusOK {
		a.t.Fatalf("create: %d %s", r.status, r.raw)
	}
	return r.str("id")
}

// authorize makes an intent and confirms it with an approved card.
func (a api) authorize(params ...string) string {
	a.t.Helper()
	id := a.create("", params...)
	if r := a.post("/v1/payment_intents/"+id+"/confirm", "", "payment_method=pm_card_visa"); r.str("status") != "requires_capture" {
		a.t.Fatalf("confirm: %d %s", r.status, r.raw)
	}
	return id
}

func start(t *testing.T, edit func(*paysim.Config)) (*paysimtest.Sim, api) {
	t.Helper()
	t.Parallel()
	sim := paysimtest.Start(t, edit)
	return sim, api{t, sim.URL}
}
