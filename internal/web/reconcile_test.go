package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"usher"
	"usher/internal/checkout"
)

// An operator's reconciliation is written down with its reason, and says what is
// still open; a tenant's operator may not.
func TestReconcilePayments(t *testing.T) {
	const path = "/v1/admin/payments/reconcile"
	w := newWorld(t)
	op, order := usher.NewOperationID(event), usher.NewOrderID(event)
	w.checkout.reconcile = func(olderThan time.Duration, redrive bool) []checkout.ShardReport {
		if olderThan != time.Minute || !redrive {
			t.Errorf("asked for older than %v, redrive %v", olderThan, redrive)
		}
		r := checkout.ShardReport{Shard: 3, Redriven: 2, Problem: usher.CodeBusy}
		r.Asked, r.Settled = 7, 6
		for range 150 {
			r.Open = append(r.Open, checkout.Difference{
				Operation: op, Order: order, Kind: usher.OperationCapture, After: usher.OperationUnknown, Age: 90 * time.Second, Problem: "timeout",
			})
		}
		return []checkout.ShardReport{r}
	}
	a := w.do(t, http.MethodPost, path, staffKey, `{"olderThanSeconds":60,"redriveParked":true,"reason":"after the outage"}`)
	if a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, want := range []string{
		`"shard":3`, `"redriven":2`, `"asked":7`, `"settled":6`, `"stillOpen":150`, `"problem":"busy"`,
		`{"operationId":"` + op.String() + `","orderId":"` + order.String() + `","kind":"capture","status":"unknown","ageSeconds":90,"problem":"timeout"}`,
	} {
		if !strings.Contains(a.body, want) {
			t.Errorf("%s lacks %s", a.body, want)
		}
	}
	if n := strings.Count(a.body, op.String()); n != 100 {
		t.Errorf("%d operations are listed", n)
	}
	if len(w.accounts.actions) != 1 || w.accounts.actions[0].Verb != "payments.reconcile" || w.accounts.actions[0].Reason != "after the outage" {
		t.Errorf("written down: %+v", w.accounts.actions)
	}
	if a := w.do(t, http.MethodPost, path, staffKey, `{"olderThanSeconds":60}`); a.status != http.StatusBadRequest && a.status != http.StatusUnprocessableEntity {
		t.Errorf("without a reason: %d %s", a.status, a.body)
	}
	w.accounts.tenant = usher.NewTenantID()
	if a := w.do(t, http.MethodPost, path, staffKey, `{"reason":"r"}`); a.code() != usher.CodeForbidden {
		t.Errorf("a tenant's operator: %d %s", a.status, a.body)
	}
	if len(w.accounts.actions) != 1 {
		t.Errorf("written down: %+v", w.accounts.actions)
	}
}
