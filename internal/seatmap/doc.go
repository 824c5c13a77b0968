// Package seatmap knows what a venue looks like and how its seats stand right
// now.
//
// Charts are geometry: immutable, addressed by the hash of their one canonical
// encoding, read from three file formats (docs/charts.md). The position of a
// seat in its chart, its ordinal, is how snapshots and frames name it.
//
// The Hub keeps one picture per event, built from one ledger snapshot and then
// from the outbox in strict sequence, and hands it out as compressed snapshots
// and shared frames (docs/seat-map.md). Invariants it keeps:
//
//   - a picture is a pure function of its position (seq, lapse): every seat as
//     the outbox left it at seq, held ones shown free when their deadline is not
//     after lapse;
//   - frames of one process follow each other without holes, and a reader that
//     missed any is told to start again;
//   - a pending seat never lapses, and nothing here decides a sale.
//
// The package writes the chart tables and no others.
package seatmap
