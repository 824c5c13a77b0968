package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"usher"
	"usher/internal/catalog"
	"usher/internal/ledger"
	"usher/internal/seatmap"
	"usher/internal/waitingroom"
)

// What an operator watches during a sale. However many watch, the event's homes are
// asked once a second per process.

// liveView is a sale as it stands.
type liveView struct {
	EventID    usher.EventID     `json:"eventId"`
	Sale       saleStatus        `json:"sale" enum:"scheduled,open,paused,closed,cancelled,unavailable"`
	Queue      *queueStatusView  `json:"queue,omitempty" doc:"The queue now; missing for events without one, and while the room is away"`
	Admission  admissionLimit    `json:"admission,omitempty" enum:"rate,keepsUp,shopFull,nobodyWaits,stopped,notOpen,noLeader,homeAway" doc:"What bounds admission now. rate: the set rate. keepsUp: nothing, who waits is called within a second. shopFull: as many shoppers and called turns as activeMax allows. nobodyWaits: everybody was called. stopped: the rate or the cap is 0. notOpen: the queue's phase. noLeader: no process calls people. homeAway: the event's home does not answer"`
	Holds      liveHoldsView     `json:"holds"`
	Decisions  liveDecisionsView `json:"decisions"`
	Payments   livePaymentsView  `json:"payments"`
	Tiers      []liveTierView    `json:"tiers"`
	Pressure   float64           `json:"pressure" doc:"How much of the room for waiting holds and reads is taken, 0 to 1: docs/isolation.md says what is shed from where"`
	ServerTime time.Time         `json:"serverTime" doc:"When these figures were read; up to a second ago"`
}

// liveHoldsView counts holds, each figure up to 10,000.
type liveHoldsView struct {
	Held                 int     `json:"held" doc:"Within their deadline"`
	Paying               int     `json:"paying" doc:"Kept by a payment"`
	Overdue              int     `json:"overdue" doc:"Past their deadline and not freed yet: the expiry backlog. Their places sell all the same"`
	OldestOverdueSeconds float64 `json:"oldestOverdueSeconds"`
}

// liveDecisionsView counts what this process answered to holds since it started.
type liveDecisionsView struct {
	Granted   int64     `json:"granted"`
	Conflicts int64     `json:"conflicts" doc:"Refused because somebody else had the place"`
	Refused   int64     `json:"refused" doc:"Refused by a rule: limit, sale not open, account blocked"`
	Since     time.Time `json:"since" doc:"When this process began to count; each process counts its own"`
}

// livePaymentsView is what is open at the payment provider.
type livePaymentsView struct {
	Open                 int               `json:"open" doc:"Payment operations without an end"`
	Parked               int               `json:"parked" doc:"Of these, those that wait for a person"`
	Unknown              int               `json:"unknown" doc:"Of these, those whose outcome the provider has not said"`
	OldestUnknownSeconds float64           `json:"oldestUnknownSeconds"`
	Operations           []openPaymentsRow `json:"operations"`
}

// openPaymentsRow is one kind and status.
type openPaymentsRow struct {
	Kind          usher.OperationKind   `json:"kind" enum:"authorize,capture,void,refund"`
	Status        usher.OperationStatus `json:"status" enum:"created,unknown,action_required"`
	Count         int                   `json:"count"`
	Parked        int                   `json:"parked"`
	OldestSeconds float64               `json:"oldestSeconds"`
}

// liveTierView is a tier's places.
type liveTierView struct {
	TierID    usher.TierID     `json:"tierId"`
	Name      string           `json:"name"`
	Kind      catalog.TierKind `json:"kind" enum:"seated,standing"`
	Known     bool             `json:"known" doc:"Whether the figures could be read; they are 0 otherwise"`
	Capacity  int              `json:"capacity"`
	Available int              `json:"available"`
	Held      int              `json:"held" doc:"Held and being paid for"`
	Sold      int              `json:"sold"`
	Blocked   int              `json:"blocked"`
}

type liveOutput struct {
	Body liveView
}

// admissionLimit names what bounds admission.
type admissionLimit string

const (
	limitRate     admissionLimit = "rate"
	limitShopFull admissionLimit = "shopFull"
	limitNobody   admissionLimit = "nobodyWaits"
	limitKeepsUp  admissionLimit = "keepsUp"
	limitStopped  admissionLimit = "stopped"
	limitNotOpen  admissionLimit = "notOpen"
	limitNoLeader admissionLimit = "noLeader"
	limitHomeAway admissionLimit = "homeAway"
)

// limitOf goes by what a tick of the room looks at, in its order.
func limitOf(st waitingroom.Status) admissionLimit {
	switch {
	case st.Phase != usher.QueueOpen:
		return limitNotOpen
	case st.Active == nil:
		return limitHomeAway
	case !st.Led:
		return limitNoLeader
	case st.RatePerSecond == 0 || st.ActiveMax == 0:
		return limitStopped
	case st.Waiting <= 0:
		return limitNobody
	case *st.Active+st.Called+st.AtDoor >= int64(st.ActiveMax):
		return limitShopFull
	case float64(st.Waiting) <= st.RatePerSecond:
		// Whoever waits is called within the second.
		return limitKeepsUp
	}
	return limitRate
}

// watched remembers what was seen of sales, and counts what this process decided.
type watched struct {
	mu        sync.Mutex
	looks     map[usher.EventID]liveLook
	decisions map[usher.EventID]liveDecisionsView
	since     time.Time
}

type liveLook struct {
	view  liveView
	until time.Time
}

// decided counts the answer to a hold. An event is counted from a decision of its
// ledger on, so that made-up ids leave nothing behind.
func (w *watched) decided(event usher.EventID, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.decisions[event]
	switch usher.CodeOf(err) {
	case "":
		d.Granted++
	case usher.CodeSeatsUnavailable:
		d.Conflicts++
	case usher.CodeLimitExceeded, usher.CodeSaleNotOpen, usher.CodeSaleClosed, usher.CodeAccountBlocked, usher.CodeEventCancelled:
		d.Refused++
	default:
		return
	}
	w.decisions[event] = d
}

func (w *watched) counts(event usher.EventID) liveDecisionsView {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.decisions[event]
	d.Since = w.since.UTC()
	return d
}

func (s *Server) addLive() {
	add(s, route{
		id: "getLive", method: http.MethodGet, path: "/v1/admin/events/{eventId}/live", tag: "Operating", who: staff,
		summary: "The sale as it stands: queue, holds, payments, places by tier",
		doc:     "Figures up to a second old, read at a bounded cost. Poll it every two seconds, slower after a 503.",
	}, s.getLive)
}

func (s *Server) getLive(ctx context.Context, in *eventInput) (*liveOutput, error) {
	event := in.Event.EventID
	if err := s.mayOperate(ctx, event); err != nil {
		return nil, err
	}
	w := &s.watched
	w.mu.Lock()
	known, ok := w.looks[event]
	w.mu.Unlock()
	if !ok || !time.Now().Before(known.until) {
		view, err := s.lookLive(ctx, event)
		if err != nil {
			return nil, err
		}
		known = liveLook{view, time.Now().Add(lookFor)}
		w.mu.Lock()
		w.looks[event] = known
		w.mu.Unlock()
	}
	out := &liveOutput{Body: known.view}
	out.Body.Decisions, out.Body.Pressure = w.counts(event), s.pressure(event)
	return out, nil
}

// lookLive reads the figures anew. Room and map may be away: the rest is still
// worth seeing.
func (s *Server) lookLive(ctx context.Context, event usher.EventID) (liveView, error) {
	e, err := s.deps.Catalog.Get(ctx, event)
	if err != nil {
		return liveView{}, err
	}
	if e.PublishedAt == nil {
		return liveView{}, usher.Errorf(usher.CodeStateConflict, "the event is a draft: publish it first")
	}
	now, err := s.deps.Ledger.Live(ctx, event)
	if err != nil {
		return liveView{}, err
	}
	v := liveView{
		EventID: event, Sale: s.look(ctx, e).sale, ServerTime: now.Now.UTC(), Payments: paymentsOf(now.Open),
		Holds: liveHoldsView{now.Held, now.Paying, now.Overdue, now.OldestOverdue.Seconds()},
	}
	if e.Rules.AdmissionRequired {
		if st, err := s.deps.Rooms.Status(ctx, event); err == nil {
			v.Queue, v.Admission = queueStatusOf(st), limitOf(st)
		} else {
			s.log.WarnContext(ctx, "queue not read for its operator", "event", event, "error", err)
		}
	}
	v.Tiers = s.liveTiers(ctx, e)
	return v, nil
}

func paymentsOf(open []ledger.OpenOperations) livePaymentsView {
	v := livePaymentsView{Operations: []openPaymentsRow{}}
	for _, o := range open {
		v.Open += o.Count
		v.Parked += o.Parked
		if o.Status == usher.OperationUnknown {
			v.Unknown += o.Count
			v.OldestUnknownSeconds = max(v.OldestUnknownSeconds, o.Oldest.Seconds())
		}
		v.Operations = append(v.Operations, openPaymentsRow{o.Kind, o.Status, o.Count, o.Parked, o.Oldest.Seconds()})
	}
	return v
}

// liveTiers counts seats from the map that is kept in memory, and standing places
// from their counters.
func (s *Server) liveTiers(ctx context.Context, e catalog.Event) []liveTierView {
	var seats map[usher.TierID]seatmap.Tally
	var buckets []ledger.BucketState
	var noSeats, noBuckets error
	if e.Seated() {
		seats, noSeats = s.deps.Seats.Tally(ctx, e.ID)
	}
	if e.Standing() > 0 {
		buckets, noBuckets = s.deps.Ledger.Quota(ctx, e.ID)
	}
	for _, err := range []error{noSeats, noBuckets} {
		if err != nil {
			s.log.WarnContext(ctx, "places not counted for their operator", "event", e.ID, "error", err)
		}
	}
	views := make([]liveTierView, 0, len(e.Tiers))
	for _, t := range e.Tiers {
		v := liveTierView{TierID: t.ID, Name: t.Name, Kind: t.Kind}
		if t.Kind == catalog.TierSeated {
			n := seats[t.ID]
			v.Known, v.Available, v.Held, v.Sold, v.Blocked = noSeats == nil, n.Available, n.Held, n.Sold, n.Blocked
		} else {
			v.Known = noBuckets == nil
			for _, b := range buckets {
				if b.Tier == t.ID {
					v.Available += b.Available
					v.Held += b.Held
					v.Sold += b.Sold
				}
			}
		}
		v.Capacity = v.Available + v.Held + v.Sold + v.Blocked
		views = append(views, v)
	}
	return views
}
