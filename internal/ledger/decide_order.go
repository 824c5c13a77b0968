package ledger

import (
	"slices"
	"time"

	"usher"
)

// firstLookAfter is when the runner looks at a new authorization whose driver
// has said nothing: late enough for the driver to go first, early enough for a
// buyer whose server died.
const firstLookAfter = 5 * time.Second

func (c *BeginPayment) validate() error {
	if err := usher.CheckKey("idempotencyKey", c.Key); err != nil {
		return err
	}
	if c.MethodToken == "" {
		return nil
	}
	return usher.CheckText("paymentMethodToken", c.MethodToken, 255)
}

func (c *BeginPayment) digest() []byte {
	return digest(opCheckout, c.Hold.String(), c.MethodToken)
}

// decide begins a payment, or returns the hold's order when one is in motion or done.
func (c *BeginPayment) decide(s *state) (answer, error) {
	h := s.holds[c.Hold]
	switch {
	case h == nil && s.partial:
		return answer{}, errMissed
	case h == nil || h.Account != c.Account:
		return answer{}, errNoHold
	}
	a, sum := s.accounts[c.Account], c.digest()
	if a == nil || !s.complete(h) {
		return answer{}, errMissed
	}
	k := recordKey{c.Account, opCheckout, c.Key}
	if r, err := s.replay(k, sum); err != nil {
		return answer{}, err
	} else if r != nil && r.result.Code != "" {
		return answer{}, r.refusal()
	} else if r != nil && s.orders[r.result.Order] != nil {
		return c.existing(s, s.orders[r.result.Order])
	}
	if o := s.ordersBy[h.ID]; o != nil && o.Status != usher.OrderDeclined && o.Status != usher.OrderLapsed {
		s.records[k] = &record{digest: sum, result: recordResult{Order: o.ID}, dirty: true}
		return c.existing(s, o)
	}
	if s.rules.AdmissionRequired && !s.now.Before(a.session.expires) {
		return answer{}, usher.Errorf(usher.CodeSessionEnded, "the shopping session has ended")
	}
	if h.Status == usher.HoldHeld && !s.owns(h) {
		s.endHold(h, usher.HoldExpired, EntryHoldExpired, "BeginPayment")
	}
	if refusal := c.refused(s, a, h); refusal != nil {
		if refusal.Code != usher.CodeInvalidRequest && refusal.Code != usher.CodePendingLimit {
			s.remember(k, sum, refusal)
		}
		return answer{}, refusal
	}
	o := c.begin(s, h)
	s.records[k] = &record{digest: sum, result: recordResult{Order: o.ID}, dirty: true}
	return answer{order: s.orderView(o), started: true}, nil
}

func (c *BeginPayment) existing(s *state, o *order) (answer, error) {
	v := s.orderView(o)
	v.Replayed = true
	return answer{order: v}, nil
}

// refused returns the reason why no payment may begin, or nil (docs/rules.md).
func (c *BeginPayment) refused(s *state, a *account, h *hold) *usher.Error {
	switch h.Status {
	case usher.HoldExpired:
		return usher.Errorf(usher.CodeHoldExpired, "this hold has expired")
	case usher.HoldReleased, usher.HoldConfirmed:
		return usher.Errorf(usher.CodeHoldEnded, "this hold has ended")
	}
	switch {
	case s.rules.Sale == usher.SaleCancelled:
		return usher.Errorf(usher.CodeEventCancelled, "the event is cancelled")
	case a.blocked:
		return usher.Errorf(usher.CodeAccountBlocked, "this account may not buy")
	case !s.now.Before(h.ExpiresAt):
		return usher.Errorf(usher.CodeHoldExpired, "this hold has expired")
	case h.ExpiresAt.Sub(s.now) < s.rules.PayMargin:
		return usher.Errorf(usher.CodeTooLateToPay, "too little time is left to pay for this hold")
	case a.used(s.now) > s.rules.PurchaseLimit:
		return usher.Errorf(usher.CodeLimitExceeded, "the limit is %d per account", s.rules.PurchaseLimit)
	case a.pending() >= s.rules.PendingPerAccountMax || s.pendingInEvent >= s.rules.PendingPerEventMax:
		return usher.Errorf(usher.CodePendingLimit, "too many payments are pending at once")
	case h.Amount.AmountMinor > 0 && c.MethodToken == "":
		return usher.Errorf(usher.CodeInvalidRequest, "paymentMethodToken is missing")
	}
	return nil
}

// owns reports whether every seat of a live hold is still its own. One that had
// lapsed may have lost them to a new hold before anything ended it; its deadline is
// to come again when the database's clock was set back.
func (s *state) owns(h *hold) bool {
	return !slices.ContainsFunc(h.Seats, func(place Seat) bool { return !s.seats[place.ID].ownedBy(h.ID, usher.SeatHeld) })
}

// begin makes the seats pending and writes the order, or its next attempt, with
// the authorization to run. A total of zero has nothing to authorize.
func (c *BeginPayment) begin(s *state, h *hold) *order {
	o := s.ordersBy[h.ID]
	if o == nil {
		o = newOrder(s, h)
	} else {
		s.moveOrder(o, usher.OrderPaymentPending, "")
	}
	o.setLines(linePending)
	grace := h.ExpiresAt.Add(s.rules.Grace)
	if h.GraceUntil == nil {
		h.GraceUntil = &grace
	}
	s.moveHold(h, usher.HoldPaymentPending)
	p := s.movePlaces(h, usher.SeatHeld, usher.SeatPending, o)
	o.operation = usher.OperationID{}
	if h.Amount.AmountMinor > 0 {
		op := s.newOperation(o, usher.OperationAuthorize, c.Provider, s.now.Add(firstLookAfter))
		op.MethodToken = c.MethodToken
		o.operation = op.ID
	}
	p.Amount = &o.Amount
	s.publish(o.ID.String(), EntryPaymentBegun, "BeginPayment", p)
	return o
}

func newOrder(s *state, h *hold) *order {
	o := &order{Order: Order{
		ID: usher.NewOrderID(s.event), Hold: h.ID, Event: s.event, Account: h.Account, Status: usher.OrderPaymentPending,
		Amount: h.Amount, Seats: h.Seats, Items: h.Items, CreatedAt: s.now,
	}, dirty: true}
	for _, place := range h.Seats {
		o.lines = append(o.lines, line{seat: place.ID, tier: place.Tier, amount: place.Price.AmountMinor, state: linePending})
	}
	for _, l := range h.lines {
		for range l.quantity {
			o.lines = append(o.lines, line{bucket: l.bucket, tier: l.tier, amount: s.prices[h.PriceVersion][l.tier].amount, state: linePending})
		}
	}
	s.orders[o.ID], s.ordersBy[h.ID] = o, o
	return o
}

// newOperation writes a durable intent towards the provider, due at the given
// time. Its id is the stem of every idempotency key the provider will see.
func (s *state) newOperation(o *order, kind usher.OperationKind, provider string, due time.Time) *operation {
	id := usher.NewOperationID(s.event)
	op := &operation{Operation: Operation{
		ID: id, Order: o.ID, Event: s.event, Kind: kind, Status: usher.OperationCreated, Provider: provider,
		Amount: o.Amount, Key: id.String(), CreatedAt: s.now, UpdatedAt: s.now, NextAt: &due,
	}, dirty: true}
	s.operations[id] = op
	return op
}

// followUp writes the capture or void that belongs to the order's authorization.
func (s *state) followUp(o *order, kind usher.OperationKind) {
	auth := s.authorization(o)
	op := s.newOperation(o, kind, auth.Provider, s.now)
	op.Reference = auth.Reference
	op.CaptureBefore = auth.CaptureBefore
}

// authorization returns the order's authorization, or nil where there was nothing to
// authorize. One that is not in this group ends the group: without it money would be
// taken for nothing, or never given back.
func (s *state) authorization(o *order) *operation {
	if o.operation.IsZero() {
		return nil
	}
	op := s.operations[o.operation]
	if op == nil {
		panic("ledger: the authorization of order " + o.ID.String() + " is not in this group")
	}
	return op
}

// find returns the order with its hold and seats, all locked in this group.
func (s *state) find(id usher.OrderID) (*order, *hold, error) {
	o := s.orders[id]
	if o == nil && s.partial {
		return nil, nil, errMissed
	}
	if o == nil {
		return nil, nil, errNoOrder
	}
	h := s.holds[o.Hold]
	if h == nil || !s.complete(h) || s.accounts[o.Account] == nil {
		return nil, nil, errMissed
	}
	return o, h, nil
}

var errSent = usher.Errorf(usher.CodeStateConflict, "the provider has been asked meanwhile")

func conflict(o *order) error {
	return usher.Errorf(usher.CodeStateConflict, "the order is %s", o.Status)
}

// decide sells the seats, or closes the door with a reason.
func (c *ConfirmOrder) decide(s *state) (answer, error) {
	o, h, err := s.find(c.Order)
	if err != nil {
		return answer{}, err
	}
	auth := s.authorization(o)
	switch {
	case o.Status == usher.OrderConfirmed && o.operation == c.Operation:
		return answer{order: s.orderView(o)}, nil
	case o.Status != usher.OrderPaymentPending && o.Status != usher.OrderDeclined:
		return answer{}, usher.Errorf(usher.CodeOrderClosed, "the order is %s", o.Status)
	case o.Status == usher.OrderDeclined, o.operation != c.Operation, auth != nil && auth.Status == usher.OperationFailed:
		return answer{}, conflict(o)
	}
	if reason := c.refused(s, o, h); reason != nil {
		s.closeDoor(o, h, string(reason.Code))
		if auth != nil {
			s.settle(auth, usher.OperationSucceeded, "")
		} else {
			// Nothing was authorized, so there is nothing to wait for.
			s.finishVoid(o, h)
		}
		return answer{}, reason
	}
	c.sell(s, o, h, auth)
	return answer{order: s.orderView(o)}, nil
}

// refused re-checks at the last moment what was checked at the hold: owner,
// count, amount, limit and rules.
func (c *ConfirmOrder) refused(s *state, o *order, h *hold) *usher.Error {
	a := s.accounts[o.Account]
	sum := usher.Money{Currency: o.Amount.Currency}
	for _, l := range o.lines {
		if l.seat != "" && (!s.seats[l.seat].ownedBy(o.Hold, usher.SeatPending) || s.seats[l.seat].order != o.ID) {
			panic("ledger: pending order " + o.ID.String() + " does not own seat " + string(l.seat))
		}
		sum.AmountMinor += l.amount
	}
	switch {
	case sum != o.Amount || len(o.lines) != h.places || c.Authorized != o.Amount:
		return usher.Errorf(usher.CodePaymentMismatch, "the amount authorized is not the amount of the order")
	case s.rules.Sale == usher.SaleCancelled:
		return usher.Errorf(usher.CodeEventCancelled, "the event is cancelled")
	case a.blocked:
		return usher.Errorf(usher.CodeAccountBlocked, "this account may not buy")
	case a.used(s.now) > s.rules.PurchaseLimit:
		return usher.Errorf(usher.CodeLimitExceeded, "the limit is %d per account", s.rules.PurchaseLimit)
	}
	return nil
}

// sell writes seats sold, order confirmed and the capture to run, all in one commit.
func (c *ConfirmOrder) sell(s *state, o *order, h *hold, auth *operation) {
	p := s.movePlaces(h, usher.SeatPending, usher.SeatSold, o)
	p.Amount = &o.Amount
	o.setLines(lineSold)
	s.moveOrder(o, usher.OrderConfirmed, "")
	s.moveHold(h, usher.HoldConfirmed)
	s.accounts[o.Account].sold += len(o.lines)
	s.publish(o.ID.String(), EntryOrderConfirmed, "ConfirmOrder", p)
	if auth != nil {
		s.settle(auth, usher.OperationSucceeded, "")
		s.followUp(o, usher.OperationCapture)
		return
	}
	now := s.now
	o.CapturedAt = &now
	p.Seats, p.Buckets = nil, nil
	s.publish(o.ID.String(), EntryOrderCaptured, "ConfirmOrder", p)
}

// closeDoor refuses confirmation from now on and asks for the authorization to
// be given up. The seats stay pending until the provider has answered.
func (s *state) closeDoor(o *order, h *hold, reason string) {
	s.moveOrder(o, usher.OrderVoiding, reason)
	if s.authorization(o) != nil {
		s.followUp(o, usher.OperationVoid)
	}
	s.publish(o.ID.String(), EntryOrderVoiding, "VoidOrder: "+reason, Payload{Account: o.Account, Hold: h.ID, Order: o.ID})
}

// decide records a definite decline.
func (c *FailPayment) decide(s *state) (answer, error) {
	o, h, err := s.find(c.Order)
	if err != nil {
		return answer{}, err
	}
	auth := s.operations[c.Operation]
	switch {
	case auth == nil || auth.Order != o.ID || auth.Kind != usher.OperationAuthorize:
		return answer{}, usher.Errorf(usher.CodeNotFound, "no such payment operation")
	case auth.Status == usher.OperationFailed:
		return answer{order: s.orderView(o)}, nil
	case o.Status != usher.OrderPaymentPending || o.operation != c.Operation:
		return answer{}, conflict(o)
	case c.Unsent && auth.SentAt != nil:
		return answer{}, errSent
	}
	s.settle(auth, usher.OperationFailed, c.ProviderCode)
	var p Payload
	if s.now.Before(h.ExpiresAt) {
		p = s.movePlaces(h, usher.SeatPending, usher.SeatHeld, o)
		s.moveHold(h, usher.HoldHeld)
		s.moveOrder(o, usher.OrderDeclined, "")
	} else {
		p = s.movePlaces(h, usher.SeatPending, usher.SeatAvailable, o)
		s.moveHold(h, usher.HoldExpired)
		s.moveOrder(o, usher.OrderLapsed, "declined")
		o.setLines(lineReleased)
	}
	s.publish(o.ID.String(), EntryPaymentFailed, "FailPayment", p)
	return answer{order: s.orderView(o)}, nil
}

// decide closes the door.
func (c *VoidOrder) decide(s *state) (answer, error) {
	o, h, err := s.find(c.Order)
	if err != nil {
		return answer{}, err
	}
	switch o.Status {
	case usher.OrderVoiding, usher.OrderVoided:
		return answer{order: s.orderView(o)}, nil
	case usher.OrderPaymentPending:
		s.closeDoor(o, h, c.Reason)
		if s.authorization(o) == nil {
			s.finishVoid(o, h)
		}
		return answer{order: s.orderView(o)}, nil
	}
	return answer{}, conflict(o)
}

// decide frees the seats of a voiding order, or ends the void that followed a
// cancellation, whose seats went back with the cancellation.
func (c *FinishVoid) decide(s *state) (answer, error) {
	o, h, err := s.find(c.Order)
	if err != nil {
		return answer{}, err
	}
	op := s.operations[c.Operation]
	if op == nil || op.Order != o.ID || op.Kind != usher.OperationVoid {
		return answer{}, usher.Errorf(usher.CodeNotFound, "no such payment operation")
	}
	if op.Status == usher.OperationSucceeded {
		return answer{order: s.orderView(o)}, nil
	}
	if o.Status != usher.OrderVoiding && o.Status != usher.OrderCancelled {
		return answer{}, conflict(o)
	}
	auth := s.authorization(o)
	if c.Unsent && auth.SentAt != nil {
		return answer{}, errSent
	}
	s.settle(op, usher.OperationSucceeded, "")
	s.endCapture(o)
	if auth.Status == usher.OperationSucceeded {
		s.settle(auth, usher.OperationReversed, "")
	} else {
		s.settle(auth, usher.OperationFailed, "voided")
	}
	if o.Status == usher.OrderVoiding {
		s.finishVoid(o, h)
	}
	return answer{order: s.orderView(o)}, nil
}

// endCapture ends the capture of an order whose money was given back: one that
// was never made ends failed, one that was made is reversed.
func (s *state) endCapture(o *order) {
	for _, op := range s.operations {
		switch {
		case op.Order != o.ID || op.Kind != usher.OperationCapture:
		case op.Status == usher.OperationSucceeded:
			s.settle(op, usher.OperationReversed, "")
		case op.settledAt == nil:
			s.settle(op, usher.OperationFailed, "cancelled")
		}
	}
}

func (s *state) finishVoid(o *order, h *hold) {
	p := s.movePlaces(h, usher.SeatPending, usher.SeatAvailable, o)
	s.moveHold(h, usher.HoldReleased)
	s.moveOrder(o, usher.OrderVoided, "")
	o.setLines(lineReleased)
	s.publish(o.ID.String(), EntryOrderVoided, "FinishVoid", p)
}

// decide ends a capture: tickets may follow, or the order is cancelled before
// any exist.
func (c *SettleCapture) decide(s *state) (answer, error) {
	o, h, err := s.find(c.Order)
	if err != nil {
		return answer{}, err
	}
	op := s.operations[c.Operation]
	want := usher.OperationFailed
	if c.Captured {
		want = usher.OperationSucceeded
	}
	switch {
	case op == nil || op.Order != o.ID || op.Kind != usher.OperationCapture:
		return answer{}, usher.Errorf(usher.CodeNotFound, "no such payment operation")
	case op.Status == want:
		return answer{order: s.orderView(o)}, nil
	case o.Status != usher.OrderConfirmed || op.Status == usher.OperationSucceeded || op.Status == usher.OperationFailed:
		return answer{}, conflict(o)
	}
	s.settle(op, want, c.ProviderCode)
	if c.Captured {
		now := s.now
		o.CapturedAt, o.dirty = &now, true
		s.publish(o.ID.String(), EntryOrderCaptured, "SettleCapture", Payload{Account: o.Account, Hold: h.ID, Order: o.ID, Amount: &o.Amount})
		return answer{order: s.orderView(o)}, nil
	}
	s.cancel(o, h, "capture failed", "SettleCapture")
	return answer{order: s.orderView(o)}, nil
}
