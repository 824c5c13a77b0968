package redemption_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/redemption"
)

func TestClaim(t *testing.T) {
	b := setup(t)
	for settle, status := range map[redemption.Settle]usher.CodeStatus{
		redemption.SettleNow:   usher.CodeUsed,
		redemption.SettleLater: usher.CodeProcessing,
	} {
		t.Run(string(settle), func(t *testing.T) {
			d, ticket := b.device(t, concert, settle), b.issue(t, concert, anySeat())[0]
			red, err := b.Claim(t.Context(), redemption.Claim{Device: d, Code: ticket.Code, TransactionID: "T1"})
			if err != nil {
				t.Fatalf("claim: %v", err)
			}
			want := redemption.Redemption{
				ID: red.ID, Ticket: ticket.ID, Event: concert, Seat: ticket.Seat, Tier: "stalls", Device: d.ID, TransactionID: "T1",
				Status: status, Current: status, Instruction: "Open the gate",
				ClaimedAt: red.ClaimedAt, ConfirmBy: red.ClaimedAt.Add(2 * time.Minute), Now: red.Now,
			}
			if red != want {
				t.Errorf("granted %+v, want %+v", red, want)
			}
			if red.ID.Event() != concert || red.ClaimedAt.IsZero() || red.Now.Before(red.ClaimedAt) {
				t.Errorf("ids or times are wrong: %+v", red)
			}
			got := b.ticket(t, ticket)
			if got.Status != status || (got.UsedAt != nil) != (status == usher.CodeUsed) {
				t.Errorf("ticket is %+v, want %s", got, status)
			}
			// A human gate records both edges: claimed, then settled as admitted.
			settled := b.count(t, `SELECT count(*) FROM redemption
				WHERE redemption_id = $1 AND result = 'admitted' AND settled_at >= claimed_at`, red.ID)
			if (settled == 1) != (settle == redemption.SettleNow) {
				t.Errorf("%d redemptions are settled", settled)
			}
		})
	}
}

// P61: 100 parallel claims of one code from 10 devices.
func TestClaimHasOneWinner(t *testing.T) {
	b := setup(t)
	ticket := b.issue(t, concert, "A-1")[0]
	devices := make([]redemption.Device, 10)
	for i := range devices {
		devices[i] = b.device(t, concert, []redemption.Settle{redemption.SettleNow, redemption.SettleLater}[i%2])
	}
	errs := make([]error, 100)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			c := redemption.Claim{Device: devices[i%10], Code: ticket.Code, TransactionID: fmt.Sprintf("T%d", i)}
			_, errs[i] = b.Claim(t.Context(), c)
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch usher.CodeOf(err) {
		case "":
			won++
		case usher.CodeCodeBusy, usher.CodeCodeUsed:
		default:
			t.Errorf("a loser was answered %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d winners, want 1", won)
	}
	if n := b.count(t, `SELECT count(*) FROM redemption`); n != 1 {
		t.Errorf("%d redemptions, want 1", n)
	}
	if n := len(b.refusals(t, concert)); n != 99 {
		t.Errorf("%d refusals in the audit list, want 99", n)
	}
}

// hold arms the commit of the next transaction to wait. reached is closed when
// it does, and release lets it go on; both may be used once.
func hold(t *testing.T) (reached <-chan struct{}, release func()) {
	t.Helper()
	at, gate := make(chan struct{}), make(chan struct{})
	release = sync.OnceFunc(func() { close(gate) })
	disarm := fault.Arm("pg.before_commit", 1, func(ctx context.Context) error {
		close(at)
		<-gate
		return nil
	})
	t.Cleanup(func() { release(); disarm() })
	return at, release
}

// Losers finish while the winner's transaction is still open: they wait for
// nobody, however long it takes.
func TestLosersDoNotWaitForTheWinner(t *testing.T) {
	b := setup(t)
	ticket := b.issue(t, concert, "A-1")[0]
	winner, other := b.device(t, concert, redemption.SettleNow), b.device(t, concert, redemption.SettleLater)
	reached, release := hold(t)
	var won error
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, won = b.Claim(t.Context(), redemption.Claim{Device: winner, Code: ticket.Code, TransactionID: "W"})
	}()
	<-reached

	errs := make([]error, 24)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = b.Claim(t.Context(), redemption.Claim{Device: other, Code: ticket.Code, TransactionID: fmt.Sprintf("L%d", i)})
		})
	}
	wg.Wait()
	select {
	case <-done:
		t.Fatalf("the winner's transaction was not open any more: %v", won)
	default:
	}
	for _, err := range errs {
		wantCode(t, err, usher.CodeCodeBusy)
		if e, ok := err.(*usher.Error); !ok || e.RetryAfter == 0 {
			t.Errorf("an undecided claim does not say so: %v", err)
		}
	}
	release()
	<-done
	if won != nil {
		t.Errorf("the winner lost: %v", won)
	}
	_, err := b.scan(t.Context(), other, ticket.Code)
	wantCode(t, err, usher.CodeCodeUsed)
}

func TestClaimReplays(t *testing.T) {
	b := setup(t)
	tickets := b.issue(t, concert, "A-1", "A-2")
	now, later := b.device(t, concert, redemption.SettleNow), b.device(t, concert, redemption.SettleLater)
	claim := redemption.Claim{Device: later, Code: tickets[0].Code, TransactionID: "T1"}
	first, err := b.Claim(t.Context(), claim)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	sameAnswer := func(t *testing.T, c redemption.Claim, current usher.CodeStatus) {
		t.Helper()
		again, err := b.Claim(t.Context(), c)
		if err != nil {
			t.Fatalf("repeat: %v", err)
		}
		want := first
		want.Replayed, want.Current, want.Now = true, current, again.Now
		if again != want {
			t.Errorf("repeat answers %+v, want %+v", again, want)
		}
	}
	t.Run("same request", func(t *testing.T) { sameAnswer(t, claim, usher.CodeProcessing) })
	t.Run("other spelling of the code", func(t *testing.T) {
		c := claim
		c.Code = strings.ToLower(c.Code) + "\r\n"
		sameAnswer(t, c, usher.CodeProcessing)
	})
	t.Run("in another process", func(t *testing.T) {
		b.restart()
		sameAnswer(t, claim, usher.CodeProcessing)
	})
	t.Run("another code", func(t *testing.T) {
		for _, code := range []string{tickets[1].Code, "rubbish", redemption.NewCode(concert), redemption.NewCode(match)} {
			_, err := b.Claim(t.Context(), redemption.Claim{Device: later, Code: code, TransactionID: "T1"})
			wantCode(t, err, usher.CodeTransactionConflict)
		}
		if got := b.ticket(t, tickets[1]); got.Status != usher.CodeUnused {
			t.Errorf("the other code is %s, want unused", got.Status)
		}
	})
	t.Run("another device's transaction of the same name", func(t *testing.T) {
		if _, err := b.Claim(t.Context(), redemption.Claim{Device: now, Code: tickets[1].Code, TransactionID: "T1"}); err != nil {
			t.Errorf("claim: %v", err)
		}
	})
	t.Run("past the limit", func(t *testing.T) {
		b.lapse(t, first)
		again, err := b.Claim(t.Context(), claim)
		if err != nil || again.Status != usher.CodeProcessing || again.Current != usher.CodeAbnormal || again.Now.Before(again.ConfirmBy) {
			t.Errorf("repeat answers %+v (%v), want the first answer with an abnormal code", again, err)
		}
	})
	t.Run("after the order was cancelled", func(t *testing.T) {
		b.cancel(t, tickets[0].Order)
		if again, err := b.Claim(t.Context(), claim); err != nil || !again.Replayed {
			t.Errorf("repeat answers %+v (%v), want the first answer", again, err)
		}
	})
}

// A refusal is not bound to the transaction id, and since nothing returns to
// unused it can only become more serious.
func TestRefusalIsReadAgain(t *testing.T) {
	b := setup(t)
	ticket := b.issue(t, concert, "A-1")[0]
	d := b.device(t, concert, redemption.SettleLater)
	red := b.mustScan(t, d, ticket.Code)
	claim := redemption.Claim{Device: b.device(t, concert, redemption.SettleNow), Code: ticket.Code, TransactionID: "T1"}
	_, err := b.Claim(t.Context(), claim)
	wantCode(t, err, usher.CodeCodeBusy)
	if _, err := b.report(t.Context(), d, red, redemption.ResultAdmitted); err != nil {
		t.Fatalf("confirm: %v", err)
	}
	_, err = b.Claim(t.Context(), claim)
	wantCode(t, err, usher.CodeCodeUsed)
}

// Two codes under one transaction id in the same moment: the second waits for
// the first one's unique key and is then told.
func TestTransactionConflictInTheSameMoment(t *testing.T) {
	b := setup(t)
	tickets := b.issue(t, concert, "A-1", "A-2")
	d := b.device(t, concert, redemption.SettleLater)
	reached, release := hold(t)
	errs := make([]error, 2)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, errs[0] = b.Claim(t.Context(), redemption.Claim{Device: d, Code: tickets[0].Code, TransactionID: "T1"})
	})
	<-reached
	wg.Go(func() {
		_, errs[1] = b.Claim(t.Context(), redemption.Claim{Device: d, Code: tickets[1].Code, TransactionID: "T1"})
	})
	for b.count(t, `SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'`) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the second claim never waited")
		}
	}
	release()
	wg.Wait()
	wantCode(t, errs[0], "")
	wantCode(t, errs[1], usher.CodeTransactionConflict)
	if got := b.ticket(t, tickets[1]); got.Status != usher.CodeUnused {
		t.Errorf("the second code is %s, want unused", got.Status)
	}
}

// P64: the most serious reason, the same at every device, and "used" only of a
// code that is valid.
func TestRefusalNamesTheMostSeriousReason(t *testing.T) {
	b := setup(t)
	later := b.device(t, concert, redemption.SettleLater)
	at := map[string]redemption.Device{
		"gate": b.device(t, concert, redemption.SettleNow), "turnstile": b.device(t, concert, redemption.SettleLater),
	}
	use := func(t *testing.T, k redemption.Ticket) { b.mustScan(t, at["gate"], k.Code) }
	begin := func(t *testing.T, k redemption.Ticket) redemption.Redemption { return b.mustScan(t, later, k.Code) }
	fail := func(t *testing.T, k redemption.Ticket) {
		if _, err := b.report(t.Context(), later, begin(t, k), redemption.ResultFailed); err != nil {
			t.Fatalf("confirm: %v", err)
		}
	}
	cancel := func(t *testing.T, k redemption.Ticket) { b.cancel(t, k.Order) }
	both := func(a, z func(*testing.T, redemption.Ticket)) func(*testing.T, redemption.Ticket) {
		return func(t *testing.T, k redemption.Ticket) { a(t, k); z(t, k) }
	}
	for name, c := range map[string]struct {
		prepare func(*testing.T, redemption.Ticket)
		want    usher.Code
	}{
		"used":                      {use, usher.CodeCodeUsed},
		"being redeemed":            {func(t *testing.T, k redemption.Ticket) { begin(t, k) }, usher.CodeCodeBusy},
		"past its limit, not swept": {func(t *testing.T, k redemption.Ticket) { b.lapse(t, begin(t, k)) }, usher.CodeCodeAbnormal},
		"failed":                    {fail, usher.CodeCodeAbnormal},
		"cancelled":                 {cancel, usher.CodeCodeVoided},
		"used, then cancelled":      {both(use, cancel), usher.CodeCodeVoided},
		"claimed, then cancelled":   {both(func(t *testing.T, k redemption.Ticket) { begin(t, k) }, cancel), usher.CodeCodeVoided},
		"failed, then cancelled":    {both(fail, cancel), usher.CodeCodeVoided},
	} {
		t.Run(name, func(t *testing.T) {
			ticket := b.issue(t, concert, anySeat())[0]
			c.prepare(t, ticket)
			before := b.ticket(t, ticket)
			for _, d := range at {
				_, err := b.scan(t.Context(), d, ticket.Code)
				wantCode(t, err, c.want)
			}
			after := b.ticket(t, ticket)
			if after.Status != before.Status {
				t.Errorf("the scan moved the code from %s to %s", before.Status, after.Status)
			}
		})
	}
}

func TestClaimOutsideTheWindow(t *testing.T) {
	b := setup(t)
	ticket, used := b.issue(t, concert, "A-1")[0], b.issue(t, concert, "A-2")[0]
	cancelled := b.issue(t, concert, "A-3")[0]
	b.cancel(t, cancelled.Order)
	d := b.device(t, concert, redemption.SettleNow)
	b.mustScan(t, d, used.Code)
	past, future := time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour)
	for name, rules := range map[string]redemption.PoolRules{
		"the day before": {ConfirmWithin: time.Minute, ValidFrom: &future},
		"the day after":  {ConfirmWithin: time.Minute, ValidUntil: &past},
	} {
		if _, err := b.ChangePool(t.Context(), concert, rules); err != nil {
			t.Fatalf("change pool: %v", err)
		}
		for code, want := range map[string]usher.Code{
			ticket.Code: usher.CodeRedemptionClosed, used.Code: usher.CodeRedemptionClosed, cancelled.Code: usher.CodeCodeVoided,
		} {
			_, err := b.scan(t.Context(), d, code)
			if got := usher.CodeOf(err); got != want {
				t.Errorf("%s: code is %q, want %q", name, got, want)
			}
		}
	}
	if _, err := b.ChangePool(t.Context(), concert, redemption.PoolRules{ConfirmWithin: time.Minute, ValidFrom: &past, ValidUntil: &future}); err != nil {
		t.Fatalf("change pool: %v", err)
	}
	b.mustScan(t, d, ticket.Code)
}

// P65: before capture there is no code, and nothing that can be read off an
// order opens anything.
func TestUnpaidOrdersOpenNothing(t *testing.T) {
	b := setup(t)
	d := b.device(t, concert, redemption.SettleNow)
	order := b.sell(t, concert, "A-1")
	for _, typ := range []ledger.EntryType{
		ledger.EntryHoldPlaced, ledger.EntryPaymentBegun, ledger.EntryPaymentFailed, ledger.EntryOrderConfirmed,
		ledger.EntryOrderVoiding, ledger.EntryOrderVoided,
	} {
		if err := b.read(t.Context(), concert, entry(typ, order)); err != nil {
			t.Fatalf("read %s: %v", typ, err)
		}
	}
	if got := b.tickets(t, order); len(got) != 0 {
		t.Fatalf("an order that was not captured has %d tickets", len(got))
	}
	issued := b.issue(t, concert, "A-2")[0]
	for _, guess := range []string{
		order.String(), strings.TrimPrefix(order.String(), "ord_"), issued.ID.String(), issued.Order.String(),
		strings.TrimPrefix(issued.ID.String(), "tkt_"), "00007" + strings.TrimPrefix(issued.Order.String(), "ord_"), "A-1",
	} {
		_, err := b.scan(t.Context(), d, guess)
		wantCode(t, err, usher.CodeCodeUnknown)
	}
}

// P66: a device acts for its own event, and a code of another one is refused by
// its text alone: the other event's shard is not even reachable here.
func TestClaimAtTheWrongEvent(t *testing.T) {
	b := setup(t)
	d := b.device(t, concert, redemption.SettleNow)
	ticket := b.issue(t, match, "A-1")[0]
	for _, code := range []string{ticket.Code, redemption.NewCode(elsewhere), redemption.NewCode(usher.EventIDMax)} {
		_, err := b.scan(t.Context(), d, code)
		wantCode(t, err, usher.CodeWrongPool)
	}
	if got := b.ticket(t, ticket); got.Status != usher.CodeUnused {
		t.Errorf("the other event's code is %s, want unused", got.Status)
	}
	for _, f := range b.refusals(t, concert) {
		if !f.Ticket.IsZero() || f.Reason != usher.CodeWrongPool {
			t.Errorf("the audit list has %+v", f)
		}
	}
	b.mustScan(t, b.device(t, match, redemption.SettleNow), ticket.Code)
}

// The same text in two pools is two codes; each lives on its own.
func TestSameTextInTwoPools(t *testing.T) {
	b := setup(t)
	own, other := b.issue(t, concert, "A-1")[0], b.issue(t, match, "A-1")[0]
	mustExec(t, b.shard, `UPDATE code SET code = $1 WHERE ticket_id = $2`, own.Code, other.ID)
	_, err := b.scan(t.Context(), b.device(t, match, redemption.SettleNow), own.Code)
	wantCode(t, err, usher.CodeWrongPool)
	b.mustScan(t, b.device(t, concert, redemption.SettleNow), own.Code)
	if got := b.ticket(t, other); got.Status != usher.CodeUnused {
		t.Errorf("the other pool's code is %s, want unused", got.Status)
	}
}

// P67: refused scans are in the audit list alone.
func TestRefusedScansDoNotCount(t *testing.T) {
	b := setup(t)
	d, ticket := b.device(t, concert, redemption.SettleNow), b.issue(t, concert, "A-1")[0]
	b.mustScan(t, d, ticket.Code)
	first := b.ticket(t, ticket).UsedAt
	for range 5 {
		_, err := b.scan(t.Context(), d, ticket.Code)
		wantCode(t, err, usher.CodeCodeUsed)
	}
	if n, err := b.EntryCount(t.Context(), concert); n != 1 || err != nil {
		t.Errorf("entry count is %d (%v), want 1", n, err)
	}
	if got := b.ticket(t, ticket).UsedAt; !got.Equal(*first) {
		t.Errorf("first use moved from %s to %s", first, got)
	}
	if n := b.count(t, `SELECT count(*) FROM redemption`); n != 1 {
		t.Errorf("%d redemptions, want 1", n)
	}
	list := b.refusals(t, concert)
	if len(list) != 5 {
		t.Fatalf("%d refusals, want 5", len(list))
	}
	for i, f := range list {
		if f.Ticket != ticket.ID || f.Device != d.ID || f.Reason != usher.CodeCodeUsed || f.At.Before(*first) {
			t.Errorf("refusal %d is %+v", i, f)
		}
		if i > 0 && f.Number >= list[i-1].Number {
			t.Errorf("refusals are not newest first")
		}
	}
	older, err := b.Refusals(t.Context(), concert, list[2].Number, 1)
	if err != nil || len(older) != 1 || older[0].Number != list[3].Number {
		t.Errorf("the next page is %+v (%v)", older, err)
	}
}

// P68 at the claim: what scanners add does not matter, what is no code is
// unknown, and none of it is an error of ours.
func TestClaimOfWhatScannersSend(t *testing.T) {
	b := setup(t)
	d := b.device(t, concert, redemption.SettleNow)
	for i, mangle := range []func(string) string{
		func(s string) string { return s + "\r\n" },
		func(s string) string { return "   " + s },
		strings.ToLower,
		fullWidth,
	} {
		ticket := b.issue(t, concert, usher.SeatID(fmt.Sprintf("M-%d", i)))[0]
		if red := b.mustScan(t, d, mangle(ticket.Code)); red.Ticket != ticket.ID {
			t.Errorf("mangling %d matched %s, want %s", i, red.Ticket, ticket.ID)
		}
	}
	ticket := b.issue(t, concert, "A-1")[0]
	for _, code := range []string{"", "\x00", ticket.Code[:9] + "\x00" + ticket.Code[9:], ticket.Code[:9] + "\x1b" + ticket.Code[9:],
		"\xff\xfe", strings.Repeat("9", 1<<20), "'; DROP TABLE code; --", ticket.Code[1:] + ticket.Code[:1]} {
		_, err := b.scan(t.Context(), d, code)
		if got := usher.CodeOf(err); got != usher.CodeCodeUnknown && got != usher.CodeWrongPool {
			t.Errorf("a scan of %d bytes is answered %v", len(code), err)
		}
	}
	if got := b.ticket(t, ticket); got.Status != usher.CodeUnused {
		t.Errorf("the code is %s, want unused", got.Status)
	}
}

func TestClaimRefusesBadTransactionIDs(t *testing.T) {
	b := setup(t)
	d, ticket := b.device(t, concert, redemption.SettleNow), b.issue(t, concert, "A-1")[0]
	for id, want := range map[string]usher.Code{
		"": usher.CodeIdempotencyKeyRequired, "a b": usher.CodeInvalidRequest, "a\x00": usher.CodeInvalidRequest,
		strings.Repeat("x", 129): usher.CodeInvalidRequest,
	} {
		_, err := b.Claim(t.Context(), redemption.Claim{Device: d, Code: ticket.Code, TransactionID: id})
		wantCode(t, err, want)
	}
	if n := len(b.refusals(t, concert)); n != 0 {
		t.Errorf("%d refusals for requests that were never understood", n)
	}
	if _, err := b.Claim(t.Context(), redemption.Claim{Device: d, Code: ticket.Code, TransactionID: strings.Repeat("x", 128)}); err != nil {
		t.Errorf("the longest transaction id is refused: %v", err)
	}
}
