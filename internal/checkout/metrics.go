package checkout

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"usher/internal/payment"
)

// metrics carry no order, seat or account.
type metrics struct {
	outcomes *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	steps    *prometheus.CounterVec
	webhooks *prometheus.CounterVec
	orphans  prometheus.Counter
	busy     prometheus.Counter
	open     *prometheus.GaugeVec
	oldest   *prometheus.GaugeVec
	// captureLeft is what an alarm on captures watches.
	captureLeft *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer, l *limiter) *metrics {
	m := &metrics{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "usher_payment_outcomes_total", Help: "Answers of payment providers by call and kind."}, []string{"call", "kind"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "usher_payment_call_seconds", Help: "Duration of calls to payment providers.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2, 4, 8, 16}}, []string{"call"}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "usher_checkout_steps_total", Help: "Steps of payment operations by kind and decision."}, []string{"kind", "step"}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "usher_payment_webhooks_total", Help: "Genuine webhooks by what became of them."}, []string{"result"}),
		orphans: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "usher_checkout_orphans_total", Help: "Authorizations found alive on operations that had ended, and given up."}),
		busy: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "usher_checkout_busy_total", Help: "Checkouts refused because too many authorizations were in flight."}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "usher_payment_operations_open", Help: "Payment operations without an end, by kind and status."}, []string{"shard", "kind", "status"}),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "usher_payment_operations_oldest_seconds", Help: "Age of the oldest open payment operation, by kind and status."},
			[]string{"shard", "kind", "status"}),
		captureLeft: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "usher_capture_deadline_seconds", Help: "Time until the first authorization of a sold, uncaptured order lapses; infinite if none."},
			[]string{"shard"}),
	}
	inFlight := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "usher_checkout_in_flight", Help: "Authorizations in flight in this process."},
		func() float64 { n, _ := l.read(); return float64(n) })
	bound := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "usher_checkout_in_flight_max", Help: "Most authorizations in flight that the provider's latency allows now."},
		func() float64 { _, n := l.read(); return float64(n) })
	reg.MustRegister(m.outcomes, m.seconds, m.steps, m.webhooks, m.orphans, m.busy, m.open, m.oldest, m.captureLeft, inFlight, bound)
	return m
}

func (m *metrics) answered(c call, k payment.Kind, took time.Duration) {
	m.outcomes.WithLabelValues(string(c), k.String()).Inc()
	m.seconds.WithLabelValues(string(c)).Observe(took.Seconds())
}
