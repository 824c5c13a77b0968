package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"usher"
	"usher/internal/ledger"
	"usher/internal/seatmap"
)

// itemRequest is a quantity of a tier that has no seats.
type itemRequest struct {
	TierID   usher.TierID `json:"tierId" minLength:"1" maxLength:"64"`
	Quantity int          `json:"quantity" minimum:"1" maximum:"6"`
}

// holdRequest asks for places.
type holdRequest struct {
	SeatIDs        []usher.SeatID `json:"seatIds,omitempty" minItems:"1" maxItems:"6" doc:"Distinct seats of the event: all are held, or none"`
	Items          []itemRequest  `json:"items,omitempty" minItems:"1" maxItems:"6" doc:"Quantities of tiers without seats; seats and quantities together are 1 to 6 places"`
	Best           *bestRequest   `json:"best,omitempty" doc:"The best seats that can be had together, instead of seatIds and items"`
	IdempotencyKey string         `json:"idempotencyKey,omitempty" maxLength:"128" doc:"1 to 128 printable ASCII characters without spaces; a retry with the same key gets the same answer"`
	AdmissionToken string         `json:"admissionToken,omitempty" maxLength:"1024" doc:"From queue/admit, where the event requires admission"`
}

type placeHoldInput struct {
	Event pathEvent `path:"eventId"`
	Keyed
	Admission string `header:"Usher-Admission" doc:"The same as admissionToken in the body"`
	Body      holdRequest
}

type holdOutput struct {
	Replayed string    `header:"Idempotent-Replayed" doc:"true: this is the answer to an earlier request with the same key"`
	Time     time.Time `header:"Usher-Time" timeFormat:"2006-01-02T15:04:05.000Z07:00" doc:"The database's time of this answer"`
	Body     holdView
}

type holdInput struct {
	HoldID usher.HoldID `path:"holdId"`
}

type eventInput struct {
	Event pathEvent `path:"eventId"`
}

type holdsOutput struct {
	Body struct {
		Holds []holdView `json:"holds"`
	}
}

func (s *Server) addHolds() {
	add(s, route{
		id: "placeHold", method: http.MethodPost, path: "/v1/events/{eventId}/holds", tag: "Buying", who: buyers, status: http.StatusCreated,
		summary: "Hold 1 to 6 places, all or nothing",
		doc:     "The hold lasts as long as the event's rules say, by the database's clock. A refusal names the seats that were the reason, and suggests others.",
	}, s.placeHold)
	add(s, route{
		id: "listHolds", method: http.MethodGet, path: "/v1/events/{eventId}/holds", tag: "Buying", who: buyers,
		summary: "Your live holds of an event",
		doc:     "Needs no admission: whoever lost the page finds the hold again.",
	}, s.listHolds)
	add(s, route{
		id: "getHold", method: http.MethodGet, path: "/v1/holds/{holdId}", tag: "Buying", who: buyers,
		summary: "A hold of yours",
	}, s.getHold)
	add(s, route{
		id: "releaseHold", method: http.MethodDelete, path: "/v1/holds/{holdId}", tag: "Buying", who: buyers, status: http.StatusOK,
		summary: "Give a hold's places back early",
		doc:     "Repeating it is harmless. A hold that is being paid for is not released.",
	}, s.releaseHold)
}

// placeHold checks what can be checked without a database connection first: the
// key, the rates, and all that the admission token says.
func (s *Server) placeHold(ctx context.Context, in *placeHoldInput) (*holdOutput, error) {
	account := buyerOf(ctx).Account
	key, err := in.key("idempotencyKey", in.Body.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	items, err := in.Body.places()
	if err != nil {
		return nil, err
	}
	if err := s.allowBuying(ctx); err != nil {
		return nil, err
	}
	session, err := s.admitted(ctx, in.Event.EventID, account, in.Body.AdmissionToken, in.Admission)
	if err != nil {
		return nil, err
	}
	c := ledger.PlaceHold{Event: in.Event.EventID, Account: account, Session: session, Seats: in.Body.SeatIDs, Items: items, Key: key}
	var h ledger.Hold
	if in.Body.Best != nil {
		if err := s.seated(ctx, c.Event); err != nil {
			return nil, usher.Errorf(usher.CodeInvalidRequest, "best: this event has no seats; ask for items")
		}
		h, err = s.placeBest(ctx, c, in.Body.Best)
	} else {
		h, err = s.deps.Ledger.PlaceHold(ctx, c)
		err = s.suggest(ctx, c.Event, c.Seats, err)
	}
	if err != nil {
		return nil, err
	}
	if !session.IsZero() {
		// A visit with a live hold is not idle before the hold's deadline.
		s.deps.Rooms.Touch(session, h.ExpiresAt)
	}
	return &holdOutput{Replayed: replayed(h.Replayed), Time: h.Now.UTC(), Body: holdViewOf(h, nil)}, nil
}

// idMax is the most bytes of a usher.SeatID and a usher.TierID.
const idMax = 64

// places checks the words for what is asked for and returns the quantities; how
// many there may be is the ledger's to say.
func (r holdRequest) places() ([]ledger.Item, error) {
	switch {
	case r.Best != nil && len(r.SeatIDs)+len(r.Items) > 0:
		return nil, usher.Errorf(usher.CodeInvalidRequest, "best is asked for alone, without seatIds and items")
	case r.Best != nil:
		return nil, r.Best.check()
	case len(r.SeatIDs) == 0 && len(r.Items) == 0:
		return nil, usher.Errorf(usher.CodeInvalidRequest, "one of seatIds, items and best is needed")
	}
	if err := checkSeats(r.SeatIDs); err != nil {
		return nil, err
	}
	var items []ledger.Item
	tiers := map[usher.TierID]struct{}{}
	for n, i := range r.Items {
		if err := checkListed(fmt.Sprintf("items[%d].tierId", n), i.TierID, tiers); err != nil {
			return nil, err
		}
		items = append(items, ledger.Item{Tier: i.TierID, Quantity: i.Quantity})
	}
	return items, nil
}

// checkSeats checks the ids of a list of seats, of which none comes twice.
func checkSeats(ids []usher.SeatID) error {
	seen := make(map[usher.SeatID]struct{}, len(ids))
	for n, id := range ids {
		if err := checkListed(fmt.Sprintf("seatIds[%d]", n), id, seen); err != nil {
			return err
		}
	}
	return nil
}

// checkListed checks one id of a list and adds it to those that were seen. The
// schema's own check of distinct items would break on items that cannot be compared.
func checkListed[ID ~string](field string, id ID, seen map[ID]struct{}) error {
	if err := usher.CheckText(field, string(id), idMax); err != nil {
		return err
	}
	if _, twice := seen[id]; twice {
		return usher.Errorf(usher.CodeInvalidRequest, "%s: %q is named twice", field, string(id))
	}
	seen[id] = struct{}{}
	return nil
}

// admitted verifies an admission token without SQL and returns the shopper
// session it names; the ledger then reads that the session still lives. An event
// without a queue is sold to without a session.
func (s *Server) admitted(ctx context.Context, event usher.EventID, account usher.AccountID, body, header string) (usher.SessionID, error) {
	text := body
	if text == "" {
		text = header
	}
	if header != "" && header != text {
		return usher.SessionID{}, usher.Errorf(usher.CodeInvalidRequest, "admissionToken and Usher-Admission differ")
	}
	if text == "" {
		if queued, err := s.queued(ctx, event); err != nil || !queued {
			return usher.SessionID{}, err
		}
	}
	return s.deps.Rooms.VerifyAdmission(text, event, account)
}

func (s *Server) allowBuying(ctx context.Context) error {
	q := requestOf(ctx)
	if err := s.allow("hold_account", s.limits.holdAccount, q.account.String()); err != nil {
		return err
	}
	return s.allow("hold_address", s.limits.holdAddress, addrKey(q.addr))
}

func (s *Server) listHolds(ctx context.Context, in *eventInput) (*holdsOutput, error) {
	holds, err := s.deps.Ledger.LiveHolds(ctx, in.Event.EventID, buyerOf(ctx).Account)
	if err != nil {
		return nil, err
	}
	out := &holdsOutput{}
	out.Body.Holds = make([]holdView, 0, len(holds))
	var chart *seatmap.Chart
	if len(holds) > 0 {
		chart = s.chartOf(ctx, in.Event.EventID)
	}
	for _, h := range holds {
		out.Body.Holds = append(out.Body.Holds, liveHoldView(h, chart))
	}
	return out, nil
}

func (s *Server) getHold(ctx context.Context, in *holdInput) (*holdOutput, error) {
	h, err := s.ownHold(ctx, in.HoldID)
	if err != nil {
		return nil, err
	}
	return &holdOutput{Time: h.Now.UTC(), Body: liveHoldView(h, s.chartOf(ctx, h.Event))}, nil
}

// ownHold reads a hold of the account that asks. Somebody else's hold and one
// that never was get the same answer.
func (s *Server) ownHold(ctx context.Context, id usher.HoldID) (ledger.Hold, error) {
	h, err := s.deps.Ledger.Hold(ctx, id)
	switch {
	case usher.CodeOf(err) == usher.CodeNotFound:
		return ledger.Hold{}, errNoHold()
	case err != nil:
		return ledger.Hold{}, err
	case h.Account != buyerOf(ctx).Account:
		s.noteForeign(ctx, id.String())
		return ledger.Hold{}, errNoHold()
	}
	return h, nil
}

// noHold is the answer to a write on a hold that is not the account's; reading it
// notes whose it is.
func (s *Server) noHold(ctx context.Context, id usher.HoldID) error {
	if _, err := s.ownHold(ctx, id); err != nil {
		return err
	}
	return errNoHold()
}

func errNoHold() error { return usher.Errorf(usher.CodeNotFound, "no such hold") }

func (s *Server) releaseHold(ctx context.Context, in *holdInput) (*holdOutput, error) {
	h, err := s.deps.Ledger.ReleaseHold(ctx, ledger.ReleaseHold{Hold: in.HoldID, Account: buyerOf(ctx).Account})
	if usher.CodeOf(err) == usher.CodeNotFound {
		return nil, s.noHold(ctx, in.HoldID)
	}
	if err != nil {
		return nil, err
	}
	return &holdOutput{Time: h.Now.UTC(), Body: liveHoldView(h, nil)}, nil
}

// liveHoldView is a hold as it stands now, with the time of this reading.
func liveHoldView(h ledger.Hold, chart *seatmap.Chart) holdView {
	v := holdViewOf(h, chart)
	now := h.Now.UTC()
	v.ServerTime = &now
	return v
}
