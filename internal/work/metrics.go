package work

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are labelled by queue only.
type metrics struct {
	due, oldest, parked, running *prometheus.GaugeVec
	claimErrors                  *prometheus.CounterVec
	jobs                         *prometheus.CounterVec
	seconds                      *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"queue"})
	}
	m := &metrics{
		due:     gauge("usher_work_due", "Rows that wait to be started, counted up to 10000."),
		oldest:  gauge("usher_work_oldest_due_seconds", "How long the first waiting row has been due."),
		parked:  gauge("usher_work_parked", "Rows that wait for a person."),
		running: gauge("usher_work_running", "Rows that this process runs now."),
		claimErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "usher_work_claim_errors_total", Help: "Claims that failed."}, []string{"queue"}),
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "usher_work_jobs_total", Help: "Runs by verdict."}, []string{"queue", "verdict"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "usher_work_job_seconds", Help: "Duration of runs.",
			Buckets: []float64{.005, .02, .1, .5, 1, 2, 5, 10, 20, 40}}, []string{"queue"}),
	}
	reg.MustRegister(m.due, m.oldest, m.parked, m.running, m.claimErrors, m.jobs, m.seconds)
	return m
}

func (m *metrics) ran(queue string, v Verdict, took time.Duration) {
	m.jobs.WithLabelValues(queue, v.String()).Inc()
	m.seconds.WithLabelValues(queue).Observe(took.Seconds())
}

const (
	sampleEvery   = 5 * time.Second
	sampleTimeout = 3 * time.Second
)

// sampleLoop measures the backlog now and every few seconds.
func (r *Runner) sampleLoop(ctx context.Context, q *queue) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		r.sampleOnce(ctx, q)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Runner) sampleOnce(ctx context.Context, q *queue) {
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	s, err := q.sample(ctx)
	if err != nil {
		// The claims of the same queue report the outage; an old figure stays shown.
		return
	}
	q.last.Store(&s)
	r.metrics.due.WithLabelValues(q.name).Set(float64(s.Due))
	r.metrics.oldest.WithLabelValues(q.name).Set(s.OldestDue.Seconds())
	r.metrics.parked.WithLabelValues(q.name).Set(float64(s.Parked))
	r.metrics.running.WithLabelValues(q.name).Set(float64(q.running.Load()))
}
