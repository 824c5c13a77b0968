package paysim

import (
	"bytes"
	"container/heap"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Limits on webhook delivery. The provider retries for three days.
const (
	hookWorkers  = 8
	hookTimeout  = 10 * time.Second
	hookPauseMax = time.Minute
	hookGiveUp   = 3 * 24 * time.Hour
	holdMax      = 10 * time.Second
)

// delivery is one event on its way to the endpoint.
type delivery struct {
	event    *event
	due      time.Time
	since    time.Time
	failures int
	// copies is how many more times it is sent after a success.
	copies int
	// holdFor names the intent whose next delivery lets it go before it is due.
	holdFor string
}

// deliverer sends events at least once: what is not acknowledged stays queued,
// and is queued again from the ledger after a restart.
type deliverer struct {
	s      *server
	client *http.Client
	wake   chan struct{}
	ready  chan *delivery

	mu    sync.Mutex
	queue deliveryQueue
	held  int
}

func newDeliverer(s *server) *deliverer {
	return &deliverer{s: s, wake: make(chan struct{}, 1), ready: make(chan *delivery), client: &http.Client{
		Timeout:       hookTimeout,
		Transport:     &http.Transport{MaxIdleConnsPerHost: hookWorkers * 2, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// run delivers until ctx ends.
func (d *deliverer) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range hookWorkers {
		workers.Go(func() {
			for v := range d.ready {
				d.attempt(ctx, v)
			}
		})
	}
	for {
		v, wait := d.next(time.Now())
		if v == nil {
			if !d.sleep(ctx, wait) {
				break
			}
			continue
		}
		select {
		case d.ready <- v:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(d.ready)
	workers.Wait()
	d.client.CloseIdleConnections()
}

// next takes the first due delivery, or tells how long there is none.
func (d *deliverer) next(now time.Time) (*delivery, time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		return nil, time.Hour
	}
	if wait := d.queue[0].due.Sub(now); wait > 0 {
		return nil, wait
	}
	v := heap.Pop(&d.queue).(*delivery)
	if v.holdFor != "" {
		d.held--
		v.holdFor = ""
	}
	return v, 0
}

// sleep waits for time or work and reports whether to go on.
func (d *deliverer) sleep(ctx context.Context, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	case <-d.wake:
	}
	return true
}

// enqueue sends events now. The caller has made them durable.
func (d *deliverer) enqueue(events ...*event) {
	now := time.Now()
	for _, e := range events {
		d.put(&delivery{event: e, due: now, since: now})
	}
}

func (d *deliverer) put(v *delivery) {
	d.mu.Lock()
	heap.Push(&d.queue, v)
	if v.holdFor != "" {
		d.held++
	}
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// attempt sends one delivery once and queues it again if that is not the end of it.
func (d *deliverer) attempt(ctx context.Context, v *delivery) {
	ok := d.send(ctx, v.event)
	if ctx.Err() != nil && !ok {
		return
	}
	switch {
	case ok && v.copies > 0:
		v.copies--
		v.due = time.Now()
		d.put(v)
	case ok:
		d.s.acknowledge(v.event)
	case time.Since(v.since) < hookGiveUp:
		v.due = time.Now().Add(min(d.s.cfg.WebhookRetry<<min(v.failures, 16), hookPauseMax))
		v.failures++
		d.put(v)
	}
	d.release(v.event.intent)
}

// release lets go what was held back until this intent's next delivery.
func (d *deliverer) release(p *intent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held == 0 || p == nil {
		return
	}
	for _, v := range d.queue {
		if v.holdFor == p.ID {
			v.holdFor, v.due = "", time.Now()
			d.held--
		}
	}
	heap.Init(&d.queue)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// send posts one event, signed now, and reports whether it was acknowledged.
func (d *deliverer) send(ctx context.Context, e *event) bool {
	d.s.mu.Lock()
	e.attempts++
	w := d.s.render.event(e)
	d.s.mu.Unlock()
	body := mustJSON(w)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.s.cfg.WebhookURL, bytes.NewReader(body))
	if err != nil {
		d.s.cfg.Logger.Error("webhook address is not usable", "err", err)
		return false
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "Stripe/1.0 (usher paysim)")
	req.Header.Set("Stripe-Signature", sign(body, d.s.cfg.WebhookSecret, time.Now()))
	res, err := d.client.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, bodyMax))
	_ = res.Body.Close()
	return res.StatusCode >= 200 && res.StatusCode < 300
}

// sign makes the signature header over the raw body.
func sign(body []byte, secret string, at time.Time) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(t + "."))
	_, _ = mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// acknowledge notes that the endpoint has the event. The note may be lost in a
// crash: then the event is sent once more.
func (s *server) acknowledge(e *event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := &record{Seq: s.store.seq, Delivered: e.ID}
	s.journal.append(mustJSON(rec))
	s.store.apply(rec)
}

// publish hands durable events to the deliverer, through the webhook faults.
func (s *server) publish(events []*event) {
	for _, e := range events {
		if !e.Wanted {
			continue
		}
		v := &delivery{event: e, due: time.Now(), since: time.Now()}
		f := fault{}
		if !s.faults.empty() {
			sub := subject{event: e.Type}
			sub.of(e.intent)
			f = s.faults.pick(sub, hookActions)
		}
		switch f.Action {
		case actionHookDrop:
			s.acknowledge(e)
			continue
		case actionHookDuplicate:
			v.copies = max(f.Times, 2) - 1
		case actionHookDelay:
			v.due = v.due.Add(f.delay(time.Second))
		case actionHookReorder:
			v.due, v.holdFor = v.due.Add(f.delay(holdMax)), e.intent.ID
		case actionHookBeforeAnswer:
			s.hooks.attempt(context.Background(), v)
			continue
		}
		s.hooks.put(v)
	}
}

// deliveryQueue is a heap by due time.
type deliveryQueue []*delivery

// Len implements heap.Interface.
func (q deliveryQueue) Len() int { return len(q) }

// Less implements heap.Interface.
func (q deliveryQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

// Swap implements heap.Interface.
func (q deliveryQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *deliveryQueue) Push(x any) { *q = append(*q, x.(*delivery)) }

// Pop implements heap.Interface.
func (q *deliveryQueue) Pop() any {
	old := *q
	v := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return v
}
