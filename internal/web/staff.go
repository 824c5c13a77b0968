package web

import (
	"context"
	"net/http"
	"strings"

	"usher"
	"usher/internal/ledger"
)

// What operators do to places, holds and orders. The ledger decides under its
// locks, by docs/rules.md; here it is written down first who does it and why.

// Because is the reason for what somebody else may feel: there is always one.
type Because struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for the list of actions and the ledger's own record"`
}

// by is who acts for the ledger. It refuses a reason of spaces alone.
func (b Because) by(ctx context.Context) (ledger.Staff, error) {
	reason := strings.TrimSpace(b.Reason)
	if err := usher.CheckText("reason", reason, 500); err != nil {
		return ledger.Staff{}, err
	}
	return ledger.Staff{Operator: operatorOf(ctx).ID, Reason: reason}, nil
}

type seatsInput struct {
	Event pathEvent `path:"eventId"`
	Body  struct {
		Because
		SeatIDs []usher.SeatID `json:"seatIds" minItems:"1" maxItems:"1000" doc:"Distinct seats of the chart"`
	}
}

type movedSeatsOutput struct {
	Body struct {
		SeatIDs []usher.SeatID `json:"seatIds" doc:"The seats that this changed: not those that were so before"`
	}
}

type releaseInput struct {
	HoldID usher.HoldID `path:"holdId"`
	Body   Because
}

type adminHoldOutput struct {
	Body adminHoldView
}

// adminHoldView is a hold as staff see it.
type adminHoldView struct {
	Hold      holdView        `json:"hold"`
	AccountID usher.AccountID `json:"accountId"`
}

type cancelInput struct {
	OrderID usher.OrderID `path:"orderId"`
	Body    Because
}

// seatsMax is the most bytes of a list of seats.
const seatsMax = 256 << 10

func (s *Server) addStaff() {
	const tag, one = "Operating", "/v1/admin/events/{eventId}"
	add(s, route{
		id: "blockSeats", method: http.MethodPost, path: one + "/seats/block", tag: tag, who: staff, status: http.StatusOK, bodyMax: seatsMax,
		summary: "Take seats out of sale",
		doc:     "All of them or none: seats that are held, being paid for or sold stay with whoever has them, and the refusal names them. Repeating it is harmless. The answer names the seats that were not blocked before.",
	}, s.blockSeats)
	add(s, route{
		id: "unblockSeats", method: http.MethodPost, path: one + "/seats/unblock", tag: tag, who: staff, status: http.StatusOK, bodyMax: seatsMax,
		summary: "Put blocked seats back on sale",
		doc:     "Seats that are not blocked stay as they are. The answer names those that were.",
	}, s.unblockSeats)
	add(s, route{
		id: "findHold", method: http.MethodGet, path: "/v1/admin/holds/{holdId}", tag: tag, who: staff,
		summary: "Any hold",
	}, s.findHold)
	add(s, route{
		id: "staffReleaseHold", method: http.MethodPost, path: "/v1/admin/holds/{holdId}/release", tag: tag, who: staff, status: http.StatusOK,
		summary: "End somebody's hold before its deadline",
		doc:     "A hold that is being paid for stays with its holder: hold_payment_pending.",
	}, s.staffRelease)
	add(s, route{
		id: "cancelOrder", method: http.MethodPost, path: "/v1/admin/orders/{orderId}/cancel", tag: tag, who: staff, status: http.StatusOK,
		summary: "Take a sold order back",
		doc:     "In one commit its places return to sale, its unused codes open nothing any more, and the money is on its way back, captured or not. Repeating it is harmless; an order that was never sold is refused.",
	}, s.cancelOrder)
}

func (s *Server) blockSeats(ctx context.Context, in *seatsInput) (*movedSeatsOutput, error) {
	return s.moveSeats(ctx, "seats.block", in, func(ctx context.Context, by ledger.Staff) ([]usher.SeatID, error) {
		return s.deps.Ledger.BlockSeats(ctx, ledger.BlockSeats{Event: in.Event.EventID, Seats: in.Body.SeatIDs, By: by})
	})
}

func (s *Server) unblockSeats(ctx context.Context, in *seatsInput) (*movedSeatsOutput, error) {
	return s.moveSeats(ctx, "seats.unblock", in, func(ctx context.Context, by ledger.Staff) ([]usher.SeatID, error) {
		return s.deps.Ledger.UnblockSeats(ctx, ledger.UnblockSeats{Event: in.Event.EventID, Seats: in.Body.SeatIDs, By: by})
	})
}

func (s *Server) moveSeats(ctx context.Context, verb string, in *seatsInput, do func(context.Context, ledger.Staff) ([]usher.SeatID, error)) (*movedSeatsOutput, error) {
	if err := checkSeats(in.Body.SeatIDs); err != nil {
		return nil, err
	}
	out := &movedSeatsOutput{}
	detail := map[string]any{"seatIds": in.Body.SeatIDs}
	err := s.staffAct(ctx, verb, in.Event.EventID, in.Body.Because, detail, func(ctx context.Context, by ledger.Staff) error {
		moved, err := do(ctx, by)
		out.Body.SeatIDs = append([]usher.SeatID{}, moved...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// staffAct writes down what is about to be done to an event's places, and does it.
func (s *Server) staffAct(ctx context.Context, verb string, event usher.EventID, why Because, detail any, do func(context.Context, ledger.Staff) error) error {
	by, err := why.by(ctx)
	if err != nil {
		return err
	}
	return s.act(ctx, verb, event, by.Reason, detail, func(ctx context.Context) error {
		return s.draftOr(ctx, event, do(ctx, by))
	})
}

func (s *Server) findHold(ctx context.Context, in *holdInput) (*adminHoldOutput, error) {
	if err := s.mayOperate(ctx, in.HoldID.Event()); err != nil {
		return nil, err
	}
	h, err := s.deps.Ledger.Hold(ctx, in.HoldID)
	if err != nil {
		return nil, err
	}
	return &adminHoldOutput{Body: adminHoldView{Hold: liveHoldView(h, s.chartOf(ctx, h.Event)), AccountID: h.Account}}, nil
}

func (s *Server) staffRelease(ctx context.Context, in *releaseInput) (*adminHoldOutput, error) {
	out := &adminHoldOutput{}
	detail := map[string]string{"holdId": in.HoldID.String()}
	err := s.staffAct(ctx, "hold.release", in.HoldID.Event(), in.Body, detail, func(ctx context.Context, by ledger.Staff) error {
		h, err := s.deps.Ledger.StaffRelease(ctx, ledger.StaffRelease{Hold: in.HoldID, By: by})
		out.Body = adminHoldView{Hold: liveHoldView(h, nil), AccountID: h.Account}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// cancelOrder leaves the money to checkout: the cancelling commit writes the void
// operation, whose driver finds out what became of the capture.
func (s *Server) cancelOrder(ctx context.Context, in *cancelInput) (*adminOrderOutput, error) {
	detail := map[string]string{"orderId": in.OrderID.String()}
	err := s.staffAct(ctx, "order.cancel", in.OrderID.Event(), in.Body, detail, func(ctx context.Context, by ledger.Staff) error {
		_, err := s.deps.Ledger.CancelOrder(ctx, ledger.CancelOrder{Order: in.OrderID, By: by})
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.findOrder(ctx, &orderInput{OrderID: in.OrderID})
}
