package bench

import (
	"context"
	"fmt"
	"math"
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
	Stolen          Stolen      `json:"stolen"`
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

// Mixed offers every kind of traffic to a server at once, each at its own fixed
// rate, whatever the answers do.
func Mixed(ctx context.Context, t Target, cfg MixedConfig) (res MixedResult, err error) {
	res = MixedResult{Scenario: "mixed", Scale: cfg.Scale, Seconds: cfg.Seconds, Seats: cfg.Seats, SeatsPerHold: cfg.SeatsPerHold}
	stolen := watchStolen()
	defer func() { res.Stolen = stolen() }()
	sale, err := openMixedSale(ctx, t, cfg)
	if err != nil {
		return res, fmt.Errorf("set up sale: %w", err)
	}
	defer sale.close()
	res.Buyers = len(sale.buyers)
	kinds := []MixedKind{
		{Kind: "joins", DesignPerSecond: designJoins},
		{Kind: "polls", DesignPerSecond: designPolls},
		{Kind: "seatMaps", DesignPerSecond: designSeatMaps, P99LimitMs: 500},
		{Kind: "holds", DesignPerSecond: designHolds, P99LimitMs: 300},
		{Kind: "checkouts", DesignPerSecond: designCheckouts},
		{Kind: "orders", DesignPerSecond: designOrders, P99LimitMs: 200},
		{Kind: "claims", DesignPerSecond: designClaims, P99LimitMs: 100},
	}
	sends := []func(context.Context, int) (bool, error){
		sale.entrance.join, sale.poll, sale.look, sale.placeHold, sale.checkOut, sale.readOrder, sale.claim,
	}
	loops := make([]*traffic, len(kinds))
	for i, k := range kinds {
		loops[i] = &traffic{rate: k.DesignPerSecond * cfg.Scale, send: sends[i]}
	}
	offerTogether(ctx, cfg.length(), loops...)
	for i, k := range kinds {
		k.measured(loops[i])
		res.Errors += k.Errors
		res.Traffic = append(res.Traffic, k)
	}
	if err := ctx.Err(); err != nil {
		return res, err
	}
	res.AuditViolations, err = sale.finish(ctx, t.AdminToken, sale.event)
	return res, err
}

// measured fills in what came of the traffic.
func (k *MixedKind) measured(t *traffic) {
	m := t.measured
	k.OfferedPerSecond, k.ReachedPerSecond, k.RefusedShare = t.rate, m.decidedPerSecond(), m.conflictShare()
	k.P50Ms, k.P99Ms, k.Errors, k.FirstError = m.latency.ms(50), m.latency.ms(99), m.failed.Load(), m.firstFailure()
}
