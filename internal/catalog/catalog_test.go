package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/catalog"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
	"usher/internal/redemption"
	"usher/internal/seatmap"
	"usher/internal/seatmap/linetest"
	"usher/internal/token"
	"usher/internal/waitingroom"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// house is one process with a database each for directory, room and shard, and
// lines to them that a test can cut.
type house struct {
	t                      testing.TB
	directory, room, shard *linetest.Line
	homes                  *pg.Homes
	ledger                 *ledger.Ledger
	rooms                  *waitingroom.Rooms
	pools                  *redemption.Redeemer
	charts                 *seatmap.Charts
	*catalog.Catalog
}

func newHouse(t testing.TB) *house {
	t.Helper()
	url := pgtest.Database(t)
	return openHouse(t, linetest.New(t, url), linetest.New(t, url), linetest.New(t, url))
}

// again is another process on the same databases.
func (h *house) again() *house { return openHouse(h.t, h.directory, h.room, h.shard) }

func openHouse(t testing.TB, directory, room, shard *linetest.Line) *house {
	t.Helper()
	ctx := t.Context()
	h := &house{t: t, directory: directory, room: room, shard: shard}
	var err error
	h.homes, err = pg.Open(ctx, pg.Config{DirectoryURL: directory.URL(), RoomURL: room.URL(), ShardURLs: map[pg.ShardNumber]string{1: shard.URL()}})
	if err != nil {
		t.Fatalf("open homes: %v", err)
	}
	t.Cleanup(h.homes.Close)
	log := slog.New(slog.DiscardHandler)
	keys, err := token.NewKeyring(ctx, h.homes.Directory)
	if err != nil {
		t.Fatalf("keyring: %v", err)
	}
	h.rooms, err = waitingroom.New(ctx, waitingroom.Config{Homes: h.homes, Keys: keys, Log: log, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatalf("rooms: %v", err)
	}
	h.ledger = ledger.New(h.homes, ledger.WithLog(log))
	h.pools = redemption.New(h.homes, log, prometheus.NewRegistry())
	h.charts = seatmap.NewCharts(h.homes)
	h.Catalog = catalog.New(ctx, catalog.Config{
		Homes: h.homes, Ledger: h.ledger, Charts: h.charts, Rooms: h.rooms, Pools: h.pools, Log: log,
	})
	return h
}

// run runs the catalog's loops until the test ends.
func (h *house) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { h.Run(ctx) })
	h.t.Cleanup(func() { cancel(); running.Wait() })
}

func concert() catalog.NewEvent {
	return catalog.NewEvent{
		Tenant: usher.NewTenantID(), Slug: "concert", Name: "演唱會 <b>🎵</b>", Venue: "Hall", TimeZone: "Europe/Berlin", Currency: "EUR",
		StartsAt: time.Date(2030, 5, 1, 20, 0, 0, 0, time.UTC),
	}
}

var clubPrices = map[usher.TierID]int64{seatmap.TierClubFront: 3000, seatmap.TierClubTables: 2000}

// draft creates an event that can be published.
func (h *house) draft(n catalog.NewEvent) catalog.Event {
	h.t.Helper()
	ctx := h.t.Context()
	e, err := h.Create(ctx, n)
	if err == nil {
		_, err = h.ImportChart(ctx, e.ID, seatmap.Club())
	}
	if err == nil {
		e, err = h.SetPrices(ctx, e.ID, clubPrices)
	}
	if err != nil {
		h.t.Fatalf("draft: %v", err)
	}
	return e
}

func (h *house) published(n catalog.NewEvent) catalog.Event {
	h.t.Helper()
	e, err := h.Publish(h.t.Context(), h.draft(n).ID)
	if err != nil {
		h.t.Fatalf("publish: %v", err)
	}
	return e
}

// wantSale checks what ledger and room say.
func (h *house) wantSale(id usher.EventID, sale usher.SaleStatus, phase usher.QueuePhase) {
	h.t.Helper()
	rules, _, err := h.ledger.Rules(h.t.Context(), id)
	if err != nil || rules.Sale != sale {
		h.t.Errorf("the sale is %q (%v), want %q", rules.Sale, err, sale)
	}
	if phase == "" {
		return
	}
	s, err := h.rooms.Status(h.t.Context(), id)
	if err != nil || s.Phase != phase {
		h.t.Errorf("the room is %q (%v), want %q", s.Phase, err, phase)
	}
}

func wantCode(t testing.TB, what string, err error, code usher.Code) {
	t.Helper()
	if usher.CodeOf(err) != code {
		t.Errorf("%s: %v, want code %q", what, err, code)
	}
}

func TestCreate(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	n := concert()
	opens := n.StartsAt.Add(-time.Hour + 123*time.Nanosecond)
	n.OpensAt = &opens
	e, err := h.Create(ctx, n)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if e.ID == 0 || e.Status != catalog.StatusDraft || e.Name != n.Name || !e.StartsAt.Equal(n.StartsAt) || e.Tenant != n.Tenant ||
		e.Rules.Sale != usher.SaleScheduled || e.Rules.PurchaseLimit != 6 || e.ActiveMax != 10_000 {
		t.Errorf("got %+v", e)
	}
	again, err := h.Create(ctx, n)
	if err != nil || again.ID != e.ID {
		t.Errorf("the same again: %s, %v", again.ID, err)
	}
	n.Name = "Another"
	_, err = h.Create(ctx, n)
	wantCode(t, "another with the slug", err, usher.CodeStateConflict)
	if pool, err := h.homes.Shard(ctx, e.ID); err != nil || pool == nil {
		t.Errorf("home: %v", err)
	}
	if got, err := h.BySlug(ctx, "concert"); err != nil || got.ID != e.ID {
		t.Errorf("by slug: %v", err)
	}
	_, err = h.Get(ctx, e.ID+1)
	wantCode(t, "unknown event", err, usher.CodeNotFound)
	if list, err := h.List(ctx, false); err != nil || len(list) != 0 {
		t.Errorf("drafts are listed: %v, %v", list, err)
	}
	if list, err := h.List(ctx, true); err != nil || len(list) != 1 {
		t.Errorf("with drafts: %v, %v", list, err)
	}
}

// Every refusal begins with the field that it is about.
func TestCreateRefuses(t *testing.T) {
	h := newHouse(t)
	for name, spoil := range map[string]func(*catalog.NewEvent){
		"name: no name":                   func(n *catalog.NewEvent) { n.Name = "" },
		"name: spaces for a name":         func(n *catalog.NewEvent) { n.Name = "  " },
		"name: zero byte":                 func(n *catalog.NewEvent) { n.Name = "a\x00b" },
		"name: broken UTF-8":              func(n *catalog.NewEvent) { n.Name = "a\xffb" },
		"venue: replacement":              func(n *catalog.NewEvent) { n.Venue = "a\ufffdb" },
		"name: 201 characters":            func(n *catalog.NewEvent) { n.Name = strings.Repeat("字", 201) },
		"slug: capital slug":              func(n *catalog.NewEvent) { n.Slug = "Concert" },
		"slug: slug with a slash":         func(n *catalog.NewEvent) { n.Slug = "a/b" },
		"slug: long slug":                 func(n *catalog.NewEvent) { n.Slug = strings.Repeat("a", 64) },
		"timeZone: unknown zone":          func(n *catalog.NewEvent) { n.TimeZone = "Europe/Nowhere" },
		"timeZone: machine's zone":        func(n *catalog.NewEvent) { n.TimeZone = "Local" },
		"timeZone: path as zone":          func(n *catalog.NewEvent) { n.TimeZone = "../../etc/passwd" },
		"currency: unknown currency":      func(n *catalog.NewEvent) { n.Currency = "ZZZ" },
		"startsAt: no start":              func(n *catalog.NewEvent) { n.StartsAt = time.Time{} },
		"shard: unknown shard":            func(n *catalog.NewEvent) { n.Shard = 9 },
		"activeMax: negative cap":         func(n *catalog.NewEvent) { n.ActiveMax = -1 },
		"rules.holdSeconds: bad rules":    func(n *catalog.NewEvent) { r := usher.DefaultRules("EUR"); r.HoldTime = 0; n.Rules = &r },
		"slug: no slug":                   func(n *catalog.NewEvent) { n.Slug = "" },
		"queueOpensAt: queue after start": func(n *catalog.NewEvent) { q := n.StartsAt.Add(time.Second); n.QueueOpensAt = &q },
		"opensAt: sale after start":       func(n *catalog.NewEvent) { o := n.StartsAt.Add(time.Second); n.OpensAt = &o },
		"rules.saleClosesAt: closes in the past": func(n *catalog.NewEvent) {
			r, ended := usher.DefaultRules("EUR"), time.Now().Add(-time.Hour)
			r.SaleClosesAt, n.Rules = &ended, &r
		},
		"rules.saleClosesAt: closes before it opens": func(n *catalog.NewEvent) {
			r, o := usher.DefaultRules("EUR"), n.StartsAt.Add(-time.Hour)
			r.SaleClosesAt, n.OpensAt, n.Rules = &o, &o, &r
		},
		"queueOpensAt: queue after sale": func(n *catalog.NewEvent) {
			q, o := n.StartsAt, n.StartsAt.Add(-time.Minute)
			n.QueueOpensAt, n.OpensAt = &q, &o
		},
	} {
		n := concert()
		spoil(&n)
		_, err := h.Create(t.Context(), n)
		wantCode(t, name, err, usher.CodeInvalidRequest)
		field, _, _ := strings.Cut(name, ":")
		var refusal *usher.Error
		if !errors.As(err, &refusal) || !strings.HasPrefix(refusal.Message, field) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, _ := h.List(t.Context(), true); len(list) != 0 {
		t.Errorf("%d events were made", len(list))
	}
	n := concert()
	n.Name = strings.Repeat("字", 200)
	if e, err := h.Create(t.Context(), n); err != nil || e.Name != n.Name {
		t.Errorf("200 characters: %v", err)
	}
}

func TestDraft(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	e, err := h.Create(ctx, concert())
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	_, err = h.SetPrices(ctx, e.ID, clubPrices)
	wantCode(t, "prices before a chart", err, usher.CodeStateConflict)
	_, err = h.Publish(ctx, e.ID)
	wantCode(t, "publish without a chart", err, usher.CodeStateConflict)
	if _, err = h.ImportChart(ctx, e.ID, seatmap.Club()); err != nil {
		t.Fatalf("import: %v", err)
	}
	_, err = h.Publish(ctx, e.ID)
	wantCode(t, "publish without prices", err, usher.CodeStateConflict)
	for name, prices := range map[string]map[usher.TierID]int64{
		"one missing":  {seatmap.TierClubFront: 1},
		"unknown tier": {seatmap.TierClubFront: 1, seatmap.TierClubTables: 1, "gold": 1},
		"negative":     {seatmap.TierClubFront: -1, seatmap.TierClubTables: 1},
	} {
		_, err = h.SetPrices(ctx, e.ID, prices)
		wantCode(t, name, err, usher.CodeInvalidRequest)
	}
	if e, err = h.SetPrices(ctx, e.ID, clubPrices); err != nil || fmt.Sprint(e.Tiers) != "[{front Front rows EUR 30.00 seated 0 0} {rear Rear rows EUR 20.00 seated 0 0}]" {
		t.Fatalf("prices: %v, %v", e.Tiers, err)
	}
	// Another chart keeps the prices of tiers it shares, and needs the others.
	other, err := seatmap.Parse("Other", []byte("seat_id,section,row,number,tier,x,y\n1,S,1,1,front,0,0\n2,S,1,2,gold,10,0\n"))
	if err != nil {
		t.Fatal(err)
	}
	if e, err = h.ImportChart(ctx, e.ID, other); err != nil || len(e.Tiers) != 1 || e.Chart != other.Hash() {
		t.Errorf("after another chart: %v, %v", e.Tiers, err)
	}
	_, err = h.ImportChart(ctx, e.ID+1, other)
	wantCode(t, "import for no event", err, usher.CodeNotFound)
}

func TestPublish(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	e := h.published(concert())
	if e.Status != catalog.StatusPublished || e.PublishedAt == nil || e.FrozenAt == nil {
		t.Errorf("got %+v", e)
	}
	// People may join from publication on.
	h.wantSale(e.ID, usher.SaleScheduled, usher.QueuePrequeue)
	if _, tiers, err := h.ledger.Rules(ctx, e.ID); err != nil || len(tiers) != 2 || tiers[0].Price.AmountMinor != 3000 {
		t.Errorf("prices in the ledger: %v, %v", tiers, err)
	}
	if c, err := h.charts.OfEvent(ctx, e.ID); err != nil || c.Hash() != seatmap.Club().Hash() {
		t.Errorf("chart copy: %v", err)
	}
	if p, err := h.pools.Pool(ctx, e.ID); err != nil || p.Tenant != e.Tenant {
		t.Errorf("pool: %v", err)
	}
	if s, err := h.ledger.Seats(ctx, e.ID); err != nil || len(s.Seats) != 100 {
		t.Errorf("%d seats, %v", len(s.Seats), err)
	}
	again, err := h.Publish(ctx, e.ID)
	if err != nil || !again.PublishedAt.Equal(*e.PublishedAt) {
		t.Errorf("published again: %v", err)
	}
	_, err = h.ImportChart(ctx, e.ID, seatmap.Club())
	wantCode(t, "chart after publication", err, usher.CodeStateConflict)
	// A new price is for new holds, and shows.
	if e, err = h.SetPrices(ctx, e.ID, map[usher.TierID]int64{seatmap.TierClubFront: 5000, seatmap.TierClubTables: 2000}); err != nil || e.Tiers[0].Price.AmountMinor != 5000 {
		t.Errorf("new prices: %v, %v", e.Tiers, err)
	}
	if rules, tiers, err := h.ledger.Rules(ctx, e.ID); err != nil || rules.PriceVersion != 2 || tiers[0].Price.AmountMinor != 5000 {
		t.Errorf("in the ledger: %v, %v", tiers, err)
	}
	if list, err := h.List(ctx, false); err != nil || len(list) != 1 {
		t.Errorf("list: %v, %v", list, err)
	}
	_, err = h.Publish(ctx, e.ID+1)
	wantCode(t, "publish nothing", err, usher.CodeNotFound)
}

// Wherever a publication crashes, the draft is frozen and nobody sees it, and
// another process finishes it.
func TestPublishCrashes(t *testing.T) {
	for _, step := range []string{"chart", "ledger", "room", "pool", "status"} {
		t.Run(step, func(t *testing.T) {
			h := newHouse(t)
			ctx := t.Context()
			e := h.draft(concert())
			disarm := fault.Arm("catalog.published_"+step, 1, fault.Fail)
			_, err := h.Publish(ctx, e.ID)
			passes := fault.Passes("catalog.published_" + step)
			disarm()
			if err == nil || passes != 1 {
				t.Fatalf("the crash did not happen: %v", err)
			}
			other := h.again()
			if step != "status" {
				if list, _ := other.List(ctx, false); len(list) != 0 {
					t.Error("an unfinished event is on sale")
				}
				_, err = other.ImportChart(ctx, e.ID, seatmap.Arena())
				wantCode(t, "chart of a frozen draft", err, usher.CodeStateConflict)
				_, err = other.SetPrices(ctx, e.ID, clubPrices)
				wantCode(t, "prices of a frozen draft", err, usher.CodeStateConflict)
				wantCode(t, "cancel a frozen draft", other.Cancel(ctx, e.ID), usher.CodeStateConflict)
			}
			if e, err = other.Publish(ctx, e.ID); err != nil || e.Status != catalog.StatusPublished {
				t.Fatalf("again: %v", err)
			}
			if err := other.Open(ctx, e.ID); err != nil {
				t.Errorf("open: %v", err)
			}
			other.wantSale(e.ID, usher.SaleOpen, usher.QueueOpen)
		})
	}
}

// Two processes publish at the same moment.
func TestPublishTwice(t *testing.T) {
	h := newHouse(t)
	other := h.again()
	e := h.draft(concert())
	var both sync.WaitGroup
	for _, c := range []*house{h, other, h, other} {
		both.Go(func() {
			if _, err := c.Publish(t.Context(), e.ID); err != nil {
				t.Errorf("publish: %v", err)
			}
		})
	}
	both.Wait()
	h.wantSale(e.ID, usher.SaleScheduled, usher.QueuePrequeue)
}

func TestDirectoryAway(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	e := h.published(concert())
	h.directory.Cut()
	if got, err := h.Get(ctx, e.ID); err != nil || got.Name != e.Name {
		t.Errorf("get: %v", err)
	}
	if list, err := h.List(ctx, false); err != nil || len(list) != 1 {
		t.Errorf("list: %v, %v", list, err)
	}
	_, err := h.Get(ctx, e.ID+1)
	wantCode(t, "unknown", err, usher.CodeNotFound)
	_, err = h.Create(ctx, concert())
	wantCode(t, "create", err, usher.CodeUnavailable)
	// A sale is steered without the directory.
	for _, step := range []struct {
		do    func(context.Context, usher.EventID) error
		sale  usher.SaleStatus
		phase usher.QueuePhase
	}{
		{h.Open, usher.SaleOpen, usher.QueueOpen}, {h.Pause, usher.SalePaused, usher.QueuePaused}, {h.Resume, usher.SaleOpen, usher.QueueOpen},
	} {
		if err := step.do(ctx, e.ID); err != nil {
			t.Errorf("steer: %v", err)
		}
		h.wantSale(e.ID, step.sale, step.phase)
	}
	wantCode(t, "cancel", h.Cancel(ctx, e.ID), usher.CodeUnavailable)
	h.wantSale(e.ID, usher.SaleCancelled, usher.QueueClosed)
	h.directory.Mend()
	for err = h.Cancel(ctx, e.ID); usher.CodeOf(err) == usher.CodeUnavailable; {
		err = h.Cancel(ctx, e.ID)
	}
	if got, _ := h.Get(ctx, e.ID); err != nil || got.Status != catalog.StatusCancelled {
		t.Errorf("cancelled: %v, %v", got.Status, err)
	}
}

func TestDirectoryAwayAtStart(t *testing.T) {
	h := newHouse(t)
	e := h.draft(concert())
	h.directory.Cut()
	fresh := catalog.New(t.Context(), catalog.Config{Homes: h.homes, Log: slog.New(slog.DiscardHandler)})
	_, err := fresh.Get(t.Context(), e.ID)
	wantCode(t, "get", err, usher.CodeUnavailable)
	h.directory.Mend()
	for err != nil {
		if usher.CodeOf(err) != usher.CodeUnavailable {
			t.Fatalf("get: %v", err)
		}
		_, err = fresh.Get(t.Context(), e.ID)
	}
}
