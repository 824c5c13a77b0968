package seatmap_test

import (
	"fmt"
	"strings"
	"testing"

	"usher/internal/seatmap"
)

// plainCSV is a chart file of n rows of seats.
func plainCSV(n int) string {
	var b strings.Builder
	b.WriteString("seat_id,section,row,number,tier,x,y\n")
	for i := range n {
		fmt.Fprintf(&b, "%05d,甲區,%c,%d,VIP,%d.5,%d\n", i+1, 'A'+i/10, i%10+1, i%10*10, i/10*12)
	}
	return b.String()
}

// The same 20 rows, however a spreadsheet saved them, are the same chart.
func TestCSVVariants(t *testing.T) {
	plain := plainCSV(20)
	want := mustParse(t, "Hall", plain)
	if want.Len() != 20 || want.Seat(0).ID != "00001" || want.Name() != "Hall" {
		t.Fatalf("read %d seats, first %+v", want.Len(), want.Seat(0))
	}
	quoted := strings.ReplaceAll(strings.ReplaceAll(plain, ",", `","`), "\n", "\"\n\"")
	for name, file := range map[string]string{
		"byte order mark":       "\xef\xbb\xbf" + plain,
		"CRLF":                  strings.ReplaceAll(plain, "\n", "\r\n"),
		"semicolons":            strings.ReplaceAll(plain, ",", ";"),
		"tabs":                  strings.ReplaceAll(plain, ",", "\t"),
		"decimal commas":        strings.ReplaceAll(strings.ReplaceAll(plain, ",", ";"), ".5", ",5"),
		"quotes":                `"` + strings.TrimSuffix(quoted, "\""),
		"empty last lines":      plain + "\n\n",
		"separators at the end": plain + ",,,,,,\n",
		"no last line break":    strings.TrimSuffix(plain, "\n"),
		"capital header":        strings.Replace(plain, "seat_id,section", "Seat_ID, SECTION", 1),
		"mark, CRLF, tabs":      "\xef\xbb\xbf" + strings.NewReplacer("\n", "\r\n", ",", "\t").Replace(plain),
	} {
		t.Run(name, func(t *testing.T) {
			if got := mustParse(t, "Hall", file); got.Hash() != want.Hash() {
				t.Errorf("another chart:\n%s\nwant\n%s", got.Body(), want.Body())
			}
		})
	}
}

func TestCSVGroupsRows(t *testing.T) {
	c := mustParse(t, "n", "x,y,tier,number,row,section,seat_id,accessible,companion\n"+
		"1,1,a,1,1,S,s1,yes,\n2,1,b,1,1,T,t1,,no\n3,1,a,2,1,S,s2,0,X\n")
	var got []string
	for i, s := range c.Seats() {
		got = append(got, fmt.Sprintf("%s/%s/%s %v %v", c.RowOf(i).Section, s.ID, s.Tier, s.Accessible, s.Companion))
	}
	if want := "[S/s1/a true false S/s2/a false true T/t1/b false false]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestCSVKeepsQuotesInNames(t *testing.T) {
	c := mustParse(t, "n", "seat_id,section,row,number,tier,x,y\n=1+1,\"Block \"\"A\"\"; left\",1,1,a,0,0\n")
	if c.RowOf(0).Section != `Block "A"; left` || c.Seat(0).ID != "=1+1" {
		t.Errorf("got %+v, %+v", c.RowOf(0), c.Seat(0))
	}
}

func TestCSVRefuses(t *testing.T) {
	plain := plainCSV(600)
	header := "seat_id,section,row,number,tier,x,y\n"
	// row 500 of the file, the header being row 1
	broken := strings.Replace(plain, "\n00499,甲區", "\n00499,甲\xff", 1)
	for _, c := range []struct {
		name, file string
		names      []string
	}{
		{"0 rows", header, []string{"0 rows"}},
		{"0 rows but separators", header + ",,,,,,\n\n", []string{"0 rows"}},
		{"broken byte in row 500", broken, []string{"not UTF-8, row 500"}},
		{"Big5", header + "1,\xa5\xd2\xb0\xcf,1,1,a,0,0\n", []string{"not UTF-8, row 2"}},
		{"UTF-16", "\xff\xfes\x00e\x00", []string{"not UTF-8, row 1"}},
		{"replacement character", header + "1,\ufffd,1,1,a,0,0\n", []string{"row 2", "not allowed"}},
		{"zero byte", header + "1\x002,S,1,1,a,0,0\n", []string{"row 2", "not allowed"}},
		{"line break in a name", header + "1,\"S\nT\",1,1,a,0,0\n", []string{"row 2", "section", "not allowed"}},
		{"missing column", "seat_id,section,row,number,tier,x\n1,S,1,1,a,0\n", []string{`"y"`}},
		{"unknown column", "seat_id,section,row,number,tier,x,y,acessible\n", []string{"acessible"}},
		{"column twice", "seat_id,section,row,number,tier,x,y,x\n", []string{`"x"`, "twice"}},
		{"short row", header + "1,S,1,1,a,0\n", []string{"row 2", "6 cells", "7"}},
		{"open quote", header + "1,\"S,1,1,a,0,0\n", []string{"row 2"}},
		{"empty cell", header + "1,S,,1,a,0,0\n", []string{"row 2", "row is empty"}},
		{"id twice", header + "1,S,1,1,a,0,0\n1,S,1,2,a,0,0\n", []string{"row 3", "row 2", "seat_id"}},
		{"place twice", header + "1,S,1,1,a,0,0\n2,S,1,1,a,0,0\n", []string{"row 3", "row 2", "number"}},
		{"not a number", header + "1,S,1,1,a,0x10,0\n", []string{"row 2", "x is not a number"}},
		{"NaN", header + "1,S,1,1,a,0,NaN\n", []string{"row 2", "y is not a number"}},
		{"infinite", header + "1,S,1,1,a,0,1e999\n", []string{"row 2", "y is not a number"}},
		{"thousands", strings.ReplaceAll(header, ",", ";") + "1;S;1;1;a;1.234,5;0\n", []string{"row 2", "x is not a number"}},
		{"far away", header + "1,S,1,1,a,0,1e8\n", []string{"row 2", "out of range"}},
		{"flag", "seat_id,section,row,number,tier,x,y,accessible\n1,S,1,1,a,0,0,maybe\n", []string{"row 2", "accessible", "maybe"}},
		{"no header", "1,S,1,1,a,0,0\n", []string{"unknown column", `"1"`}},
	} {
		t.Run(c.name, func(t *testing.T) { wantRefused(t, c.file, c.names...) })
	}
	if _, err := seatmap.Parse("", []byte(plain)); err == nil {
		t.Error("a chart without a name was accepted")
	}
}
