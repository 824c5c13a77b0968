package ledger

import (
	"bytes"
	"maps"
	"slices"

	"usher"
)

// keySet is every row that a group locks or reads.
type keySet struct {
	resolveHolds  map[usher.HoldID]bool
	resolveOrders map[usher.OrderID]bool

	accounts map[usher.AccountID]bool
	seats    map[usher.SeatID]bool
	tiers    map[usher.TierID]bool
	holds    map[usher.HoldID]bool
	holdKeys map[accountKey]bool
	records  map[recordKey]bool
	// cancels are the orders whose codes a command may void.
	cancels map[usher.OrderID]bool
	// pending asks for the event's count of holds being paid for.
	pending bool
	due     []usher.HoldID
}

// resolved holds columns that never change after a row was written.
type resolved struct {
	holds  map[usher.HoldID]resolvedHold
	orders map[usher.OrderID]usher.HoldID
}

type resolvedHold struct {
	id      usher.HoldID
	account usher.AccountID
	seats   []usher.SeatID
	tiers   []usher.TierID
}

func newKeySet() *keySet {
	return &keySet{
		resolveHolds: map[usher.HoldID]bool{}, resolveOrders: map[usher.OrderID]bool{},
		accounts: map[usher.AccountID]bool{}, seats: map[usher.SeatID]bool{}, tiers: map[usher.TierID]bool{}, holds: map[usher.HoldID]bool{},
		holdKeys: map[accountKey]bool{}, records: map[recordKey]bool{}, cancels: map[usher.OrderID]bool{},
	}
}

// addHold locks a hold with its seats.
func (k *keySet) addHold(h resolvedHold) {
	k.holds[h.id] = true
	k.addSeats(h.seats)
	for _, id := range h.tiers {
		k.tiers[id] = true
	}
}

func (k *keySet) addSeats(seats []usher.SeatID) {
	for _, id := range seats {
		k.seats[id] = true
	}
}

func (c *PlaceHold) resolve(*keySet) {}

func (c *PlaceHold) lock(k *keySet, _ *resolved) {
	k.accounts[c.Account] = true
	k.addSeats(c.Seats)
	for _, group := range c.Alternatives {
		k.addSeats(group)
	}
	for _, i := range c.Items {
		k.tiers[i.Tier] = true
	}
	k.holdKeys[accountKey{c.Account, c.Key}] = true
	k.records[recordKey{c.Account, opHold, c.Key}] = true
}

func (c *ReleaseHold) resolve(k *keySet)            { k.resolveHolds[c.Hold] = true }
func (c *ReleaseHold) lock(k *keySet, r *resolved)  { lockHold(k, r, c.Hold) }
func (c *BeginPayment) resolve(k *keySet)           { k.resolveHolds[c.Hold] = true }
func (c *ConfirmOrder) resolve(k *keySet)           { k.resolveOrders[c.Order] = true }
func (c *ConfirmOrder) lock(k *keySet, r *resolved) { lockOrder(k, r, c.Order) }
func (c *FailPayment) resolve(k *keySet)            { k.resolveOrders[c.Order] = true }
func (c *FailPayment) lock(k *keySet, r *resolved)  { lockOrder(k, r, c.Order) }
func (c *VoidOrder) resolve(k *keySet)              { k.resolveOrders[c.Order] = true }
func (c *VoidOrder) lock(k *keySet, r *resolved)    { lockOrder(k, r, c.Order) }
func (c *FinishVoid) resolve(k *keySet)             { k.resolveOrders[c.Order] = true }
func (c *FinishVoid) lock(k *keySet, r *resolved)   { lockOrder(k, r, c.Order) }
func (c *SettleCapture) resolve(k *keySet)          { k.resolveOrders[c.Order] = true }
func (c *StaffRelease) resolve(k *keySet)           { k.resolveHolds[c.Hold] = true }
func (c *StaffRelease) lock(k *keySet, r *resolved) { lockHold(k, r, c.Hold) }
func (c *CancelOrder) resolve(k *keySet)            { k.resolveOrders[c.Order] = true }
func (c *BlockSeats) resolve(*keySet)               {}
func (c *BlockSeats) lock(k *keySet, _ *resolved)   { k.addSeats(c.Seats) }
func (c *UnblockSeats) resolve(*keySet)             {}
func (c *UnblockSeats) lock(k *keySet, _ *resolved) { k.addSeats(c.Seats) }
func (c *MoveCapacity) resolve(*keySet)             {}
func (c *MoveCapacity) lock(k *keySet, _ *resolved) { k.tiers[c.Tier] = true }
func (c *SetCapacity) resolve(*keySet)              {}
func (c *SetCapacity) lock(k *keySet, _ *resolved)  { k.tiers[c.Tier] = true }
func (expireHolds) resolve(*keySet)                 {}
func (expireHolds) lock(*keySet, *resolved)         {}

func (c *BeginPayment) lock(k *keySet, r *resolved) {
	lockHold(k, r, c.Hold)
	if h, ok := r.holds[c.Hold]; ok && h.account == c.Account {
		k.records[recordKey{c.Account, opCheckout, c.Key}] = true
		k.pending = true
	}
}

func (c *CancelOrder) lock(k *keySet, r *resolved) {
	lockOrder(k, r, c.Order)
	k.cancels[c.Order] = true
}

func (c *SettleCapture) lock(k *keySet, r *resolved) {
	lockOrder(k, r, c.Order)
	if !c.Captured {
		k.cancels[c.Order] = true
	}
}

func lockHold(k *keySet, r *resolved, id usher.HoldID) {
	if h, ok := r.holds[id]; ok {
		k.accounts[h.account] = true
		k.addHold(h)
	}
}

func lockOrder(k *keySet, r *resolved, id usher.OrderID) {
	if h, ok := r.orders[id]; ok {
		lockHold(k, r, h)
	}
}

// expireHolds is the empty command: a group expires what is due by itself.
type expireHolds struct{}

func (expireHolds) decide(*state) (answer, error) { return answer{}, nil }

// sortedIDs returns the keys in the order in which PostgreSQL compares uuids, so
// that every process locks rows in the same order.
func sortedIDs[ID ~[16]byte](set map[ID]bool) []ID {
	return slices.SortedFunc(maps.Keys(set), compareIDs[ID])
}

func compareIDs[ID ~[16]byte](a, b ID) int {
	x, y := [16]byte(a), [16]byte(b)
	return bytes.Compare(x[:], y[:])
}
