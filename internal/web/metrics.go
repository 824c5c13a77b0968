package web

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the HTTP side counts: by route pattern and status class,
// never by id, seat or account.
type metrics struct {
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	streams  prometheus.Gauge
	panics   prometheus.Counter
	limited  *prometheus.CounterVec
	shed     *prometheus.CounterVec
	foreign  prometheus.Counter

	// The now document's two answers, bound once.
	nowAnswered, nowNotModified prometheus.Counter

	// routes holds the observers of each route, bound once: looking labels up
	// costs more than observing.
	routes sync.Map
}

// routeMetrics are one route's observers by status class; index 0 is for
// requests that got no status.
type routeMetrics [6]prometheus.Observer

var statusClasses = [6]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "usher_http_request_seconds",
			Help:    "Time to answer a request, by route pattern and status class.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .2, .3, .5, 1, 2.5, 5, 10},
		}, []string{"route", "status"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "usher_http_requests_in_flight", Help: "Requests being answered now, streams excluded.",
		}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "usher_http_streams", Help: "Open event streams.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "usher_http_panics_total", Help: "Requests that ended in a recovered panic.",
		}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "usher_http_rate_limited_total", Help: "Requests refused by a rate limit, by limit.",
		}, []string{"limit"}),
		shed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "usher_shed_total", Help: "What was refused because its event is too busy: stream, best, suggestion, admin, changes, snapshot, read.",
		}, []string{"what"}),
		foreign: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "usher_http_foreign_total", Help: "Requests of an account for what is another's.",
		}),
	}
	now := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "usher_http_queue_now_total", Help: "Answers of the now document, by status.",
	}, []string{"status"})
	m.nowAnswered, m.nowNotModified = now.WithLabelValues("200"), now.WithLabelValues("304")
	reg.MustRegister(m.seconds, m.inFlight, m.streams, m.panics, m.limited, m.shed, m.foreign, now)
	return m
}

func (m *metrics) route(pattern string) *routeMetrics {
	if bound, ok := m.routes.Load(pattern); ok {
		return bound.(*routeMetrics)
	}
	bound := &routeMetrics{}
	for i, class := range statusClasses {
		bound[i] = m.seconds.WithLabelValues(pattern, class)
	}
	actual, _ := m.routes.LoadOrStore(pattern, bound)
	return actual.(*routeMetrics)
}

func (r *routeMetrics) observe(status int, took time.Duration) {
	class := status / 100
	if class < 1 || class > 5 {
		class = 0
	}
	r[class].Observe(took.Seconds())
}
