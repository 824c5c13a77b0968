package ledger

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"usher"
)

// state is what one group knows: the rows its commands named, read under their
// locks, and the database time read after the last lock. Decisions change it in
// memory; whatever is marked dirty is written afterwards.
type state struct {
	event        usher.EventID
	now          time.Time
	epoch        int64
	rulesVersion int64
	rules        usher.Rules
	prices       priceTable
	// pendingInEvent counts holds that are being paid for, over the whole event.
	pendingInEvent int

	accounts   map[usher.AccountID]*account
	seats      map[usher.SeatID]*seat
	buckets    map[bucketKey]*bucket
	holds      map[usher.HoldID]*hold
	orders     map[usher.OrderID]*order
	ordersBy   map[usher.HoldID]*order
	operations map[usher.OperationID]*operation
	records    map[recordKey]*record
	holdKeys   map[accountKey]*hold
	// partial says that rows locked by others were skipped: what is missing here
	// may exist, so a command that misses a row is answered busy.
	partial bool
	// moreDue says that holds of the tiers that are counted here have fallen due since
	// trip 0 looked, short that a command was refused because of such a count.
	moreDue, short bool

	entries []*Entry
	// cancelled orders have their codes voided in the same commit.
	cancelled []usher.OrderID
}

func newState(event usher.EventID) *state {
	return &state{
		event:    event,
		accounts: map[usher.AccountID]*account{}, seats: map[usher.SeatID]*seat{}, buckets: map[bucketKey]*bucket{}, holds: map[usher.HoldID]*hold{},
		orders: map[usher.OrderID]*order{}, ordersBy: map[usher.HoldID]*order{}, operations: map[usher.OperationID]*operation{},
		records: map[recordKey]*record{}, holdKeys: map[accountKey]*hold{},
	}
}

type accountKey struct {
	account usher.AccountID
	key     string
}

type recordKey struct {
	account   usher.AccountID
	operation string
	key       string
}

// account is the row that an account's commands line up on, with its usage
// recounted under that lock.
type account struct {
	blocked bool
	// live holds by id, as read; lapsed ones are told by their deadline.
	live map[usher.HoldID]usage
	// sold places over all confirmed orders.
	sold    int
	session session
}

type usage struct {
	places  int
	pending bool
	expires time.Time
}

type session struct {
	id      usher.SessionID
	expires time.Time
}

type seat struct {
	id      usher.SeatID
	tier    usher.TierID
	price   int
	status  usher.SeatStatus
	hold    usher.HoldID
	expires *time.Time
	order   usher.OrderID
	version int64
	dirty   bool
}

type hold struct {
	Hold
	lines   []holdLine
	places  int
	session usher.SessionID
	key     string
	digest  []byte
	endedAt *time.Time
	dirty   bool
	// fresh holds are placed in this group: their lines are not written yet.
	fresh bool
}

type order struct {
	Order
	operation usher.OperationID
	lines     []line
	dirty     bool
}

// line is one place of an order: a seat, or one unit of a bucket.
type line struct {
	seat   usher.SeatID
	bucket int
	tier   usher.TierID
	amount int64
	state  string
}

// Order line states.
const (
	linePending   = "pending"
	lineSold      = "sold"
	lineReleased  = "released"
	lineCancelled = "cancelled"
)

type operation struct {
	Operation
	// target is the authorization a void gives up.
	settledAt *time.Time
	dirty     bool
}

// record is the stored result of a command that has no row of its own.
type record struct {
	digest  []byte
	result  recordResult
	expires *time.Time
	dirty   bool
}

// recordResult is the JSON of idempotency_record.result.
type recordResult struct {
	Order   usher.OrderID  `json:"orderId,omitzero"`
	Code    usher.Code     `json:"code,omitempty"`
	Message string         `json:"message,omitempty"`
	Seats   []usher.SeatID `json:"seats,omitempty"`
	Tiers   []usher.TierID `json:"tiers,omitempty"`
}

// price is one tier at one price version.
type price struct {
	amount    int64
	name      string
	withdrawn bool
}

// priceTable holds every price version of an event; immutable once built.
type priceTable map[int]map[usher.TierID]price

// The operations that idempotency keys are scoped to.
const (
	opHold     = "hold"
	opCheckout = "checkout"
)

// refusalKept is how long a refusal replays under its key.
const refusalKept = 24 * time.Hour

// digest condenses the meaning of a request: an operation and its parts in a
// canonical order. Parts hold no control characters, so the separator is safe.
func digest(operation string, parts ...string) []byte {
	sum := sha256.Sum256([]byte(operation + "\x1e" + strings.Join(parts, "\x1f")))
	return sum[:]
}

// live counts the places the account holds, pays for and owns at this moment.
// Lapsed holds never count.
func (a *account) used(now time.Time) int {
	n := a.sold
	for _, u := range a.live {
		if u.pending || now.Before(u.expires) {
			n += u.places
		}
	}
	return n
}

// pending counts the holds the account is paying for.
func (a *account) pending() int {
	n := 0
	for _, u := range a.live {
		if u.pending {
			n++
		}
	}
	return n
}

// takeable reports whether a new hold may take the seat: available, or held and
// past its time. A pending seat is never taken by time.
func (s *seat) takeable(now time.Time) bool {
	return s.status == usher.SeatAvailable || s.status == usher.SeatHeld && !now.Before(*s.expires)
}

// ownedBy reports whether the seat is the hold's, in the given state.
func (s *seat) ownedBy(h usher.HoldID, status usher.SeatStatus) bool {
	return s != nil && s.status == status && s.hold == h
}

// move changes a seat's owner and state and returns the change for the outbox.
// It panics on a move outside the graph: that is a bug in a decision, and the
// whole group is dropped.
func (s *seat) move(to usher.SeatStatus, h usher.HoldID, expires *time.Time, o usher.OrderID) SeatChange {
	if !usher.CanMove(usher.SeatTransitions, s.status, to) {
		panic("ledger: seat move from " + string(s.status) + " to " + string(to))
	}
	c := SeatChange{Seat: s.id, From: s.status, To: to, Version: s.version + 1, Hold: h, Order: o, ExpiresAt: expires}
	s.status, s.hold, s.expires, s.order = to, h, expires, o
	s.version++
	s.dirty = true
	return c
}

// free makes a seat available.
func (s *seat) free() SeatChange {
	return s.move(usher.SeatAvailable, usher.HoldID{}, nil, usher.OrderID{})
}

// move changes a hold's state and the account's usage with it.
func (s *state) moveHold(h *hold, to usher.HoldStatus) {
	if !usher.CanMove(usher.HoldTransitions, h.Status, to) {
		panic("ledger: hold move from " + string(h.Status) + " to " + string(to))
	}
	if h.Status == usher.HoldPaymentPending {
		s.pendingInEvent--
	}
	h.Status, h.dirty = to, true
	a := s.accounts[h.Account]
	switch to {
	case usher.HoldHeld, usher.HoldPaymentPending:
		if to == usher.HoldPaymentPending {
			s.pendingInEvent++
		}
		if a != nil {
			a.live[h.ID] = usage{h.places, to == usher.HoldPaymentPending, h.ExpiresAt}
		}
	default:
		now := s.now
		h.endedAt = &now
		if a != nil {
			delete(a.live, h.ID)
		}
	}
}

// moveOrder changes an order's state and stamps it.
func (s *state) moveOrder(o *order, to usher.OrderStatus, reason string) {
	if !usher.CanMove(usher.OrderTransitions, o.Status, to) {
		panic("ledger: order move from " + string(o.Status) + " to " + string(to))
	}
	now := s.now
	o.Status, o.dirty = to, true
	switch to {
	case usher.OrderConfirmed:
		o.ConfirmedAt = &now
	case usher.OrderVoided, usher.OrderLapsed, usher.OrderCancelled:
		o.ClosedAt = &now
	}
	if reason != "" {
		o.CloseReason = reason
	}
}

// settle ends an operation.
func (s *state) settle(op *operation, to usher.OperationStatus, providerCode string) {
	if op.Status == to {
		return
	}
	if !usher.CanMove(usher.OperationTransitions, op.Status, to) {
		panic("ledger: operation move from " + string(op.Status) + " to " + string(to))
	}
	now := s.now
	op.Status, op.UpdatedAt, op.settledAt, op.NextAt, op.dirty = to, now, &now, nil, true
	if providerCode != "" {
		op.ProviderCode = providerCode
	}
}

// setLines moves every line of the order to the given state.
func (o *order) setLines(state string) {
	for i := range o.lines {
		o.lines[i].state = state
	}
	o.dirty = true
}

// publish adds the outbox entry of one changing command.
func (s *state) publish(aggregate string, t EntryType, cause string, p Payload) {
	s.entries = append(s.entries, &Entry{
		Event: s.event, Command: usher.NewCommandID(s.event), Aggregate: aggregate, Type: t, Cause: cause, Payload: p, At: s.now,
	})
}

// remember stores a refusal under the command's key for a day, so that it replays.
func (s *state) remember(k recordKey, digest []byte, err *usher.Error) {
	until := s.now.Add(refusalKept)
	s.records[k] = &record{digest: digest, expires: &until, dirty: true,
		result: recordResult{Code: err.Code, Message: err.Message, Seats: err.Seats, Tiers: err.Tiers}}
}

// replay finds the stored refusal or result of a key. It fails with
// CodeIdempotencyKeyReused when the key was used for something else.
func (s *state) replay(k recordKey, digest []byte) (*record, error) {
	r := s.records[k]
	if r == nil || r.expires != nil && !s.now.Before(*r.expires) {
		return nil, nil
	}
	if !slices.Equal(r.digest, digest) {
		return nil, errKeyReused()
	}
	return r, nil
}

func (r *record) refusal() error {
	return &usher.Error{Code: r.result.Code, Message: r.result.Message, Seats: r.result.Seats, Tiers: r.result.Tiers, Replayed: true}
}

func errKeyReused() error {
	return usher.Errorf(usher.CodeIdempotencyKeyReused, "this idempotency key was used for another request")
}

// view returns the hold as it stands.
func (s *state) holdView(h *hold) Hold {
	v := h.Hold
	v.Seats, v.Items = slices.Clone(h.Seats), slices.Clone(h.Items)
	v.Now = s.now
	if o := s.ordersBy[h.ID]; o != nil {
		v.Order = o.ID
	}
	return v
}

// orderView returns the order as it stands, with its operations.
func (s *state) orderView(o *order) Order {
	v := o.Order
	v.Now = s.now
	if h := s.holds[o.Hold]; h != nil {
		v.HoldExpiresAt, v.GraceUntil = h.ExpiresAt, h.GraceUntil
		v.Seats, v.Items = slices.Clone(h.Seats), slices.Clone(h.Items)
	}
	if op := s.operations[o.operation]; op != nil {
		c := op.Operation
		v.Authorization = &c
	}
	for _, op := range s.operations {
		if op.Order == o.ID && op.Kind == usher.OperationCapture {
			c := op.Operation
			v.Capture = &c
		}
	}
	return v
}

// seatsAt prices seats at one price version.
func (t priceTable) seatsAt(version int, currency usher.Currency, ids []usher.SeatID, tiers []usher.TierID) []Seat {
	out := make([]Seat, len(ids))
	for i, id := range ids {
		p := t[version][tiers[i]]
		out[i] = Seat{ID: id, Tier: tiers[i], Price: usher.Money{AmountMinor: p.amount, Currency: currency}}
	}
	return out
}

func total(seats []Seat, items []Item, currency usher.Currency) usher.Money {
	sum := usher.Money{Currency: currency}
	for _, s := range seats {
		sum = sum.Add(s.Price)
	}
	for _, i := range items {
		for range i.Quantity {
			sum = sum.Add(i.Price)
		}
	}
	return sum
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("ledger: marshal: " + err.Error())
	}
	return b
}
