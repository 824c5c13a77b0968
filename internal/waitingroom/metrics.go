package waitingroom

import (
	"github.com/prometheus/client_golang/prometheus"

	"usher"
)

// metrics are the package's collectors.
type metrics struct {
	joins     prometheus.Counter
	leaves    prometheus.Counter
	called    prometheus.Counter
	admits    prometheus.Counter
	refusals  *prometheus.CounterVec
	waiting   *prometheus.GaugeVec
	serving   *prometheus.GaugeVec
	active    *prometheus.GaugeVec
	admitting *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "usher_queue_" + name, Help: help})
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "usher_queue_" + name, Help: help}, []string{"event"})
	}
	m := &metrics{
		joins:  counter("joins_total", "New places given; joining again is not counted."),
		leaves: counter("leaves_total", "Places given up, repeats included."),
		called: counter("called_total", "People called by this process as a leader."),
		admits: counter("admits_total", "Admission tokens given, renewals included."),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "usher_queue_admit_refusals_total", Help: "Admissions not given, by reason code.",
		}, []string{"code"}),
		waiting:   gauge("waiting", "People who wait to be called."),
		serving:   gauge("serving", "The serving number: numbers below it are called."),
		active:    gauge("active_sessions", "Live shopper sessions, as the process that leads or sweeps the room counted."),
		admitting: gauge("admitting", "1 while the room calls people."),
	}
	reg.MustRegister(m.joins, m.leaves, m.called, m.admits, m.refusals, m.waiting, m.serving, m.active, m.admitting)
	return m
}

// decided counts a decision of a committed group.
func (m *metrics) decided(c command, d decision, err error) {
	switch {
	case err != nil:
	case c.kind == join && !d.replayed:
		m.joins.Inc()
	case c.kind == leave:
		m.leaves.Inc()
	case c.kind == tick:
		m.called.Add(float64(d.called))
	}
}

func (m *metrics) admitted(err error) {
	if err != nil {
		m.refusals.WithLabelValues(string(usher.CodeOf(err))).Inc()
		return
	}
	m.admits.Inc()
}

// shown sets the gauges to what a now document says.
func (m *metrics) shown(b *nowBody) {
	event := b.Event.String()
	m.waiting.WithLabelValues(event).Set(float64(b.Waiting))
	m.serving.WithLabelValues(event).Set(float64(b.Serving))
	admitting := 0.0
	if b.Admitting {
		admitting = 1
	}
	m.admitting.WithLabelValues(event).Set(admitting)
}
