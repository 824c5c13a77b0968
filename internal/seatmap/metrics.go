package seatmap

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are bound once: nothing on the path of a frame looks a label up.
type metrics struct {
	streams     prometheus.Gauge
	frames      prometheus.Counter
	frameBytes  prometheus.Counter
	snapshots   prometheus.Counter
	resetSlow   prometheus.Counter
	resetBig    prometheus.Counter
	resetStart  prometheus.Counter
	resetReload prometheus.Counter
	reloads     prometheus.Counter
	failures    prometheus.Counter
	away        prometheus.Gauge
	lag         prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	resets := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "usher_seatmap_resets_total",
		Help: "Times readers were told to take a new snapshot: a stream was slow, a frame too big, a position unknown, a picture read anew.",
	}, []string{"reason"})
	m := &metrics{
		streams:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "usher_seatmap_streams", Help: "Open seat map streams."}),
		frames:     prometheus.NewCounter(prometheus.CounterOpts{Name: "usher_seatmap_frames_total", Help: "Frames made, each shared by all streams of its event."}),
		frameBytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "usher_seatmap_frame_bytes_total", Help: "Bytes of frames made, counted once however many streams get them."}),
		snapshots:  prometheus.NewCounter(prometheus.CounterOpts{Name: "usher_seatmap_snapshots_total", Help: "Snapshots handed out."}),
		reloads:    prometheus.NewCounter(prometheus.CounterOpts{Name: "usher_seatmap_reloads_total", Help: "Pictures read anew from the ledger, the first reading included."}),
		failures:   prometheus.NewCounter(prometheus.CounterOpts{Name: "usher_seatmap_read_failures_total", Help: "Failed reads of an event's home."}),
		away:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "usher_seatmap_events_away", Help: "Events whose home does not answer, shown as temporarily unavailable."}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "usher_seatmap_lag_seconds",
			Help:    "Age of the oldest change in a frame when it is handed to the streams, by database time.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
		resetSlow:   resets.WithLabelValues("slow"),
		resetBig:    resets.WithLabelValues("big"),
		resetStart:  resets.WithLabelValues("start"),
		resetReload: resets.WithLabelValues("reload"),
	}
	r.MustRegister(resets, m.streams, m.frames, m.frameBytes, m.snapshots, m.reloads, m.failures, m.away, m.lag)
	return m
}

// frame counts one published frame and the age of what it brings.
func (m *metrics) frame(f frame, oldest, at time.Time) {
	m.frames.Inc()
	m.frameBytes.Add(float64(len(f.wire)))
	if f.kind == stepReset {
		m.resetBig.Inc()
	}
	if !oldest.IsZero() {
		m.lag.Observe(max(0, at.Sub(oldest).Seconds()))
	}
}
