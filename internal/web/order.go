package web

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"usher"
	"usher/internal/checkout"
	"usher/internal/ledger"
	"usher/internal/redemption"
	"usher/internal/seatmap"
)

// checkoutRequest pays for a hold. A card never comes here: the token stands for it.
type checkoutRequest struct {
	PaymentMethodToken string `json:"paymentMethodToken,omitempty" maxLength:"255" doc:"The payment provider's token of the buyer's card; not needed when nothing is to be paid"`
	IdempotencyKey     string `json:"idempotencyKey,omitempty" maxLength:"128" doc:"1 to 128 printable ASCII characters without spaces; a retry with the same key begins nothing new"`
}

type checkoutInput struct {
	HoldID usher.HoldID `path:"holdId"`
	Keyed
	Body checkoutRequest
}

type checkoutOutput struct {
	Replayed string    `header:"Idempotent-Replayed" doc:"true: this request began nothing; the order is the one that was there"`
	Time     time.Time `header:"Usher-Time" timeFormat:"2006-01-02T15:04:05.000Z07:00" doc:"The database's time of this answer"`
	Body     orderView
}

type orderInput struct {
	OrderID usher.OrderID `path:"orderId"`
}

type orderOutput struct {
	Time time.Time `header:"Usher-Time" timeFormat:"2006-01-02T15:04:05.000Z07:00" doc:"The database's time of this answer"`
	Body orderView
}

type ordersOutput struct {
	Body struct {
		Orders []orderView `json:"orders"`
	}
}

// ticketView is the code of one place.
type ticketView struct {
	TicketID  usher.TicketID   `json:"ticketId"`
	EventID   usher.EventID    `json:"eventId"`
	OrderID   usher.OrderID    `json:"orderId"`
	SeatID    usher.SeatID     `json:"seatId,omitempty" doc:"Missing for a place without a seat"`
	SeatName  *seatName        `json:"seatName,omitempty" doc:"Missing while the chart cannot be read"`
	TierID    usher.TierID     `json:"tierId"`
	TierName  string           `json:"tierName,omitempty" doc:"Missing while the event's entry cannot be read"`
	Code      string           `json:"code" doc:"Opens the gate: keep it secret"`
	Status    usher.CodeStatus `json:"status" enum:"unused,processing,used,abnormal,voided"`
	Cancelled bool             `json:"cancelled,omitempty" doc:"The order was cancelled: the code opens nothing"`
	IssuedAt  time.Time        `json:"issuedAt"`
	UsedAt    *time.Time       `json:"usedAt,omitempty"`
}

type ticketsOutput struct {
	Body struct {
		Tickets []ticketView `json:"tickets"`
	}
}

func (s *Server) addOrders() {
	add(s, route{
		id: "checkOut", method: http.MethodPost, path: "/v1/holds/{holdId}/checkout", tag: "Buying", who: buyers, status: http.StatusCreated,
		summary: "Pay for a hold",
		doc:     "A hold has one order: another request returns it. After a definite decline a new key begins another attempt on the same order. paymentStatus unknown means just that: the provider has not said, usher finds out, and nobody should pay again.",
	}, s.checkOut)
	add(s, route{
		id: "listOrders", method: http.MethodGet, path: "/v1/events/{eventId}/orders", tag: "Buying", who: buyers,
		summary: "Your orders of an event",
	}, s.listOrders)
	add(s, route{
		id: "getOrder", method: http.MethodGet, path: "/v1/orders/{orderId}", tag: "Buying", who: buyers,
		summary: "An order of yours, and what is known of its payment",
	}, s.getOrder)
	add(s, route{
		id: "returnToOrder", method: http.MethodPost, path: "/v1/orders/{orderId}/return", tag: "Buying", who: buyers, status: http.StatusOK,
		summary: "Back from the bank's page",
		doc:     "Proves nothing by itself: usher asks the provider now instead of a little later.",
	}, s.returnToOrder)
	add(s, route{
		id: "listTickets", method: http.MethodGet, path: "/v1/orders/{orderId}/tickets", tag: "Tickets", who: buyers,
		summary: "The tickets of an order of yours",
		doc:     "Empty until the payment is captured.",
	}, s.listTickets)
	for _, format := range []struct{ name, media string }{{"svg", "image/svg+xml"}, {"png", "image/png"}} {
		s.document(huma.Operation{
			OperationID: "getTicketQR" + strings.ToUpper(format.name), Method: http.MethodGet, Tags: []string{"Tickets"},
			Path:    "/v1/orders/{orderId}/tickets/{ticketId}/qr." + format.name,
			Summary: "A ticket's code as a QR symbol",
			Parameters: []*huma.Param{
				{Name: "orderId", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}},
				{Name: "ticketId", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}},
			},
			Security: []map[string][]string{{string(buyers): {}}, {"buyerCookie": {}}},
		}, map[int]string{http.StatusOK: format.media})
	}
}

func (s *Server) checkOut(ctx context.Context, in *checkoutInput) (*checkoutOutput, error) {
	key, err := in.key("idempotencyKey", in.Body.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	if err := s.allowBuying(ctx); err != nil {
		return nil, err
	}
	result, err := s.deps.Checkout.Checkout(ctx, checkout.Request{
		Hold: in.HoldID, Account: buyerOf(ctx).Account, MethodToken: in.Body.PaymentMethodToken, Key: key,
	})
	if usher.CodeOf(err) == usher.CodeNotFound {
		return nil, s.noHold(ctx, in.HoldID)
	}
	if err != nil {
		return nil, err
	}
	o := result.Order
	return &checkoutOutput{Replayed: replayed(o.Replayed), Time: o.Now.UTC(), Body: orderViewOf(o, nil)}, nil
}

func (s *Server) listOrders(ctx context.Context, in *eventInput) (*ordersOutput, error) {
	orders, err := s.deps.Ledger.Orders(ctx, in.Event.EventID, buyerOf(ctx).Account)
	if err != nil {
		return nil, err
	}
	out := &ordersOutput{}
	out.Body.Orders = make([]orderView, 0, len(orders))
	var chart *seatmap.Chart
	if len(orders) > 0 {
		chart = s.chartOf(ctx, in.Event.EventID)
	}
	for _, o := range orders {
		out.Body.Orders = append(out.Body.Orders, orderViewOf(o, chart))
	}
	return out, nil
}

func (s *Server) getOrder(ctx context.Context, in *orderInput) (*orderOutput, error) {
	o, err := s.ownOrder(ctx, in.OrderID)
	if err != nil {
		return nil, err
	}
	return &orderOutput{Time: o.Now.UTC(), Body: orderViewOf(o, s.chartOf(ctx, o.Event))}, nil
}

func (s *Server) returnToOrder(ctx context.Context, in *orderInput) (*orderOutput, error) {
	if err := s.allowBuying(ctx); err != nil {
		return nil, err
	}
	result, err := s.deps.Checkout.Returned(ctx, in.OrderID, buyerOf(ctx).Account)
	if usher.CodeOf(err) == usher.CodeNotFound {
		// Reading it notes whose it is.
		if _, err := s.ownOrder(ctx, in.OrderID); err != nil {
			return nil, err
		}
		return nil, errNoOrder()
	}
	if err != nil {
		return nil, err
	}
	return &orderOutput{Time: result.Order.Now.UTC(), Body: orderViewOf(result.Order, nil)}, nil
}

func errNoOrder() error { return usher.Errorf(usher.CodeNotFound, "no such order") }

// ownOrder reads an order of the account that asks. Somebody else's order and
// one that never was get the same answer.
func (s *Server) ownOrder(ctx context.Context, id usher.OrderID) (ledger.Order, error) {
	o, err := s.deps.Ledger.Order(ctx, id)
	switch {
	case usher.CodeOf(err) == usher.CodeNotFound:
		return ledger.Order{}, errNoOrder()
	case err != nil:
		return ledger.Order{}, err
	case o.Account != buyerOf(ctx).Account:
		s.noteForeign(ctx, id.String())
		return ledger.Order{}, errNoOrder()
	}
	return o, nil
}

// noteForeign writes down that an account asked for what is somebody else's.
func (s *Server) noteForeign(ctx context.Context, id string) {
	q := requestOf(ctx)
	s.metrics.foreign.Inc()
	s.log.WarnContext(ctx, "an account asked for somebody else's", "request", q.id, "account", q.account, "id", id)
}

func (s *Server) listTickets(ctx context.Context, in *orderInput) (*ticketsOutput, error) {
	tickets, err := s.ownTickets(ctx, in.OrderID)
	if err != nil {
		return nil, err
	}
	names, chart := s.tierNames(ctx, in.OrderID.Event()), s.chartOf(ctx, in.OrderID.Event())
	out := &ticketsOutput{}
	out.Body.Tickets = make([]ticketView, 0, len(tickets))
	for _, t := range tickets {
		out.Body.Tickets = append(out.Body.Tickets, ticketView{
			TicketID: t.ID, EventID: t.Event, OrderID: t.Order, SeatID: t.Seat, SeatName: nameOf(chart, t.Seat), TierID: t.Tier, TierName: names[t.Tier],
			Code: t.Code, Status: t.Status, Cancelled: t.Cancelled, IssuedAt: t.IssuedAt.UTC(), UsedAt: utc(t.UsedAt),
		})
	}
	return out, nil
}

// tierNames are what people call the event's tiers; none when its entry cannot be
// read: a ticket is good without.
func (s *Server) tierNames(ctx context.Context, event usher.EventID) map[usher.TierID]string {
	names := map[usher.TierID]string{}
	if e, err := s.deps.Catalog.Get(ctx, event); err == nil {
		for _, t := range e.Tiers {
			names[t.ID] = t.Name
		}
	}
	return names
}

func (s *Server) ownTickets(ctx context.Context, id usher.OrderID) ([]redemption.Ticket, error) {
	if _, err := s.ownOrder(ctx, id); err != nil {
		return nil, err
	}
	return s.deps.Redemption.Tickets(ctx, id)
}

// qrScale is how many pixels a module of a PNG symbol has.
const qrScale = 8

// ticketQR answers one ticket's code as a picture, to its owner alone. The
// picture holds the code itself and no address: opening it uses nothing.
func (s *Server) ticketQR(draw func(code string) []byte, media string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := s.drawTicket(r, draw)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		h := w.Header()
		h.Set("Content-Type", media)
		h.Set("Cache-Control", "private, no-store")
		// A reader that went away is no failure of ours.
		_, _ = w.Write(body)
	}
}

func (s *Server) drawTicket(r *http.Request, draw func(code string) []byte) ([]byte, error) {
	if err := s.identify(r, buyers); err != nil {
		return nil, err
	}
	var order usher.OrderID
	if err := order.UnmarshalText([]byte(r.PathValue("orderId"))); err != nil {
		return nil, err
	}
	tickets, err := s.ownTickets(r.Context(), order)
	if err != nil {
		return nil, err
	}
	for _, t := range tickets {
		if t.ID.String() == r.PathValue("ticketId") {
			return draw(t.Code), nil
		}
	}
	return nil, usher.Errorf(usher.CodeNotFound, "no such ticket")
}
