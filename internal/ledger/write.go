package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

// write is trip 2: one statement per table for everything the decisions changed,
// then the fence. It checks every row count; the caller commits only when it
// returns nil. It fails with errStale when the fence matched nothing.
func (s *state) write(ctx context.Context, tx pgx.Tx) error {
	b := &writeBatch{}
	s.queueHolds(b)
	s.queueSeats(b)
	s.queueBuckets(b)
	s.queueOrders(b)
	s.queueOperations(b)
	s.queueRecords(b)
	s.queueFence(b)
	if err := tx.SendBatch(ctx, &b.Batch).Close(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return b.err
}

type writeBatch struct {
	pgx.Batch
	err error
}

// expect queues a statement that must touch exactly n rows.
func (b *writeBatch) expect(table string, n int, sql string, args ...any) {
	q := b.Queue(sql, args...)
	q.Fn = func(br pgx.BatchResults) error {
		tag, err := br.Exec()
		if err == nil && tag.RowsAffected() != int64(n) && b.err == nil {
			b.err = fmt.Errorf("write %s: %d rows changed, %d expected", table, tag.RowsAffected(), n)
		}
		return err
	}
}

func (s *state) queueHolds(b *writeBatch) {
	var rows []*hold
	for _, h := range s.holds {
		if h.dirty {
			rows = append(rows, h)
		}
	}
	if len(rows) == 0 {
		return
	}
	slices.SortFunc(rows, func(x, y *hold) int { return compareIDs(x.ID, y.ID) })
	b.expect("hold", len(rows), sqlWriteHolds, s.event,
		column(rows, func(h *hold) usher.HoldID { return h.ID }),
		column(rows, func(h *hold) usher.AccountID { return h.Account }),
		column(rows, func(h *hold) *usher.SessionID { return nullable(h.session) }),
		column(rows, func(h *hold) string { return string(h.Status) }),
		column(rows, func(h *hold) time.Time { return h.ExpiresAt }),
		column(rows, func(h *hold) *time.Time { return h.GraceUntil }),
		column(rows, func(h *hold) string { return join(h.Seats, func(p Seat) string { return string(p.ID) }) }),
		column(rows, func(h *hold) string { return join(h.Seats, func(p Seat) string { return string(p.Tier) }) }),
		column(rows, func(h *hold) int32 { return int32(h.PriceVersion) }),
		column(rows, func(h *hold) int64 { return h.Amount.AmountMinor }),
		column(rows, func(h *hold) string { return string(h.Amount.Currency) }),
		column(rows, func(h *hold) string { return h.key }),
		column(rows, func(h *hold) []byte { return h.digest }),
		column(rows, func(h *hold) time.Time { return h.CreatedAt }),
		column(rows, func(h *hold) *time.Time { return h.endedAt }),
		column(rows, func(h *hold) int32 { return int32(h.places) }),
		column(rows, func(h *hold) string { return join(h.Items, func(i Item) string { return string(i.Tier) }) }))
	s.queueHoldLines(b, rows)
}

// queueHoldLines writes the lines of holds that are new in this group.
func (s *state) queueHoldLines(b *writeBatch, holds []*hold) {
	type row struct {
		usher.HoldID
		holdLine
	}
	var rows []row
	for _, h := range holds {
		if h.fresh {
			for _, l := range h.lines {
				rows = append(rows, row{h.ID, l})
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	b.expect("hold_line", len(rows), sqlWriteHoldLines,
		column(rows, func(r row) usher.HoldID { return r.HoldID }),
		column(rows, func(r row) string { return string(r.tier) }),
		column(rows, func(r row) int32 { return int32(r.bucket) }),
		column(rows, func(r row) int32 { return int32(r.quantity) }))
}

func (s *state) queueBuckets(b *writeBatch) {
	var keys []bucketKey
	for k, v := range s.buckets {
		if v.dirty {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return
	}
	slices.SortFunc(keys, func(x, y bucketKey) int {
		if c := strings.Compare(string(x.tier), string(y.tier)); c != 0 {
			return c
		}
		return x.bucket - y.bucket
	})
	b.expect("inventory_bucket", len(keys), sqlWriteBuckets, s.event,
		column(keys, func(k bucketKey) string { return string(k.tier) }),
		column(keys, func(k bucketKey) int32 { return int32(k.bucket) }),
		column(keys, func(k bucketKey) int32 { return int32(s.buckets[k].available) }),
		column(keys, func(k bucketKey) int32 { return int32(s.buckets[k].held) }),
		column(keys, func(k bucketKey) int32 { return int32(s.buckets[k].sold) }),
		column(keys, func(k bucketKey) int64 { return s.buckets[k].version }))
}

func (s *state) queueSeats(b *writeBatch) {
	var rows []*seat
	for _, id := range slices.Sorted(maps.Keys(s.seats)) {
		if s.seats[id].dirty {
			rows = append(rows, s.seats[id])
		}
	}
	if len(rows) == 0 {
		return
	}
	b.expect("seat_inventory", len(rows), sqlWriteSeats, s.event,
		column(rows, func(st *seat) string { return string(st.id) }),
		column(rows, func(st *seat) string { return string(st.tier) }),
		column(rows, func(st *seat) int32 { return int32(st.price) }),
		column(rows, func(st *seat) string { return string(st.status) }),
		column(rows, func(st *seat) *usher.HoldID { return nullable(st.hold) }),
		column(rows, func(st *seat) *time.Time { return st.expires }),
		column(rows, func(st *seat) *usher.OrderID { return nullable(st.order) }),
		column(rows, func(st *seat) int64 { return st.version }))
}

func (s *state) queueOrders(b *writeBatch) {
	var rows []*order
	for _, o := range s.orders {
		if o.dirty {
			rows = append(rows, o)
		}
	}
	if len(rows) == 0 {
		return
	}
	slices.SortFunc(rows, func(x, y *order) int { return compareIDs(x.ID, y.ID) })
	b.expect("orders", len(rows), sqlWriteOrders, s.event,
		column(rows, func(o *order) usher.OrderID { return o.ID }),
		column(rows, func(o *order) usher.HoldID { return o.Hold }),
		column(rows, func(o *order) usher.AccountID { return o.Account }),
		column(rows, func(o *order) int64 { return o.Amount.AmountMinor }),
		column(rows, func(o *order) string { return string(o.Amount.Currency) }),
		column(rows, func(o *order) int32 { return int32(s.holds[o.Hold].PriceVersion) }),
		column(rows, func(o *order) string { return string(o.Status) }),
		column(rows, func(o *order) *usher.OperationID { return nullable(o.operation) }),
		column(rows, func(o *order) time.Time { return o.CreatedAt }),
		column(rows, func(o *order) *time.Time { return o.ConfirmedAt }),
		column(rows, func(o *order) *time.Time { return o.CapturedAt }),
		column(rows, func(o *order) *time.Time { return o.ClosedAt }),
		column(rows, func(o *order) *string { return nullable(o.CloseReason) }))
	s.queueLines(b, rows)
}

func (s *state) queueLines(b *writeBatch, orders []*order) {
	type row struct {
		*order
		line
		n int16
	}
	var rows []row
	for _, o := range orders {
		for i, l := range o.lines {
			rows = append(rows, row{o, l, int16(i + 1)})
		}
	}
	b.expect("order_line", len(rows), sqlWriteLines, s.event,
		column(rows, func(r row) usher.OrderID { return r.ID }),
		column(rows, func(r row) int16 { return r.n }),
		column(rows, func(r row) usher.AccountID { return r.Account }),
		column(rows, func(r row) *string { return nullable(string(r.seat)) }),
		column(rows, func(r row) *int32 { return nullable(int32(r.bucket)) }),
		column(rows, func(r row) string { return string(r.tier) }),
		column(rows, func(r row) int64 { return r.amount }),
		column(rows, func(r row) string { return r.state }))
}

func (s *state) queueOperations(b *writeBatch) {
	var rows []*operation
	for _, op := range s.operations {
		if op.dirty {
			rows = append(rows, op)
		}
	}
	if len(rows) == 0 {
		return
	}
	// An attempt that failed frees its place in the unique index of live
	// operations before a later one takes it: ids are in order of time.
	slices.SortFunc(rows, func(x, y *operation) int { return compareIDs(x.ID, y.ID) })
	b.expect("payment_operation", len(rows), sqlWriteOperations, s.event,
		column(rows, func(op *operation) usher.OperationID { return op.ID }),
		column(rows, func(op *operation) usher.OrderID { return op.Order }),
		column(rows, func(op *operation) string { return string(op.Kind) }),
		column(rows, func(op *operation) string { return string(op.Status) }),
		column(rows, func(op *operation) string { return op.Provider }),
		column(rows, func(op *operation) string { return op.Reference }),
		column(rows, func(op *operation) string { return op.MethodToken }),
		column(rows, func(op *operation) int64 { return op.Amount.AmountMinor }),
		column(rows, func(op *operation) string { return string(op.Amount.Currency) }),
		column(rows, func(op *operation) string { return op.Key }),
		column(rows, func(op *operation) string { return op.ProviderCode }),
		column(rows, func(op *operation) *time.Time { return op.CaptureBefore }),
		column(rows, func(op *operation) *time.Time { return op.settledAt }),
		column(rows, func(op *operation) time.Time { return op.CreatedAt }),
		column(rows, func(op *operation) time.Time { return op.UpdatedAt }),
		column(rows, func(op *operation) *time.Time { return op.NextAt }))
}

func (s *state) queueRecords(b *writeBatch) {
	var keys []recordKey
	for k, r := range s.records {
		if r.dirty {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return
	}
	slices.SortFunc(keys, func(x, y recordKey) int {
		if c := compareIDs(x.account, y.account); c != 0 {
			return c
		}
		return strings.Compare(x.operation+"\x00"+x.key, y.operation+"\x00"+y.key)
	})
	b.expect("idempotency_record", len(keys), sqlWriteRecords, s.event, s.now,
		column(keys, func(k recordKey) usher.AccountID { return k.account }),
		column(keys, func(k recordKey) string { return k.operation }),
		column(keys, func(k recordKey) string { return k.key }),
		column(keys, func(k recordKey) []byte { return s.records[k].digest }),
		column(keys, func(k recordKey) []byte { return mustJSON(s.records[k].result) }),
		column(keys, func(k recordKey) *time.Time { return s.records[k].expires }))
}

func (s *state) queueFence(b *writeBatch) {
	rows := s.entries
	q := b.Queue(sqlFenceAndPublish, s.event, s.epoch, s.rulesVersion, int64(len(rows)), s.now,
		column(rows, func(e *Entry) usher.CommandID { return e.Command }),
		column(rows, func(e *Entry) string { return e.Aggregate }),
		column(rows, func(e *Entry) string { return string(e.Type) }),
		column(rows, func(e *Entry) string { return e.Cause }),
		column(rows, func(e *Entry) []byte { return mustJSON(storePayload(e.Payload)) }))
	q.QueryRow(func(row pgx.Row) error {
		var seq *int64
		var published int
		if err := row.Scan(&seq, &published); err != nil {
			return inTurn(err)
		}
		switch {
		case b.err != nil:
		case seq == nil:
			b.err = errStale
		case published != len(rows):
			b.err = fmt.Errorf("write outbox: %d rows, %d expected", published, len(rows))
		default:
			for i, e := range rows {
				e.Seq = *seq - int64(len(rows)) + int64(i) + 1
			}
		}
		return nil
	})
}

// inTurn tells a timeout at the ledger row from one at a row that can be skipped.
func inTurn(err error) error {
	if pg.IsLockTimeout(err) {
		return fmt.Errorf("%w: %w", errTurn, err)
	}
	return err
}

func column[R, V any](rows []R, value func(R) V) []V {
	out := make([]V, len(rows))
	for i, r := range rows {
		out[i] = value(r)
	}
	return out
}

func join[R any](rows []R, text func(R) string) string {
	return strings.Join(column(rows, text), "\x1f")
}

func nullable[T comparable](v T) *T {
	if zero := *new(T); v == zero {
		return nil
	}
	return &v
}
