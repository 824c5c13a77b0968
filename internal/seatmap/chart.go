package seatmap

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"slices"
	"sync"

	"usher"
)

// Format is the value of the "format" key of usher's own chart files.
const Format = "usher-chart/1"

// Bounds of one chart.
const (
	// SeatsMax is the most seats a chart may have.
	SeatsMax = 200_000
	// FileMax is the most bytes a chart file may have.
	FileMax = 64 << 20
	// structureMax is the most objects and lists of a JSON file: a seating plan has
	// two objects per seat.
	structureMax = 1_000_000
	// coordinateMax bounds every coordinate and extent, in chart units.
	coordinateMax = 1_000_000
	tiersMax      = 200
	decorationMax = 10_000
	nameMax       = 200 // characters of a name
	labelMax      = 64  // bytes of an id or a printed label
)

// Tier is a price tier as a chart shows it.
type Tier struct {
	ID    usher.TierID `json:"id"`
	Name  string       `json:"name"`
	Color string       `json:"color"`
}

// Seat is one place of a chart. X and Y are in chart units, y growing downwards,
// rounded to hundredths.
type Seat struct {
	ID    usher.SeatID `json:"id"`
	Label string       `json:"label"`
	X     float64      `json:"x"`
	Y     float64      `json:"y"`
	Tier  usher.TierID `json:"tier"`
	// Accessible marks a wheelchair place, Companion the place beside it that is
	// meant for whoever comes along.
	Accessible bool `json:"accessible,omitempty"`
	Companion  bool `json:"companion,omitempty"`
}

// Row is a row of a section. Its seats have the ordinals First to First+Count-1,
// in the order in which they stand beside each other.
type Row struct {
	Section string
	Label   string
	First   int
	Count   int
}

// Decoration is something drawn that is no seat: a stage, a bar, a word. X and Y
// are the top left corner of a rectangle, the centre of an ellipse or a text,
// and the origin of a polygon's points. Rotation is in degrees, clockwise, around
// that point.
type Decoration struct {
	Shape       string       `json:"shape"`
	X           float64      `json:"x"`
	Y           float64      `json:"y"`
	Width       float64      `json:"width,omitempty"`
	Height      float64      `json:"height,omitempty"`
	Rotation    float64      `json:"rotation,omitempty"`
	Color       string       `json:"color,omitempty"`
	BorderColor string       `json:"borderColor,omitempty"`
	Text        string       `json:"text,omitempty"`
	Points      [][2]float64 `json:"points,omitempty"`
}

// Chart is one venue's geometry. It never changes after it was made, and may be
// used by many goroutines.
type Chart struct {
	name        string
	tiers       []Tier
	rows        []Row
	seats       []Seat
	decorations []Decoration
	rowOf       []int32
	ordinals    map[usher.SeatID]int32
	body        []byte
	hash        string
	packed      func() []byte
	// besides tells for each ordinal whether no aisle lies before the next seat.
	besides func() []bool
	outlook func() outlook
}

// Name returns the chart's name.
func (c *Chart) Name() string { return c.name }

// Hash returns the chart's address: the first 32 hexadecimal digits of the
// SHA-256 of its canonical encoding.
func (c *Chart) Hash() string { return c.hash }

// Body returns the canonical encoding: JSON of the own format. It must not be
// changed.
func (c *Chart) Body() []byte { return c.body }

// Gzip returns the canonical encoding compressed, once. It must not be changed.
func (c *Chart) Gzip() []byte { return c.packed() }

// Len returns the number of seats.
func (c *Chart) Len() int { return len(c.seats) }

// Seat returns the seat with the ordinal, 0 to Len()-1.
func (c *Chart) Seat(ordinal int) Seat { return c.seats[ordinal] }

// Ordinal returns the position of a seat in the chart, or false when the chart
// has no such seat.
func (c *Chart) Ordinal(id usher.SeatID) (int, bool) {
	n, ok := c.ordinals[id]
	return int(n), ok
}

// Seats ranges over ordinals and seats, in order.
func (c *Chart) Seats() iter.Seq2[int, Seat] { return slices.All(c.seats) }

// Rows ranges over the rows in the order of their seats.
func (c *Chart) Rows() iter.Seq[Row] { return slices.Values(c.rows) }

// RowOf returns the row of the seat with the ordinal: what a ticket prints.
func (c *Chart) RowOf(ordinal int) Row { return c.rows[c.rowOf[ordinal]] }

// Tiers returns the price tiers in the order of the file.
func (c *Chart) Tiers() []Tier { return slices.Clone(c.tiers) }

// Decorations returns how many decorations the chart has; they matter to
// drawing alone and travel in Body.
func (c *Chart) Decorations() int { return len(c.decorations) }

// document is the own file format and, without optional white space and with
// its numbers rounded, the canonical encoding.
type document struct {
	Format      string       `json:"format"`
	Name        string       `json:"name"`
	Size        *size        `json:"size,omitempty"`
	Tiers       []Tier       `json:"tiers"`
	Sections    []section    `json:"sections"`
	Decorations []Decoration `json:"decorations,omitempty"`
}

type size struct {
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
}

type section struct {
	Name string `json:"name"`
	Rows []row  `json:"rows"`
}

type row struct {
	Label string `json:"label"`
	Seats []Seat `json:"seats"`
}

// newChart checks a document and freezes it. words names its parts in messages
// as the file it came from does. It fails with CodeInvalidFile.
func newChart(d *document, w words) (*Chart, error) {
	d.Format = Format
	normalize(d)
	if err := check(d, w); err != nil {
		return nil, err
	}
	c := &Chart{name: d.Name, tiers: d.Tiers, decorations: d.Decorations, ordinals: map[usher.SeatID]int32{}}
	for _, s := range d.Sections {
		for _, r := range s.Rows {
			c.rows = append(c.rows, Row{Section: s.Name, Label: r.Label, First: len(c.seats), Count: len(r.Seats)})
			for _, seat := range r.Seats {
				c.ordinals[seat.ID] = int32(len(c.seats))
				c.rowOf = append(c.rowOf, int32(len(c.rows)-1))
				c.seats = append(c.seats, seat)
			}
		}
	}
	body, err := json.Marshal(d)
	if err != nil {
		return nil, usher.Errorf(usher.CodeInvalidFile, "the chart cannot be written: %w", err)
	}
	sum := sha256.Sum256(body)
	c.body, c.hash = body, hex.EncodeToString(sum[:])[:32]
	c.packed = sync.OnceValue(func() []byte { return compress(body, gzip.BestCompression) })
	c.besides = sync.OnceValue(c.neighbours)
	c.outlook = sync.OnceValue(c.look)
	return c, nil
}

// normalize makes two files of the same chart the same document: numbers are
// rounded to hundredths, rows and sections without seats are left out.
func normalize(d *document) {
	sections := d.Sections[:0]
	for _, s := range d.Sections {
		s.Rows = slices.DeleteFunc(s.Rows, func(r row) bool { return len(r.Seats) == 0 })
		if len(s.Rows) > 0 {
			sections = append(sections, s)
		}
		for _, r := range s.Rows {
			for i := range r.Seats {
				r.Seats[i].X, r.Seats[i].Y = hundredths(r.Seats[i].X), hundredths(r.Seats[i].Y)
			}
		}
	}
	d.Sections = sections
	if d.Size != nil {
		d.Size = &size{hundredths(d.Size.Width), hundredths(d.Size.Height)}
	}
	for i := range d.Decorations {
		dec := &d.Decorations[i]
		for _, v := range []*float64{&dec.X, &dec.Y, &dec.Width, &dec.Height, &dec.Rotation} {
			*v = hundredths(*v)
		}
		for j, p := range dec.Points {
			dec.Points[j] = [2]float64{hundredths(p[0]), hundredths(p[1])}
		}
	}
	for i := range d.Tiers {
		if d.Tiers[i].Color == "" {
			d.Tiers[i].Color = palette[i%len(palette)]
		}
	}
}

// palette colours tiers whose file names no colour: distinguishable from each
// other, also without red-green vision, and dark enough for white text.
var palette = []string{"#9a3412", "#1d4ed8", "#047857", "#7c3aed", "#a16207", "#be185d", "#0e7490", "#4d7c0f"}

// compress returns b gzipped; writing into memory cannot fail.
func compress(b []byte, level int) []byte {
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, level)
	if err != nil {
		panic("seatmap: gzip level: " + err.Error())
	}
	_, _ = z.Write(b)
	_ = z.Close()
	return buf.Bytes()
}
