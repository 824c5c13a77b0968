package web

import (
	"context"
	"sync"
	"time"

	"usher"
	"usher/internal/catalog"
	"usher/internal/ledger"
	"usher/internal/seatmap"
)

// saleStatus is the ledger's sale status, or that the ledger does not answer.
type saleStatus string

const saleUnavailable saleStatus = "unavailable"

// look is what pages show of a running sale. It is a hint: the ledger decides.
type look struct {
	sale saleStatus
	// rules are those in force, if the event's home has answered.
	rules    usher.Rules
	answered bool
	// tiers are the standing ones; nil when they were not to be had.
	tiers map[usher.TierID]left
	until time.Time
}

// left is what a standing tier has.
type left struct {
	capacity int
	stock    usher.Stock
}

// browsing remembers for a moment what pages of events show: however many people
// look, an event's home is asked about once a second.
type browsing struct {
	mu    sync.Mutex
	looks map[usher.EventID]look
	// seats is the number of seats of each chart, which never changes.
	seats map[string]int
}

// lookFor is how old a shown look may be, lookOverFor that of an event that sells
// nothing any more; lookTimeout bounds the question.
const (
	lookFor     = time.Second
	lookOverFor = time.Minute
	lookTimeout = 500 * time.Millisecond
)

// settled are the sales that the event's own status is enough to know.
var settled = map[catalog.Status]saleStatus{
	catalog.StatusDraft:     saleStatus(usher.SaleScheduled),
	catalog.StatusCancelled: saleStatus(usher.SaleCancelled),
	catalog.StatusEnded:     saleStatus(usher.SaleClosed),
}

// look returns what to show of the event's sale.
func (s *Server) look(ctx context.Context, e catalog.Event) look {
	b := &s.browsing
	b.mu.Lock()
	known, ok := b.looks[e.ID]
	b.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.as(e)
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return s.lookAnew(ctx, e)
}

// lookAnew asks the event's home, for everybody who looks soon after. When it does not
// answer, the rules are those of the publication, except for the end of the sale: a
// wrong one misleads.
func (s *Server) lookAnew(ctx context.Context, e catalog.Event) look {
	if e.PublishedAt == nil {
		// No home knows it: what was set up is all there is.
		return look{rules: e.Rules, answered: true}.as(e)
	}
	rules, _, err := s.deps.Ledger.Rules(ctx, e.ID)
	now := look{sale: saleStatus(rules.Sale), rules: rules, answered: true}
	if err == nil && e.Standing() > 0 {
		var buckets []ledger.BucketState
		buckets, err = s.deps.Ledger.Quota(ctx, e.ID)
		now.tiers = leftOf(buckets)
	}
	if err != nil {
		s.log.WarnContext(ctx, "sale cannot be read", "event", e.ID, "error", err)
		now = look{sale: saleUnavailable, rules: e.Rules}
		now.rules.SaleClosesAt = nil
	}
	age := lookFor
	if _, over := settled[e.Status]; over {
		age = lookOverFor
	}
	now.until = time.Now().Add(age)
	b := &s.browsing
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks[e.ID] = now
	return now.as(e)
}

// as lets the event's own status say what it is enough to know.
func (l look) as(e catalog.Event) look {
	if sale, ok := settled[e.Status]; ok {
		l.sale = sale
	}
	return l
}

// stock words what a standing tier has left; "" where that is not known, and where
// nothing is sold any more.
func (l look) stock(tier usher.TierID) usher.Stock {
	if l.sale == saleStatus(usher.SaleClosed) || l.sale == saleStatus(usher.SaleCancelled) {
		return ""
	}
	return l.tiers[tier].stock
}

// leftOf words what the buckets of each tier have together.
func leftOf(buckets []ledger.BucketState) map[usher.TierID]left {
	sums := map[usher.TierID]ledger.BucketState{}
	for _, b := range buckets {
		sum := sums[b.Tier]
		sum.Available += b.Available
		sum.Held += b.Held
		sum.Sold += b.Sold
		sums[b.Tier] = sum
	}
	out := map[usher.TierID]left{}
	for tier, sum := range sums {
		word := usher.StockOf(sum.Available, sum.Held, sum.Capacity())
		if word == usher.StockInBaskets {
			// Whoever looks at one tier may still get lucky.
			word = usher.StockFew
		}
		out[tier] = left{sum.Capacity(), word}
	}
	return out
}

// seatsOf returns how many seats the chart has, 0 when it cannot be read now.
func (s *Server) seatsOf(ctx context.Context, hash string) int {
	if hash == "" {
		return 0
	}
	b := &s.browsing
	b.mu.Lock()
	n, ok := b.seats[hash]
	b.mu.Unlock()
	if ok {
		return n
	}
	chart := s.chart(ctx, hash)
	if chart == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seats[hash] = chart.Len()
	return chart.Len()
}

// chartOf is the event's chart, nil where it has none or that cannot be read now.
func (s *Server) chartOf(ctx context.Context, event usher.EventID) *seatmap.Chart {
	e, err := s.deps.Catalog.Get(ctx, event)
	if err != nil || !e.Seated() {
		return nil
	}
	return s.chart(ctx, e.Chart)
}

// chart is nil when the chart cannot be read within the time that a look may take:
// whatever shows its words shows without.
func (s *Server) chart(ctx context.Context, hash string) *seatmap.Chart {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	chart, err := s.deps.Charts.ByHash(ctx, hash)
	if err != nil {
		s.log.WarnContext(ctx, "chart cannot be read", "chart", hash, "error", err)
		return nil
	}
	return chart
}
