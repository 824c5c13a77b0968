package ledger_test

import (
	"encoding/json"
	"testing"

	"usher"
	"usher/internal/ledger"
)

// What a watched event's changes say is the same from memory and from the table,
// whoever committed them, and in one order without a hole.
func TestChangesFromMemory(t *testing.T) {
	h := newHall(t, 12, nil)
	other := h.process()
	_, stop := h.Watch(testEvent)
	defer stop()
	place := func(l *ledger.Ledger, i int) {
		t.Helper()
		c := ledger.PlaceHold{Event: testEvent, Account: usher.NewAccountID(), Seats: seatIDs(i), Key: "k"}
		if _, err := l.PlaceHold(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	// The other process commits in between, at the start and at the end.
	for i, l := range []*ledger.Ledger{other, h.Ledger, h.Ledger, other, h.Ledger, h.Ledger, h.Ledger, other} {
		place(l, i)
		for after := range int64(i + 1) {
			want := changes(t, other, after)
			var got []ledger.Entry
			for at := after; at < int64(i+1); at = got[len(got)-1].Seq {
				// A page ends where memory does.
				page, err := h.Changes(t.Context(), testEvent, at, 3)
				if err != nil || len(page) == 0 {
					t.Fatalf("after %d of %d: %d entries, %v", at, i+1, len(page), err)
				}
				got = append(got, page...)
			}
			if g, w := asJSON(t, got), asJSON(t, want); g != w {
				t.Fatalf("after %d of %d:\n got %s\nwant %s", after, i+1, g, w)
			}
		}
	}
	if got := changes(t, h.Ledger, 8); len(got) != 0 {
		t.Fatalf("after the end: %v", got)
	}
}

func changes(t *testing.T, l *ledger.Ledger, after int64) []ledger.Entry {
	t.Helper()
	entries, err := l.Changes(t.Context(), testEvent, after, 100)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func asJSON(t *testing.T, entries []ledger.Entry) string {
	t.Helper()
	for i := range entries {
		entries[i].At = entries[i].At.UTC()
	}
	b, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
