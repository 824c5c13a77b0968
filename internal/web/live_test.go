package web_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"usher"
	"usher/internal/account"
	"usher/internal/catalog"
	"usher/internal/ledger"
	"usher/internal/seatmap"
	"usher/internal/waitingroom"
)

const livePath = "/v1/admin/events/evt_7/live"

type liveAnswer struct {
	Sale, Admission string
	Queue           *struct{ Waiting, Active int }
	Holds           struct {
		Held, Paying, Overdue int
		OldestOverdueSeconds  float64
	}
	Decisions struct{ Granted, Conflicts, Refused int }
	Payments  struct {
		Open, Parked, Unknown int
		OldestUnknownSeconds  float64
		Operations            []struct {
			Kind, Status string
			Count        int
		}
	}
	Tiers []struct {
		TierID, Kind                             string
		Known                                    bool
		Capacity, Available, Held, Sold, Blocked int
	}
}

func (w *world) live(t *testing.T) (out liveAnswer) {
	t.Helper()
	a := w.do(t, "GET", livePath, staffKey, "")
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// onSale gives the world a running sale of seats and standing places.
func (w *world) onSale() {
	w.catalog.queued, w.catalog.chart = true, "c0ffee"
	w.catalog.tiers = []catalog.Tier{
		{ID: "floor", Name: "Floor", Kind: catalog.TierSeated, Price: price},
		{ID: "pit", Name: "Pit", Kind: catalog.TierStanding, Capacity: 10, Buckets: 2, Price: price},
	}
	w.ledger.quota = func() ([]ledger.BucketState, error) {
		return []ledger.BucketState{{Tier: "pit", Bucket: 1, Available: 1, Held: 2, Sold: 3}, {Tier: "pit", Bucket: 2, Available: 4}}, nil
	}
	w.seats.tally = func() (map[usher.TierID]seatmap.Tally, error) {
		return map[usher.TierID]seatmap.Tally{"floor": {Available: 5, Held: 4, Sold: 3, Blocked: 2}}, nil
	}
	w.rooms.status = func() (waitingroom.Status, error) { return running(nil), nil }
	w.ledger.live = func() (ledger.Live, error) {
		return ledger.Live{Held: 6, Paying: 2, Overdue: 1, OldestOverdue: 1500 * time.Millisecond, Now: time.Now(), Open: []ledger.OpenOperations{
			{Kind: usher.OperationAuthorize, Status: usher.OperationUnknown, Count: 2, Parked: 1, Oldest: 90 * time.Second},
			{Kind: usher.OperationCapture, Status: usher.OperationCreated, Count: 3, Oldest: 200 * time.Second},
			{Kind: usher.OperationVoid, Status: usher.OperationUnknown, Count: 1, Oldest: 5 * time.Second},
		}}, nil
	}
}

// running is a room that calls people at its rate; change makes it another.
func running(change func(*waitingroom.Status)) waitingroom.Status {
	active := int64(40)
	st := waitingroom.Status{
		Event: event, Phase: usher.QueueOpen, RatePerSecond: 10, ActiveMax: 100, Waiting: 500, Called: 7, AtDoor: 3, Led: true, Active: &active,
	}
	if change != nil {
		change(&st)
	}
	return st
}

func TestLive(t *testing.T) {
	w := newWorld(t)
	w.onSale()
	got := w.live(t)
	if got.Sale != "open" || got.Admission != "rate" || got.Queue == nil || got.Queue.Waiting != 500 || got.Queue.Active != 40 {
		t.Errorf("queue: %+v", got)
	}
	if h := got.Holds; h.Held != 6 || h.Paying != 2 || h.Overdue != 1 || h.OldestOverdueSeconds != 1.5 {
		t.Errorf("holds: %+v", h)
	}
	if p := got.Payments; p.Open != 6 || p.Parked != 1 || p.Unknown != 3 || p.OldestUnknownSeconds != 90 || len(p.Operations) != 3 {
		t.Errorf("payments: %+v", p)
	}
	if floor := got.Tiers[0]; !floor.Known || floor.Capacity != 14 || floor.Sold != 3 || floor.Blocked != 2 || floor.Kind != "seated" {
		t.Errorf("floor: %+v", floor)
	}
	if pit := got.Tiers[1]; !pit.Known || pit.Capacity != 10 || pit.Available != 5 || pit.Held != 2 || pit.Sold != 3 {
		t.Errorf("pit: %+v", pit)
	}
}

// Why no more people are let in is said in the order in which a room looks.
func TestAdmissionLimit(t *testing.T) {
	for want, change := range map[string]func(*waitingroom.Status){
		"rate":        nil,
		"notOpen":     func(s *waitingroom.Status) { s.Phase, s.Active = usher.QueuePaused, nil },
		"homeAway":    func(s *waitingroom.Status) { s.Active, s.Led = nil, false },
		"noLeader":    func(s *waitingroom.Status) { s.Led = false },
		"stopped":     func(s *waitingroom.Status) { s.RatePerSecond = 0 },
		"nobodyWaits": func(s *waitingroom.Status) { s.Waiting = 0 },
		"keepsUp":     func(s *waitingroom.Status) { s.Waiting = 10 },
		"shopFull":    func(s *waitingroom.Status) { s.ActiveMax = 50 },
	} {
		t.Run(want, func(t *testing.T) {
			w := newWorld(t)
			w.onSale()
			w.rooms.status = func() (waitingroom.Status, error) { return running(change), nil }
			if got := w.live(t).Admission; got != want {
				t.Errorf("got %q", got)
			}
		})
	}
}

// However many watch, homes are asked once a second; what this process decides
// shows at once.
func TestLiveIsAskedOnce(t *testing.T) {
	w := newWorld(t)
	w.onSale()
	for range 5 {
		w.live(t)
	}
	if w.rooms.looks != 1 {
		t.Errorf("the room was asked %d times", w.rooms.looks)
	}
	answers := []error{nil, usher.Errorf(usher.CodeSeatsUnavailable, "taken"), usher.Errorf(usher.CodeLimitExceeded, "6"), usher.Errorf(usher.CodeBusy, "later"), nil}
	w.catalog.queued = false
	w.ledger.placeHold = func(ledger.PlaceHold) (ledger.Hold, error) {
		err := answers[0]
		answers = answers[1:]
		h := someHold(alice)
		h.Replayed = len(answers) == 0
		return h, err
	}
	w.seats.groups = nil
	for i := range 5 {
		w.do(t, "POST", "/v1/events/evt_7/holds", aliceToken, fmt.Sprintf(`{"seatIds":["A-1"],"idempotencyKey":"k%d"}`, i),
			"Usher-Admission", "admission of "+alice.String())
	}
	if d := w.live(t).Decisions; d.Granted != 1 || d.Conflicts != 1 || d.Refused != 1 {
		t.Errorf("decisions: %+v", d)
	}
}

// What is away leaves the rest standing.
func TestLiveWithPartsAway(t *testing.T) {
	w := newWorld(t)
	w.onSale()
	away := usher.Errorf(usher.CodeUnavailable, "away")
	w.rooms.status = func() (waitingroom.Status, error) { return waitingroom.Status{}, away }
	w.seats.tally = func() (map[usher.TierID]seatmap.Tally, error) { return nil, away }
	got := w.live(t)
	if got.Queue != nil || got.Admission != "" || got.Tiers[0].Known || !got.Tiers[1].Known || got.Holds.Held != 6 {
		t.Errorf("got %+v", got)
	}
}

func TestLiveRefusals(t *testing.T) {
	w := newWorld(t)
	w.onSale()
	w.ledger.live = func() (ledger.Live, error) { return ledger.Live{}, usher.Errorf(usher.CodeUnavailable, "away") }
	if a := w.do(t, "GET", livePath, staffKey, ""); a.status != 503 {
		t.Errorf("home away: %d %s", a.status, a.body)
	}
	w.catalog.draft = true
	if a := w.do(t, "GET", livePath, staffKey, ""); a.status != 409 || !strings.Contains(a.detail(), "draft") {
		t.Errorf("a draft: %d %s", a.status, a.body)
	}
	w.accounts.tenant = usher.NewTenantID()
	if a := w.do(t, "GET", livePath, staffKey, ""); a.status != 404 {
		t.Errorf("another tenant's: %d %s", a.status, a.body)
	}
}

func TestFindHold(t *testing.T) {
	w := newWorld(t)
	hold := someHold(alice)
	w.ledger.holds = map[usher.HoldID]ledger.Hold{hold.ID: hold}
	path := "/v1/admin/holds/" + hold.ID.String()
	if a := w.do(t, "GET", path, staffKey, ""); a.status != 200 || !strings.Contains(a.body, alice.String()) || !strings.Contains(a.body, `"seatId":"A-1"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.do(t, "GET", "/v1/admin/holds/"+usher.NewHoldID(event).String(), staffKey, ""); a.status != 404 {
		t.Errorf("none: %d %s", a.status, a.body)
	}
	w.accounts.tenant = usher.NewTenantID()
	if a := w.do(t, "GET", path, staffKey, ""); a.status != 404 {
		t.Errorf("another tenant's: %d %s", a.status, a.body)
	}
}

// An order shows every step of its payment, and nothing that is the buyer's alone.
func TestFindOrderShowsOperations(t *testing.T) {
	w := newWorld(t)
	o := someOrder(alice)
	declined := *o.Authorization
	declined.ID, declined.Status, declined.ProviderCode = usher.NewOperationID(event), usher.OperationFailed, "card_declined"
	o.Operations = []ledger.Operation{declined, *o.Authorization}
	w.ledger.orders = map[usher.OrderID]ledger.Order{o.ID: o}
	a := w.do(t, "GET", "/v1/admin/orders/"+o.ID.String(), staffKey, "")
	first, second := strings.Index(a.body, declined.ID.String()), strings.Index(a.body, o.Authorization.ID.String())
	if a.status != 200 || first < 0 || second < first || !strings.Contains(a.body, `"providerCode":"card_declined"`) || strings.Contains(a.body, "pm_secret") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// The list of actions names who acted.
func TestActionsNameOperators(t *testing.T) {
	w := newWorld(t)
	o := account.Operator{ID: usher.NewOperatorID(), Name: "Mei 美"}
	w.accounts.operators = []account.Operator{o}
	w.accounts.actions = []account.Action{{Operator: o.ID, Verb: "event.pause", Target: "evt_7", Reason: "r", Detail: json.RawMessage("{}")}}
	if a := w.do(t, "GET", "/v1/admin/actions?target=evt_7", staffKey, ""); a.status != 200 || !strings.Contains(a.body, `"operator":"Mei 美"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}
