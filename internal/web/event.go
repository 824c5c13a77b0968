package web

import (
	"context"
	"net/http"
	"time"

	"usher"
	"usher/internal/catalog"
)

// tierView is a price tier of an event.
type tierView struct {
	TierID usher.TierID     `json:"tierId"`
	Name   string           `json:"name"`
	Kind   catalog.TierKind `json:"kind" enum:"seated,standing" doc:"seated: seats of the chart, held by seatIds or best. standing: places without names, held by items"`
	Price  usher.Money      `json:"price,omitzero" doc:"Missing while a draft has none"`
	// Capacity and Stock are those of standing tiers.
	Capacity int         `json:"capacity,omitempty" doc:"How many places a standing tier has now; while the event's home does not answer, how many it was published with"`
	Stock    usher.Stock `json:"stock,omitempty" enum:"many,few,soldOut" doc:"What is left of a standing tier, about a second old; a hint, holding decides. few: a tenth or less is free, or twelve places or fewer, or all that is left is held by others and may come back. Missing before the publication, after the sale, and while the event's home does not answer"`
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
	SaleClosesAt *time.Time     `json:"saleClosesAt,omitempty" doc:"When the sale closes by itself, as it stands now: it may be moved. Missing where it does not, and while the event's home does not answer"`
	Status       catalog.Status `json:"status" enum:"draft,published,cancelled,ended"`
	Sale         saleStatus     `json:"sale" enum:"scheduled,open,paused,closed,cancelled,unavailable" doc:"unavailable: the event's home does not answer now, and nothing is sold"`
	Queue        bool           `json:"queue" doc:"Whether buying begins in a queue"`
	Seats        int            `json:"seats" doc:"Seats of the chart"`
	Standing     int            `json:"standing" doc:"Places without seats, over all standing tiers"`
	Chart        string         `json:"chart,omitempty" doc:"The chart's address: /v1/charts/{hash}; missing for pure general admission, which has no seat map"`
	Currency     usher.Currency `json:"currency"`
	Tiers        []tierView     `json:"tiers"`
	// PurchaseLimit and the two times are the rules in force; while the event's home
	// does not answer, those the sale was published with.
	PurchaseLimit int `json:"purchaseLimit" doc:"The most places one account may hold and own"`
	HoldSeconds   int `json:"holdSeconds"`
	GraceSeconds  int `json:"graceSeconds"`
}

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
		out.Body.Events = append(out.Body.Events, s.eventViewOf(ctx, e, s.look(ctx, e)))
	}
	return out, nil
}

func (s *Server) getEvent(ctx context.Context, in *eventInput) (*eventOutput, error) {
	e, err := s.publicEvent(ctx, in.Event.EventID)
	if err != nil {
		return nil, err
	}
	return &eventOutput{Cache: eventCache, Body: s.eventViewOf(ctx, e, s.look(ctx, e))}, nil
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

func (s *Server) eventViewOf(ctx context.Context, e catalog.Event, now look) eventView {
	v := eventView{
		EventID: e.ID, Slug: e.Slug, Name: e.Name, Venue: e.Venue, StartsAt: e.StartsAt.UTC(), TimeZone: e.TimeZone,
		QueueOpensAt: utc(e.QueueOpensAt), OpensAt: utc(e.OpensAt), SaleClosesAt: utc(now.rules.SaleClosesAt),
		Status: e.Status, Sale: now.sale,
		Queue: e.Rules.AdmissionRequired, Seats: s.seatsOf(ctx, e.Chart), Chart: e.Chart, Currency: e.Currency,
		Tiers: tierViews(e, now), PurchaseLimit: now.rules.PurchaseLimit,
		HoldSeconds: int(now.rules.HoldTime / time.Second), GraceSeconds: int(now.rules.Grace / time.Second),
	}
	for _, t := range v.Tiers {
		v.Standing += t.Capacity
	}
	return v
}

func tierViews(e catalog.Event, now look) []tierView {
	views := make([]tierView, 0, len(e.Tiers))
	for _, t := range e.Tiers {
		v := tierView{TierID: t.ID, Name: t.Name, Kind: t.Kind, Price: t.Price, Capacity: t.Capacity, Stock: now.stock(t.ID)}
		if left, ok := now.tiers[t.ID]; ok {
			v.Capacity = left.capacity
		}
		views = append(views, v)
	}
	return views
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
