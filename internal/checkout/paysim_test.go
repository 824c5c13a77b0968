package checkout_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"usher"
	"usher/internal/checkout"
	"usher/internal/ledger"
	"usher/internal/payment/stripe"
	"usher/internal/sim/paysim"
	"usher/internal/sim/paysim/paysimtest"
)

// street is a shop whose provider is the real adapter, talking over HTTP to the
// simulator, which sends its webhooks back.
type street struct {
	*shop
	sim *paysimtest.Sim
	// last is the newest webhook as it arrived, for delivering it again.
	mu   sync.Mutex
	last *http.Request
	body []byte
}

func openStreet(t testing.TB, webhooks bool) *street {
	t.Helper()
	st := &street{}
	hook := httptest.NewServer(http.HandlerFunc(st.receive))
	t.Cleanup(hook.Close)
	st.sim = paysimtest.Start(t, func(c *paysim.Config) {
		c.WebhookRetry = 50 * time.Millisecond
		if webhooks {
			c.WebhookURL = hook.URL
		}
	})
	adapter, err := stripe.New(stripe.Config{SecretKey: st.sim.SecretKey, BaseURL: st.sim.URL, WebhookSecrets: []string{paysimtest.WebhookSecret},
		Timeout: 700 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s := openShop(t, adapter, func(c *checkout.Config) { c.InFlightMin = 256 })
	st.mu.Lock()
	st.shop = s
	st.mu.Unlock()
	s.start()
	// The last look at the provider's books, whatever the test did.
	t.Cleanup(st.sim.CheckInvariants)
	return st
}

// receive is the webhook endpoint as the web layer has it.
func (st *street) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	st.mu.Lock()
	s := st.shop
	st.last, st.body = r.Clone(context.Background()), body
	st.mu.Unlock()
	switch {
	case err != nil || s == nil:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	switch usher.CodeOf(s.Webhook(r.Context(), stripe.Name, r.Header, body)) {
	case "":
		w.WriteHeader(http.StatusOK)
	case usher.CodeWebhookSignature:
		w.WriteHeader(http.StatusBadRequest)
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

const (
	createPath  = "/v1/payment_intents"
	confirmPath = "/v1/payment_intents/*/confirm"
	capturePath = "/v1/payment_intents/*/capture"
	cancelPath  = "/v1/payment_intents/*/cancel"
)

// books checks what the provider really did for the order.
func (st *street) books(o ledger.Order, authorizations, captures, open int) {
	st.t.Helper()
	got := st.sim.Ledger(o.ID.String())
	if t := got.Totals; t.Authorizations != authorizations || t.Captures != captures || t.Open != open {
		st.t.Errorf("provider's books: %+v, want %d authorized, %d captured, %d open", t, authorizations, captures, open)
	}
	for _, p := range got.Intents {
		if captures > 0 && p.Captured > 0 && p.Captured != o.Amount.AmountMinor {
			st.t.Errorf("captured %d of %s", p.Captured, o.Amount)
		}
	}
}

func TestProviderFaults(t *testing.T) {
	t.Parallel()
	executed := []string{"execute_then_close", "execute_then_stall", "status_500_executed", "html502_executed", "truncate", "wrong_types"}
	not := []string{"close_before", "stall_then_execute", "in_use", "rate_limit"}
	tests := []struct {
		name, path string
		webhooks   bool
		actions    []string
	}{
		{"create", createPath, false, []string{"execute_then_close", "close_before", "status_500_executed", "rate_limit", "truncate"}},
		{"confirm", confirmPath, false, append(not, executed...)},
		{"confirm, with webhooks", confirmPath, true, executed},
		{"capture", capturePath, false, append(not, executed...)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			st := openStreet(t, tt.webhooks)
			for _, action := range tt.actions {
				st.sim.Fault(paysim.Rule{Method: "POST", Path: tt.path, Action: action, Count: 1, DelayMS: 1500})
				st.sellDespite(action)
				st.sim.ClearFaults()
			}
		})
	}
}

// sellDespite takes one order to its capture while a fault acts.
func (st *street) sellDespite(action string) {
	st.t.Helper()
	h := st.hold(2)
	r := st.mustPay(h, "pm_card_visa", "k")
	o := st.until(r.Order.ID, action+", decided", func(o ledger.Order) bool { return o.Status != usher.OrderPaymentPending })
	if o.Status == usher.OrderDeclined && o.Authorization.Reference == "" {
		// An intent whose creation is stored as failed has no id and is never
		// confirmed: the buyer tries again.
		r = st.mustPay(h, "pm_card_visa", "k2")
	}
	o = st.untilCaptured(r.Order.ID)
	st.wantSeats(h, usher.SeatSold)
	st.books(o, 1, 1, 0)
}

func TestStored500WithNothingExecuted(t *testing.T) {
	t.Parallel()
	st := openStreet(t, true)
	st.sim.Fault(paysim.Rule{Method: "POST", Path: confirmPath, Action: "status_500", Count: 1})
	h := st.hold(1)
	r := st.mustPay(h, "pm_card_visa", "k")
	wantStatus(t, r, usher.OrderPaymentPending, checkout.PaymentUnknown, checkout.ActionWait)
	st.age(r.Order, time.Minute)
	o := st.untilStatus(r.Order.ID, usher.OrderDeclined)
	st.books(o, 0, 0, 0)
	r = st.mustPay(h, "pm_card_visa", "k2")
	wantStatus(t, r, usher.OrderConfirmed, checkout.PaymentApproved, checkout.ActionNone)
	st.books(st.untilCaptured(r.Order.ID), 1, 1, 0)
}

func TestDeclinesThenSuccessOverHTTP(t *testing.T) {
	t.Parallel()
	st := openStreet(t, true)
	h := st.hold(1)
	for i, card := range []string{"pm_card_visa_chargeDeclinedInsufficientFunds", "pm_card_chargeDeclinedExpiredCard", "pm_usher_lost_reply_declined"} {
		r := st.mustPay(h, card, "k"+string(rune('0'+i)))
		o := st.untilStatus(r.Order.ID, usher.OrderDeclined)
		if o.Authorization.ProviderCode == "" {
			t.Errorf("%s: no reason is kept", card)
		}
		st.wantSeats(h, usher.SeatHeld)
	}
	// A token of nobody's is the caller's mistake, also when it is repeated; the seats
	// stay held, and nothing reaches the bank.
	for _, replayed := range []bool{false, true} {
		_, err := st.pay(h, "pm_no_such_card", "nobody")
		var refusal *usher.Error
		if !errors.As(err, &refusal) || refusal.Code != usher.CodePaymentRejected || refusal.Replayed != replayed || !strings.Contains(refusal.Message, "paymentMethodToken") {
			t.Errorf("an unknown token, repeated %v: %v", replayed, err)
		}
		st.wantSeats(h, usher.SeatHeld)
	}
	r := st.mustPay(h, "pm_card_visa", "last")
	o := st.untilCaptured(r.Order.ID)
	st.books(o, 1, 1, 0)
	if n := st.operations(o.ID, usher.OperationAuthorize); n != 5 {
		t.Errorf("%d attempts, want 5", n)
	}
}

func TestChallengeOverHTTP(t *testing.T) {
	t.Parallel()
	st := openStreet(t, true)
	begin := func() (ledger.Hold, ledger.Order) {
		h := st.hold(1)
		r := st.mustPay(h, "pm_card_threeDSecure2Required", "k")
		wantStatus(t, r, usher.OrderPaymentPending, checkout.PaymentActionRequired, checkout.ActionRedirect)
		return h, st.order(r.Order.ID)
	}
	// Passed, and the buyer's browser never comes back: the webhook tells.
	_, o := begin()
	st.sim.Decide(o.Authorization.Reference, "approve")
	st.books(st.untilCaptured(o.ID), 1, 1, 0)
	// Failed.
	h, o := begin()
	st.sim.Decide(o.Authorization.Reference, "fail")
	st.untilStatus(o.ID, usher.OrderDeclined)
	st.wantSeats(h, usher.SeatHeld)
	// Abandoned.
	h, o = begin()
	st.age(o, graceOver)
	o = st.untilStatus(o.ID, usher.OrderVoided)
	st.wantSeats(h, usher.SeatAvailable)
	st.books(o, 0, 0, 0)
	// Passed after the grace: the door is closed at the bank, too.
	st.sim.Decide(o.Authorization.Reference, "approve")
	st.untilWorked()
	st.books(st.order(o.ID), 0, 0, 0)
}

func TestGraceEndsWhileTheProviderIsDown(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]string{"authorized in truth": "execute_then_close", "not authorized in truth": "close_before"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := openStreet(t, false)
			st.sim.Fault(paysim.Rule{Method: "POST", Path: confirmPath, Action: action},
				paysim.Rule{Path: "/v1/payment_intents/*", Action: "close_before"}, paysim.Rule{Path: cancelPath, Action: "close_before"})
			h := st.hold(1)
			r := st.mustPay(h, "pm_card_visa", "k")
			wantStatus(t, r, usher.OrderPaymentPending, checkout.PaymentUnknown, checkout.ActionWait)
			st.age(r.Order, graceOver)
			st.untilStatus(r.Order.ID, usher.OrderVoiding)
			eventually(t, func() string { return "cancel was tried" }, func() bool {
				return st.count(`SELECT count(*) FROM payment_operation WHERE kind = 'void' AND status = 'unknown'`) == 1
			})
			st.wantSeats(h, usher.SeatPending)
			st.sim.ClearFaults()
			o := st.untilStatus(r.Order.ID, usher.OrderVoided)
			st.wantSeats(h, usher.SeatAvailable)
			if got := st.sim.Ledger(o.ID.String()); got.Totals.Open != 0 || got.Totals.Captures != 0 || got.Intents[0].Status != "canceled" {
				t.Errorf("provider's books: %+v", got)
			}
		})
	}
}

func TestVoidFaults(t *testing.T) {
	t.Parallel()
	st := openStreet(t, true)
	for _, action := range []string{"execute_then_close", "close_before", "status_500", "status_500_executed", "in_use", "rate_limit", "html502", "truncate"} {
		st.sim.Fault(paysim.Rule{Method: "POST", Path: cancelPath, Action: action, Count: 2})
		h := st.hold(1)
		// A hundredth less than asked is authorized: it can only be given up.
		r := st.mustPay(h, "pm_usher_short_authorization", "k")
		if r.PaymentStatus == checkout.PaymentApproved {
			t.Fatalf("%s: another amount than the order's was sold", action)
		}
		o := st.untilStatus(r.Order.ID, usher.OrderVoided)
		st.wantSeats(h, usher.SeatAvailable)
		if got := st.sim.Ledger(o.ID.String()).Totals; got.Open != 0 || got.Captures != 0 {
			t.Errorf("%s: provider's books: %+v", action, got)
		}
		st.sim.ClearFaults()
	}
}

func TestStaffAndTimeAtTheProvider(t *testing.T) {
	t.Parallel()
	st := openStreet(t, true)
	for _, verb := range []string{"expire", "cancel"} {
		st.sim.Fault(paysim.Rule{Method: "POST", Path: capturePath, Action: "close_before"})
		h := st.hold(1)
		r := st.mustPay(h, "pm_card_visa", "k")
		wantStatus(t, r, usher.OrderConfirmed, checkout.PaymentApproved, checkout.ActionNone)
		st.sim.Post("/control/intents/"+st.order(r.Order.ID).Authorization.Reference+"/"+verb, struct{}{}, nil)
		st.sim.ClearFaults()
		o := st.untilStatus(r.Order.ID, usher.OrderCancelled)
		st.wantSeats(h, usher.SeatAvailable)
		st.books(o, 1, 0, 0)
		if got := checkout.StatusOf(o); got != checkout.PaymentVoided {
			t.Errorf("%s: the buyer is told %s", verb, got)
		}
	}
}

func TestWebhookFaultsOverHTTP(t *testing.T) {
	t.Parallel()
	st := openStreet(t, true)
	for _, r := range []paysim.Rule{
		{Event: "payment_intent.*", Action: "webhook_before_answer"}, {Event: "*", Action: "webhook_duplicate", Times: 5},
		{Event: "payment_intent.amount_capturable_updated", Action: "webhook_reorder", DelayMS: 500}, {Event: "*", Action: "webhook_drop"},
	} {
		st.sim.Fault(r)
		h := st.hold(1)
		o := st.untilCaptured(st.mustPay(h, "pm_card_visa", "k").Order.ID)
		st.books(o, 1, 1, 0)
		if n := st.operations(o.ID, usher.OperationCapture); n != 1 {
			t.Errorf("%s: %d captures", r.Action, n)
		}
		st.sim.ClearFaults()
	}
	// Everything again, twenty times, in parallel.
	var out struct{ Queued int }
	st.sim.Post("/control/webhooks/redeliver", map[string]any{"times": 20}, &out)
	eventually(t, func() string { return "webhook arrived" }, func() bool { st.mu.Lock(); defer st.mu.Unlock(); return st.last != nil })
	st.untilWorked()
	for _, p := range st.sim.Ledger("").Intents {
		if p.Captures != 1 || p.Authorizations != 1 {
			t.Errorf("after the flood: %+v", p)
		}
	}
	st.forged()
}

// forged delivers altered copies of the last genuine message.
func (st *street) forged() {
	st.t.Helper()
	st.mu.Lock()
	header, body := st.last.Header.Clone(), bytes.Clone(st.body)
	st.mu.Unlock()
	if err := st.Webhook(context.Background(), stripe.Name, header, body); err != nil {
		st.t.Errorf("a genuine repeat: %v", err)
	}
	body[len(body)/2] ^= 1
	wantCode(st.t, st.Webhook(context.Background(), stripe.Name, header, body), usher.CodeWebhookSignature)
}
