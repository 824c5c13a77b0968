package ledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"usher"
	"usher/internal/ledger"
)

func TestPlaceHold(t *testing.T) {
	h := newHall(t, 10, nil)
	a := usher.NewAccountID()
	hold := h.mustPlace(a, "k1", seatIDs(3, 1, 2)...)
	if hold.ID.Event() != testEvent || hold.Status != usher.HoldHeld || hold.Replayed {
		t.Errorf("hold %+v", hold)
	}
	if want := (usher.Money{AmountMinor: 960000, Currency: "TWD"}); hold.Amount != want {
		t.Errorf("amount %v, want %v", hold.Amount, want)
	}
	if got := hold.ExpiresAt.Sub(hold.Now); got != 5*time.Minute {
		t.Errorf("deadline is %v after the database's now, want 5m", got)
	}
	for _, i := range []int{1, 2, 3} {
		h.wantSeat(seatID(i), usher.SeatHeld, hold.ID)
	}
	read, err := h.Hold(t.Context(), hold.ID)
	if err != nil || read.Status != usher.HoldHeld || !read.ExpiresAt.Equal(hold.ExpiresAt) || !slices.Equal(read.Seats, hold.Seats) {
		t.Errorf("read %+v, %v", read, err)
	}
	live, err := h.LiveHolds(t.Context(), testEvent, a)
	if err != nil || len(live) != 1 || live[0].ID != hold.ID {
		t.Errorf("live holds %+v, %v", live, err)
	}
}

func TestPlaceHoldRefusals(t *testing.T) {
	h := newHall(t, 10, nil)
	a, b := usher.NewAccountID(), usher.NewAccountID()
	h.mustPlace(a, "k1", seatIDs(0, 1)...)
	for _, tc := range []struct {
		name  string
		seats []usher.SeatID
		key   string
		code  usher.Code
	}{
		{"taken", seatIDs(1, 2), "b1", usher.CodeSeatsUnavailable},
		{"unknown seat", []usher.SeatID{"A-002", "Z-9"}, "b2", usher.CodeSeatUnknown},
		{"none", nil, "b3", usher.CodeInvalidRequest},
		{"seven", seatIDs(2, 3, 4, 5, 6, 7, 8), "b4", usher.CodeInvalidRequest},
		{"twice", seatIDs(2, 2), "b5", usher.CodeInvalidRequest},
		{"zero byte", []usher.SeatID{"A\x00"}, "b6", usher.CodeInvalidRequest},
		{"no key", seatIDs(2), "", usher.CodeIdempotencyKeyRequired},
		{"key with space", seatIDs(2), "a b", usher.CodeInvalidRequest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := h.place(b, tc.key, tc.seats...)
			e := wantCode(t, err, tc.code)
			if tc.code == usher.CodeSeatsUnavailable && !slices.Equal(e.Seats, seatIDs(1)) {
				t.Errorf("names %v, want the taken seat alone", e.Seats)
			}
		})
	}
	h.wantSeat(seatID(2), usher.SeatAvailable, usher.HoldID{})
	if _, err := h.PlaceHold(t.Context(), ledger.PlaceHold{Event: 99, Account: a, Seats: seatIDs(1), Key: "k"}); usher.CodeOf(err) != usher.CodeNotFound {
		t.Errorf("unknown event: %v", err)
	}
}

// P08: "is it free" and "write it" are one step.
func TestOneSeatOneWinner(t *testing.T) {
	h := newHall(t, 20, nil)
	other := h.process()
	for s := range 20 {
		var wg sync.WaitGroup
		var won atomic.Int32
		start := make(chan struct{})
		for i := range 200 {
			l := h.Ledger
			if i%2 == 1 {
				l = other
			}
			wg.Go(func() {
				<-start
				_, err := l.PlaceHold(context.Background(), ledger.PlaceHold{
					Event: testEvent, Account: usher.NewAccountID(), Seats: seatIDs(s), Key: fmt.Sprint("k", i),
				})
				switch usher.CodeOf(err) {
				case "":
					won.Add(1)
				case usher.CodeSeatsUnavailable:
				default:
					t.Errorf("seat %d: %v", s, err)
				}
			})
		}
		close(start)
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("seat %d has %d winners", s, won.Load())
		}
	}
	var live int
	h.scan(`SELECT count(*) FROM hold WHERE status = 'held'`, &live)
	if live != 20 {
		t.Errorf("%d live holds, want 20", live)
	}
}

// P09: overlapping groups in any order are held whole or not at all, and nothing
// deadlocks, over two processes.
func TestOverlappingGroups(t *testing.T) {
	h := newHall(t, 4, nil)
	ledgers := []*ledger.Ledger{h.Ledger, h.process()}
	var wg sync.WaitGroup
	var held atomic.Int32
	for i := range 500 {
		seats := seatIDs(rand.Perm(4)[:2+rand.IntN(3)]...)
		wg.Go(func() {
			hold, err := ledgers[i%2].PlaceHold(context.Background(), ledger.PlaceHold{
				Event: testEvent, Account: usher.NewAccountID(), Seats: seats, Key: "k",
			})
			switch usher.CodeOf(err) {
			case "":
				held.Add(int32(len(seats)))
				if len(hold.Seats) != len(seats) {
					t.Errorf("a group of %d was held as %d", len(seats), len(hold.Seats))
				}
			case usher.CodeSeatsUnavailable:
			default:
				t.Errorf("group %v: %v", seats, err)
			}
		})
	}
	wg.Wait()
	var inInventory int32
	h.scan(`SELECT count(*) FROM seat_inventory WHERE status = 'held'`, &inInventory)
	if held.Load() == 0 || held.Load() != inInventory {
		t.Errorf("answers held %d seats, the inventory has %d", held.Load(), inInventory)
	}
	var deadlocks int
	h.scan(`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`, &deadlocks)
	if deadlocks != 0 {
		t.Errorf("%d deadlocks", deadlocks)
	}
}

// P42 to P45: keys.
func TestIdempotencyKeys(t *testing.T) {
	h := newHall(t, 10, nil)
	a, b := usher.NewAccountID(), usher.NewAccountID()
	first := h.mustPlace(a, "K", seatIDs(0, 1)...)

	again := h.mustPlace(a, "K", seatIDs(1, 0)...)
	if !again.Replayed || again.ID != first.ID || !again.ExpiresAt.Equal(first.ExpiresAt) || again.Status != usher.HoldHeld {
		t.Errorf("replay in other order: %+v", again)
	}
	_, err := h.place(a, "K", seatIDs(2)...)
	wantCode(t, err, usher.CodeIdempotencyKeyReused)
	// P42: the same key, with the same body and with another, is another account's own.
	_, err = h.place(b, "K", seatIDs(0, 1)...)
	if e := wantCode(t, err, usher.CodeSeatsUnavailable); e.Replayed {
		t.Errorf("another account was answered with what is remembered of the first: %+v", e)
	}
	c := usher.NewAccountID()
	other := h.mustPlace(c, "K", seatIDs(2)...)
	if other.Replayed || other.Account != c {
		t.Errorf("another account's key: %+v", other)
	}
	if paid := h.mustBegin(other, "K"); paid.Hold != other.ID || paid.Account != c {
		t.Errorf("another account's checkout: %+v", paid)
	}
	if mine := h.mustPlace(a, "K", seatIDs(0, 1)...); !mine.Replayed || mine.ID != first.ID {
		t.Errorf("the first account's key afterwards: %+v", mine)
	}
	// A key of one operation does not answer for another.
	o := h.mustBegin(first, "K")
	if o.Hold != first.ID {
		t.Errorf("order %+v", o)
	}

	_, err = h.place(b, "refused", seatIDs(0)...)
	wantCode(t, err, usher.CodeSeatsUnavailable)
	_, err = h.place(b, "refused", seatIDs(0)...)
	if e := wantCode(t, err, usher.CodeSeatsUnavailable); !e.Replayed || !slices.Equal(e.Seats, seatIDs(0)) {
		t.Errorf("replayed refusal: %+v", e)
	}
	_, err = h.place(b, "refused", seatIDs(5)...)
	wantCode(t, err, usher.CodeIdempotencyKeyReused)

	// What is not a decision about the inventory is no result.
	_, err = h.place(b, "later", "Z-1")
	wantCode(t, err, usher.CodeSeatUnknown)
	h.mustPlace(b, "later", seatIDs(6)...)
}

func TestSameKeyAtOnce(t *testing.T) {
	h := newHall(t, 3, nil)
	other := h.process()
	a := usher.NewAccountID()
	var wg sync.WaitGroup
	ids := make([]usher.HoldID, 20)
	for i := range ids {
		wg.Go(func() {
			l := h.Ledger
			if i%2 == 1 {
				l = other
			}
			hold, err := l.PlaceHold(context.Background(), ledger.PlaceHold{Event: testEvent, Account: a, Seats: seatIDs(0, 1), Key: "K"})
			if err != nil {
				t.Errorf("call %d: %v", i, err)
			}
			ids[i] = hold.ID
		})
	}
	wg.Wait()
	if n := len(slices.Compact(ids)); n != 1 {
		t.Errorf("%d different holds", n)
	}
	var rows int
	if h.scan(`SELECT count(*) FROM hold`, &rows); rows != 1 {
		t.Errorf("%d rows of holds", rows)
	}
}

// P23: held + awaiting payment + sold never exceeds the limit of 4, not at the end and
// not in between, and every step has what it should.
func TestPurchaseLimit(t *testing.T) {
	h := newHall(t, 40, func(r *usher.Rules) { r.PurchaseLimit = 4 })
	buyer := usher.NewAccountID()
	hold := h.mustPlace(buyer, "k1", seatIDs(0, 1, 2, 3)...)
	h.wantPlaces(buyer, 4, 0, 0)
	o := h.mustBegin(hold, "c1")
	h.wantPlaces(buyer, 0, 4, 0)
	h.mustConfirm(o)
	h.wantPlaces(buyer, 0, 0, 4)
	_, err := h.place(buyer, "k2", seatIDs(4)...)
	wantCode(t, err, usher.CodeLimitExceeded)
	h.wantPlaces(buyer, 0, 0, 4)

	rusher := usher.NewAccountID()
	other := h.process()
	var wg sync.WaitGroup
	var granted atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			l := h.Ledger
			if i%2 == 1 {
				l = other
			}
			_, err := l.PlaceHold(context.Background(), ledger.PlaceHold{
				Event: testEvent, Account: rusher, Seats: seatIDs(10+2*i, 11+2*i), Key: fmt.Sprint("k", i),
			})
			switch usher.CodeOf(err) {
			case "":
				granted.Add(1)
			case usher.CodeLimitExceeded:
			default:
				t.Errorf("hold %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if granted.Load() != 2 {
		t.Errorf("%d of the 8 were granted, want 2", granted.Load())
	}
	h.wantPlaces(rusher, 4, 0, 0)

	mixed := usher.NewAccountID()
	h.mustConfirm(h.mustBegin(h.mustPlace(mixed, "k1", seatIDs(30, 31)...), "c1"))
	h.wantPlaces(mixed, 0, 0, 2)
	second := h.mustBegin(h.mustPlace(mixed, "k2", seatIDs(32, 33)...), "c2")
	h.wantPlaces(mixed, 0, 2, 2)
	_, err = h.place(mixed, "k3", seatIDs(34)...)
	wantCode(t, err, usher.CodeLimitExceeded)
	h.wantPlaces(mixed, 0, 2, 2)
	// It is counted again at confirm: a limit that fell meanwhile is not passed.
	if _, err := h.ChangeRules(t.Context(), testEvent, func(r *usher.Rules) { r.PurchaseLimit = 3 }); err != nil {
		t.Fatal(err)
	}
	_, err = h.confirm(second)
	wantCode(t, err, usher.CodeLimitExceeded)
	h.wantPlaces(mixed, 0, 2, 2)
	if _, err := h.FinishVoid(t.Context(), ledger.FinishVoid{Order: second.ID, Operation: h.operation(second.ID, usher.OperationVoid)}); err != nil {
		t.Fatal(err)
	}
	h.wantPlaces(mixed, 0, 0, 2)
	for _, account := range []usher.AccountID{buyer, rusher, mixed} {
		if most := h.mostPlaces(account); most != 4 {
			t.Errorf("an account of these had %d places at one moment, want 4 at most and reached", most)
		}
	}
}

// wantPlaces checks how many seats of each state the account has.
func (h *hall) wantPlaces(account usher.AccountID, held, pending, sold int) {
	h.t.Helper()
	var got [3]int
	err := h.pool.QueryRow(h.t.Context(), `
SELECT count(*) FILTER (WHERE s.status = 'held'), count(*) FILTER (WHERE s.status = 'pending'), count(*) FILTER (WHERE s.status = 'sold')
FROM seat_inventory s JOIN hold h USING (hold_id) WHERE h.account_id = $1`, account).Scan(&got[0], &got[1], &got[2])
	if want := [3]int{held, pending, sold}; err != nil || got != want {
		h.t.Errorf("held, pending and sold are %v, want %v (%v)", got, want, err)
	}
}

// mostPlaces is the most seats that the account had at any moment, by the outbox.
func (h *hall) mostPlaces(account usher.AccountID) int {
	h.t.Helper()
	entries, err := h.Changes(h.t.Context(), testEvent, 0, 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	has, most := map[usher.SeatID]bool{}, 0
	for _, e := range entries {
		for _, c := range e.Payload.Seats {
			delete(has, c.Seat)
			if e.Payload.Account == account && c.To != usher.SeatAvailable {
				has[c.Seat] = true
			}
		}
		most = max(most, len(has))
	}
	return most
}

// P15: a lapsed hold blocks nobody, whatever runs behind the scenes, and its
// owner cannot pay for it.
func TestLapsedHold(t *testing.T) {
	h := newHall(t, 4, func(r *usher.Rules) { r.PurchaseLimit = 2 })
	a, b := usher.NewAccountID(), usher.NewAccountID()
	old := h.mustPlace(a, "k1", seatIDs(0, 1)...)
	h.lapse(old)
	if read, err := h.Hold(t.Context(), old.ID); err != nil || read.Status != usher.HoldExpired {
		t.Errorf("lapsed hold reads %v, %v", read.Status, err)
	}
	taken := h.mustPlace(b, "k1", seatIDs(0)...)
	h.wantSeat(seatID(0), usher.SeatHeld, taken.ID)
	h.wantSeat(seatID(1), usher.SeatAvailable, usher.HoldID{})
	_, _, err := h.BeginPayment(t.Context(), ledger.BeginPayment{Hold: old.ID, Account: a, Provider: "test", MethodToken: "pm", Key: "c"})
	wantCode(t, err, usher.CodeHoldExpired)
	// It does not count against the limit either, and late messages touch nobody else.
	h.mustPlace(a, "k2", seatIDs(2, 3)...)
	for range 5 {
		if n, err := h.ExpireHolds(t.Context(), testEvent); n != 0 || err != nil {
			t.Errorf("late expiry freed %d, %v", n, err)
		}
	}
	h.wantSeat(seatID(0), usher.SeatHeld, taken.ID)
	if again, err := h.ReleaseHold(t.Context(), ledger.ReleaseHold{Hold: old.ID, Account: a}); err != nil || again.Status != usher.HoldExpired {
		t.Errorf("release after the end: %v, %v", again.Status, err)
	}
}

func TestReleaseHold(t *testing.T) {
	h := newHall(t, 4, nil)
	a, b := usher.NewAccountID(), usher.NewAccountID()
	hold := h.mustPlace(a, "k1", seatIDs(0, 1)...)
	_, err := h.ReleaseHold(t.Context(), ledger.ReleaseHold{Hold: hold.ID, Account: b})
	wantCode(t, err, usher.CodeNotFound)
	_, err = h.ReleaseHold(t.Context(), ledger.ReleaseHold{Hold: usher.NewHoldID(testEvent), Account: a})
	wantCode(t, err, usher.CodeNotFound)
	for range 2 {
		if out, err := h.ReleaseHold(t.Context(), ledger.ReleaseHold{Hold: hold.ID, Account: a}); err != nil || out.Status != usher.HoldReleased {
			t.Fatalf("release: %v, %v", out.Status, err)
		}
	}
	next := h.mustPlace(b, "k1", seatIDs(0, 1)...)
	if _, err := h.ReleaseHold(t.Context(), ledger.ReleaseHold{Hold: hold.ID, Account: a}); err != nil {
		t.Fatal(err)
	}
	h.wantSeat(seatID(0), usher.SeatHeld, next.ID)
	// The key of a released hold still answers as it first did.
	if again := h.mustPlace(a, "k1", seatIDs(0, 1)...); again.ID != hold.ID || again.Status != usher.HoldHeld || !again.Replayed {
		t.Errorf("replay after release: %+v", again)
	}
}

func TestAdmissionSession(t *testing.T) {
	h := newHall(t, 4, func(r *usher.Rules) { r.AdmissionRequired = true })
	a := usher.NewAccountID()
	live, ended := usher.NewSessionID(testEvent), usher.NewSessionID(testEvent)
	insert := `INSERT INTO shopper_session (session_id, event_id, account_id, round, turn, started_at, expires_at, ended_at, end_reason)
		VALUES ($1, $2, $3, 1, CASE WHEN $4 THEN 1 ELSE 2 END, clock_timestamp(), clock_timestamp() + interval '1 minute',
			CASE WHEN $4 THEN clock_timestamp() END, CASE WHEN $4 THEN 'left' END)`
	h.exec(h.pool, insert, ended, testEvent, a, true)
	h.exec(h.pool, insert, live, testEvent, a, false)
	place := func(s usher.SessionID, account usher.AccountID) error {
		_, err := h.PlaceHold(t.Context(), ledger.PlaceHold{Event: testEvent, Account: account, Session: s, Seats: seatIDs(0), Key: "k"})
		return err
	}
	for name, err := range map[string]error{
		"none": place(usher.SessionID{}, a), "ended": place(ended, a), "another account's": place(live, usher.NewAccountID()),
	} {
		if usher.CodeOf(err) != usher.CodeSessionEnded {
			t.Errorf("session %s: %v", name, err)
		}
	}
	if err := place(live, a); err != nil {
		t.Errorf("live session: %v", err)
	}
	h.exec(h.pool, `UPDATE shopper_session SET expires_at = clock_timestamp() WHERE session_id = $1`, live)
	_, err := h.PlaceHold(t.Context(), ledger.PlaceHold{Event: testEvent, Account: a, Session: live, Seats: seatIDs(1), Key: "k2"})
	wantCode(t, err, usher.CodeSessionEnded)
}

func TestSaleStates(t *testing.T) {
	past := time.Now().Add(-time.Hour)
	for _, tc := range []struct {
		name   string
		change func(*usher.Rules)
		code   usher.Code
	}{
		{"scheduled", func(r *usher.Rules) { r.Sale = usher.SaleScheduled }, usher.CodeSaleNotOpen},
		{"paused", func(r *usher.Rules) { r.Sale = usher.SalePaused }, usher.CodeSaleNotOpen},
		{"closed", func(r *usher.Rules) { r.Sale = usher.SaleClosed }, usher.CodeSaleClosed},
		{"window over", func(r *usher.Rules) { r.SaleClosesAt = &past }, usher.CodeSaleClosed},
		{"cancelled", func(r *usher.Rules) { r.Sale = usher.SaleCancelled }, usher.CodeEventCancelled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHall(t, 3, nil)
			held := h.mustPlace(usher.NewAccountID(), "k", seatIDs(0)...)
			if _, err := h.ChangeRules(t.Context(), testEvent, tc.change); err != nil {
				t.Fatal(err)
			}
			_, err := h.place(usher.NewAccountID(), "k", seatIDs(1)...)
			wantCode(t, err, tc.code)
			// What is held may still be paid, except when the event is off.
			_, _, err = h.BeginPayment(t.Context(), ledger.BeginPayment{Hold: held.ID, Account: held.Account, Provider: "test", MethodToken: "pm", Key: "c"})
			if tc.code == usher.CodeEventCancelled {
				wantCode(t, err, usher.CodeEventCancelled)
			} else if err != nil {
				t.Errorf("checkout: %v", err)
			}
		})
	}
}

func TestBlockedAccount(t *testing.T) {
	h := newHall(t, 3, nil)
	a := usher.NewAccountID()
	if err := h.BlockAccount(t.Context(), testEvent, a, true); err != nil {
		t.Fatal(err)
	}
	_, err := h.place(a, "k", seatIDs(0)...)
	wantCode(t, err, usher.CodeAccountBlocked)
}

// P32: a hold keeps the prices it was made at.
func TestPriceVersions(t *testing.T) {
	h := newHall(t, 3, nil)
	a := usher.NewAccountID()
	old := h.mustPlace(a, "k1", seatIDs(0)...)
	err := h.SetPrices(t.Context(), testEvent, []ledger.Tier{
		{ID: "gold", Name: "Gold", Price: usher.Money{AmountMinor: 500000, Currency: "TWD"}},
		{ID: "free", Name: "Free", Price: usher.Money{Currency: "TWD"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if o := h.mustConfirm(h.mustBegin(old, "c1")); o.Amount.AmountMinor != 320000 || o.Seats[0].Price.AmountMinor != 320000 {
		t.Errorf("order at the old price: %+v", o)
	}
	if hold := h.mustPlace(a, "k2", seatIDs(1)...); hold.Amount.AmountMinor != 500000 || hold.PriceVersion != 2 {
		t.Errorf("hold at the new price: %+v", hold)
	}
	if again := h.mustPlace(a, "k1", seatIDs(0)...); again.Amount.AmountMinor != 320000 || again.Seats[0].Price.AmountMinor != 320000 {
		t.Errorf("replay at the old price: %+v", again)
	}
}
