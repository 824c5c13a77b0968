package seatmap_test

import (
	"strings"
	"testing"
)

// wildPlan has what the published schema lists and what editors add to it.
const wildPlan = `{
  "name": "Theatre",
  "size": {"width": 800, "height": 600},
  "version": "0.3", "unknown": [1, {"a": null}],
  "categories": [{"name": "Stalls", "color": "rgb(200, 10, 20)", "uuid": "c1"}, {"name": "Balcony"}],
  "zones": [
    {"name": "Ground floor", "zone_id": "z1", "uuid": "u", "displayed": true, "position": {"x": 100, "y": 50.25},
     "rows": [
       {"row_number": "1", "row_number_position": "both", "row_label": "Row 1", "number_of_seats": 2, "seats_spacing": 20, "position": {"x": 10, "y": 5},
        "seats": [
          {"seat_guid": "g-1", "seat_number": "1", "position": {"x": 0.125, "y": 0}, "category": "Stalls", "uuid": "s"},
          {"seat_guid": "g-2", "seat_number": "2", "position": {"x": 20, "y": 0}, "category": "Balcony", "radius": 9}]},
       {"row_number": "2", "seats": [{"seat_guid": "g-3", "seat_number": "1", "position": {"x": 0, "y": 30}, "category": "Stalls"}]}],
     "areas": [
       {"position": {"x": 1, "y": 2}, "width": 300, "height": 40, "color": "#222", "border_color": "#333", "rotation": 10, "text": "Stage"},
       {"shape": "circle", "position": {"x": 1, "y": 2}, "radius": 12.5, "uuid": "a"},
       {"shape": "ellipse", "position": {"x": 1, "y": 2}, "ellipse": {"radius": {"x": 4, "y": 5}}},
       {"shape": "polygon", "position": {"x": 1, "y": 2}, "polygon": {"points": [{"x": 0, "y": 0}, {"x": 9, "y": 0}, {"x": 0, "y": 9}]}},
       {"shape": "text", "position": {"x": 1, "y": 2}, "text": {"text": "Exit", "color": "red", "position": {"x": 0, "y": 0}}},
       {"shape": "rectangle", "position": {"x": 1, "y": 2}, "rectangle": {"width": 5, "height": 6}, "color": "javascript:alert(1)", "text": {"text": "Bar", "position": {"x": 2, "y": 2}}},
       {"shape": "rectangle", "position": "somewhere"}]},
    {"position": {"x": 0, "y": 0}, "rows": [{"row_number": "1", "seats": [{"seat_guid": "g-4", "seat_number": "1", "position": {"x": 1, "y": 2}, "category": "Balcony"}]}]}
  ]
}`

func TestParsePlan(t *testing.T) {
	c := mustParse(t, "ignored", wildPlan)
	if c.Name() != "Theatre" || c.Len() != 4 || len(c.Tiers()) != 2 {
		t.Fatalf("got %q, %d seats, %d tiers", c.Name(), c.Len(), len(c.Tiers()))
	}
	for i, want := range [][2]float64{{110.13, 55.25}, {130, 55.25}, {100, 80.25}, {1, 2}} {
		if s := c.Seat(i); s.X != want[0] || s.Y != want[1] {
			t.Errorf("seat %s is at %v, %v, want %v", s.ID, s.X, s.Y, want)
		}
	}
	if s := c.RowOf(3).Section; s != "Zone 2" {
		t.Errorf("a zone without a name is called %q", s)
	}
	// rectangle + its text, circle, ellipse, polygon, text, rectangle + its text
	if c.Decorations() != 8 {
		t.Errorf("%d decorations, want 8: %s", c.Decorations(), c.Body())
	}
	for _, want := range []string{
		`{"shape":"rectangle","x":101,"y":52.25,"width":300,"height":40,"rotation":10,"color":"#222","borderColor":"#333"}`,
		`{"shape":"text","x":251,"y":72.25,"text":"Stage"}`,
		`{"shape":"ellipse","x":101,"y":52.25,"width":25,"height":25}`,
		`{"shape":"ellipse","x":101,"y":52.25,"width":8,"height":10}`,
		`"points":[[0,0],[9,0],[0,9]]`,
		`{"shape":"text","x":101,"y":52.25,"color":"red","text":"Exit"}`,
		`{"shape":"rectangle","x":101,"y":52.25,"width":5,"height":6}`,
	} {
		if !strings.Contains(string(c.Body()), want) {
			t.Errorf("the chart lacks %s:\n%s", want, c.Body())
		}
	}
	if strings.Contains(string(c.Body()), "javascript") {
		t.Error("a colour that is none went into the chart")
	}
}

func TestParsePlanRefuses(t *testing.T) {
	with := func(old, new string) string { return strings.Replace(wildPlan, old, new, 1) }
	for _, c := range []struct {
		name, file string
		names      []string
	}{
		{"seat_guid twice", with("g-3", "g-1"), []string{"g-1", `zone "Ground floor", row "1", seat "1"`, `row "2"`}},
		{"unknown category", with(`"category": "Balcony", "radius"`, `"category": "Box", "radius"`), []string{`row "1", seat "2"`, "category", "Box"}},
		{"empty plan name", with("Theatre", ""), []string{"name is empty"}},
		{"empty category name", with(`"name": "Balcony"`, `"name": ""`), []string{"category 2"}},
		{"category twice", with(`"name": "Balcony"`, `"name": "Stalls"`), []string{"category 2", "twice"}},
		{"empty zone name", with("Ground floor", ""), []string{"zone 1"}},
		{"empty row_number", with(`"row_number": "2"`, `"row_number": ""`), []string{"row 2", "Ground floor"}},
		{"empty seat_number", with(`"seat_number": "2"`, `"seat_number": ""`), []string{"Ground floor", "label is empty"}},
		{"empty seat_guid", with("g-2", ""), []string{`seat "2"`, "seat id is empty"}},
		{"colour", with("rgb(200, 10, 20)", "expression(x)"), []string{"category 1", "colour"}},
		{"no seats", `{"name": "n", "categories": [], "zones": []}`, []string{"no seats"}},
		{"not JSON", with(`"zones": [`, `"zones": ["`), []string{"not JSON", "line"}},
		{"number for text", with(`"seat_guid": "g-2"`, `"seat_guid": 2`), []string{"seat_guid", "text"}},
		{"broken UTF-8", with("Theatre", "The\xc3tre"), []string{"not UTF-8, line 2"}},
	} {
		t.Run(c.name, func(t *testing.T) { wantRefused(t, c.file, c.names...) })
	}
}
