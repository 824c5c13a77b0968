package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"usher"
	"usher/internal/account"
	"usher/internal/ledger"
	"usher/internal/redemption"
)

// Reasoned is the reason that every act of an operator is written down with.
type Reasoned struct {
	Reason string `json:"reason,omitempty" maxLength:"2000" doc:"Why, for the list of actions; by default it says that none was given"`
}

// mayOperate refuses an operator of one tenant an event of another, with the
// answer for an event that is not there.
func (s *Server) mayOperate(ctx context.Context, event usher.EventID) error {
	o := operatorOf(ctx)
	if o.Tenant.IsZero() {
		return nil
	}
	e, err := s.deps.Catalog.Get(ctx, event)
	if err != nil {
		return err
	}
	if e.Tenant != o.Tenant {
		return usher.Errorf(usher.CodeNotFound, "no such event")
	}
	return nil
}

// act writes down what an operator is about to do to an event, and then does it:
// nothing happens that no line tells of.
func (s *Server) act(ctx context.Context, verb string, event usher.EventID, reason string, detail any, do func(context.Context) error) error {
	if err := s.mayOperate(ctx, event); err != nil {
		return err
	}
	if err := s.logAction(ctx, verb, event.String(), reason, detail); err != nil {
		return err
	}
	return do(ctx)
}

func (s *Server) logAction(ctx context.Context, verb, target, reason string, detail any) error {
	if reason = strings.TrimSpace(reason); reason == "" {
		reason = "no reason given"
	}
	if detail == nil {
		detail = struct{}{}
	}
	text, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	_, err = s.deps.Accounts.LogAction(ctx, account.Action{
		Operator: operatorOf(ctx).ID, Verb: verb, Target: target, Reason: reason, Detail: text,
	})
	return err
}

// actionView is one line of what operators did.
type actionView struct {
	Number     int64            `json:"number"`
	At         time.Time        `json:"at"`
	OperatorID usher.OperatorID `json:"operatorId"`
	Operator   string           `json:"operator" doc:"The operator's name"`
	Verb       string           `json:"verb"`
	Target     string           `json:"target"`
	Reason     string           `json:"reason"`
	Detail     json.RawMessage  `json:"detail"`
}

type actionsInput struct {
	Target string `query:"target" maxLength:"200" doc:"Only what was done to this, for example evt_12"`
	Verb   string `query:"verb" maxLength:"100"`
	Before int64  `query:"before" minimum:"0" doc:"The last number of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

type actionsOutput struct {
	Body struct {
		Actions []actionView `json:"actions"`
	}
}

type deviceRequest struct {
	Reasoned
	Name        string            `json:"name" minLength:"1" maxLength:"100"`
	Settle      redemption.Settle `json:"settle" enum:"now,later" doc:"now: a person lets people in. later: a turnstile or machine acts and confirms"`
	Instruction string            `json:"instruction,omitempty" maxLength:"500" doc:"What a granted claim tells the device"`
}

type deviceInput struct {
	Event pathEvent `path:"eventId"`
	Body  deviceRequest
}

type registeredOutput struct {
	Body struct {
		Device     deviceView `json:"device"`
		Credential string     `json:"credential" doc:"Shown this once"`
	}
}

type devicesOutput struct {
	Body struct {
		Devices []deviceView `json:"devices"`
	}
}

type revokeInput struct {
	DeviceID usher.DeviceID `path:"deviceId"`
	Reason   string         `query:"reason" maxLength:"2000"`
}

type refusalView struct {
	Number        int64          `json:"number"`
	DeviceID      usher.DeviceID `json:"deviceId"`
	TransactionID string         `json:"transactionId"`
	TicketID      usher.TicketID `json:"ticketId,omitzero"`
	Reason        usher.Code     `json:"reason"`
	At            time.Time      `json:"at"`
}

type refusalsInput struct {
	Event  pathEvent `path:"eventId"`
	Before int64     `query:"before" minimum:"0"`
	Limit  int       `query:"limit" minimum:"1" maximum:"500" default:"100"`
}

type refusalsOutput struct {
	Body struct {
		Refusals []refusalView `json:"refusals"`
	}
}

type buyersInput struct {
	Body struct {
		Reasoned
		Count int `json:"count" minimum:"1" maximum:"100000"`
	}
}

type buyerView struct {
	AccountID usher.AccountID `json:"accountId"`
	Token     string          `json:"token"`
}

type buyersOutput struct {
	Body struct {
		Buyers []buyerView `json:"buyers"`
	}
}

type adminOrderOutput struct {
	Body adminOrderView
}

// adminOrderView is an order as staff see it, with the payment's own words.
type adminOrderView struct {
	Order      orderView       `json:"order"`
	AccountID  usher.AccountID `json:"accountId"`
	Operations []operationView `json:"operations"`
}

// operationView is one payment operation. It has no method token and no address
// that is for the buyer alone.
type operationView struct {
	OperationID  usher.OperationID     `json:"operationId"`
	Kind         usher.OperationKind   `json:"kind"`
	Status       usher.OperationStatus `json:"status"`
	Provider     string                `json:"provider"`
	Reference    string                `json:"reference,omitempty"`
	ProviderCode string                `json:"providerCode,omitempty"`
	Amount       usher.Money           `json:"amount"`
	SentAt       *time.Time            `json:"sentAt,omitempty"`
	CreatedAt    time.Time             `json:"createdAt"`
	UpdatedAt    time.Time             `json:"updatedAt"`
	Attempts     int                   `json:"attempts"`
	NextAt       *time.Time            `json:"nextAt,omitempty"`
	ParkedAt     *time.Time            `json:"parkedAt,omitempty"`
	LastError    string                `json:"lastError,omitempty"`
}

func operationViews(o ledger.Order) []operationView {
	views := []operationView{}
	for _, op := range o.Operations {
		views = append(views, operationView{
			OperationID: op.ID, Kind: op.Kind, Status: op.Status, Provider: op.Provider, Reference: op.Reference,
			ProviderCode: op.ProviderCode, Amount: op.Amount, SentAt: utc(op.SentAt), CreatedAt: op.CreatedAt.UTC(),
			UpdatedAt: op.UpdatedAt.UTC(), Attempts: op.Attempts, NextAt: utc(op.NextAt), ParkedAt: utc(op.ParkedAt), LastError: op.LastError,
		})
	}
	return views
}

func (s *Server) addAdmin() {
	tag := "Operating"
	add(s, route{
		id: "listActions", method: http.MethodGet, path: "/v1/admin/actions", tag: tag, who: staff,
		summary: "What operators did, and why",
	}, s.listActions)
	add(s, route{
		id: "registerDevice", method: http.MethodPost, path: "/v1/admin/events/{eventId}/devices", tag: tag, who: staff, status: http.StatusCreated,
		summary: "Register a gate or machine",
	}, s.registerDevice)
	add(s, route{
		id: "listDevices", method: http.MethodGet, path: "/v1/admin/events/{eventId}/devices", tag: tag, who: staff,
		summary: "The event's gates and machines",
	}, s.listDevices)
	add(s, route{
		id: "revokeDevice", method: http.MethodDelete, path: "/v1/admin/devices/{deviceId}", tag: tag, who: staff, status: http.StatusNoContent,
		summary: "End a device",
		doc:     "Its next claim is refused in every process.",
	}, s.revokeDevice)
	add(s, route{
		id: "listRefusals", method: http.MethodGet, path: "/v1/admin/events/{eventId}/refusals", tag: tag, who: staff,
		summary: "Refused scans, newest first",
	}, s.listRefusals)
	add(s, route{
		id: "mintBuyers", method: http.MethodPost, path: "/v1/admin/buyer-sessions", tag: tag, who: staff, status: http.StatusCreated,
		summary: "Make buyers for a rehearsal",
		doc:     "Accounts under a reserved domain, each with a session token. For the house's own staff only.",
	}, s.mintBuyers)
	add(s, route{
		id: "findOrder", method: http.MethodGet, path: "/v1/admin/orders/{orderId}", tag: tag, who: staff,
		summary: "Any order, with its payment operations",
	}, s.findOrder)
}

func (s *Server) listActions(ctx context.Context, in *actionsInput) (*actionsOutput, error) {
	if !operatorOf(ctx).Tenant.IsZero() {
		return nil, usher.Errorf(usher.CodeForbidden, "the list of actions is for the house's own staff")
	}
	actions, err := s.deps.Accounts.Actions(ctx, account.ActionFilter{Target: in.Target, Verb: in.Verb, Before: in.Before, Limit: in.Limit})
	if err != nil {
		return nil, err
	}
	operators, err := s.deps.Accounts.Operators(ctx)
	if err != nil {
		return nil, err
	}
	names := map[usher.OperatorID]string{}
	for _, o := range operators {
		names[o.ID] = o.Name
	}
	out := &actionsOutput{}
	out.Body.Actions = make([]actionView, 0, len(actions))
	for _, a := range actions {
		out.Body.Actions = append(out.Body.Actions, actionView{
			Number: a.Number, At: a.At.UTC(), OperatorID: a.Operator, Operator: names[a.Operator], Verb: a.Verb, Target: a.Target, Reason: a.Reason, Detail: a.Detail,
		})
	}
	return out, nil
}

func (s *Server) registerDevice(ctx context.Context, in *deviceInput) (*registeredOutput, error) {
	if strings.TrimSpace(in.Body.Name) == "" {
		return nil, usher.Errorf(usher.CodeInvalidRequest, "name: a device needs one that people can tell it by")
	}
	out := &registeredOutput{}
	detail := map[string]string{"name": in.Body.Name, "settle": string(in.Body.Settle)}
	err := s.act(ctx, "device.register", in.Event.EventID, in.Body.Reason, detail, func(ctx context.Context) error {
		credential, d, err := s.deps.Redemption.RegisterDevice(ctx, in.Event.EventID, in.Body.Name, in.Body.Settle, in.Body.Instruction)
		out.Body.Device, out.Body.Credential = deviceViewOf(d), credential
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Server) listDevices(ctx context.Context, in *eventInput) (*devicesOutput, error) {
	if err := s.mayOperate(ctx, in.Event.EventID); err != nil {
		return nil, err
	}
	devices, err := s.deps.Redemption.Devices(ctx, in.Event.EventID)
	if err != nil {
		return nil, err
	}
	out := &devicesOutput{}
	out.Body.Devices = make([]deviceView, 0, len(devices))
	for _, d := range devices {
		out.Body.Devices = append(out.Body.Devices, deviceViewOf(d))
	}
	return out, nil
}

func (s *Server) revokeDevice(ctx context.Context, in *revokeInput) (*emptyOutput, error) {
	detail := map[string]string{"deviceId": in.DeviceID.String()}
	return &emptyOutput{}, s.act(ctx, "device.revoke", in.DeviceID.Event(), in.Reason, detail, func(ctx context.Context) error {
		return s.deps.Redemption.RevokeDevice(ctx, in.DeviceID)
	})
}

func (s *Server) listRefusals(ctx context.Context, in *refusalsInput) (*refusalsOutput, error) {
	if err := s.mayOperate(ctx, in.Event.EventID); err != nil {
		return nil, err
	}
	refusals, err := s.deps.Redemption.Refusals(ctx, in.Event.EventID, in.Before, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &refusalsOutput{}
	out.Body.Refusals = make([]refusalView, 0, len(refusals))
	for _, r := range refusals {
		out.Body.Refusals = append(out.Body.Refusals, refusalView{
			Number: r.Number, DeviceID: r.Device, TransactionID: r.TransactionID, TicketID: r.Ticket, Reason: r.Reason, At: r.At.UTC(),
		})
	}
	return out, nil
}

func (s *Server) mintBuyers(ctx context.Context, in *buyersInput) (*buyersOutput, error) {
	if !operatorOf(ctx).Tenant.IsZero() {
		return nil, usher.Errorf(usher.CodeForbidden, "rehearsals are for the house's own staff")
	}
	if err := s.logAction(ctx, "buyers.mint", "rehearsal", in.Body.Reason, map[string]int{"count": in.Body.Count}); err != nil {
		return nil, err
	}
	buyers, err := s.deps.Accounts.MintBuyers(ctx, in.Body.Count)
	if err != nil {
		return nil, err
	}
	out := &buyersOutput{}
	out.Body.Buyers = make([]buyerView, 0, len(buyers))
	for _, b := range buyers {
		out.Body.Buyers = append(out.Body.Buyers, buyerView{AccountID: b.Account, Token: b.Token})
	}
	return out, nil
}

func (s *Server) findOrder(ctx context.Context, in *orderInput) (*adminOrderOutput, error) {
	if err := s.mayOperate(ctx, in.OrderID.Event()); err != nil {
		return nil, err
	}
	o, err := s.deps.Ledger.Order(ctx, in.OrderID)
	if err != nil {
		return nil, err
	}
	return &adminOrderOutput{Body: adminOrderView{
		Order: orderViewOf(o, s.chartOf(ctx, o.Event)), AccountID: o.Account, Operations: operationViews(o),
	}}, nil
}
