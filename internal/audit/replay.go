package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"usher"
)

const (
	replayBatch = 5000

	// One statement, so seats and number are of one snapshot.
	sqlSeatsNow = `
SELECT s.seat_id, s.status, s.version, coalesce(s.hold_id::text, ''), coalesce(s.order_id::text, ''), l.seq
FROM event_ledger l
JOIN seat_inventory s ON s.event_id = l.event_id
WHERE l.event_id = $1`

	sqlOutboxPage = `
SELECT seq, type, cause, payload FROM outbox WHERE event_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4`
)

// seatPosition is where a seat stands after some entry.
type seatPosition struct {
	status  string
	version int64
	hold    string
	order   string
}

// entry is an outbox row as this package reads it: its own shape, on purpose not
// the writer's.
type entry struct {
	seq     int64
	kind    string
	cause   string
	payload struct {
		Hold    string `json:"holdId"`
		Buckets []struct {
			Tier      string `json:"tierId"`
			Bucket    int    `json:"bucket"`
			Available int    `json:"available"`
			Held      int    `json:"held"`
			Sold      int    `json:"sold"`
			Version   int64  `json:"version"`
		} `json:"buckets"`
		Moves []seatMove `json:"moves"`
	}
}

// seatMove is what happened alike to several seats; the n-th version is the n-th
// seat's after it.
type seatMove struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Hold     string   `json:"holdId"`
	Order    string   `json:"orderId"`
	Seats    []string `json:"seatIds"`
	Versions []int64  `json:"versions"`
}

// replay plays an event's outbox from the beginning and compares the end with
// the seats: each step must start where the one before ended, and an expiry or
// release must free only seats of its own hold.
func replay(ctx context.Context, pool reader, event usher.EventID) ([]Violation, error) {
	seats, last, err := readSeats(ctx, pool, event)
	if err != nil {
		return nil, err
	}
	var out []Violation
	report := func(subject, format string, args ...any) {
		out = append(out, Violation{event, subject, fmt.Sprintf(format, args...)})
	}
	at, counts := map[string]seatPosition{}, map[string]bucketPosition{}
	for after := int64(0); after < last; {
		page, err := readPage(ctx, pool, event, after, last)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break // holes at the end are another check's finding
		}
		for _, e := range page {
			e.play(at, report)
			e.count(counts, report)
		}
		after = page[len(page)-1].seq
	}
	for id, now := range seats {
		p, moved := at[id]
		if !moved && now.status == "blocked" {
			report(id, "is blocked, no entry says so")
			continue
		}
		if !moved {
			p.status = "available"
		}
		if p != now {
			report(id, "is %s (version %d, hold %s, order %s), replay says %s (version %d, hold %s, order %s)",
				now.status, now.version, now.hold, now.order, p.status, p.version, p.hold, p.order)
		}
	}
	if err := compareBuckets(ctx, pool, event, last, counts, report); err != nil {
		return nil, err
	}
	for id := range at {
		if _, ok := seats[id]; !ok {
			report(id, "is in the outbox, but not in the inventory")
		}
	}
	return out, nil
}

func (e *entry) play(at map[string]seatPosition, report func(subject, format string, args ...any)) {
	own := e.kind == "hold_expired" || e.kind == "hold_released"
	for _, m := range e.payload.Moves {
		if len(m.Versions) != len(m.Seats) {
			report(fmt.Sprintf("entry %d", e.seq), "moves %d seats to %d versions", len(m.Seats), len(m.Versions))
			continue
		}
		for i, id := range m.Seats {
			was, moved := at[id]
			if !moved {
				was.status = "available"
			}
			if was.status != m.From || was.version+1 != m.Versions[i] {
				report(id, "entry %d moves it from %s (version %d), it was %s (version %d)", e.seq, m.From, m.Versions[i]-1, was.status, was.version)
			}
			if own && (was.hold != uuidText(e.payload.Hold) || m.From != "held" || m.To != "available") {
				report(id, "entry %d (%s of %s) changed a seat of %s from %s to %s", e.seq, e.kind, e.payload.Hold, was.hold, m.From, m.To)
			}
			at[id] = seatPosition{m.To, m.Versions[i], uuidText(m.Hold), uuidText(m.Order)}
		}
	}
}

// uuidText turns an id of the outbox ("hld_...", "ord_...") into the text that
// PostgreSQL gives the uuid; what cannot be read stays as it is and will not match.
func uuidText(id string) string {
	var h usher.HoldID
	var o usher.OrderID
	var b [16]byte
	switch {
	case id == "":
		return ""
	case h.UnmarshalText([]byte(id)) == nil:
		b = h
	case o.UnmarshalText([]byte(id)) == nil:
		b = o
	default:
		return id
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func readSeats(ctx context.Context, pool reader, event usher.EventID) (map[string]seatPosition, int64, error) {
	rows, err := pool.Query(ctx, sqlSeatsNow, event)
	if err != nil {
		return nil, 0, fmt.Errorf("read seats: %w", err)
	}
	seats := map[string]seatPosition{}
	var id string
	var p seatPosition
	var seq int64
	_, err = pgx.ForEachRow(rows, []any{&id, &p.status, &p.version, &p.hold, &p.order, &seq}, func() error {
		seats[id] = p
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read seats: %w", err)
	}
	return seats, seq, nil
}

func readPage(ctx context.Context, pool reader, event usher.EventID, after, last int64) ([]*entry, error) {
	rows, err := pool.Query(ctx, sqlOutboxPage, event, after, last, replayBatch)
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*entry, error) {
		e := &entry{}
		var raw []byte
		if err := row.Scan(&e.seq, &e.kind, &e.cause, &raw); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &e.payload); err != nil {
			return nil, fmt.Errorf("outbox entry %d: %w", e.seq, err)
		}
		return e, nil
	})
}

// bucketPosition is where a bucket stands after some entry.
type bucketPosition struct {
	available, held, sold int
	version               int64
}

func (b bucketPosition) capacity() int { return b.available + b.held + b.sold }

// count plays an entry's buckets: versions go up one by one, and only a change of
// capacity changes how many places there are. What a bucket had before its first entry
// no entry says.
func (e *entry) count(at map[string]bucketPosition, report func(subject, format string, args ...any)) {
	moved, all := 0, true
	for _, c := range e.payload.Buckets {
		key := fmt.Sprintf("%s/%d", c.Tier, c.Bucket)
		was, seen := at[key]
		now := bucketPosition{c.Available, c.Held, c.Sold, c.Version}
		if c.Version != was.version+1 {
			report(key, "entry %d brings version %d after %d", e.seq, c.Version, was.version)
		}
		if seen {
			moved += now.capacity() - was.capacity()
		}
		all = all && seen
		at[key] = now
	}
	if moved != 0 && (e.kind != "capacity_moved" || all && strings.HasPrefix(e.cause, "MoveCapacity ")) {
		report(fmt.Sprint("entry ", e.seq), "%s changed the capacity by %d", e.kind, moved)
	}
}

const sqlBucketsNow = `
SELECT format('%s/%s', b.tier_id, b.bucket), b.available, b.held, b.sold, b.version, l.seq
FROM event_ledger l JOIN inventory_bucket b ON b.event_id = l.event_id
WHERE l.event_id = $1`

// compareBuckets compares the end of the replay, at entry last, with the counters.
// They are read after the seats: when the ledger has gone on meanwhile, only a
// bucket whose version has not moved can be compared.
func compareBuckets(ctx context.Context, pool reader, event usher.EventID, last int64, at map[string]bucketPosition, report func(subject, format string, args ...any)) error {
	rows, err := pool.Query(ctx, sqlBucketsNow, event)
	if err != nil {
		return fmt.Errorf("read buckets: %w", err)
	}
	var key string
	var now bucketPosition
	var seq int64
	_, err = pgx.ForEachRow(rows, []any{&key, &now.available, &now.held, &now.sold, &now.version, &seq}, func() error {
		was, seen := at[key]
		if !seen {
			// No entry says how many places a new bucket has.
			was.available = now.available
		}
		if now != was && (seq == last || now.version <= was.version) {
			report(key, "is %+v, replay says %+v", now, was)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read buckets: %w", err)
	}
	return nil
}
