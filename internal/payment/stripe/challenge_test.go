package stripe_test

import (
	"strings"
	"testing"

	"usher/internal/payment"
)

// challenged returns a request that waits for the buyer at the bank.
func (b *bundle) challenged(card string) payment.AuthorizeRequest {
	b.t.Helper()
	r := b.prepare(card)
	out := b.adapter.Authorize(b.t.Context(), r)
	b.want(out, payment.ActionRequired, payment.StateActionRequired)
	if out.Action.Kind != payment.ActionRedirect || !strings.HasPrefix(out.Action.URL, b.URL+"/challenge/") {
		b.t.Fatalf("action = %+v", out.Action)
	}
	return r
}

// B2: challenge passed, failed, abandoned and given up, finished twice.
func TestChallenge(t *testing.T) {
	t.Run("passed, then finished again", func(t *testing.T) {
		b := setup(t)
		r := b.challenged("pm_card_threeDSecure2Required")
		back := b.Decide(r.Reference, "approve")
		if !strings.HasPrefix(back, r.ReturnURL) || !strings.Contains(back, "redirect_status=succeeded") {
			t.Errorf("sent back to %q", back)
		}
		s := b.adapter.Lookup(t.Context(), r.Reference)
		if s.State != payment.StateAuthorized || s.CaptureBefore.IsZero() {
			t.Errorf("snapshot = %+v", s)
		}
		b.Decide(r.Reference, "fail")
		if got := b.Intent(r.Reference); got.Authorizations != 1 || got.Status != "requires_capture" {
			t.Errorf("second decision changed the intent: %+v", got)
		}
		// The key's answer is history (requires_action): the adapter tells what holds now.
		out := b.adapter.Authorize(t.Context(), r)
		b.want(out, payment.Approved, payment.StateAuthorized)
		if !out.Replayed {
			t.Error("not marked as replayed")
		}
	})
	t.Run("failed", func(t *testing.T) {
		b := setup(t)
		r := b.challenged("pm_card_authenticationRequired")
		if back := b.Decide(r.Reference, "fail"); !strings.Contains(back, "redirect_status=failed") {
			t.Errorf("sent back to %q", back)
		}
		s := b.adapter.Lookup(t.Context(), r.Reference)
		if s.State != payment.StateDeclined || s.LastErrorCode != "payment_intent_authentication_failure" {
			t.Errorf("snapshot = %+v", s)
		}
	})
	t.Run("passed, then declined by the bank", func(t *testing.T) {
		b := setup(t)
		r := b.challenged("pm_card_threeDSecureRequiredChargeDeclined")
		b.Decide(r.Reference, "approve")
		if s := b.adapter.Lookup(t.Context(), r.Reference); s.State != payment.StateDeclined {
			t.Errorf("snapshot = %+v", s)
		}
	})
	t.Run("abandoned and given up, then finished too late", func(t *testing.T) {
		b := setup(t)
		r := b.challenged("pm_card_threeDSecure2Required")
		b.want(b.adapter.Void(t.Context(), voidOf(r)), payment.Approved, payment.StateVoided)
		b.Decide(r.Reference, "approve")
		if got := b.Intent(r.Reference); got.Authorizations != 0 || got.Status != "canceled" {
			t.Errorf("a voided intent was paid: %+v", got)
		}
	})
	// S4 in the other order: the buyer wins, so the void takes the authorization back.
	t.Run("finished, then voided", func(t *testing.T) {
		b := setup(t)
		r := b.challenged("pm_card_threeDSecure2Required")
		b.Decide(r.Reference, "approve")
		b.want(b.adapter.Void(t.Context(), voidOf(r)), payment.Approved, payment.StateVoided)
		if got := b.Intent(r.Reference); got.Authorizations != 1 || got.Voids != 1 {
			t.Errorf("ledger = %+v", got)
		}
	})
}

// The fence: once voided, a confirmation that is still on its way authorizes nothing.
func TestVoidOfAnUnconfirmedIntentIsAFence(t *testing.T) {
	b := setup(t)
	r := b.prepare("pm_card_visa")
	b.want(b.adapter.Void(t.Context(), voidOf(r)), payment.Approved, payment.StateVoided)
	out := b.adapter.Authorize(t.Context(), r)
	b.want(out, payment.Declined, payment.StateVoided)
	b.wantRetry(out, payment.RetryNewAttempt)
	if got := b.Intent(r.Reference); got.Authorizations != 0 {
		t.Errorf("ledger = %+v", got)
	}
}
