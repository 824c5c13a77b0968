package bench

import (
	"slices"
	"testing"
	"time"
)

// What is held is never offered as free, comes back once, and what is sold never.
func TestPicker(t *testing.T) {
	p := newPicker(100, 2, 0, time.Hour, 1)
	taken := map[int]claim{}
	for range 50 {
		seats, c := p.pick()
		if _, again := taken[c.group]; again || c.group < 0 || len(seats) != 2 || seats[0] != benchSeat(2*c.group) {
			t.Fatalf("pick: %v %+v", seats, c)
		}
		taken[c.group] = c
		p.done(c, true)
	}
	if _, c := p.pick(); c.group != -1 {
		t.Fatalf("a full hall offers %+v", c)
	}
	p.sell(taken[7])
	p.free(taken[7]) // too late: it is sold
	p.free(taken[9])
	p.free(taken[9])
	if _, c := p.pick(); c.group != 9 || c.turn != 1 {
		t.Errorf("what came back is offered as %+v", c)
	}
	if _, c := p.pick(); c.group != -1 {
		t.Errorf("it came back twice: %+v", c)
	}
	p.lapse(time.Now().Add(2 * time.Hour))
	if got := len(p.hot) + len(p.cold); got != 48 || slices.Contains(p.hot, 7) {
		t.Errorf("%d groups are free after everything lapsed, group 7 among them: %v", got, slices.Contains(p.hot, 7))
	}
}

// Refused groups come back, and conflicts are as frequent as asked for.
func TestPickerConflicts(t *testing.T) {
	p := newPicker(10_000, 1, 0.5, time.Hour, 1)
	var conflicts, hot int
	for range 4000 {
		_, c := p.pick()
		switch {
		case c.group < 0:
			conflicts++
		case c.group < 2000:
			hot++
		}
		p.done(c, true)
	}
	if conflicts < 1800 || conflicts > 2200 || hot < 1400 {
		t.Errorf("%d conflicts of 4000, %d in the hot fifth", conflicts, hot)
	}
	free := len(p.hot) + len(p.cold)
	_, c := p.pick()
	for c.group < 0 {
		_, c = p.pick()
	}
	p.done(c, false)
	if len(p.hot)+len(p.cold) != free {
		t.Error("a refused group did not come back")
	}
}
