package ledger_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"usher"
	"usher/internal/ledger"
)

func (h *hall) wish(l *ledger.Ledger, a usher.AccountID, key, wish string, groups ...[]usher.SeatID) (ledger.Hold, error) {
	return l.PlaceHold(h.t.Context(), ledger.PlaceHold{Event: testEvent, Account: a, Alternatives: groups, Wish: wish, Key: key})
}

func TestBestAvailable(t *testing.T) {
	h := newHall(t, 12, nil)
	a := usher.NewAccountID()
	h.mustPlace(usher.NewAccountID(), "k", seatIDs(1)...)
	hold, err := h.wish(h.Ledger, a, "k", "two gold", seatIDs(0, 1), seatIDs(3, 2), seatIDs(4, 5))
	if err != nil || hold.Seats[0].ID != seatID(2) || hold.Seats[1].ID != seatID(3) {
		t.Fatalf("%+v, %v", hold, err)
	}
	h.wantSeat(seatID(4), usher.SeatAvailable, usher.HoldID{})
	// The key stands for the wish, whatever groups it was translated into.
	again, err := h.wish(h.Ledger, a, "k", "two gold", seatIDs(8, 9))
	if err != nil || !again.Replayed || again.ID != hold.ID || !slices.Equal(again.Seats, hold.Seats) {
		t.Errorf("replay %+v, %v", again, err)
	}
	_, err = h.wish(h.Ledger, a, "k", "three gold", seatIDs(8, 9, 10))
	wantCode(t, err, usher.CodeIdempotencyKeyReused)

	b := usher.NewAccountID()
	_, err = h.wish(h.Ledger, b, "k", "two gold", seatIDs(0, 1), seatIDs(2, 4))
	if e := wantCode(t, err, usher.CodeSeatsUnavailable); !slices.Equal(e.Seats, seatIDs(1)) {
		t.Errorf("names %v", e.Seats)
	}
	_, err = h.wish(h.Ledger, b, "k", "two gold")
	wantCode(t, err, usher.CodeSeatsUnavailable)
	// That was no result: other groups may be had with the same key.
	if hold, err := h.wish(h.Ledger, b, "k", "two gold", seatIDs(4, 5)); err != nil || hold.Replayed {
		t.Errorf("%+v, %v", hold, err)
	}
	for name, c := range map[string]ledger.PlaceHold{
		"four groups": {Alternatives: [][]usher.SeatID{seatIDs(6), seatIDs(7), seatIDs(8), seatIDs(9)}},
		"twice":       {Alternatives: [][]usher.SeatID{seatIDs(6, 6)}},
		"empty group": {Alternatives: [][]usher.SeatID{{}}},
		"seats too":   {Alternatives: [][]usher.SeatID{seatIDs(6)}, Seats: seatIDs(7)},
	} {
		c.Event, c.Account, c.Key, c.Wish = testEvent, b, "bad", "x"
		if _, err := h.PlaceHold(t.Context(), c); usher.CodeOf(err) != usher.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Many wishes for the same groups at once, from two processes: every group is
// held whole, once.
func TestBestAvailableRace(t *testing.T) {
	h := newHall(t, 12, nil)
	ledgers := []*ledger.Ledger{h.Ledger, h.process()}
	var wg sync.WaitGroup
	var won atomic.Int32
	for i := range 60 {
		wg.Go(func() {
			hold, err := h.wish(ledgers[i%2], usher.NewAccountID(), fmt.Sprint("k", i), "three", seatIDs(0, 1, 2), seatIDs(3, 4, 5), seatIDs(6, 7, 8))
			switch usher.CodeOf(err) {
			case "":
				won.Add(1)
				if len(hold.Seats) != 3 {
					t.Errorf("held %v", hold.Seats)
				}
			case usher.CodeSeatsUnavailable:
			default:
				t.Errorf("wish %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 3 {
		t.Errorf("%d groups were held, want 3", won.Load())
	}
}
