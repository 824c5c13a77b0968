package paysim_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"usher/internal/sim/paysim"
	"usher/internal/sim/paysim/paysimtest"
)

func TestRulesSelect(t *testing.T) {
	sim, a := start(t, nil)
	// An answer of 418 shows that the rule acted.
	hit := func(r paysim.Rule) paysim.Rule { r.Action, r.Status = "error", 418; return r }
	create := func(params ...string) int {
		return a.post("/v1/payment_intents", "", append([]string{"currency=usd"}, params...)...).status
	}
	vip := a.create("", "metadata[order_id]=vip", "payment_method=pm_card_jcb")
	tests := []struct {
		name string
		rule paysim.Rule
		call func() int
		want []int
	}{
		{"every call", paysim.Rule{}, func() int { return create("amount=100") }, []int{418, 418}},
		{"count", paysim.Rule{Count: 1}, func() int { return create("amount=100") }, []int{418, 200}},
		{"nth and count", paysim.Rule{Nth: 2, Count: 1}, func() int { return create("amount=100") }, []int{200, 418, 200}},
		{"amount fits", paysim.Rule{Amount: 777}, func() int { return create("amount=777") }, []int{418}},
		{"amount differs", paysim.Rule{Amount: 777}, func() int { return create("amount=778") }, []int{200}},
		{"metadata", paysim.Rule{Metadata: map[string]string{"order_id": "x"}}, func() int { return create("amount=100", "metadata[order_id]=x") }, []int{418}},
		{"method", paysim.Rule{Method: "GET"}, func() int { return create("amount=100") }, []int{200}},
		{"path with a wildcard", paysim.Rule{Path: "/v1/payment_intents/*"}, func() int { return a.get("/v1/payment_intents/" + vip).status }, []int{418}},
		{"path of another length", paysim.Rule{Path: "/v1/payment_intents/*/confirm"}, func() int { return a.get("/v1/payment_intents/" + vip).status }, []int{200}},
		{"the intent's metadata and card", paysim.Rule{Metadata: map[string]string{"order_id": "vip"}, PaymentMethod: "pm_card_jcb"},
			func() int { return a.get("/v1/payment_intents/" + vip).status }, []int{418}},
		{"another card", paysim.Rule{PaymentMethod: "pm_card_visa"}, func() int { return a.get("/v1/payment_intents/" + vip).status }, []int{200}},
		{"no chance", paysim.Rule{Probability: 1e-12}, func() int { return create("amount=100") }, []int{200, 200}},
	}
	for _, tt := range tests {
		sim.Fault(hit(tt.rule))
		var got []int
		for range tt.want {
			got = append(got, tt.call())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v (rules %+v)", tt.name, got, tt.want, sim.Rules())
		}
		sim.ClearFaults()
	}
}

// One seed, one course of events.
func TestChanceIsRepeatable(t *testing.T) {
	t.Parallel()
	course := func() (out []int) {
		a := api{t, ""}
		sim := paysimtest.Start(t, nil)
		a.url = sim.URL
		sim.Fault(paysim.Rule{Action: "error", Status: 418, Probability: 0.5})
		for range 30 {
			out = append(out, a.get("/v1/payment_intents").status)
		}
		sim.Stop()
		return out
	}
	one, two := course(), course()
	if !slices.Equal(one, two) || !slices.Contains(one, 418) || !slices.Contains(one, 200) {
		t.Errorf("courses %v and %v", one, two)
	}
}

func TestRulesThatMakeNoSense(t *testing.T) {
	sim, _ := start(t, nil)
	for _, body := range []string{
		`{"action":"explode"}`,
		`{"action":"error"}`,
		`{"action":"error","status":200}`,
		`{"action":"delay","event":"payment_intent.*"}`,
		`{"action":"webhook_drop","path":"/v1/refunds"}`,
		`{"action":"delay","probability":2}`,
		`{"action":"delay","nth":-1}`,
		`{"action":"delay","wrong":1}`,
		`{"rules":[{"action":"delay"},{"action":"explode"}]}`,
		`[]`,
	} {
		res, err := http.Post(sim.URL+"/control/faults", "application/json", strings.NewReader(body))
		if err != nil || res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %v %v", body, res, err)
		}
		_ = res.Body.Close()
	}
	if rules := sim.Rules(); len(rules) != 0 {
		t.Errorf("rules = %+v", rules)
	}
}

func TestLatencyProfiles(t *testing.T) {
	sim, a := start(t, func(c *paysim.Config) { c.Latency = paysim.LatencyNormal })
	var got paysim.Latency
	sim.Get("/control/latency", &got)
	if got.Profile != paysim.LatencyNormal || got.ConfirmMS == 0 {
		t.Errorf("profile = %+v", got)
	}
	sim.Post("/control/latency", paysim.Latency{OtherMS: 40}, &got)
	before := time.Now()
	a.get("/v1/payment_intents")
	if took := time.Since(before); took < 40*time.Millisecond {
		t.Errorf("took %v", took)
	}
	sim.Post("/control/latency", paysim.Latency{Profile: paysim.LatencyNone}, &got)
	if got != (paysim.Latency{Profile: paysim.LatencyNone}) {
		t.Errorf("profile = %+v", got)
	}
	res, err := http.Post(sim.URL+"/control/latency", "application/json", strings.NewReader(`{"profile":"warp"}`))
	if err != nil || res.StatusCode != http.StatusBadRequest {
		t.Errorf("unknown profile: %v %v", res, err)
	}
	_ = res.Body.Close()
}

func TestLedgerShowsWhatWasDone(t *testing.T) {
	sim, a := start(t, nil)
	id := a.authorize("metadata[operation_id]=op1", "metadata[order_id]=o1", "metadata[event_id]=evt_1")
	a.post("/v1/payment_intents/"+id+"/capture", "")
	a.post("/v1/refunds", "", "payment_intent="+id, "amount=1000")
	open := a.authorize("metadata[order_id]=o2")
	voided := a.authorize("metadata[order_id]=o3")
	sim.Post("/control/intents/"+voided+"/cancel", nil, nil)

	got := sim.Ledger("o1")
	want := paysim.Intent{ID: id, Status: "succeeded", OperationID: "op1", OrderID: "o1", EventID: "evt_1", Amount: 5000, Currency: "usd",
		PaymentMethod: "pm_card_visa", Attempts: 1, Authorizations: 1, Captures: 1, Refunds: 1, Authorized: 5000, Captured: 5000, Refunded: 1000}
	if len(got.Intents) != 1 || got.Intents[0] != want || len(got.Events) != 7 {
		t.Errorf("ledger = %+v", got)
	}
	all := sim.Ledger("")
	if all.Totals != (paysim.Totals{Intents: 3, Authorizations: 3, Captures: 1, Voids: 1, Refunds: 1, Open: 1}) {
		t.Errorf("totals = %+v", all.Totals)
	}
	if sim.Intent(open).Status != "requires_capture" {
		t.Errorf("open = %+v", sim.Intent(open))
	}
	var sums paysim.Ledger
	sim.Get("/control/ledger?totals=1", &sums)
	if sums.Totals != all.Totals || len(sums.Intents)+len(sums.Events) != 0 {
		t.Errorf("sums = %+v", sums)
	}
	for _, path := range []string{"/control/intents/pi_no/expire", "/control/intents/pi_no/cancel"} {
		if res, err := http.Post(sim.URL+path, "", nil); err != nil || res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %v %v", path, res, err)
		}
	}
	for _, path := range []string{"/control/intents/" + id + "/expire", "/control/intents/" + id + "/cancel"} {
		if res, err := http.Post(sim.URL+path, "", nil); err != nil || res.StatusCode != http.StatusConflict {
			t.Errorf("%s: %v %v", path, res, err)
		}
	}
}

func TestTwoChargesForOneOrderAreFound(t *testing.T) {
	sim, a := start(t, nil)
	for range 2 {
		id := a.authorize("metadata[order_id]=o1")
		a.post("/v1/payment_intents/"+id+"/capture", "")
	}
	var got paysim.Verdict
	sim.Get("/control/invariants", &got)
	var names []string
	for _, v := range got.Violations {
		names = append(names, v.Invariant+" "+v.Subject)
	}
	if got.OK || !slices.Equal(names, []string{"one captured charge per order o1", "one live authorization per order o1"}) {
		t.Errorf("verdict = %+v", got)
	}
}

// An event is sent again until it is acknowledged, each time signed anew.
func TestWebhookIsRetried(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	done := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch calls.Add(1) {
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
		case 2:
			http.Redirect(w, r, "/elsewhere", http.StatusFound) // a redirect is no acknowledgement
		default:
			done <- r.Header.Get("Stripe-Signature")
		}
	}))
	t.Cleanup(receiver.Close)
	sim := paysimtest.Start(t, func(c *paysim.Config) {
		c.WebhookURL, c.WebhookRetry, c.WebhookEvents = receiver.URL, time.Millisecond, []string{"payment_intent.canceled"}
	})
	a := api{t, sim.URL}
	a.post("/v1/payment_intents/"+a.authorize()+"/cancel", "")
	if signature := <-done; !strings.HasPrefix(signature, "t=") || !strings.Contains(signature, ",v1=") {
		t.Errorf("signature = %q", signature)
	}
	waitUndelivered(t, a, 0)
	if n := calls.Load(); n != 3 {
		t.Errorf("%d deliveries, want 3", n)
	}
}

func TestRefundsThatTurn(t *testing.T) {
	sim, a := start(t, nil)
	status := func(card, want string) {
		t.Helper()
		id := a.create("")
		a.post("/v1/payment_intents/"+id+"/confirm", "", "payment_method="+card)
		a.post("/v1/payment_intents/"+id+"/capture", "")
		refund := a.post("/v1/refunds", "", "payment_intent="+id).str("id")
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for a.get("/v1/refunds/"+refund).str("status") != want {
			<-tick.C
		}
		if got := sim.Intent(id); (want == "failed") != (got.Refunded == 0) {
			t.Errorf("%s: ledger = %+v", card, got)
		}
		if types := eventTypes(a, id); !slices.Contains(types, map[string]string{"failed": "refund.failed", "succeeded": "refund.updated"}[want]) {
			t.Errorf("%s: no event told: %v", card, types)
		}
	}
	status("pm_card_pendingRefund", "succeeded")
	status("pm_card_refundFail", "failed")
}

// browser is a client that shows where it is sent.
var browser = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func page(t *testing.T, address, language string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Language", language)
	res, err := browser.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	return res.StatusCode, string(body), res.Header
}

func TestCardPage(t *testing.T) {
	sim, a := start(t, nil)
	back := "https://shop.example/pay?hold=h1"
	status, body, header := page(t, sim.URL+"/card?amount=120000&currency=twd&return_url="+url.QueryEscape(back), "en-GB")
	if status != http.StatusOK || !strings.Contains(body, `lang="en"`) || !strings.Contains(body, "TWD 1,200") || !strings.Contains(body, "Card number") ||
		!strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("page: %d %s", status, body)
	}
	for cancel, want := range map[string]bool{"https://shop.example/seats": true, "https://shop.example.evil.example/": false, "javascript:alert(1)": false} {
		_, body, _ = page(t, sim.URL+"/card?return_url="+url.QueryEscape(back)+"&cancel_url="+url.QueryEscape(cancel), "en")
		if got := strings.Contains(body, `<a href="`+cancel+`">Back to the shop`); got != want {
			t.Errorf("a way back to %s: %v", cancel, got)
		}
	}
	_, body, _ = page(t, sim.URL+"/card?return_url="+url.QueryEscape(back), "zh-TW,zh;q=0.9")
	if !strings.Contains(body, `lang="zh-Hant"`) || !strings.Contains(body, "卡號") {
		t.Errorf("page: %s", body)
	}
	submit := func(number, expiry, cvc, mode string) (int, string, string) {
		res, err := browser.PostForm(sim.URL+"/card", url.Values{"return_url": {back}, "number": {number}, "expiry": {expiry}, "cvc": {cvc}, "mode": {mode}})
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		return res.StatusCode, res.Header.Get("Location"), string(body)
	}
	for number, want := range map[string]string{"4242 4242 4242 4242": "requires_capture", "4000-0000-0000-3220": "requires_action", "4000000000000002": "requires_payment_method"} {
		status, location, _ := submit(number, "12 / 40", "123", "")
		u, err := url.Parse(location)
		if status != http.StatusSeeOther || err != nil || u.Host != "shop.example" || u.Query().Get("hold") != "h1" {
			t.Fatalf("%s: %d %q", number, status, location)
		}
		id := a.create("")
		a.post("/v1/payment_intents/"+id+"/confirm", "", "payment_method="+u.Query().Get("payment_method"))
		if got := sim.Intent(id); got.Status != want {
			t.Errorf("%s: status %q, want %q", number, got.Status, want)
		}
	}
	if _, _, body := submit("4242424242424242", "12/40", "123", "post"); !strings.Contains(body, `name="payment_method" value="pm_tok_`) ||
		!strings.Contains(body, `action="https://shop.example/pay?hold=h1"`) {
		t.Errorf("post: %s", body)
	}
	if _, _, body := submit("4242424242424242", "12/40", "123", "message"); !strings.Contains(body, `postMessage({type: "usher.card", paymentMethod: "pm_tok_`) ||
		!strings.Contains(body, `"https://shop.example"`) && !strings.Contains(body, `"https:\/\/shop.example"`) {
		t.Errorf("message: %s", body)
	}
	for _, bad := range [][3]string{{"4111111111111111", "12/40", "123"}, {"4242424242424242", "12/20", "123"}, {"4242424242424242", "13/40", "123"},
		{"4242424242424242", "12/40", "12"}, {"4242424242424242", "12/40", "abc"}, {"", "", ""}} {
		if status, _, body := submit(bad[0], bad[1], bad[2], ""); status != http.StatusUnprocessableEntity || !strings.Contains(body, `role="alert"`) {
			t.Errorf("%v: %d", bad, status)
		}
	}
	for _, query := range []string{"", "return_url=javascript:alert(1)", "return_url=/pay", "mode=fax&return_url=" + url.QueryEscape(back)} {
		if status, _, _ := page(t, sim.URL+"/card?"+query, "en"); status != http.StatusBadRequest {
			t.Errorf("%q: %d", query, status)
		}
	}
}

func TestChallengePage(t *testing.T) {
	sim, a := start(t, nil)
	id := a.create("")
	r := a.post("/v1/payment_intents/"+id+"/confirm", "", "payment_method=pm_card_threeDSecure2Required", "return_url=https://shop.example/back?o=1")
	address := r.str("next_action", "redirect_to_url", "url")
	if address != sim.URL+"/challenge/"+id || r.str("next_action", "redirect_to_url", "return_url") != "https://shop.example/back?o=1" {
		t.Fatalf("next action: %s", r.raw)
	}
	if _, body, _ := page(t, address, "en"); !strings.Contains(body, "Confirm payment") || !strings.Contains(body, "USD 50") {
		t.Errorf("page: %s", body)
	}
	if _, body, _ := page(t, address+"?lang=zh-Hant", "en"); !strings.Contains(body, "確認付款") {
		t.Errorf("page: %s", body)
	}
	u, err := url.Parse(sim.Decide(id, "approve"))
	if err != nil || u.Query().Get("payment_intent") != id || u.Query().Get("redirect_status") != "succeeded" || u.Query().Get("o") != "1" {
		t.Errorf("sent to %v, %v", u, err)
	}
	if _, body, _ := page(t, address, "en"); !strings.Contains(body, "Nothing left to confirm") || !strings.Contains(body, "https://shop.example/back") {
		t.Errorf("page afterwards: %s", body)
	}
	if status, _, _ := page(t, sim.URL+"/challenge/pi_no", "en"); status != http.StatusNotFound {
		t.Errorf("unknown intent: %d", status)
	}
	res, err := browser.PostForm(sim.URL+"/challenge/"+id, url.Values{"decision": {"maybe"}})
	if err != nil || res.StatusCode != http.StatusBadRequest {
		t.Errorf("odd decision: %v %v", res, err)
	}
	_ = res.Body.Close()

	// Without a return URL the challenge needs a browser kit, and the page stands alone.
	alone := a.create("")
	r = a.post("/v1/payment_intents/"+alone+"/confirm", "", "payment_method=pm_card_authenticationRequired")
	if r.str("next_action", "type") != "use_stripe_sdk" {
		t.Errorf("next action: %s", r.raw)
	}
	if to := sim.Decide(alone, "fail"); to != "/challenge/"+alone {
		t.Errorf("sent to %q", to)
	}
}

func TestHealth(t *testing.T) {
	sim, _ := start(t, nil)
	var got map[string]bool
	sim.Get("/healthz", &got)
	if !got["ok"] {
		t.Errorf("health = %v", got)
	}
}
