package web

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"usher"
	"usher/internal/catalog"
	"usher/internal/pg"
	"usher/internal/seatmap"
	"usher/internal/waitingroom"
)

// ruleFields are the rules that an event may be given; what is left out takes
// the default.
type ruleFields struct {
	AdmissionRequired    *bool     `json:"admissionRequired,omitempty" doc:"Whether buying begins in a queue"`
	PurchaseLimit        *int      `json:"purchaseLimit,omitempty" minimum:"1" maximum:"1000"`
	HoldSeconds          *int      `json:"holdSeconds,omitempty" minimum:"1" maximum:"86400"`
	GraceSeconds         *int      `json:"graceSeconds,omitempty" minimum:"0" maximum:"86400"`
	PayMarginSeconds     *int      `json:"payMarginSeconds,omitempty" minimum:"0" maximum:"86400"`
	PendingPerAccountMax *int      `json:"pendingPerAccountMax,omitempty" minimum:"1" maximum:"1000"`
	PendingPerEventMax   *int      `json:"pendingPerEventMax,omitempty" minimum:"1" maximum:"1000000"`
	SaleClosesAt         clearable `json:"saleClosesAt,omitzero" doc:"When the sale closes by itself, for good; null takes it away"`
}

// clearable is a time that may be left out, given, or taken away by null.
type clearable struct {
	given bool
	at    *time.Time
}

// UnmarshalJSON is called for null, too. It takes what the schema's check of a
// date-time lets pass, which is more than a time.Time does.
func (c *clearable) UnmarshalJSON(b []byte) error {
	c.given = true
	var text *string
	if err := json.Unmarshal(b, &text); err != nil || text == nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, *text)
	c.at = &at
	return err
}

// MarshalJSON writes the time or null.
func (c clearable) MarshalJSON() ([]byte, error) { return json.Marshal(c.at) }

// IsZero reports a time that was left out.
func (c clearable) IsZero() bool { return !c.given && c.at == nil }

// Schema describes it for the API.
func (clearable) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Nullable: true}
}

// apply changes the rules that are given.
func (f ruleFields) apply(r *usher.Rules) {
	set := func(to *int, v *int) {
		if v != nil {
			*to = *v
		}
	}
	seconds := func(to *time.Duration, v *int) {
		if v != nil {
			*to = time.Duration(*v) * time.Second
		}
	}
	if f.AdmissionRequired != nil {
		r.AdmissionRequired = *f.AdmissionRequired
	}
	set(&r.PurchaseLimit, f.PurchaseLimit)
	set(&r.PendingPerAccountMax, f.PendingPerAccountMax)
	set(&r.PendingPerEventMax, f.PendingPerEventMax)
	seconds(&r.HoldTime, f.HoldSeconds)
	seconds(&r.Grace, f.GraceSeconds)
	seconds(&r.PayMargin, f.PayMarginSeconds)
	if f.SaleClosesAt.given {
		r.SaleClosesAt = f.SaleClosesAt.at
	}
}

type createEventInput struct {
	Body struct {
		Reasoned
		TenantID     string         `json:"tenantId,omitempty" pattern:"^tnt_[0-9a-z]{26}$" patternDescription:"a tenant's id" doc:"Whose event it is; for the house's own staff only"`
		Slug         string         `json:"slug" maxLength:"63" doc:"Unique name: creating the same event again returns it"`
		Name         string         `json:"name" maxLength:"800"`
		Venue        string         `json:"venue" maxLength:"800"`
		StartsAt     string         `json:"startsAt" maxLength:"64" doc:"Time of day in timeZone: 2026-12-24 19:30, with an offset where the clock shows it twice, or RFC 3339 in UTC"`
		TimeZone     string         `json:"timeZone" maxLength:"64" doc:"IANA zone of the venue"`
		QueueOpensAt string         `json:"queueOpensAt,omitempty" maxLength:"64" doc:"Like startsAt; left out, the queue opens at publication"`
		OpensAt      string         `json:"opensAt,omitempty" maxLength:"64" doc:"Like startsAt; left out, the sale opens by hand"`
		Currency     usher.Currency `json:"currency" maxLength:"3"`
		Rules        *ruleFields    `json:"rules,omitempty"`
		Rate         float64        `json:"ratePerSecond,omitempty" minimum:"0" maximum:"100000" doc:"People a second that the queue lets in; default 100"`
		ActiveMax    int            `json:"activeMax,omitempty" minimum:"0" maximum:"1000000" doc:"Most shoppers at once; default 10000"`
		Shard        pg.ShardNumber `json:"shard,omitempty" minimum:"0" maximum:"1000000" doc:"The home shard; by default the first"`
	}
}

type adminEventOutput struct {
	Body adminEventView
}

type adminEventsOutput struct {
	Body struct {
		Events []eventView `json:"events"`
	}
}

// adminEventView is an event as an operator sees it.
type adminEventView struct {
	Event     eventView        `json:"event"`
	TenantID  usher.TenantID   `json:"tenantId,omitzero"`
	FrozenAt  *time.Time       `json:"frozenAt,omitempty" doc:"When its publication began"`
	Rules     *ruleFields      `json:"rules,omitempty" doc:"The rules in force"`
	Room      *queueStatusView `json:"queue,omitempty" doc:"The queue now"`
	CreatedAt time.Time        `json:"createdAt"`
}

// queueStatusView is a queue as an operator sees it.
type queueStatusView struct {
	Round         int              `json:"round"`
	Phase         usher.QueuePhase `json:"phase"`
	RatePerSecond float64          `json:"ratePerSecond"`
	ActiveMax     int              `json:"activeMax"`
	Active        *int64           `json:"active,omitempty" doc:"Live visits to the shop; missing while the event's home is away"`
	Waiting       int64            `json:"waiting"`
	Called        int64            `json:"called" doc:"Turns that may still be claimed"`
	AtDoor        int64            `json:"atDoor" doc:"Claimed turns without a visit yet"`
	Serving       int64            `json:"serving"`
	Numbered      int64            `json:"numbered"`
	Led           bool             `json:"led" doc:"Whether a process calls people now"`
	Message       string           `json:"message"`
	OpensAt       *time.Time       `json:"opensAt,omitempty"`
	ServerTime    time.Time        `json:"serverTime"`
}

type pricesInput struct {
	Event pathEvent `path:"eventId"`
	Body  struct {
		Reasoned
		Prices map[usher.TierID]minorUnits `json:"prices" minProperties:"1" doc:"Price of every tier, those of the chart and the standing ones, in minor units"`
	}
}

// minorUnits is an amount in the event's currency.
type minorUnits int64

// Schema bounds every amount of a list.
func (minorUnits) Schema(huma.Registry) *huma.Schema {
	least, most := 0.0, float64(usher.AmountMax)
	return &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: &least, Maximum: &most}
}

type rulesInput struct {
	Event pathEvent `path:"eventId"`
	Body  struct {
		Reasoned
		Rules ruleFields `json:"rules"`
	}
}

type blockInput struct {
	Event pathEvent `path:"eventId"`
	Body  struct {
		Reasoned
		AccountID string `json:"accountId" pattern:"^acc_[0-9a-z]{26}$" patternDescription:"an account's id"`
		Blocked   bool   `json:"blocked"`
	}
}

type saleInput struct {
	Event pathEvent `path:"eventId"`
	Body  *Reasoned
}

type queueSettingsInput struct {
	Event pathEvent `path:"eventId"`
	Body  struct {
		Reasoned
		Rate      *float64 `json:"ratePerSecond,omitempty" minimum:"0" maximum:"100000"`
		ActiveMax *int     `json:"activeMax,omitempty" minimum:"0" maximum:"1000000"`
		Message   *string  `json:"message,omitempty" maxLength:"500" doc:"Shown to everybody who waits, line by line; an empty text clears it"`
	}
}

type resetQueueInput struct {
	Event pathEvent `path:"eventId"`
	Body  struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Published with the new round"`
	}
}

func (s *Server) addEventAdmin() {
	const tag, events, one = "Operating", "/v1/admin/events", "/v1/admin/events/{eventId}"
	add(s, route{
		id: "createEvent", method: http.MethodPost, path: events, tag: tag, who: staff, status: http.StatusCreated,
		summary: "Make a draft of an event",
	}, s.createEvent)
	add(s, route{
		id: "listAllEvents", method: http.MethodGet, path: events, tag: tag, who: staff,
		summary: "Every event of yours, drafts too",
	}, s.listAllEvents)
	add(s, route{
		id: "getEventStatus", method: http.MethodGet, path: one, tag: tag, who: staff,
		summary: "An event with its rules in force and its queue now",
	}, s.eventStatus)
	s.document(huma.Operation{
		OperationID: "importChart", Method: http.MethodPut, Path: one + "/chart", Tags: []string{tag},
		Summary:     "Give a draft its chart",
		Description: "The body is the file: usher's own JSON, the open seating-plan JSON, or CSV (text/csv). At most 32 MiB.",
		Parameters: []*huma.Param{eventParam,
			{Name: "name", In: "query", Description: "The file's name, for charts that carry none", Schema: &huma.Schema{Type: huma.TypeString}}},
		Security: []map[string][]string{{string(staff): {}}},
	}, map[int]string{http.StatusOK: "application/json"})
	add(s, route{
		id: "setPrices", method: http.MethodPut, path: one + "/prices", tag: tag, who: staff, status: http.StatusOK,
		summary: "Set the prices of all tiers",
		doc:     "During a sale this is a new price version: what is held or ordered keeps its price.",
	}, s.setPrices)
	add(s, route{
		id: "changeRules", method: http.MethodPatch, path: one + "/rules", tag: tag, who: staff, status: http.StatusOK,
		summary: "Change rules of a published event",
		doc:     "No command that is under way slips past the change. docs/rules.md says what each means for what is held and being paid.",
	}, s.changeRules)
	add(s, route{
		id: "blockAccount", method: http.MethodPut, path: one + "/blocked-accounts", tag: tag, who: staff, status: http.StatusNoContent,
		summary: "Block an account for an event, or let it buy again",
	}, s.blockAccount)
	for _, a := range []struct {
		verb, summary string
		do            func(context.Context, usher.EventID) error
	}{
		{"publish", "Publish the draft: finish what is begun, too", func(ctx context.Context, id usher.EventID) error {
			_, err := s.deps.Catalog.Publish(ctx, id)
			return err
		}},
		{"open", "Open the sale now", s.deps.Catalog.Open},
		{"pause", "Stop admission and new holds; what is held may be paid", s.deps.Catalog.Pause},
		{"resume", "Open a paused sale again", s.deps.Catalog.Resume},
		{"close", "End the sale for good", s.deps.Catalog.Close},
		{"cancel", "Cancel the event", s.deps.Catalog.Cancel},
		{"end", "File the event away after it took place", s.deps.Catalog.End},
	} {
		add(s, route{
			id: a.verb + "Event", method: http.MethodPost, path: one + "/" + a.verb, tag: tag, who: staff, status: http.StatusOK,
			summary: a.summary,
		}, func(ctx context.Context, in *saleInput) (*adminEventOutput, error) {
			return s.steerSale(ctx, a.verb, in, a.do)
		})
	}
	add(s, route{
		id: "setQueue", method: http.MethodPatch, path: one + "/queue", tag: tag, who: staff, status: http.StatusOK,
		summary: "Set the queue's rate, its cap of shoppers, and its message",
	}, s.setQueue)
	add(s, route{
		id: "resetQueue", method: http.MethodPost, path: one + "/queue/reset", tag: tag, who: staff, status: http.StatusOK,
		summary: "Start the queue anew",
		doc:     "Places, tickets and admissions of earlier rounds count no more. What is held stays held.",
	}, s.resetQueue)
}

func (s *Server) createEvent(ctx context.Context, in *createEventInput) (*adminEventOutput, error) {
	b := in.Body
	n := catalog.NewEvent{
		Tenant: operatorOf(ctx).Tenant, Slug: b.Slug, Name: b.Name, Venue: b.Venue, TimeZone: b.TimeZone, Currency: b.Currency,
		RatePerSecond: b.Rate, ActiveMax: b.ActiveMax, Shard: b.Shard,
	}
	var err error
	if b.TenantID != "" {
		tenant, err := bodyID[usher.TenantID]("tenantId", b.TenantID)
		switch {
		case err != nil:
			return nil, err
		case n.Tenant.IsZero():
			n.Tenant = tenant
		case tenant != n.Tenant:
			return nil, usher.Errorf(usher.CodeForbidden, "the event would be another tenant's")
		}
	}
	if n.StartsAt, err = catalog.ParseLocal("startsAt", b.StartsAt, b.TimeZone); err != nil {
		return nil, err
	}
	if n.QueueOpensAt, err = parseOptional("queueOpensAt", b.QueueOpensAt, b.TimeZone); err != nil {
		return nil, err
	}
	if n.OpensAt, err = parseOptional("opensAt", b.OpensAt, b.TimeZone); err != nil {
		return nil, err
	}
	if b.Rules != nil {
		rules := usher.DefaultRules(b.Currency)
		b.Rules.apply(&rules)
		n.Rules = &rules
	}
	if err := s.logAction(ctx, "event.create", b.Slug, b.Reason, map[string]string{"name": b.Name}); err != nil {
		return nil, err
	}
	e, err := s.deps.Catalog.Create(ctx, n)
	if err != nil {
		return nil, err
	}
	return s.adminEvent(ctx, e)
}

func parseOptional(what, text, zone string) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	t, err := catalog.ParseLocal(what, text, zone)
	if err != nil {
		return nil, err
	}
	return &t, nil
}

func (s *Server) listAllEvents(ctx context.Context, _ *struct{}) (*adminEventsOutput, error) {
	events, err := s.deps.Catalog.List(ctx, true)
	if err != nil {
		return nil, err
	}
	tenant := operatorOf(ctx).Tenant
	out := &adminEventsOutput{}
	out.Body.Events = make([]eventView, 0, len(events))
	for _, e := range events {
		if tenant.IsZero() || e.Tenant == tenant {
			out.Body.Events = append(out.Body.Events, s.eventViewOf(ctx, e, s.look(ctx, e)))
		}
	}
	return out, nil
}

func (s *Server) eventStatus(ctx context.Context, in *eventInput) (*adminEventOutput, error) {
	if err := s.mayOperate(ctx, in.Event.EventID); err != nil {
		return nil, err
	}
	return s.adminEventByID(ctx, in.Event.EventID)
}

func (s *Server) adminEventByID(ctx context.Context, id usher.EventID) (*adminEventOutput, error) {
	e, err := s.deps.Catalog.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.adminEvent(ctx, e)
}

// adminEvent adds what ledger and room say now, not a moment ago: operators see what
// they have just changed. Either may be away: the rest is still worth seeing.
func (s *Server) adminEvent(ctx context.Context, e catalog.Event) (*adminEventOutput, error) {
	now := s.lookAnew(ctx, e)
	v := adminEventView{Event: s.eventViewOf(ctx, e, now), TenantID: e.Tenant, FrozenAt: utc(e.FrozenAt), CreatedAt: e.CreatedAt.UTC()}
	if now.answered {
		v.Rules = rulesView(now.rules)
	}
	if e.PublishedAt != nil && e.Rules.AdmissionRequired {
		if st, err := s.deps.Rooms.Status(ctx, e.ID); err == nil {
			v.Room = queueStatusOf(st)
		}
	}
	return &adminEventOutput{Body: v}, nil
}

func rulesView(r usher.Rules) *ruleFields {
	seconds := func(d time.Duration) *int {
		n := int(d / time.Second)
		return &n
	}
	return &ruleFields{
		AdmissionRequired: &r.AdmissionRequired, PurchaseLimit: &r.PurchaseLimit, HoldSeconds: seconds(r.HoldTime),
		GraceSeconds: seconds(r.Grace), PayMarginSeconds: seconds(r.PayMargin), PendingPerAccountMax: &r.PendingPerAccountMax,
		PendingPerEventMax: &r.PendingPerEventMax, SaleClosesAt: clearable{at: utc(r.SaleClosesAt)},
	}
}

func queueStatusOf(st waitingroom.Status) *queueStatusView {
	return &queueStatusView{
		Round: st.Round, Phase: st.Phase, RatePerSecond: st.RatePerSecond, ActiveMax: st.ActiveMax, Active: st.Active,
		Waiting: st.Waiting, Called: st.Called, AtDoor: st.AtDoor, Serving: st.Serving, Numbered: st.Numbered, Led: st.Led,
		Message: st.Message, OpensAt: utc(st.OpensAt), ServerTime: st.Now.UTC(),
	}
}

// importChart reads a chart file of any known format. JSON is held to the strict
// rules first: a name that appears twice would mean two charts.
func (s *Server) importChart(w http.ResponseWriter, r *http.Request) {
	out, err := s.importFile(w, r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// A client that is gone is not worth a line.
	_ = jsonFormat.Marshal(w, out.Body)
}

func (s *Server) importFile(w http.ResponseWriter, r *http.Request) (*adminEventOutput, error) {
	if err := s.identify(r, staff); err != nil {
		return nil, err
	}
	event, err := usher.ParseEventID(r.PathValue("eventId"))
	if err != nil {
		return nil, err
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" && media != "text/csv" {
		return nil, usher.Errorf(usher.CodeUnsupportedMediaType, "send application/json or text/csv")
	}
	if r.ContentLength > fileMax {
		return nil, errTooLarge(fileMax)
	}
	file, err := readBytes(w, r, fileMax, fileTimeout)
	if err != nil {
		return nil, err
	}
	if media == "application/json" {
		if err := checkJSON(file); err != nil {
			return nil, err
		}
	}
	chart, err := seatmap.Parse(r.URL.Query().Get("name"), file)
	if err != nil {
		return nil, err
	}
	detail := map[string]any{"chart": chart.Hash(), "seats": chart.Len()}
	err = s.act(r.Context(), "event.import", event, r.URL.Query().Get("reason"), detail, func(ctx context.Context) error {
		_, err := s.deps.Catalog.ImportChart(ctx, event, chart)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.adminEventByID(r.Context(), event)
}

func (s *Server) setPrices(ctx context.Context, in *pricesInput) (*adminEventOutput, error) {
	prices := make(map[usher.TierID]int64, len(in.Body.Prices))
	for tier, amount := range in.Body.Prices {
		prices[tier] = int64(amount)
	}
	err := s.act(ctx, "event.prices", in.Event.EventID, in.Body.Reason, prices, func(ctx context.Context) error {
		_, err := s.deps.Catalog.SetPrices(ctx, in.Event.EventID, prices)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.adminEventByID(ctx, in.Event.EventID)
}

// changeRules changes the rules in force under the ledger's lock. Admission
// cannot be switched: the event would need another house around it.
func (s *Server) changeRules(ctx context.Context, in *rulesInput) (*adminEventOutput, error) {
	if in.Body.Rules.AdmissionRequired != nil {
		return nil, usher.Errorf(usher.CodeInvalidRequest, "admissionRequired is fixed when the event is created")
	}
	if at := in.Body.Rules.SaleClosesAt.at; at != nil {
		if err := s.draftOr(ctx, in.Event.EventID, s.deps.Catalog.CheckCloses(ctx, in.Event.EventID, *at)); err != nil {
			return nil, err
		}
	}
	err := s.act(ctx, "event.rules", in.Event.EventID, in.Body.Reason, in.Body.Rules, func(ctx context.Context) error {
		_, err := s.deps.Ledger.ChangeRules(ctx, in.Event.EventID, in.Body.Rules.apply)
		return s.draftOr(ctx, in.Event.EventID, err)
	})
	if err != nil {
		return nil, err
	}
	return s.adminEventByID(ctx, in.Event.EventID)
}

func (s *Server) blockAccount(ctx context.Context, in *blockInput) (*emptyOutput, error) {
	account, err := bodyID[usher.AccountID]("accountId", in.Body.AccountID)
	if err != nil {
		return nil, err
	}
	detail := map[string]any{"accountId": account, "blocked": in.Body.Blocked}
	return &emptyOutput{}, s.act(ctx, "event.block", in.Event.EventID, in.Body.Reason, detail, func(ctx context.Context) error {
		if _, err := s.deps.Accounts.Person(ctx, account); err != nil {
			return err
		}
		return s.draftOr(ctx, in.Event.EventID, s.deps.Ledger.BlockAccount(ctx, in.Event.EventID, account, in.Body.Blocked))
	})
}

// draftOr explains the ledger's "no such event" where there is one: it has no
// inventory before it is published.
func (s *Server) draftOr(ctx context.Context, event usher.EventID, err error) error {
	if usher.CodeOf(err) != usher.CodeNotFound {
		return err
	}
	if e, found := s.deps.Catalog.Get(ctx, event); found != nil || e.PublishedAt != nil {
		return err
	}
	return usher.Errorf(usher.CodeStateConflict, "the event is a draft: publish it first")
}

func (s *Server) steerSale(ctx context.Context, verb string, in *saleInput, do func(context.Context, usher.EventID) error) (*adminEventOutput, error) {
	reason := ""
	if in.Body != nil {
		reason = in.Body.Reason
	}
	err := s.act(ctx, "event."+verb, in.Event.EventID, reason, nil, func(ctx context.Context) error {
		return do(ctx, in.Event.EventID)
	})
	if err != nil {
		return nil, err
	}
	return s.adminEventByID(ctx, in.Event.EventID)
}

func (s *Server) setQueue(ctx context.Context, in *queueSettingsInput) (*adminEventOutput, error) {
	b, id := in.Body, in.Event.EventID
	detail := map[string]any{"ratePerSecond": b.Rate, "activeMax": b.ActiveMax, "message": b.Message}
	err := s.act(ctx, "queue.set", id, b.Reason, detail, func(ctx context.Context) error {
		if b.Rate != nil {
			if err := s.deps.Rooms.SetRate(ctx, id, *b.Rate); err != nil {
				return err
			}
		}
		if b.ActiveMax != nil {
			if err := s.deps.Rooms.SetCap(ctx, id, *b.ActiveMax); err != nil {
				return err
			}
		}
		if b.Message != nil {
			return s.deps.Rooms.SetMessage(ctx, id, *b.Message)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.adminEventByID(ctx, id)
}

func (s *Server) resetQueue(ctx context.Context, in *resetQueueInput) (*adminEventOutput, error) {
	err := s.act(ctx, "queue.reset", in.Event.EventID, in.Body.Reason, nil, func(ctx context.Context) error {
		_, err := s.deps.Rooms.ResetRound(ctx, in.Event.EventID, in.Body.Reason)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.adminEventByID(ctx, in.Event.EventID)
}
