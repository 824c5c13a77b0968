package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"usher"
	"usher/internal/pg/pgtest"
)

func TestMain(m *testing.M) {
	if os.Getenv(runUsherEnv) != "" {
		// Children of this process are usher, too.
		main()
	}
	pgtest.Main(m)
}

// until is how long anything in these tests may take: a cluster is made and
// 50,000 seats are loaded under the race detector on a busy machine.
const until = 3 * time.Minute

// running is a demo as its own process.
type running struct {
	demoReady
	cmd *exec.Cmd
	log *bytes.Buffer
}

// startDemo starts the real thing on a data folder and waits for its line.
func startDemo(t *testing.T, dir string, args ...string) *running {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatalf("find binary: %v", err)
	}
	r := &running{cmd: exec.Command(own, append([]string{"demo", "--json", "--addr", "127.0.0.1:0", "--data-dir", dir}, args...)...), log: &bytes.Buffer{}}
	r.cmd.Env = append(os.Environ(), runUsherEnv+"=1")
	r.cmd.Stderr = r.log
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("pipe: %v", err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			_ = r.cmd.Process.Kill()
			_ = r.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("log of the demo:\n%s", r.log)
		}
	})
	line := make(chan []byte, 1)
	go func() {
		b, _ := bufio.NewReader(stdout).ReadBytes('\n')
		line <- b
	}()
	select {
	case b := <-line:
		if err := json.Unmarshal(b, &r.demoReady); err != nil {
			_ = r.cmd.Wait()
			t.Fatalf("the demo prints %q: %v\n%s", b, err, r.log)
		}
	case <-time.After(until):
		t.Fatalf("the demo is not up after %v\n%s", until, r.log)
	}
	return r
}

// stop asks the demo to end and returns its exit code.
func (r *running) stop(t *testing.T, s os.Signal) int {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal: %v", err)
	}
	err := r.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("wait: %v", err)
	}
	return r.cmd.ProcessState.ExitCode()
}

// caller is one person or machine at the API.
type caller struct {
	t           *testing.T
	base, token string
}

// got is an answer with its body as JSON.
type got struct {
	status int
	header http.Header
	raw    []byte
	body   map[string]any
}

func (g got) text(key string) string {
	s, _ := g.body[key].(string)
	return s
}

func (c caller) do(method, path string, body any, headers ...string) got {
	c.t.Helper()
	var reader io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			c.t.Fatalf("encode: %v", err)
		}
		reader = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, reader)
	if err != nil {
		c.t.Fatalf("request: %v", err)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	g := got{status: resp.StatusCode, header: resp.Header}
	if g.raw, err = io.ReadAll(resp.Body); err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	_ = json.Unmarshal(g.raw, &g.body)
	return g
}

// must is do for what has to succeed.
func (c caller) must(status int, method, path string, body any, headers ...string) got {
	c.t.Helper()
	g := c.do(method, path, body, headers...)
	if g.status != status {
		c.t.Fatalf("%s %s answers %d %s, want %d", method, path, g.status, g.raw, status)
	}
	return g
}

// poll repeats a read until it is as wanted.
func (c caller) poll(path string, wanted func(got) bool) got {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), until)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		g := c.do("GET", path, nil)
		if wanted(g) {
			return g
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.t.Fatalf("GET %s is still %d %s", path, g.status, g.raw)
		}
	}
}

var sixDigits = regexp.MustCompile(`\b\d{6}\b`)

// signIn takes the code from the mail catcher, as a person does.
func (r *running) signIn(t *testing.T, email string) caller {
	t.Helper()
	c, mails := caller{t: t, base: r.URL}, caller{t: t, base: r.MailURL}
	c.must(202, "POST", "/v1/session/code", map[string]string{"email": email})
	list := mails.must(200, "GET", "/mails?wait=20&limit=1&to="+url.QueryEscape(email), nil)
	found, _ := list.body["mails"].([]any)
	if len(found) == 0 {
		t.Fatalf("no mail for %s: %s", email, list.raw)
	}
	id := fmt.Sprint(found[0].(map[string]any)["id"])
	code := sixDigits.FindString(mails.must(200, "GET", "/mails/"+id, nil).text("text"))
	signed := c.must(201, "POST", "/v1/session", map[string]string{"email": email, "code": code})
	if !strings.Contains(signed.header.Get("Set-Cookie"), "HttpOnly") {
		t.Errorf("the session's cookie is %q", signed.header.Get("Set-Cookie"))
	}
	c.token = signed.text("token")
	return c
}

// buy walks from the queue to captured tickets and returns the order and its codes.
func (r *running) buy(t *testing.T, buyer caller, event demoEvent, seats []string, key string) (order string, codes []string) {
	t.Helper()
	return r.buyPlaces(t, buyer, event, map[string]any{"seatIds": seats}, len(seats), key)
}

// buyPlaces is buy for whatever a hold can ask for.
func (r *running) buyPlaces(t *testing.T, buyer caller, event demoEvent, hold map[string]any, places int, key string) (order string, codes []string) {
	t.Helper()
	path := "/v1/events/" + event.EventID.String()
	hold["idempotencyKey"] = key
	if event.Queue {
		if g := buyer.do("POST", path+"/holds", hold); g.status != 403 || g.text("code") != string(usher.CodeAdmissionRequired) {
			t.Errorf("hold without admission: %d %s", g.status, g.raw)
		}
		hold["admissionToken"] = r.admit(t, buyer, path)
	}
	first := buyer.must(201, "POST", path+"/holds", hold)
	again := buyer.must(201, "POST", path+"/holds", hold)
	if !bytes.Equal(first.raw, again.raw) || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("replay of the hold: %s %v, first %s", again.raw, again.header, first.raw)
	}
	pay := map[string]string{"paymentMethodToken": "pm_card_visa", "idempotencyKey": key}
	order = buyer.must(201, "POST", "/v1/holds/"+first.text("holdId")+"/checkout", pay).text("orderId")
	buyer.poll("/v1/orders/"+order, func(g got) bool { return g.text("orderStatus") == "confirmed" && g.text("capturedAt") != "" })
	tickets := buyer.poll("/v1/orders/"+order+"/tickets", func(g got) bool {
		list, _ := g.body["tickets"].([]any)
		return len(list) == places
	})
	for _, k := range tickets.body["tickets"].([]any) {
		ticket := k.(map[string]any)
		codes = append(codes, ticket["code"].(string))
		svg := buyer.must(200, "GET", "/v1/orders/"+order+"/tickets/"+ticket["ticketId"].(string)+"/qr.svg", nil)
		if !bytes.HasPrefix(svg.raw, []byte("<svg")) {
			t.Errorf("the ticket's picture is %.40q", svg.raw)
		}
	}
	return order, codes
}

// admit joins the queue, waits for the turn by the shared document, and enters.
func (r *running) admit(t *testing.T, buyer caller, path string) string {
	t.Helper()
	buyer.must(200, "POST", path+"/queue", nil)
	place := buyer.poll(path+"/queue/me", func(g got) bool { return g.body["number"] != nil })
	if place.text("status") != "admitted" {
		caller{t: t, base: r.URL}.poll(path+"/queue/now", func(g got) bool {
			serving, _ := g.body["serving"].(float64)
			return serving > place.body["number"].(float64)
		})
	}
	return buyer.must(200, "POST", path+"/queue/admit", nil).text("admissionToken")
}

// freeSeats returns n seats of the event's chart, from its end.
func (r *running) freeSeats(t *testing.T, event demoEvent, n int) []string {
	t.Helper()
	c := caller{t: t, base: r.URL}
	hash := c.must(200, "GET", "/v1/events/"+event.EventID.String(), nil).text("chart")
	g := c.must(200, "GET", "/v1/charts/"+hash, nil)
	if !strings.Contains(g.header.Get("Cache-Control"), "immutable") {
		t.Errorf("a chart has Cache-Control %q", g.header.Get("Cache-Control"))
	}
	var chart struct {
		Sections []struct {
			Rows []struct {
				Seats []struct{ ID string }
			}
		}
	}
	if err := json.Unmarshal(g.raw, &chart); err != nil {
		t.Fatalf("chart: %v", err)
	}
	var ids []string
	for _, s := range chart.Sections {
		for _, row := range s.Rows {
			for _, seat := range row.Seats {
				ids = append(ids, seat.ID)
			}
		}
	}
	if len(ids) != event.Seats {
		t.Errorf("the chart has %d seats, the demo says %d", len(ids), event.Seats)
	}
	return ids[len(ids)-n:]
}

// TestDemo is the promise of the demo: one command, from the first person in
// line to the gate, across a kill and a restart.
func TestDemo(t *testing.T) {
	dir := t.TempDir()
	// PostgreSQL runs as another user when the tests run as root.
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatalf("chmod: %v", err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatalf("chmod: %v", err)
	}
	r := startDemo(t, dir)
	if len(r.Events) != 4 || r.Events[0].Seats != 50_000 || !r.Events[0].Queue || r.Events[1].Queue || r.Events[2].Standing != 22_000 || r.Events[2].Seats != 0 || r.Events[3].Seats == 0 || r.Events[3].Standing == 0 {
		t.Fatalf("the demo sells %+v", r.Events)
	}
	arena, club := r.Events[0], r.Events[1]
	alice := r.signIn(t, "alice@example.com")
	order, codes := r.buy(t, alice, arena, r.freeSeats(t, arena, 2), "k-1")
	r.checkGate(t, codes)
	r.checkStream(t, club)
	r.checkForeign(t, order)
	r.checkPlaces(t, r.Events[2], r.Events[3])
	r.checkCommands(t)

	before := r.demoReady
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatalf("kill: %v", err)
	}
	_ = r.cmd.Wait()
	r = startDemo(t, dir)
	if r.AdminToken != before.AdminToken || r.DeviceCredential != before.DeviceCredential || !slices.Equal(r.Events, before.Events) {
		t.Errorf("after a kill the demo is %+v, was %+v", r.demoReady, before)
	}
	if r.URL != before.URL || r.MailURL != before.MailURL || r.SimulatorURL != before.SimulatorURL {
		t.Errorf("free ports are not taken again: %+v, was %+v", r.demoReady, before)
	}
	alice = caller{t: t, base: r.URL, token: alice.token}
	if g := alice.must(200, "GET", "/v1/orders/"+order, nil); g.text("orderStatus") != "confirmed" {
		t.Errorf("after a kill the order is %s", g.raw)
	}
	r.buy(t, alice, club, r.freeSeats(t, club, 1), "k-2")
	if !strings.Contains(string(caller{t: t, base: r.URL}.must(200, "GET", "/metrics", nil).raw), "usher_http_request_seconds") {
		t.Error("/metrics lacks the HTTP side")
	}
	if code := r.stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("a polite end exits with %d", code)
	}
	checkNothingRuns(t, dir)
}

// checkGate scans a ticket three ways: once in, the same scan again, another scan.
func (r *running) checkGate(t *testing.T, codes []string) {
	t.Helper()
	gate := caller{t: t, base: r.URL, token: r.DeviceCredential}
	scan := map[string]string{"code": " " + codes[0] + "\r\n", "transactionId": "t-1"}
	first := gate.must(201, "POST", "/v1/redemptions", scan)
	if first.text("status") != "used" {
		t.Errorf("the gate answers %s", first.raw)
	}
	again := gate.must(201, "POST", "/v1/redemptions", scan)
	if !bytes.Equal(first.raw, again.raw) || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the same scan answers %s %v", again.raw, again.header)
	}
	scan["transactionId"] = "t-2"
	if g := gate.do("POST", "/v1/redemptions", scan); g.status != 409 || g.text("code") != string(usher.CodeCodeUsed) {
		t.Errorf("another scan answers %d %s", g.status, g.raw)
	}
}

// checkStream holds a seat and sees it on the live picture; P79: the stream
// neither goes deaf nor keeps the process from ending.
func (r *running) checkStream(t *testing.T, event demoEvent) {
	t.Helper()
	path := "/v1/events/" + event.EventID.String()
	c := caller{t: t, base: r.URL}
	snapshot := c.must(200, "GET", path+"/seats", nil)
	if g := c.do("GET", path+"/seats", nil, "If-None-Match", snapshot.header.Get("Etag")); g.status != 304 && g.status != 200 {
		t.Errorf("snapshot known: %d", g.status)
	}
	after := fmt.Sprintf("%.0f.%.0f", snapshot.body["seq"], snapshot.body["lapse"])
	resp, err := http.Get(r.URL + path + "/seats/stream?after=" + after)
	if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("stream: %v %v", resp, err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	bob := r.signIn(t, "bob@example.com")
	bob.must(201, "POST", path+"/holds", map[string]any{"seatIds": r.freeSeats(t, event, 2)[:1], "idempotencyKey": "k-1"})
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		switch lines.Text() {
		case "event: frame":
			return
		case "event: reset":
			t.Fatal("a stream that continues from a fresh snapshot is reset")
		}
	}
	t.Fatalf("the stream ends without the change: %v", lines.Err())
}

// checkForeign asks for somebody else's order.
func (r *running) checkForeign(t *testing.T, order string) {
	t.Helper()
	mallory := r.signIn(t, "mallory@example.com")
	for _, path := range []string{"/v1/orders/" + order, "/v1/orders/" + order + "/tickets"} {
		if g := mallory.do("GET", path, nil); g.status != 404 {
			t.Errorf("GET %s of another answers %d %s", path, g.status, g.raw)
		}
	}
}

// checkCommands steers a sale with the commands, as an operator does.
func (r *running) checkCommands(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bar.csv")
	if err := os.WriteFile(file, []byte(barChart), 0o600); err != nil {
		t.Fatalf("write chart: %v", err)
	}
	r.usher(t, exitOK, "3 seats", "event", "import", file, "--slug", "bar", "--name", "Bar 酒吧", "--venue", "Back room",
		"--starts-at", "2027-03-01 20:00", "--time-zone", "Europe/Berlin", "--currency", "EUR", "--no-queue", "--price", "bar=1500")
	r.usher(t, exitOK, "Bar 酒吧", "event", "list")
	r.usher(t, exitOK, "published", "event", "publish", "evt_6", "--reason", "ready")
	admin := caller{t: t, base: r.URL, token: r.AdminToken}
	rules := func(status int, closes any) []byte {
		return admin.must(status, "PATCH", "/v1/admin/events/evt_6/rules", map[string]any{"rules": map[string]any{"saleClosesAt": closes}, "reason": "e2e"}).raw
	}
	rules(400, "2020-01-01T00:00:00Z")
	if raw := rules(200, "2030-01-01T00:00:00Z"); !bytes.Contains(raw, []byte(`"saleClosesAt":"2030-01-01T00:00:00Z"`)) {
		t.Errorf("the sale's end: %s", raw)
	}
	if raw := rules(200, nil); bytes.Contains(raw, []byte("saleClosesAt")) {
		t.Errorf("null does not take the sale's end away: %s", raw)
	}
	for _, move := range []struct{ verb, sale string }{{"open", "open"}, {"pause", "paused"}, {"resume", "open"}, {"close", "closed"}} {
		r.usher(t, exitOK, "its sale is "+move.sale, "event", move.verb, "evt_6")
	}
	r.usher(t, exitOK, `"sale": "closed"`, "event", "status", "evt_6")
	r.usher(t, exitRefused, "state_conflict", "event", "open", "evt_6")
	r.usher(t, exitRefused, "not_found", "event", "status", "evt_99")
	r.usher(t, exitRefused, "evt_99", "audit", "--event", "evt_99", "--database-url", r.DatabaseURL)
	r.usher(t, exitRefused, "evt_99", "rehearse", "--event", "evt_99")
	r.usher(t, exitRefused, "unauthenticated", "rehearse", "--admin-token", "usk_wrong")
	actions := admin.must(200, "GET", "/v1/admin/actions?target=evt_6", nil)
	for _, verb := range []string{"event.import", "event.prices", "event.publish", "event.close"} {
		if !bytes.Contains(actions.raw, []byte(verb)) {
			t.Errorf("the list of actions lacks %s: %s", verb, actions.raw)
		}
	}
}

const barChart = `seat_id,section,row,number,tier,x,y
B-1,Bar,1,1,bar,0,0
B-2,Bar,1,2,bar,10,0
B-3,Bar,1,3,bar,20,0
`

// usher runs a command against the demo and checks its exit code and what it says.
func (r *running) usher(t *testing.T, code int, says string, args ...string) {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatalf("find binary: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), own, args...)
	cmd.Env = append(os.Environ(), runUsherEnv+"=1", "USHER_URL="+r.URL, "USHER_ADMIN_TOKEN="+r.AdminToken)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", args, err)
	}
	if cmd.ProcessState.ExitCode() != code || !strings.Contains(string(out), says) {
		t.Errorf("usher %v exits with %d and says %q, want %d and %q", args, cmd.ProcessState.ExitCode(), out, code, says)
	}
}

// A demo that cannot start says what to do, and leaves nothing behind.
func TestDemoRefuses(t *testing.T) {
	taken, err := listen("127.0.0.1:0", "")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	defer closeListener(t, taken)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatalf("write: %v", err)
	}
	t.Setenv("USHER_POSTGRES_BIN", "/nonexistent")
	r := &running{}
	dir := t.TempDir()
	r.usher(t, exitMissing, "choose another address with --addr", "demo", "--addr", taken.Addr().String(), "--data-dir", dir)
	r.usher(t, exitMissing, "another one with --data-dir", "demo", "--addr", "127.0.0.1:0", "--data-dir", filepath.Join(file, "below"))
	r.usher(t, exitMissing, "USHER_POSTGRES_BIN is set, but cannot be used", "demo", "--no-download", "--addr", "127.0.0.1:0", "--data-dir", dir)
	r.usher(t, exitUsage, "unknown flag", "demo", "--adr", "x")
	r.usher(t, exitUsage, "--crowd", "demo", "--crowd=-1")
	r.usher(t, exitUsage, "--crowd-speed", "demo", "--crowd-speed", "NaN")
	r.usher(t, exitMissing, "USHER_ADMIN_TOKEN", "event", "list")
	r.usher(t, exitUsage, "missing flags: --name, --starts-at, --time-zone\n(usher event create --help", "event", "create", "--slug", "x", "--venue", "y")
	r.usher(t, exitUsage, "missing flags: --slug, --name", "event", "import", os.Args[0])
	for _, args := range [][]string{{"audit", "--event", "zzz"}, {"rehearse", "--event", "zzz"}, {"event", "status", "zzz"}} {
		r.usher(t, exitUsage, "not an event id like evt_12", args...)
	}
	r.usher(t, exitOK, "usher ", "version")
	r.usher(t, exitOK, "--data-dir", "demo", "--help")
	checkNothingRuns(t, dir)
}

// checkNothingRuns looks for processes that still use the data folder.
func checkNothingRuns(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatalf("read processes: %v", err)
	}
	for _, e := range entries {
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && bytes.Contains(line, []byte(dir)) {
			t.Errorf("process %s is left: %q", e.Name(), bytes.ReplaceAll(line, []byte{0}, []byte(" ")))
		}
	}
}
