package seatmap_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"usher"
	"usher/internal/seatmap"
)

// hallOf makes a chart of rows of ten, the stage above row 0; marks may say which
// seats are accessible (w) or for a companion (c).
func hallOf(t *testing.T, marks map[string]string) *seatmap.Chart {
	t.Helper()
	var b strings.Builder
	b.WriteString("seat_id,section,row,number,tier,x,y,accessible,companion\n")
	for r := range 4 {
		for i := range 10 {
			id := fmt.Sprintf("%d-%d", r, i)
			x := i * 10
			if i >= 6 {
				x += 30 // an aisle between seats 5 and 6
			}
			tier := "gold"
			if r >= 2 {
				tier = "silver"
			}
			fmt.Fprintf(&b, "%s,Hall,%d,%d,%s,%d,%d,%v,%v\n", id, r, i, tier, x, r*10, marks[id] == "w", marks[id] == "c")
		}
	}
	c, err := seatmap.ParseCSV("hall", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func freeBut(c *seatmap.Chart, taken ...usher.SeatID) func(int) bool {
	return func(i int) bool { return !slices.Contains(taken, c.Seat(i).ID) }
}

func TestBest(t *testing.T) {
	c := hallOf(t, map[string]string{"1-0": "w", "1-1": "c"})
	for _, tc := range []struct {
		name  string
		taken []usher.SeatID
		wish  seatmap.Wish
		want  []usher.SeatID
	}{
		// The middle of the upper edge is x = 60: beside the aisle in the front row.
		{"two", nil, seatmap.Wish{Quantity: 2}, []usher.SeatID{"0-4", "0-5"}},
		{"another tier", nil, seatmap.Wish{Quantity: 2, Tier: "silver"}, []usher.SeatID{"2-4", "2-5"}},
		{"never across the aisle", []usher.SeatID{"0-0", "0-1", "0-2", "0-3", "1-3"}, seatmap.Wish{Quantity: 4, Tier: "gold"}, []usher.SeatID{"0-6", "0-7", "0-8", "0-9"}},
		{"no single seat left", []usher.SeatID{"0-2"}, seatmap.Wish{Quantity: 2, Section: "Hall"}, []usher.SeatID{"1-4", "1-5"}},
		{"wheelchair", nil, seatmap.Wish{Quantity: 2, Accessible: true}, []usher.SeatID{"1-0", "1-1"}},
		{"unknown section", nil, seatmap.Wish{Quantity: 1, Section: "Moon"}, nil},
		{"too many together", nil, seatmap.Wish{Quantity: 6, Tier: "none"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := c.Best(freeBut(c, tc.taken...), tc.wish, 1, 1)
			if tc.want == nil && len(got) == 0 {
				return
			}
			if len(got) != 1 || !slices.Equal(got[0], tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	// When there is no better way, a single seat is left rather than nothing sold.
	all := []usher.SeatID{}
	for i, s := range c.Seats() {
		if !slices.Contains([]usher.SeatID{"3-6", "3-7", "3-8"}, s.ID) {
			all = append(all, c.Seat(i).ID)
		}
	}
	if got := c.Best(freeBut(c, all...), seatmap.Wish{Quantity: 2}, 3, 3); len(got) == 0 {
		t.Error("nothing where two of three seats are free")
	}
	// Without the wish for one, wheelchair places are not given away.
	if got := c.Best(func(i int) bool { return c.Seat(i).ID == "1-0" || c.Seat(i).ID == "1-1" }, seatmap.Wish{Quantity: 1}, 3, 3); len(got) != 0 {
		t.Errorf("gave away %v", got)
	}
}

// Alternatives never share a seat and are drawn from the best.
func TestBestAlternatives(t *testing.T) {
	c := seatmap.Arena()
	seen := map[usher.SeatID]bool{}
	for range 20 {
		groups := c.Best(func(int) bool { return true }, seatmap.Wish{Quantity: 4}, 3, 24)
		if len(groups) != 3 {
			t.Fatalf("%d groups", len(groups))
		}
		own := map[usher.SeatID]bool{}
		for _, g := range groups {
			if len(g) != 4 {
				t.Fatalf("group %v", g)
			}
			for _, id := range g {
				if own[id] {
					t.Fatalf("%s is in two groups", id)
				}
				own[id], seen[id] = true, true
			}
		}
	}
	if len(seen) <= 12 || len(seen) > 96 {
		t.Errorf("20 draws named %d different seats", len(seen))
	}
}

func BenchmarkBest(b *testing.B) {
	c := seatmap.Arena()
	for b.Loop() {
		c.Best(func(i int) bool { return i%3 != 0 }, seatmap.Wish{Quantity: 2}, 3, 24)
	}
}

// rowOf makes one row, a seat at each x: r ordinary, w a wheelchair place, c a companion's.
func rowOf(t *testing.T, marks string, xs ...int) *seatmap.Chart {
	t.Helper()
	var b strings.Builder
	b.WriteString("seat_id,section,row,number,tier,x,y,accessible,companion\n")
	for i, mark := range marks {
		x := i * 10
		if i < len(xs) {
			x = xs[i]
		}
		fmt.Fprintf(&b, "%c%d,Hall,1,%d,gold,%d,0,%v,%v\n", mark, i, i, x, mark == 'w', mark == 'c')
	}
	c, err := seatmap.ParseCSV("hall", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestBestWithCompanion(t *testing.T) {
	for _, tc := range []struct {
		marks string
		n     int
		want  string
	}{
		{"rwc", 2, "w1 c2"}, {"rrrwcr", 2, "w3 c4"}, {"wwcc", 2, "w1 c2"}, {"cwwc", 2, "c0 w1"}, {"crw", 2, "r1 w2"},
		{"rrrwcrrr", 3, "r2 w3 c4"}, {"wcwcr", 3, "c3 r4 w2"}, {"rrwrwc", 1, "w2"},
		// Two of three ordinary seats would leave one beside a wheelchair place alone.
		{"rrrwcrr", 0, "r5 r6"},
	} {
		wish := seatmap.Wish{Quantity: tc.n, Accessible: true}
		if tc.n == 0 {
			wish = seatmap.Wish{Quantity: 2}
		}
		got := rowOf(t, tc.marks).Best(func(int) bool { return true }, wish, 1, 1)
		if len(got) != 1 || !sameSeats(got[0], strings.Fields(tc.want)) {
			t.Errorf("%s, %d: %v, want %s", tc.marks, tc.n, got, tc.want)
		}
	}
}

func sameSeats(got []usher.SeatID, want []string) bool {
	var ids []string
	for _, id := range got {
		ids = append(ids, string(id))
	}
	return slices.Equal(slices.Sorted(slices.Values(ids)), slices.Sorted(slices.Values(want)))
}

// Two seats that stand closer than the others of their row make no aisles.
func TestBestBesideNarrowGap(t *testing.T) {
	for _, last := range []int{95, 90} {
		got := rowOf(t, "rrrrrrrrrwc", 0, 10, 20, 30, 40, 50, 60, 70, 80, 90, last).Best(func(int) bool { return true }, seatmap.Wish{Quantity: 4}, 1, 1)
		if len(got) != 1 {
			t.Errorf("nine ordinary seats are free, four together: %v", got)
		}
	}
}
