package seatmap

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"unicode/utf8"

	"usher"
)

// words says how a file format names its parts, so that a message points at the
// thing in the file that is wrong.
type words struct {
	tier string
	// seat describes the seat at these indexes of the document.
	seat func(d *document, section, row, seat int) string
}

// placeWords describes a seat by its section, row and label.
func placeWords(section, tier string) words {
	return words{tier: tier, seat: func(d *document, s, r, i int) string {
		sec := &d.Sections[s]
		return fmt.Sprintf("%s %s, row %s, seat %s", section, quote(sec.Name), quote(sec.Rows[r].Label), quote(sec.Rows[r].Seats[i].Label))
	}}
}

// check refuses a document that is no usable chart, with CodeInvalidFile and a
// message that names the object.
func check(d *document, w words) error {
	if err := checkName("the chart's name", d.Name); err != nil {
		return err
	}
	if d.Size != nil && !(inRange(d.Size.Width) && inRange(d.Size.Height) && d.Size.Width >= 0 && d.Size.Height >= 0) {
		return refuse("the chart's size is out of range")
	}
	// Counted first: a file that is too big costs no more than reading it.
	seats := 0
	for _, s := range d.Sections {
		for _, r := range s.Rows {
			seats += len(r.Seats)
		}
	}
	switch {
	case seats == 0:
		return refuse("the file has no seats")
	case seats > SeatsMax:
		return refuse("the file has more than %d seats", SeatsMax)
	}
	tiers, err := checkTiers(d, w)
	if err != nil {
		return err
	}
	if err := checkSeats(d, w, tiers); err != nil {
		return err
	}
	return checkDecorations(d)
}

func checkTiers(d *document, w words) (map[usher.TierID]bool, error) {
	if len(d.Tiers) > tiersMax {
		return nil, refuse("more than %d of: %s", tiersMax, w.tier)
	}
	tiers := make(map[usher.TierID]bool, len(d.Tiers))
	for i, t := range d.Tiers {
		what := fmt.Sprintf("%s %d (%s)", w.tier, i+1, quote(string(t.ID)))
		if err := checkLabel(what, string(t.ID)); err != nil {
			return nil, err
		}
		if err := checkName("the name of "+what, t.Name); err != nil {
			return nil, err
		}
		if !validColor(t.Color) {
			return nil, refuse("%s has a colour that is none: %s", what, quote(t.Color))
		}
		if tiers[t.ID] {
			return nil, refuse("%s is there twice", what)
		}
		tiers[t.ID] = true
	}
	return tiers, nil
}

func checkSeats(d *document, w words, tiers map[usher.TierID]bool) error {
	type index struct{ s, r, i int }
	seen := map[usher.SeatID]index{}
	for s := range d.Sections {
		if err := checkName(fmt.Sprintf("the name of section %d", s+1), d.Sections[s].Name); err != nil {
			return err
		}
		for r := range d.Sections[s].Rows {
			row := &d.Sections[s].Rows[r]
			if err := checkLabel(fmt.Sprintf("the label of row %d in section %s", r+1, quote(d.Sections[s].Name)), row.Label); err != nil {
				return err
			}
			for i := range row.Seats {
				seat := &row.Seats[i]
				if at, twice := seen[seat.ID]; twice {
					return refuse("the seat id %s is there twice: %s and %s",
						quote(string(seat.ID)), w.seat(d, at.s, at.r, at.i), w.seat(d, s, r, i))
				}
				seen[seat.ID] = index{s, r, i}
				if fault := seatFault(seat, tiers, w.tier); fault != "" {
					return refuse("%s: %s", w.seat(d, s, r, i), fault)
				}
			}
		}
	}
	return nil
}

// seatFault says what is wrong with one seat, or "".
func seatFault(s *Seat, tiers map[usher.TierID]bool, tierWord string) string {
	if err := usher.CheckText("the seat id", string(s.ID), labelMax); err != nil {
		return reason(err)
	}
	if strings.TrimSpace(string(s.ID)) != string(s.ID) {
		return "the seat id begins or ends with a space"
	}
	if err := usher.CheckText("the seat's label", s.Label, labelMax); err != nil {
		return reason(err)
	}
	switch {
	case !inRange(s.X) || !inRange(s.Y):
		return "its position is out of range"
	case !tiers[s.Tier]:
		return fmt.Sprintf("there is no %s %s", tierWord, quote(string(s.Tier)))
	case s.Accessible && s.Companion:
		return "it is marked both accessible and companion"
	}
	return ""
}

func checkDecorations(d *document) error {
	if len(d.Decorations) > decorationMax {
		return refuse("more than %d decorations", decorationMax)
	}
	for i, dec := range d.Decorations {
		what := fmt.Sprintf("decoration %d", i+1)
		switch dec.Shape {
		case "rectangle", "ellipse", "polygon", "text":
		default:
			return refuse("%s has an unknown shape %s", what, quote(dec.Shape))
		}
		if dec.Text != "" {
			if err := checkName("the text of "+what, dec.Text); err != nil {
				return err
			}
		}
		for _, color := range []string{dec.Color, dec.BorderColor} {
			if color != "" && !validColor(color) {
				return refuse("%s has a colour that is none: %s", what, quote(color))
			}
		}
		numbers := []float64{dec.X, dec.Y, dec.Width, dec.Height, dec.Rotation}
		for _, p := range dec.Points {
			numbers = append(numbers, p[0], p[1])
		}
		for _, v := range numbers {
			if !inRange(v) {
				return refuse("%s has a number out of range", what)
			}
		}
	}
	return nil
}

// colorPattern admits CSS colours that can stand in a page without changing it:
// hexadecimal, by name, or as rgb() and hsl().
var colorPattern = regexp.MustCompile(`^(#([0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})|[a-zA-Z]{3,30}|(rgb|hsl)a?\([0-9., %/deg]{1,60}\))$`)

func validColor(s string) bool { return colorPattern.MatchString(s) }

// checkName checks text that people read: 1 to 200 characters of any script.
func checkName(what, s string) error {
	if strings.TrimSpace(s) == "" {
		return refuse("%s is empty", what)
	}
	if utf8.RuneCountInString(s) > nameMax {
		return refuse("%s is longer than %d characters", what, nameMax)
	}
	if err := usher.CheckText(what, s, nameMax*utf8.UTFMax); err != nil {
		return refuse("%s", reason(err))
	}
	return nil
}

// checkLabel checks an id or a printed label: 1 to 64 bytes, not only spaces.
func checkLabel(what, s string) error {
	if strings.TrimSpace(s) == "" {
		return refuse("%s is empty", what)
	}
	if err := usher.CheckText(what, s, labelMax); err != nil {
		return refuse("%s", reason(err))
	}
	return nil
}

func inRange(v float64) bool { return math.Abs(v) <= coordinateMax }

// hundredths rounds to two digits, and negative zero to zero.
func hundredths(v float64) float64 { return math.Round(v*100)/100 + 0 }

func refuse(format string, args ...any) error {
	return usher.Errorf(usher.CodeInvalidFile, format, args...)
}

// reason returns the text for people of a coded error.
func reason(err error) string {
	var e *usher.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

// quote shows text from a file in a message: escaped and cut to a readable length.
func quote(s string) string {
	const shown = 60
	if utf8.RuneCountInString(s) > shown {
		s = string([]rune(s)[:shown]) + "..."
	}
	return fmt.Sprintf("%q", s)
}
