package seatmap

import (
	"fmt"
	"math"
	"strconv"

	"usher"
)

// Tiers of the sample charts.
const (
	TierFloor      usher.TierID = "floor"
	TierLower      usher.TierID = "lower"
	TierMiddle     usher.TierID = "middle"
	TierUpper      usher.TierID = "upper"
	TierUpperRear  usher.TierID = "upper-rear"
	TierClubFront  usher.TierID = "front"
	TierClubTables usher.TierID = "rear"
)

// ArenaSeats is the number of seats of the sample arena.
const ArenaSeats = 50_000

// Measures of the sample venues, in chart units: a seat is about 8 wide.
const (
	seatPitch   = 10.0
	rowPitch    = 12.0
	aisle       = 14.0
	floorWidth  = 660.0 // inner edge of the bowl, left to right
	floorBottom = 420.0 // inner edge of the bowl, away from the stage
	floorTop    = -300.0
	sideBlocks  = 4 // blocks along each straight of the bowl
)

// ring is one level of the bowl.
type ring struct {
	number  int // of the first section, for example 100
	inner   float64
	rows    int
	corners int // wedges per corner
	tier    usher.TierID
}

// Arena generates the sample arena: exactly ArenaSeats seats on a floor and three
// rings around a stage, five tiers, wheelchair places with companions. It is the
// same chart, with the same hash, every time.
func Arena() *Chart {
	d := &document{
		Name: "Sample Arena",
		Tiers: []Tier{
			{TierFloor, "Floor", "#b91c1c"}, {TierLower, "Lower bowl", "#c2410c"}, {TierMiddle, "Middle ring", "#1d4ed8"},
			{TierUpper, "Upper ring", "#0f766e"}, {TierUpperRear, "Upper ring, rear", "#6d28d9"},
		},
		Decorations: []Decoration{
			{Shape: "rectangle", X: -340, Y: floorTop - 180, Width: 680, Height: 170, Color: "#1f2937", BorderColor: "#111827", Text: "STAGE"},
			{Shape: "rectangle", X: -22, Y: floorTop - 10, Width: 44, Height: 60, Color: "#1f2937", BorderColor: "#111827"},
			{Shape: "rectangle", X: -60, Y: floorBottom - 48, Width: 120, Height: 44, Color: "#4b5563", Text: "SOUND"},
		},
	}
	floorBlocks(d)
	for _, r := range []ring{
		{number: 100, inner: 60, rows: 30, corners: 2, tier: TierLower},
		{number: 200, inner: 450, rows: 30, corners: 4, tier: TierMiddle},
		{number: 300, inner: 840, rows: 55, corners: 6, tier: TierUpper},
	} {
		bowl(d, r)
	}
	trim(d, ArenaSeats)
	return mustChart(d)
}

// floorBlocks lays out twelve straight blocks before the stage.
func floorBlocks(d *document) {
	const columns, lines, seats, rows = 3, 4, 19, 13
	for b := range columns * lines {
		s := section{Name: "Floor " + string(rune('A'+b))}
		left := float64(b%columns-1)*(seats*seatPitch+aisle) - (seats-1)*seatPitch/2
		top := floorTop + 70 + float64(b/columns)*(rows*rowPitch-4)
		for r := range rows - 1 {
			line := row{Label: strconv.Itoa(r + 1)}
			for i := range seats {
				line.Seats = append(line.Seats, Seat{
					ID: usher.SeatID(fmt.Sprintf("F%c-%d-%d", 'A'+b, r+1, i+1)), Label: strconv.Itoa(i + 1),
					X: left + float64(i)*seatPitch, Y: top + float64(r)*rowPitch, Tier: TierFloor,
				})
			}
			s.Rows = append(s.Rows, line)
		}
		if b%columns != 1 {
			markAccessible(s.Rows[0].Seats, 3)
		}
		d.Sections = append(d.Sections, s)
	}
}

// bowl adds one ring: left straight, corner, end, corner, right straight, as a
// spectator walks it with the stage behind the start.
func bowl(d *document, r ring) {
	number := r.number
	add := func(place func(depth, along float64) (x, y float64), length func(depth float64) float64) {
		number++
		d.Sections = append(d.Sections, block(r, number, place, length))
	}
	straight := func(x0, y0, dx, dy, total float64) {
		part := total / sideBlocks
		for b := range sideBlocks {
			start := float64(b) * part
			add(func(depth, along float64) (float64, float64) {
				// Outwards is a quarter turn clockwise from the walking direction.
				return x0 + dx*(start+along) - dy*depth, y0 + dy*(start+along) + dx*depth
			}, func(float64) float64 { return part })
		}
	}
	corner := func(cx, cy, from float64) {
		part := math.Pi / 2 / float64(r.corners)
		for b := range r.corners {
			start := from - float64(b)*part
			add(func(depth, along float64) (float64, float64) {
				angle := start - along/depth
				return cx + depth*math.Cos(angle), cy + depth*math.Sin(angle)
			}, func(depth float64) float64 { return depth * part })
		}
	}
	const half = floorWidth / 2
	straight(-half, floorTop, 0, 1, floorBottom-floorTop)
	corner(-half, floorBottom, math.Pi)
	straight(-half, floorBottom, 1, 0, floorWidth)
	corner(half, floorBottom, math.Pi/2)
	straight(half, floorBottom, 0, -1, floorBottom-floorTop)
}

// block lays out one section of a ring: rows go outwards, seats along the row,
// centred between the aisles.
func block(r ring, number int, place func(depth, along float64) (x, y float64), length func(depth float64) float64) section {
	s := section{Name: strconv.Itoa(number)}
	for n := range r.rows {
		depth := r.inner + float64(n)*rowPitch
		seats := int((length(depth) - aisle) / seatPitch)
		first := (length(depth) - float64(seats-1)*seatPitch) / 2
		line := row{Label: strconv.Itoa(n + 1)}
		for i := range seats {
			x, y := place(depth, first+float64(i)*seatPitch)
			seat := Seat{ID: usher.SeatID(fmt.Sprintf("%d-%d-%d", number, n+1, i+1)), Label: strconv.Itoa(i + 1), X: tenths(x), Y: tenths(y), Tier: r.tier}
			if r.tier == TierUpper && n >= 24 {
				seat.Tier = TierUpperRear
			}
			line.Seats = append(line.Seats, seat)
		}
		s.Rows = append(s.Rows, line)
	}
	// Step-free places are where the concourses meet the seats.
	switch r.tier {
	case TierLower:
		markAccessible(s.Rows[r.rows-1].Seats, 4)
	case TierMiddle:
		markAccessible(s.Rows[0].Seats, 3)
	}
	return s
}

// markAccessible makes pairs of a wheelchair place and a companion place at the
// start of a row.
func markAccessible(seats []Seat, pairs int) {
	for i := range min(2*pairs, len(seats)/2*2) {
		seats[i].Accessible, seats[i].Companion = i%2 == 0, i%2 == 1
	}
}

// trim takes seats from the ends of the last rows of the last ring, evenly over
// its sections, until the chart has exactly total seats.
func trim(d *document, total int) {
	count := 0
	var last []*section
	for i := range d.Sections {
		for _, r := range d.Sections[i].Rows {
			count += len(r.Seats)
		}
		if d.Sections[i].Rows[0].Seats[0].Tier == TierUpper {
			last = append(last, &d.Sections[i])
		}
	}
	if count < total {
		panic(fmt.Sprintf("seatmap: the sample arena has only %d seats", count))
	}
	for i := 0; count > total; i, count = i+1, count-1 {
		s := last[i%len(last)]
		r := &s.Rows[len(s.Rows)-1]
		if r.Seats = r.Seats[:len(r.Seats)-1]; len(r.Seats) == 0 {
			s.Rows = s.Rows[:len(s.Rows)-1]
		}
	}
}

// Club generates the sample club: 100 seats in ten curved rows, two tiers. It is
// the same chart, with the same hash, every time.
func Club() *Chart {
	d := &document{
		Name:  "Sample Club",
		Tiers: []Tier{{TierClubFront, "Front rows", "#b45309"}, {TierClubTables, "Rear rows", "#1d4ed8"}},
		Decorations: []Decoration{
			{Shape: "rectangle", X: -60, Y: -40, Width: 120, Height: 30, Color: "#1f2937", BorderColor: "#111827", Text: "STAGE"},
			{Shape: "rectangle", X: -60, Y: 165, Width: 120, Height: 16, Color: "#7c2d12", Text: "BAR"},
		},
	}
	const rows, seats, centre = 10, 10, -160.0
	for _, part := range []struct {
		name     string
		from, to int
		tier     usher.TierID
	}{{"Front", 0, 4, TierClubFront}, {"Rear", 4, rows, TierClubTables}} {
		s := section{Name: part.name}
		for n := part.from; n < part.to; n++ {
			line := row{Label: string(rune('A' + n))}
			radius := -centre + 14 + float64(n)*14
			for i := range seats {
				// Straight down from the stage is a quarter turn; the row bends around it.
				angle := math.Pi/2 - (float64(i)-(seats-1)/2.0)*(seatPitch+2)/radius
				line.Seats = append(line.Seats, Seat{
					ID: usher.SeatID(fmt.Sprintf("%c%d", 'A'+n, i+1)), Label: strconv.Itoa(i + 1),
					X: tenths(radius * math.Cos(angle)), Y: tenths(centre + radius*math.Sin(angle)), Tier: part.tier,
				})
			}
			s.Rows = append(s.Rows, line)
		}
		d.Sections = append(d.Sections, s)
	}
	markAccessible(d.Sections[1].Rows[rows-5].Seats, 2)
	return mustChart(d)
}

// tenths keeps generated coordinates short: a tenth is a hundredth of a seat.
func tenths(v float64) float64 { return math.Round(v*10)/10 + 0 }

func mustChart(d *document) *Chart {
	c, err := newChart(d, placeWords("section", "tier"))
	if err != nil {
		panic("seatmap: generated chart: " + err.Error())
	}
	return c
}
