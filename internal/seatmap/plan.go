package seatmap

import (
	"encoding/json"
	"fmt"
	"strings"

	"usher"
)

// The open seating-plan JSON. Keys that are not listed are tolerated.
type plan struct {
	Name       string         `json:"name"`
	Size       *size          `json:"size"`
	Categories []planCategory `json:"categories"`
	Zones      []planZone     `json:"zones"`
}

type planCategory struct {
	Name  string `json:"name"`
	Color string `json:"color"`
}

type planZone struct {
	Name     *string    `json:"name"`
	Position point      `json:"position"`
	Rows     []planRow  `json:"rows"`
	Areas    []planArea `json:"areas"`
}

type planRow struct {
	Number   string     `json:"row_number"`
	Position point      `json:"position"`
	Seats    []planSeat `json:"seats"`
}

type planSeat struct {
	GUID     string `json:"seat_guid"`
	Number   string `json:"seat_number"`
	Position point  `json:"position"`
	Category string `json:"category"`
}

type point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// planArea is a decoration. Its keys vary between files, and a drawing is no
// reason to refuse a plan: what cannot be read is left out.
type planArea struct {
	Position    json.RawMessage `json:"position"`
	Width       json.RawMessage `json:"width"`
	Height      json.RawMessage `json:"height"`
	Color       json.RawMessage `json:"color"`
	BorderColor json.RawMessage `json:"border_color"`
	Rotation    json.RawMessage `json:"rotation"`
	Text        json.RawMessage `json:"text"`
	Shape       json.RawMessage `json:"shape"`
	Radius      json.RawMessage `json:"radius"`
	Points      json.RawMessage `json:"points"`
	Rectangle   json.RawMessage `json:"rectangle"`
	Circle      json.RawMessage `json:"circle"`
	Ellipse     json.RawMessage `json:"ellipse"`
	Polygon     json.RawMessage `json:"polygon"`
}

// ParsePlan reads the open seating-plan JSON that pretix publishes. A seat's
// place is the sum of the positions of zone, row and seat. It fails with
// CodeInvalidFile, naming the zone, row and seat.
func ParsePlan(file []byte) (*Chart, error) {
	var p plan
	if err := decodeJSON(file, &p, false); err != nil {
		return nil, err
	}
	d := document{Name: p.Name, Size: p.Size}
	for i, c := range p.Categories {
		if strings.TrimSpace(c.Name) == "" {
			return nil, refuse("the name of category %d is empty", i+1)
		}
		d.Tiers = append(d.Tiers, Tier{ID: usher.TierID(c.Name), Name: c.Name, Color: c.Color})
	}
	for i, z := range p.Zones {
		s := section{Name: fmt.Sprintf("Zone %d", i+1)}
		if z.Name != nil {
			s.Name = *z.Name
		}
		if strings.TrimSpace(s.Name) == "" {
			return nil, refuse("the name of zone %d is empty", i+1)
		}
		for _, r := range z.Rows {
			s.Rows = append(s.Rows, planRowSeats(z, r))
		}
		d.Sections = append(d.Sections, s)
		for _, a := range z.Areas {
			d.Decorations = append(d.Decorations, planDecorations(z.Position, a)...)
		}
	}
	return newChart(&d, placeWords("zone", "category"))
}

func planRowSeats(z planZone, r planRow) row {
	out := row{Label: r.Number}
	for _, s := range r.Seats {
		out.Seats = append(out.Seats, Seat{
			ID:    usher.SeatID(s.GUID),
			Label: s.Number,
			X:     z.Position.X + r.Position.X + s.Position.X,
			Y:     z.Position.Y + r.Position.Y + s.Position.Y,
			Tier:  usher.TierID(s.Category),
		})
	}
	return out
}

// planDecorations draws an area and, where it has one, its text.
func planDecorations(zone point, a planArea) []Decoration {
	at, ok := lenient[point](a.Position)
	if !ok {
		return nil
	}
	d := Decoration{X: zone.X + at.X, Y: zone.Y + at.Y}
	d.Rotation, _ = lenient[float64](a.Rotation)
	d.Color, d.BorderColor = lenientColor(a.Color), lenientColor(a.BorderColor)
	centre := point{d.X, d.Y}
	switch shape, _ := lenient[string](a.Shape); shape {
	case "circle", "ellipse":
		d.Shape = "ellipse"
		rx, ry := planRadius(a)
		d.Width, d.Height = 2*rx, 2*ry
	case "polygon":
		d.Shape, d.Points = "polygon", planPoints(a)
	case "text":
		d.Shape = "text"
	default:
		d.Shape = "rectangle"
		d.Width, d.Height = planExtent(a)
		centre = point{d.X + d.Width/2, d.Y + d.Height/2}
	}
	text, textAt, textColor := planText(a)
	if d.Shape == "text" {
		d.Text = text
		if d.Color == "" {
			d.Color = textColor
		}
		return drawable(d)
	}
	out := drawable(d)
	if text != "" {
		if textAt != nil {
			centre = point{d.X + textAt.X, d.Y + textAt.Y}
		}
		out = append(out, drawable(Decoration{Shape: "text", X: centre.X, Y: centre.Y, Color: textColor, Text: text})...)
	}
	return out
}

// drawable returns the decoration if there is anything to see of it.
func drawable(d Decoration) []Decoration {
	for _, v := range []float64{d.X, d.Y, d.Width, d.Height, d.Rotation} {
		if !inRange(v) {
			return nil
		}
	}
	switch {
	case d.Shape == "text" && (strings.TrimSpace(d.Text) == "" || checkName("text", d.Text) != nil),
		d.Shape == "polygon" && len(d.Points) < 3,
		d.Shape != "text" && d.Shape != "polygon" && (d.Width <= 0 || d.Height <= 0):
		return nil
	}
	return []Decoration{d}
}

// planText reads an area's text: plain, or an object with place and colour.
func planText(a planArea) (text string, at *point, color string) {
	if s, ok := lenient[string](a.Text); ok {
		return s, nil, ""
	}
	o, _ := lenient[struct {
		Text     string          `json:"text"`
		Position *point          `json:"position"`
		Color    json.RawMessage `json:"color"`
	}](a.Text)
	return o.Text, o.Position, lenientColor(o.Color)
}

func planExtent(a planArea) (width, height float64) {
	if r, ok := lenient[size](a.Rectangle); ok {
		return r.Width, r.Height
	}
	width, _ = lenient[float64](a.Width)
	height, _ = lenient[float64](a.Height)
	return width, height
}

// planRadius reads one radius, or one per axis, from wherever the file keeps it.
func planRadius(a planArea) (rx, ry float64) {
	type holder struct {
		Radius json.RawMessage `json:"radius"`
	}
	sources := []json.RawMessage{a.Radius}
	for _, raw := range []json.RawMessage{a.Circle, a.Ellipse} {
		if h, ok := lenient[holder](raw); ok {
			sources = append(sources, h.Radius)
		}
	}
	for _, raw := range sources {
		if r, ok := lenient[float64](raw); ok {
			return r, r
		}
		if r, ok := lenient[point](raw); ok {
			return r.X, r.Y
		}
	}
	width, height := planExtent(a)
	return width / 2, height / 2
}

func planPoints(a planArea) [][2]float64 {
	points, ok := lenient[[]point](a.Points)
	if !ok {
		p, _ := lenient[struct {
			Points []point `json:"points"`
		}](a.Polygon)
		points = p.Points
	}
	var out [][2]float64
	for _, p := range points {
		if !inRange(p.X) || !inRange(p.Y) {
			return nil
		}
		out = append(out, [2]float64{p.X, p.Y})
	}
	return out
}

// lenient reads a value that may be missing or of another kind.
func lenient[T any](raw json.RawMessage) (v T, ok bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return v, false
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		var zero T
		return zero, false
	}
	return v, true
}

// lenientColor reads a colour; one that could not stand in a page is dropped.
func lenientColor(raw json.RawMessage) string {
	if s, _ := lenient[string](raw); validColor(s) {
		return s
	}
	return ""
}
