package bench

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// MixedResult is what `usher bench mixed` reports: all kinds of traffic of a sale
// at once on one event, at a scale of the design case.
type MixedResult struct {
	Scenario     string  `json:"scenario"`
	Scale        float64 `json:"scale"`
	Seconds      float64 `json:"seconds"`
	Seats        int     `json:"seats"`
	SeatsPerHold int     `json:"seatsPerHold"`
	// Buyers are inside the shop; everybody else joins and polls.
	Buyers          int         `json:"buyers"`
	Traffic         []MixedKind `json:"traffic"`
	Errors          int64       `json:"errors"`
	AuditViolations int         `json:"auditViolations"`
}

// MixedKind is one kind of traffic. Latency counts from the moment a request was
// due; refusals (a seat that is taken) are answers, and errors everything else,
// requests without an answer and those that were never sent included.
type MixedKind struct {
	Kind string `json:"kind"`
	// DesignPerSecond is the rate of the whole design case, OfferedPerSecond what was
	// due here, and ReachedPerSecond how many were answered.
	DesignPerSecond  float64 `json:"designPerSecond"`
	OfferedPerSecond float64 `json:"offeredPerSecond"`
	ReachedPerSecond float64 `json:"reachedPerSecond"`
	RefusedShare     float64 `json:"refusedShare"`
	P50Ms            float64 `json:"p50Ms"`
	P99Ms            float64 `json:"p99Ms"`
	// P99LimitMs is what the design case asks for; 0 is no limit.
	P99LimitMs float64 `json:"p99LimitMs,omitempty"`
	Errors     int64   `json:"errors"`
	FirstError string  `json:"firstError,omitempty"`
}

// MixedConfig says what to offer.
type MixedConfig struct {
	// Scale is the share of the design case, above 0 to 1.
	Scale   float64
	Seconds float64
	// Seats of the event; SeatsPerHold of each hold; ConflictShare as for holds.
	Seats, SeatsPerHold int
	ConflictShare       float64
}

func (c MixedConfig) length() time.Duration { return time.Duration(c.Seconds * float64(time.Second)) }

// requests is how many of a kind are due, warm-up included.
func (c MixedConfig) requests(design float64) int {
	return int(math.Ceil(design*c.Scale*(warmUp(c.length())+c.length()).Seconds())) + 1
}

// The design case, requests per second. Claims are every one of 50,000 people
// within ten minutes; order pages and seat maps are what bench's own scenarios ask.
const (
	designJoins     = 6667
	designPolls     = 50_000
	designSeatMaps  = 2000
	designHolds     = 2000
	designCheckouts = 1000
	designOrders    = 2000
	designClaims    = 83
)

// mixedHold leaves a hold in time to be paid for, and stock that lasts.
const mixedHold = 10 * time.Second

// traffic is one kind: send makes request i and tells whether it was refused.
type traffic struct {
	kind     string
	design   float64
	limitMs  float64
	send     func(ctx context.Context, i int) (ok bool, err error)
	measured *measurement
}

// Mixed offers every kind of traffic to a server at once, each at its own fixed
// rate, whatever the answers do.
func Mixed(ctx context.Context, t Target, cfg MixedConfig) (MixedResult, error) {
	res := MixedResult{Scenario: "mixed", Scale: cfg.Scale, Seconds: cfg.Seconds, Seats: cfg.Seats, SeatsPerHold: cfg.SeatsPerHold}
	sale, err := openMixedSale(ctx, t, cfg)
	if err != nil {
		return res, fmt.Errorf("set up sale: %w", err)
	}
	defer sale.close()
	res.Buyers = len(sale.buyers)
	kinds := []*traffic{
		{kind: "joins", design: designJoins, send: sale.join},
		{kind: "polls", design: designPolls, send: sale.poll},
		{kind: "seatMaps", design: designSeatMaps, limitMs: 500, send: sale.look},
		{kind: "holds", design: designHolds, limitMs: 300, send: sale.placeHold},
		{kind: "checkouts", design: designCheckouts, send: sale.checkOut},
		{kind: "orders", design: designOrders, limitMs: 200, send: sale.readOrder},
		{kind: "claims", design: designClaims, limitMs: 100, send: sale.claim},
	}
	offerTogether(ctx, cfg, kinds)
	for _, k := range kinds {
		r := k.report(cfg.Scale)
		res.Errors += r.Errors
		res.Traffic = append(res.Traffic, r)
	}
	if err := ctx.Err(); err != nil {
		return res, err
	}
	res.AuditViolations, err = sale.finish(ctx, t.AdminToken, sale.event)
	return res, err
}

// offerTogether runs all open loops over the same window.
func offerTogether(ctx context.Context, cfg MixedConfig, kinds []*traffic) {
	window := newMeasurement(cfg.length())
	ends, cancel := window.within(ctx)
	defer cancel()
	var loops sync.WaitGroup
	for _, k := range kinds {
		k.measured = &measurement{from: window.from, to: window.to, latency: newLatencies()}
		loops.Go(func() {
			openLoop(ends, k.design*cfg.Scale, func(i int, due time.Time) {
				ok, err := k.send(ctx, i)
				if err != nil {
					k.measured.fail(err)
					return
				}
				k.measured.add(due, ok)
			}, k.measured.fail)
		})
	}
	loops.Wait()
}

func (k *traffic) report(scale float64) MixedKind {
	m := k.measured
	return MixedKind{
		Kind: k.kind, DesignPerSecond: k.design, OfferedPerSecond: k.design * scale, ReachedPerSecond: m.decidedPerSecond(),
		RefusedShare: m.conflictShare(), P50Ms: m.latency.ms(50), P99Ms: m.latency.ms(99), P99LimitMs: k.limitMs,
		Errors: m.failed.Load(), FirstError: m.firstFailure(),
	}
}
