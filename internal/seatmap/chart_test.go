package seatmap_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"usher"
	"usher/internal/seatmap"
)

// small is a chart in the own format that uses every key.
const small = `{
  "format": "usher-chart/1",
  "name": "小巨蛋 <Hall>",
  "size": {"width": 100, "height": 50.5},
  "tiers": [{"id": "a", "name": "Front", "color": "#c2410c"}, {"id": "b", "name": "Back", "color": ""}],
  "sections": [
    {"name": "Left", "rows": [
      {"label": "1", "seats": [
        {"id": "L-1-1", "label": "1", "x": 1.004, "y": -0.001, "tier": "a", "accessible": true},
        {"id": "L-1-2", "label": "2", "x": 12, "y": 0, "tier": "a", "companion": true}]},
      {"label": "2", "seats": []}]},
    {"name": "Right", "rows": [{"label": "1", "seats": [{"id": "R-1-1", "label": "1", "x": 40, "y": 0, "tier": "b"}]}]}
  ],
  "decorations": [{"shape": "polygon", "x": 0, "y": 0, "points": [[0, 0], [1, 0], [1, 1.239]], "color": "gray", "text": "Stage"}]
}`

func mustParse(t testing.TB, name, file string) *seatmap.Chart {
	t.Helper()
	c, err := seatmap.Parse(name, []byte(file))
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return c
}

// wantRefused checks that a file is refused as a file, and that the message
// names the thing.
func wantRefused(t *testing.T, file string, names ...string) {
	t.Helper()
	c, err := seatmap.Parse("n", []byte(file))
	if err == nil {
		t.Fatalf("accepted %d seats, want a refusal", c.Len())
	}
	if code := usher.CodeOf(err); code != usher.CodeInvalidFile {
		t.Errorf("code %q, want invalid_file", code)
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("message %q does not name %q", err, name)
		}
	}
}

func TestParseJSON(t *testing.T) {
	c := mustParse(t, "", small)
	if c.Name() != "小巨蛋 <Hall>" || c.Len() != 3 || len(c.Tiers()) != 2 || c.Decorations() != 1 {
		t.Fatalf("got %q with %d seats, %d tiers, %d decorations", c.Name(), c.Len(), len(c.Tiers()), c.Decorations())
	}
	want := []seatmap.Seat{
		{ID: "L-1-1", Label: "1", X: 1, Tier: "a", Accessible: true},
		{ID: "L-1-2", Label: "2", X: 12, Tier: "a", Companion: true},
		{ID: "R-1-1", Label: "1", X: 40, Tier: "b"},
	}
	for i, seat := range c.Seats() {
		if seat != want[i] {
			t.Errorf("seat %d is %+v, want %+v", i, seat, want[i])
		}
		if n, ok := c.Ordinal(seat.ID); !ok || n != i {
			t.Errorf("ordinal of %s is %d, %v, want %d", seat.ID, n, ok, i)
		}
	}
	if math.Signbit(c.Seat(0).Y) {
		t.Error("a rounded position is negative zero")
	}
	var rows []seatmap.Row
	for r := range c.Rows() {
		rows = append(rows, r)
	}
	if got, want := fmt.Sprint(rows), "[{Left 1 0 2} {Right 1 2 1}]"; got != want {
		t.Errorf("rows are %s, want %s", got, want)
	}
	if r := c.RowOf(2); r.Section != "Right" {
		t.Errorf("seat 2 is in %+v", r)
	}
	if _, ok := c.Ordinal("nowhere"); ok {
		t.Error("an unknown seat has an ordinal")
	}
	if c.Tiers()[1].Color == "" {
		t.Error("a tier without a colour got none")
	}
}

// The canonical encoding is a fixed point, and its hash is the address.
func TestCanonical(t *testing.T) {
	a := mustParse(t, "", small)
	b := mustParse(t, "", string(a.Body()))
	if !bytes.Equal(a.Body(), b.Body()) || a.Hash() != b.Hash() {
		t.Fatal("the canonical encoding of a canonical encoding differs")
	}
	if len(a.Hash()) != 32 {
		t.Errorf("hash %q has %d digits", a.Hash(), len(a.Hash()))
	}
	c := mustParse(t, "", strings.ReplaceAll(small, "\n", "\r\n"))
	if c.Hash() != a.Hash() {
		t.Error("white space changes the address")
	}
	d := mustParse(t, "", strings.Replace(small, `"x": 12`, `"x": 12.5`, 1))
	if d.Hash() == a.Hash() {
		t.Error("another chart has the same address")
	}
	if bytes.Contains(a.Body(), []byte("<Hall>")) {
		t.Error("the encoding has markup in the clear")
	}
	z, err := gzip.NewReader(bytes.NewReader(a.Gzip()))
	if err != nil {
		t.Fatalf("open gzip: %v", err)
	}
	if plain, err := io.ReadAll(z); err != nil || !bytes.Equal(plain, a.Body()) {
		t.Errorf("gzip holds something else (%v)", err)
	}
}

func TestParseJSONRefuses(t *testing.T) {
	with := func(old, new string) string {
		if !strings.Contains(small, old) {
			t.Fatalf("the sample lacks %s", old)
		}
		return strings.Replace(small, old, new, 1)
	}
	for _, c := range []struct {
		name, file string
		names      []string
	}{
		{"empty", "", []string{"empty"}},
		{"white space", " \n\t", []string{"empty"}},
		{"a list", "[]", []string{"a list", "an object"}},
		{"cut", small[:200], []string{"ends too early"}},
		{"two values", small + "{}", []string{"goes on"}},
		{"no format", with(`"format": "usher-chart/1",`, ""), []string{"format", "zones"}},
		{"other format", with("usher-chart/1", "usher-chart/9"), []string{"usher-chart/9"}},
		{"misspelt key", with(`"accessible": true`, `"accesible": true`), []string{"accesible"}},
		{"broken UTF-8", with("Front", "Fr\xffnt"), []string{"not UTF-8, line 5"}},
		{"Big5", with("小巨蛋", "\xa4\x70\xa5\xa8\xb3\x4a"), []string{"not UTF-8, line 3"}},
		{"lone surrogate", with("Front", `Fr\ud800nt`), []string{"tier 1", "not allowed"}},
		{"zero byte", with("L-1-2", `L-1\u00002`), []string{"section \"Left\"", "seat \"2\"", "not allowed"}},
		{"empty name", with("小巨蛋 <Hall>", "  "), []string{"name is empty"}},
		{"long name", with("小巨蛋 <Hall>", strings.Repeat("席", 201)), []string{"200 characters"}},
		{"empty seat label", with(`"label": "2", "x"`, `"label": "", "x"`), []string{"section \"Left\"", "label is empty"}},
		{"empty section", with(`"name": "Right"`, `"name": ""`), []string{"section 2"}},
		{"empty row", with(`"label": "1", "seats": [{"id": "R`, `"label": "", "seats": [{"id": "R`), []string{"row 1", "Right"}},
		{"seat twice", with("R-1-1", "L-1-1"), []string{"L-1-1", "Left", "Right"}},
		{"tier twice", with(`"id": "b"`, `"id": "a"`), []string{"tier 2", "twice"}},
		{"unknown tier", with(`"tier": "b"`, `"tier": "gold"`), []string{"Right", "gold"}},
		{"padded id", with("L-1-2", "L-1-2 "), []string{"space"}},
		{"long id", with("L-1-2", strings.Repeat("x", 65)), []string{"64"}},
		{"text for a number", with(`"x": 12`, `"x": "12"`), []string{"line 10", "is text", "sections.rows.seats.x", "a number"}},
		{"far away", with(`"x": 12`, `"x": 1e7`), []string{"out of range"}},
		{"too far for a number", with(`"x": 12`, `"x": 1e999`), []string{"1e999", "a number"}},
		{"both flags", with(`"companion": true`, `"companion": true, "accessible": true`), []string{"both"}},
		{"markup as colour", with("#c2410c", "red;}</style>"), []string{"tier 1", "colour"}},
		{"shape", with("polygon", "blob"), []string{"decoration 1", "blob"}},
		{"decoration colour", with("gray", "url(x)"), []string{"decoration 1", "colour"}},
		{"decoration place", with("1.239", "1e9"), []string{"decoration 1", "out of range"}},
		{"negative size", with(`"width": 100`, `"width": -100`), []string{"size"}},
		{"no seats", `{"format":"usher-chart/1","name":"n","tiers":[],"sections":[]}`, []string{"no seats"}},
	} {
		t.Run(c.name, func(t *testing.T) { wantRefused(t, c.file, c.names...) })
	}
}

func TestSeatsMax(t *testing.T) {
	file := func(n int) string {
		var b strings.Builder
		b.WriteString("seat_id,section,row,number,tier,x,y\n")
		for i := range n {
			fmt.Fprintf(&b, "s%d,S,%d,%d,a,%d,%d\n", i, i/500, i, i%500, i/500)
		}
		return b.String()
	}
	if c := mustParse(t, "n", file(seatmap.SeatsMax)); c.Len() != seatmap.SeatsMax {
		t.Errorf("read %d seats", c.Len())
	}
	wantRefused(t, file(seatmap.SeatsMax+1), "200000")
}

func TestStructureMax(t *testing.T) {
	wantRefused(t, `{"format":"usher-chart/1","sections":[{"rows":[{"seats":[`+strings.Repeat("{},", 1_000_000)+"{}]}]}]}", "objects")
}

// The examples of the documentation are charts.
func TestDocumentedExamples(t *testing.T) {
	raw, err := os.ReadFile("../../docs/charts.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for block := range strings.SplitSeq(string(raw), "```") {
		kind, file, _ := strings.Cut(block, "\n")
		if kind == "json" || kind == "csv" {
			seen++
			if c := mustParse(t, "Example", file); c.Len() != 2 {
				t.Errorf("the %s example has %d seats", kind, c.Len())
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d examples", seen)
	}
}

func TestFileMax(t *testing.T) {
	wantRefused(t, strings.Repeat(" ", seatmap.FileMax+1), "MiB")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(wildPlan))
	f.Add([]byte(plainCSV(3)))
	f.Add([]byte("\xef\xbb\xbf" + plainCSV(1)))
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := seatmap.Parse("fuzz", file)
		if err != nil {
			if usher.CodeOf(err) != usher.CodeInvalidFile {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		again, err := seatmap.ParseJSON(c.Body())
		if err != nil {
			t.Fatalf("the canonical encoding is refused: %v", err)
		}
		if again.Hash() != c.Hash() || again.Len() != c.Len() {
			t.Fatal("the canonical encoding reads as another chart")
		}
		for i, s := range c.Seats() {
			if n, ok := again.Ordinal(s.ID); !ok || n != i {
				t.Fatalf("seat %q moved from %d to %d", s.ID, i, n)
			}
		}
	})
}
