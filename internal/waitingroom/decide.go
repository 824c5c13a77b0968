package waitingroom

import (
	"slices"
	"time"

	"usher"
)

// commandKind is what a command asks of a room.
type commandKind int

const (
	join   commandKind = iota // take a place, or be shown the one it has
	leave                     // give the place up
	claim                     // take up a called turn
	settle                    // note the session that a claimed turn became
	tick                      // close the due bucket and call people
)

// command is one request to a room's queue. Commands of one room are decided in
// groups, one after the other, on the state locked for the group.
type command struct {
	kind    commandKind
	account usher.AccountID
	risk    []byte // join: JSON
	// ended is the turn whose session is known to be over (join), or 0.
	ended int
	// round, turn and session are what settle notes.
	round, turn int
	session     usher.SessionID
	capacity    capacity // tick
}

// decision is the answer to a command.
type decision struct {
	entry  entry
	status PlaceStatus
	// lapsesIn is how much longer a called turn lasts while the room admits.
	lapsesIn time.Duration
	round    int
	// replayed says that a join found the place it had.
	replayed bool
	// consult says that the shard must tell whether the turn's session is live
	// (join), or is to be asked for a session (claim). enter allows a new one;
	// refusal is the answer where there is none.
	consult, enter bool
	refusal        *usher.Error
	// leads says that the tick ran the room, called how many people it called.
	leads  bool
	called int64
	now    time.Time
}

// group is one transaction's worth of commands on one room: what was read under
// the lock, and what the decisions made of it. It does no I/O.
type group struct {
	state
	now  time.Time
	seed []byte

	// entries holds the highest turn of each account; calls what numbers below
	// serving belong to.
	entries map[usher.AccountID]*entry
	calls   []*callRow
	// closing says that the open bucket is to be closed; closed is that bucket then,
	// and leavers are its members who left before they had a number.
	closing bool
	closed  *bucketRow
	leavers []*entry
	// gaps are numbers from serving on whose people left, ascending; read for a
	// tick only, and complete below gapsEnd.
	gaps    []int64
	gapsEnd int64

	// inserted and edited are what write has to store, in the order of the commands.
	inserted, edited []*entry
}

// edit marks a stored entry as changed.
func (g *group) edit(e *entry) {
	if !slices.Contains(g.edited, e) {
		g.edited = append(g.edited, e)
	}
}

// closeBucket numbers the open bucket if it is to be closed: from the commit on
// nobody's number in it changes.
func (g *group) closeBucket() {
	if !g.closing {
		return
	}
	g.closed = &bucketRow{
		number: g.bucket, base: g.next, size: g.bucketSize,
		key: bucketKey(g.seed, g.event, g.round, g.bucket),
	}
	g.next += g.bucketSize
	g.bucketSize, g.bucketLeft = 0, 0
	for _, e := range g.leavers {
		e.number = g.closed.place(e.index)
		g.edit(e)
		g.addGap(e.number)
	}
	for _, e := range g.entries {
		if e.bucket == g.closed.number && e.number == numberless {
			e.number = g.closed.place(e.index)
		}
	}
}

// addGap notes a number whose person left before the call.
func (g *group) addGap(number int64) {
	if i, found := slices.BinarySearch(g.gaps, number); !found {
		g.gaps = slices.Insert(g.gaps, i, number)
	}
}

// callOf finds the call of a number below serving.
func (g *group) callOf(number int64) *callRow {
	for _, c := range g.calls {
		if c.first <= number && number < c.after {
			return c
		}
	}
	return nil
}

func (g *group) decide(c command) (decision, error) {
	switch c.kind {
	case join:
		return g.join(c)
	case leave:
		return g.leave(c)
	case claim:
		return g.claim(c)
	case settle:
		return g.settle(c)
	case tick:
		return g.tick(c.capacity), nil
	}
	panic("waitingroom: unknown command")
}

// answer describes the entry as it stands now.
func (g *group) answer(e *entry) decision {
	status, lapsesMs := g.standing(e, g.callOf(e.number))
	d := decision{entry: *e, status: status, round: g.round, now: g.now}
	if status == PlaceCalled {
		d.lapsesIn = time.Duration(lapsesMs-g.openMs) * time.Millisecond
	}
	return d
}

func (g *group) join(c command) (decision, error) {
	switch g.phase {
	case usher.QueueScheduled:
		return decision{}, usher.Errorf(usher.CodeQueueClosed, "the waiting room is not open yet")
	case usher.QueueClosed:
		return decision{}, usher.Errorf(usher.CodeQueueClosed, "the waiting room is closed")
	}
	e := g.entries[c.account]
	if e == nil {
		return g.answer(g.enqueue(c, 1)), nil
	}
	d := g.answer(e)
	d.replayed = true
	switch d.status {
	case PlaceWaiting, PlaceCalled:
		return d, nil
	case PlaceAdmitted, PlaceLapsed:
		// A claimed turn may have a session that the room has not been told of.
		if e.claimedAt != nil && c.ended < e.turn {
			d.consult = true
			return d, nil
		}
	}
	if d.status == PlaceLapsed && e.lapsedAt == nil {
		e.lapsedAt, e.doorMs = &g.now, nil
		g.edit(e)
	}
	return g.answer(g.enqueue(c, e.turn+1)), nil
}

// enqueue gives the account a place at the end of the bucket that is open now.
func (g *group) enqueue(c command, turn int) *entry {
	if g.bucketSize == 0 {
		// A database clock that was set back must not reopen a closed bucket.
		g.bucket = max(g.bucketAt(g.now), g.bucket+1)
	}
	e := &entry{
		account: c.account, turn: turn, bucket: g.bucket, index: g.bucketSize, joinedAt: g.now, risk: c.risk,
		number: numberless,
	}
	g.bucketSize++
	g.entries[c.account] = e
	g.inserted = append(g.inserted, e)
	return e
}

func (g *group) leave(c command) (decision, error) {
	e := g.entries[c.account]
	if e == nil {
		return decision{}, errNotInQueue()
	}
	status, _ := g.standing(e, g.callOf(e.number))
	switch status {
	case PlaceLeft, PlaceLapsed:
		return g.answer(e), nil
	case PlaceWaiting:
		g.leftWaiting++
		if e.number == numberless {
			g.bucketLeft++
		} else {
			g.addGap(e.number)
		}
	case PlaceCalled:
		if e.claimedAt == nil {
			call := g.callOf(e.number)
			call.absent++
			call.edited = true
		}
	}
	e.leftAt, e.doorMs = &g.now, nil
	g.edit(e)
	return g.answer(e), nil
}

func (g *group) claim(c command) (decision, error) {
	e := g.entries[c.account]
	if e == nil {
		return decision{}, errNotInQueue()
	}
	d := g.answer(e)
	d.consult = e.claimedAt != nil
	switch d.status {
	case PlaceLeft:
		return d, errNotInQueue()
	case PlaceAdmitted:
		d.refusal = errSessionEnded()
	case PlaceLapsed:
		d.refusal = usher.Errorf(usher.CodeTurnLapsed, "your turn has lapsed; join again for a new place")
	case PlaceWaiting:
		d.refusal = usher.Errorf(usher.CodeNotYourTurn, "it is not your turn yet")
	case PlaceCalled:
		if g.phase == usher.QueueOpen {
			g.takeTurn(e)
			d.entry, d.consult, d.enter = *e, true, true
		}
	}
	switch {
	case g.phase == usher.QueueClosed && d.status != PlaceAdmitted:
		d.refusal = usher.Errorf(usher.CodeQueueClosed, "the waiting room is closed")
	case d.status == PlaceCalled && !d.enter:
		d.refusal = usher.Errorf(usher.CodeNotYourTurn, "admission is paused; your turn is kept")
	}
	if !d.consult {
		return d, d.refusal
	}
	return d, nil
}

// takeTurn claims a called turn, and keeps a claimed one alive while its person
// comes back to a shop that was full.
func (g *group) takeTurn(e *entry) {
	until := g.openMs + g.claimMs
	switch {
	case e.claimedAt == nil:
		call := g.callOf(e.number)
		call.claimed++
		call.edited = true
		e.claimedAt = &g.now
	case until-*e.doorMs < g.claimMs/2:
		return
	}
	e.doorMs = &until
	g.edit(e)
}

// settle notes the session. A place that was left meanwhile stays left: the
// caller then ends the session.
func (g *group) settle(c command) (decision, error) {
	e := g.entries[c.account]
	if e == nil || g.round != c.round {
		return decision{}, errOlderRound()
	}
	if e.turn == c.turn && e.claimedAt != nil && e.admittedAt == nil && e.leftAt == nil {
		e.admittedAt, e.session, e.doorMs, e.lapsedAt = &g.now, &c.session, nil, nil
		g.edit(e)
	}
	return g.answer(e), nil
}

func errNotInQueue() *usher.Error {
	return usher.Errorf(usher.CodeNotInQueue, "you have no place in this queue; join first")
}

func errOlderRound() *usher.Error {
	return usher.Errorf(usher.CodeOlderRound, "the queue was started anew; join again")
}

func errSessionEnded() *usher.Error {
	return usher.Errorf(usher.CodeSessionEnded, "your shopping session has ended; join again for a new place")
}
