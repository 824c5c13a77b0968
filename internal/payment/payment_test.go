package payment_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"usher/internal/payment"
)

func TestZeroValuesAreUnknown(t *testing.T) {
	t.Parallel()
	var o payment.Outcome
	if o.Kind != payment.Unknown || o.Kind.String() != "unknown" || o.State != payment.StateUnknown || o.Retry != payment.RetrySameKey {
		t.Errorf("zero outcome = %+v, want unknown, same key", o)
	}
	var s payment.Snapshot
	if s.State != payment.StateUnknown || s.State.Closed() || s.State.MoneyTaken() {
		t.Errorf("zero snapshot = %+v, want unknown that proves nothing", s)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	kinds := map[payment.Kind]string{
		payment.Unknown: "unknown", payment.Approved: "approved", payment.Declined: "declined",
		payment.ActionRequired: "action_required", payment.Pending: "pending",
		payment.NotExecuted: "not_executed", payment.Rejected: "rejected", payment.Kind(99): "unknown",
	}
	for k, want := range kinds {
		if got := k.String(); got != want {
			t.Errorf("Kind(%d) = %q, want %q", k, got, want)
		}
	}
	retries := map[payment.Retry]string{
		payment.RetrySameKey: "same_key", payment.RetryNewAttempt: "new_attempt",
		payment.RetryNever: "never", payment.Retry(99): "never",
	}
	for r, want := range retries {
		if got := r.String(); got != want {
			t.Errorf("Retry(%d) = %q, want %q", r, got, want)
		}
	}
}

func TestOnlyVoidedAndExpiredCloseAnIntent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		state         payment.State
		closed, taken bool
	}{
		{payment.StateUnknown, false, false},
		{payment.StateNotFound, false, false},
		{payment.StateCreated, false, false},
		{payment.StateActionRequired, false, false},
		{payment.StatePending, false, false},
		{payment.StateAuthorized, false, false},
		{payment.StateCapturePending, false, false},
		{payment.StateDeclined, false, false},
		{payment.StateVoided, true, false},
		{payment.StateExpired, true, false},
		{payment.StateCaptured, false, true},
		{payment.StatePartlyRefunded, false, true},
		{payment.StateRefunded, false, true},
		{payment.StateDisputed, false, true},
	}
	for _, tt := range tests {
		if got := tt.state.Closed(); got != tt.closed {
			t.Errorf("%q.Closed() = %v", tt.state, got)
		}
		if got := tt.state.MoneyTaken(); got != tt.taken {
			t.Errorf("%q.MoneyTaken() = %v", tt.state, got)
		}
	}
}

func TestLoggedOutcomeHasNoChallengeURL(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	o := payment.Outcome{Kind: payment.ActionRequired, Reference: "pi_1", ProviderCode: "c",
		Action: payment.Action{Kind: payment.ActionRedirect, URL: "http://bank.example/secret"}}
	slog.New(slog.NewTextHandler(&buf, nil)).Info("answer", "outcome", o)
	if got := buf.String(); strings.Contains(got, "bank.example") || !strings.Contains(got, "outcome.kind=action_required") {
		t.Errorf("logged %q", got)
	}
}
