package paysim_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"usher/internal/sim/paysim"
	"usher/internal/sim/paysim/paysimtest"
)

// child is a simulator in a process of its own.
type child struct {
	api
	cmd *exec.Cmd
}

func startChild(t *testing.T, dir, webhook string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, "PAYSIM_TEST_WEBHOOK_URL="+webhook)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd}
	t.Cleanup(c.kill)
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("child did not start: %v", err)
	}
	c.api = api{t, "http://" + strings.TrimSpace(addr)}
	return c
}

// kill is kill -9.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// A process killed in the middle of work comes back knowing all that it
// answered: objects, counts, and the answers kept under keys.
func TestKilledProcessKeepsItsLedger(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startChild(t, dir, "")
	type done struct{ key, id, confirmed string }
	var mu sync.Mutex
	var answered []done
	var calls sync.WaitGroup
	enough := make(chan struct{})
	for w := range 8 {
		calls.Go(func() {
			for i := 0; ; i++ {
				key := strconv.Itoa(w) + "." + strconv.Itoa(i)
				created, ok := try(c.url, "/v1/payment_intents", key+":create", "amount=5000&currency=usd&capture_method=manual&metadata[order_id]="+key)
				if !ok {
					return
				}
				var pi struct{ ID string }
				_ = json.Unmarshal([]byte(created), &pi)
				confirmed, ok := try(c.url, "/v1/payment_intents/"+pi.ID+"/confirm", key+":confirm", "payment_method=pm_card_visa")
				if !ok {
					return
				}
				mu.Lock()
				answered = append(answered, done{key, pi.ID, confirmed})
				if len(answered) == 100 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	<-enough
	c.kill()
	calls.Wait()

	sim := paysimtest.Start(t, func(cfg *paysim.Config) { cfg.DataDir = dir })
	byID := map[string]paysim.Intent{}
	for _, p := range sim.Ledger("").Intents {
		byID[p.ID] = p
	}
	for _, d := range answered {
		if got := byID[d.id]; got.Status != "requires_capture" || got.Authorizations != 1 || got.OrderID != d.key {
			t.Fatalf("%s answered, ledger has %+v", d.id, got)
		}
		replay, ok := try(sim.URL, "/v1/payment_intents/"+d.id+"/confirm", d.key+":confirm", "payment_method=pm_card_visa")
		if !ok || replay != d.confirmed {
			t.Fatalf("replay after the crash differs:\n%s\n%s", replay, d.confirmed)
		}
	}
	sim.CheckInvariants()
	// Ids go on behind the old ones: a list made now is in order.
	next := api{t, sim.URL}.create("")
	for id := range byID {
		if id >= next {
			t.Fatalf("new id %s does not sort after %s", next, id)
		}
	}
}

// pooled keeps a connection for every worker.
var pooled = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}

// try posts and reports whether an answer came.
func try(base, path, key, body string) (string, bool) {
	req, err := http.NewRequest(http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		return "", false
	}
	req.Header.Set("Authorization", "Bearer "+paysim.SecretKeyDefault)
	req.Header.Set("Idempotency-Key", key)
	res, err := pooled.Do(req)
	if err != nil {
		return "", false
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	return string(raw), err == nil && res.StatusCode == http.StatusOK
}

// Webhooks that were not acknowledged survive a kill and are sent by the next
// process; acknowledged ones are not.
func TestWebhooksSurviveAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var mu sync.Mutex
	accept := false
	got := map[string]int{}
	all := make(chan struct{}, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e struct{ Type string }
		_ = json.NewDecoder(r.Body).Decode(&e)
		mu.Lock()
		defer mu.Unlock()
		if !accept && e.Type == "payment_intent.succeeded" {
			w.WriteHeader(http.StatusServiceUnavailable)
			all <- struct{}{}
			return
		}
		got[e.Type]++
		all <- struct{}{}
	}))
	t.Cleanup(receiver.Close)
	c := startChild(t, dir, receiver.URL)
	id := c.authorize()
	c.post("/v1/payment_intents/"+id+"/capture", "")
	for range 3 { // capturable, captured, and the refused one
		<-all
	}
	// The two acknowledgements are on disk once a later answer has left.
	waitUndelivered(t, c.api, 1)
	c.create("")
	c.kill()

	mu.Lock()
	accept = true
	clear(got)
	mu.Unlock()
	sim := paysimtest.Start(t, func(cfg *paysim.Config) { cfg.DataDir, cfg.WebhookURL = dir, receiver.URL })
	waitUndelivered(t, api{t, sim.URL}, 0)
	mu.Lock()
	defer mu.Unlock()
	if got["payment_intent.succeeded"] != 1 || len(got) != 1 {
		t.Errorf("after the restart came %v", got)
	}
}

// waitUndelivered waits until so many events are not acknowledged.
func waitUndelivered(t *testing.T, a api, n int) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if len(a.get("/v1/events", "delivery_success=false").body["data"].([]any)) == n {
			return
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("undelivered events did not become ", n)
		}
	}
}

// A torn last line was never answered and is cut off; damage elsewhere is not passed over.
func TestTornTailAndDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := paysimtest.Start(t, func(c *paysim.Config) { c.DataDir = dir })
	id := api{t, first.URL}.authorize()
	first.Stop()
	file := filepath.Join(dir, "ledger.jsonl")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tail := range map[string]string{
		"half a line": `{"seq":99,"intent":{"id":"pi_torn"`,
		"a hole":      strings.Repeat("\x00", 40) + "\n",
	} {
		write(string(whole) + tail)
		sim := paysimtest.Start(t, func(c *paysim.Config) { c.DataDir = dir })
		if got := sim.Ledger("").Intents; len(got) != 1 || got[0].ID != id || got[0].Authorizations != 1 {
			t.Errorf("%s: ledger = %+v", name, got)
		}
		other := api{t, sim.URL}.authorize()
		sim.Stop()
		sim = paysimtest.Start(t, func(c *paysim.Config) { c.DataDir = dir })
		if got := sim.Intent(other); got.Authorizations != 1 {
			t.Errorf("%s: what was written behind the cut is lost: %+v", name, got)
		}
		sim.Stop()
	}
	write("not a record\n" + string(whole))
	if err := paysim.Run(t.Context(), paysim.Config{Addr: "127.0.0.1:0", DataDir: dir}); err == nil || !strings.Contains(err.Error(), "replay ledger at byte 0") {
		t.Errorf("damage in the middle: %v", err)
	}
}

func TestRunRefusesWhatCannotWork(t *testing.T) {
	sim, _ := start(t, nil)
	if err := paysim.Run(t.Context(), paysim.Config{Addr: "127.0.0.1:0", DataDir: sim.DataDir}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("second process on one directory: %v", err)
	}
	addr := strings.TrimPrefix(sim.URL, "http://")
	if err := paysim.Run(t.Context(), paysim.Config{Addr: addr, DataDir: t.TempDir()}); err == nil {
		t.Error("a taken port was accepted")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := paysim.Run(t.Context(), paysim.Config{Addr: "127.0.0.1:0", DataDir: file}); err == nil {
		t.Error("a file was accepted as data directory")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := paysim.Run(ctx, paysim.Config{Addr: "127.0.0.1:0", DataDir: t.TempDir()}); err != nil {
		t.Errorf("ended at once: %v", err)
	}
}
