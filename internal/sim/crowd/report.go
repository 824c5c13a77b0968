package crowd

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Report is the verdict on a rehearsal. Rates are shares from 0 to 1, times in
// the unit their name ends with.
type Report struct {
	Pass bool `json:"pass"`
	// Failures say why it did not pass.
	Failures []string `json:"failures"`
	// Event is the largest of Events.
	Event   string        `json:"eventId"`
	Events  []EventReport `json:"events"`
	People  int           `json:"people"`
	Seconds float64       `json:"seconds"`
	// Sold counts places that people paid for; every one has a ticket or the
	// rehearsal fails.
	Sold            int            `json:"sold"`
	SoldSeated      int            `json:"soldSeated"`
	SoldStanding    int            `json:"soldStanding"`
	TicketsIssued   int            `json:"ticketsIssued"`
	AdmittedAtGate  int            `json:"admittedAtGate"`
	AuditViolations int            `json:"auditViolations"`
	Outcomes        map[string]int `json:"outcomes"`

	// The eight figures.
	UnitsSold                int     `json:"unitsSold"`
	LockWaitP99Ms            float64 `json:"lockWaitP99Ms"`
	ConflictRate             float64 `json:"conflictRate"`
	ExpiryRate               float64 `json:"expiryRate"`
	UnknownPaymentAgeSeconds float64 `json:"unknownPaymentAgeSeconds"`
	QueueWaitP99Seconds      float64 `json:"queueWaitP99Seconds"`
	AdmissionRatePerSecond   float64 `json:"admissionRatePerSecond"`
	TicketDifference         int     `json:"ticketDifference"`

	Requests     int64 `json:"requests"`
	Retries      int64 `json:"retries"`
	ServerAway   int64 `json:"serverAway"`
	ServerErrors int64 `json:"serverErrors"`
	LostAnswers  int64 `json:"lostAnswers"`
	SecondScans  int64 `json:"secondScansRefused"`
}

// EventReport is one event's part.
type EventReport struct {
	Event  string `json:"eventId"`
	People int    `json:"people"`
	// SoldSeated and SoldStanding count places that people paid for, by kind.
	SoldSeated   int            `json:"soldSeated"`
	SoldStanding int            `json:"soldStanding"`
	Outcomes     map[string]int `json:"outcomes"`
}

// failuresMax bounds how many failures are told in words.
const failuresMax = 20

func (rep *Report) fail(format string, args ...any) {
	if len(rep.Failures) < failuresMax {
		rep.Failures = append(rep.Failures, fmt.Sprintf(format, args...))
	}
}

// report takes what the people say.
func (r *run) report(took time.Duration) *Report {
	rep := &Report{
		Failures: []string{}, Event: r.venues[0].event, People: len(r.people), Seconds: took.Seconds(), Outcomes: map[string]int{},
		AdmittedAtGate: int(r.entered.Load()), Requests: r.client.requests.Load(), Retries: r.client.retries.Load(),
		ServerAway: r.client.away.Load(), ServerErrors: r.client.serverErrors.Load(), LostAnswers: r.lostAnswers.Load(),
		SecondScans: r.secondScans.Load(),
	}
	for _, v := range r.venues {
		rep.Events = append(rep.Events, EventReport{Event: v.event, Outcomes: map[string]int{}})
	}
	for i, p := range r.people {
		rep.Outcomes[p.outcome]++
		e := &rep.Events[slices.Index(r.venues, p.venue)]
		e.People++
		e.Outcomes[p.outcome]++
		if p.outcome == wentIn || p.outcome == failed && len(p.tickets) > 0 {
			e.SoldSeated += len(p.seats)
			e.SoldStanding += p.places() - len(p.seats)
		}
		rep.TicketsIssued += len(p.tickets)
		switch p.outcome {
		case failed:
			rep.fail("person %d: %v", i, p.err)
		case stillUnknown:
			rep.fail("person %d: order %s is still undecided", i, p.orderID)
		}
	}
	for _, e := range rep.Events {
		rep.SoldSeated += e.SoldSeated
		rep.SoldStanding += e.SoldStanding
	}
	rep.Sold = rep.SoldSeated + rep.SoldStanding
	rep.UnitsSold, rep.TicketDifference = rep.Sold, rep.Sold-rep.TicketsIssued
	rep.ConflictRate = share(r.conflicts.Load(), r.holds.Load())
	slices.Sort(r.queueWaits)
	if n := len(r.queueWaits); n > 0 {
		rep.QueueWaitP99Seconds = r.queueWaits[min(n-1, n*99/100)].Seconds()
		if d := r.lastIn.Sub(r.firstIn).Seconds(); d > 0 {
			rep.AdmissionRatePerSecond = float64(n) / d
		}
	}
	return rep
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// judge decides. A server error is a defect even when the retry went well.
func (rep *Report) judge() {
	if rep.ServerErrors > 0 {
		rep.fail("%d answers were server errors", rep.ServerErrors)
	}
	if rep.Sold != rep.TicketsIssued {
		rep.fail("%d places were paid for, %d tickets issued", rep.Sold, rep.TicketsIssued)
	}
	if rep.AdmittedAtGate != rep.TicketsIssued {
		rep.fail("%d tickets were issued, %d went in", rep.TicketsIssued, rep.AdmittedAtGate)
	}
	if rep.People > 20 && rep.Sold == 0 {
		rep.fail("nothing was sold")
	}
	rep.Pass = len(rep.Failures) == 0
}

// figures are read from the server's metrics.
type figures struct {
	lockBuckets map[float64]float64
	expired     float64
	placed      float64
	unknownAge  float64
	unknownOpen float64
	captureOpen float64
}

func (rep *Report) take(before, after figures) {
	rep.LockWaitP99Ms = quantile(before.lockBuckets, after.lockBuckets, 0.99) * 1000
	// A server that restarted in between counts from zero again.
	expired, placed := after.expired-before.expired, after.placed-before.placed
	if expired < 0 || placed < 0 {
		expired, placed = after.expired, after.placed
	}
	if placed > 0 {
		rep.ExpiryRate = expired / placed
	}
	rep.UnknownPaymentAgeSeconds = after.unknownAge
	if after.unknownOpen > 0 {
		rep.fail("%.0f payments are still unknown", after.unknownOpen)
	}
}

// scrape reads the figures off /metrics.
func (r *run) scrape(ctx context.Context) (figures, error) {
	text, err := r.client.text(ctx, "/metrics")
	if err != nil {
		return figures{}, fmt.Errorf("read metrics: %w", err)
	}
	return parseFigures(text), nil
}

func parseFigures(text string) figures {
	f := figures{lockBuckets: map[float64]float64{}}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok {
			name, value, ok = strings.Cut(strings.TrimSpace(line), " ")
		}
		v, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil || strings.HasPrefix(name, "#") {
			continue
		}
		switch {
		case strings.HasPrefix(name, "usher_ledger_lock_seconds_bucket{"):
			if le, err := strconv.ParseFloat(label(name, "le"), 64); err == nil {
				f.lockBuckets[le] += v
			}
		case name == "usher_ledger_holds_expired_total":
			f.expired = v
		case strings.HasPrefix(name, "usher_ledger_commands_total{") && label(name, "command") == "PlaceHold" && label(name, "result") == "ok":
			f.placed += v
		case strings.HasPrefix(name, "usher_payment_operations_oldest_seconds{") && label(name, "status") == "unknown":
			f.unknownAge = math.Max(f.unknownAge, v)
		case strings.HasPrefix(name, "usher_payment_operations_open{"):
			if label(name, "status") == "unknown" {
				f.unknownOpen += v
			}
			if label(name, "kind") == "capture" {
				f.captureOpen += v
			}
		}
	}
	return f
}

func label(series, name string) string {
	_, rest, ok := strings.Cut(series, name+`="`)
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// quantile reads a quantile off the difference of two cumulative histograms: the
// upper bound of its bucket.
func quantile(before, after map[float64]float64, q float64) float64 {
	bounds := make([]float64, 0, len(after))
	for le := range after {
		bounds = append(bounds, le)
	}
	slices.Sort(bounds)
	if len(bounds) == 0 {
		return 0
	}
	diff := func(le float64) float64 {
		if d := after[le] - before[le]; d >= 0 {
			return d
		}
		return after[le]
	}
	total := diff(bounds[len(bounds)-1])
	last := 0.0
	for _, le := range bounds {
		if !math.IsInf(le, 1) {
			last = le
		}
		if total > 0 && diff(le) >= q*total {
			return last
		}
	}
	return 0
}
