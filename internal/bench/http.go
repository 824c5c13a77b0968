package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"usher"
)

// Target is a running usher to measure. Its per-caller limits must be off: every
// request comes from one address.
type Target struct {
	URL        string `json:"url"`
	AdminToken string `json:"adminToken"`
}

// HTTPConfig says what to offer.
type HTTPConfig struct {
	HoldsConfig
	// Rate is the holds offered per second, conflicts included.
	Rate float64
	// Buyers is how many accounts ask in turn.
	Buyers int
}

// inFlightMax bounds the generator: what would wait longer counts as an error.
const inFlightMax = 4000

// HoldsHTTP offers holds to a server at a fixed rate, whatever it answers, and
// fills in the HTTP figures. Latency counts from the moment a request was due.
func HoldsHTTP(ctx context.Context, t Target, cfg HTTPConfig, res *HoldsResult) error {
	c := newCaller(t.URL)
	event, err := c.createEvent(ctx, t.AdminToken, cfg)
	if err != nil {
		return fmt.Errorf("set up event: %w", err)
	}
	buyers, err := c.admitBuyers(ctx, t.AdminToken, event, cfg.Buyers)
	if err != nil {
		return fmt.Errorf("admit buyers: %w", err)
	}
	m := newMeasurement()
	var failed atomic.Int64
	if first := c.offer(ctx, cfg, m, &failed, event, buyers); first != nil {
		res.HTTPFirstError = first.Error()
	}
	res.HTTPAcceptedPerSecond, res.HTTPOfferedPerSecond = m.acceptedPerSecond(), cfg.Rate
	res.HTTPP50Ms, res.HTTPP99Ms, res.HTTPErrors = m.latency.ms(50), m.latency.ms(99), failed.Load()
	res.HTTPConflictShare = m.conflictShare()
	return nil
}

// offer is the open loop: a clock starts requests, answers start nothing. It
// returns the first failure, for a person to see what went wrong.
func (c *caller) offer(ctx context.Context, cfg HTTPConfig, m *measurement, failed *atomic.Int64, event string, buyers []buyer) (first error) {
	ctx, cancel := context.WithTimeout(ctx, warmUp+time.Duration(cfg.Seconds*float64(time.Second)))
	defer cancel()
	p, rng := newPicker(cfg.Seats, cfg.SeatsPerHold, cfg.ConflictShare), rand.New(rand.NewPCG(1, 2))
	m.startAfter(ctx, warmUp)
	began := time.Now()
	var wg sync.WaitGroup
	var inFlight atomic.Int64
	var failure atomic.Pointer[error]
	sent := 0
	every(ctx, time.Millisecond, func() {
		for due := int(time.Since(began).Seconds() * cfg.Rate); sent < due; sent++ {
			intended := began.Add(time.Duration(float64(sent) / cfg.Rate * float64(time.Second)))
			seats, group := p.pick(rng)
			b := &buyers[sent%len(buyers)]
			if inFlight.Add(1) > inFlightMax {
				inFlight.Add(-1)
				failed.Add(1)
				p.done(group, false)
				continue
			}
			key := fmt.Sprint("b", sent)
			wg.Go(func() {
				defer inFlight.Add(-1)
				ok, err := c.hold(context.WithoutCancel(ctx), event, b, seats, key)
				p.done(group, ok)
				if err != nil {
					failed.Add(1)
					failure.CompareAndSwap(nil, &err)
					return
				}
				m.add(time.Since(intended), ok)
			})
		}
	})
	m.stop()
	wg.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	return nil
}

type caller struct {
	base string
	http *http.Client
}

func newCaller(base string) *caller {
	t := &http.Transport{MaxIdleConns: inFlightMax, MaxIdleConnsPerHost: inFlightMax, DisableCompression: true}
	return &caller{strings.TrimSuffix(base, "/"), &http.Client{Transport: t, Timeout: 30 * time.Second}}
}

// send sends a body and decodes a 2xx answer. The status comes back with every
// answer; err is for no answer at all.
func (c *caller) send(ctx context.Context, method, path, token, media string, body []byte, out any) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header["Authorization"] = []string{"Bearer " + token}
	req.Header["Content-Type"] = []string{media}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if out == nil || res.StatusCode >= 300 {
		_, err = io.Copy(io.Discard, res.Body)
		return res.StatusCode, err
	}
	return res.StatusCode, json.NewDecoder(res.Body).Decode(out)
}

const jsonMedia = "application/json"

// must sends JSON and wants a 2xx answer.
func (c *caller) must(ctx context.Context, method, path, token string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.mustSend(ctx, method, path, token, jsonMedia, body, out)
}

func (c *caller) mustSend(ctx context.Context, method, path, token, media string, body []byte, out any) error {
	status, err := c.send(ctx, method, path, token, media, body, out)
	if err == nil && status >= 300 {
		err = fmt.Errorf("%s %s was answered %d", method, path, status)
	}
	return err
}

// hold asks for seats; a conflict is an answer, anything else but a hold a failure.
func (c *caller) hold(ctx context.Context, event string, b *buyer, seats []usher.SeatID, key string) (bool, error) {
	body, err := json.Marshal(map[string]any{"seatIds": seats, "idempotencyKey": key, "admissionToken": b.admission})
	if err != nil {
		return false, err
	}
	status, err := c.send(ctx, http.MethodPost, "/v1/events/"+event+"/holds", b.token, jsonMedia, body, nil)
	switch {
	case err != nil:
		return false, err
	case status == http.StatusCreated:
		return true, nil
	case status == http.StatusConflict:
		return false, nil
	}
	return false, fmt.Errorf("hold was answered %d", status)
}

// createEvent makes an event of its own for the measurement, on sale, with a
// short hold time and a room that admits everybody at once.
func (c *caller) createEvent(ctx context.Context, admin string, cfg HTTPConfig) (string, error) {
	var created struct {
		Event struct {
			EventID string `json:"eventId"`
		} `json:"event"`
	}
	err := c.must(ctx, http.MethodPost, "/v1/admin/events", admin, map[string]any{
		"slug": fmt.Sprintf("bench-%d", time.Now().UnixNano()), "name": "Benchmark", "venue": "Bench", "startsAt": "2099-01-01T00:00:00Z",
		"timeZone": "UTC", "currency": "TWD", "ratePerSecond": 100000, "activeMax": 1000000,
		"rules": map[string]any{"holdSeconds": int(holdTime.Seconds()), "purchaseLimit": 1000, "payMarginSeconds": 0},
	}, &created)
	if err != nil {
		return "", err
	}
	event := created.Event.EventID
	var chart bytes.Buffer
	chart.WriteString("seat_id,section,row,number,tier,x,y\n")
	for i := range cfg.Seats {
		fmt.Fprintf(&chart, "%s,S%d,R%d,%d,%s,%d,%d\n", benchSeat(i), i/10000, i/100%100, i%100+1, benchTier, i%100, i/100)
	}
	steps := []func() error{
		func() error {
			return c.mustSend(ctx, http.MethodPut, "/v1/admin/events/"+event+"/chart?name=bench", admin, "text/csv", chart.Bytes(), nil)
		},
		func() error {
			prices := map[string]any{"prices": map[string]int{benchTier: 100000}}
			return c.must(ctx, http.MethodPut, "/v1/admin/events/"+event+"/prices", admin, prices, nil)
		},
		func() error {
			return c.must(ctx, http.MethodPost, "/v1/admin/events/"+event+"/publish", admin, struct{}{}, nil)
		},
		func() error {
			return c.must(ctx, http.MethodPost, "/v1/admin/events/"+event+"/open", admin, struct{}{}, nil)
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return "", err
		}
	}
	return event, nil
}

type buyer struct {
	token, admission string
}

// admitBuyers mints accounts and brings each into the shop.
func (c *caller) admitBuyers(ctx context.Context, admin, event string, n int) ([]buyer, error) {
	var minted struct {
		Buyers []struct {
			Token string `json:"token"`
		} `json:"buyers"`
	}
	if err := c.must(ctx, http.MethodPost, "/v1/admin/buyer-sessions", admin, map[string]any{"count": n}, &minted); err != nil {
		return nil, err
	}
	out := make([]buyer, len(minted.Buyers))
	var wg sync.WaitGroup
	var failure atomic.Pointer[error]
	slots := make(chan struct{}, 64)
	for i, b := range minted.Buyers {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			admission, err := c.admit(ctx, event, b.Token)
			if err != nil {
				failure.CompareAndSwap(nil, &err)
			}
			out[i] = buyer{b.Token, admission}
		})
	}
	wg.Wait()
	if err := failure.Load(); err != nil {
		return nil, *err
	}
	return out, nil
}

// admit joins the queue and enters as soon as the turn comes.
func (c *caller) admit(ctx context.Context, event, token string) (string, error) {
	if err := c.must(ctx, http.MethodPost, "/v1/events/"+event+"/queue", token, struct{}{}, nil); err != nil {
		return "", err
	}
	for {
		var a struct {
			AdmissionToken string `json:"admissionToken"`
		}
		status, err := c.send(ctx, http.MethodPost, "/v1/events/"+event+"/queue/admit", token, jsonMedia, []byte("{}"), &a)
		switch {
		case err != nil:
			return "", err
		case status < 300:
			return a.AdmissionToken, nil
		case status != http.StatusConflict && status != http.StatusTooManyRequests && status != http.StatusForbidden && status != http.StatusServiceUnavailable:
			return "", fmt.Errorf("admit was answered %d", status)
		}
		t := time.NewTimer(200 * time.Millisecond)
		select {
		case <-ctx.Done():
			t.Stop()
			return "", ctx.Err()
		case <-t.C:
		}
	}
}
