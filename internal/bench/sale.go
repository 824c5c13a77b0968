package bench

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"usher"
)

// sale is one event on sale at a server, with buyers inside and a record of its
// stock.
type sale struct {
	*caller
	event  string
	buyers []buyer
	stock  *picker
}

// openSale makes the event and brings so many new accounts into its shop.
func openSale(ctx context.Context, t Target, h hall, seatsPerHold, buyers int) (*sale, error) {
	c, err := newCaller(t.URL)
	if err != nil {
		return nil, err
	}
	s := &sale{caller: c, stock: newPicker(h.seats, seatsPerHold, 0, h.holdFor, 1)}
	if s.event, err = c.createEvent(ctx, t.AdminToken, h); err != nil {
		c.close()
		return nil, fmt.Errorf("set up event: %w", err)
	}
	if s.buyers, err = c.admitBuyers(ctx, t.AdminToken, s.event, buyers); err != nil {
		c.close()
		return nil, fmt.Errorf("admit buyers: %w", err)
	}
	return s, nil
}

// buyer is who sends request i.
func (s *sale) buyer(i int) *buyer { return &s.buyers[i%len(s.buyers)] }

// ask is request i for a hold of seats that the stock picks. A conflict is an
// answer: then ok is false and err nil.
func (s *sale) ask(ctx context.Context, i int, granted any) (cl claim, ok bool, err error) {
	seats, cl := s.stock.pick()
	ok, err = s.hold(ctx, s.event, s.buyer(i), seats, usher.NewAccountID().String(), granted)
	s.stock.done(cl, ok)
	return cl, ok, err
}

// placeHold is ask where nobody wants to know more.
func (s *sale) placeHold(ctx context.Context, i int) (bool, error) {
	_, ok, err := s.ask(ctx, i, nil)
	return ok, err
}

// entrance is people who have not joined the sale's queue yet.
type entrance struct {
	*sale
	tokens []string
	next   atomic.Int64
}

func (s *sale) openEntrance(ctx context.Context, t Target, people int) (*entrance, error) {
	tokens, err := s.mint(ctx, t.AdminToken, people)
	if err != nil {
		return nil, fmt.Errorf("mint people: %w", err)
	}
	return &entrance{sale: s, tokens: tokens}, nil
}

// join takes a place in the queue for the next of them, and begins anew with the
// first when all have.
func (e *entrance) join(ctx context.Context, _ int) (bool, error) {
	return true, e.caller.join(ctx, e.event, e.tokens[int(e.next.Add(1)-1)%len(e.tokens)])
}

// join takes a place in an event's queue.
func (c *caller) join(ctx context.Context, event, token string) error {
	_, err := c.want(ctx, call{method: http.MethodPost, path: "/v1/events/" + event + "/queue", token: token, body: []byte("{}")}, nil)
	return err
}
