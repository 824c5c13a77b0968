package redemption_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/pg/pgtest"
)

// shop is a ledger with an event of four seats whose sale is open, its issuer running.
type shop struct {
	*bed
	*ledger.Ledger
	t *testing.T
}

func openShop(t *testing.T, b *bed) *shop {
	t.Helper()
	s := &shop{b, ledger.New(b.homes, ledger.WithLog(slog.New(slog.DiscardHandler)), ledger.WithCodes(b)), t}
	rules := usher.DefaultRules("TWD")
	rules.Sale, rules.AdmissionRequired = usher.SaleOpen, false
	price := usher.Money{AmountMinor: 320000, Currency: "TWD"}
	err := s.SetUp(t.Context(), ledger.Setup{
		Event: concert, Rules: rules,
		Tiers: []ledger.Tier{{ID: "gold", Name: "Gold", Price: price}, {ID: "free", Name: "Free", Price: usher.Money{Currency: "TWD"}}},
		Seats: []ledger.SeatSetup{{ID: "A-1", Tier: "gold"}, {ID: "A-2", Tier: "gold"}, {ID: "A-3", Tier: "gold"}, {ID: "F-1", Tier: "free"}},
	})
	if err != nil {
		t.Fatalf("set up: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.RunReader(ctx, b.Issuer()) })
	t.Cleanup(wg.Wait)
	t.Cleanup(stop)
	return s
}

// caughtUp waits for the issuer.
func (s *shop) caughtUp() {
	s.t.Helper()
	pgtest.Until(s.t, "the issuer has caught up", func() bool {
		return s.count(s.t, `SELECT count(*) FROM event_ledger l JOIN outbox_cursor c USING (event_id, seq)
			WHERE event_id = $1 AND reader = 'tickets'`, concert) > 0
	})
}

func (s *shop) begin(seats ...usher.SeatID) ledger.Order {
	s.t.Helper()
	account := usher.NewAccountID()
	hold, err := s.PlaceHold(s.t.Context(), ledger.PlaceHold{Event: concert, Account: account, Seats: seats, Key: "hold"})
	if err != nil {
		s.t.Fatalf("place hold: %v", err)
	}
	order, _, err := s.BeginPayment(s.t.Context(), ledger.BeginPayment{
		Hold: hold.ID, Account: account, Provider: "test", MethodToken: "pm", Key: "pay",
	})
	if err != nil {
		s.t.Fatalf("begin payment: %v", err)
	}
	return order
}

func (s *shop) confirm(order ledger.Order) ledger.Order {
	s.t.Helper()
	c := ledger.ConfirmOrder{Order: order.ID, Authorized: order.Amount}
	if order.Authorization != nil {
		c.Operation = order.Authorization.ID
	}
	order, err := s.ConfirmOrder(s.t.Context(), c)
	if err != nil {
		s.t.Fatalf("confirm: %v", err)
	}
	return order
}

func (s *shop) capture(order ledger.Order) {
	s.t.Helper()
	if _, err := s.SettleCapture(s.t.Context(), ledger.SettleCapture{Order: order.ID, Operation: order.Capture.ID, Captured: true}); err != nil {
		s.t.Fatalf("settle capture: %v", err)
	}
}

func (s *shop) cancel(order ledger.Order) error {
	_, err := s.CancelOrder(context.Background(), ledger.CancelOrder{Order: order.ID, By: ledger.Staff{Operator: usher.NewOperatorID(), Reason: "test"}})
	return err
}

// The issuer on the real outbox: nothing before capture, one set after it, also
// when the reader dies between its codes and its cursor, also for free places.
func TestIssuerReadsTheLedger(t *testing.T) {
	s := openShop(t, setup(t))
	order := s.confirm(s.begin("A-1", "A-2"))
	s.caughtUp()
	if got := s.tickets(t, order.ID); len(got) != 0 {
		t.Fatalf("%d tickets before capture", len(got))
	}

	disarm := fault.Arm("outbox.before_cursor", 1, fault.Fail)
	s.capture(order)
	s.caughtUp()
	if fault.Passes("outbox.before_cursor") < 2 {
		t.Error("the reader was not broken between codes and cursor")
	}
	disarm()
	got := s.tickets(t, order.ID)
	if len(got) != 2 || got[0].Seat != "A-1" || got[1].Seat != "A-2" || got[0].Tier != "gold" {
		t.Errorf("tickets are %+v, want one for each place", got)
	}

	free := s.confirm(s.begin("F-1"))
	s.caughtUp()
	if got := s.tickets(t, free.ID); len(got) != 1 || got[0].Tier != "free" {
		t.Errorf("a free order has tickets %+v, want one", got)
	}
}

// An order is cancelled while its tickets are being issued: the cancellation waits for
// them and takes them with it. Nobody has to read on for the gate to be closed.
func TestCancelWhileIssuing(t *testing.T) {
	s := openShop(t, setup(t))
	order := s.confirm(s.begin("A-1"))
	s.caughtUp()
	cancelled := make(chan error, 1)
	disarm := fault.Arm("outbox.before_cursor", 1, func(context.Context) error {
		// The codes are written, not committed.
		go func() { cancelled <- s.cancel(order) }()
		pgtest.Until(t, "the cancellation waits", func() bool {
			return s.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND $1::int > 0`, concert) > 0
		})
		return nil
	})
	defer disarm()
	s.capture(order)
	if err := <-cancelled; err != nil {
		t.Fatalf("cancel: %v", err)
	}
	for _, ticket := range s.tickets(t, order.ID) {
		if ticket.Status != usher.CodeVoided || !ticket.Cancelled {
			t.Errorf("the cancelled order has a ticket that is %s", ticket.Status)
		}
	}
}

// A scan stands still with its code locked: the cancellation of its order is told that
// somebody else is at it, and nobody else waits for long or fails.
func TestStuckScanAndCancel(t *testing.T) {
	s := openShop(t, setup(t))
	order, other := s.confirm(s.begin("A-1")), s.confirm(s.begin("A-2"))
	s.capture(order)
	s.capture(other)
	s.caughtUp()
	scan, err := s.shard.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = scan.Rollback(context.Background()) }()
	if _, err := scan.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
		t.Fatal(err)
	}
	if _, err := scan.Exec(t.Context(), `SELECT FROM code WHERE order_id = $1 FOR NO KEY UPDATE`, order.ID); err != nil {
		t.Fatal(err)
	}
	// The first group waits here while the others gather into the next one.
	reached, goOn := make(chan struct{}), make(chan struct{})
	disarm := fault.Arm("ledger.after_commit", 1, func(context.Context) error { close(reached); <-goOn; return nil })
	defer disarm()
	var all sync.WaitGroup
	all.Go(func() { _, _ = s.ExpireHolds(context.Background(), concert) })
	<-reached
	codes := make([]usher.Code, 3)
	all.Go(func() { codes[0] = usher.CodeOf(s.cancel(order)) })
	all.Go(func() { codes[1] = usher.CodeOf(s.cancel(other)) })
	all.Go(func() {
		_, err := s.PlaceHold(context.Background(), ledger.PlaceHold{Event: concert, Account: usher.NewAccountID(), Seats: []usher.SeatID{"A-3"}, Key: "k"})
		codes[2] = usher.CodeOf(err)
	})
	pgtest.Until(t, "the hold waits", func() bool { return s.Pressure(concert) > 0 })
	close(goOn)
	all.Wait()
	if !slices.Equal(codes, []usher.Code{usher.CodeBusy, "", ""}) {
		t.Errorf("the order being scanned, another, and a hold: %q", codes)
	}
	if err := scan.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.cancel(order); err != nil {
		t.Errorf("after the scan: %v", err)
	}
	for _, o := range []usher.OrderID{order.ID, other.ID} {
		for _, ticket := range s.tickets(t, o) {
			if ticket.Status != usher.CodeVoided {
				t.Errorf("the cancelled order has a ticket that is %s", ticket.Status)
			}
		}
	}
}
