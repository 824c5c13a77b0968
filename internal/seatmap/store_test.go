package seatmap_test

import (
	"context"
	"sync"
	"testing"

	"usher"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
	"usher/internal/seatmap"
	"usher/internal/seatmap/linetest"
)

// openHomes returns homes in a fresh database, with two events on its one shard,
// and the lines to its directory and its shard.
func openHomes(t testing.TB) (homes *pg.Homes, directory, shard *linetest.Line) {
	t.Helper()
	url := pgtest.Database(t)
	directory, shard = linetest.New(t, url), linetest.New(t, url)
	homes = connect(t, directory, shard)
	if _, err := homes.Directory.Exec(t.Context(), `INSERT INTO event_home (event_id, shard) VALUES (1, 1), (2, 1)`); err != nil {
		t.Fatalf("insert homes: %v", err)
	}
	return homes, directory, shard
}

func connect(t testing.TB, directory, shard *linetest.Line) *pg.Homes {
	t.Helper()
	homes, err := pg.Open(t.Context(), pg.Config{
		DirectoryURL: directory.URL(), RoomURL: shard.URL(), ShardURLs: map[pg.ShardNumber]string{1: shard.URL()},
	})
	if err != nil {
		t.Fatalf("open homes: %v", err)
	}
	t.Cleanup(homes.Close)
	return homes
}

func TestCharts(t *testing.T) {
	homes, _, _ := openHomes(t)
	ctx := t.Context()
	club, small := seatmap.Club(), mustParse(t, "", small)
	store := seatmap.NewCharts(homes)
	for range 2 {
		if err := store.Save(ctx, club); err != nil {
			t.Fatalf("save: %v", err)
		}
		if err := store.Copy(ctx, 1, club); err != nil {
			t.Fatalf("copy: %v", err)
		}
	}
	if err := store.Copy(ctx, 1, small); usher.CodeOf(err) != usher.CodeStateConflict {
		t.Errorf("another chart for the same event: %v", err)
	}
	if err := store.Copy(ctx, 3, club); usher.CodeOf(err) != usher.CodeNotFound {
		t.Errorf("copy for an event without a home: %v", err)
	}
	fresh := seatmap.NewCharts(homes)
	if c := fresh.AtHand(1); c != nil {
		t.Errorf("at hand before anybody asked: %v", c)
	}
	for what, read := range map[string]func() (*seatmap.Chart, error){
		"by hash":  func() (*seatmap.Chart, error) { return fresh.ByHash(ctx, club.Hash()) },
		"of event": func() (*seatmap.Chart, error) { return fresh.OfEvent(ctx, 1) },
	} {
		c, err := read()
		if err != nil || c.Hash() != club.Hash() || c.Len() != club.Len() {
			t.Errorf("%s: %v, %v", what, c, err)
		}
	}
	if c := fresh.AtHand(1); c == nil || c.Hash() != club.Hash() {
		t.Errorf("at hand once asked for: %v", c)
	}
	if _, err := fresh.ByHash(ctx, small.Hash()); usher.CodeOf(err) != usher.CodeNotFound {
		t.Errorf("unknown hash: %v", err)
	}
	if _, err := fresh.OfEvent(ctx, 2); usher.CodeOf(err) != usher.CodeNotFound {
		t.Errorf("event without a chart: %v", err)
	}
}

// A crowd that asks for a chart which is not in memory has it read once; who goes
// meanwhile takes nothing from the others.
func TestChartIsReadOnceForACrowd(t *testing.T) {
	homes, _, _ := openHomes(t)
	arena := seatmap.Arena()
	if err := seatmap.NewCharts(homes).Save(t.Context(), arena); err != nil {
		t.Fatal(err)
	}
	fresh := seatmap.NewCharts(homes)
	before := homes.Directory.Stat().AcquireCount()
	gone, leave := context.WithCancel(t.Context())
	leave()
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			ctx := t.Context()
			if i == 0 {
				ctx = gone
			}
			if c, err := fresh.ByHash(ctx, arena.Hash()); i > 0 && (err != nil || c.Hash() != arena.Hash()) {
				t.Errorf("%v, %v", c, err)
			}
		})
	}
	wg.Wait()
	if n := homes.Directory.Stat().AcquireCount() - before; n != 1 {
		t.Errorf("50 callers at once were %d readings, want 1", n)
	}
}

// With the directory away a chart comes from a shard that has a copy.
func TestChartWithoutDirectory(t *testing.T) {
	homes, directory, _ := openHomes(t)
	ctx := t.Context()
	club := seatmap.Club()
	store := seatmap.NewCharts(homes)
	if err := store.Copy(ctx, 1, club); err != nil {
		t.Fatalf("copy: %v", err)
	}
	fresh := seatmap.NewCharts(homes)
	if _, err := fresh.OfEvent(ctx, 1); err != nil {
		t.Fatalf("read: %v", err)
	}
	fresh = seatmap.NewCharts(homes)
	directory.Cut()
	if c, err := fresh.ByHash(ctx, club.Hash()); err != nil || c.Hash() != club.Hash() {
		t.Errorf("with a copy: %v", err)
	}
	if _, err := fresh.ByHash(ctx, seatmap.Arena().Hash()); usher.CodeOf(err) != usher.CodeUnavailable {
		t.Errorf("without a copy: %v", err)
	}
}
