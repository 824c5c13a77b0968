package redemption_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/redemption"
)

func TestIssueOneSetPerCapturedOrder(t *testing.T) {
	b := setup(t)
	order := b.sell(t, concert, "A-1", "A-2", "A-3")
	captured := entry(ledger.EntryOrderCaptured, order)
	if err := b.read(t.Context(), concert, captured); err != nil {
		t.Fatalf("issue: %v", err)
	}
	first := b.tickets(t, order)
	if len(first) != 3 {
		t.Fatalf("%d tickets, want 3", len(first))
	}
	for i, k := range first {
		want := redemption.Ticket{
			ID: k.ID, Event: concert, Order: order, Seat: seatNumber(i), Tier: "stalls", Code: k.Code, Status: usher.CodeUnused, IssuedAt: k.IssuedAt,
		}
		if k != want || k.ID.Event() != concert || k.IssuedAt.IsZero() {
			t.Errorf("ticket %d is %+v", i, k)
		}
		if _, event, ok := redemption.ParseCode(k.Code); !ok || event != concert {
			t.Errorf("ticket %d has no code of its event", i)
		}
	}
	// The entry again, twice in one batch, from the beginning of the outbox, in
	// another process: still the same set.
	b.restart()
	if err := b.read(t.Context(), concert, captured, captured); err != nil {
		t.Fatalf("read again: %v", err)
	}
	again := b.tickets(t, order)
	if len(again) != 3 {
		t.Fatalf("%d tickets after the second reading, want 3", len(again))
	}
	for i := range again {
		if again[i].ID != first[i].ID || again[i].Code != first[i].Code {
			t.Errorf("ticket %d was replaced", i)
		}
	}
}

func seatNumber(i int) usher.SeatID { return []usher.SeatID{"A-1", "A-2", "A-3"}[i] }

func TestIssueForManyOrdersAtOnce(t *testing.T) {
	b := setup(t)
	var entries []ledger.Entry
	for range 40 {
		entries = append(entries, entry(ledger.EntryOrderConfirmed, usher.NewOrderID(concert)),
			entry(ledger.EntryOrderCaptured, b.sell(t, concert, anySeat(), anySeat(), anySeat())))
	}
	if err := b.read(t.Context(), concert, entries...); err != nil {
		t.Fatalf("issue: %v", err)
	}
	if n := b.count(t, `SELECT count(DISTINCT code) FROM code`); n != 120 {
		t.Errorf("%d codes, want 120", n)
	}
}

// The codes commit with the cursor or not at all.
func TestIssueRollsBackWithItsTransaction(t *testing.T) {
	b := setup(t)
	order := b.sell(t, concert, "A-1")
	err := pg.InTx(t.Context(), b.shard, func(tx pgx.Tx) error {
		if err := b.Issuer().Handle(t.Context(), tx, concert, []ledger.Entry{entry(ledger.EntryOrderCaptured, order)}); err != nil {
			t.Errorf("issue: %v", err)
		}
		return errors.New("the cursor was not stored")
	})
	if err == nil {
		t.Fatal("the transaction did not fail")
	}
	if n := len(b.tickets(t, order)); n != 0 {
		t.Errorf("%d tickets without a cursor", n)
	}
}

// An event whose publication has not made its pool yet keeps its entries.
func TestIssueWaitsForThePool(t *testing.T) {
	b := setup(t)
	const late usher.EventID = 10
	mustExec(t, b.homes.Directory, `INSERT INTO event_home (event_id, shard) VALUES ($1, 1)`, late)
	order := b.sell(t, late, "A-1")
	err := b.read(t.Context(), late, entry(ledger.EntryOrderCaptured, order))
	wantCode(t, err, usher.CodeStateConflict)
	if _, err := b.CreatePool(t.Context(), late, usher.NewTenantID(), redemption.DefaultPoolRules()); err != nil {
		t.Fatalf("create pool: %v", err)
	}
	if err := b.read(t.Context(), late, entry(ledger.EntryOrderCaptured, order)); err != nil {
		t.Fatalf("issue: %v", err)
	}
	if n := len(b.tickets(t, order)); n != 1 {
		t.Errorf("%d tickets, want 1", n)
	}
}

func TestCancelledOrderHasNoUsableCode(t *testing.T) {
	b := setup(t)
	t.Run("after issue", func(t *testing.T) {
		tickets := b.issue(t, concert, "A-1", "A-2")
		b.mustScan(t, b.device(t, concert, redemption.SettleNow), tickets[0].Code)
		for range 2 {
			b.cancel(t, tickets[0].Order)
		}
		got := b.tickets(t, tickets[0].Order)
		if got[0].Status != usher.CodeUsed || !got[0].Cancelled || got[1].Status != usher.CodeVoided || !got[1].Cancelled {
			t.Errorf("tickets are %+v, want used and voided, both cancelled", got)
		}
		// Read from the beginning again, the order is not given new codes.
		if err := b.read(t.Context(), concert, entry(ledger.EntryOrderCaptured, tickets[0].Order)); err != nil {
			t.Fatalf("read again: %v", err)
		}
		if n := len(b.tickets(t, tickets[0].Order)); n != 2 {
			t.Errorf("%d tickets, want 2", n)
		}
	})
	t.Run("before issue", func(t *testing.T) {
		order := b.sell(t, concert, anySeat())
		mustExec(t, b.shard, `UPDATE order_line SET state = 'cancelled' WHERE order_id = $1`, order)
		if err := b.read(t.Context(), concert, entry(ledger.EntryOrderCaptured, order), entry(ledger.EntryOrderCancelled, order)); err != nil {
			t.Fatalf("read: %v", err)
		}
		if n := len(b.tickets(t, order)); n != 0 {
			t.Errorf("%d tickets for a cancelled order", n)
		}
	})
	t.Run("in one batch", func(t *testing.T) {
		order := b.sell(t, concert, anySeat())
		if err := b.read(t.Context(), concert, entry(ledger.EntryOrderCaptured, order), entry(ledger.EntryOrderCancelled, order)); err != nil {
			t.Fatalf("read: %v", err)
		}
		if got := b.tickets(t, order); len(got) != 1 || got[0].Status != usher.CodeVoided {
			t.Errorf("tickets are %+v, want one, voided", got)
		}
	})
}

// A cancellation that meets a claim in its open transaction waits for it and
// judges the code as the claim left it.
func TestCancellationMeetsClaim(t *testing.T) {
	b := setup(t)
	d, ticket := b.device(t, concert, redemption.SettleLater), b.issue(t, concert, "A-1")[0]
	reached, release := hold(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := b.scan(t.Context(), d, ticket.Code); err != nil {
			t.Errorf("claim: %v", err)
		}
	})
	<-reached
	wg.Go(func() {
		if err := b.read(t.Context(), concert, entry(ledger.EntryOrderCancelled, ticket.Order)); err != nil {
			t.Errorf("cancel: %v", err)
		}
	})
	for b.count(t, `SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'`) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the cancellation never waited")
		}
	}
	release()
	wg.Wait()
	if got := b.ticket(t, ticket); got.Status != usher.CodeProcessing || !got.Cancelled {
		t.Errorf("ticket is %+v, want processing and cancelled", got)
	}
}

// And the other way round: a claim that meets an open cancellation is refused at
// once, and never wins afterwards.
func TestClaimMeetsCancellation(t *testing.T) {
	b := setup(t)
	d, ticket := b.device(t, concert, redemption.SettleNow), b.issue(t, concert, "A-1")[0]
	reached, release := hold(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := b.read(t.Context(), concert, entry(ledger.EntryOrderCancelled, ticket.Order)); err != nil {
			t.Errorf("cancel: %v", err)
		}
	})
	<-reached
	_, err := b.scan(t.Context(), d, ticket.Code)
	wantCode(t, err, usher.CodeCodeBusy)
	release()
	wg.Wait()
	_, err = b.scan(t.Context(), d, ticket.Code)
	wantCode(t, err, usher.CodeCodeVoided)
}

func TestTicketsOfOtherOrders(t *testing.T) {
	b := setup(t)
	b.issue(t, concert, "A-1")
	if got := b.tickets(t, usher.NewOrderID(concert)); len(got) != 0 {
		t.Errorf("an unknown order has tickets: %+v", got)
	}
	_, err := b.Tickets(t.Context(), usher.NewOrderID(4711))
	wantCode(t, err, usher.CodeNotFound)
	_, err = b.EntryCount(t.Context(), 4711)
	wantCode(t, err, usher.CodeNotFound)
	if n, err := b.EntryCount(t.Context(), concert); n != 0 || err != nil {
		t.Errorf("entry count is %d (%v), want 0", n, err)
	}
}

func TestCreatePool(t *testing.T) {
	b := setup(t)
	const show usher.EventID = 11
	mustExec(t, b.homes.Directory, `INSERT INTO event_home (event_id, shard) VALUES ($1, 1)`, show)
	tenant := usher.NewTenantID()
	pools := make([]redemption.Pool, 8)
	var wg sync.WaitGroup
	for i := range pools {
		wg.Go(func() {
			var err error
			if pools[i], err = b.CreatePool(t.Context(), show, tenant, redemption.DefaultPoolRules()); err != nil {
				t.Errorf("create: %v", err)
			}
		})
	}
	wg.Wait()
	for _, p := range pools {
		if p.ID != pools[0].ID || p.Event != show || p.Tenant != tenant || p.Rules.ConfirmWithin != 2*time.Minute {
			t.Errorf("pool is %+v, want %+v", p, pools[0])
		}
	}
	_, err := b.CreatePool(t.Context(), show, usher.NewTenantID(), redemption.DefaultPoolRules())
	wantCode(t, err, usher.CodeStateConflict)
	_, err = b.CreatePool(t.Context(), 4711, tenant, redemption.DefaultPoolRules())
	wantCode(t, err, usher.CodeNotFound)
}

func TestChangePool(t *testing.T) {
	b := setup(t)
	d, tickets := b.device(t, concert, redemption.SettleLater), b.issue(t, concert, "A-1", "A-2")
	before := b.mustScan(t, d, tickets[0].Code)
	if _, err := b.ChangePool(t.Context(), concert, redemption.PoolRules{ConfirmWithin: 30 * time.Second}); err != nil {
		t.Fatalf("change: %v", err)
	}
	p, err := b.Pool(t.Context(), concert)
	if err != nil || p.Rules.ConfirmWithin != 30*time.Second {
		t.Errorf("pool is %+v (%v)", p, err)
	}
	if after := b.mustScan(t, d, tickets[1].Code); after.ConfirmBy.Sub(after.ClaimedAt) != 30*time.Second {
		t.Errorf("a new claim has %s, want 30s", after.ConfirmBy.Sub(after.ClaimedAt))
	}
	again, err := b.Claim(t.Context(), redemption.Claim{Device: d, Code: tickets[0].Code, TransactionID: before.TransactionID})
	if err != nil || !again.ConfirmBy.Equal(before.ConfirmBy) {
		t.Errorf("an earlier claim's limit moved to %s (%v)", again.ConfirmBy, err)
	}
	from, until := time.Now(), time.Now().Add(-time.Second)
	for _, bad := range []redemption.PoolRules{
		{}, {ConfirmWithin: 1500 * time.Millisecond}, {ConfirmWithin: 25 * time.Hour}, {ConfirmWithin: -time.Second},
		{ConfirmWithin: time.Minute, ValidFrom: &from, ValidUntil: &until},
	} {
		_, err := b.ChangePool(t.Context(), concert, bad)
		wantCode(t, err, usher.CodeInvalidRequest)
	}
	_, err = b.ChangePool(t.Context(), 4711, redemption.DefaultPoolRules())
	wantCode(t, err, usher.CodeNotFound)
}

func TestSweep(t *testing.T) {
	b := setup(t)
	d, gate := b.device(t, concert, redemption.SettleLater), b.device(t, concert, redemption.SettleNow)
	tickets := b.issue(t, concert, "A-1", "A-2", "A-3", "A-4")
	due, fresh := b.mustScan(t, d, tickets[0].Code), b.mustScan(t, d, tickets[1].Code)
	b.lapse(t, due)
	// A settled redemption past its limit is none of the sweep's business.
	b.lapse(t, b.mustScan(t, gate, tickets[2].Code))
	for i, want := range []int{1, 0} {
		if n, err := b.Sweep(t.Context()); n != want || err != nil {
			t.Errorf("sweep %d froze %d (%v), want %d", i, n, err, want)
		}
	}
	want := []usher.CodeStatus{usher.CodeAbnormal, usher.CodeProcessing, usher.CodeUsed, usher.CodeUnused}
	for i, k := range b.tickets(t, tickets[0].Order) {
		if k.Status != want[i] {
			t.Errorf("code %d is %s, want %s", i, k.Status, want[i])
		}
	}
	if _, err := b.report(t.Context(), d, fresh, redemption.ResultDispensed); err != nil {
		t.Errorf("a fresh claim cannot be confirmed: %v", err)
	}
	for _, other := range []redemption.Device{d, gate} {
		_, err := b.scan(t.Context(), other, tickets[0].Code)
		wantCode(t, err, usher.CodeCodeAbnormal)
	}
}

// The sweep passes over a code that is being confirmed and takes the rest.
func TestSweepSkipsWhatIsLocked(t *testing.T) {
	b := setup(t)
	d, tickets := b.device(t, concert, redemption.SettleLater), b.issue(t, concert, "A-1", "A-2")
	first, second := b.mustScan(t, d, tickets[0].Code), b.mustScan(t, d, tickets[1].Code)
	reached, release := hold(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := b.report(t.Context(), d, first, redemption.ResultDispensed); err != nil {
			t.Errorf("confirm: %v", err)
		}
	})
	<-reached
	mustExec(t, b.shard, `UPDATE redemption SET confirm_by = clock_timestamp() - interval '1 second' WHERE redemption_id = $1`, second.ID)
	if n, err := b.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("sweep froze %d (%v), want 1", n, err)
	}
	release()
	wg.Wait()
	if got := b.tickets(t, tickets[0].Order); got[0].Status != usher.CodeUsed || got[1].Status != usher.CodeAbnormal {
		t.Errorf("codes are %s and %s, want used and abnormal", got[0].Status, got[1].Status)
	}
}

// Run sweeps by itself and ends with its context.
func TestRun(t *testing.T) {
	b := setup(t)
	d, ticket := b.device(t, concert, redemption.SettleLater), b.issue(t, concert, "A-1")[0]
	b.lapse(t, b.mustScan(t, d, ticket.Code))
	swept := make(chan struct{})
	defer fault.Arm("pg.after_commit", 1, func(context.Context) error { close(swept); return nil })()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	<-swept
	if got := b.ticket(t, ticket); got.Status != usher.CodeAbnormal {
		t.Errorf("code is %s, want abnormal", got.Status)
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("run ended with %v", err)
	}
}
