package crowd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
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
	scene *scene
	venue *venue
	rng   *rand.Rand
	part  part
	token string

	admission string
	holdID    string
	// seats and items are what the hold has.
	seats   []string
	items   []item
	orderID string
	tickets []ticketBody

	outcome string
	err     error
}

// The ways a visit ends.
const (
	wentIn       = "went_in"
	hasTickets   = "has_tickets"
	gaveUp       = "found_nothing"
	leftSeats    = "walked_away"
	returned     = "gave_back"
	notPaid      = "not_paid"
	stillUnknown = "left_unknown"
	turnedAway   = "turned_away"
	failed       = "failed"
)

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
	return "/v1/events/" + p.venue.event + fmt.Sprintf(format, args...)
}

// queue joins, waits for the turn by the shared document alone, and enters.
func (p *person) queue(ctx context.Context) (bool, error) {
	if !p.venue.queued {
		return false, nil
	}
	began := time.Now()
	p.scene.waiting.Add(1)
	defer p.scene.waiting.Add(-1)
	var place struct {
		Number *int64 `json:"number"`
		Status string `json:"status"`
	}
	c := p.scene.client
	if _, err := c.call(ctx, http.MethodPost, p.path("/queue"), p.token, nil, struct{}{}, &place); err != nil {
		return false, fmt.Errorf("join: %w", err)
	}
	for {
		if place.Number != nil && *place.Number < p.venue.serving.Load() || place.Status == "called" || place.Status == "admitted" {
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
				p.scene.admitted(time.Since(began))
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

// pause takes the time that people take for something.
func (p *person) pause(ctx context.Context, s span) { wait(ctx, s.draw(p.rng)) }

// chooseAndHold looks at what is free and holds places; the picture is old and the
// good ones are contested, so it may take several tries.
func (p *person) chooseAndHold(ctx context.Context) (bool, error) {
	v := p.venue
	after, n, ok := drawTaste(p.rng, v)
	if !ok {
		p.outcome = gaveUp
		return true, nil
	}
	p.pause(ctx, p.scene.pace.look)
	for try := range holdTriesMax {
		if try%3 == 0 {
			if err := v.look(ctx, p.scene.client, p.token, p.admission); err != nil && !p.renewed(ctx, err) {
				return false, fmt.Errorf("look at what is free: %w", err)
			}
		}
		w, ok := v.wishFor(p.rng, after, n, try < 3 && p.rng.IntN(3) > 0)
		if !ok {
			after, n = fewer(after, n)
			continue
		}
		h, err := p.hold(ctx, w)
		switch {
		case err == nil:
			p.holdID, p.seats, p.items = h.HoldID, h.seatIDs(), h.Items
			v.took(&h)
			if err := w.grantedBy(&h); err != nil {
				return false, err
			}
			return p.decide(ctx)
		case codeOf(err) == "seats_unavailable":
			p.scene.conflicts.Add(1)
			p.pause(ctx, p.scene.pace.again)
			if try%3 == 2 {
				after, n = fewer(after, n)
			}
		case p.renewed(ctx, err):
		default:
			return false, fmt.Errorf("hold %+v: %w", w, err)
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

// hold asks for places. Some lose the answer, or press twice: they ask again with
// the same key and must get the same hold.
func (p *person) hold(ctx context.Context, w wish) (holdBody, error) {
	p.scene.holds.Add(1)
	body := w.body()
	body["idempotencyKey"] = fmt.Sprintf("h-%x", p.rng.Uint64())
	if p.admission != "" {
		body["admissionToken"] = p.admission
	}
	ask := func(ctx context.Context) (h holdBody, err error) {
		_, err = p.scene.client.call(ctx, http.MethodPost, p.path("/holds"), p.token, nil, body, &h)
		return h, err
	}
	switch p.rng.IntN(10) {
	case 0: // the answer is lost on the way
		short, cancel := context.WithTimeout(ctx, p.jitter(8*time.Millisecond)+time.Millisecond)
		_, _ = ask(short)
		cancel()
		p.scene.lostAnswers.Add(1)
	case 1:
		return pressTwice(ctx, w, ask)
	}
	return ask(ctx)
}

// pressTwice asks twice at once. Named places are decided once and for all. "No
// best seats just now" is no decision: the other request may find some, and then
// that is what the key stands for.
func pressTwice(ctx context.Context, w wish, ask func(context.Context) (holdBody, error)) (holdBody, error) {
	var wg sync.WaitGroup
	var other holdBody
	var otherErr error
	wg.Go(func() { other, otherErr = ask(ctx) })
	h, err := ask(ctx)
	wg.Wait()
	switch {
	case err == nil && otherErr == nil && h.HoldID != other.HoldID:
		return h, fmt.Errorf("one key gave two holds: %s and %s", h.HoldID, other.HoldID)
	case (err == nil) == (otherErr == nil):
		return h, err
	case w.best == 0:
		return h, fmt.Errorf("one key was answered two ways: %w, %w", err, otherErr)
	}
	return ask(ctx)
}

// decide is the moment before paying at which some leave.
func (p *person) decide(ctx context.Context) (bool, error) {
	p.pause(ctx, p.scene.pace.decide)
	switch p.part {
	case walksAway:
		p.outcome = leftSeats
		return true, nil
	case givesBack:
		if _, err := p.scene.client.call(ctx, http.MethodDelete, "/v1/holds/"+p.holdID, p.token, nil, nil, nil); err != nil {
			return false, fmt.Errorf("release: %w", err)
		}
		p.outcome = returned
		return true, nil
	}
	return false, nil
}
