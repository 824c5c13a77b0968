package ledger

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"usher"
)

type metrics struct {
	groupSize    prometheus.Histogram
	groupSeconds prometheus.Histogram
	lockSeconds  prometheus.Histogram
	commands     *prometheus.CounterVec
	reruns       *prometheus.CounterVec
	expired      prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		groupSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "usher_ledger_group_commands", Help: "Commands decided in one transaction.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		groupSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "usher_ledger_group_seconds", Help: "Time from taking a group to its last answer, locks and reruns included.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		lockSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "usher_ledger_lock_seconds", Help: "Time to lock a group's rows and read what its decisions need: mostly waiting for other processes' locks.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "usher_ledger_commands_total", Help: "Commands decided, by command and result (ok or the code of the refusal).",
		}, []string{"command", "result"}),
		reruns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "usher_ledger_group_reruns_total", Help: "Groups run again, by reason: stale, aborted, lock_timeout, commit_unknown.",
		}, []string{"reason"}),
		expired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "usher_ledger_holds_expired_total", Help: "Holds expired by deadline.",
		}),
	}
	r.MustRegister(m.groupSize, m.groupSeconds, m.lockSeconds, m.commands, m.reruns, m.expired)
	return m
}

func (m *metrics) decided(c command, err error) {
	result := "ok"
	if err != nil {
		result = string(usher.CodeOf(err))
	}
	m.commands.WithLabelValues(strings.TrimPrefix(fmt.Sprintf("%T", c), "*ledger."), result).Inc()
}
