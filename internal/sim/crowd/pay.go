package crowd

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

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

// pay checks out, passes challenges, tries another card after a decline, and
// waits until the order says how it ended.
func (p *person) pay(ctx context.Context) (bool, error) {
	card, attempt := cards[p.part], 1
	o, err := p.checkOut(ctx, card, attempt)
	if err != nil {
		return false, err
	}
	p.orderID = o.OrderID
	p.scene.orders.Add(1)
	deadline := time.Now().Add(p.scene.settle)
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
			p.pause(ctx, p.scene.pace.challenge)
			if err := p.passChallenge(ctx, o.NextAction.URL); err != nil {
				return false, err
			}
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			p.outcome = stillUnknown
			return true, nil
		}
		wait(ctx, orderPoll+p.jitter(orderPoll))
		if _, err = p.scene.client.call(ctx, http.MethodGet, "/v1/orders/"+p.orderID, p.token, nil, nil, &o); err != nil {
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
		_, err := p.scene.client.call(ctx, http.MethodPost, "/v1/holds/"+p.holdID+"/checkout", p.token, nil, body, &o)
		return err
	}
	if p.rng.IntN(8) == 0 { // the answer is lost on the way
		short, cancel := context.WithTimeout(ctx, p.jitter(30*time.Millisecond)+time.Millisecond)
		_ = ask(short)
		cancel()
		p.scene.lostAnswers.Add(1)
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
	res, err := p.scene.bank.Do(req)
	if err != nil {
		return fmt.Errorf("challenge: %w", err)
	}
	res.Body.Close()
	_, err = p.scene.client.call(ctx, http.MethodPost, "/v1/orders/"+p.orderID+"/return", p.token, nil, struct{}{}, nil)
	if err != nil {
		return fmt.Errorf("return from the challenge: %w", err)
	}
	return nil
}
