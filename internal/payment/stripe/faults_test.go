package stripe_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"usher/internal/payment"
	"usher/internal/sim/paysim"
)

// on selects the confirmation, or another step, of one request.
func on(step string, r payment.AuthorizeRequest, action string) paysim.Rule {
	return paysim.Rule{Method: "POST", Path: "/v1/payment_intents/*/" + step,
		Metadata: map[string]string{"operation_id": r.OperationID.String()}, Action: action, Count: 1}
}

// T1: nothing listens. Nothing was executed, and that is known.
func TestRefusedConnectionIsNotExecuted(t *testing.T) {
	b := setup(t)
	r := b.prepare("pm_card_visa")
	b.Post("/control/faults", map[string]any{"action": "refuse", "delayMs": 60_000}, nil)
	// A connection of before may still look open: what is sent on it is lost, which is
	// unknown. Afterwards nothing is ever sent.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for b.adapter.Lookup(t.Context(), r.Reference).LastErrorCode != "no_connection" {
		<-tick.C
	}
	for name, out := range map[string]payment.Outcome{
		"prepare":   b.adapter.Prepare(t.Context(), request("pm_card_visa")),
		"authorize": b.adapter.Authorize(t.Context(), r),
		"capture":   b.adapter.Capture(t.Context(), captureOf(r)),
		"void":      b.adapter.Void(t.Context(), voidOf(r)),
		"refund":    b.adapter.Refund(t.Context(), refundOf(r, total)),
	} {
		if out.Kind != payment.NotExecuted || out.Retry != payment.RetrySameKey || out.ProviderCode != "no_connection" {
			t.Errorf("%s = %+v", name, out)
		}
	}
	if s := b.adapter.Lookup(t.Context(), r.Reference); s.State != payment.StateUnknown || s.LastErrorCode != "no_connection" {
		t.Errorf("lookup = %+v", s)
	}
}

// The refused port comes back by itself.
func TestRefusedConnectionComesBack(t *testing.T) {
	b := setup(t)
	r := b.prepare("pm_card_visa")
	b.Post("/control/faults", map[string]any{"action": "refuse", "delayMs": 50}, nil)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		out := b.adapter.Authorize(t.Context(), r)
		if out.Kind == payment.Approved {
			break
		}
		if out.Kind != payment.NotExecuted && out.Kind != payment.Unknown {
			t.Fatalf("authorize = %+v", out)
		}
		<-tick.C
	}
	if got := b.Intent(r.Reference); got.Authorizations != 1 {
		t.Errorf("ledger = %+v", got)
	}
}

// T2 to T4, T6, T7: every fault makes the first answer unknown, never a
// failure, and the same key ends in exactly one authorization.
func TestTransportFaults(t *testing.T) {
	tests := []struct {
		name, action, code string
		delayMS            int
		executed           bool // by the first call
		replayed           bool // on the second
	}{
		{name: "T2 closed before execution", action: "close_before", code: "connection_lost"},
		{name: "T3 executed, then closed", action: "execute_then_close", code: "connection_lost", executed: true, replayed: true},
		{name: "T4 executed, then stalled", action: "execute_then_stall", code: "timeout", delayMS: 60_000, executed: true, replayed: true},
		{name: "T6 truncated body", action: "truncate", code: "unreadable_answer", executed: true, replayed: true},
		{name: "T6 bad JSON", action: "bad_json", code: "unreadable_answer", executed: true, replayed: true},
		{name: "T6 wrong types", action: "wrong_types", code: "unreadable_answer", executed: true, replayed: true},
		{name: "T6 trickle", action: "trickle", code: "timeout", delayMS: 60_000, executed: true, replayed: true},
		{name: "T7 proxy 502, not executed", action: "html502", code: "http_502"},
		{name: "T7 proxy 502, executed", action: "html502_executed", code: "http_502", executed: true, replayed: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := setup(t)
			r := b.prepare("pm_card_visa")
			rule := on("confirm", r, tt.action)
			rule.DelayMS = tt.delayMS
			b.Fault(rule)
			first := b.adapter
			if tt.code == "timeout" {
				first = b.hasty
			}
			out := first.Authorize(t.Context(), r)
			b.want(out, payment.Unknown, payment.StateUnknown)
			b.wantRetry(out, payment.RetrySameKey)
			if out.ProviderCode != tt.code {
				t.Errorf("code = %q, want %q", out.ProviderCode, tt.code)
			}
			if got := b.Intent(r.Reference).Authorizations == 1; got != tt.executed {
				t.Errorf("executed = %v, want %v", got, tt.executed)
			}
			out = b.adapter.Authorize(t.Context(), r)
			b.want(out, payment.Approved, payment.StateAuthorized)
			if out.Replayed != tt.replayed || out.Amount != total || out.CaptureBefore.IsZero() {
				t.Errorf("second answer = %+v, want replayed %v", out, tt.replayed)
			}
			if got := b.Intent(r.Reference); got.Authorizations != 1 {
				t.Errorf("ledger = %+v", got)
			}
			b.CheckInvariants()
		})
	}
}

// T5: the confirmation is held up on the way and executes after our void. The fence wins.
func TestConfirmationThatArrivesAfterTheVoid(t *testing.T) {
	b := setup(t)
	r := b.prepare("pm_card_visa")
	stall := on("confirm", r, "stall_then_execute")
	stall.DelayMS = 1000
	b.Fault(stall)
	out := b.hasty.Authorize(t.Context(), r)
	b.want(out, payment.Unknown, payment.StateUnknown)
	if out.ProviderCode != "timeout" {
		t.Errorf("code = %q", out.ProviderCode)
	}
	b.want(b.adapter.Void(t.Context(), voidOf(r)), payment.Approved, payment.StateVoided)
	b.waitKey(r.Key + ":confirm")
	if got := b.Intent(r.Reference); got.Authorizations != 0 || got.Status != "canceled" {
		t.Errorf("ledger = %+v", got)
	}
	b.want(b.adapter.Authorize(t.Context(), r), payment.Declined, payment.StateVoided)
}

// waitKey waits until the simulator keeps an answer under the key.
func (b *bundle) waitKey(key string) {
	b.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if keys := b.Keys(key); len(keys) == 1 && keys[0].Status != 0 {
			return
		}
		select {
		case <-tick.C:
		case <-b.t.Context().Done():
			b.t.Fatalf("no answer was kept under %q", key)
		}
	}
}

// I1: the first call still runs. Unknown; the same key later gives its result.
func TestKeyInUse(t *testing.T) {
	b := setup(t)
	r := b.prepare("pm_card_visa")
	b.Fault(on("confirm", r, "in_use"))
	out := b.adapter.Authorize(t.Context(), r)
	b.want(out, payment.Unknown, payment.StateUnknown)
	b.wantRetry(out, payment.RetrySameKey)
	if out.ProviderCode != "idempotency_key_in_use" {
		t.Errorf("code = %q", out.ProviderCode)
	}

	// And for real: the card takes two seconds, the call gives up, the key runs on.
	slow := b.prepare("pm_usher_slow_2s")
	b.want(b.hasty.Authorize(t.Context(), slow), payment.Unknown, payment.StateUnknown)
	// Unless this machine took longer than the card, the key is running now.
	if out := b.adapter.Authorize(t.Context(), slow); out.Kind == payment.Unknown && out.ProviderCode != "idempotency_key_in_use" {
		t.Errorf("while running = %+v", out)
	}
	b.waitKey(slow.Key + ":confirm")
	b.want(b.adapter.Authorize(t.Context(), slow), payment.Approved, payment.StateAuthorized)
	if got := b.Intent(slow.Reference); got.Authorizations != 1 {
		t.Errorf("ledger = %+v", got)
	}
}

// I2 and P28 (b): a stored 500 with nothing behind it. The key is spent, reads
// and the fence settle it.
func TestStored500NotExecuted(t *testing.T) {
	b := setup(t)
	r := b.prepare("pm_card_visa")
	b.Fault(on("confirm", r, "status_500"))
	for i := range 2 {
		out := b.adapter.Authorize(t.Context(), r)
		b.wantRetry(out, payment.RetryNever)
		if out.Kind != payment.Unknown || out.Replayed != (i == 1) {
			t.Errorf("call %d = %+v", i, out)
		}
	}
	if s := b.adapter.Lookup(t.Context(), r.Reference); s.State != payment.StateCreated {
		t.Errorf("snapshot = %+v", s)
	}
	b.want(b.adapter.Void(t.Context(), voidOf(r)), payment.Approved, payment.StateVoided)
	if got := b.Intent(r.Reference); got.Authorizations != 0 {
		t.Errorf("ledger = %+v", got)
	}
}

// I3 and P28 (a): a stored 500 with an authorization behind it is adopted.
func TestStored500Executed(t *testing.T) {
	b := setup(t)
	r := b.prepare("pm_usher_500_executed")
	out := b.adapter.Authorize(t.Context(), r)
	b.want(out, payment.Unknown, payment.StateUnknown)
	b.wantRetry(out, payment.RetryNever)
	if s := b.adapter.Lookup(t.Context(), r.Reference); s.State != payment.StateAuthorized || s.Metadata.OperationID != r.OperationID {
		t.Errorf("snapshot = %+v", s)
	}
	out = b.adapter.Authorize(t.Context(), r)
	b.want(out, payment.Approved, payment.StateAuthorized)
	if !out.Replayed || b.Intent(r.Reference).Authorizations != 1 {
		t.Errorf("outcome = %+v", out)
	}
}

// A stored 500 on the other steps: prepare, capture and void can be done again
// under a new key without doing anything twice.
func TestStored500OnOtherSteps(t *testing.T) {
	b := setup(t)
	ctx := t.Context()
	lost := request("pm_card_visa")
	b.Fault(paysim.Rule{Method: "POST", Path: "/v1/payment_intents", Metadata: map[string]string{"operation_id": lost.OperationID.String()},
		Action: "status_500_executed", Count: 1})
	for range 2 {
		out := b.adapter.Prepare(ctx, lost)
		b.want(out, payment.Unknown, payment.StateUnknown)
		b.wantRetry(out, payment.RetryNewAttempt)
	}

	r := b.authorized("pm_card_visa")
	c := captureOf(r)
	b.Fault(on("capture", r, "status_500"))
	for range 2 {
		out := b.adapter.Capture(ctx, c)
		b.wantRetry(out, payment.RetryNewAttempt)
		if out.Kind != payment.Unknown {
			t.Errorf("capture = %+v", out)
		}
	}
	b.Fault(on("capture", r, "status_500_executed"))
	c.Key += ":2"
	b.want(b.adapter.Capture(ctx, c), payment.Unknown, payment.StateUnknown)
	b.want(b.adapter.Capture(ctx, c), payment.Approved, payment.StateCaptured)

	r = b.authorized("pm_card_visa")
	v := voidOf(r)
	b.Fault(on("cancel", r, "status_500"))
	b.want(b.adapter.Void(ctx, v), payment.Unknown, payment.StateUnknown)
	out := b.adapter.Void(ctx, v)
	b.want(out, payment.Unknown, payment.StateAuthorized)
	b.wantRetry(out, payment.RetryNewAttempt)
	v.Key += ":2"
	b.want(b.adapter.Void(ctx, v), payment.Approved, payment.StateVoided)
	b.CheckInvariants()
}

// I6: the key belongs to another request. Nothing is concluded from it.
func TestKeyOfAnotherRequest(t *testing.T) {
	b := setup(t)
	r := b.authorized("pm_card_visa")
	other := r
	other.PaymentMethodToken = "pm_card_mastercard"
	out := b.adapter.Authorize(t.Context(), other)
	b.want(out, payment.Unknown, payment.StateUnknown)
	b.wantRetry(out, payment.RetryNever)
	if out.ProviderCode != "idempotency_error" {
		t.Errorf("code = %q", out.ProviderCode)
	}
}

// I7: the replay says authorized, the intent has been voided since.
func TestStaleReplay(t *testing.T) {
	b := setup(t)
	r := b.authorized("pm_card_visa")
	b.Post("/control/intents/"+r.Reference+"/cancel", nil, nil)
	out := b.adapter.Authorize(t.Context(), r)
	b.want(out, payment.Declined, payment.StateVoided)
	if !out.Replayed {
		t.Error("not marked as replayed")
	}
	// A replay whose reading fails is unknown, not what it says.
	r = b.authorized("pm_card_visa")
	b.Fault(paysim.Rule{Method: "GET", Path: "/v1/payment_intents/*", Action: "html502"})
	out = b.adapter.Authorize(t.Context(), r)
	b.want(out, payment.Unknown, payment.StateUnknown)
	b.wantRetry(out, payment.RetrySameKey)
	if !out.Replayed || out.Reference != r.Reference {
		t.Errorf("outcome = %+v", out)
	}
}

// Limits and keys that are not accepted happen before execution.
func TestRefusedBeforeExecution(t *testing.T) {
	b := setup(t)
	r := b.prepare("pm_card_visa")
	limited, locked, forbidden := on("confirm", r, "rate_limit"), on("confirm", r, "rate_limit"), on("confirm", r, "error")
	limited.Reason, locked.Reason = "endpoint-rate", "lock_timeout"
	forbidden.Status, forbidden.Code = 403, "account_invalid"
	dependency := on("confirm", r, "error")
	dependency.Status = 424
	b.Fault(limited, locked, forbidden, dependency)
	for _, want := range []struct {
		code string
		kind payment.Kind
	}{
		{"rate_limit", payment.NotExecuted}, {"lock_timeout", payment.NotExecuted},
		{"account_invalid", payment.NotExecuted}, {"api_error", payment.Unknown},
	} {
		out := b.adapter.Authorize(t.Context(), r)
		b.want(out, want.kind, payment.StateUnknown)
		b.wantRetry(out, payment.RetrySameKey)
		if out.ProviderCode != want.code {
			t.Errorf("code = %q, want %q", out.ProviderCode, want.code)
		}
	}
	b.want(b.adapter.Authorize(t.Context(), r), payment.Approved, payment.StateAuthorized)
}

// The cards that carry their own fault, for plain load runs.
func TestCardsThatLoseTheReply(t *testing.T) {
	b := setup(t)
	r := b.prepare("pm_usher_lost_reply")
	b.want(b.adapter.Authorize(t.Context(), r), payment.Unknown, payment.StateUnknown)
	b.want(b.adapter.Authorize(t.Context(), r), payment.Approved, payment.StateAuthorized)
	r = b.prepare("pm_usher_lost_reply_declined")
	b.want(b.adapter.Authorize(t.Context(), r), payment.Unknown, payment.StateUnknown)
	b.want(b.adapter.Authorize(t.Context(), r), payment.Declined, payment.StateDeclined)
}

// P47: net/http does not repeat a POST by itself on a dead reused connection.
func TestOneCallIsOneDelivery(t *testing.T) {
	b := setup(t)
	deliveries := func(key string) int {
		keys := b.Keys(key)
		if len(keys) != 1 {
			t.Fatalf("keys %q = %+v", key, keys)
		}
		return keys[0].Deliveries
	}
	r := b.prepare("pm_card_visa")
	b.Fault(on("confirm", r, "execute_then_close"), on("capture", r, "execute_then_close"))
	b.want(b.adapter.Authorize(t.Context(), r), payment.Unknown, payment.StateUnknown)
	c := captureOf(r)
	b.want(b.adapter.Capture(t.Context(), c), payment.Unknown, payment.StateUnknown)
	void := b.prepare("pm_card_visa")
	b.Fault(on("cancel", void, "execute_then_close"))
	v := voidOf(void)
	b.want(b.adapter.Void(t.Context(), v), payment.Unknown, payment.StateUnknown)
	for _, key := range []string{r.Key + ":confirm", c.Key + ":capture", v.Key + ":cancel"} {
		if n := deliveries(key); n != 1 {
			t.Errorf("%s came %d times, want once", key, n)
		}
	}
	b.want(b.adapter.Capture(t.Context(), c), payment.Approved, payment.StateCaptured)
	b.want(b.adapter.Void(t.Context(), v), payment.Approved, payment.StateVoided)
}

// Twenty workers send one request at once, with one key: one effect, and every
// answer is either the result or "not known yet".
func TestSameKeyAtTheSameTime(t *testing.T) {
	b := setup(t)
	r := b.prepare("pm_card_visa")
	outs := make([]payment.Outcome, 20)
	var calls sync.WaitGroup
	for i := range outs {
		calls.Go(func() { outs[i] = b.adapter.Authorize(t.Context(), r) })
	}
	calls.Wait()
	for _, out := range outs {
		if out.Kind != payment.Approved && out.ProviderCode != "idempotency_key_in_use" {
			t.Errorf("outcome = %+v", out)
		}
	}
	if got := b.Intent(r.Reference); got.Authorizations != 1 {
		t.Errorf("ledger = %+v", got)
	}
}

// answers is a provider that says one thing to everything.
func answers(t *testing.T, status int, header map[string]string, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for k, v := range header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// What the simulator never says, a provider may.
func TestAnswersFromElsewhere(t *testing.T) {
	t.Parallel()
	r := request("pm_card_visa")
	r.Reference = "pi_1"
	tests := []struct {
		name    string
		status  int
		header  map[string]string
		body    string
		capture bool
		kind    payment.Kind
		state   payment.State
		retry   payment.Retry
	}{
		{"processing", 200, nil, `{"id":"pi_1","status":"processing"}`, false, payment.Pending, payment.StatePending, payment.RetryNever},
		{"S5 capture processing", 200, nil, `{"id":"pi_1","status":"processing","latest_charge":{"id":"ch_1","paid":true}}`, true,
			payment.Pending, payment.StateCapturePending, payment.RetryNever},
		{"a status nobody knows", 200, nil, `{"id":"pi_1","status":"requires_patience"}`, false, payment.Unknown, payment.StateUnknown, payment.RetrySameKey},
		{"another intent", 200, nil, `{"id":"pi_2","status":"requires_capture"}`, false, payment.Unknown, payment.StateUnknown, payment.RetrySameKey},
		{"an empty object", 200, nil, `{}`, false, payment.Unknown, payment.StateUnknown, payment.RetrySameKey},
		{"a redirect", 307, map[string]string{"Location": "http://127.0.0.1:1/v1/x"}, ``, false, payment.Unknown, payment.StateUnknown, payment.RetrySameKey},
		{"404 for an intent we saw", 404, nil, `{"error":{"type":"invalid_request_error","code":"resource_missing","param":"intent","message":"m"}}`,
			false, payment.Unknown, payment.StateNotFound, payment.RetryNever},
		{"503 as JSON", 503, nil, `{"error":{"type":"api_error","message":"m"}}`, false, payment.Unknown, payment.StateUnknown, payment.RetrySameKey},
		{"unknown field and code", 400, nil, `{"error":{"type":"invalid_request_error","code":"brand_new","x":1,"message":"m"}}`,
			false, payment.Rejected, payment.StateUnknown, payment.RetryNever},
		{"error without an error in it", 400, nil, `{}`, false, payment.Unknown, payment.StateUnknown, payment.RetrySameKey},
		{"402 without an intent", 402, nil, `{"error":{"type":"card_error","code":"card_declined","message":"m"}}`,
			false, payment.Declined, payment.StateUnknown, payment.RetryNewAttempt},
		{"402 on capture without an intent", 402, nil, `{"error":{"type":"card_error","code":"card_declined","message":"m"}}`,
			true, payment.Unknown, payment.StateUnknown, payment.RetryNewAttempt},
		{"challenge that only a browser kit can show", 200, nil, `{"id":"pi_1","status":"requires_action","next_action":{"type":"use_stripe_sdk"}}`,
			false, payment.ActionRequired, payment.StateActionRequired, payment.RetryNever},
	}
	for _, tt := range tests {
		a := adapterFor(t, answers(t, tt.status, tt.header, tt.body), 0)
		out := a.Authorize(t.Context(), r)
		if tt.capture {
			c := captureOf(r)
			out = a.Capture(t.Context(), c)
		}
		if out.Kind != tt.kind || out.State != tt.state || out.Retry != tt.retry {
			t.Errorf("%s: %+v", tt.name, out)
		}
	}
}

// No text that leaves the adapter holds the client secret or a code that is none.
func TestNothingSecretLeaves(t *testing.T) {
	t.Parallel()
	secret := "pi_1_secret_abc"
	body := `{"error":{"type":"card_error","code":"` + secret + `","decline_code":"two words","message":"` + secret + `",
		"payment_intent":{"id":"pi_1","client_secret":"` + secret + `","status":"requires_payment_method",
		"last_payment_error":{"code":"` + secret + `","message":"` + secret + `"}}}}`
	a := adapterFor(t, answers(t, 402, map[string]string{"Request-Id": "bad id; " + secret}, body), 0)
	r := request("pm_card_visa")
	r.Reference = "pi_1"
	out := a.Authorize(t.Context(), r)
	if out.Kind != payment.Declined {
		t.Errorf("outcome = %+v", out)
	}
	for _, s := range []string{out.ProviderCode, out.RequestID, out.LogValue().String()} {
		if strings.Contains(s, "secret") || strings.Contains(s, " words") {
			t.Errorf("leaked: %q", s)
		}
	}
}

// A port that accepts and never speaks costs one timeout, not more.
func TestSilentPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	a := adapterFor(t, "http://"+l.Addr().String(), shortTimeout)
	start := time.Now()
	out := a.Prepare(t.Context(), request("pm_card_visa"))
	if out.Kind != payment.Unknown || out.ProviderCode != "timeout" {
		t.Errorf("outcome = %+v", out)
	}
	if took := time.Since(start); took > 20*shortTimeout {
		t.Errorf("took %v", took)
	}
}
