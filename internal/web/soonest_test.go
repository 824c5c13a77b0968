package web

import (
	"slices"
	"testing"
	"time"

	"usher"
	"usher/internal/catalog"
)

// What comes next stands first; what has begun comes after it, the latest first.
func TestSoonestFirst(t *testing.T) {
	now := time.Date(2030, 3, 1, 20, 0, 0, 0, time.UTC)
	in := []catalog.Event{
		{ID: 1, StartsAt: now.Add(-48 * time.Hour)},
		{ID: 2, StartsAt: now.Add(48 * time.Hour)},
		{ID: 3, StartsAt: now},
		{ID: 4, StartsAt: now.Add(time.Hour)},
		{ID: 5, StartsAt: now.Add(48 * time.Hour)},
	}
	var got []usher.EventID
	for _, e := range soonestFirst(in, now) {
		got = append(got, e.ID)
	}
	if want := []usher.EventID{4, 2, 5, 3, 1}; !slices.Equal(got, want) {
		t.Fatalf("the order is %v, want %v", got, want)
	}
	if in[0].ID != 1 {
		t.Fatal("what was given has been changed")
	}
}
