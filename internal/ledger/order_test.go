package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/pg/pgtest"
)

func TestBuySeats(t *testing.T) {
	h := newHall(t, 4, nil)
	a := usher.NewAccountID()
	hold := h.mustPlace(a, "k", seatIDs(0, 1)...)
	o := h.mustBegin(hold, "c")
	if o.Status != usher.OrderPaymentPending || o.Authorization == nil || o.Authorization.Status != usher.OperationCreated ||
		o.Authorization.NextAt == nil || o.Amount != hold.Amount {
		t.Fatalf("order %+v", o)
	}
	if o.GraceUntil == nil || !o.HoldExpiresAt.Equal(hold.ExpiresAt) || o.GraceUntil.Sub(o.HoldExpiresAt).Minutes() != 2 {
		t.Errorf("deadline %v, grace %v", o.HoldExpiresAt, o.GraceUntil)
	}
	h.wantSeat(seatID(0), usher.SeatPending, hold.ID)
	h.lapse(hold)
	_, err := h.place(usher.NewAccountID(), "k", seatIDs(0)...)
	wantCode(t, err, usher.CodeSeatsUnavailable)
	_, err = h.ReleaseHold(t.Context(), ledger.ReleaseHold{Hold: hold.ID, Account: a})
	wantCode(t, err, usher.CodeHoldPaymentPending)

	for range 3 {
		if o = h.mustConfirm(o); o.Status != usher.OrderConfirmed || o.Capture == nil || o.Capture.Status != usher.OperationCreated {
			t.Fatalf("confirmed order %+v", o)
		}
	}
	h.wantSeat(seatID(1), usher.SeatSold, hold.ID)
	for range 3 {
		o, err = h.SettleCapture(t.Context(), ledger.SettleCapture{Order: o.ID, Operation: o.Capture.ID, Captured: true})
		if err != nil || o.CapturedAt == nil || o.Capture.Status != usher.OperationSucceeded {
			t.Fatalf("captured order %+v, %v", o, err)
		}
	}
	types := h.entryTypes()
	want := []ledger.EntryType{ledger.EntryHoldPlaced, ledger.EntryPaymentBegun, ledger.EntryOrderConfirmed, ledger.EntryOrderCaptured}
	if !slices.Equal(types, want) {
		t.Errorf("outbox %v, want %v", types, want)
	}
	if orders, err := h.Orders(t.Context(), testEvent, a); err != nil || len(orders) != 1 || orders[0].Status != usher.OrderConfirmed {
		t.Errorf("orders %+v, %v", orders, err)
	}
}

func (h *hall) entryTypes() []ledger.EntryType {
	h.t.Helper()
	entries, err := h.Changes(h.t.Context(), testEvent, 0, 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	var out []ledger.EntryType
	for _, e := range entries {
		out = append(out, e.Type)
	}
	return out
}

func TestFreeOrder(t *testing.T) {
	h := newHall(t, 1, nil)
	hold := h.mustPlace(usher.NewAccountID(), "k", "F-1", "F-2")
	o, started, err := h.BeginPayment(t.Context(), ledger.BeginPayment{Hold: hold.ID, Account: hold.Account, Key: "c"})
	if err != nil || !started || o.Authorization != nil {
		t.Fatalf("begin: %+v, %v, %v", o, started, err)
	}
	o, err = h.ConfirmOrder(t.Context(), ledger.ConfirmOrder{Order: o.ID, Authorized: o.Amount})
	if err != nil || o.Status != usher.OrderConfirmed || o.CapturedAt == nil || o.Capture != nil {
		t.Errorf("free order %+v, %v", o, err)
	}
}

// A free order that is refused at the last moment has no money to wait for.
func TestFreeOrderRefused(t *testing.T) {
	h := newHall(t, 1, nil)
	hold := h.mustPlace(usher.NewAccountID(), "k", "F-1")
	o, _, err := h.BeginPayment(t.Context(), ledger.BeginPayment{Hold: hold.ID, Account: hold.Account, Key: "c"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.ChangeRules(t.Context(), testEvent, func(r *usher.Rules) { r.Sale = usher.SaleCancelled }); err != nil {
		t.Fatal(err)
	}
	_, err = h.ConfirmOrder(t.Context(), ledger.ConfirmOrder{Order: o.ID, Authorized: o.Amount})
	wantCode(t, err, usher.CodeEventCancelled)
	if out, err := h.Order(t.Context(), o.ID); err != nil || out.Status != usher.OrderVoided {
		t.Errorf("order %+v, %v", out, err)
	}
	h.wantSeat("F-1", usher.SeatAvailable, usher.HoldID{})
}

// One order per hold; P14: nothing a buyer does moves the deadline.
func TestOneOrderPerHold(t *testing.T) {
	h := newHall(t, 4, nil)
	hold := h.mustPlace(usher.NewAccountID(), "k", seatIDs(0)...)
	o := h.mustBegin(hold, "c1")
	for _, key := range []string{"c1", "c2", "c3"} {
		again, started, err := h.BeginPayment(t.Context(), ledger.BeginPayment{
			Hold: hold.ID, Account: hold.Account, Provider: "test", MethodToken: "pm_card_visa", Key: key,
		})
		if err != nil || started || !again.Replayed || again.ID != o.ID || !again.HoldExpiresAt.Equal(hold.ExpiresAt) || !again.GraceUntil.Equal(*o.GraceUntil) {
			t.Errorf("key %s: %+v, %v, %v", key, again, started, err)
		}
	}
	_, _, err := h.BeginPayment(t.Context(), ledger.BeginPayment{Hold: hold.ID, Account: hold.Account, Provider: "test", MethodToken: "pm_other", Key: "c1"})
	wantCode(t, err, usher.CodeIdempotencyKeyReused)
	_, _, err = h.BeginPayment(t.Context(), ledger.BeginPayment{Hold: hold.ID, Account: usher.NewAccountID(), Provider: "test", MethodToken: "pm", Key: "c1"})
	wantCode(t, err, usher.CodeNotFound)
}

func TestDeclineThenSuccess(t *testing.T) {
	h := newHall(t, 4, nil)
	hold := h.mustPlace(usher.NewAccountID(), "k", seatIDs(0, 1)...)
	first := h.mustBegin(hold, "c1")
	for range 2 {
		o, err := h.FailPayment(t.Context(), ledger.FailPayment{Order: first.ID, Operation: first.Authorization.ID, ProviderCode: "card_declined"})
		if err != nil || o.Status != usher.OrderDeclined || o.Authorization.Status != usher.OperationFailed {
			t.Fatalf("declined: %+v, %v", o, err)
		}
	}
	h.wantSeat(seatID(0), usher.SeatHeld, hold.ID)
	// A late success of the failed attempt is not a sale.
	_, err := h.confirm(first)
	wantCode(t, err, usher.CodeStateConflict)
	// The first attempt's key answers for its order; a new key is a new attempt.
	second := h.mustBegin(hold, "c2")
	if second.ID != first.ID || second.Authorization.ID == first.Authorization.ID || !second.GraceUntil.Equal(*first.GraceUntil) {
		t.Errorf("second attempt %+v", second)
	}
	_, err = h.FailPayment(t.Context(), ledger.FailPayment{Order: first.ID, Operation: first.Authorization.ID})
	if err != nil {
		t.Errorf("late repeat of the first decline: %v", err)
	}
	h.mustConfirm(second)
	h.wantSeat(seatID(0), usher.SeatSold, hold.ID)
}

func TestDeclineAfterDeadline(t *testing.T) {
	h := newHall(t, 4, nil)
	hold := h.mustPlace(usher.NewAccountID(), "k", seatIDs(0)...)
	o := h.mustBegin(hold, "c1")
	h.lapse(hold)
	out, err := h.FailPayment(t.Context(), ledger.FailPayment{Order: o.ID, Operation: o.Authorization.ID})
	if err != nil || out.Status != usher.OrderLapsed {
		t.Fatalf("%+v, %v", out, err)
	}
	h.wantSeat(seatID(0), usher.SeatAvailable, usher.HoldID{})
}

// A declined order ends with its hold.
func TestDeclinedOrderLapses(t *testing.T) {
	h := newHall(t, 4, nil)
	hold := h.mustPlace(usher.NewAccountID(), "k", seatIDs(0)...)
	o := h.mustBegin(hold, "c1")
	if _, err := h.FailPayment(t.Context(), ledger.FailPayment{Order: o.ID, Operation: o.Authorization.ID}); err != nil {
		t.Fatal(err)
	}
	h.lapse(hold)
	if n, err := h.ExpireHolds(t.Context(), testEvent); n != 1 || err != nil {
		t.Fatalf("expired %d, %v", n, err)
	}
	if out, err := h.Order(t.Context(), o.ID); err != nil || out.Status != usher.OrderLapsed || out.ClosedAt == nil {
		t.Errorf("order %+v, %v", out, err)
	}
}

// The closed door: from VoidOrder on nothing is sold, and the seats move only
// when the provider has answered.
func TestVoidOrder(t *testing.T) {
	h := newHall(t, 4, nil)
	hold := h.mustPlace(usher.NewAccountID(), "k", seatIDs(0)...)
	o := h.mustBegin(hold, "c1")
	for range 2 {
		out, err := h.VoidOrder(t.Context(), ledger.VoidOrder{Order: o.ID, Reason: "grace over"})
		if err != nil || out.Status != usher.OrderVoiding {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	_, err := h.confirm(o)
	wantCode(t, err, usher.CodeOrderClosed)
	h.wantSeat(seatID(0), usher.SeatPending, hold.ID)
	void := h.operation(o.ID, usher.OperationVoid)
	for range 2 {
		out, err := h.FinishVoid(t.Context(), ledger.FinishVoid{Order: o.ID, Operation: void})
		if err != nil || out.Status != usher.OrderVoided || out.Authorization.Status != usher.OperationFailed {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	h.wantSeat(seatID(0), usher.SeatAvailable, usher.HoldID{})
	_, err = h.FailPayment(t.Context(), ledger.FailPayment{Order: o.ID, Operation: o.Authorization.ID})
	if err != nil {
		t.Errorf("a failed authorization fails again: %v", err)
	}
}

func (h *hall) operation(o usher.OrderID, kind usher.OperationKind) (id usher.OperationID) {
	h.t.Helper()
	err := h.pool.QueryRow(h.t.Context(), `SELECT operation_id FROM payment_operation WHERE order_id = $1 AND kind = $2`, o, string(kind)).Scan(&id)
	if err != nil {
		h.t.Fatalf("%s operation: %v", kind, err)
	}
	return id
}

// Authorized, but it cannot be confirmed: the same commit closes the door.
func TestConfirmRefused(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*hall, ledger.Order) ledger.ConfirmOrder
		code  usher.Code
	}{
		{"event cancelled", func(h *hall, o ledger.Order) ledger.ConfirmOrder {
			_, err := h.ChangeRules(h.t.Context(), testEvent, func(r *usher.Rules) { r.Sale = usher.SaleCancelled })
			if err != nil {
				h.t.Fatal(err)
			}
			return ledger.ConfirmOrder{Order: o.ID, Operation: o.Authorization.ID, Authorized: o.Amount}
		}, usher.CodeEventCancelled},
		{"limit lowered", func(h *hall, o ledger.Order) ledger.ConfirmOrder {
			if _, err := h.ChangeRules(h.t.Context(), testEvent, func(r *usher.Rules) { r.PurchaseLimit = 1 }); err != nil {
				h.t.Fatal(err)
			}
			return ledger.ConfirmOrder{Order: o.ID, Operation: o.Authorization.ID, Authorized: o.Amount}
		}, usher.CodeLimitExceeded},
		{"account blocked", func(h *hall, o ledger.Order) ledger.ConfirmOrder {
			if err := h.BlockAccount(h.t.Context(), testEvent, o.Account, true); err != nil {
				h.t.Fatal(err)
			}
			return ledger.ConfirmOrder{Order: o.ID, Operation: o.Authorization.ID, Authorized: o.Amount}
		}, usher.CodeAccountBlocked},
		{"other amount", func(_ *hall, o ledger.Order) ledger.ConfirmOrder {
			return ledger.ConfirmOrder{Order: o.ID, Operation: o.Authorization.ID, Authorized: usher.Money{AmountMinor: 100, Currency: "TWD"}}
		}, usher.CodePaymentMismatch},
		{"other currency", func(_ *hall, o ledger.Order) ledger.ConfirmOrder {
			return ledger.ConfirmOrder{Order: o.ID, Operation: o.Authorization.ID, Authorized: usher.Money{AmountMinor: o.Amount.AmountMinor, Currency: "USD"}}
		}, usher.CodePaymentMismatch},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHall(t, 4, nil)
			o := h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatIDs(0, 1)...), "c")
			_, err := h.ConfirmOrder(t.Context(), tc.spoil(h, o))
			wantCode(t, err, tc.code)
			out, err := h.Order(t.Context(), o.ID)
			if err != nil || out.Status != usher.OrderVoiding || out.CloseReason != string(tc.code) || out.Authorization.Status != usher.OperationSucceeded {
				t.Fatalf("order %+v, %v", out, err)
			}
			out, err = h.FinishVoid(t.Context(), ledger.FinishVoid{Order: o.ID, Operation: h.operation(o.ID, usher.OperationVoid)})
			if err != nil || out.Status != usher.OrderVoided || out.Authorization.Status != usher.OperationReversed {
				t.Errorf("voided %+v, %v", out, err)
			}
		})
	}
}

func TestCaptureFails(t *testing.T) {
	h := newHall(t, 4, nil)
	o := h.mustConfirm(h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatIDs(0)...), "c"))
	out, err := h.SettleCapture(t.Context(), ledger.SettleCapture{Order: o.ID, Operation: o.Capture.ID, ProviderCode: "expired"})
	if err != nil || out.Status != usher.OrderCancelled {
		t.Fatalf("%+v, %v", out, err)
	}
	h.wantSeat(seatID(0), usher.SeatAvailable, usher.HoldID{})
	_, err = h.SettleCapture(t.Context(), ledger.SettleCapture{Order: o.ID, Operation: o.Capture.ID, Captured: true})
	wantCode(t, err, usher.CodeStateConflict)
	if _, err = h.FinishVoid(t.Context(), ledger.FinishVoid{Order: o.ID, Operation: h.operation(o.ID, usher.OperationVoid)}); err != nil {
		t.Error(err)
	}
	h.mustConfirm(h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatIDs(0)...), "c"))
}

func TestTooLateAndPendingLimits(t *testing.T) {
	h := newHall(t, 10, func(r *usher.Rules) { r.PendingPerAccountMax, r.PendingPerEventMax = 1, 2 })
	begin := func(hold ledger.Hold) error {
		_, _, err := h.BeginPayment(t.Context(), ledger.BeginPayment{Hold: hold.ID, Account: hold.Account, Provider: "test", MethodToken: "pm", Key: hold.ID.String()})
		return err
	}
	a, b, c := usher.NewAccountID(), usher.NewAccountID(), usher.NewAccountID()
	first, second := h.mustPlace(a, "k1", seatIDs(0)...), h.mustPlace(a, "k2", seatIDs(1)...)
	if err := begin(first); err != nil {
		t.Fatal(err)
	}
	wantCode(t, begin(second), usher.CodePendingLimit)
	if err := begin(h.mustPlace(b, "k", seatIDs(2)...)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, begin(h.mustPlace(c, "k", seatIDs(3)...)), usher.CodePendingLimit)
	late := h.mustPlace(c, "k2", seatIDs(4)...)
	h.exec(h.pool, `UPDATE hold SET expires_at = clock_timestamp() + interval '5 seconds' WHERE hold_id = $1`, late.ID)
	wantCode(t, begin(late), usher.CodeTooLateToPay)
}

// An answer lost after COMMIT is found out from our own rows: the group runs
// again and its keys replay. Nothing happens twice.
func TestCommitOutcomeUnknown(t *testing.T) {
	h := newHall(t, 10, nil)
	for _, point := range []string{"pg.after_commit", "ledger.after_commit"} {
		a := usher.NewAccountID()
		defer fault.Arm(point, 1, fault.Fail)()
		hold := h.mustPlace(a, point, seatIDs(0)...)
		if fault.Passes(point) == 0 {
			t.Fatalf("%s was not reached", point)
		}
		h.wantSeat(seatID(0), usher.SeatHeld, hold.ID)
		if _, err := h.ReleaseHold(t.Context(), ledger.ReleaseHold{Hold: hold.ID, Account: a}); err != nil {
			t.Fatal(err)
		}
	}
	defer fault.Arm("pg.before_commit", 1, fault.Fail)()
	if _, err := h.place(usher.NewAccountID(), "k", seatIDs(1)...); usher.CodeOf(err) != usher.CodeInternal {
		t.Errorf("a definite abort: %v", err)
	}
	h.wantSeat(seatID(1), usher.SeatAvailable, usher.HoldID{})
}

// A group that meets a rule change in flight changes nothing and decides again.
func TestRulesVersionFences(t *testing.T) {
	h := newHall(t, 10, nil)
	defer fault.Arm("ledger.before_write", 1, func(ctx context.Context) error {
		_, err := h.ChangeRules(ctx, testEvent, func(r *usher.Rules) { r.Sale = usher.SaleClosed })
		return err
	})()
	_, err := h.place(usher.NewAccountID(), "k", seatIDs(0)...)
	wantCode(t, err, usher.CodeSaleClosed)
	h.wantSeat(seatID(0), usher.SeatAvailable, usher.HoldID{})
}

// A database whose epoch is older than one this process has seen is refused.
func TestOlderEpochRefused(t *testing.T) {
	h := newHall(t, 10, nil)
	o := h.mustBegin(h.mustPlace(usher.NewAccountID(), "p", seatID(5)), "c")
	h.exec(h.pool, `UPDATE event_ledger SET epoch = 5`)
	h.mustPlace(usher.NewAccountID(), "k", seatIDs(0)...)
	h.exec(h.pool, `UPDATE event_ledger SET epoch = 4`)
	_, err := h.place(usher.NewAccountID(), "k", seatIDs(1)...)
	wantCode(t, err, usher.CodeUnavailable)
	// Nor does anything else write to it, or believe it.
	_, err = h.Operations().Learn(t.Context(), o.Authorization.ID, ledger.Learned{Sent: true, Reference: "pi_1"})
	wantCode(t, err, usher.CodeUnavailable)
	_, err = h.ChangeRules(t.Context(), testEvent, func(r *usher.Rules) { r.PurchaseLimit = 1 })
	wantCode(t, err, usher.CodeUnavailable)
	wantCode(t, h.SetPrices(t.Context(), testEvent, nil), usher.CodeUnavailable)
	wantCode(t, h.BlockAccount(t.Context(), testEvent, usher.NewAccountID(), true), usher.CodeUnavailable)
	_, err = h.Order(t.Context(), o.ID)
	wantCode(t, err, usher.CodeUnavailable)
	var written int
	h.scan(`SELECT count(*) FROM payment_operation WHERE sent_at IS NOT NULL`, &written)
	if written != 0 {
		t.Error("a demoted primary was told that money is asked for")
	}
	h.exec(h.pool, `UPDATE event_ledger SET epoch = 5`)
	h.wantSeat(seatID(1), usher.SeatAvailable, usher.HoldID{})
}

// A row that somebody else keeps locked makes its command busy, not the group.
func TestLockedRowIsBusy(t *testing.T) {
	h := newHall(t, 10, nil)
	tx, err := h.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `SET idle_in_transaction_session_timeout = 0`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM seat_inventory WHERE seat_id = 'A-000' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := h.place(usher.NewAccountID(), "k", seatIDs(0)...)
		if usher.CodeOf(err) != usher.CodeBusy {
			t.Errorf("locked seat: %v", err)
		}
	})
	wg.Wait()
	h.mustPlace(usher.NewAccountID(), "k", seatIDs(1)...)
}

func TestReader(t *testing.T) {
	h := newHall(t, 30, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var seqs []int64
	failed := false
	reader := ledger.Reader{Name: "test", Handle: func(_ context.Context, tx pgx.Tx, event usher.EventID, entries []ledger.Entry) error {
		mu.Lock()
		defer mu.Unlock()
		if len(seqs) >= 5 && !failed {
			failed = true
			return errors.New("not now")
		}
		for _, e := range entries {
			seqs = append(seqs, e.Seq)
		}
		return nil
	}}
	var wg sync.WaitGroup
	for _, l := range []*ledger.Ledger{h.Ledger, h.process()} {
		wg.Go(func() { _ = l.RunReader(ctx, reader) })
	}
	read := func(n int) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return len(seqs) >= n }
	}
	for i := range 30 {
		if i == 5 {
			pgtest.Until(t, "reading 5 entries", read(5))
		}
		h.mustPlace(usher.NewAccountID(), fmt.Sprint("k", i), seatID(i))
	}
	pgtest.Until(t, "reading 30 entries", read(30))
	cancel()
	wg.Wait()
	for i, s := range seqs {
		if s != int64(i+1) {
			t.Fatalf("entry %d has number %d", i, s)
		}
	}
	if !failed {
		t.Error("the failing hand-over did not happen")
	}
}

func TestLearn(t *testing.T) {
	h := newHall(t, 4, nil)
	o := h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatIDs(0)...), "c")
	ops := h.Operations()
	op, err := ops.Learn(t.Context(), o.Authorization.ID, ledger.Learned{Reference: "pi_1", Sent: true})
	if err != nil || op.Reference != "pi_1" || op.SentAt == nil {
		t.Fatalf("%+v, %v", op, err)
	}
	if op, err = ops.Learn(t.Context(), op.ID, ledger.Learned{Status: usher.OperationActionRequired, ActionURL: "https://bank.example/"}); err != nil || op.ActionURL == "" {
		t.Fatalf("%+v, %v", op, err)
	}
	_, err = ops.Learn(t.Context(), op.ID, ledger.Learned{Status: usher.OperationCreated})
	wantCode(t, err, usher.CodeStateConflict)
	_, err = ops.Learn(t.Context(), op.ID, ledger.Learned{Reference: "pi_2"})
	wantCode(t, err, usher.CodeStateConflict)
	if found, err := ops.ByReference(t.Context(), testEvent, "test", "pi_1"); err != nil || found.ID != op.ID {
		t.Errorf("by reference: %+v, %v", found, err)
	}
	h.mustConfirm(o)
	_, err = ops.Learn(t.Context(), op.ID, ledger.Learned{Status: usher.OperationUnknown})
	wantCode(t, err, usher.CodeStateConflict)
	_, err = ops.Get(t.Context(), usher.NewOperationID(testEvent))
	wantCode(t, err, usher.CodeNotFound)
}

// A reader of some types passes the others over, and its cursor moves along.
func TestReaderOfTypes(t *testing.T) {
	h := newHall(t, 30, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var got []ledger.EntryType
	reader := ledger.Reader{Name: "sold", Types: []ledger.EntryType{ledger.EntryOrderConfirmed},
		Handle: func(_ context.Context, _ pgx.Tx, _ usher.EventID, entries []ledger.Entry) error {
			mu.Lock()
			defer mu.Unlock()
			for _, e := range entries {
				got = append(got, e.Type)
			}
			return nil
		}}
	var wg sync.WaitGroup
	wg.Go(func() { _ = h.RunReader(ctx, reader) })
	for i := range 10 {
		h.mustPlace(usher.NewAccountID(), "k", seatID(20+i))
		if i < 5 {
			h.mustConfirm(h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatID(i)), "c"))
		}
	}
	pgtest.Until(t, "reading 5 entries", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) >= 5 })
	cancel()
	wg.Wait()
	if len(got) != 5 {
		t.Errorf("got %v", got)
	}
	var cursor, last int64
	h.scan(`SELECT seq FROM outbox_cursor WHERE reader = 'sold'`, &cursor)
	h.scan(`SELECT max(seq) FROM outbox WHERE type = 'order_confirmed'`, &last)
	if cursor < last {
		t.Errorf("cursor at %d, the last entry it wanted is %d", cursor, last)
	}
	reader.Types = append(reader.Types, ledger.EntryHoldPlaced)
	if err := h.RunReader(t.Context(), reader); err == nil {
		t.Error("a reader of entries that have no index runs")
	}
}

// Hold time and grace are what buyers were told: they are fixed once the sale has opened,
// also while it is paused.
func TestHoldTimeIsFrozen(t *testing.T) {
	h := newHall(t, 10, func(r *usher.Rules) { r.Sale = usher.SaleScheduled })
	change := func(c func(*usher.Rules)) error {
		_, err := h.ChangeRules(t.Context(), testEvent, c)
		return err
	}
	longer := func(r *usher.Rules) { r.HoldTime += time.Minute }
	graceful := func(r *usher.Rules) { r.Grace += time.Minute }
	if err := errors.Join(change(longer), change(graceful)); err != nil {
		t.Fatalf("before the sale: %v", err)
	}
	for _, sale := range []usher.SaleStatus{usher.SaleOpen, usher.SalePaused} {
		if err := change(func(r *usher.Rules) { r.Sale, r.PurchaseLimit = sale, 4 }); err != nil {
			t.Fatal(err)
		}
		wantCode(t, change(longer), usher.CodeStateConflict)
		wantCode(t, change(graceful), usher.CodeStateConflict)
	}
}
