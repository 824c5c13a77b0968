package crowd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

type ticketBody struct {
	TicketID string `json:"ticketId"`
	SeatID   string `json:"seatId"`
	TierID   string `json:"tierId"`
	Code     string `json:"code"`
}

// fetchTickets waits until every paid place has its ticket.
func (p *person) fetchTickets(ctx context.Context) (bool, error) {
	deadline := time.Now().Add(p.scene.settle)
	for {
		var out struct {
			Tickets []ticketBody `json:"tickets"`
		}
		if _, err := p.scene.client.call(ctx, http.MethodGet, "/v1/orders/"+p.orderID+"/tickets", p.token, nil, nil, &out); err != nil {
			return false, fmt.Errorf("tickets: %w", err)
		}
		if p.tickets = out.Tickets; len(p.tickets) >= p.places() {
			return false, p.checkTickets()
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return false, fmt.Errorf("paid for %d places, %d tickets after %v", p.places(), len(p.tickets), p.scene.settle)
		}
		wait(ctx, orderPoll)
	}
}

func (p *person) places() int {
	n := len(p.seats)
	for _, i := range p.items {
		n += i.Quantity
	}
	return n
}

// checkTickets wants one ticket for each seat and for each place of a tier.
func (p *person) checkTickets() error {
	want := quantities(p.items)
	for _, s := range p.seats {
		want[seatPlace(s)]++
	}
	for _, t := range p.tickets {
		place := t.place()
		if want[place] == 0 {
			return fmt.Errorf("a ticket too many for %s, paid for %v and %v", place, p.seats, p.items)
		}
		if want[place]--; want[place] == 0 {
			delete(want, place)
		}
	}
	if len(want) > 0 {
		return fmt.Errorf("no ticket for %v", want)
	}
	return p.scene.bought(p)
}

// seatPlace names a seat so that no tier is named the same.
func seatPlace(id string) string { return "seat " + id }

func (t *ticketBody) place() string {
	if t.SeatID == "" {
		return t.TierID
	}
	return seatPlace(t.SeatID)
}

// enter goes through the gate with each ticket, and tries one of them twice. Where
// there is no gate yet, people keep their tickets.
func (p *person) enter(ctx context.Context) (bool, error) {
	if p.venue.gate == "" {
		p.outcome = hasTickets
		return true, nil
	}
	for i, t := range p.tickets {
		if err := p.scan(ctx, t, fmt.Sprintf("tx-%s-%d", p.orderID, i)); err != nil {
			return false, err
		}
		p.scene.entered.Add(1)
	}
	_, err := p.claim(ctx, p.tickets[0].Code, "second-"+p.orderID)
	if code := codeOf(err); code != "code_used" {
		return false, fmt.Errorf("a second scan was answered %q (%w)", code, err)
	}
	p.scene.secondScans.Add(1)
	return false, nil
}

func (p *person) scan(ctx context.Context, t ticketBody, tx string) error {
	id, err := p.claim(ctx, t.Code, tx)
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	if p.rng.IntN(6) == 0 { // the gate lost the answer and asks again
		again, err := p.claim(ctx, t.Code, tx)
		if err != nil || again != id {
			return errors.Join(fmt.Errorf("a repeated claim was answered %q, first %q", again, id), err)
		}
	}
	return nil
}

func (p *person) claim(ctx context.Context, code, tx string) (string, error) {
	var out struct {
		RedemptionID string `json:"redemptionId"`
	}
	_, err := p.scene.client.call(ctx, http.MethodPost, "/v1/redemptions", p.venue.gate, nil, map[string]any{"code": code, "transactionId": tx}, &out)
	return out.RedemptionID, err
}
