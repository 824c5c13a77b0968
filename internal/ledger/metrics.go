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
	messages     *prometheus.CounterVec
	backlog      *prometheus.GaugeVec
	oldest       *prometheus.GaugeVec
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
			Name: "usher_ledger_group_reruns_total", Help: "Groups run again, by reason: stale, aborted, cut (the connection ended), lock_timeout, more_due (holds to free before a count), lapsed (a count was too low and holds lapsed meanwhile), turn (another group of the event commits), commit_unknown (run again only if nothing was committed).",
		}, []string{"reason"}),
		expired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "usher_ledger_holds_expired_total", Help: "Holds expired by deadline.",
		}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "usher_ledger_expiry_messages_total", Help: "Expiry messages, one for an event's deadlines within a quarter of a second: sent, dropped (no room), lost (by a test).",
		}, []string{"result"}),
		backlog: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "usher_ledger_expiry_backlog", Help: "Holds past their deadline that the sweep found not freed, by shard, at most 10000 per event.",
		}, []string{"shard"}),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "usher_ledger_expiry_oldest_seconds", Help: "How long ago the oldest deadline was that the sweep found not freed, by shard; 0 without any.",
		}, []string{"shard"}),
	}
	r.MustRegister(m.groupSize, m.groupSeconds, m.lockSeconds, m.commands, m.reruns, m.expired, m.messages, m.backlog, m.oldest)
	return m
}

func (m *metrics) decided(c command, err error) {
	result := "ok"
	if err != nil {
		result = string(usher.CodeOf(err))
	}
	m.commands.WithLabelValues(strings.TrimPrefix(fmt.Sprintf("%T", c), "*ledger."), result).Inc()
}
