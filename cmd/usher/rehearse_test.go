package main

import (
	"strings"
	"testing"

	"usher/internal/sim/crowd"
)

// People read the outcomes in columns, by name, each event beside the sum.
func TestPrintRehearsal(t *testing.T) {
	var out strings.Builder
	err := printRehearsal(&out, &crowd.Report{
		Pass: true, People: 300, SoldSeated: 120, SoldStanding: 8, Outcomes: map[string]int{"went_in": 128, "gave_up": 172},
		Events: []crowd.EventReport{
			{Event: "evt_1", People: 290, SoldSeated: 120, Outcomes: map[string]int{"went_in": 120, "gave_up": 170}},
			{Event: "evt_12", People: 10, SoldStanding: 8, Outcomes: map[string]int{"went_in": 8, "gave_up": 2}},
		},
	})
	want := `
                 EVENT  evt_1  evt_12  all
                people    290      10  300
    seated places sold    120       0  120
  standing places sold      0       8    8
               gave up    170       2  172
               went in    120       8  128
`
	if _, table, _ := strings.Cut(out.String(), "on purpose 0\n"); err != nil || table != want || strings.Contains(out.String(), "map[") {
		t.Errorf("printed %s\nwant %s (%v)", out.String(), want, err)
	}
}
