package ledger

import (
	"encoding/json"
	"fmt"
	"time"

	"usher"
)

// storedPayload is a Payload as the outbox keeps it. What befell several seats
// alike, which is nearly always all of them, is written once: with six seats that
// is a third of the bytes of a list of changes.
type storedPayload struct {
	Payload
	// Seats hides the payload's own list.
	Seats *struct{}    `json:"seats,omitempty"`
	Moves []storedMove `json:"moves,omitempty"`
}

// storedMove is several SeatChanges that differ in seat and version only; the
// n-th version belongs to the n-th seat.
type storedMove struct {
	From      usher.SeatStatus `json:"from"`
	To        usher.SeatStatus `json:"to"`
	Hold      usher.HoldID     `json:"holdId,omitzero"`
	Order     usher.OrderID    `json:"orderId,omitzero"`
	ExpiresAt *time.Time       `json:"expiresAt,omitempty"`
	Seats     []usher.SeatID   `json:"seatIds"`
	Versions  []int64          `json:"versions"`
}

func storePayload(p Payload) storedPayload {
	out := storedPayload{Payload: p}
	for _, c := range p.Seats {
		if n := len(out.Moves); n == 0 || !out.Moves[n-1].like(c) {
			out.Moves = append(out.Moves, storedMove{From: c.From, To: c.To, Hold: c.Hold, Order: c.Order, ExpiresAt: c.ExpiresAt})
		}
		m := &out.Moves[len(out.Moves)-1]
		m.Seats, m.Versions = append(m.Seats, c.Seat), append(m.Versions, c.Version)
	}
	return out
}

func (m *storedMove) like(c SeatChange) bool {
	sameTime := m.ExpiresAt == c.ExpiresAt || m.ExpiresAt != nil && c.ExpiresAt != nil && m.ExpiresAt.Equal(*c.ExpiresAt)
	return m.From == c.From && m.To == c.To && m.Hold == c.Hold && m.Order == c.Order && sameTime
}

// restorePayload reads what storePayload has made.
func restorePayload(raw []byte) (Payload, error) {
	var in storedPayload
	if err := json.Unmarshal(raw, &in); err != nil {
		return Payload{}, fmt.Errorf("stored payload: %w", err)
	}
	p := in.Payload
	for _, m := range in.Moves {
		if len(m.Seats) != len(m.Versions) {
			return Payload{}, fmt.Errorf("stored payload: %d seats and %d versions", len(m.Seats), len(m.Versions))
		}
		for i, id := range m.Seats {
			p.Seats = append(p.Seats, SeatChange{
				Seat: id, From: m.From, To: m.To, Version: m.Versions[i], Hold: m.Hold, Order: m.Order, ExpiresAt: m.ExpiresAt,
			})
		}
	}
	return p, nil
}
