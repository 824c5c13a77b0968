package verify_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"usher"
	"usher/internal/ledger"
)

const (
	lifeEvent = usher.EventID(71)
	// The house is small enough for conflicts and large enough for grants.
	lifeSeats, lifePlaces = 10, 34
	lifeBuyers, lifeHolds = 8, 45
	// lifeKeeps is how many orders a buyer keeps; older ones are taken back, or the
	// house would soon be sold out and nothing happen any more.
	lifeKeeps = 1
)

// life is one buyer's, with what happened in it.
type life struct {
	*hall
	process *ledger.Ledger
	account usher.AccountID
	rng     *rand.Rand
	// deck is what becomes of the next holds: each fate once, in random order, anew.
	deck []int
	kept []ledger.Order
	seen map[string]int
}

// fates are what may become of a hold. Those that sell return the order.
var fates = []struct {
	name string
	do   func(*life, ledger.Hold) (*ledger.Order, error)
}{
	{"released", func(l *life, h ledger.Hold) (*ledger.Order, error) {
		_, err := l.process.ReleaseHold(context.Background(), ledger.ReleaseHold{Hold: h.ID, Account: h.Account})
		return nil, err
	}},
	{"expired", func(l *life, h ledger.Hold) (*ledger.Order, error) {
		if err := l.lapse(h); err != nil {
			return nil, err
		}
		_, _, err := l.process.BeginPayment(context.Background(), beginning(h, "late"+h.ID.String()))
		return nil, refused(err, usher.CodeHoldExpired)
	}},
	{"declined and expired", func(l *life, h ledger.Hold) (*ledger.Order, error) {
		if _, err := l.decline(h); err != nil {
			return nil, err
		}
		return nil, l.lapse(h)
	}},
	{"declined late", func(l *life, h ledger.Hold) (*ledger.Order, error) {
		o, err := l.begin(h)
		if err == nil {
			err = l.lapse(h)
		}
		if err == nil {
			_, err = l.process.FailPayment(context.Background(), ledger.FailPayment{Order: o.ID, Operation: o.Authorization.ID})
		}
		return nil, err
	}},
	{"paid at the second attempt", func(l *life, h ledger.Hold) (*ledger.Order, error) {
		if _, err := l.decline(h); err != nil {
			return nil, err
		}
		return l.sell(h, true)
	}},
	{"voided", func(l *life, h ledger.Hold) (*ledger.Order, error) { return nil, l.giveUp(h, false) }},
	{"confirmed after the door was closed", func(l *life, h ledger.Hold) (*ledger.Order, error) { return nil, l.giveUp(h, true) }},
	{"confirmed late", func(l *life, h ledger.Hold) (*ledger.Order, error) {
		o, err := l.begin(h)
		if err == nil {
			err = l.lapse(h)
		}
		if err == nil {
			o, err = l.process.ConfirmOrder(context.Background(), confirming(o))
		}
		return &o, err
	}},
	{"cancelled before the capture", func(l *life, h ledger.Hold) (*ledger.Order, error) {
		o, err := l.sell(h, false)
		if err == nil {
			err = l.cancel(*o)
		}
		return nil, err
	}},
	{"capture failed", func(l *life, h ledger.Hold) (*ledger.Order, error) {
		o, err := l.sell(h, false)
		if err == nil {
			_, err = l.process.SettleCapture(context.Background(), ledger.SettleCapture{Order: o.ID, Operation: o.Capture.ID})
		}
		return nil, err
	}},
	{"captured", func(l *life, h ledger.Hold) (*ledger.Order, error) { return l.sell(h, true) }},
}

// P20, P21: a seeded random life of many buyers over two processes, with every fate
// that a hold can have, repeated requests, and seats and places without seats
// together. The counters equal a recount, and the audit finds nothing.
func TestRandomLife(t *testing.T) {
	h := newHall(t, 1, nil)
	h.addMixed()
	processes := []*ledger.Ledger{h.Ledger, h.process()}
	lives := make([]*life, lifeBuyers)
	var wg sync.WaitGroup
	for i := range lives {
		l := &life{hall: h, process: processes[i%2], account: usher.NewAccountID(), rng: rand.New(rand.NewPCG(7, uint64(i))), seen: map[string]int{}}
		lives[i] = l
		wg.Go(func() {
			for n := range lifeHolds * scale() {
				if err := l.one(n); err != nil {
					t.Errorf("buyer %d, hold %d: %v", i, n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]int{}
	for _, l := range lives {
		for what, n := range l.seen {
			seen[what] += n
		}
	}
	t.Log(seen)
	// A life in which little happens proves little.
	least := map[string]int{"granted": 120, "conflict": 60, "replayed": 30, "taken back": 10}
	for _, f := range fates {
		least[f.name] = 8
	}
	for what, n := range least {
		if seen[what] < n {
			t.Errorf("%q happened %d times, want at least %d", what, seen[what], n)
		}
	}
}

// addMixed sets up an event of seats and places without seats.
func (h *hall) addMixed() {
	h.t.Helper()
	h.exec(`INSERT INTO directory.event_home (event_id, shard) VALUES ($1, 1)`, lifeEvent)
	rules := usher.DefaultRules("TWD")
	rules.Sale, rules.AdmissionRequired, rules.PurchaseLimit, rules.PendingPerAccountMax = usher.SaleOpen, false, 100, 100
	price := usher.Money{AmountMinor: 80000, Currency: "TWD"}
	setup := ledger.Setup{Event: lifeEvent, Rules: rules, Tiers: []ledger.Tier{{ID: "gold", Name: "Gold", Price: price}, {ID: "lawn", Name: "Lawn", Price: price}},
		Standing: []ledger.StandingSetup{{Tier: "lawn", Capacity: lifePlaces, Buckets: 3}}}
	for i := range lifeSeats {
		setup.Seats = append(setup.Seats, ledger.SeatSetup{ID: seatID(i), Tier: "gold"})
	}
	if err := h.SetUp(context.Background(), setup); err != nil {
		h.t.Fatalf("set up: %v", err)
	}
}

// one asks for some places and lives on with what it gets.
func (l *life) one(n int) error {
	c := ledger.PlaceHold{Event: lifeEvent, Account: l.account, Key: fmt.Sprint("k", n), Items: []ledger.Item{{Tier: "lawn", Quantity: 1 + l.rng.IntN(4)}}}
	if l.rng.IntN(3) == 0 {
		c.Seats = seatIDs(l.rng.Perm(lifeSeats)[:1+l.rng.IntN(2)]...)
	}
	hold, err := l.process.PlaceHold(context.Background(), c)
	if usher.CodeOf(err) == usher.CodeSeatsUnavailable {
		l.seen["conflict"]++
		return nil
	}
	if err != nil {
		return fmt.Errorf("place: %w", err)
	}
	l.seen["granted"]++
	if l.rng.IntN(2) == 0 {
		again, err := l.process.PlaceHold(context.Background(), c)
		if err != nil || again.ID != hold.ID || !again.Replayed {
			return fmt.Errorf("a repeat is answered %s, %w, first %s", again.ID, err, hold.ID)
		}
		l.seen["replayed"]++
	}
	if len(l.deck) == 0 {
		l.deck = l.rng.Perm(len(fates))
	}
	fate := fates[l.deck[0]]
	l.deck = l.deck[1:]
	sold, err := fate.do(l, hold)
	if err != nil {
		return fmt.Errorf("%s: %w", fate.name, err)
	}
	l.seen[fate.name]++
	if sold != nil {
		l.kept = append(l.kept, *sold)
	}
	if len(l.kept) > lifeKeeps {
		l.seen["taken back"]++
		err = l.cancel(l.kept[0])
		l.kept = l.kept[1:]
	}
	return err
}

// lapse moves the hold's deadline, and its seats' with it, into the past.
func (l *life) lapse(h ledger.Hold) error {
	_, err := l.shard().Exec(context.Background(), sqlExpireIn, h.ID, -time.Second.Seconds())
	return err
}

func (l *life) begin(h ledger.Hold) (ledger.Order, error) {
	key := fmt.Sprintf("c%d", l.rng.Uint64())
	o, started, err := l.process.BeginPayment(context.Background(), beginning(h, key))
	if err == nil && !started {
		err = fmt.Errorf("no attempt began on %s", o.ID)
	}
	return o, err
}

func (l *life) decline(h ledger.Hold) (ledger.Order, error) {
	o, err := l.begin(h)
	if err != nil {
		return o, err
	}
	return l.process.FailPayment(context.Background(), ledger.FailPayment{Order: o.ID, Operation: o.Authorization.ID, ProviderCode: "declined"})
}

// sell confirms an order and, if it is to be, captures it.
func (l *life) sell(h ledger.Hold, capture bool) (*ledger.Order, error) {
	o, err := l.begin(h)
	if err == nil {
		o, err = l.process.ConfirmOrder(context.Background(), confirming(o))
	}
	if err == nil && capture {
		o, err = l.process.SettleCapture(context.Background(), ledger.SettleCapture{Order: o.ID, Operation: o.Capture.ID, Captured: true})
	}
	return &o, err
}

// giveUp closes the door on an order; late says that the provider's yes still comes.
func (l *life) giveUp(h ledger.Hold, late bool) error {
	o, err := l.begin(h)
	if err != nil {
		return err
	}
	if _, err := l.process.VoidOrder(context.Background(), ledger.VoidOrder{Order: o.ID, Reason: "grace_ended"}); err != nil {
		return err
	}
	if late {
		_, err := l.process.ConfirmOrder(context.Background(), confirming(o))
		if err := refused(err, usher.CodeOrderClosed); err != nil {
			return err
		}
	}
	read, err := l.process.Order(context.Background(), o.ID)
	if err != nil {
		return err
	}
	for _, op := range read.Operations {
		if op.Kind == usher.OperationVoid {
			_, err = l.process.FinishVoid(context.Background(), ledger.FinishVoid{Order: o.ID, Operation: op.ID})
			return err
		}
	}
	return fmt.Errorf("order %s has no void operation", o.ID)
}

func (l *life) cancel(o ledger.Order) error {
	by := ledger.Staff{Operator: usher.NewOperatorID(), Reason: "illness"}
	_, err := l.process.CancelOrder(context.Background(), ledger.CancelOrder{Order: o.ID, By: by})
	return err
}

// refused wants a refusal of the code.
func refused(err error, code usher.Code) error {
	if usher.CodeOf(err) != code {
		return fmt.Errorf("got %w, want %s", err, code)
	}
	return nil
}
