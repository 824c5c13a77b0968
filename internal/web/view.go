package web

import (
	"time"

	"usher"
	"usher/internal/checkout"
	"usher/internal/ledger"
	"usher/internal/seatmap"
)

// The shapes of answers. Times are UTC; ids are text; money is minor units.

// seatView is one place of a hold or an order.
type seatView struct {
	SeatID usher.SeatID `json:"seatId"`
	Name   *seatName    `json:"name,omitempty" doc:"In answers to GET, where the chart can be read"`
	TierID usher.TierID `json:"tierId"`
	Price  usher.Money  `json:"price"`
}

// seatName is where a seat is, as the venue's signs say it. Answers to readings have
// it, unless the chart cannot be read; the seat's id says it, too. What buys waits for
// no chart, and a claim has the name when the chart is in memory.
type seatName struct {
	Section string `json:"section"`
	Row     string `json:"row"`
	Seat    string `json:"seat"`
}

// itemView is a quantity of a tier without seats; Price is for one place.
type itemView struct {
	TierID   usher.TierID `json:"tierId"`
	Quantity int          `json:"quantity"`
	Price    usher.Money  `json:"price" doc:"Of one place"`
}

// holdView is a hold.
type holdView struct {
	HoldID  usher.HoldID     `json:"holdId"`
	EventID usher.EventID    `json:"eventId"`
	Status  usher.HoldStatus `json:"status" enum:"held,payment_pending,confirmed,released,expired"`
	// ExpiresAt never moves. While a payment is pending, GraceUntil counts instead.
	ExpiresAt  time.Time     `json:"expiresAt" doc:"The one deadline of the hold"`
	GraceUntil *time.Time    `json:"graceUntil,omitempty" doc:"The end of the one extension while a payment is pending"`
	Seats      []seatView    `json:"seats"`
	Items      []itemView    `json:"items,omitempty" doc:"Quantities of tiers without seats"`
	Amount     usher.Money   `json:"amount"`
	OrderID    usher.OrderID `json:"orderId,omitzero" doc:"The order, once a checkout has begun"`
	ServerTime *time.Time    `json:"serverTime,omitempty" doc:"The database's time of this answer: count down by it, not by the device's clock"`
}

// orderView is an order with what is known of its payment.
type orderView struct {
	OrderID       usher.OrderID          `json:"orderId"`
	HoldID        usher.HoldID           `json:"holdId"`
	EventID       usher.EventID          `json:"eventId"`
	OrderStatus   usher.OrderStatus      `json:"orderStatus" enum:"payment_pending,declined,voiding,confirmed,voided,lapsed,cancelled"`
	PaymentStatus checkout.PaymentStatus `json:"paymentStatus" enum:"processing,action_required,approved,declined,unknown,voided" doc:"unknown: the provider has not said; usher finds out, and nobody should pay again"`
	NextAction    checkout.NextAction    `json:"nextAction" doc:"What the buyer's page does now: none, redirect (to url), wait (read the order again), pay_again"`
	Amount        usher.Money            `json:"amount"`
	Seats         []seatView             `json:"seats"`
	Items         []itemView             `json:"items,omitempty" doc:"Quantities of tiers without seats"`
	CreatedAt     time.Time              `json:"createdAt"`
	ConfirmedAt   *time.Time             `json:"confirmedAt,omitempty"`
	CapturedAt    *time.Time             `json:"capturedAt,omitempty"`
	ClosedAt      *time.Time             `json:"closedAt,omitempty"`
	CloseReason   string                 `json:"closeReason,omitempty"`
	ExpiresAt     time.Time              `json:"expiresAt" doc:"The hold's deadline"`
	GraceUntil    *time.Time             `json:"graceUntil,omitempty"`
	ServerTime    time.Time              `json:"serverTime"`
}

// holdViewOf is a hold with the names of its seats in the chart; nil names none.
func holdViewOf(h ledger.Hold, chart *seatmap.Chart) holdView {
	return holdView{
		HoldID:     h.ID,
		EventID:    h.Event,
		Status:     h.Status,
		ExpiresAt:  h.ExpiresAt.UTC(),
		GraceUntil: utc(h.GraceUntil),
		Seats:      seatViews(h.Seats, chart),
		Items:      itemViews(h.Items),
		Amount:     h.Amount,
		OrderID:    h.Order,
	}
}

// orderViewOf is an order with the names of its seats in the chart; nil names none.
func orderViewOf(o ledger.Order, chart *seatmap.Chart) orderView {
	return orderView{
		OrderID:       o.ID,
		HoldID:        o.Hold,
		EventID:       o.Event,
		OrderStatus:   o.Status,
		PaymentStatus: checkout.StatusOf(o),
		NextAction:    checkout.NextActionOf(o),
		Amount:        o.Amount,
		Seats:         seatViews(o.Seats, chart),
		Items:         itemViews(o.Items),
		CreatedAt:     o.CreatedAt.UTC(),
		ConfirmedAt:   utc(o.ConfirmedAt),
		CapturedAt:    utc(o.CapturedAt),
		ClosedAt:      utc(o.ClosedAt),
		CloseReason:   o.CloseReason,
		ExpiresAt:     o.HoldExpiresAt.UTC(),
		GraceUntil:    utc(o.GraceUntil),
		ServerTime:    o.Now.UTC(),
	}
}

func seatViews(seats []ledger.Seat, chart *seatmap.Chart) []seatView {
	views := make([]seatView, 0, len(seats))
	for _, s := range seats {
		views = append(views, seatView{SeatID: s.ID, Name: nameOf(chart, s.ID), TierID: s.Tier, Price: s.Price})
	}
	return views
}

func nameOf(chart *seatmap.Chart, seat usher.SeatID) *seatName {
	if chart == nil {
		return nil
	}
	n, ok := chart.Ordinal(seat)
	if !ok {
		return nil
	}
	row := chart.RowOf(n)
	return &seatName{Section: row.Section, Row: row.Label, Seat: chart.Seat(n).Label}
}

func itemViews(items []ledger.Item) []itemView {
	views := make([]itemView, 0, len(items))
	for _, i := range items {
		views = append(views, itemView{TierID: i.Tier, Quantity: i.Quantity, Price: i.Price})
	}
	return views
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
