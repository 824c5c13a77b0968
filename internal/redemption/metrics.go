package redemption

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"usher"
)

type metrics struct {
	claims   *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	confirms *prometheus.CounterVec
	expired  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) metrics {
	f := promauto.With(reg)
	return metrics{
		claims: f.NewCounterVec(prometheus.CounterOpts{
			Name: "usher_redemption_claims_total",
			Help: "Claims by result: granted, replayed, or the code of the refusal.",
		}, []string{"result"}),
		latency: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "usher_redemption_claim_seconds",
			Help:    "Time to answer a claim, by outcome: granted, replayed or refused.",
			Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5},
		}, []string{"outcome"}),
		confirms: f.NewCounterVec(prometheus.CounterOpts{
			Name: "usher_redemption_confirms_total",
			Help: "Confirmations by result: the device's word, replayed, or the code of the refusal.",
		}, []string{"result"}),
		expired: f.NewCounter(prometheus.CounterOpts{
			Name: "usher_redemption_expired_total",
			Help: "Redemptions that passed their limit unconfirmed and were frozen by the sweep.",
		}),
	}
}

func (m metrics) claimed(replayed bool, err error, took time.Duration) {
	result, outcome := "granted", "granted"
	switch {
	case err != nil:
		result, outcome = string(usher.CodeOf(err)), "refused"
	case replayed:
		result, outcome = "replayed", "replayed"
	}
	m.claims.WithLabelValues(result).Inc()
	m.latency.WithLabelValues(outcome).Observe(took.Seconds())
}

func (m metrics) confirmed(c Confirmation, err error) {
	result := string(c.Result)
	switch {
	case err != nil:
		result = string(usher.CodeOf(err))
	case c.Replayed:
		result = "replayed"
	}
	m.confirms.WithLabelValues(result).Inc()
}
