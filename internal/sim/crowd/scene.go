package crowd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

// scene is what people share, whether they rehearse a sale or live in a demo: the
// way to usher and to the bank, their pace, and the counts of what they did.
type scene struct {
	client *client
	bank   *http.Client
	pace   pace
	// adminToken is an operator's: it mints people.
	adminToken string
	// settle is how long an order may stay undecided.
	settle time.Duration

	// waiting are in a line now.
	waiting                                                     atomic.Int64
	holds, conflicts, orders, lostAnswers, entered, secondScans atomic.Int64

	// admitted hears how long somebody stood in line, and bought sees who has all
	// tickets; its error is a promise that was broken.
	admitted func(waited time.Duration)
	bought   func(p *person) error
}

func newScene(url, adminToken string, patience, settle time.Duration, pace pace) *scene {
	return &scene{
		client: newClient(url, patience), adminToken: adminToken, settle: settle, pace: pace,
		bank: &http.Client{Timeout: callTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// admin makes a call as an operator.
func (s *scene) admin(ctx context.Context, method, path string, in, out any) error {
	_, err := s.client.call(ctx, method, path, s.adminToken, nil, in, out)
	return err
}

// mint makes new people and returns their sessions.
func (s *scene) mint(ctx context.Context, count int) ([]string, error) {
	var out struct {
		Buyers []struct {
			Token string `json:"token"`
		} `json:"buyers"`
	}
	if err := s.admin(ctx, http.MethodPost, "/v1/admin/buyer-sessions", map[string]any{"count": count}, &out); err != nil {
		return nil, fmt.Errorf("mint buyers: %w", err)
	}
	if len(out.Buyers) != count {
		return nil, fmt.Errorf("asked for %d buyers, got %d", count, len(out.Buyers))
	}
	tokens := make([]string, count)
	for i, b := range out.Buyers {
		tokens[i] = b.Token
	}
	return tokens, nil
}

// listEvents returns every published event.
func (s *scene) listEvents(ctx context.Context) ([]eventBody, error) {
	var list struct {
		Events []eventBody `json:"events"`
	}
	if _, err := s.client.call(ctx, http.MethodGet, "/v1/events", "", nil, nil, &list); err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return list.Events, nil
}

// watchQueue reads an event's shared document once a second for everybody, as a
// cache in front of usher would.
func (s *scene) watchQueue(ctx context.Context, v *venue) {
	for ctx.Err() == nil {
		var now struct {
			Serving int64 `json:"serving"`
		}
		if _, err := s.client.call(ctx, http.MethodGet, "/v1/events/"+v.event+"/queue/now", "", nil, nil, &now); err == nil {
			v.serving.Store(now.Serving)
		}
		wait(ctx, time.Second)
	}
}

// span is a time that is drawn anew for each person.
type span struct{ least, most time.Duration }

func (s span) draw(rng *rand.Rand) time.Duration {
	if s.most <= s.least {
		return s.least
	}
	return s.least + time.Duration(rng.Int64N(int64(s.most-s.least)))
}

// pace is how long people take.
type pace struct {
	// look is for the map, again for looking for other places after a conflict,
	// decide for making up one's mind before paying, challenge for the bank's page.
	look, again, decide, challenge span
	// rest is how long it takes until a new person comes in the place of one who left.
	rest span
}

var (
	// hurried people fill a rehearsal: the server is watched, not they.
	hurried = pace{look: span{0, 500 * time.Millisecond}, decide: span{0, time.Second}}
	// human people are watched.
	human = pace{
		look: span{4 * time.Second, 16 * time.Second}, again: span{2 * time.Second, 6 * time.Second},
		decide: span{6 * time.Second, 24 * time.Second}, challenge: span{3 * time.Second, 10 * time.Second},
		rest: span{5 * time.Second, 25 * time.Second},
	}
)

// visitSeconds is about how long a person at human pace takes, from the shop's
// door until the next one comes.
const visitSeconds = 60

// faster returns the pace at so many times the speed.
func (p pace) faster(speed float64) pace {
	quick := func(s span) span {
		return span{time.Duration(float64(s.least) / speed), time.Duration(float64(s.most) / speed)}
	}
	return pace{look: quick(p.look), again: quick(p.again), decide: quick(p.decide), challenge: quick(p.challenge), rest: quick(p.rest)}
}
