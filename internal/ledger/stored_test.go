package ledger

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"usher"
)

// What the outbox keeps reads back as it was, whatever is alike and in what order.
func TestStoredPayload(t *testing.T) {
	event := usher.EventID(7)
	holds := []usher.HoldID{{}, usher.NewHoldID(event), usher.NewHoldID(event)}
	orders := []usher.OrderID{{}, usher.NewOrderID(event)}
	at := time.Date(2026, 12, 2, 20, 12, 23, 10111000, time.UTC)
	later := at.Add(time.Microsecond)
	statuses := []usher.SeatStatus{usher.SeatAvailable, usher.SeatHeld, usher.SeatSold, usher.SeatBlocked}
	change := rapid.Custom(func(t *rapid.T) SeatChange {
		return SeatChange{
			Seat: usher.SeatID(rapid.String().Draw(t, "seat")), Version: rapid.Int64().Draw(t, "version"),
			From: rapid.SampledFrom(statuses).Draw(t, "from"), To: rapid.SampledFrom(statuses).Draw(t, "to"),
			Hold: rapid.SampledFrom(holds).Draw(t, "hold"), Order: rapid.SampledFrom(orders).Draw(t, "order"),
			ExpiresAt: rapid.SampledFrom([]*time.Time{nil, &at, &later}).Draw(t, "expires"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		p := Payload{
			Account: usher.NewAccountID(), Hold: rapid.SampledFrom(holds).Draw(t, "of"), Order: rapid.SampledFrom(orders).Draw(t, "order of"),
			Seats: rapid.SliceOfN(change, 0, 8).Draw(t, "seats"),
		}
		raw, err := json.Marshal(storePayload(p))
		if err != nil {
			t.Fatal(err)
		}
		got, err := restorePayload(raw)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Seats) == 0 {
			p.Seats = nil
		}
		if !reflect.DeepEqual(got, p) {
			t.Fatalf("%+v became %+v by %s", p, got, raw)
		}
	})
}

// Six seats of one hold are one move.
func TestStoredPayloadIsShort(t *testing.T) {
	p, at := Payload{Hold: usher.NewHoldID(7)}, time.Now()
	for _, id := range []usher.SeatID{"A1", "A2", "A3", "A4", "A5", "A6"} {
		copied := at // each seat has a pointer of its own
		p.Seats = append(p.Seats, SeatChange{Seat: id, From: usher.SeatAvailable, To: usher.SeatHeld, Version: 1, Hold: p.Hold, ExpiresAt: &copied})
	}
	if got := storePayload(p).Moves; len(got) != 1 || len(got[0].Seats) != 6 {
		t.Errorf("%+v", got)
	}
}

func TestStoredPayloadDamaged(t *testing.T) {
	for _, raw := range []string{`{"moves":[{"seatIds":["A"],"versions":[]}]}`, `{"seats":[{"seatId":"A"}]}`, `{`} {
		if p, err := restorePayload([]byte(raw)); err == nil {
			t.Errorf("%s reads as %+v", raw, p)
		}
	}
}
