package redemption_test

import (
	"testing"

	"usher"
	"usher/internal/redemption"
)

var results = []redemption.Result{
	redemption.ResultDispensed, redemption.ResultAdmitted, redemption.ResultFailed, redemption.ResultUnknown,
}

func TestConfirm(t *testing.T) {
	b := setup(t)
	d := b.device(t, concert, redemption.SettleLater)
	for _, result := range results {
		t.Run(string(result), func(t *testing.T) {
			ticket := b.issue(t, concert, anySeat())[0]
			red := b.mustScan(t, d, ticket.Code)
			want := usher.CodeUsed
			if result == redemption.ResultFailed || result == redemption.ResultUnknown {
				want = usher.CodeAbnormal
			}
			first, err := b.report(t.Context(), d, red, result)
			if err != nil {
				t.Fatalf("confirm: %v", err)
			}
			if first != (redemption.Confirmation{Redemption: red.ID, Status: want, Result: result, SettledAt: first.SettledAt}) || first.SettledAt.IsZero() {
				t.Errorf("confirmed %+v", first)
			}
			if got := b.ticket(t, ticket); got.Status != want {
				t.Errorf("code is %s, want %s", got.Status, want)
			}
			b.restart()
			again, err := b.report(t.Context(), d, red, result)
			first.Replayed = true
			if err != nil || again != first {
				t.Errorf("repeat answers %+v (%v), want %+v", again, err, first)
			}
			if n := b.count(t, `SELECT count(*) FROM late_confirm WHERE redemption_id = $1`, red.ID); n != 0 {
				t.Errorf("%d rows of evidence for repeats", n)
			}
		})
	}
}

// A second report that says something else changes nothing and is kept, once.
func TestConfirmContradictsTheFirst(t *testing.T) {
	b := setup(t)
	d := b.device(t, concert, redemption.SettleLater)
	for _, first := range results {
		for _, second := range results {
			if first == second {
				continue
			}
			t.Run(string(first)+" then "+string(second), func(t *testing.T) {
				ticket := b.issue(t, concert, anySeat())[0]
				red := b.mustScan(t, d, ticket.Code)
				out, err := b.report(t.Context(), d, red, first)
				if err != nil {
					t.Fatalf("confirm: %v", err)
				}
				want := usher.CodeTransactionConflict
				if out.Status == usher.CodeAbnormal {
					want = usher.CodeCodeAbnormal
				}
				for range 2 {
					_, err := b.report(t.Context(), d, red, second)
					wantCode(t, err, want)
				}
				if got := b.ticket(t, ticket); got.Status != out.Status {
					t.Errorf("code moved from %s to %s", out.Status, got.Status)
				}
				n := b.count(t, `SELECT count(*) FROM late_confirm WHERE redemption_id = $1 AND result = $2 AND code_status = $3`,
					red.ID, second, out.Status)
				if n != 1 {
					t.Errorf("%d rows of evidence, want 1", n)
				}
				if again, err := b.report(t.Context(), d, red, first); err != nil || !again.Replayed || again.Status != out.Status {
					t.Errorf("the first report repeated answers %+v (%v)", again, err)
				}
			})
		}
	}
}

// The limit counts whether the sweep has come by or not.
func TestConfirmPastTheLimit(t *testing.T) {
	b := setup(t)
	for _, swept := range []bool{false, true} {
		d, ticket := b.device(t, concert, redemption.SettleLater), b.issue(t, concert, anySeat())[0]
		red := b.mustScan(t, d, ticket.Code)
		b.lapse(t, red)
		if swept {
			if n, err := b.Sweep(t.Context()); n != 1 || err != nil {
				t.Fatalf("sweep froze %d (%v), want 1", n, err)
			}
		}
		for range 2 {
			_, err := b.report(t.Context(), d, red, redemption.ResultDispensed)
			wantCode(t, err, usher.CodeCodeAbnormal)
		}
		if got := b.ticket(t, ticket); got.Status != usher.CodeAbnormal {
			t.Errorf("swept %t: code is %s, want abnormal", swept, got.Status)
		}
		n := b.count(t, `SELECT count(*) FROM late_confirm l JOIN redemption r USING (redemption_id)
			WHERE l.result = 'dispensed' AND r.result = 'expired' AND r.redemption_id = $1`, red.ID)
		if n != 1 {
			t.Errorf("swept %t: %d rows of evidence, want 1", swept, n)
		}
	}
}

func TestConfirmOfWhatIsNotTheDevices(t *testing.T) {
	b := setup(t)
	d, ticket := b.device(t, concert, redemption.SettleLater), b.issue(t, concert, "A-1")[0]
	red := b.mustScan(t, d, ticket.Code)
	confirm := redemption.Confirm{Device: d, Redemption: red.ID, TransactionID: red.TransactionID, Result: redemption.ResultAdmitted}
	for name, c := range map[string]struct {
		change func(*redemption.Confirm)
		want   usher.Code
	}{
		"another device":         {func(c *redemption.Confirm) { c.Device = b.device(t, concert, redemption.SettleLater) }, usher.CodeNotFound},
		"another event's device": {func(c *redemption.Confirm) { c.Device = b.device(t, match, redemption.SettleLater) }, usher.CodeNotFound},
		"no such redemption":     {func(c *redemption.Confirm) { c.Redemption = usher.NewRedemptionID(concert) }, usher.CodeNotFound},
		"another transaction":    {func(c *redemption.Confirm) { c.TransactionID = "other" }, usher.CodeTransactionConflict},
		"no transaction":         {func(c *redemption.Confirm) { c.TransactionID = "" }, usher.CodeIdempotencyKeyRequired},
		"no result":              {func(c *redemption.Confirm) { c.Result = "" }, usher.CodeInvalidRequest},
		"a result of ours":       {func(c *redemption.Confirm) { c.Result = "expired" }, usher.CodeInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			other := confirm
			c.change(&other)
			_, err := b.Confirm(t.Context(), other)
			wantCode(t, err, c.want)
		})
	}
	if got := b.ticket(t, ticket); got.Status != usher.CodeProcessing {
		t.Errorf("code is %s, want processing", got.Status)
	}
	if n := b.count(t, `SELECT count(*) FROM late_confirm`); n != 0 {
		t.Errorf("%d rows of evidence from strangers", n)
	}
	if _, err := b.Confirm(t.Context(), confirm); err != nil {
		t.Errorf("the device's own report is refused: %v", err)
	}
}

// A human gate may confirm, too: it repeats what the claim said.
func TestConfirmWhereTheClaimSettled(t *testing.T) {
	b := setup(t)
	d, ticket := b.device(t, concert, redemption.SettleNow), b.issue(t, concert, "A-1")[0]
	red := b.mustScan(t, d, ticket.Code)
	out, err := b.report(t.Context(), d, red, redemption.ResultAdmitted)
	if err != nil || !out.Replayed || out.Status != usher.CodeUsed {
		t.Errorf("confirm answers %+v (%v), want used, replayed", out, err)
	}
	_, err = b.report(t.Context(), d, red, redemption.ResultFailed)
	wantCode(t, err, usher.CodeTransactionConflict)
	if got := b.ticket(t, ticket); got.Status != usher.CodeUsed {
		t.Errorf("code is %s, want used", got.Status)
	}
}

// Cancelled while the machine was acting: recorded as what happened.
func TestConfirmAfterCancellation(t *testing.T) {
	b := setup(t)
	d, ticket := b.device(t, concert, redemption.SettleLater), b.issue(t, concert, "A-1")[0]
	red := b.mustScan(t, d, ticket.Code)
	b.cancel(t, ticket.Order)
	if _, err := b.report(t.Context(), d, red, redemption.ResultAdmitted); err != nil {
		t.Fatalf("confirm: %v", err)
	}
	if got := b.ticket(t, ticket); got.Status != usher.CodeUsed || !got.Cancelled {
		t.Errorf("ticket is %+v, want used and cancelled", got)
	}
}
