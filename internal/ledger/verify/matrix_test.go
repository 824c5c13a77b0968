package verify_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"usher"
	"usher/internal/ledger"
)

// The fault matrix of holds and expiry. A row is a boundary: B02 inside the hold
// transaction, B03 COMMIT sent and not answered, B04 committed and not answered,
// B05 the deadline passes and nobody works, B19 expiry chosen and not written,
// B20 release meets confirmation. A column is a fault: K the process is killed,
// R the answer is lost, D duplicate, L late, P the database crashes, C its clock
// moves. K is here; P and C are in cluster_test.go, R, D and L of B02 to B04 in
// commit_test.go, those of B05 and B19 in messages_test.go and expiry_test.go, B20
// in linear_test.go.

const (
	envAccount = "USHER_VERIFY_ACCOUNT"
	envScene   = "USHER_VERIFY_SCENE"
)

// scene is the life of a hold under fixed keys: whoever plays it again gets the
// answers of whoever played it before.
func scene(ctx context.Context, l *ledger.Ledger, e usher.EventID, a usher.AccountID, released bool) (ledger.Hold, ledger.Order, error) {
	hold, err := l.PlaceHold(ctx, ledger.PlaceHold{Event: e, Account: a, Seats: seatIDs(0, 1), Key: "k"})
	if err != nil {
		return hold, ledger.Order{}, fmt.Errorf("hold: %w", err)
	}
	if released {
		_, err := l.ReleaseHold(ctx, ledger.ReleaseHold{Hold: hold.ID, Account: a})
		return hold, ledger.Order{}, err
	}
	o, _, err := l.BeginPayment(ctx, beginning(hold, "c"))
	if err != nil {
		return hold, o, fmt.Errorf("begin: %w", err)
	}
	o, err = l.ConfirmOrder(ctx, confirming(o))
	return hold, o, err
}

// playScene is what a child does that meets a fault.
func playScene(ctx context.Context, l *ledger.Ledger) error {
	n, err := strconv.Atoi(os.Getenv(envEvent))
	if err != nil {
		return err
	}
	switch os.Getenv(envScene) {
	case "sweep":
		return l.RunSweeper(ctx)
	case "messages":
		return l.RunExpiry(ctx)
	}
	var a usher.AccountID
	if err := a.UnmarshalText([]byte(os.Getenv(envAccount))); err != nil {
		return err
	}
	_, _, err = scene(ctx, l, usher.EventID(n), a, os.Getenv(envScene) == "release")
	return err
}

// dies waits for a child that the armed point kills.
func (p *process) dies(t testing.TB, point string) {
	t.Helper()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child was not killed at %s: %v", point, err)
	}
}

// A process is killed at every line of a command that matters. Its buyer asks
// again elsewhere and gets what was done, or what was not is done now; once.
func TestMatrixKill(t *testing.T) {
	h := newHall(t, 2, nil)
	last := event
	for _, boundary := range []struct{ name, point string }{
		{"B02 inside the transaction", "ledger.before_write"},
		{"B03 before COMMIT", "pg.before_commit"},
		{"B03 after COMMIT", "pg.after_commit"},
		{"B04 before the answer", "ledger.after_commit"},
	} {
		for pass, command := range []string{"hold", "begin", "confirm", "release"} {
			last++
			e := last
			t.Run(boundary.name+"/K/"+command, func(t *testing.T) {
				t.Parallel()
				h.in(t).killedAt(e, boundary.point, pass+1, command)
			})
		}
	}
}

func (h *hall) killedAt(e usher.EventID, point string, pass int, command string) {
	h.addEvent(e, 2, nil)
	t, a := h.t, usher.NewAccountID()
	if command == "release" {
		pass = 2
	}
	what := envScene + "=" + command
	p := h.spawn("scene", envEvent+"="+strconv.Itoa(int(e)), what, envAccount+"="+a.String(), envFaults+"="+point+"@"+strconv.Itoa(pass)+"=kill")
	p.dies(t, point)
	died := time.Now()
	l := h.process()
	hold, o, err := scene(t.Context(), l, e, a, command == "release")
	if err != nil {
		t.Fatalf("again: %v", err)
	}
	if took := time.Since(died); took > 10*time.Second {
		t.Errorf("the dead process kept others waiting for %v", took)
	}
	want := []ledger.EntryType{ledger.EntryHoldPlaced, ledger.EntryPaymentBegun, ledger.EntryOrderConfirmed}
	if command == "release" {
		want = []ledger.EntryType{ledger.EntryHoldPlaced, ledger.EntryHoldReleased}
	} else if o.Status != usher.OrderConfirmed || o.Hold != hold.ID {
		t.Errorf("order %+v", o)
	}
	entries := h.entries(e)
	if len(entries) != len(want) {
		t.Fatalf("the outbox has %d entries, want %d", len(entries), len(want))
	}
	for i, entry := range entries {
		if entry.Type != want[i] || entry.Payload.Hold != hold.ID {
			t.Errorf("entry %d is %s of %s", i+1, entry.Type, entry.Payload.Hold)
		}
	}
}

// The sweeper dies with what it has chosen; another expires it, once.
func TestMatrixSweeperKilled(t *testing.T) {
	for _, point := range []string{"expiry.before_group", "ledger.before_write", "pg.after_commit"} {
		t.Run("B19/K/"+point, func(t *testing.T) {
			h := newHall(t, 4, nil)
			hold := h.mustPlace(usher.NewAccountID(), "k", seatIDs(0, 1)...)
			live := h.mustPlace(usher.NewAccountID(), "k", seatIDs(2, 3)...)
			h.expireIn(hold, 0)
			h.spawn("scene", envScene+"=sweep", envFaults+"="+point+"=kill").dies(t, point)
			if _, err := h.process().ExpireHolds(t.Context(), event); err != nil {
				t.Fatal(err)
			}
			if h.count(ledger.EntryHoldExpired) != 1 {
				t.Errorf("it expired %d times", h.count(ledger.EntryHoldExpired))
			}
			h.wantSeat(seatID(0), usher.SeatAvailable, usher.HoldID{})
			h.wantSeat(seatID(2), usher.SeatHeld, live.ID)
		})
	}
}
