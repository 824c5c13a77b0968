package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"usher"
	"usher/internal/ledger"
)

// model is the simplest thing that could be right: who has which seat, and how.
type model struct {
	seats map[usher.SeatID]modelSeat
	holds []*modelHold
	limit int
}

type modelSeat struct {
	status usher.SeatStatus
	hold   *modelHold
}

type modelHold struct {
	view    ledger.Hold
	account usher.AccountID
	status  usher.HoldStatus
	lapsed  bool
	order   *ledger.Order
	ordered usher.OrderStatus
}

func (m *model) used(a usher.AccountID) int {
	n := 0
	for _, h := range m.holds {
		live := h.status == usher.HoldHeld && !h.lapsed || h.status == usher.HoldPaymentPending || h.status == usher.HoldConfirmed && h.ordered == usher.OrderConfirmed
		if h.account == a && live {
			n += len(h.view.Seats)
		}
	}
	return n
}

// free makes the hold's own seats available and ends it.
func (m *model) free(h *modelHold, to usher.HoldStatus) {
	for id, s := range m.seats {
		if s.hold == h {
			m.seats[id] = modelSeat{status: usher.SeatAvailable}
		}
	}
	h.status = to
}

func (m *model) set(h *modelHold, status usher.SeatStatus) {
	for id, s := range m.seats {
		if s.hold == h {
			s.status = status
			m.seats[id] = s
		}
	}
}

// expire is what every group does first.
func (m *model) expire() {
	for _, h := range m.holds {
		if h.status == usher.HoldHeld && h.lapsed {
			m.free(h, usher.HoldExpired)
			if h.ordered == usher.OrderDeclined {
				h.ordered = usher.OrderLapsed
			}
		}
	}
}

func (m *model) pick(t *rapid.T, states ...usher.HoldStatus) *modelHold {
	var fit []*modelHold
	for _, h := range m.holds {
		if slices.Contains(states, h.status) {
			fit = append(fit, h)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return rapid.SampledFrom(fit).Draw(t, "hold")
}

// Whatever a few accounts do with a few seats, in any order, the ledger answers
// and ends as the model does.
func TestModel(t *testing.T) {
	h := newHall(t, 0, nil)
	event := usher.EventID(100)
	rapid.Check(t, func(rt *rapid.T) {
		event++
		h.exec(h.homes.Directory, `INSERT INTO event_home (event_id, shard) VALUES ($1, 1)`, event)
		w := &world{h: h, event: event, m: &model{seats: map[usher.SeatID]modelSeat{}, limit: 3}}
		w.setUp(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"place": w.place, "release": w.release, "lapse": w.lapse, "begin": w.begin, "confirm": w.confirm, "fail": w.fail,
			"void": w.void, "": w.check,
		})
	})
}

type world struct {
	h        *hall
	event    usher.EventID
	m        *model
	accounts []usher.AccountID
	keys     int
}

func (w *world) setUp(t *rapid.T) {
	rules := usher.DefaultRules("TWD")
	rules.Sale, rules.AdmissionRequired, rules.PurchaseLimit, rules.PendingPerAccountMax = usher.SaleOpen, false, w.m.limit, 100
	s := ledger.Setup{Event: w.event, Rules: rules, Tiers: []ledger.Tier{{ID: "g", Name: "G", Price: usher.Money{AmountMinor: 100, Currency: "TWD"}}}}
	for i := range 5 {
		s.Seats = append(s.Seats, ledger.SeatSetup{ID: seatID(i), Tier: "g"})
		w.m.seats[seatID(i)] = modelSeat{status: usher.SeatAvailable}
	}
	if err := w.h.SetUp(w.h.t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w.accounts = []usher.AccountID{usher.NewAccountID(), usher.NewAccountID()}
}

func (w *world) key() string { w.keys++; return fmt.Sprint("k", w.keys) }

func (w *world) want(t *rapid.T, err error, code usher.Code) {
	t.Helper()
	if usher.CodeOf(err) != code {
		t.Fatalf("got %v, want %q", err, code)
	}
}

func (w *world) place(t *rapid.T) {
	a := rapid.SampledFrom(w.accounts).Draw(t, "account")
	perm := rapid.Permutation(seatIDs(0, 1, 2, 3, 4)).Draw(t, "seats")
	seats := perm[:rapid.IntRange(1, 3).Draw(t, "n")]
	w.m.expire()
	want := usher.Code("")
	for _, s := range seats {
		if w.m.seats[s].status != usher.SeatAvailable {
			want = usher.CodeSeatsUnavailable
		}
	}
	if w.m.used(a)+len(seats) > w.m.limit {
		want = usher.CodeLimitExceeded
	}
	key := w.key()
	cmd := ledger.PlaceHold{Event: w.event, Account: a, Seats: seats, Key: key}
	got, err := w.h.PlaceHold(w.h.t.Context(), cmd)
	w.want(t, err, want)
	again, err2 := w.h.PlaceHold(w.h.t.Context(), cmd)
	if usher.CodeOf(err2) != want || again.ID != got.ID {
		t.Fatalf("a repeat was answered %v, %v", again, err2)
	}
	if err != nil {
		return
	}
	mh := &modelHold{view: got, account: a, status: usher.HoldHeld}
	w.m.holds = append(w.m.holds, mh)
	for _, s := range seats {
		w.m.seats[s] = modelSeat{usher.SeatHeld, mh}
	}
}

func (w *world) release(t *rapid.T) {
	mh := w.m.pick(t, usher.HoldHeld, usher.HoldPaymentPending, usher.HoldConfirmed, usher.HoldExpired, usher.HoldReleased)
	if mh == nil {
		return
	}
	w.m.expire()
	_, err := w.h.ReleaseHold(w.h.t.Context(), ledger.ReleaseHold{Hold: mh.view.ID, Account: mh.account})
	switch mh.status {
	case usher.HoldPaymentPending:
		w.want(t, err, usher.CodeHoldPaymentPending)
	case usher.HoldConfirmed:
		w.want(t, err, usher.CodeHoldEnded)
	default:
		w.want(t, err, "")
	}
	if mh.status == usher.HoldHeld {
		w.m.free(mh, usher.HoldReleased)
		if mh.ordered == usher.OrderDeclined {
			mh.ordered = usher.OrderLapsed
		}
	}
}

// lapse moves a deadline into the past; nothing is told.
func (w *world) lapse(t *rapid.T) {
	mh := w.m.pick(t, usher.HoldHeld, usher.HoldPaymentPending)
	if mh == nil {
		return
	}
	w.h.lapse(mh.view)
	mh.lapsed = true
}

func (w *world) begin(t *rapid.T) {
	mh := w.m.pick(t, usher.HoldHeld, usher.HoldPaymentPending, usher.HoldExpired)
	if mh == nil {
		return
	}
	w.m.expire()
	o, started, err := w.h.BeginPayment(w.h.t.Context(), ledger.BeginPayment{
		Hold: mh.view.ID, Account: mh.account, Provider: "p", MethodToken: "pm", Key: w.key(),
	})
	switch mh.status {
	case usher.HoldExpired:
		w.want(t, err, usher.CodeHoldExpired)
	case usher.HoldPaymentPending:
		w.want(t, err, "")
		if started || o.ID != mh.order.ID {
			t.Fatalf("a second order %v beside %v", o.ID, mh.order.ID)
		}
	default:
		w.want(t, err, "")
		if !started || mh.order != nil && mh.order.ID != o.ID {
			t.Fatalf("started %v, order %v", started, o.ID)
		}
		mh.order, mh.ordered, mh.status = &o, usher.OrderPaymentPending, usher.HoldPaymentPending
		w.m.set(mh, usher.SeatPending)
	}
}

func (w *world) paying(t *rapid.T) *modelHold {
	mh := w.m.pick(t, usher.HoldPaymentPending)
	if mh == nil || mh.ordered != usher.OrderPaymentPending {
		return nil
	}
	return mh
}

func (w *world) confirm(t *rapid.T) {
	mh := w.paying(t)
	if mh == nil {
		return
	}
	w.m.expire()
	cmd := ledger.ConfirmOrder{Order: mh.order.ID, Operation: mh.order.Authorization.ID, Authorized: mh.order.Amount}
	for range 2 {
		if _, err := w.h.ConfirmOrder(w.h.t.Context(), cmd); err != nil {
			t.Fatalf("confirm: %v", err)
		}
	}
	mh.status, mh.ordered = usher.HoldConfirmed, usher.OrderConfirmed
	w.m.set(mh, usher.SeatSold)
}

func (w *world) fail(t *rapid.T) {
	mh := w.paying(t)
	if mh == nil {
		return
	}
	w.m.expire()
	cmd := ledger.FailPayment{Order: mh.order.ID, Operation: mh.order.Authorization.ID, ProviderCode: "declined"}
	for range 2 {
		if _, err := w.h.FailPayment(w.h.t.Context(), cmd); err != nil {
			t.Fatalf("fail: %v", err)
		}
	}
	if mh.lapsed {
		w.m.free(mh, usher.HoldExpired)
		mh.ordered = usher.OrderLapsed
		return
	}
	mh.status, mh.ordered = usher.HoldHeld, usher.OrderDeclined
	w.m.set(mh, usher.SeatHeld)
}

func (w *world) void(t *rapid.T) {
	mh := w.paying(t)
	if mh == nil {
		return
	}
	w.m.expire()
	if _, err := w.h.VoidOrder(w.h.t.Context(), ledger.VoidOrder{Order: mh.order.ID, Reason: "test"}); err != nil {
		t.Fatalf("void: %v", err)
	}
	_, err := w.h.ConfirmOrder(w.h.t.Context(), ledger.ConfirmOrder{Order: mh.order.ID, Operation: mh.order.Authorization.ID, Authorized: mh.order.Amount})
	w.want(t, err, usher.CodeOrderClosed)
	op := w.h.operation(mh.order.ID, usher.OperationVoid)
	if _, err := w.h.FinishVoid(w.h.t.Context(), ledger.FinishVoid{Order: mh.order.ID, Operation: op}); err != nil {
		t.Fatalf("finish void: %v", err)
	}
	w.m.free(mh, usher.HoldReleased)
	mh.ordered = usher.OrderVoided
}

// check compares every seat, hold and order with the model.
func (w *world) check(t *rapid.T) {
	snap, err := w.h.Seats(w.h.t.Context(), w.event)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range snap.Seats {
		want := w.m.seats[s.ID]
		got := s.Status
		// A lapsed seat may be swept or not: both mean available.
		if got == usher.SeatHeld && want.hold != nil && want.hold.lapsed || want.status == usher.SeatHeld && want.hold.lapsed && got == usher.SeatAvailable {
			continue
		}
		if got != want.status {
			t.Fatalf("seat %s is %s, the model says %s", s.ID, got, want.status)
		}
	}
	for _, mh := range w.m.holds {
		got, err := w.h.Hold(w.h.t.Context(), mh.view.ID)
		want := mh.status
		if want == usher.HoldHeld && mh.lapsed {
			want = usher.HoldExpired
		}
		if err != nil || got.Status != want {
			t.Fatalf("hold is %s, the model says %s (%v)", got.Status, want, err)
		}
		if mh.order == nil {
			continue
		}
		o, err := w.h.Order(w.h.t.Context(), mh.order.ID)
		if wantOrder := mh.ordered; err != nil || o.Status != wantOrder && !(wantOrder == usher.OrderDeclined && mh.lapsed && o.Status == usher.OrderLapsed) {
			t.Fatalf("order is %s, the model says %s (%v)", o.Status, wantOrder, err)
		}
	}
}
