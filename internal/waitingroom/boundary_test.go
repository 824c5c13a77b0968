package waitingroom_test

import (
	"context"
	"fmt"
	"testing"

	"usher"
	"usher/internal/waitingroom"
)

// judged is an anti-bot product in front of the rooms: it stands where the web
// server expects rooms, says what it thinks of a join, and passes the rest on.
type judged struct {
	*waitingroom.Rooms
	think func(usher.AccountID) waitingroom.Risk
}

func (j judged) Join(ctx context.Context, event usher.EventID, a usher.AccountID, _ waitingroom.Risk) (waitingroom.Ticket, error) {
	return j.Rooms.Join(ctx, event, a, j.think(a))
}

// Whatever the product thinks is stored with the place and moves nobody: numbers
// are dense and one per account, for the suspect and for the trusted. What no
// score can be is refused, and costs a place to nobody else.
func TestBoundaryAntiBot(t *testing.T) {
	b := newBench(t)
	scores := map[usher.AccountID]int{}
	product := judged{b.rooms, func(a usher.AccountID) waitingroom.Risk {
		return waitingroom.Risk{Score: scores[a], Signals: []string{fmt.Sprint("score_", scores[a])}}
	}}
	places := map[usher.AccountID]waitingroom.Ticket{}
	for i := range 20 {
		a := usher.NewAccountID()
		scores[a] = i % 2 * 100
		k, err := product.Join(b.ctx, event, a, waitingroom.Risk{})
		must(t, err)
		places[a] = k
	}
	wild := usher.NewAccountID()
	scores[wild] = 1000
	_, err := product.Join(b.ctx, event, wild, waitingroom.Risk{})
	wantCode(t, err, usher.CodeInvalidRequest)
	for a := range places {
		scores[a] = 100 - scores[a] // it changes its mind; the place stays as it is
		_, err := product.Join(b.ctx, event, a, waitingroom.Risk{})
		must(t, err)
	}
	if n := scan[int](b, b.homes.Room, `SELECT count(DISTINCT account_id) FROM queue_entry`); n != len(places) {
		t.Errorf("%d accounts have a place, want %d", n, len(places))
	}
	if n := scan[int](b, b.homes.Room, `SELECT count(*) FROM queue_entry WHERE (risk ->> 'score')::integer = 100`); n != len(places)/2 {
		t.Errorf("%d places are stored as suspect, want %d", n, len(places)/2)
	}
}
