package ledger

import (
	"usher"
)

// CapacityMax is the most places of one tier without seats.
const CapacityMax = 10_000_000

func (c *MoveCapacity) validate() error {
	switch {
	case c.From == c.To || c.To < 1 || c.To > BucketMax:
		return usher.Errorf(usher.CodeInvalidRequest, "from and to must be two different buckets from 1 to %d", BucketMax)
	case c.Quantity < 1:
		return usher.Errorf(usher.CodeInvalidRequest, "quantity must be at least 1")
	}
	if err := usher.CheckText("tier id", string(c.Tier), 64); err != nil {
		return err
	}
	return c.By.validate()
}

func (c *MoveCapacity) decide(s *state) (answer, error) {
	from, to := s.buckets[bucketKey{c.Tier, c.From}], s.buckets[bucketKey{c.Tier, c.To}]
	switch {
	case s.partial:
		// A bucket that is locked elsewhere looks like one that does not exist.
		return answer{}, errMissed
	case from == nil:
		return answer{}, usher.Errorf(usher.CodeInvalidRequest, "from: tier %q has no bucket %d", string(c.Tier), c.From)
	case from.available < c.Quantity:
		s.short = true
		return answer{}, usher.Errorf(usher.CodeStateConflict, "bucket %d has %d free places, %d were to be moved", c.From, from.available, c.Quantity)
	}
	if to == nil {
		to = &bucket{}
		s.buckets[bucketKey{c.Tier, c.To}] = to
	}
	from.available -= c.Quantity
	to.available += c.Quantity
	s.publish(s.event.String(), EntryCapacityMoved, c.By.cause("MoveCapacity"), Payload{
		Buckets: []BucketChange{from.changed(c.Tier, c.From), to.changed(c.Tier, c.To)},
	})
	return answer{}, nil
}

func (c *SetCapacity) validate() error {
	if c.Capacity < 0 || c.Capacity > CapacityMax {
		return usher.Errorf(usher.CodeInvalidRequest, "capacity must be 0 to %d", CapacityMax)
	}
	if c.Bucket < 0 || c.Bucket > BucketMax {
		return usher.Errorf(usher.CodeInvalidRequest, "bucket must be 1 to %d", BucketMax)
	}
	if err := usher.CheckText("tier id", string(c.Tier), 64); err != nil {
		return err
	}
	return c.By.validate()
}

func (c *SetCapacity) decide(s *state) (answer, error) {
	if s.partial {
		return answer{}, errMissed
	}
	keys := s.tier(c.Tier)
	what := "the tier"
	if c.Bucket != 0 {
		what = "the bucket"
		keys = nil
		if key := (bucketKey{c.Tier, c.Bucket}); s.buckets[key] != nil {
			keys = []bucketKey{key}
		}
	}
	if len(keys) == 0 {
		return answer{}, usher.Errorf(usher.CodeInvalidRequest, "bucket: tier %q has none of that number", string(c.Tier))
	}
	var sum bucket
	for _, k := range keys {
		b := s.buckets[k]
		sum.available, sum.held, sum.sold = sum.available+b.available, sum.held+b.held, sum.sold+b.sold
	}
	if c.Capacity < sum.held+sum.sold {
		s.short = true
		return answer{}, usher.Errorf(usher.CodeStateConflict, "%s has %d sold and %d held: its capacity cannot be %d", what, sum.sold, sum.held, c.Capacity)
	}
	free := make([]int, len(keys))
	for i, k := range keys {
		free[i] = s.buckets[k].available
	}
	var changes []BucketChange
	for i, n := range spread(free, c.Capacity-sum.held-sum.sold) {
		if b := s.buckets[keys[i]]; b.available != n {
			b.available = n
			changes = append(changes, b.changed(c.Tier, keys[i].bucket))
		}
	}
	if changes != nil {
		s.publish(s.event.String(), EntryCapacityMoved, c.By.cause("SetCapacity"), Payload{Buckets: changes})
	}
	return answer{}, nil
}

// spread gives the buckets total free places together, in the shares in which they
// have free ones now; evenly when none has any.
func spread(free []int, total int) []int {
	sum := 0
	for _, n := range free {
		sum += n
	}
	out, left := make([]int, len(free)), total
	for i, n := range free {
		if sum == 0 {
			out[i] = total / len(free)
		} else {
			out[i] = n * total / sum
		}
		left -= out[i]
	}
	// What rounding left is less than a place a bucket.
	for i := range out {
		if left > 0 && (sum == 0 || free[i] > 0) {
			out[i]++
			left--
		}
	}
	return out
}
