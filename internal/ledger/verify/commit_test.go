package verify_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg/pgproxy"
)

// Whatever happens to a COMMIT on its way, the command is done exactly once and
// its caller learns it, step after step through the life of an order.
func TestCommitOnItsWay(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   pgproxy.Action
	}{
		{"answer swallowed", pgproxy.SwallowAnswer()},
		{"reset before it", pgproxy.Reset()},
		{"late by a little", pgproxy.Late(300 * time.Millisecond)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newHall(t, 4, nil)
			proxy := pgproxy.Start(t, h.url)
			l := h.through(proxy.URL())
			a := usher.NewAccountID()
			step := func(name string, kind ledger.EntryType, run func() error) {
				t.Helper()
				f := proxy.Arm("commit", 1, tc.do)
				defer f.Disarm()
				if err := run(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if f.Fired() != 1 || h.count(kind) != 1 {
					t.Fatalf("%s: the fault fired %d times, the outbox has %d", name, f.Fired(), h.count(kind))
				}
			}
			var hold ledger.Hold
			var o ledger.Order
			step("hold", ledger.EntryHoldPlaced, func() (err error) {
				hold, err = l.PlaceHold(t.Context(), placing(a, "k", seatIDs(0, 1)...))
				return err
			})
			// The buyer, who may have lost the answer, too, asks again elsewhere.
			again, err := h.PlaceHold(t.Context(), placing(a, "k", seatIDs(1, 0)...))
			if err != nil || again.ID != hold.ID || !again.Replayed || !again.ExpiresAt.Equal(hold.ExpiresAt) {
				t.Errorf("retry: %+v, %v", again, err)
			}
			step("begin", ledger.EntryPaymentBegun, func() (err error) {
				o, _, err = l.BeginPayment(t.Context(), beginning(hold, "c"))
				return err
			})
			step("confirm", ledger.EntryOrderConfirmed, func() (err error) {
				o, err = l.ConfirmOrder(t.Context(), confirming(o))
				return err
			})
			step("capture", ledger.EntryOrderCaptured, func() error {
				_, err := l.SettleCapture(t.Context(), ledger.SettleCapture{Order: o.ID, Operation: o.Capture.ID, Captured: true})
				return err
			})
			other, err := h.PlaceHold(t.Context(), placing(a, "k2", seatIDs(2)...))
			if err != nil {
				t.Fatal(err)
			}
			step("release", ledger.EntryHoldReleased, func() error {
				_, err := l.ReleaseHold(t.Context(), ledger.ReleaseHold{Hold: other.ID, Account: a})
				return err
			})
			h.wantSeat(seatID(0), usher.SeatSold, hold.ID)
			h.wantSeat(seatID(2), usher.SeatAvailable, usher.HoldID{})
		})
	}
}

// A COMMIT may still be on its way when the lock timeout of the run after it is
// over. Nobody is told "not decided" then: the run waits for its older self.
func TestZombieOutlivesLockTimeout(t *testing.T) {
	t.Parallel()
	h := newHall(t, 4, nil)
	proxy := pgproxy.Start(t, h.url)
	l := h.through(proxy.URL())
	a := usher.NewAccountID()
	h.mustPlace(a, "first", seatID(2))
	f := proxy.Arm("commit", 1, pgproxy.Late(2700*time.Millisecond))
	hold, err := l.PlaceHold(t.Context(), placing(a, "k", seatIDs(0, 1)...))
	if err != nil || f.Fired() != 1 {
		t.Fatalf("hold: %v; fired %d times", err, f.Fired())
	}
	h.wantSeat(seatID(0), usher.SeatHeld, hold.ID)
	if h.count(ledger.EntryHoldPlaced) != 2 {
		t.Error("it was placed more than once")
	}
}

// After a COMMIT without an answer nothing but an answer makes the outcome
// known: when the database stays away, the caller hears "unknown", never
// "unavailable" or "busy", which would say that nothing was decided.
func TestUnknownStaysUnknown(t *testing.T) {
	for _, state := range []string{"57P03", "40P01", "53300"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			h := newHall(t, 4, nil)
			proxy := pgproxy.Start(t, h.url)
			l := h.through(proxy.URL())
			a := usher.NewAccountID()
			lost := proxy.Arm("commit", 1, pgproxy.SwallowAnswer())
			away := proxy.Arm("SELECT EXISTS (SELECT FROM outbox", 0, pgproxy.Refuse(state))
			_, err := l.PlaceHold(t.Context(), placing(a, "k", seatIDs(0)...))
			wantCode(t, err, usher.CodeUnknown)
			if lost.Fired() != 1 || away.Fired() == 0 {
				t.Fatalf("%d commits lost, %d statements refused", lost.Fired(), away.Fired())
			}
			away.Disarm()
			hold, err := l.PlaceHold(t.Context(), placing(a, "k", seatIDs(0)...))
			if err != nil || !hold.Replayed || h.count(ledger.EntryHoldPlaced) != 1 {
				t.Errorf("retry: %+v, %v", hold, err)
			}
		})
	}
}

// What PostgreSQL aborts is run again; what it aborts every time is "busy", for
// it is certain that nothing happened. It is never an error of the server.
func TestAbortedStatements(t *testing.T) {
	h := newHall(t, 60, nil)
	proxy := pgproxy.Start(t, h.url)
	l := h.through(proxy.URL())
	seat := 0
	for name, sql := range map[string]string{
		"lock accounts":  "FROM account_usage WHERE event_id = $1 AND account_id = k.id",
		"ensure account": "INSERT INTO account_usage",
		"lock seats":     "FROM seat_inventory WHERE event_id = $1 AND seat_id = k.id",
		"read clock":     "FROM event_ledger l",
		"write holds":    "INSERT INTO hold ",
		"write seats":    "INSERT INTO seat_inventory",
		"fence":          "UPDATE event_ledger SET seq",
		"commit":         "commit",
	} {
		for _, state := range []string{"40P01", "40001", "25P03"} {
			t.Run(name+" "+state, func(t *testing.T) {
				a := usher.NewAccountID()
				f := proxy.Arm(sql, 1, pgproxy.Refuse(state))
				hold, err := l.PlaceHold(t.Context(), placing(a, "k", seatID(seat)))
				f.Disarm()
				if err != nil || f.Fired() != 1 {
					t.Fatalf("aborted once: %v; fired %d times", err, f.Fired())
				}
				h.wantSeat(seatID(seat), usher.SeatHeld, hold.ID)
				seat++
				f = proxy.Arm(sql, 0, pgproxy.Refuse(state))
				_, err = l.PlaceHold(t.Context(), placing(a, "k2", seatID(seat)))
				f.Disarm()
				wantCode(t, err, usher.CodeBusy)
				h.wantSeat(seatID(seat), usher.SeatAvailable, usher.HoldID{})
				if hold, err = l.PlaceHold(t.Context(), placing(a, "k2", seatID(seat))); err != nil || hold.Replayed {
					t.Errorf("the same key afterwards: %+v, %v", hold, err)
				}
				seat++
			})
		}
	}
}

// A connection that ends in the middle of a group costs nobody an answer: the group runs
// once more on another one.
func TestConnectionCut(t *testing.T) {
	h := newHall(t, 8, nil)
	proxy := pgproxy.Start(t, h.url)
	l := h.through(proxy.URL())
	for i, sql := range []string{"FROM seat_inventory WHERE event_id = $1 AND seat_id = k.id", "FROM event_ledger l", "INSERT INTO hold ", "UPDATE event_ledger SET seq"} {
		f := proxy.Arm(sql, 1, pgproxy.Reset())
		hold, err := l.PlaceHold(t.Context(), placing(usher.NewAccountID(), "k", seatID(i)))
		f.Disarm()
		if err != nil || f.Fired() != 1 {
			t.Fatalf("%s: %v; fired %d times", sql, err, f.Fired())
		}
		h.wantSeat(seatID(i), usher.SeatHeld, hold.ID)
	}
	if n := h.count(ledger.EntryHoldPlaced); n != 4 {
		t.Errorf("%d holds, want 4", n)
	}
}

// asked is one call with the time its caller waits.
type asked struct {
	code usher.Code
	took time.Duration
}

// ask places holds on different seats at once, each waiting so long.
func ask(l *ledger.Ledger, a usher.AccountID, n int, patience time.Duration) []asked {
	out := make([]asked, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			start := time.Now()
			_, err := l.PlaceHold(ctx, placing(a, fmt.Sprint("k", i), seatID(i)))
			out[i] = asked{usher.CodeOf(err), time.Since(start)}
		})
	}
	wg.Wait()
	return out
}

// A line that goes silent keeps nobody longer than they wait: what was taken is
// unknown, what was not is busy. The ledger recovers by itself, and the keys
// answer for what was done.
func TestSilentLine(t *testing.T) {
	const patience = 500 * time.Millisecond
	for _, tc := range []struct {
		name    string
		quieten func(*pgproxy.Proxy)
		// then is what becomes of the line; nil is nothing: only new connections work.
		then func(*pgproxy.Proxy)
	}{
		{"everything", (*pgproxy.Proxy).Hush, (*pgproxy.Proxy).Heal},
		{"commit", func(p *pgproxy.Proxy) { p.Arm("commit", 1, pgproxy.Silence()) }, nil},
		{"answer to commit", func(p *pgproxy.Proxy) { p.Arm("commit", 1, pgproxy.SilenceAnswer()) }, nil},
		{"locks", func(p *pgproxy.Proxy) { p.Arm("INSERT INTO account_usage", 1, pgproxy.Silence()) }, nil},
		// The server waits for the rest of a batch, which no timeout of its own ends:
		// that needs the network, which notices that a machine has died.
		{"middle of the locks", func(p *pgproxy.Proxy) { p.Arm("FROM seat_inventory", 1, pgproxy.Silence()) }, (*pgproxy.Proxy).Cut},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := newHall(t, 8, nil)
			proxy := pgproxy.Start(t, h.url)
			l := h.through(proxy.URL())
			// A pool that closes would wait for its silent connections.
			t.Cleanup(proxy.Cut)
			// The pool has a connection and the home is known: the line was good before.
			if _, err := l.ExpireHolds(t.Context(), event); err != nil {
				t.Fatal(err)
			}
			a := usher.NewAccountID()
			tc.quieten(proxy)
			for i, got := range ask(l, a, 6, patience) {
				if got.code != usher.CodeBusy && got.code != usher.CodeUnknown && got.code != usher.CodeUnavailable {
					t.Errorf("call %d: %q", i, got.code)
				}
				if got.took > patience+5*time.Second {
					t.Errorf("call %d was kept for %v", i, got.took)
				}
			}
			if tc.then != nil {
				tc.then(proxy)
			}
			for i, got := range ask(l, a, 6, time.Minute) {
				if got.code != "" {
					t.Errorf("call %d afterwards: %q", i, got.code)
				}
			}
			if n := h.count(ledger.EntryHoldPlaced); n != 6 {
				t.Errorf("%d holds were placed, want 6", n)
			}
		})
	}
}
