package paysim_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"usher/internal/sim/paysim"
)

func TestIntentGoesThroughItsStates(t *testing.T) {
	_, a := start(t, nil)
	r := a.post("/v1/payment_intents", "", "amount=5000", "currency=USD", "capture_method=manual", "metadata[order_id]=o1", "payment_method_types[0]=card")
	id := r.str("id")
	if r.str("status") != "requires_payment_method" || r.str("currency") != "usd" || r.body["livemode"] != false || r.body["latest_charge"] != nil ||
		!strings.HasPrefix(r.str("client_secret"), id+"_secret_") || r.str("metadata", "order_id") != "o1" {
		t.Errorf("created: %s", r.raw)
	}
	r = a.post("/v1/payment_intents/"+id+"/confirm", "", "payment_method=pm_card_visa", "expand[0]=latest_charge")
	if r.str("status") != "requires_capture" || r.str("amount_capturable") != "5000" || r.str("amount_received") != "0" ||
		r.str("latest_charge", "captured") != "false" || r.str("latest_charge", "paid") != "true" ||
		r.str("latest_charge", "outcome", "type") != "authorized" || r.str("latest_charge", "payment_method_details", "card", "capture_before") == "" {
		t.Errorf("confirmed: %s", r.raw)
	}
	r = a.post("/v1/payment_intents/"+id+"/capture", "", "amount_to_capture=3000", "expand[0]=latest_charge")
	if r.str("status") != "succeeded" || r.str("amount_received") != "3000" || r.str("latest_charge", "amount_captured") != "3000" ||
		r.str("latest_charge", "amount_refunded") != "2000" || r.str("latest_charge", "refunded") != "false" {
		t.Errorf("captured: %s", r.raw)
	}
	r = a.post("/v1/refunds", "", "payment_intent="+id)
	if r.str("status") != "succeeded" || r.str("amount") != "3000" {
		t.Errorf("refunded: %s", r.raw)
	}
	if got := a.get("/v1/refunds/" + r.str("id")); got.raw != r.raw {
		t.Errorf("refund read: %s", got.raw)
	}
	r = a.post("/v1/payment_intents/"+id+"/cancel", "")
	if r.status != http.StatusBadRequest || r.str("error", "code") != "payment_intent_unexpected_state" || r.str("error", "payment_intent", "status") != "succeeded" {
		t.Errorf("cancel of captured: %d %s", r.status, r.raw)
	}
}

func TestCreateAndConfirmInOneCall(t *testing.T) {
	sim, a := start(t, nil)
	r := a.post("/v1/payment_intents", "", "amount=5000", "currency=usd", "confirm=true", "payment_method=pm_card_visa")
	if r.str("status") != "succeeded" || r.str("capture_method") != "automatic_async" || r.str("amount_received") != "5000" {
		t.Errorf("%s", r.raw)
	}
	r = a.post("/v1/payment_intents", "", "amount=5000", "currency=usd", "confirm=true", "payment_method=pm_card_authenticationRequired", "off_session=true")
	if r.status != http.StatusPaymentRequired || r.str("error", "code") != "authentication_required" ||
		r.str("error", "payment_intent", "status") != "requires_payment_method" {
		t.Errorf("off session: %d %s", r.status, r.raw)
	}
	r = a.post("/v1/payment_intents", "", "amount=5000", "currency=usd", "payment_method=pm_card_visa")
	if r.str("status") != "requires_confirmation" {
		t.Errorf("with a method: %s", r.raw)
	}
	sim.CheckInvariants()
}

func TestCancelReleasesTheAuthorization(t *testing.T) {
	_, a := start(t, nil)
	id := a.authorize()
	r := a.post("/v1/payment_intents/"+id+"/cancel", "", "cancellation_reason=abandoned", "expand[0]=latest_charge")
	if r.str("status") != "canceled" || r.str("cancellation_reason") != "abandoned" || r.body["canceled_at"] == nil ||
		r.str("latest_charge", "refunded") != "true" || r.str("latest_charge", "amount_refunded") != "5000" {
		t.Errorf("%s", r.raw)
	}
	if types := eventTypes(a, id); !slices.Equal(types, []string{"payment_intent.created", "charge.succeeded",
		"payment_intent.amount_capturable_updated", "charge.refunded", "payment_intent.canceled"}) {
		t.Errorf("events = %v", types)
	}
}

// eventTypes lists the events about one intent, oldest first.
func eventTypes(a api, id string) []string {
	a.t.Helper()
	var out []string
	for _, e := range a.get("/v1/events", "limit=100").body["data"].([]any) {
		event := response{body: e.(map[string]any)}
		if event.str("data", "object", "id") == id || event.str("data", "object", "payment_intent") == id {
			out = append(out, event.str("type"))
		}
	}
	slices.Reverse(out)
	return out
}

func TestRefusedRequests(t *testing.T) {
	sim, a := start(t, nil)
	id := a.create("")
	tests := []struct {
		path   string
		params []string
		status int
		code   string
		param  string
	}{
		{"/v1/payment_intents", []string{"currency=usd"}, 400, "parameter_missing", "amount"},
		{"/v1/payment_intents", []string{"amount=100"}, 400, "parameter_missing", "currency"},
		{"/v1/payment_intents", []string{"amount=1.5", "currency=usd"}, 400, "parameter_invalid_integer", "amount"},
		{"/v1/payment_intents", []string{"amount=1", "currency=usd"}, 400, "amount_too_small", "amount"},
		{"/v1/payment_intents", []string{"amount=100000000", "currency=usd"}, 400, "amount_too_large", "amount"},
		{"/v1/payment_intents", []string{"amount=1001", "currency=kwd"}, 400, "", "amount"},
		{"/v1/payment_intents", []string{"amount=100", "currency=us"}, 400, "", "currency"},
		{"/v1/payment_intents", []string{"amount=100", "currency=usd", "colour=red"}, 400, "parameter_unknown", "colour"},
		{"/v1/payment_intents", []string{"amount=100", "currency=usd", "capture_method=later"}, 400, "", "capture_method"},
		{"/v1/payment_intents", []string{"amount=100", "currency=usd", "payment_method=pm_no"}, 400, "resource_missing", "payment_method"},
		{"/v1/payment_intents", []string{"amount=100", "currency=usd", "confirm=true"}, 400, "parameter_missing", "payment_method"},
		{"/v1/payment_intents/pi_no/confirm", []string{"payment_method=pm_card_visa"}, 404, "resource_missing", "intent"},
		{"/v1/payment_intents/" + id + "/confirm", nil, 400, "payment_intent_unexpected_state", ""},
		{"/v1/payment_intents/" + id + "/confirm", []string{"payment_method=pm_card_visa", "expand[0]=owner"}, 400, "", "expand"},
		{"/v1/payment_intents/" + id + "/capture", nil, 400, "payment_intent_unexpected_state", ""},
		{"/v1/payment_intents/" + id + "/capture", []string{"final_capture=false"}, 400, "", "final_capture"},
		{"/v1/payment_intents/" + id + "/cancel", []string{"cancellation_reason=bored"}, 400, "", "cancellation_reason"},
		{"/v1/refunds", nil, 400, "parameter_missing", "payment_intent"},
		{"/v1/refunds", []string{"charge=ch_no"}, 400, "resource_missing", "charge"},
		{"/v1/refunds", []string{"payment_intent=" + id}, 400, "payment_intent_unexpected_state", ""},
		{"/v1/payment_intents/" + id + "/approve", nil, 404, "", ""},
		{"/v1/customers", nil, 404, "", ""},
	}
	for _, tt := range tests {
		r := a.post(tt.path, "", tt.params...)
		if r.status != tt.status || r.str("error", "code") != tt.code || r.str("error", "param") != tt.param || r.str("error", "message") == "" {
			t.Errorf("%s %v: %d %s", tt.path, tt.params, r.status, r.raw)
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, sim.URL+"/v1/payment_intents", nil)
	req.Header.Set("Authorization", "Bearer sk_test_other")
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("wrong key: %v %v", res, err)
	}
	_ = res.Body.Close()
}

// The idempotency algorithm: replay, in use, other parameters, other path, and
// refusals that leave the key free.
func TestIdempotency(t *testing.T) {
	sim, a := start(t, nil)
	first := a.post("/v1/payment_intents", "k1", "amount=5000", "currency=usd", "metadata[a]=1", "metadata[b]=2")
	again := a.post("/v1/payment_intents", "k1", "metadata[b]=2", "currency=usd", "metadata[a]=1", "amount=5000")
	if again.raw != first.raw || again.header.Get("Idempotent-Replayed") != "true" || first.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("replay: %v %s", again.header, again.raw)
	}
	if again.header.Get("Original-Request") != first.header.Get("Request-Id") || first.header.Get("Original-Request") != first.header.Get("Request-Id") ||
		again.header.Get("Request-Id") == first.header.Get("Request-Id") || again.header.Get("Idempotency-Key") != "k1" {
		t.Errorf("headers: first %v, again %v", first.header, again.header)
	}
	for name, r := range map[string]response{
		"other parameters": a.post("/v1/payment_intents", "k1", "amount=5001", "currency=usd"),
		"other path":       a.post("/v1/refunds", "k1", "payment_intent="+first.str("id")),
	} {
		if r.status != http.StatusBadRequest || r.str("error", "type") != "idempotency_error" {
			t.Errorf("%s: %d %s", name, r.status, r.raw)
		}
	}
	// The replay is history: the intent has changed since.
	a.post("/v1/payment_intents/"+first.str("id")+"/cancel", "")
	if r := a.post("/v1/payment_intents", "k1", "amount=5000", "currency=usd", "metadata[a]=1", "metadata[b]=2"); r.raw != first.raw {
		t.Errorf("replay after a change: %s", r.raw)
	}
	if r := a.post("/v1/payment_intents", "k2", "currency=usd"); r.status != http.StatusBadRequest {
		t.Errorf("missing amount: %d", r.status)
	}
	if r := a.post("/v1/payment_intents", "k2", "currency=usd", "amount=700"); r.status != http.StatusOK || r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("the key of a refused request is not free: %d %s", r.status, r.raw)
	}
	declined := a.create("")
	confirm := func(key string) response {
		return a.post("/v1/payment_intents/"+declined+"/confirm", key, "payment_method=pm_card_visa_chargeDeclined")
	}
	one, two := confirm("k3"), confirm("k3")
	if one.status != http.StatusPaymentRequired || two.raw != one.raw || two.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("stored decline: %s / %s", one.raw, two.raw)
	}
	if got := sim.Intent(declined); got.Attempts != 1 {
		t.Errorf("ledger = %+v", got)
	}
}

// I5: after the provider has pruned a key, the same key executes afresh.
func TestPrunedKeyExecutesAfresh(t *testing.T) {
	sim, a := start(t, nil)
	one := a.create("k")
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, sim.URL+"/control/keys", nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("prune: %v %v", res, err)
	}
	_ = res.Body.Close()
	if two := a.create("k"); two == one {
		t.Error("the key still replays")
	}
}

func TestOneKeyAtTheSameTimeExecutesOnce(t *testing.T) {
	sim, a := start(t, nil)
	id := a.create("")
	sim.Fault(paysim.Rule{Path: "/v1/payment_intents/*/confirm", Action: "delay", DelayMS: 50})
	var calls sync.WaitGroup
	statuses := make([]int, 16)
	for i := range statuses {
		calls.Go(func() {
			statuses[i] = a.post("/v1/payment_intents/"+id+"/confirm", "same", "payment_method=pm_card_visa").status
		})
	}
	calls.Wait()
	for _, s := range statuses {
		if s != http.StatusOK && s != http.StatusConflict {
			t.Errorf("status %d", s)
		}
	}
	keys := sim.Keys("same")
	if got := sim.Intent(id); got.Authorizations != 1 || len(keys) != 1 || keys[0].Deliveries != len(statuses) {
		t.Errorf("ledger = %+v, keys = %+v", got, keys)
	}
}

func TestLists(t *testing.T) {
	_, a := start(t, nil)
	var ids []string
	for i := range 5 {
		ids = append(ids, a.create(fmt.Sprintf("k%d", i), fmt.Sprintf("customer=c%d", i%2)))
	}
	slices.Reverse(ids) // newest first, as lists are
	page := func(params ...string) (got []string, more bool) {
		r := a.get("/v1/payment_intents", params...)
		if r.str("object") != "list" || r.str("url") != "/v1/payment_intents" {
			t.Errorf("list = %s", r.raw)
		}
		for _, v := range r.body["data"].([]any) {
			got = append(got, v.(map[string]any)["id"].(string))
		}
		return got, r.body["has_more"].(bool)
	}
	tests := []struct {
		params []string
		want   []string
		more   bool
	}{
		{nil, ids, false},
		{[]string{"limit=2"}, ids[:2], true},
		{[]string{"limit=2", "starting_after=" + ids[1]}, ids[2:4], true},
		{[]string{"limit=2", "starting_after=" + ids[3]}, ids[4:], false},
		{[]string{"limit=2", "ending_before=" + ids[4]}, ids[2:4], true},
		{[]string{"limit=2", "ending_before=" + ids[1]}, ids[:1], false},
		{[]string{"customer=c1"}, []string{ids[1], ids[3]}, false},
		{[]string{"created[gt]=4000000000"}, nil, false},
		{[]string{"created[gte]=1000", "created[lt]=4000000000"}, ids, false},
	}
	for _, tt := range tests {
		if got, more := page(tt.params...); !slices.Equal(got, tt.want) || more != tt.more {
			t.Errorf("%v: %v (more %v), want %v (more %v)", tt.params, got, more, tt.want, tt.more)
		}
	}
	for _, bad := range []string{"limit=0", "limit=101", "limit=x", "starting_after=pi_no", "created[gt]=x", "expand[0]=x"} {
		if r := a.get("/v1/payment_intents", bad); r.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, r.status, r.raw)
		}
	}
}

func TestChargesAndEventsCanBeRead(t *testing.T) {
	_, a := start(t, nil)
	id := a.create("")
	a.post("/v1/payment_intents/"+id+"/confirm", "", "payment_method=pm_card_visa_chargeDeclinedLostCard")
	a.post("/v1/payment_intents/"+id+"/confirm", "", "payment_method=pm_card_visa")
	a.authorize()
	charges := a.get("/v1/charges", "payment_intent="+id).body["data"].([]any)
	if len(charges) != 2 {
		t.Fatalf("charges = %v", charges)
	}
	approved, failed := response{body: charges[0].(map[string]any)}, response{body: charges[1].(map[string]any)}
	if approved.str("status") != "succeeded" || failed.str("status") != "failed" || failed.str("failure_code") != "card_declined" ||
		failed.str("outcome", "reason") != "lost_card" || failed.str("paid") != "false" {
		t.Errorf("charges = %v", charges)
	}
	if r := a.get("/v1/charges/" + approved.str("id")); r.str("payment_intent") != id {
		t.Errorf("charge = %s", r.raw)
	}
	events := a.get("/v1/events", "types[0]=charge.failed", "types[1]=payment_intent.payment_failed").body["data"].([]any)
	if len(events) != 2 {
		t.Fatalf("events = %v", events)
	}
	event := response{body: events[0].(map[string]any)}
	if r := a.get("/v1/events/" + event.str("id")); r.str("type") != event.str("type") || r.str("api_version") != paysim.APIVersion {
		t.Errorf("event = %s", r.raw)
	}
	a.post("/v1/payment_intents/"+id+"/capture", "")
	a.post("/v1/refunds", "", "charge="+approved.str("id"), "amount=100")
	for _, by := range []string{"payment_intent=" + id, "charge=" + approved.str("id")} {
		if n := len(a.get("/v1/refunds", by).body["data"].([]any)); n != 1 {
			t.Errorf("%s: %d refunds", by, n)
		}
	}
	if n := len(a.get("/v1/refunds", "charge="+failed.str("id")).body["data"].([]any)); n != 0 {
		t.Errorf("the failed charge has %d refunds", n)
	}
	// No endpoint is set, so nothing is undelivered.
	if r := a.get("/v1/events", "delivery_success=false"); len(r.body["data"].([]any)) != 0 {
		t.Errorf("undelivered = %s", r.raw)
	}
	for _, path := range []string{"/v1/charges/ch_no", "/v1/events/evt_no", "/v1/refunds/re_no", "/v1/payment_intents/pi_no"} {
		if r := a.get(path); r.status != http.StatusNotFound || r.str("error", "code") != "resource_missing" {
			t.Errorf("%s: %d %s", path, r.status, r.raw)
		}
	}
}
