package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"usher/internal/web"
)

// HTTPConfig says what to offer.
type HTTPConfig struct {
	HoldsConfig
	// Rate is the holds offered per second, conflicts included.
	Rate float64
	// Buyers is the least number of accounts that ask in turn. There are more where
	// so few would meet usher's limit per account.
	Buyers int
}

// HoldsHTTP offers holds to a server at a fixed rate, whatever it answers, and
// fills in the HTTP figures. Latency counts from the moment a request was due.
func HoldsHTTP(ctx context.Context, t Target, cfg HTTPConfig, res *HoldsResult) error {
	c, err := newCaller(t.URL)
	if err != nil {
		return err
	}
	defer c.close()
	event, err := c.createEvent(ctx, t.AdminToken, hall{seats: cfg.Seats, holdFor: holdTime})
	if err != nil {
		return fmt.Errorf("set up event: %w", err)
	}
	buyers, err := c.admitBuyers(ctx, t.AdminToken, event, max(cfg.Buyers, buyersFor(cfg.Rate, cfg.length())))
	if err != nil {
		return fmt.Errorf("admit buyers: %w", err)
	}
	m := c.offerHolds(ctx, cfg, event, buyers)
	res.HTTPAcceptedPerSecond, res.HTTPOfferedPerSecond = m.acceptedPerSecond(), cfg.Rate
	res.HTTPP50Ms, res.HTTPP99Ms, res.HTTPErrors = m.latency.ms(50), m.latency.ms(99), m.failed.Load()
	res.HTTPConflictShare, res.HTTPFirstError = m.conflictShare(), m.firstFailure()
	res.AuditViolations, err = c.finish(ctx, t.AdminToken, event)
	return err
}

// buyersFor is how many accounts may hold and check out so often for so long
// without meeting the limit per account.
func buyersFor(rate float64, length time.Duration) int {
	limit, took := web.DefaultLimits().HoldPerAccount, warmUp(length)+length
	each := float64(limit.Burst) + took.Seconds()/limit.Every.Seconds()
	return int(math.Ceil(rate*took.Seconds()/each)) + 1
}

func (c *caller) offerHolds(ctx context.Context, cfg HTTPConfig, event string, buyers []buyer) *measurement {
	p := newPicker(cfg.Seats, cfg.SeatsPerHold, cfg.ConflictShare, holdTime, 1)
	m := newMeasurement(cfg.length())
	window, cancel := m.within(ctx)
	defer cancel()
	openLoop(window, cfg.Rate, func(i int, due time.Time) {
		seats, cl := p.pick()
		ok, err := c.hold(ctx, event, &buyers[i%len(buyers)], seats, fmt.Sprint("b", i), nil)
		p.done(cl, ok)
		if err != nil {
			m.fail(err)
			return
		}
		m.add(due, ok)
	}, m.fail)
	return m
}
