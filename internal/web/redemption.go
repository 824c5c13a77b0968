package web

import (
	"context"
	"net/http"
	"time"

	"usher"
	"usher/internal/redemption"
)

// claimRequest is one scan.
type claimRequest struct {
	Code          string `json:"code" maxLength:"1024" doc:"What was scanned or typed, as it came"`
	TransactionID string `json:"transactionId,omitempty" maxLength:"128" doc:"The device's own name for this attempt; a retry with the same one gets the first answer. Idempotency-Key says the same"`
}

type claimInput struct {
	Keyed
	Body claimRequest
}

// redemptionView is a granted claim, as it was first answered.
type redemptionView struct {
	RedemptionID  usher.RedemptionID `json:"redemptionId"`
	TicketID      usher.TicketID     `json:"ticketId"`
	EventID       usher.EventID      `json:"eventId"`
	SeatID        usher.SeatID       `json:"seatId,omitempty" doc:"Missing for a place without a seat"`
	SeatName      *seatName          `json:"seatName,omitempty" doc:"Missing while the chart is not in memory: getOwnDevice brings it there. A repeat may have it where the first answer had none"`
	TierID        usher.TierID       `json:"tierId"`
	TransactionID string             `json:"transactionId"`
	Status        usher.CodeStatus   `json:"status" enum:"processing,used" doc:"used: let in. processing: act now and confirm by confirmBy"`
	Instruction   string             `json:"instruction,omitempty" doc:"What the device does or shows"`
	ClaimedAt     time.Time          `json:"claimedAt"`
	ConfirmBy     time.Time          `json:"confirmBy" doc:"When an unconfirmed claim is frozen for review"`
}

type claimOutput struct {
	Replayed string    `header:"Idempotent-Replayed" doc:"true: this is the answer to an earlier request"`
	Current  string    `header:"Usher-Code-Status" doc:"The code's state now: a device that settles later acts only while it is processing"`
	Time     time.Time `header:"Usher-Time" timeFormat:"2006-01-02T15:04:05.000Z07:00" doc:"The database's time of this answer"`
	Body     redemptionView
}

// confirmRequest is what a device did.
type confirmRequest struct {
	TransactionID string            `json:"transactionId,omitempty" maxLength:"128" doc:"The one the claim was made with"`
	Result        redemption.Result `json:"result" enum:"dispensed,admitted,failed,unknown" doc:"What happened; unknown when the device cannot tell"`
}

type confirmInput struct {
	RedemptionID usher.RedemptionID `path:"redemptionId"`
	Keyed
	Body confirmRequest
}

// confirmationView is a settled redemption.
type confirmationView struct {
	RedemptionID usher.RedemptionID `json:"redemptionId"`
	Status       usher.CodeStatus   `json:"status" enum:"used,abnormal"`
	Result       redemption.Result  `json:"result"`
	SettledAt    time.Time          `json:"settledAt"`
}

type confirmOutput struct {
	Replayed string `header:"Idempotent-Replayed" doc:"true: this is the answer to an earlier request"`
	Body     confirmationView
}

// deviceView is a gate or machine.
type deviceView struct {
	DeviceID    usher.DeviceID    `json:"deviceId"`
	EventID     usher.EventID     `json:"eventId"`
	Name        string            `json:"name"`
	Settle      redemption.Settle `json:"settle" enum:"now,later"`
	Instruction string            `json:"instruction,omitempty"`
	CreatedAt   time.Time         `json:"createdAt"`
	RevokedAt   *time.Time        `json:"revokedAt,omitempty"`
}

type deviceOutput struct {
	Body deviceView
}

func (s *Server) addRedemption() {
	add(s, route{
		id: "claimCode", method: http.MethodPost, path: "/v1/redemptions", tag: "Redeeming", who: machines, status: http.StatusCreated,
		summary: "Claim a code",
		doc:     "One of any number of simultaneous claims wins; the others are refused at once with 409 and the reason.",
	}, s.claimCode)
	add(s, route{
		id: "confirmRedemption", method: http.MethodPost, path: "/v1/redemptions/{redemptionId}/confirm", tag: "Redeeming", who: machines,
		summary: "Report what the device did",
		doc:     "The first report counts. A report that comes after confirmBy changes nothing and is kept as evidence.",
	}, s.confirmRedemption)
	add(s, route{
		id: "getOwnDevice", method: http.MethodGet, path: "/v1/devices/me", tag: "Redeeming", who: machines,
		summary: "The device that asks",
		doc:     "Asked before the first claim, it lets claims name seats.",
	}, s.ownDevice)
}

func (s *Server) claimCode(ctx context.Context, in *claimInput) (*claimOutput, error) {
	id, err := in.key("transactionId", in.Body.TransactionID)
	if err != nil {
		return nil, err
	}
	red, err := s.deps.Redemption.Claim(ctx, redemption.Claim{Device: deviceOf(ctx), Code: in.Body.Code, TransactionID: id})
	if err != nil {
		return nil, err
	}
	return &claimOutput{
		Replayed: replayed(red.Replayed),
		Current:  string(red.Current),
		Time:     red.Now.UTC(),
		Body: redemptionView{
			RedemptionID: red.ID, TicketID: red.Ticket, EventID: red.Event, SeatID: red.Seat,
			SeatName: nameOf(s.deps.Charts.AtHand(red.Event), red.Seat), TierID: red.Tier,
			TransactionID: red.TransactionID, Status: red.Status, Instruction: red.Instruction,
			ClaimedAt: red.ClaimedAt.UTC(), ConfirmBy: red.ConfirmBy.UTC(),
		},
	}, nil
}

func (s *Server) confirmRedemption(ctx context.Context, in *confirmInput) (*confirmOutput, error) {
	id, err := in.key("transactionId", in.Body.TransactionID)
	if err != nil {
		return nil, err
	}
	c, err := s.deps.Redemption.Confirm(ctx, redemption.Confirm{
		Device: deviceOf(ctx), Redemption: in.RedemptionID, TransactionID: id, Result: in.Body.Result,
	})
	if err != nil {
		return nil, err
	}
	return &confirmOutput{
		Replayed: replayed(c.Replayed),
		Body:     confirmationView{RedemptionID: c.Redemption, Status: c.Status, Result: c.Result, SettledAt: c.SettledAt.UTC()},
	}, nil
}

func (s *Server) ownDevice(ctx context.Context, _ *struct{}) (*deviceOutput, error) {
	d := deviceOf(ctx)
	s.bringChart(ctx, d.Event)
	return &deviceOutput{Body: deviceViewOf(d)}, nil
}

// bringChart has the event's chart in memory, so that claims can name seats and none
// of them waits for a chart. Without it they name none.
func (s *Server) bringChart(ctx context.Context, event usher.EventID) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	_, err := s.deps.Charts.OfEvent(ctx, event)
	if err != nil && usher.CodeOf(err) != usher.CodeNotFound {
		s.log.WarnContext(ctx, "chart cannot be read", "event", event, "error", err)
	}
}

func deviceViewOf(d redemption.Device) deviceView {
	return deviceView{
		DeviceID: d.ID, EventID: d.Event, Name: d.Name, Settle: d.Settle, Instruction: d.Instruction,
		CreatedAt: d.CreatedAt.UTC(), RevokedAt: utc(d.RevokedAt),
	}
}
