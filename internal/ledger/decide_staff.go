package ledger

import (
	"fmt"

	"usher"
)

// seatsPerCommandMax bounds what one staff command may touch at once.
const seatsPerCommandMax = 1000

func (s Staff) validate() error {
	if s.Operator.IsZero() {
		return usher.Errorf(usher.CodeInvalidRequest, "who does this is missing")
	}
	return usher.CheckText("reason", s.Reason, 500)
}

func (s Staff) cause(command string) string {
	return fmt.Sprintf("%s by %s: %s", command, s.Operator, s.Reason)
}

// checkSeats sorts and bounds a staff command's seats, which are distinct.
func checkSeats(seats []usher.SeatID) ([]usher.SeatID, error) {
	if len(seats) == 0 || len(seats) > seatsPerCommandMax {
		return nil, usher.Errorf(usher.CodeInvalidRequest, "seatIds must name 1 to %d seats", seatsPerCommandMax)
	}
	for _, id := range seats {
		if err := usher.CheckText("seat id", string(id), 64); err != nil {
			return nil, err
		}
	}
	return distinct(seats)
}

// known refuses seats that the event does not have.
func (s *state) known(ids []usher.SeatID) error {
	var unknown []usher.SeatID
	for _, id := range ids {
		if s.seats[id] == nil {
			unknown = append(unknown, id)
		}
	}
	switch {
	case unknown == nil:
		return nil
	case s.partial:
		return errMissed
	}
	e := usher.Errorf(usher.CodeSeatUnknown, "this event has no such seat")
	e.Seats = unknown
	return e
}

func (c *BlockSeats) decide(s *state) (answer, error) {
	if err := s.known(c.Seats); err != nil {
		return answer{}, err
	}
	var taken []usher.SeatID
	var block []*seat
	for _, id := range c.Seats {
		switch st := s.seats[id]; {
		case st.status == usher.SeatBlocked:
		case st.status == usher.SeatHeld && !s.now.Before(*st.expires), st.status == usher.SeatAvailable:
			block = append(block, st)
		default:
			taken = append(taken, id)
		}
	}
	if taken != nil {
		e := usher.Errorf(usher.CodeSeatsUnavailable, "some of these seats are held or sold; nothing was blocked")
		e.Seats = taken
		return answer{}, e
	}
	return s.moveBlocked(block, usher.SeatBlocked, EntrySeatsBlocked, c.By.cause("BlockSeats")), nil
}

func (c *UnblockSeats) decide(s *state) (answer, error) {
	if err := s.known(c.Seats); err != nil {
		return answer{}, err
	}
	var free []*seat
	for _, id := range c.Seats {
		if st := s.seats[id]; st.status == usher.SeatBlocked {
			free = append(free, st)
		}
	}
	return s.moveBlocked(free, usher.SeatAvailable, EntrySeatsUnblocked, c.By.cause("UnblockSeats")), nil
}

func (s *state) moveBlocked(seats []*seat, to usher.SeatStatus, t EntryType, cause string) answer {
	if len(seats) == 0 {
		return answer{}
	}
	changes, moved := make([]SeatChange, len(seats)), make([]usher.SeatID, len(seats))
	for i, st := range seats {
		changes[i] = st.move(to, usher.HoldID{}, nil, usher.OrderID{})
		moved[i] = changes[i].Seat
	}
	s.publish(s.event.String(), t, cause, Payload{Seats: changes})
	return answer{moved: moved}
}

func (c *StaffRelease) decide(s *state) (answer, error) {
	h := s.holds[c.Hold]
	switch {
	case h == nil && s.partial:
		return answer{}, errMissed
	case h == nil:
		return answer{}, errNoHold
	}
	return s.release(h, c.By.cause("ReleaseHold"))
}

func (c *CancelOrder) decide(s *state) (answer, error) {
	o, h, err := s.find(c.Order)
	switch {
	case err != nil:
		return answer{}, err
	case o.Status == usher.OrderCancelled:
		return answer{order: s.orderView(o)}, nil
	case o.Status != usher.OrderConfirmed:
		return answer{}, conflict(o)
	}
	s.cancel(o, h, "cancelled by staff", c.By.cause("CancelOrder"))
	return answer{order: s.orderView(o)}, nil
}

// cancel is the audited compensation: seats back, lines and codes cancelled, the
// money given up by a void operation, all in one commit.
func (s *state) cancel(o *order, h *hold, reason, cause string) {
	p := s.movePlaces(h, usher.SeatSold, usher.SeatAvailable, o)
	p.Amount = &o.Amount
	o.setLines(lineCancelled)
	s.accounts[o.Account].sold -= len(o.lines)
	s.moveOrder(o, usher.OrderCancelled, reason)
	s.cancelled = append(s.cancelled, o.ID)
	for _, op := range s.operations {
		// A capture that was never sent is not sent any more; one that may be on its
		// way ends with the void, which finds out what became of it.
		if op.Order == o.ID && op.Kind == usher.OperationCapture && op.Status == usher.OperationCreated && op.SentAt == nil {
			s.settle(op, usher.OperationFailed, "cancelled")
		}
	}
	if s.authorization(o) != nil {
		s.followUp(o, usher.OperationVoid)
	}
	s.publish(o.ID.String(), EntryOrderCancelled, cause, p)
}
