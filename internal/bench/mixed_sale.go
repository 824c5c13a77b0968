package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"
)

// mixedSale is one event in the middle of its sale, as seen from outside: people
// at the entrance, buyers inside, what they hold and have bought, and a gate.
type mixedSale struct {
	*sale
	entrance *entrance
	gate     string

	mu sync.Mutex
	// held are holds nobody pays for yet, the newest last.
	held []openHold
	// orders are what order pages are read for; codes are unused tickets.
	orders []boughtOrder
	codes  []string
}

type openHold struct {
	buyer *buyer
	id    string
	claim claim
	until time.Time
}

type boughtOrder struct {
	buyer *buyer
	id    string
}

const (
	// card is a method that the payment simulator approves.
	card = "pm_card_visa"
	// payMargin is the least time a hold has left when somebody begins to pay.
	payMargin = 3 * time.Second
	// ticketsWithin is how long the tickets for the gate may take to be issued.
	ticketsWithin = time.Minute
	// sellers is how many of those orders are under way at once.
	sellers = 16
)

// openMixedSale makes the event, its people, and as many tickets as the gate will see.
func openMixedSale(ctx context.Context, t Target, cfg MixedConfig) (*mixedSale, error) {
	tickets := cfg.requests(designClaims)
	orders := (tickets + cfg.SeatsPerHold - 1) / cfg.SeatsPerHold
	rate := (designHolds + designCheckouts) * cfg.Scale
	buyers := max(buyersFor(rate, cfg.length()), int(rate), 2*orders/buyerOrders)
	opened, err := openSale(ctx, t, hall{seats: cfg.Seats, holdFor: mixedHold}, cfg.SeatsPerHold, buyers)
	if err != nil {
		return nil, err
	}
	s := &mixedSale{sale: opened}
	if s.entrance, err = s.openEntrance(ctx, t, cfg.requests(designJoins)); err != nil {
		return nil, err
	}
	var gate struct {
		Credential string `json:"credential"`
	}
	device := map[string]string{"name": "Benchmark gate", "settle": "now"}
	if err := s.must(ctx, http.MethodPost, "/v1/admin/events/"+s.event+"/devices", t.AdminToken, device, &gate); err != nil {
		return nil, err
	}
	s.gate = gate.Credential
	if err := together(orders, sellers, func(i int) error { return s.sell(ctx, i) }); err != nil {
		return nil, fmt.Errorf("sell tickets: %w", err)
	}
	// The first to pay find something that is held.
	if err := together(int(math.Ceil(designCheckouts*cfg.Scale)), sellers, func(i int) error { return s.grab(ctx, i) }); err != nil {
		return nil, fmt.Errorf("hold seats: %w", err)
	}
	s.stock.conflict = cfg.ConflictShare
	return s, nil
}

// buyerOrders is how many orders one account may place at once, within the burst
// of its limit.
const buyerOrders = 8

var errRefused = errors.New("a hold of free seats was refused")

// grab holds seats nobody else wants.
func (s *mixedSale) grab(ctx context.Context, i int) error {
	ok, err := s.placeHold(ctx, i)
	if err == nil && !ok {
		err = errRefused
	}
	return err
}

var errNoTickets = errors.New("an order has no tickets in time")

// sell buys one group of seats to the end and keeps its codes for the gate.
func (s *mixedSale) sell(ctx context.Context, i int) error {
	if err := s.grab(ctx, i); err != nil {
		return err
	}
	order, err := s.pay(ctx, fmt.Sprint("sell", i))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ticketsWithin)
	defer cancel()
	for {
		var out struct {
			Tickets []struct {
				Code string `json:"code"`
			} `json:"tickets"`
		}
		q := call{method: http.MethodGet, path: "/v1/orders/" + order.id + "/tickets", token: order.buyer.token}
		if _, err := s.want(ctx, q, &out); err != nil {
			return err
		}
		if len(out.Tickets) > 0 {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, t := range out.Tickets {
				s.codes = append(s.codes, t.Code)
			}
			return nil
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return errNoTickets
		}
	}
}

// poll reads the shared document as a phone without a cache in front would.
func (s *mixedSale) poll(ctx context.Context, _ int) (bool, error) {
	_, err := s.want(ctx, call{method: http.MethodGet, path: "/v1/events/" + s.event + "/queue/now"}, nil)
	return true, err
}

// look takes the live picture of the seats, whole, as a browser that just entered.
func (s *mixedSale) look(ctx context.Context, i int) (bool, error) {
	b := s.buyer(i)
	_, err := s.want(ctx, call{
		method: http.MethodGet, path: "/v1/events/" + s.event + "/seats", token: b.token,
		header: map[string]string{"Usher-Admission": b.admission, "Accept-Encoding": "gzip"},
	}, nil)
	return true, err
}

// placeHold asks for seats and keeps what was granted for somebody to pay.
func (s *mixedSale) placeHold(ctx context.Context, i int) (bool, error) {
	var granted struct {
		HoldID string `json:"holdId"`
	}
	cl, ok, err := s.ask(ctx, i, &granted)
	if ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held = append(s.held, openHold{s.buyer(i), granted.HoldID, cl, time.Now().Add(mixedHold - payMargin)})
	}
	return ok, err
}

var errNothingHeld = errors.New("nothing is held that could be paid for")

// checkOut pays for the newest hold.
func (s *mixedSale) checkOut(ctx context.Context, i int) (bool, error) {
	_, err := s.pay(ctx, fmt.Sprint("pay", i))
	return true, err
}

func (s *mixedSale) pay(ctx context.Context, key string) (boughtOrder, error) {
	h, ok := s.newestHold()
	if !ok {
		return boughtOrder{}, errNothingHeld
	}
	s.stock.sell(h.claim)
	var order struct {
		OrderID string `json:"orderId"`
	}
	body := map[string]string{"paymentMethodToken": card, "idempotencyKey": key}
	err := s.must(ctx, http.MethodPost, "/v1/holds/"+h.id+"/checkout", h.buyer.token, body, &order)
	if err != nil {
		return boughtOrder{}, err
	}
	o := boughtOrder{h.buyer, order.OrderID}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders = append(s.orders, o)
	return o, nil
}

func (s *mixedSale) newestHold() (openHold, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.held = slices.DeleteFunc(s.held, func(h openHold) bool { return now.After(h.until) })
	n := len(s.held)
	if n == 0 {
		return openHold{}, false
	}
	h := s.held[n-1]
	s.held = s.held[:n-1]
	return h, true
}

// readOrder is an order page that asks how far the payment is.
func (s *mixedSale) readOrder(ctx context.Context, i int) (bool, error) {
	s.mu.Lock()
	o := s.orders[i%len(s.orders)]
	s.mu.Unlock()
	_, err := s.want(ctx, call{method: http.MethodGet, path: "/v1/orders/" + o.id, token: o.buyer.token}, nil)
	return true, err
}

var errNoCodes = errors.New("every code was scanned")

// claim is a scan at the gate of a ticket nobody scanned before.
func (s *mixedSale) claim(ctx context.Context, i int) (bool, error) {
	if i >= len(s.codes) {
		return false, errNoCodes
	}
	err := s.must(ctx, http.MethodPost, "/v1/redemptions", s.gate, map[string]string{"code": s.codes[i], "transactionId": fmt.Sprint("scan", i)}, nil)
	return err == nil, err
}
