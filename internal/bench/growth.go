package bench

import (
	"context"
	"fmt"

	"usher"
)

// GrowthResult is what `usher bench growth` reports: what a hold costs the ledger
// as one thing at a time grows from the base row.
type GrowthResult struct {
	Scenario string      `json:"scenario"`
	Seconds  float64     `json:"seconds"`
	Clients  int         `json:"clients"`
	Rows     []GrowthRow `json:"rows"`
}

// GrowthRow is one measurement at the store level. CPU is of this process (which
// is usher and generator) and PostgreSQL together, and covers each hold's release.
type GrowthRow struct {
	// Grown names what differs from the base row: base, seats, events, processes,
	// seatsPerHold.
	Grown                string  `json:"grown"`
	Seats                int     `json:"seats"`
	Events               int     `json:"events"`
	Processes            int     `json:"processes"`
	SeatsPerHold         int     `json:"seatsPerHold"`
	AcceptedPerSecond    float64 `json:"acceptedPerSecond"`
	ConflictShare        float64 `json:"conflictShare"`
	P50Ms                float64 `json:"p50Ms"`
	P99Ms                float64 `json:"p99Ms"`
	CPUMicrosPerAccepted float64 `json:"cpuMicrosPerAccepted"`
	MeanGroupSize        float64 `json:"meanGroupSize"`
	// CPUToBase is this row's CPU per accepted hold over the base row's.
	CPUToBase float64 `json:"cpuToBase"`
	Stolen    Stolen  `json:"stolen"`
}

// GrowthConfig says how to measure.
type GrowthConfig struct {
	Seconds float64
	// Clients is how many callers wait for answers at once, the same in every row.
	// Each keeps a hold while it asks for the next one.
	Clients int
	// ConflictShare is as for holds.
	ConflictShare float64
	// Rows are what to measure, the base first.
	Rows []GrowthRow
}

// GrowthRows is the table of docs/performance.md.
func GrowthRows() []GrowthRow {
	base := GrowthRow{Grown: "base", Seats: 10_000, Events: 1, Processes: 1, SeatsPerHold: 1}
	rows := []GrowthRow{base}
	add := func(grown string, change func(*GrowthRow)) {
		r := base
		r.Grown = grown
		change(&r)
		rows = append(rows, r)
	}
	for _, n := range []int{1000, 100_000, 1_000_000} {
		add("seats", func(r *GrowthRow) { r.Seats = n })
	}
	for _, n := range []int{8, 64} {
		add("events", func(r *GrowthRow) { r.Events = n })
	}
	for _, n := range []int{2, 3} {
		add("processes", func(r *GrowthRow) { r.Processes = n })
	}
	add("seatsPerHold", func(r *GrowthRow) { r.SeatsPerHold = usher.PlacesMax })
	return rows
}

// growthEvent is the first event of every row: each has a database of its own.
const growthEvent usher.EventID = 1

// Growth measures row by row. database makes a fresh migrated database and
// returns its URL; done, if given, is told each row.
func Growth(ctx context.Context, cfg GrowthConfig, database func(ctx context.Context, name string) (string, error), done func(GrowthRow)) (GrowthResult, error) {
	res := GrowthResult{Scenario: "growth", Seconds: cfg.Seconds, Clients: cfg.Clients}
	for i, row := range cfg.Rows {
		url, err := database(ctx, fmt.Sprintf("growth_%d", i))
		if err != nil {
			return res, err
		}
		if err := row.measure(ctx, url, cfg); err != nil {
			return res, fmt.Errorf("%s: %d seats, %d events, %d processes, %d seats a hold: %w",
				row.Grown, row.Seats, row.Events, row.Processes, row.SeatsPerHold, err)
		}
		row.CPUToBase = 1
		if i > 0 {
			row.CPUToBase = row.CPUMicrosPerAccepted / res.Rows[0].CPUMicrosPerAccepted
		}
		res.Rows = append(res.Rows, row)
		if done != nil {
			done(row)
		}
	}
	return res, nil
}

func (r *GrowthRow) measure(ctx context.Context, url string, cfg GrowthConfig) error {
	holds := HoldsConfig{
		Seconds: cfg.Seconds, Seats: r.Seats, SeatsPerHold: r.SeatsPerHold, ConflictShare: cfg.ConflictShare, Clients: cfg.Clients,
		Events: r.Events, Processes: r.Processes, GiveBack: true,
	}
	stolen := watchStolen()
	m, group, err := ledgerPhase(ctx, url, holds.events(growthEvent), holds)
	r.Stolen = stolen()
	if err != nil {
		return err
	}
	r.AcceptedPerSecond, r.ConflictShare, r.MeanGroupSize = m.acceptedPerSecond(), m.conflictShare(), group
	r.P50Ms, r.P99Ms, r.CPUMicrosPerAccepted = m.latency.ms(50), m.latency.ms(99), m.cpuMicrosPerAccepted()
	return nil
}
