package bench

import (
	"context"
	"math"
	"time"

	"usher/internal/web"
)

// HTTPConfig says what to offer.
type HTTPConfig struct {
	HoldsConfig
	// Rate is the holds offered per second, conflicts included.
	Rate float64
	// HoldTime is how long a hold lasts, in whole seconds: stock that is held longer
	// than the measurement lasts has to be enough for all of it.
	HoldTime time.Duration
	// Buyers is the least number of accounts that ask in turn. There are more where
	// so few would meet usher's limit per account.
	Buyers int
}

// HoldsHTTP offers holds to a server at a fixed rate, whatever it answers, and
// fills in the HTTP figures. Latency counts from the moment a request was due.
func HoldsHTTP(ctx context.Context, t Target, cfg HTTPConfig, res *HoldsResult) error {
	stolen := watchStolen()
	defer func() { res.HTTPStolen = stolen() }()
	s, err := openSale(ctx, t, hall{seats: cfg.Seats, holdFor: cfg.HoldTime}, cfg.SeatsPerHold, max(cfg.Buyers, buyersFor(cfg.Rate, cfg.length())))
	if err != nil {
		return err
	}
	defer s.close()
	s.stock.conflict = cfg.ConflictShare
	holds := &traffic{rate: cfg.Rate, send: s.placeHold}
	offerTogether(ctx, cfg.length(), holds)
	m := holds.measured
	res.HTTPAcceptedPerSecond, res.HTTPOfferedPerSecond = m.acceptedPerSecond(), cfg.Rate
	res.HTTPP50Ms, res.HTTPP99Ms, res.HTTPErrors = m.latency.ms(50), m.latency.ms(99), m.failed.Load()
	res.HTTPConflictShare, res.HTTPFirstError = m.conflictShare(), m.firstFailure()
	res.AuditViolations, err = s.finish(ctx, t.AdminToken, s.event)
	return err
}

// buyersFor is how many accounts may hold and check out so often for so long
// without meeting the limit per account.
func buyersFor(rate float64, length time.Duration) int {
	limit, took := web.DefaultLimits().HoldPerAccount, warmUp(length)+length
	each := float64(limit.Burst) + took.Seconds()/limit.Every.Seconds()
	return int(math.Ceil(rate*took.Seconds()/each)) + 1
}
