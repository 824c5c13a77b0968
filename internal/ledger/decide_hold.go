package ledger

import (
	"fmt"
	"maps"
	"slices"

	"usher"
)

// answer is what a command returns to its caller.
type answer struct {
	hold    Hold
	order   Order
	started bool
	freed   int
	// moved are the seats that a staff command changed, in their order.
	moved []usher.SeatID
}

var (
	errNoEvent = usher.Errorf(usher.CodeNotFound, "no such event")
	errNoHold  = usher.Errorf(usher.CodeNotFound, "no such hold")
	errNoOrder = usher.Errorf(usher.CodeNotFound, "no such order")
	errMissed  = &usher.Error{Code: usher.CodeBusy, Message: "somebody else is changing this right now", RetryAfter: retryBusy}
)

// validate refuses what no state could make right. The seats are sorted in
// place: order carries no meaning, and rows are locked in seat order.
func (c *PlaceHold) validate() error {
	if err := usher.CheckKey("idempotencyKey", c.Key); err != nil {
		return err
	}
	if c.Wish != "" {
		return c.validateWish()
	}
	if err := c.validateItems(); err != nil {
		return err
	}
	if n := c.places(); n == 0 || n > usher.PlacesMax {
		return usher.Errorf(usher.CodeInvalidRequest, "seatIds and items: a hold takes 1 to %d places together", usher.PlacesMax)
	}
	for _, id := range c.Seats {
		if err := usher.CheckText("seat id", string(id), 64); err != nil {
			return err
		}
	}
	var err error
	c.Seats, err = distinct(c.Seats)
	return err
}

// distinct sorts seats into the order in which they are locked, and refuses one
// that is named twice.
func distinct(seats []usher.SeatID) ([]usher.SeatID, error) {
	out := slices.Sorted(slices.Values(seats))
	for i, id := range out {
		if i > 0 && id == out[i-1] {
			return nil, usher.Errorf(usher.CodeInvalidRequest, "seat %q is named twice", string(id))
		}
	}
	return out, nil
}

// validateWish wants groups of one size and nothing beside them.
func (c *PlaceHold) validateWish() error {
	if len(c.Seats)+len(c.Items) > 0 || len(c.Alternatives) > AlternativesMax {
		return usher.Errorf(usher.CodeInvalidRequest, "best seats are asked for alone, in at most %d groups", AlternativesMax)
	}
	if err := usher.CheckText("wish", c.Wish, 500); err != nil {
		return err
	}
	groups := make([][]usher.SeatID, len(c.Alternatives))
	for i, group := range c.Alternatives {
		one := PlaceHold{Seats: group, Key: c.Key}
		if err := one.validate(); err != nil {
			return err
		}
		groups[i] = one.Seats
	}
	c.Alternatives = groups
	return nil
}

// choose returns the command with the first group that can be had, or the first
// group if none can: then its refusal names what was taken.
func (c *PlaceHold) choose(s *state) *PlaceHold {
	if c.Wish == "" {
		return c
	}
	chosen := *c
	if len(c.Alternatives) > 0 {
		chosen.Seats = c.Alternatives[0]
	}
	for _, group := range c.Alternatives {
		if !slices.ContainsFunc(group, func(id usher.SeatID) bool {
			st := s.seats[id]
			return st == nil || !st.takeable(s.now) || s.prices[s.rules.PriceVersion][st.tier].withdrawn
		}) {
			chosen.Seats = group
			break
		}
	}
	return &chosen
}

func (c *PlaceHold) places() int {
	n := len(c.Seats)
	for _, i := range c.Items {
		n += i.Quantity
	}
	return n
}

func (c *PlaceHold) digest() []byte {
	if c.Wish != "" {
		return digest(opHold, "wish", c.Wish)
	}
	parts := column(c.Seats, func(id usher.SeatID) string { return string(id) })
	for _, i := range c.Items {
		parts = append(parts, fmt.Sprintf("%d\x1d%s", i.Quantity, i.Tier))
	}
	return digest(opHold, parts...)
}

// decide places the hold or refuses it. Refusals taken under the locks are
// remembered; what is not about the inventory (admission, not open yet, unknown
// seat) is no result and may be asked again with the same key.
func (c *PlaceHold) decide(s *state) (answer, error) {
	a, sum := s.accounts[c.Account], c.digest()
	if a == nil {
		return answer{}, errMissed
	}
	if h := s.holdKeys[accountKey{c.Account, c.Key}]; h != nil {
		return c.replay(s, h, sum)
	}
	k := recordKey{c.Account, opHold, c.Key}
	if r, err := s.replay(k, sum); err != nil {
		return answer{}, err
	} else if r != nil {
		return answer{}, r.refusal()
	}
	if err := c.admitted(s, a); err != nil {
		return answer{}, err
	}
	want := c.choose(s)
	if len(want.Seats)+len(want.Items) == 0 {
		return answer{}, usher.Errorf(usher.CodeSeatsUnavailable, "no such seats are available together")
	}
	if refusal := want.refused(s, a); refusal != nil {
		noResult := c.Wish != "" && refusal.Code == usher.CodeSeatsUnavailable
		if !noResult && refusal.Code != usher.CodeSeatUnknown && refusal.Code != usher.CodeInvalidRequest && refusal.Code != usher.CodeBusy {
			s.remember(k, sum, refusal)
		}
		return answer{}, refusal
	}
	return answer{hold: s.holdView(want.grant(s, sum))}, nil
}

// replay answers as the first request was answered: the hold as placed. Its items
// are the request's own, since the digests are the same.
func (c *PlaceHold) replay(s *state, h *hold, digest []byte) (answer, error) {
	if !slices.Equal(h.digest, digest) {
		return answer{}, errKeyReused()
	}
	v := s.holdView(h)
	v.Items = s.prices.itemsAt(h.PriceVersion, h.Amount.Currency, c.Items)
	v.Status, v.GraceUntil, v.Order, v.Replayed = usher.HoldHeld, nil, usher.OrderID{}, true
	return answer{hold: v}, nil
}

// admitted checks what lets the account into the shop at all.
func (c *PlaceHold) admitted(s *state, a *account) error {
	switch s.rules.Sale {
	case usher.SaleScheduled:
		return usher.Errorf(usher.CodeSaleNotOpen, "the sale has not opened")
	case usher.SalePaused:
		return usher.Errorf(usher.CodeSaleNotOpen, "the sale is paused")
	}
	if s.rules.AdmissionRequired && (c.Session.IsZero() || a.session.id != c.Session || !s.now.Before(a.session.expires)) {
		return usher.Errorf(usher.CodeSessionEnded, "the shopping session has ended")
	}
	return nil
}

// refused returns the reason why the hold cannot be placed, or nil.
func (c *PlaceHold) refused(s *state, a *account) *usher.Error {
	closed := s.rules.SaleClosesAt != nil && !s.now.Before(*s.rules.SaleClosesAt)
	switch {
	case s.rules.Sale == usher.SaleCancelled:
		return usher.Errorf(usher.CodeEventCancelled, "the event is cancelled")
	case s.rules.Sale == usher.SaleClosed || closed:
		return usher.Errorf(usher.CodeSaleClosed, "the sale has closed")
	case a.blocked:
		return usher.Errorf(usher.CodeAccountBlocked, "this account may not buy")
	}
	var unknown, taken []usher.SeatID
	for _, id := range c.Seats {
		switch st := s.seats[id]; {
		case st == nil:
			unknown = append(unknown, id)
		case !st.takeable(s.now) || s.prices[s.rules.PriceVersion][st.tier].withdrawn:
			taken = append(taken, id)
		}
	}
	noTier, short := s.shortOf(c.Items)
	switch {
	case (unknown != nil || noTier != nil || short != nil) && s.partial:
		return errMissed
	case noTier != nil:
		e := usher.Errorf(usher.CodeInvalidRequest, "items.tierId: this event has no standing tier %q", string(noTier[0]))
		e.Tiers = noTier
		return e
	case unknown != nil:
		e := usher.Errorf(usher.CodeSeatUnknown, "this event has no such seat")
		e.Seats = unknown
		return e
	case a.used(s.now)+c.places() > s.rules.PurchaseLimit:
		return usher.Errorf(usher.CodeLimitExceeded, "the limit is %d per account", s.rules.PurchaseLimit)
	case taken != nil || short != nil:
		s.short = s.short || short != nil
		e := usher.Errorf(usher.CodeSeatsUnavailable, "not all of these places are available")
		e.Seats, e.Tiers = taken, short
		return e
	}
	return nil
}

// grant writes the hold and gives it its seats.
func (c *PlaceHold) grant(s *state, sum []byte) *hold {
	expires := s.now.Add(s.rules.HoldTime)
	id := usher.NewHoldID(s.event)
	tiers := make([]usher.TierID, len(c.Seats))
	changes := make([]SeatChange, len(c.Seats))
	for i, sid := range c.Seats {
		st := s.seats[sid]
		tiers[i] = st.tier
		st.price = s.rules.PriceVersion
		changes[i] = st.move(usher.SeatHeld, id, &expires, usher.OrderID{})
	}
	seats := s.prices.seatsAt(s.rules.PriceVersion, s.rules.Currency, c.Seats, tiers)
	items := s.prices.itemsAt(s.rules.PriceVersion, s.rules.Currency, c.Items)
	h := &hold{
		Hold: Hold{
			ID: id, Event: s.event, Account: c.Account, Status: usher.HoldHeld, ExpiresAt: expires, Seats: seats, Items: items,
			Amount: total(seats, items, s.rules.Currency), PriceVersion: s.rules.PriceVersion, CreatedAt: s.now,
		},
		lines: s.draw(c.Items), places: c.places(), session: c.Session, key: c.Key, digest: sum, dirty: true, fresh: true,
	}
	buckets := s.moveLines(h, usher.SeatAvailable, usher.SeatHeld)
	s.holds[id] = h
	s.holdKeys[accountKey{c.Account, c.Key}] = h
	s.accounts[c.Account].live[id] = usage{h.places, false, expires}
	s.publish(id.String(), EntryHoldPlaced, "PlaceHold", Payload{Account: c.Account, Hold: id, Seats: changes, Buckets: buckets})
	return h
}

// decide releases the hold. A hold that ended by itself is returned as it is:
// giving back what is gone already is no error.
func (c *ReleaseHold) decide(s *state) (answer, error) {
	h := s.holds[c.Hold]
	switch {
	case h == nil && s.partial:
		return answer{}, errMissed
	case h == nil || h.Account != c.Account:
		return answer{}, errNoHold
	}
	return s.release(h, "ReleaseHold")
}

// release frees a hold's seats before the deadline, for its owner or by staff.
func (s *state) release(h *hold, cause string) (answer, error) {
	switch {
	case h.Status == usher.HoldPaymentPending:
		return answer{}, usher.Errorf(usher.CodeHoldPaymentPending, "this hold is being paid for")
	case h.Status == usher.HoldConfirmed:
		return answer{}, usher.Errorf(usher.CodeHoldEnded, "this hold was bought")
	case h.Status != usher.HoldHeld:
		return answer{hold: s.holdView(h)}, nil
	case !s.complete(h):
		return answer{}, errMissed
	}
	s.endHold(h, usher.HoldReleased, EntryHoldReleased, cause)
	return answer{hold: s.holdView(h)}, nil
}

// expireDue ends every due hold whose rows this group holds: those that it looked
// for, and those that its commands name, so that they find what time has done. It
// returns how many it ended. left is how many of those looked for it could not end,
// damaged are among them those whose places nothing counts: an event is not stopped
// for one of those, whose rows somebody else must have changed.
func (s *state) expireDue(due []usher.HoldID) (freed, left int, damaged []usher.HoldID) {
	looked := map[usher.HoldID]bool{}
	for _, id := range due {
		looked[id] = true
		if s.holds[id] == nil {
			left++
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(s.holds), compareIDs) {
		h := s.holds[id]
		switch {
		case h.Status != usher.HoldHeld || s.now.Before(h.ExpiresAt):
			// Not due, or somebody else ended it between the look and the lock.
		case s.complete(h) && !s.counts(h):
			damaged = append(damaged, id)
			left++
		case s.complete(h):
			s.endHold(h, usher.HoldExpired, EntryHoldExpired, "ExpireHolds")
			freed++
		case looked[id]:
			left++
		}
	}
	return freed, left, damaged
}

// counts reports whether the buckets count at least the places that the hold has.
func (s *state) counts(h *hold) bool {
	return !slices.ContainsFunc(h.lines, func(l holdLine) bool { return s.buckets[bucketKey{l.tier, l.bucket}].held < l.quantity })
}

// endHold ends a hold that is not being paid for and frees the seats that are
// still its own; a seat that was taken over meanwhile stays with its new owner.
func (s *state) endHold(h *hold, to usher.HoldStatus, t EntryType, cause string) {
	var changes []SeatChange
	for _, place := range h.Seats {
		if st := s.seats[place.ID]; st.ownedBy(h.ID, usher.SeatHeld) {
			changes = append(changes, st.free())
		}
	}
	s.moveHold(h, to)
	p := Payload{Account: h.Account, Hold: h.ID, Seats: changes, Buckets: s.moveLines(h, usher.SeatHeld, usher.SeatAvailable)}
	if o := s.ordersBy[h.ID]; o != nil && o.Status == usher.OrderDeclined {
		s.moveOrder(o, usher.OrderLapsed, cause)
		o.setLines(lineReleased)
		p.Order = o.ID
	}
	s.publish(h.ID.String(), t, cause, p)
}

// complete reports whether every seat and bucket row of the hold is in this group.
func (s *state) complete(h *hold) bool {
	for _, place := range h.Seats {
		if s.seats[place.ID] == nil {
			return false
		}
	}
	for _, l := range h.lines {
		if s.buckets[bucketKey{l.tier, l.bucket}] == nil {
			return false
		}
	}
	return true
}
