package ledger_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"usher"
)

// Entries of before the migration read as they did, those that it undoes as well.
func TestOutboxMovesMigration(t *testing.T) {
	h := newHall(t, 20, nil)
	held := h.mustPlace(usher.NewAccountID(), "k", seatID(1), seatID(2), seatID(3))
	h.mustConfirm(h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatID(4), seatID(5)), "c"))
	h.lapse(held)
	h.mustPlace(usher.NewAccountID(), "k", seatID(1))
	want, err := h.Changes(t.Context(), testEvent, 0, 100)
	if err != nil || len(want) < 5 {
		t.Fatalf("%d entries, %v", len(want), err)
	}
	file, err := os.ReadFile("../pg/migrations/shard/00011_outbox_moves.sql")
	if err != nil {
		t.Fatal(err)
	}
	up, down, _ := strings.Cut(string(file), "-- +goose Down")
	h.exec(h.pool, down)
	var old int
	h.scan(`SELECT count(*) FROM outbox WHERE payload -> 'seats' -> 0 ? 'version' AND NOT payload ? 'moves'`, &old)
	if old < 5 {
		t.Errorf("%d entries in the old form", old)
	}
	h.exec(h.pool, up)
	h.pool.Reset() // its statements know the column's old type
	got, err := h.Changes(t.Context(), testEvent, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("entries were\n%+v\nand are\n%+v", want, got)
	}
}
