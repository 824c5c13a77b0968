package web_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"usher"
	"usher/internal/ledger"
	"usher/internal/seatmap"
	"usher/internal/web"
)

func group(ids ...usher.SeatID) []usher.SeatID { return ids }

// Best seats are looked for again when they were taken meanwhile, under one key.
func TestBestSeats(t *testing.T) {
	w := newWorld(t)
	w.seats.groups = [][][]usher.SeatID{{group("A", "B")}, {group("C", "D"), group("E", "F")}}
	var asked []ledger.PlaceHold
	w.ledger.placeHold = func(c ledger.PlaceHold) (ledger.Hold, error) {
		asked = append(asked, c)
		if len(asked) == 1 {
			return ledger.Hold{}, &usher.Error{Code: usher.CodeSeatsUnavailable, Seats: c.Alternatives[0]}
		}
		return someHold(c.Account), nil
	}
	a := w.do(t, http.MethodPost, holdsPath, aliceToken, `{"best":{"quantity":2,"tierId":"front","accessible":true},"idempotencyKey":"k"}`)
	if a.status != http.StatusCreated || len(asked) != 2 {
		t.Fatalf("%d %s after %d tries", a.status, a.body, len(asked))
	}
	if asked[0].Key != "k" || asked[0].Wish == "" || asked[0].Wish != asked[1].Wish || len(asked[1].Alternatives) != 2 {
		t.Errorf("asked %+v", asked)
	}
	if want := (seatmap.Wish{Quantity: 2, Tier: "front", Accessible: true}); w.seats.asked[0] != want {
		t.Errorf("wished %+v", w.seats.asked[0])
	}
}

func TestBestSeatsAreAskedForAlone(t *testing.T) {
	w := newWorld(t)
	w.ledger.placeHold = func(ledger.PlaceHold) (ledger.Hold, error) {
		t.Error("the ledger was asked")
		return ledger.Hold{}, nil
	}
	for _, body := range []string{
		`{"best":{"quantity":2},"seatIds":["A"],"idempotencyKey":"k"}`, `{"best":{"quantity":2},"items":[{"tierId":"x","quantity":1}],"idempotencyKey":"k"}`,
		`{"best":{"quantity":0},"idempotencyKey":"k"}`, `{"best":{"quantity":7},"idempotencyKey":"k"}`, `{"best":{},"idempotencyKey":"k"}`,
		`{"best":{"quantity":1,"section":"a\nb"},"idempotencyKey":"k"}`, `{"best":[],"idempotencyKey":"k"}`, `{"idempotencyKey":"k"}`,
	} {
		if a := w.do(t, http.MethodPost, holdsPath, aliceToken, body); a.status < 400 || a.status > 499 || a.code() == "" {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
}

// A refusal of chosen seats suggests as many others of their tier.
func TestSuggestion(t *testing.T) {
	w := newWorld(t)
	first := seatmap.Club().Seat(0)
	w.seats.groups = [][][]usher.SeatID{{group("X", "Y")}}
	w.ledger.placeHold = func(c ledger.PlaceHold) (ledger.Hold, error) {
		return ledger.Hold{}, &usher.Error{Code: usher.CodeSeatsUnavailable, Message: "taken", Seats: c.Seats[:1]}
	}
	body := `{"seatIds":["` + string(first.ID) + `","` + string(seatmap.Club().Seat(1).ID) + `"],"idempotencyKey":"k"}`
	a := w.do(t, http.MethodPost, holdsPath, aliceToken, body)
	var p web.Problem
	if err := json.NewDecoder(strings.NewReader(a.body)).Decode(&p); err != nil || a.status != http.StatusConflict {
		t.Fatalf("%d %s (%v)", a.status, a.body, err)
	}
	if !slices.Equal(p.Suggestion, group("X", "Y")) || !slices.Equal(p.Seats, group(first.ID)) {
		t.Errorf("suggests %v for %v", p.Suggestion, p.Seats)
	}
	if want := (seatmap.Wish{Quantity: 2, Tier: first.Tier}); w.seats.asked[0] != want {
		t.Errorf("looked for %+v", w.seats.asked[0])
	}
	// Without others there is no suggestion, and the refusal stands.
	if a := w.do(t, http.MethodPost, holdsPath, aliceToken, body); a.status != http.StatusConflict || strings.Contains(a.body, "suggestion") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
