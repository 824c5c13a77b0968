package web

import (
	"context"
	"net/http"

	"usher"
	"usher/internal/catalog"
	"usher/internal/ledger"
)

// The tiers without seats, as operators set and steer them.

type standingTier struct {
	TierID   usher.TierID `json:"tierId" minLength:"1" maxLength:"64"`
	Name     string       `json:"name" minLength:"1" maxLength:"800"`
	Capacity int          `json:"capacity" minimum:"1" maximum:"10000000"`
	Buckets  int          `json:"buckets,omitempty" minimum:"1" maximum:"1000" doc:"How many counters the capacity is spread over; 1 by default"`
}

type standingInput struct {
	Event pathEvent `path:"eventId"`
	Body  struct {
		Reasoned
		Tiers []standingTier `json:"tiers" maxItems:"50" doc:"All standing tiers of the draft; those that are left out go"`
	}
}

// TierInput names a tier of an event.
type TierInput struct {
	Event  pathEvent    `path:"eventId"`
	TierID usher.TierID `path:"tierId" minLength:"1" maxLength:"64"`
}

type moveInput struct {
	TierInput
	Body struct {
		Because
		From     int `json:"from" minimum:"1" maximum:"1000" doc:"Bucket that gives"`
		To       int `json:"to" minimum:"1" maximum:"1000" doc:"Bucket that gets; it is made if it is not there"`
		Quantity int `json:"quantity" minimum:"1" maximum:"10000000"`
	}
}

type capacityInput struct {
	TierInput
	Body struct {
		Because
		Capacity int `json:"capacity" minimum:"0" maximum:"10000000"`
		Bucket   int `json:"bucket,omitempty" minimum:"1" maximum:"1000" doc:"This bucket alone; by default all of the tier, whose buckets keep the shares they have of what is free"`
	}
}

type quotaOutput struct {
	Body quotaView
}

// quotaView is a standing tier's counters as operators see them.
type quotaView struct {
	EventID  usher.EventID `json:"eventId"`
	TierID   usher.TierID  `json:"tierId"`
	Capacity int           `json:"capacity" doc:"Of all buckets together"`
	Buckets  []bucketView  `json:"buckets"`
}

// bucketView is one counter; available, held and sold are its capacity.
type bucketView struct {
	Bucket    int `json:"bucket"`
	Available int `json:"available"`
	Held      int `json:"held" doc:"Held and being paid for"`
	Sold      int `json:"sold"`
}

func (s *Server) addQuotas() {
	const tag, one = "Operating", "/v1/admin/events/{eventId}"
	add(s, route{
		id: "setStanding", method: http.MethodPut, path: one + "/standing", tag: tag, who: staff, status: http.StatusOK,
		summary: "Give a draft its tiers without seats",
		doc:     "Instead of those it has; a tier that stays keeps its price. With a chart the event is mixed, without one it is pure general admission. Prices are set by the prices route.",
	}, s.setStanding)
	add(s, route{
		id: "getQuota", method: http.MethodGet, path: one + "/tiers/{tierId}/quota", tag: tag, who: staff,
		summary: "A standing tier's buckets now",
	}, s.getQuota)
	add(s, route{
		id: "moveQuota", method: http.MethodPost, path: one + "/tiers/{tierId}/quota/move", tag: tag, who: staff, status: http.StatusOK,
		summary: "Move free places from one bucket of a tier to another",
		doc:     "The tier's capacity stays as it is. Moving more than is free is refused with the numbers.",
	}, s.moveQuota)
	add(s, route{
		id: "setCapacity", method: http.MethodPut, path: one + "/tiers/{tierId}/capacity", tag: tag, who: staff, status: http.StatusOK,
		summary: "Change the capacity of a standing tier, or of one of its buckets",
		doc:     "It cannot go below what is held, being paid for and sold: state_conflict with the numbers.",
	}, s.setCapacity)
}

func (s *Server) setStanding(ctx context.Context, in *standingInput) (*adminEventOutput, error) {
	tiers := make([]catalog.Standing, 0, len(in.Body.Tiers))
	for _, t := range in.Body.Tiers {
		tiers = append(tiers, catalog.Standing{ID: t.TierID, Name: t.Name, Capacity: t.Capacity, Buckets: t.Buckets})
	}
	err := s.act(ctx, "event.standing", in.Event.EventID, in.Body.Reason, in.Body.Tiers, func(ctx context.Context) error {
		_, err := s.deps.Catalog.SetStanding(ctx, in.Event.EventID, tiers)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.adminEventByID(ctx, in.Event.EventID)
}

func (s *Server) getQuota(ctx context.Context, in *TierInput) (*quotaOutput, error) {
	if err := s.mayOperate(ctx, in.Event.EventID); err != nil {
		return nil, err
	}
	buckets, err := s.deps.Ledger.Quota(ctx, in.Event.EventID)
	if err != nil {
		return nil, s.draftOr(ctx, in.Event.EventID, err)
	}
	v := quotaView{EventID: in.Event.EventID, TierID: in.TierID}
	for _, b := range buckets {
		if b.Tier == in.TierID {
			v.Capacity += b.Capacity()
			v.Buckets = append(v.Buckets, bucketView{b.Bucket, b.Available, b.Held, b.Sold})
		}
	}
	if v.Buckets == nil {
		return nil, usher.Errorf(usher.CodeNotFound, "the event has no standing tier of that id")
	}
	return &quotaOutput{Body: v}, nil
}

func (s *Server) moveQuota(ctx context.Context, in *moveInput) (*quotaOutput, error) {
	b := in.Body
	detail := map[string]any{"tierId": in.TierID, "from": b.From, "to": b.To, "quantity": b.Quantity}
	return s.steerTier(ctx, "quota.move", in.TierInput, b.Because, detail, func(ctx context.Context, by ledger.Staff) error {
		return s.deps.Ledger.MoveCapacity(ctx, ledger.MoveCapacity{
			Event: in.Event.EventID, Tier: in.TierID, From: b.From, To: b.To, Quantity: b.Quantity, By: by,
		})
	})
}

func (s *Server) setCapacity(ctx context.Context, in *capacityInput) (*quotaOutput, error) {
	b := in.Body
	detail := map[string]any{"tierId": in.TierID, "capacity": b.Capacity, "bucket": b.Bucket}
	return s.steerTier(ctx, "quota.capacity", in.TierInput, b.Because, detail, func(ctx context.Context, by ledger.Staff) error {
		return s.deps.Ledger.SetCapacity(ctx, ledger.SetCapacity{
			Event: in.Event.EventID, Tier: in.TierID, Bucket: b.Bucket, Capacity: b.Capacity, By: by,
		})
	})
}

// steerTier changes a standing tier that is there, and answers what it has then.
func (s *Server) steerTier(ctx context.Context, verb string, in TierInput, why Because, detail any, do func(context.Context, ledger.Staff) error) (*quotaOutput, error) {
	if _, err := s.getQuota(ctx, &in); err != nil {
		return nil, err
	}
	if err := s.staffAct(ctx, verb, in.Event.EventID, why, detail, do); err != nil {
		return nil, err
	}
	return s.getQuota(ctx, &in)
}
