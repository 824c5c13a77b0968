package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"usher"
	"usher/internal/catalog"
)

// tierView is a price tier of an event.
type tierView struct {
	TierID usher.TierID `json:"tierId"`
	Name   string       `json:"name"`
	Price  usher.Money  `json:"price"`
}

// eventView is an event as everybody may see it.
type eventView struct {
	EventID  usher.EventID `json:"eventId"`
	Slug     string        `json:"slug"`
	Name     string        `json:"name"`
	Venue    string        `json:"venue"`
	StartsAt time.Time     `json:"startsAt"`
	TimeZone string        `json:"timeZone" doc:"The venue's IANA zone: show times in it"`
	// QueueOpensAt and OpensAt are announced; nil is by hand.
	QueueOpensAt *time.Time     `json:"queueOpensAt,omitempty" doc:"When people may begin to join the queue"`
	OpensAt      *time.Time     `json:"opensAt,omitempty" doc:"When the sale opens"`
	Status       catalog.Status `json:"status" enum:"draft,published,cancelled,ended"`
	Sale         saleStatus     `json:"sale" enum:"scheduled,open,paused,closed,cancelled,unavailable" doc:"unavailable: the event's home does not answer now, and nothing is sold"`
	Queue        bool           `json:"queue" doc:"Whether buying begins in a queue"`
	Seats        int            `json:"seats" doc:"Places of the chart"`
	Chart        string         `json:"chart,omitempty" doc:"The chart's address: /v1/charts/{hash}"`
	Currency     usher.Currency `json:"currency"`
	Tiers        []tierView     `json:"tiers"`
	// PurchaseLimit and the two times are the rules the sale was published with.
	PurchaseLimit int `json:"purchaseLimit" doc:"The most places one account may hold and own"`
	HoldSeconds   int `json:"holdSeconds"`
	GraceSeconds  int `json:"graceSeconds"`
}

// saleStatus is the ledger's sale status, or that the ledger does not answer.
type saleStatus string

const saleUnavailable saleStatus = "unavailable"

type eventsOutput struct {
	Cache string `header:"Cache-Control"`
	Body  struct {
		Events []eventView `json:"events"`
	}
}

type eventOutput struct {
	Cache string `header:"Cache-Control"`
	Body  eventView
}

// eventCache lets caches answer for a moment; the sale's status is then as old.
const eventCache = "public, max-age=2, stale-while-revalidate=10, stale-if-error=300"

func (s *Server) addEvents() {
	add(s, route{
		id: "listEvents", method: http.MethodGet, path: "/v1/events", tag: "Events",
		summary: "What is or was on sale",
	}, s.listEvents)
	add(s, route{
		id: "getEvent", method: http.MethodGet, path: "/v1/events/{eventId}", tag: "Events",
		summary: "An event with its prices",
	}, s.getEvent)
}

func (s *Server) listEvents(ctx context.Context, _ *struct{}) (*eventsOutput, error) {
	events, err := s.deps.Catalog.List(ctx, false)
	if err != nil {
		return nil, err
	}
	out := &eventsOutput{Cache: eventCache}
	out.Body.Events = make([]eventView, 0, len(events))
	for _, e := range events {
		out.Body.Events = append(out.Body.Events, s.eventViewOf(ctx, e))
	}
	return out, nil
}

func (s *Server) getEvent(ctx context.Context, in *eventInput) (*eventOutput, error) {
	e, err := s.publicEvent(ctx, in.Event.EventID)
	if err != nil {
		return nil, err
	}
	return &eventOutput{Cache: eventCache, Body: s.eventViewOf(ctx, e)}, nil
}

// publicEvent reads an event that people may know of: no draft.
func (s *Server) publicEvent(ctx context.Context, id usher.EventID) (catalog.Event, error) {
	e, err := s.deps.Catalog.Get(ctx, id)
	if err != nil {
		return e, err
	}
	if e.PublishedAt == nil {
		return e, usher.Errorf(usher.CodeNotFound, "no such event")
	}
	return e, nil
}

func (s *Server) eventViewOf(ctx context.Context, e catalog.Event) eventView {
	v := eventView{
		EventID: e.ID, Slug: e.Slug, Name: e.Name, Venue: e.Venue, StartsAt: e.StartsAt.UTC(), TimeZone: e.TimeZone,
		QueueOpensAt: utc(e.QueueOpensAt), OpensAt: utc(e.OpensAt), Status: e.Status, Sale: s.saleOf(ctx, e),
		Queue: e.Rules.AdmissionRequired, Seats: s.seatsOf(ctx, e.Chart), Chart: e.Chart, Currency: e.Currency,
		Tiers: make([]tierView, 0, len(e.Tiers)), PurchaseLimit: e.Rules.PurchaseLimit,
		HoldSeconds: int(e.Rules.HoldTime / time.Second), GraceSeconds: int(e.Rules.Grace / time.Second),
	}
	for _, t := range e.Tiers {
		v.Tiers = append(v.Tiers, tierView{TierID: t.ID, Name: t.Name, Price: t.Price})
	}
	return v
}

// browsing remembers for a moment what pages of events show: however many people
// look, an event's home is asked about once a second.
type browsing struct {
	mu    sync.Mutex
	sales map[usher.EventID]knownSale
	// seats is the number of seats of each chart, which never changes.
	seats map[string]int
}

type knownSale struct {
	status saleStatus
	until  time.Time
}

// saleFor is how old a shown sale status may be; saleTimeout bounds the question.
const (
	saleFor     = time.Second
	saleTimeout = 500 * time.Millisecond
)

// saleOf returns the sale status to show. It is a hint: the ledger decides.
func (s *Server) saleOf(ctx context.Context, e catalog.Event) saleStatus {
	switch e.Status {
	case catalog.StatusDraft:
		return saleStatus(usher.SaleScheduled)
	case catalog.StatusCancelled:
		return saleStatus(usher.SaleCancelled)
	case catalog.StatusEnded:
		return saleStatus(usher.SaleClosed)
	}
	b := &s.browsing
	b.mu.Lock()
	known, ok := b.sales[e.ID]
	b.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.status
	}
	ctx, cancel := context.WithTimeout(ctx, saleTimeout)
	defer cancel()
	rules, _, err := s.deps.Ledger.Rules(ctx, e.ID)
	known = knownSale{saleStatus(rules.Sale), time.Now().Add(saleFor)}
	if err != nil {
		s.log.WarnContext(ctx, "sale status cannot be read", "event", e.ID, "error", err)
		known.status = saleUnavailable
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sales[e.ID] = known
	return known.status
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
	chart, err := s.deps.Charts.ByHash(ctx, hash)
	if err != nil {
		s.log.WarnContext(ctx, "chart cannot be read", "chart", hash, "error", err)
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seats[hash] = chart.Len()
	return chart.Len()
}

// queued reports whether buying for the event begins in a queue. An event whose
// entry cannot be read counts as queued: what is not known is not let in.
func (s *Server) queued(ctx context.Context, event usher.EventID) (bool, error) {
	e, err := s.deps.Catalog.Get(ctx, event)
	if usher.CodeOf(err) == usher.CodeNotFound {
		return true, err
	}
	return err != nil || e.Rules.AdmissionRequired, nil
}
