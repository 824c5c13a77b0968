package bench

import (
	"context"
	"time"
)

// IsolationResult is what `usher bench isolation` reports: what an event's joins
// and holds take while another event of the same shard is idle, and while it is
// sold at its peak. Times are milliseconds from the moment a request was due.
type IsolationResult struct {
	Scenario string  `json:"scenario"`
	Seconds  float64 `json:"seconds"`

	// The busy event while it was busy.
	BusyOfferedPerSecond  float64 `json:"busyOfferedPerSecond"`
	BusyAcceptedPerSecond float64 `json:"busyAcceptedPerSecond"`
	BusyP99Ms             float64 `json:"busyP99Ms"`

	Joins IsolationKind `json:"joins"`
	Holds IsolationKind `json:"holds"`

	Errors          int64  `json:"errors"`
	FirstError      string `json:"firstError,omitempty"`
	AuditViolations int    `json:"auditViolations"`
	Stolen          Stolen `json:"stolen"`
}

// IsolationKind is one kind of request to the event beside the busy one.
type IsolationKind struct {
	OfferedPerSecond float64 `json:"offeredPerSecond"`
	IdleP50Ms        float64 `json:"idleP50Ms"`
	IdleP99Ms        float64 `json:"idleP99Ms"`
	BesideP50Ms      float64 `json:"besideP50Ms"`
	BesideP99Ms      float64 `json:"besideP99Ms"`
	// LimitMs is what BesideP99Ms may be: half as much again as idle, and 20 ms.
	LimitMs float64 `json:"limitMs"`
	Within  bool    `json:"within"`
}

// IsolationConfig says what to offer.
type IsolationConfig struct {
	Seconds float64
	// Rate is the holds per second offered to the busy event, and ConflictShare
	// their share that asks for what is taken.
	Rate, ConflictShare float64
	// Beside is the joins, and the holds, per second of the other event.
	Beside float64
	// Seats of each event, and how long they are held, in whole seconds.
	Seats    int
	HoldTime time.Duration
}

func (c IsolationConfig) length() time.Duration {
	return time.Duration(c.Seconds * float64(time.Second))
}

// Isolation measures one event twice: alone, and beside another one at its peak.
func Isolation(ctx context.Context, t Target, cfg IsolationConfig) (res IsolationResult, err error) {
	res = IsolationResult{Scenario: "isolation", Seconds: cfg.Seconds, BusyOfferedPerSecond: cfg.Rate}
	stolen := watchStolen()
	defer func() { res.Stolen = stolen() }()
	h := hall{seats: cfg.Seats, holdFor: cfg.HoldTime}
	busy, err := openSale(ctx, t, h, 1, 2*buyersFor(cfg.Rate, cfg.length()))
	if err != nil {
		return res, err
	}
	defer busy.close()
	busy.stock.conflict = cfg.ConflictShare
	other, err := openSale(ctx, t, h, 1, 2*buyersFor(cfg.Beside, cfg.length()))
	if err != nil {
		return res, err
	}
	defer other.close()
	queue, err := other.openEntrance(ctx, t, 2*int(cfg.Beside*(warmUp(cfg.length())+cfg.length()).Seconds()+1))
	if err != nil {
		return res, err
	}
	beside := func(with ...*traffic) (joins, holds *measurement) {
		j, p := &traffic{rate: cfg.Beside, send: queue.join}, &traffic{rate: cfg.Beside, send: other.placeHold}
		all := append(with, j, p)
		offerTogether(ctx, cfg.length(), all...)
		for _, k := range all {
			res.Errors += k.measured.failed.Load()
			res.FirstError = max(res.FirstError, k.measured.firstFailure())
		}
		return j.measured, p.measured
	}
	joins, holds := beside()
	peak := &traffic{rate: cfg.Rate, send: busy.placeHold}
	besideJoins, besideHolds := beside(peak)
	if err := ctx.Err(); err != nil {
		return res, err
	}
	res.Joins, res.Holds = isolationKind(cfg.Beside, joins, besideJoins), isolationKind(cfg.Beside, holds, besideHolds)
	res.BusyAcceptedPerSecond, res.BusyP99Ms = peak.measured.acceptedPerSecond(), peak.measured.latency.ms(99)
	for _, s := range []*sale{busy, other} {
		n, err := s.finish(ctx, t.AdminToken, s.event)
		if err != nil {
			return res, err
		}
		res.AuditViolations += n
	}
	return res, nil
}

func isolationKind(rate float64, idle, beside *measurement) IsolationKind {
	k := IsolationKind{
		OfferedPerSecond: rate, IdleP50Ms: idle.latency.ms(50), IdleP99Ms: idle.latency.ms(99),
		BesideP50Ms: beside.latency.ms(50), BesideP99Ms: beside.latency.ms(99),
	}
	k.LimitMs = 1.5*k.IdleP99Ms + 20
	k.Within = k.BesideP99Ms <= k.LimitMs
	return k
}
