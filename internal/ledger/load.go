package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
)

// load is trip 1: it locks every row of the key set, class by class, then reads
// what decisions need, the database clock last. A run that skips locked rows has a
// partial state.
func (l *Ledger) load(ctx context.Context, tx pgx.Tx, k *keySet, r run) (*state, error) {
	s := newState(r.event)
	s.partial = r.skipLocked
	b := &loadBatch{s: s, skipLocked: r.skipLocked}
	b.lockRows(k)
	if ids := sortedIDs(k.cancels); len(ids) > 0 && l.codes != nil {
		l.codes.LockCodes(&b.Batch, ids, r.skipLocked, s.forget)
	}
	b.readResults(k)
	b.readUsage(k)
	if len(r.counted) > 0 {
		b.readMoreDue(k, r.counted)
	}
	b.Queue(sqlReadLedger, r.event).QueryRow(s.scanLedger)
	if err := tx.SendBatch(ctx, &b.Batch).Close(); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, errNoEvent
		}
		return nil, fmt.Errorf("lock and read: %w", err)
	}
	if k.pending && s.pendingInEvent > s.rules.PendingPerEventMax-pendingMargin {
		if err := s.recountPending(ctx, tx); err != nil {
			return nil, err
		}
	}
	prices, err := l.prices.get(ctx, tx, r.event, s.epoch, s.rulesVersion)
	if err != nil {
		return nil, err
	}
	s.prices = prices
	s.priceHolds()
	return s, nil
}

// recountPending counts once more with the ledger row locked, which every group
// takes last: so near the maximum, what other processes are about to commit matters.
func (s *state) recountPending(ctx context.Context, tx pgx.Tx) error {
	b := &loadBatch{s: s}
	b.Queue(sqlLockLedger, s.event)
	b.readPending()
	b.Queue(sqlReadLedger, s.event).QueryRow(s.scanLedger)
	if err := tx.SendBatch(ctx, &b.Batch).Close(); err != nil {
		return fmt.Errorf("recount payments: %w", inTurn(err))
	}
	return nil
}

// loadBatch queues the statements of trip 1, or of a reading; their rows land in s.
type loadBatch struct {
	pgx.Batch
	s          *state
	skipLocked bool
}

func (b *loadBatch) lock(sql string, args ...any) *pgx.QueuedQuery {
	if b.skipLocked {
		sql = strings.Replace(sql, "FOR NO KEY UPDATE", "FOR NO KEY UPDATE SKIP LOCKED", 1)
	}
	return b.Queue(sql, args...)
}

func (b *loadBatch) lockRows(k *keySet) {
	if ids := sortedIDs(k.accounts); len(ids) > 0 {
		// An account that another transaction adds is no row that could be skipped.
		b.Queue(sqlEnsureUsage, b.s.event, ids).Fn = func(br pgx.BatchResults) error {
			_, err := br.Exec()
			return inTurn(err)
		}
		b.lock(sqlLockUsage, b.s.event, ids).Query(b.s.scanAccounts)
	}
	if len(k.seats) > 0 {
		b.lock(sqlLockSeats, b.s.event, slices.Sorted(maps.Keys(k.seats))).Query(b.s.scanSeats)
	}
	if len(k.tiers) > 0 {
		// Twice: with the locks of the first one held, nobody makes a bucket of these
		// tiers, and the second one sees, and locks, those made while it waited.
		tiers := slices.Sorted(maps.Keys(k.tiers))
		b.lock(sqlLockBuckets, b.s.event, tiers)
		b.lock(sqlLockBuckets, b.s.event, tiers).Query(b.s.scanBuckets)
	}
	if ids := sortedIDs(k.holds); len(ids) > 0 {
		b.lock(sqlLockHolds, ids).Query(b.s.scanLockedHolds)
		if len(k.tiers) > 0 {
			b.Queue(sqlReadHoldLines, ids).Query(b.s.scanHoldLines)
		}
		b.lock(sqlLockOrders, ids).Query(b.s.scanOrders)
		b.lock(sqlLockOperations, ids).Query(b.s.scanOperations)
		if b.skipLocked {
			b.Queue(sqlReadPayments, ids).Query(b.s.forgetSkipped)
		}
		b.Queue(sqlReadLines, ids).Query(b.s.scanLines)
	}
}

// readResults reads what earlier requests with the same keys were answered.
func (b *loadBatch) readResults(k *keySet) {
	if len(k.holdKeys) > 0 {
		accounts, keys := make([]usher.AccountID, 0, len(k.holdKeys)), make([]string, 0, len(k.holdKeys))
		for key := range k.holdKeys {
			accounts, keys = append(accounts, key.account), append(keys, key.key)
		}
		b.Queue(sqlReadHoldKeys, b.s.event, accounts, keys).Query(func(rows pgx.Rows) error {
			return b.s.scanHolds(rows, b.s.addHoldByKey)
		})
	}
	if len(k.records) > 0 {
		accounts := make([]usher.AccountID, 0, len(k.records))
		operations, keys := make([]string, 0, len(k.records)), make([]string, 0, len(k.records))
		for key := range k.records {
			accounts, operations, keys = append(accounts, key.account), append(operations, key.operation), append(keys, key.key)
		}
		b.Queue(sqlReadRecords, b.s.event, accounts, operations, keys).Query(b.s.scanRecords)
	}
}

func (b *loadBatch) readUsage(k *keySet) {
	if ids := sortedIDs(k.accounts); len(ids) > 0 {
		b.Queue(sqlReadLive, b.s.event, ids).Query(b.s.scanLive)
		b.Queue(sqlReadSold, b.s.event, ids).Query(b.s.scanSold)
		b.Queue(sqlReadSessions, b.s.event, ids).Query(b.s.scanSessions)
	}
	if k.pending {
		b.readPending()
	}
}

// readMoreDue asks, under the locks, whether holds of the tiers are due that trip 0
// did not find: they lapsed while the locks were waited for.
func (b *loadBatch) readMoreDue(k *keySet, tiers []usher.TierID) {
	// Not nil, which is NULL: nothing differs from all of NULL.
	known := append([]usher.HoldID{}, sortedIDs(k.holds)...)
	b.Queue(sqlMoreDue, b.s.event, tiers, known).QueryRow(func(row pgx.Row) error { return row.Scan(&b.s.moreDue) })
}

func (b *loadBatch) readPending() {
	b.Queue(sqlReadPending, b.s.event).QueryRow(func(row pgx.Row) error { return row.Scan(&b.s.pendingInEvent) })
}

// addHoldByKey keeps a hold found by its idempotency key; when the group locked
// it as well, that row is the one.
func (s *state) addHoldByKey(h *hold) {
	if locked := s.holds[h.ID]; locked != nil {
		h = locked
	}
	s.holdKeys[accountKey{h.Account, h.key}] = h
}

func (s *state) scanAccounts(rows pgx.Rows) error {
	var id usher.AccountID
	var blocked bool
	_, err := pgx.ForEachRow(rows, []any{&id, &blocked}, func() error {
		s.accounts[id] = &account{blocked: blocked, live: map[usher.HoldID]usage{}}
		return nil
	})
	return err
}

func (s *state) scanSeats(rows pgx.Rows) error {
	defer rows.Close()
	for rows.Next() {
		st := &seat{}
		var h *usher.HoldID
		var o *usher.OrderID
		if err := rows.Scan(&st.id, &st.tier, &st.price, &st.status, &h, &st.expires, &o, &st.version); err != nil {
			return fmt.Errorf("scan seat: %w", err)
		}
		st.hold, st.order = deref(h), deref(o)
		s.seats[st.id] = st
	}
	return rows.Err()
}

func (s *state) scanBuckets(rows pgx.Rows) error {
	defer rows.Close()
	for rows.Next() {
		var k bucketKey
		b := &bucket{}
		if err := rows.Scan(&k.tier, &k.bucket, &b.available, &b.held, &b.sold, &b.version); err != nil {
			return fmt.Errorf("scan bucket: %w", err)
		}
		s.buckets[k] = b
	}
	return rows.Err()
}

func (s *state) scanHoldLines(rows pgx.Rows) error {
	var id usher.HoldID
	var l holdLine
	_, err := pgx.ForEachRow(rows, []any{&id, &l.tier, &l.bucket, &l.quantity}, func() error {
		if h := s.holds[id]; h != nil {
			h.lines = append(h.lines, l)
		}
		return nil
	})
	return err
}

func (s *state) scanLockedHolds(rows pgx.Rows) error {
	return s.scanHolds(rows, func(h *hold) { s.holds[h.ID] = h })
}

func (s *state) scanHolds(rows pgx.Rows, add func(*hold)) error {
	defer rows.Close()
	for rows.Next() {
		h, err := scanHold(rows)
		if err != nil {
			return err
		}
		h.Event = s.event
		add(h)
	}
	return rows.Err()
}

// scanHold reads the columns that sqlLockHolds lists. Prices are filled in later.
func scanHold(row pgx.Row) (*hold, error) {
	h := &hold{}
	var session *usher.SessionID
	var ids []usher.SeatID
	var tiers []usher.TierID
	err := row.Scan(&h.ID, &h.Account, &session, &h.Status, &h.ExpiresAt, &h.GraceUntil, &ids, &tiers, &h.PriceVersion,
		&h.Amount.AmountMinor, &h.Amount.Currency, &h.key, &h.digest, &h.CreatedAt, &h.endedAt, &h.places)
	if err != nil {
		return nil, fmt.Errorf("scan hold: %w", err)
	}
	h.session = deref(session)
	for i, id := range ids {
		h.Seats = append(h.Seats, Seat{ID: id, Tier: tiers[i]})
	}
	return h, nil
}

func (s *state) scanOrders(rows pgx.Rows) error {
	defer rows.Close()
	for rows.Next() {
		o, err := scanOrder(rows)
		if err != nil {
			return err
		}
		o.Event = s.event
		s.orders[o.ID], s.ordersBy[o.Hold] = o, o
	}
	return rows.Err()
}

// scanOrder reads the columns that sqlLockOrders lists.
func scanOrder(row pgx.Row) (*order, error) {
	o := &order{}
	var op *usher.OperationID
	var reason *string
	err := row.Scan(&o.ID, &o.Hold, &o.Account, &o.Amount.AmountMinor, &o.Amount.Currency, &o.Status, &op, &o.CreatedAt,
		&o.ConfirmedAt, &o.CapturedAt, &o.ClosedAt, &reason)
	if err != nil {
		return nil, fmt.Errorf("scan order: %w", err)
	}
	o.operation, o.CloseReason = deref(op), deref(reason)
	return o, nil
}

// forgetSkipped takes the holds out of this group whose order or payment operation
// was skipped: an order that is not seen looks like none, and an operation that is
// not seen like money that nobody was asked for.
func (s *state) forgetSkipped(rows pgx.Rows) error {
	var h usher.HoldID
	var o usher.OrderID
	var op *usher.OperationID
	_, err := pgx.ForEachRow(rows, []any{&h, &o, &op}, func() error {
		if s.orders[o] == nil || op != nil && s.operations[*op] == nil {
			delete(s.holds, h)
			s.forget(o)
		}
		return nil
	})
	return err
}

// forget takes an order out of this group, with its hold.
func (s *state) forget(id usher.OrderID) {
	if o := s.orders[id]; o != nil {
		delete(s.holds, o.Hold)
		delete(s.ordersBy, o.Hold)
		delete(s.orders, id)
	}
}

func (s *state) scanOperations(rows pgx.Rows) error {
	defer rows.Close()
	for rows.Next() {
		op, err := scanOperation(rows)
		if err != nil {
			return err
		}
		op.Event = s.event
		s.operations[op.ID] = op
	}
	return rows.Err()
}

// scanOperation reads the columns that sqlLockOperations lists.
func scanOperation(row pgx.Row) (*operation, error) {
	op := &operation{}
	err := row.Scan(&op.ID, &op.Order, &op.Kind, &op.Status, &op.Provider, &op.Reference, &op.MethodToken,
		&op.Amount.AmountMinor, &op.Amount.Currency, &op.Key, &op.ActionURL, &op.ProviderCode, &op.CaptureBefore, &op.SentAt,
		&op.settledAt, &op.CreatedAt, &op.UpdatedAt, &op.NextAt, &op.Attempts, &op.ParkedAt, &op.LastError)
	if err != nil {
		return nil, fmt.Errorf("scan payment operation: %w", err)
	}
	op.Event = op.ID.Event()
	return op, nil
}

func (s *state) scanLines(rows pgx.Rows) error {
	var id usher.OrderID
	var ln line
	_, err := pgx.ForEachRow(rows, []any{&id, &ln.seat, &ln.bucket, &ln.tier, &ln.amount, &ln.state}, func() error {
		if o := s.orders[id]; o != nil {
			o.lines = append(o.lines, ln)
		}
		return nil
	})
	return err
}

func (s *state) scanRecords(rows pgx.Rows) error {
	defer rows.Close()
	for rows.Next() {
		var k recordKey
		var raw []byte
		r := &record{}
		if err := rows.Scan(&k.account, &k.operation, &k.key, &r.digest, &raw, &r.expires); err != nil {
			return fmt.Errorf("scan idempotency record: %w", err)
		}
		if err := json.Unmarshal(raw, &r.result); err != nil {
			return fmt.Errorf("read idempotency record: %w", err)
		}
		s.records[k] = r
	}
	return rows.Err()
}

func (s *state) scanLive(rows pgx.Rows) error {
	var id usher.AccountID
	var h usher.HoldID
	var status usher.HoldStatus
	var u usage
	_, err := pgx.ForEachRow(rows, []any{&id, &h, &status, &u.expires, &u.places}, func() error {
		u.pending = status == usher.HoldPaymentPending
		if a := s.accounts[id]; a != nil {
			a.live[h] = u
		}
		return nil
	})
	return err
}

func (s *state) scanSold(rows pgx.Rows) error {
	var id usher.AccountID
	var n int
	_, err := pgx.ForEachRow(rows, []any{&id, &n}, func() error {
		if a := s.accounts[id]; a != nil {
			a.sold = n
		}
		return nil
	})
	return err
}

func (s *state) scanSessions(rows pgx.Rows) error {
	var id usher.AccountID
	var ses session
	_, err := pgx.ForEachRow(rows, []any{&id, &ses.id, &ses.expires}, func() error {
		if a := s.accounts[id]; a != nil {
			a.session = ses
		}
		return nil
	})
	return err
}

func (s *state) scanLedger(row pgx.Row) error {
	var err error
	s.epoch, s.rulesVersion, s.rules, s.now, err = scanLedger(row)
	return err
}

// scanLedger reads the columns that sqlReadLedger lists.
func scanLedger(row pgx.Row) (epoch, version int64, r usher.Rules, now time.Time, err error) {
	var holdS, graceS, marginS int
	err = row.Scan(&epoch, &version, &r.Sale, &r.SaleClosesAt, &r.AdmissionRequired, &r.PurchaseLimit, &holdS, &graceS, &marginS,
		&r.PendingPerAccountMax, &r.PendingPerEventMax, &r.PriceVersion, &r.Currency, &now)
	r.HoldTime, r.Grace, r.PayMargin = time.Duration(holdS)*time.Second, time.Duration(graceS)*time.Second, time.Duration(marginS)*time.Second
	return epoch, version, r, now, err
}

// priceHolds fills in the prices of every hold read, at the hold's own version,
// and gives orders their seats.
func (s *state) priceHolds() {
	price := func(h *hold) {
		h.Items = s.prices.itemsAt(h.PriceVersion, h.Amount.Currency, itemsOf(h.lines))
		for i := range h.Seats {
			h.Seats[i].Price = usher.Money{
				AmountMinor: s.prices[h.PriceVersion][h.Seats[i].Tier].amount, Currency: h.Amount.Currency,
			}
		}
	}
	for _, h := range s.holds {
		price(h)
	}
	for _, h := range s.holdKeys {
		price(h)
	}
	for _, o := range s.orders {
		if h := s.holds[o.Hold]; h != nil {
			o.Seats, o.Items = h.Seats, h.Items
		}
	}
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
