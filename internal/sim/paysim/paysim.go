package paysim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

// Config says how a simulator runs. Only Addr and DataDir are needed.
type Config struct {
	// Addr is where it listens, for example "127.0.0.1:0".
	Addr string
	// DataDir holds its ledger; it is created if missing. One process at a time.
	DataDir string
	// PublicURL is the origin that a buyer's browser reaches the challenge page at;
	// "http://" and the listening address if empty.
	PublicURL string
	// SecretKey is the API key it accepts; SecretKeyDefault if empty.
	SecretKey string
	// WebhookURL receives events; without it none are sent. WebhookSecret signs them.
	WebhookURL    string
	WebhookSecret string
	// WebhookEvents are the event types sent; WebhookEventsDefault if nil.
	WebhookEvents []string
	// WebhookRetry is the pause after the first failed delivery, doubled up to a
	// minute; 1 s if zero. An event is given up after three days.
	WebhookRetry time.Duration
	// Latency names the profile that it starts with: LatencyNone if empty.
	Latency string
	// CaptureWindow is how long an authorization lives by what the provider tells;
	// 7 days if zero. Nothing lapses by itself: see POST /control/intents/{id}/expire.
	CaptureWindow time.Duration
	// Seed makes latencies, chances and ids repeatable; 0 picks one.
	Seed uint64
	// Logger gets what an operator should know; silent if nil.
	Logger *slog.Logger
	// Ready is called once with the address when requests are answered.
	Ready func(addr string)
}

// SecretKeyDefault is the API key of a simulator that was not given one.
const SecretKeyDefault = "sk_test_usher_paysim"

// WebhookEventsDefault are the events that usher subscribes to.
var WebhookEventsDefault = []string{
	"payment_intent.amount_capturable_updated", "payment_intent.requires_action", "payment_intent.processing",
	"payment_intent.payment_failed", "payment_intent.canceled", "payment_intent.succeeded",
	"charge.captured", "charge.expired", "charge.refunded", "charge.updated", "charge.dispute.created",
	"refund.created", "refund.updated", "refund.failed",
}

// stopGrace is how long running requests may finish after the end is asked for.
const stopGrace = 3 * time.Second

// Run serves until ctx ends, then returns nil. It returns an error when it
// cannot start or its ledger can no longer be written.
func Run(ctx context.Context, cfg Config) error {
	cfg = withDefaults(cfg)
	st := newStore()
	j, err := openJournal(cfg.DataDir, st.replay)
	if err != nil {
		return err
	}
	listener, err := listen(cfg.Addr)
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), j.close())
	}
	s := newServer(cfg, st, j, listener)
	err = s.run(ctx)
	return errors.Join(err, j.close())
}

// replay applies one line of the ledger.
func (s *store) replay(line []byte) error {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("decode record: %w", err)
	}
	s.apply(&r)
	return nil
}

func withDefaults(cfg Config) Config {
	if cfg.SecretKey == "" {
		cfg.SecretKey = SecretKeyDefault
	}
	if cfg.WebhookEvents == nil {
		cfg.WebhookEvents = WebhookEventsDefault
	}
	if cfg.WebhookRetry == 0 {
		cfg.WebhookRetry = time.Second
	}
	if cfg.CaptureWindow == 0 {
		cfg.CaptureWindow = 7 * 24 * time.Hour
	}
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// run serves and keeps the background work going until ctx ends.
func (s *server) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	web := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug)}
	s.listener.onRefuse = func(on bool) { web.SetKeepAlivesEnabled(!on) }
	if s.cfg.WebhookURL != "" {
		// What the last process did not get acknowledged; nobody else has the store yet.
		s.hooks.enqueue(s.store.undelivered()...)
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(s.listener) }()
	background := make(chan struct{})
	go func() {
		defer close(background)
		s.hooks.run(ctx)
	}()
	turns := make(chan struct{})
	go func() {
		defer close(turns)
		s.turnRefunds(ctx)
	}()
	s.mu.Lock()
	intents := len(s.store.intentOrder)
	s.mu.Unlock()
	s.cfg.Logger.Info("payment simulator is ready", "addr", s.listener.Addr().String(), "intents", intents)
	if s.cfg.Ready != nil {
		s.cfg.Ready(s.listener.Addr().String())
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-served:
	case <-s.journal.done:
		err = s.journal.sync()
	}
	cancel()
	close(s.stopping) // ends stalls, so that Shutdown does not wait for them
	grace, done := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer done()
	if web.Shutdown(grace) != nil {
		_ = web.Close()
	}
	<-background
	<-turns
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}
