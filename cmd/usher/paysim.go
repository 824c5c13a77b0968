package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"usher/internal/sim/paysim"
)

// paysimCmd runs the payment simulator in a process of its own.
type paysimCmd struct {
	Addr          string `help:"Address to listen on." default:"127.0.0.1:8083" env:"USHER_PAYSIM_ADDR"`
	DataDir       string `help:"Folder of its ledger." required:"" type:"path" env:"USHER_PAYSIM_DATA_DIR"`
	PublicURL     string `help:"Origin at which browsers reach its pages." env:"USHER_PAYSIM_PUBLIC_URL"`
	WebhookURL    string `help:"Where its events go." env:"USHER_PAYSIM_WEBHOOK_URL"`
	SecretKey     secret `help:"API key it accepts." hidden:"" env:"USHER_PAYSIM_SECRET_KEY"`
	WebhookSecret secret `help:"Secret it signs events with." hidden:"" env:"USHER_PAYSIM_WEBHOOK_SECRET"`
	Latency       string `help:"Latency profile it starts with." env:"USHER_PAYSIM_LATENCY"`
	Seed          uint64 `help:"Makes latencies, chances and ids repeatable; 0 picks one." env:"USHER_PAYSIM_SEED"`
	WithParent    bool   `help:"End when standard input ends: a child never outlives its parent." env:"USHER_PAYSIM_WITH_PARENT"`
}

// ready is the line that a program prints once it can be used.
type ready struct {
	URL string `json:"url"`
}

// Run serves until the process is told to end, or standard input ends.
func (c *paysimCmd) Run(p *process) error {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	if c.WithParent {
		go func() {
			defer cancel()
			// The parent writes nothing: reading ends when it has gone, however it went.
			_, _ = io.Copy(io.Discard, p.stdin)
		}()
	}
	err := paysim.Run(ctx, paysim.Config{
		Addr:          c.Addr,
		DataDir:       c.DataDir,
		PublicURL:     c.PublicURL,
		SecretKey:     string(c.SecretKey),
		WebhookURL:    c.WebhookURL,
		WebhookSecret: string(c.WebhookSecret),
		WebhookRetry:  time.Second,
		Latency:       c.Latency,
		Seed:          c.Seed,
		Logger:        p.log,
		Ready: func(addr string) {
			// A reader that is gone ends the simulator by itself, through standard input.
			_ = json.NewEncoder(p.stdout).Encode(ready{URL: "http://" + addr})
		},
	})
	if err != nil {
		return fmt.Errorf("payment simulator: %w", err)
	}
	return nil
}
