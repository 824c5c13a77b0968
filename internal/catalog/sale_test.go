package catalog_test

import (
	"context"
	"testing"
	"time"

	"usher"
	"usher/internal/catalog"
)

func TestSale(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	e := h.published(concert())
	type step struct {
		name  string
		do    func(context.Context, usher.EventID) error
		code  usher.Code
		sale  usher.SaleStatus
		phase usher.QueuePhase
	}
	for _, s := range []step{
		{"pause a scheduled sale", h.Pause, usher.CodeStateConflict, usher.SaleScheduled, usher.QueuePrequeue},
		{"resume a scheduled sale", h.Resume, usher.CodeStateConflict, usher.SaleScheduled, usher.QueuePrequeue},
		{"open", h.Open, "", usher.SaleOpen, usher.QueueOpen},
		{"open again", h.Open, "", usher.SaleOpen, usher.QueueOpen},
		{"pause", h.Pause, "", usher.SalePaused, usher.QueuePaused},
		{"pause again", h.Pause, "", usher.SalePaused, usher.QueuePaused},
		{"open a paused sale", h.Open, usher.CodeStateConflict, usher.SalePaused, usher.QueuePaused},
		{"resume", h.Resume, "", usher.SaleOpen, usher.QueueOpen},
		{"close", h.Close, "", usher.SaleClosed, usher.QueueClosed},
		{"close again", h.Close, "", usher.SaleClosed, usher.QueueClosed},
		{"resume a closed sale", h.Resume, usher.CodeStateConflict, usher.SaleClosed, usher.QueueClosed},
		{"pause a closed sale", h.Pause, usher.CodeStateConflict, usher.SaleClosed, usher.QueueClosed},
		{"end", h.End, "", usher.SaleClosed, usher.QueueClosed},
		{"end again", h.End, "", usher.SaleClosed, usher.QueueClosed},
		{"cancel what has ended", h.Cancel, usher.CodeStateConflict, usher.SaleClosed, usher.QueueClosed},
		{"open what has ended", h.Open, usher.CodeStateConflict, usher.SaleClosed, usher.QueueClosed},
	} {
		wantCode(t, s.name, s.do(ctx, e.ID), s.code)
		h.wantSale(e.ID, s.sale, s.phase)
	}
	if got, err := h.Get(ctx, e.ID); err != nil || got.Status != catalog.StatusEnded || got.ClosedAt == nil {
		t.Errorf("got %+v, %v", got, err)
	}
	wantCode(t, "open nothing", h.Open(ctx, e.ID+1), usher.CodeNotFound)
}

func TestCancel(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	n := concert()
	draft := h.draft(n)
	wantCode(t, "open a draft", h.Open(ctx, draft.ID), usher.CodeStateConflict)
	for range 2 {
		if err := h.Cancel(ctx, draft.ID); err != nil {
			t.Fatalf("cancel a draft: %v", err)
		}
	}
	_, err := h.Publish(ctx, draft.ID)
	wantCode(t, "publish what is cancelled", err, usher.CodeStateConflict)
	n.Slug = "second"
	later := n.StartsAt.Add(-time.Hour)
	n.QueueOpensAt = &later
	e := h.published(n)
	h.wantSale(e.ID, usher.SaleScheduled, usher.QueueScheduled)
	if err := h.Cancel(ctx, e.ID); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	// Nobody could have joined: the room need not close.
	h.wantSale(e.ID, usher.SaleCancelled, usher.QueueScheduled)
	wantCode(t, "end what is cancelled", h.End(ctx, e.ID), usher.CodeStateConflict)
}

// A room that is away does not keep the ledger from stopping.
func TestPauseWithoutRoom(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	e := h.published(concert())
	if err := h.Open(ctx, e.ID); err != nil {
		t.Fatalf("open: %v", err)
	}
	h.room.Cut()
	wantCode(t, "pause", h.Pause(ctx, e.ID), usher.CodeUnavailable)
	h.wantSale(e.ID, usher.SalePaused, "")
	h.room.Mend()
	err := h.Pause(ctx, e.ID)
	for usher.CodeOf(err) == usher.CodeUnavailable {
		err = h.Pause(ctx, e.ID)
	}
	if err != nil {
		t.Errorf("pause again: %v", err)
	}
	h.wantSale(e.ID, usher.SalePaused, usher.QueuePaused)
}

// A shard that is away keeps a sale from opening, and the room is not opened.
func TestOpenWithoutShard(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	e := h.published(concert())
	h.shard.Cut()
	wantCode(t, "open", h.Open(ctx, e.ID), usher.CodeUnavailable)
	h.shard.Mend()
	if s, err := h.rooms.Status(ctx, e.ID); err != nil || s.Phase != usher.QueuePrequeue {
		t.Errorf("the room is %s, %v", s.Phase, err)
	}
}

func TestClubWithoutRoom(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	n := concert()
	r := usher.DefaultRules("EUR")
	r.AdmissionRequired = false
	n.Rules = &r
	e := h.published(n)
	for _, do := range []func(context.Context, usher.EventID) error{h.Open, h.Pause, h.Resume, h.Close} {
		if err := do(ctx, e.ID); err != nil {
			t.Errorf("steer: %v", err)
		}
	}
	_, err := h.rooms.Status(ctx, e.ID)
	wantCode(t, "room", err, usher.CodeNotFound)
}

// A sale whose end has passed does not open: it would sell nothing.
func TestOpenAfterTheEnd(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	n := concert()
	e := h.published(n)
	until := func(d time.Duration) {
		t.Helper()
		closes := h.databaseNow().Add(d)
		if _, err := h.ledger.ChangeRules(ctx, e.ID, func(r *usher.Rules) { r.SaleClosesAt = &closes }); err != nil {
			t.Fatalf("rules: %v", err)
		}
	}
	until(-time.Second)
	wantCode(t, "open", h.Open(ctx, e.ID), usher.CodeStateConflict)
	h.wantSale(e.ID, usher.SaleScheduled, usher.QueuePrequeue)
	until(time.Hour)
	if err := h.Open(ctx, e.ID); err != nil {
		t.Fatalf("open: %v", err)
	}
	if err := h.Pause(ctx, e.ID); err != nil {
		t.Fatalf("pause: %v", err)
	}
	until(-time.Second)
	wantCode(t, "resume", h.Resume(ctx, e.ID), usher.CodeStateConflict)
	h.wantSale(e.ID, usher.SalePaused, usher.QueuePaused)
}

// A sale whose end has passed closes by itself, and its room with it, whether it was
// open or paused.
func TestClosesByItself(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	named := func(slug string) catalog.Event {
		n := concert()
		n.Slug = slug
		return h.published(n)
	}
	open, paused, lasting := named("open"), named("paused"), named("lasting")
	for _, e := range []catalog.Event{open, paused, lasting} {
		if err := h.Open(ctx, e.ID); err != nil {
			t.Fatalf("open: %v", err)
		}
	}
	if err := h.Pause(ctx, paused.ID); err != nil {
		t.Fatalf("pause: %v", err)
	}
	closes := h.databaseNow()
	for e, at := range map[usher.EventID]time.Time{open.ID: closes, paused.ID: closes, lasting.ID: closes.Add(time.Hour)} {
		if _, err := h.ledger.ChangeRules(ctx, e, func(r *usher.Rules) { r.SaleClosesAt = &at }); err != nil {
			t.Fatalf("rules: %v", err)
		}
	}
	h.run()
	h.until(open.ID, usher.SaleClosed)
	h.until(paused.ID, usher.SaleClosed)
	h.untilRoom(open.ID, usher.QueueClosed)
	h.untilRoom(paused.ID, usher.QueueClosed)
	h.wantSale(open.ID, usher.SaleClosed, usher.QueueClosed)
	h.wantSale(lasting.ID, usher.SaleOpen, usher.QueueOpen)
}

// An operator gives a sale another hour in the moment in which it is found to be over:
// it stays open. And a crash between ledger and room leaves nobody in a queue for nothing.
func TestExtendedAtTheLastMoment(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	e := h.published(concert())
	if err := h.Open(ctx, e.ID); err != nil {
		t.Fatalf("open: %v", err)
	}
	ends := func(at time.Time, sale usher.SaleStatus) {
		t.Helper()
		if _, err := h.ledger.ChangeRules(ctx, e.ID, func(r *usher.Rules) { r.SaleClosesAt, r.Sale = &at, sale }); err != nil {
			t.Fatalf("rules: %v", err)
		}
	}
	over := h.databaseNow()
	ends(over.Add(time.Hour), usher.SaleOpen)
	if err := h.CloseOver(ctx, e.ID, over); err != nil {
		t.Fatalf("close: %v", err)
	}
	h.wantSale(e.ID, usher.SaleOpen, usher.QueueOpen)
	ends(over, usher.SaleClosed)
	h.run()
	h.untilRoom(e.ID, usher.QueueClosed)
}

// databaseNow is the time that counts.
func (h *house) databaseNow() (now time.Time) {
	h.t.Helper()
	if err := h.homes.Shards()[0].Pool.QueryRow(h.t.Context(), `SELECT clock_timestamp()`).Scan(&now); err != nil {
		h.t.Fatalf("read time: %v", err)
	}
	return now
}

// until waits for the ledger to say so; looking takes its time.
func (h *house) until(id usher.EventID, sale usher.SaleStatus) time.Time {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	for {
		rules, _, err := h.ledger.Rules(ctx, id)
		if err != nil {
			h.t.Fatalf("rules: %v", err)
		}
		if rules.Sale == sale {
			return h.databaseNow()
		}
	}
}

// untilRoom waits for the room to be in the phase.
func (h *house) untilRoom(id usher.EventID, phase usher.QueuePhase) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	for {
		s, err := h.rooms.Status(ctx, id)
		if err != nil {
			h.t.Fatalf("status: %v", err)
		}
		if s.Phase == phase {
			return
		}
	}
}

// The sale opens at its instant by database time, by itself, in whichever
// process leads, and not before; the directory may be away by then.
func TestOpensByItself(t *testing.T) {
	h := newHouse(t)
	other := h.again()
	n := concert()
	opens := h.databaseNow().Add(4 * time.Second)
	queue := opens.Add(-time.Second)
	n.OpensAt, n.QueueOpensAt = &opens, &queue
	e := h.published(n)
	h.wantSale(e.ID, usher.SaleScheduled, usher.QueueScheduled)
	if _, err := other.Get(t.Context(), e.ID); err != nil {
		t.Fatalf("the other process does not know it: %v", err)
	}
	h.run()
	other.run()
	h.directory.Cut()
	at := h.until(e.ID, usher.SaleOpen)
	if at.Before(opens) {
		t.Errorf("opened %v early", opens.Sub(at))
	}
	h.untilRoom(e.ID, usher.QueueOpen)
	h.directory.Mend()
}

// An opening that crashed between ledger and room is finished; what an operator
// closed or paused stays.
func TestOpenerConverges(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	n := concert()
	past := h.databaseNow().Add(-time.Minute)
	n.OpensAt = &past
	e := h.published(n)
	h.wantSale(e.ID, usher.SaleOpen, usher.QueueOpen)
	if err := h.Pause(ctx, e.ID); err != nil {
		t.Fatalf("pause: %v", err)
	}
	n.Slug = "half"
	soon := h.databaseNow().Add(time.Hour)
	n.OpensAt = &soon
	half := h.published(n)
	if _, err := h.ledger.ChangeRules(ctx, half.ID, func(r *usher.Rules) { r.Sale = usher.SaleOpen }); err != nil {
		t.Fatalf("half open: %v", err)
	}
	if _, err := h.homes.Directory.Exec(ctx, `UPDATE event SET opens_at = clock_timestamp() WHERE event_id = $1`, half.ID); err != nil {
		t.Fatalf("move time: %v", err)
	}
	fresh := h.again()
	fresh.run()
	h.untilRoom(half.ID, usher.QueueOpen)
	h.wantSale(e.ID, usher.SalePaused, usher.QueuePaused)
}

func TestSamples(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	tenant := usher.NewTenantID()
	first, err := h.Samples(ctx, tenant)
	if err != nil || len(first) != 4 {
		t.Fatalf("samples: %v", err)
	}
	for i, want := range []struct{ seats, standing, buckets int }{{50_000, 0, 0}, {100, 0, 0}, {0, 22_000, 10}, {100, 400, 2}} {
		s, err := h.ledger.Seats(ctx, first[i].ID)
		places := 0
		for _, b := range s.Buckets {
			places += b.Available
		}
		if err != nil || len(s.Seats) != want.seats || places != want.standing || len(s.Buckets) != want.buckets {
			t.Errorf("%s has %d seats and %d places in %d buckets, %v", first[i].Slug, len(s.Seats), places, len(s.Buckets), err)
		}
	}
	h.wantSale(first[0].ID, usher.SaleOpen, usher.QueueOpen)
	h.wantSale(first[1].ID, usher.SaleOpen, "")
	h.wantSale(first[2].ID, usher.SaleOpen, usher.QueueOpen)
	h.wantSale(first[3].ID, usher.SaleOpen, "")
	if rules, _, _ := h.ledger.Rules(ctx, first[1].ID); rules.AdmissionRequired {
		t.Error("the club has a waiting room")
	}
	// A restart leaves them as they are, closed ones too.
	if err := h.Close(ctx, first[1].ID); err != nil {
		t.Fatalf("close: %v", err)
	}
	again, err := h.again().Samples(ctx, tenant)
	if err != nil || len(again) != 4 || again[0].ID != first[0].ID || again[1].ID != first[1].ID {
		t.Errorf("again: %v", err)
	}
	h.wantSale(first[1].ID, usher.SaleClosed, "")
}
