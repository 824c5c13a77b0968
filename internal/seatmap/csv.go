package seatmap

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"usher"
)

// The columns of a chart CSV file, in their usual order; the last two may be
// left out.
var csvColumns = []string{"seat_id", "section", "row", "number", "tier", "x", "y", "accessible", "companion"}

const csvOptional = 2

// ParseCSV reads a chart from a CSV file with a header row. Comma, semicolon and
// tab separate; a byte order mark, CRLF, quotes and empty lines are fine. Rows
// are numbered as a spreadsheet shows them, the header being row 1. It fails
// with CodeInvalidFile and never returns a part of a file.
func ParseCSV(name string, file []byte) (*Chart, error) {
	if err := checkSize(file); err != nil {
		return nil, err
	}
	file = withoutMark(file)
	p := csvReader{seats: map[string]int{}, places: map[[3]string]int{}, sections: map[string]int{}, rows: map[[2]string]int{}, tiers: map[string]bool{}}
	p.comma = delimiter(file)
	r := csv.NewReader(bytes.NewReader(file))
	r.Comma, r.FieldsPerRecord, r.ReuseRecord = p.comma, -1, true
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, csvFault(err)
		}
		// Rows that only hold separators are how spreadsheets end a file.
		if strings.TrimSpace(strings.Join(record, "")) == "" {
			continue
		}
		// No cell that is accepted spans lines, so that lines count rows.
		n, _ := r.FieldPos(0)
		if err := p.record(n, record); err != nil {
			return nil, err
		}
		if len(p.seats) > SeatsMax {
			return nil, refuse("the file has more than %d seats", SeatsMax)
		}
	}
	if len(p.numbers) == 0 {
		return nil, refuse("the file has no seats: 0 rows after the header")
	}
	p.doc.Name = name
	return newChart(&p.doc, words{tier: "tier", seat: func(_ *document, s, r, i int) string {
		return fmt.Sprintf("row %d", p.numbers[[3]int{s, r, i}])
	}})
}

// csvReader collects the rows of one file.
type csvReader struct {
	comma   rune
	columns []int // index of each of csvColumns in a record, -1 when left out
	width   int

	doc      document
	sections map[string]int
	rows     map[[2]string]int
	tiers    map[string]bool
	seats    map[string]int    // seat id -> row number
	places   map[[3]string]int // section, row, number -> row number
	numbers  map[[3]int]int    // indexes in the document -> row number
}

func (p *csvReader) record(n int, record []string) error {
	for _, cell := range record {
		if at := firstInvalid([]byte(cell)); at >= 0 {
			return refuse("not UTF-8, row %d: save the file as UTF-8", n)
		}
	}
	if p.columns == nil {
		p.numbers, p.width = map[[3]int]int{}, len(record)
		return p.header(record)
	}
	if len(record) != p.width {
		return refuse("row %d has %d cells where the header has %d", n, len(record), p.width)
	}
	cell := func(column int) string {
		if i := p.columns[column]; i >= 0 {
			return record[i]
		}
		return ""
	}
	seat, err := p.seat(n, cell)
	if err != nil {
		return err
	}
	p.add(n, strings.TrimSpace(cell(1)), strings.TrimSpace(cell(2)), seat)
	return nil
}

// header finds the columns. An unknown or missing one is named: a misspelt
// column must not be lost.
func (p *csvReader) header(record []string) error {
	p.columns = make([]int, len(csvColumns))
	for i := range p.columns {
		p.columns[i] = -1
	}
	for i, cell := range record {
		name := strings.ToLower(strings.TrimSpace(cell))
		column := -1
		for j, known := range csvColumns {
			if name == known {
				column = j
			}
		}
		switch {
		case column < 0:
			return refuse("the header has an unknown column %s; the columns are: %s", quote(cell), strings.Join(csvColumns, ", "))
		case p.columns[column] >= 0:
			return refuse("the header has the column %q twice", csvColumns[column])
		}
		p.columns[column] = i
	}
	for j, known := range csvColumns[:len(csvColumns)-csvOptional] {
		if p.columns[j] < 0 {
			return refuse("the header lacks the column %q; the columns are: %s", known, strings.Join(csvColumns, ", "))
		}
	}
	return nil
}

// seat reads the cells of one row. Seat ids are kept byte for byte, other text
// loses the spaces around it.
func (p *csvReader) seat(n int, cell func(column int) string) (Seat, error) {
	s := Seat{ID: usher.SeatID(cell(0)), Label: strings.TrimSpace(cell(3)), Tier: usher.TierID(strings.TrimSpace(cell(4)))}
	for _, must := range []int{0, 1, 2, 3, 4} {
		if strings.TrimSpace(cell(must)) == "" {
			return s, refuse("row %d: %s is empty", n, csvColumns[must])
		}
	}
	if first, twice := p.seats[string(s.ID)]; twice {
		return s, refuse("row %d: the seat_id %s is in row %d already", n, quote(string(s.ID)), first)
	}
	p.seats[string(s.ID)] = n
	place := [3]string{strings.TrimSpace(cell(1)), strings.TrimSpace(cell(2)), s.Label}
	if first, twice := p.places[place]; twice {
		return s, refuse("row %d: section %s, row %s, number %s is in row %d already", n, quote(place[0]), quote(place[1]), quote(place[2]), first)
	}
	p.places[place] = n
	for _, what := range []int{1, 2} {
		if err := usher.CheckText(csvColumns[what], place[what-1], nameMax*4); err != nil {
			return s, refuse("row %d: %s", n, reason(err))
		}
	}
	var ok [4]bool
	s.X, ok[0] = p.number(cell(5))
	s.Y, ok[1] = p.number(cell(6))
	s.Accessible, ok[2] = yes(cell(7))
	s.Companion, ok[3] = yes(cell(8))
	for i := range ok {
		if !ok[i] {
			return s, refuse("row %d: %s is not a %s: %s", n, csvColumns[5+i], map[bool]string{true: "number", false: "yes or no"}[i < 2], quote(cell(5+i)))
		}
	}
	return s, nil
}

// add puts a seat into its section and row, which come into being in the order
// in which the file first names them.
func (p *csvReader) add(n int, sectionName, rowLabel string, s Seat) {
	if !p.tiers[string(s.Tier)] {
		p.tiers[string(s.Tier)] = true
		p.doc.Tiers = append(p.doc.Tiers, Tier{ID: s.Tier, Name: string(s.Tier)})
	}
	si, ok := p.sections[sectionName]
	if !ok {
		si = len(p.doc.Sections)
		p.sections[sectionName] = si
		p.doc.Sections = append(p.doc.Sections, section{Name: sectionName})
	}
	sec := &p.doc.Sections[si]
	ri, ok := p.rows[[2]string{sectionName, rowLabel}]
	if !ok {
		ri = len(sec.Rows)
		p.rows[[2]string{sectionName, rowLabel}] = ri
		sec.Rows = append(sec.Rows, row{Label: rowLabel})
	}
	p.numbers[[3]int{si, ri, len(sec.Rows[ri].Seats)}] = n
	sec.Rows[ri].Seats = append(sec.Rows[ri].Seats, s)
}

// number reads a decimal number. Where the comma does not separate cells it may
// be the decimal comma.
func (p *csvReader) number(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	if p.comma != ',' && strings.Count(s, ",") == 1 && !strings.Contains(s, ".") {
		s = strings.Replace(s, ",", ".", 1)
	}
	if strings.Trim(s, "+-.0123456789eE") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && !math.IsInf(v, 0)
}

// yes reads a flag.
func yes(s string) (value, ok bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "", "0", "no", "false", "n":
		return false, true
	case "1", "yes", "true", "y", "x":
		return true, true
	}
	return false, false
}

// delimiter returns the separator that the header line uses most.
func delimiter(file []byte) rune {
	header, _, _ := bytes.Cut(file, []byte{'\n'})
	best, most := ',', 0
	for _, c := range []rune{',', ';', '\t'} {
		if n := bytes.Count(header, []byte(string(c))); n > most {
			best, most = c, n
		}
	}
	return best
}

// csvFault words a reader's error with the row it stands in.
func csvFault(err error) error {
	var pe *csv.ParseError
	if errors.As(err, &pe) {
		return refuse("row %d: %s", pe.StartLine, pe.Err.Error())
	}
	return refuse("the file cannot be read: %s", err.Error())
}
