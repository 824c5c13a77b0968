package redemption

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"usher/internal/pg"
)

// Redeemer serves pools, tickets, devices and redemptions of every event whose
// shard this process can reach. It is safe for concurrent use, and any number of
// processes may run one.
type Redeemer struct {
	homes   *pg.Homes
	log     *slog.Logger
	metrics metrics
	devices deviceCache
}

// New makes a redeemer on the homes and registers its metrics with reg.
func New(homes *pg.Homes, log *slog.Logger, reg prometheus.Registerer) *Redeemer {
	return &Redeemer{
		homes:   homes,
		log:     log,
		metrics: newMetrics(reg),
		devices: newDeviceCache(),
	}
}
