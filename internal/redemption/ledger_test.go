package redemption_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
)

// The issuer on the real outbox: nothing before capture, one set after it, also
// when the reader dies between its codes and its cursor, also for free places.
func TestIssuerReadsTheLedger(t *testing.T) {
	b := setup(t)
	l := ledger.New(b.homes, ledger.WithLog(slog.New(slog.DiscardHandler)))
	rules := usher.DefaultRules("TWD")
	rules.Sale, rules.AdmissionRequired = usher.SaleOpen, false
	price := usher.Money{AmountMinor: 320000, Currency: "TWD"}
	err := l.SetUp(t.Context(), ledger.Setup{
		Event: concert, Rules: rules,
		Tiers: []ledger.Tier{{ID: "gold", Name: "Gold", Price: price}, {ID: "free", Name: "Free", Price: usher.Money{Currency: "TWD"}}},
		Seats: []ledger.SeatSetup{{ID: "A-1", Tier: "gold"}, {ID: "A-2", Tier: "gold"}, {ID: "F-1", Tier: "free"}},
	})
	if err != nil {
		t.Fatalf("set up: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = l.RunReader(ctx, b.Issuer()) })
	defer wg.Wait()
	defer stop()
	caughtUp := func() {
		for b.count(t, `SELECT count(*) FROM event_ledger l JOIN outbox_cursor c USING (event_id, seq)
			WHERE event_id = $1 AND reader = 'tickets'`, concert) == 0 {
			if t.Context().Err() != nil {
				t.Fatal("the issuer never caught up")
			}
		}
	}
	begin := func(seats ...usher.SeatID) ledger.Order {
		account := usher.NewAccountID()
		hold, err := l.PlaceHold(t.Context(), ledger.PlaceHold{Event: concert, Account: account, Seats: seats, Key: "hold"})
		if err != nil {
			t.Fatalf("place hold: %v", err)
		}
		order, _, err := l.BeginPayment(t.Context(), ledger.BeginPayment{
			Hold: hold.ID, Account: account, Provider: "test", MethodToken: "pm", Key: "pay",
		})
		if err != nil {
			t.Fatalf("begin payment: %v", err)
		}
		return order
	}

	order := begin("A-1", "A-2")
	order, err = l.ConfirmOrder(t.Context(), ledger.ConfirmOrder{Order: order.ID, Operation: order.Authorization.ID, Authorized: order.Amount})
	if err != nil {
		t.Fatalf("confirm: %v", err)
	}
	caughtUp()
	if got := b.tickets(t, order.ID); len(got) != 0 {
		t.Fatalf("%d tickets before capture", len(got))
	}

	disarm := fault.Arm("outbox.before_cursor", 1, fault.Fail)
	if _, err := l.SettleCapture(t.Context(), ledger.SettleCapture{Order: order.ID, Operation: order.Capture.ID, Captured: true}); err != nil {
		t.Fatalf("settle capture: %v", err)
	}
	caughtUp()
	if fault.Passes("outbox.before_cursor") < 2 {
		t.Error("the reader was not broken between codes and cursor")
	}
	disarm()
	got := b.tickets(t, order.ID)
	if len(got) != 2 || got[0].Seat != "A-1" || got[1].Seat != "A-2" || got[0].Tier != "gold" {
		t.Errorf("tickets are %+v, want one for each place", got)
	}

	free := begin("F-1")
	if _, err := l.ConfirmOrder(t.Context(), ledger.ConfirmOrder{Order: free.ID, Authorized: free.Amount}); err != nil {
		t.Fatalf("confirm: %v", err)
	}
	caughtUp()
	if got := b.tickets(t, free.ID); len(got) != 1 || got[0].Tier != "free" {
		t.Errorf("a free order has tickets %+v, want one", got)
	}
}
