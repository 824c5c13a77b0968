package crowd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// part is how a person behaves; the seed decides who plays which.
type part int

const (
	pays part = iota
	declinedFirst
	declinedForGood
	challenged
	abandonsChallenge
	losesReply
	slowBank
	walksAway
	givesBack
)

// cast is the share of each part, in percent.
var cast = []struct {
	part  part
	share int
}{
	{pays, 62}, {declinedFirst, 7}, {declinedForGood, 4}, {challenged, 6}, {abandonsChallenge, 2}, {losesReply, 6}, {slowBank, 3}, {walksAway, 6}, {givesBack, 4},
}

// cards are the simulator's payment methods for each part.
var cards = map[part]string{
	pays: "pm_card_visa", declinedFirst: "pm_card_visa_chargeDeclined", declinedForGood: "pm_card_visa_chargeDeclinedInsufficientFunds",
	challenged: "pm_card_threeDSecure2Required", abandonsChallenge: "pm_card_threeDSecure2Required", losesReply: "pm_usher_lost_reply",
	slowBank: "pm_usher_slow_2s",
}

const (
	holdTriesMax = 12
	orderPoll    = 400 * time.Millisecond
)

// person is one simulated buyer and what became of them.
type person struct {
	run   *run
	rng   *rand.Rand
	part  part
	token string

	admission string
	holdID    string
	seats     []string
	orderID   string
	tickets   []ticketBody

	outcome string
	err     error
}

// The ways a visit ends.
const (
	wentIn       = "went_in"
	gaveUp       = "found_nothing"
	leftSeats    = "walked_away"
	returned     = "gave_back"
	notPaid      = "not_paid"
	stillUnknown = "left_unknown"
	failed       = "failed"
)

type holdBody struct {
	HoldID string `json:"holdId"`
	Status string `json:"status"`
	Seats  []struct {
		SeatID string `json:"seatId"`
	} `json:"seats"`
}

type orderBody struct {
	OrderID       string `json:"orderId"`
	OrderStatus   string `json:"orderStatus"`
	PaymentStatus string `json:"paymentStatus"`
	NextAction    struct {
		Type string `json:"type"`
		URL  string `json:"url"`
	} `json:"nextAction"`
	CapturedAt *time.Time `json:"capturedAt"`
}

type ticketBody struct {
	TicketID string `json:"ticketId"`
	SeatID   string `json:"seatId"`
	Code     string `json:"code"`
}

// live goes from the queue to the gate.
func (p *person) live(ctx context.Context) {
	steps := []func(context.Context) (done bool, err error){p.queue, p.chooseAndHold, p.pay, p.fetchTickets, p.enter}
	for _, step := range steps {
		done, err := step(ctx)
		if err != nil {
			p.outcome, p.err = failed, err
			return
		}
		if done {
			return
		}
	}
	p.outcome = wentIn
}

func (p *person) path(format string, args ...any) string {
	return "/v1/events/" + p.run.venue.event + fmt.Sprintf(format, args...)
}

// queue joins, waits for the turn by the shared document alone, and enters.
func (p *person) queue(ctx context.Context) (bool, error) {
	if !p.run.venue.queued {
		return false, nil
	}
	began := time.Now()
	var place struct {
		Number *int64 `json:"number"`
		Status string `json:"status"`
	}
	c := p.run.client
	if _, err := c.call(ctx, http.MethodPost, p.path("/queue"), p.token, nil, struct{}{}, &place); err != nil {
		return false, fmt.Errorf("join: %w", err)
	}
	for {
		if place.Number != nil && *place.Number < p.run.serving.Load() || place.Status == "called" || place.Status == "admitted" {
			var a struct {
				AdmissionToken string `json:"admissionToken"`
			}
			_, err := c.call(ctx, http.MethodPost, p.path("/queue/admit"), p.token, nil, struct{}{}, &a)
			switch codeOf(err) {
			case "":
				if err != nil {
					return false, fmt.Errorf("admit: %w", err)
				}
				p.admission = a.AdmissionToken
				p.run.admitted(time.Since(began))
				return false, nil
			case "not_your_turn", "shop_full":
			case "turn_lapsed":
				if _, err := c.call(ctx, http.MethodPost, p.path("/queue"), p.token, nil, struct{}{}, &place); err != nil {
					return false, fmt.Errorf("join again: %w", err)
				}
			default:
				return false, fmt.Errorf("admit: %w", err)
			}
		}
		wait(ctx, 300*time.Millisecond+p.jitter(300*time.Millisecond))
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if place.Number == nil {
			if _, err := c.call(ctx, http.MethodGet, p.path("/queue/me"), p.token, nil, nil, &place); err != nil {
				return false, fmt.Errorf("place: %w", err)
			}
		}
	}
}

func (p *person) jitter(d time.Duration) time.Duration { return time.Duration(p.rng.Int64N(int64(d))) }

// chooseAndHold looks at the map and holds seats; the picture is old and the good
// seats are contested, so it may take several tries.
func (p *person) chooseAndHold(ctx context.Context) (bool, error) {
	v, n := p.run.venue, 1+p.rng.IntN(4)
	wait(ctx, p.jitter(500*time.Millisecond))
	for try := range holdTriesMax {
		if try%3 == 0 {
			if err := v.look(ctx, p.run.client, p.token, p.admission); err != nil && !p.renewed(ctx, err) {
				return false, fmt.Errorf("look at the map: %w", err)
			}
		}
		seats := v.pick(p.rng, n, try < 3 && p.rng.IntN(3) > 0)
		if seats == nil {
			n = max(1, n-1)
			continue
		}
		h, err := p.hold(ctx, seats)
		switch {
		case err == nil:
			p.holdID, p.seats = h.HoldID, seats
			return p.decide(ctx)
		case codeOf(err) == "seats_unavailable":
			p.run.conflicts.Add(1)
		case p.renewed(ctx, err):
		default:
			return false, fmt.Errorf("hold %v: %w", seats, err)
		}
	}
	p.outcome = gaveUp
	return true, nil
}

// renewed gets a fresh admission when the old one ended while the visit lives.
func (p *person) renewed(ctx context.Context, err error) bool {
	switch codeOf(err) {
	case "admission_expired", "session_ended", "admission_required", "admission_invalid":
	default:
		return false
	}
	p.admission = ""
	_, err = p.queue(ctx)
	return err == nil
}

// hold asks for seats. Some lose the answer, or press twice: they ask again with
// the same key and must get the same hold.
func (p *person) hold(ctx context.Context, seats []string) (holdBody, error) {
	p.run.holds.Add(1)
	key := fmt.Sprintf("h-%x", p.rng.Uint64())
	body := map[string]any{"seatIds": seats, "idempotencyKey": key, "admissionToken": p.admission}
	if p.admission == "" {
		delete(body, "admissionToken")
	}
	ask := func(ctx context.Context) (h holdBody, err error) {
		_, err = p.run.client.call(ctx, http.MethodPost, p.path("/holds"), p.token, nil, body, &h)
		return h, err
	}
	switch p.rng.IntN(10) {
	case 0: // the answer is lost on the way
		short, cancel := context.WithTimeout(ctx, p.jitter(8*time.Millisecond)+time.Millisecond)
		_, _ = ask(short)
		cancel()
		p.run.lostAnswers.Add(1)
	case 1: // pressed twice
		var wg sync.WaitGroup
		var other holdBody
		var otherErr error
		wg.Go(func() { other, otherErr = ask(ctx) })
		h, err := ask(ctx)
		wg.Wait()
		if err == nil && otherErr == nil && h.HoldID != other.HoldID {
			return h, fmt.Errorf("one key gave two holds: %s and %s", h.HoldID, other.HoldID)
		}
		if (err == nil) != (otherErr == nil) {
			return h, fmt.Errorf("one key was answered two ways: %w, %w", err, otherErr)
		}
		return h, err
	}
	return ask(ctx)
}

// decide is the moment before paying at which some leave.
func (p *person) decide(ctx context.Context) (bool, error) {
	wait(ctx, p.jitter(time.Second))
	switch p.part {
	case walksAway:
		p.outcome = leftSeats
		return true, nil
	case givesBack:
		if _, err := p.run.client.call(ctx, http.MethodDelete, "/v1/holds/"+p.holdID, p.token, nil, nil, nil); err != nil {
			return false, fmt.Errorf("release: %w", err)
		}
		p.outcome = returned
		return true, nil
	}
	return false, nil
}

// pay checks out, passes challenges, tries another card after a decline, and
// waits until the order says how it ended.
func (p *person) pay(ctx context.Context) (bool, error) {
	card, attempt := cards[p.part], 1
	o, err := p.checkOut(ctx, card, attempt)
	if err != nil {
		return false, err
	}
	p.orderID = o.OrderID
	p.run.orders.Add(1)
	deadline := time.Now().Add(p.run.cfg.Settle)
	for {
		switch {
		case o.OrderStatus == "confirmed":
			return false, nil
		case o.OrderStatus == "voided" || o.OrderStatus == "lapsed" || o.OrderStatus == "cancelled":
			p.outcome = notPaid
			return true, nil
		case o.OrderStatus == "declined" && p.part == declinedFirst && attempt == 1:
			attempt++
			if o, err = p.checkOut(ctx, cards[pays], attempt); err != nil {
				return p.lateDecline(err)
			}
			continue
		case o.OrderStatus == "declined":
			p.outcome = notPaid
			return true, nil
		case o.NextAction.Type == "redirect" && p.part == abandonsChallenge:
			p.outcome = notPaid
			return true, nil
		case o.NextAction.Type == "redirect":
			if err := p.passChallenge(ctx, o.NextAction.URL); err != nil {
				return false, err
			}
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			p.outcome = stillUnknown
			return true, nil
		}
		wait(ctx, orderPoll+p.jitter(orderPoll))
		if _, err = p.run.client.call(ctx, http.MethodGet, "/v1/orders/"+p.orderID, p.token, nil, nil, &o); err != nil {
			return false, fmt.Errorf("order: %w", err)
		}
	}
}

// lateDecline is the second attempt that came too late: an honest refusal.
func (p *person) lateDecline(err error) (bool, error) {
	switch codeOf(err) {
	case "hold_expired", "too_late_to_pay", "hold_ended":
		p.outcome = notPaid
		return true, nil
	}
	return false, err
}

func (p *person) checkOut(ctx context.Context, card string, attempt int) (o orderBody, err error) {
	body := map[string]any{"paymentMethodToken": card, "idempotencyKey": fmt.Sprintf("c-%s-%d", p.holdID, attempt)}
	ask := func(ctx context.Context) error {
		_, err := p.run.client.call(ctx, http.MethodPost, "/v1/holds/"+p.holdID+"/checkout", p.token, nil, body, &o)
		return err
	}
	if p.rng.IntN(8) == 0 { // the answer is lost on the way
		short, cancel := context.WithTimeout(ctx, p.jitter(30*time.Millisecond)+time.Millisecond)
		_ = ask(short)
		cancel()
		p.run.lostAnswers.Add(1)
	}
	if err := ask(ctx); err != nil {
		if codeOf(err) == "pending_limit" {
			return o, fmt.Errorf("check out: a first payment met the pending limit: %w", err)
		}
		return o, fmt.Errorf("check out: %w", err)
	}
	return o, nil
}

// passChallenge presses "approve" on the bank's page and comes back.
func (p *person) passChallenge(ctx context.Context, page string) error {
	form := url.Values{"decision": {"approve"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, page, strings.NewReader(form.Encode()))
	if err != nil {
		return fmt.Errorf("challenge: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := p.run.bank.Do(req)
	if err != nil {
		return fmt.Errorf("challenge: %w", err)
	}
	res.Body.Close()
	_, err = p.run.client.call(ctx, http.MethodPost, "/v1/orders/"+p.orderID+"/return", p.token, nil, struct{}{}, nil)
	if err != nil {
		return fmt.Errorf("return from the challenge: %w", err)
	}
	return nil
}

// fetchTickets waits until every paid place has its ticket.
func (p *person) fetchTickets(ctx context.Context) (bool, error) {
	deadline := time.Now().Add(p.run.cfg.Settle)
	for {
		var out struct {
			Tickets []ticketBody `json:"tickets"`
		}
		if _, err := p.run.client.call(ctx, http.MethodGet, "/v1/orders/"+p.orderID+"/tickets", p.token, nil, nil, &out); err != nil {
			return false, fmt.Errorf("tickets: %w", err)
		}
		if p.tickets = out.Tickets; len(p.tickets) >= len(p.seats) {
			return false, p.checkTickets()
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return false, fmt.Errorf("paid for %d places, %d tickets after %v", len(p.seats), len(p.tickets), p.run.cfg.Settle)
		}
		wait(ctx, orderPoll)
	}
}

func (p *person) checkTickets() error {
	want := map[string]bool{}
	for _, s := range p.seats {
		want[s] = true
	}
	for _, t := range p.tickets {
		if !want[t.SeatID] {
			return fmt.Errorf("a ticket for %s, paid for %v", t.SeatID, p.seats)
		}
		delete(want, t.SeatID)
	}
	if len(want) > 0 {
		return fmt.Errorf("no ticket for %v", want)
	}
	return p.run.own(p)
}

// enter goes through the gate with each ticket, and tries one of them twice.
func (p *person) enter(ctx context.Context) (bool, error) {
	for i, t := range p.tickets {
		if err := p.scan(ctx, t, fmt.Sprintf("tx-%s-%d", p.orderID, i)); err != nil {
			return false, err
		}
		p.run.entered.Add(1)
	}
	_, err := p.claim(ctx, p.tickets[0].Code, "second-"+p.orderID)
	if code := codeOf(err); code != "code_used" {
		return false, fmt.Errorf("a second scan was answered %q (%w)", code, err)
	}
	p.run.secondScans.Add(1)
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
	_, err := p.run.client.call(ctx, http.MethodPost, "/v1/redemptions", p.run.device, nil, map[string]any{"code": code, "transactionId": tx}, &out)
	return out.RedemptionID, err
}
