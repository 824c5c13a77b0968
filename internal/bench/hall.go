package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// hall says what an event for a measurement over HTTP is like.
type hall struct {
	seats int
	// holdFor is in whole seconds.
	holdFor time.Duration
}

// createEvent makes an event of its own for the measurement, on sale, with a room
// that admits everybody at once.
func (c *caller) createEvent(ctx context.Context, admin string, h hall) (string, error) {
	var created struct {
		Event struct {
			EventID string `json:"eventId"`
		} `json:"event"`
	}
	err := c.must(ctx, http.MethodPost, "/v1/admin/events", admin, map[string]any{
		"slug": fmt.Sprintf("bench-%d", time.Now().UnixNano()), "name": "Benchmark", "venue": "Bench", "startsAt": "2099-01-01T00:00:00Z",
		"timeZone": "UTC", "currency": "TWD", "ratePerSecond": 100000, "activeMax": 1000000,
		"rules": map[string]any{
			"holdSeconds": int(h.holdFor.Seconds()), "purchaseLimit": 1000, "payMarginSeconds": 0, "pendingPerAccountMax": 1000,
			"pendingPerEventMax": 1000000,
		},
	}, &created)
	if err != nil {
		return "", err
	}
	event := created.Event.EventID
	var chart bytes.Buffer
	chart.WriteString("seat_id,section,row,number,tier,x,y\n")
	for i := range h.seats {
		fmt.Fprintf(&chart, "%s,S%d,R%d,%d,%s,%d,%d\n", benchSeat(i), i/10000, i/100%100, i%100+1, benchTier, i%100, i/100)
	}
	base := "/v1/admin/events/" + event
	_, err = c.want(ctx, call{method: http.MethodPut, path: base + "/chart?name=bench", token: admin, media: "text/csv", body: chart.Bytes()}, nil)
	if err == nil {
		err = c.must(ctx, http.MethodPut, base+"/prices", admin, map[string]any{"prices": map[string]int{benchTier: 100000}}, nil)
	}
	for _, step := range []string{"/publish", "/open"} {
		if err == nil {
			err = c.must(ctx, http.MethodPost, base+step, admin, struct{}{}, nil)
		}
	}
	return event, err
}

// buyer is an account inside the shop.
type buyer struct {
	token, admission string
}

// mint makes accounts and returns their tokens.
func (c *caller) mint(ctx context.Context, admin string, n int) ([]string, error) {
	var minted struct {
		Buyers []struct {
			Token string `json:"token"`
		} `json:"buyers"`
	}
	if err := c.must(ctx, http.MethodPost, "/v1/admin/buyer-sessions", admin, map[string]any{"count": n}, &minted); err != nil {
		return nil, err
	}
	out := make([]string, len(minted.Buyers))
	for i, b := range minted.Buyers {
		out[i] = b.Token
	}
	return out, nil
}

// admitBuyers mints accounts and brings each into the shop.
func (c *caller) admitBuyers(ctx context.Context, admin, event string, n int) ([]buyer, error) {
	tokens, err := c.mint(ctx, admin, n)
	if err != nil {
		return nil, err
	}
	out := make([]buyer, len(tokens))
	return out, together(len(tokens), 64, func(i int) error {
		admission, err := c.admit(ctx, event, tokens[i])
		out[i] = buyer{tokens[i], admission}
		return err
	})
}

// together runs do(0) to do(n-1), at most slots at once, and returns a failure if
// there was one.
func together(n, slots int, do func(i int) error) error {
	var wg sync.WaitGroup
	var failure atomic.Pointer[error]
	free := make(chan struct{}, slots)
	for i := range n {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			if err := do(i); err != nil {
				failure.CompareAndSwap(nil, &err)
			}
		})
	}
	wg.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	return nil
}

// admit joins the queue and enters as soon as the turn comes.
func (c *caller) admit(ctx context.Context, event, token string) (string, error) {
	if err := c.join(ctx, event, token); err != nil {
		return "", err
	}
	for {
		var a struct {
			AdmissionToken string `json:"admissionToken"`
		}
		q := call{method: http.MethodPost, path: "/v1/events/" + event + "/queue/admit", token: token, body: []byte("{}")}
		status, err := c.want(ctx, q, &a, http.StatusOK, http.StatusConflict, http.StatusServiceUnavailable)
		if err != nil || status == http.StatusOK {
			return a.AdmissionToken, err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return "", err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// finish ends the event's sale, which nobody else is to meet, has its invariants
// checked, and returns how many are violated.
func (c *caller) finish(ctx context.Context, admin, event string) (int, error) {
	if err := c.must(ctx, http.MethodPost, "/v1/admin/events/"+event+"/close", admin, struct{}{}, nil); err != nil {
		return 0, fmt.Errorf("end sale: %w", err)
	}
	var report struct {
		Violations int `json:"violations"`
	}
	err := c.must(ctx, http.MethodPost, "/v1/admin/audit", admin, map[string]any{"eventIds": []string{event}}, &report)
	if err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	return report.Violations, nil
}
