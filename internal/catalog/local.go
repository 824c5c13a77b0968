package catalog

import (
	"regexp"
	"strings"
	"time"
	// The zone database travels with the program: the same rules on every machine.
	_ "time/tzdata"

	"usher"
)

// localPattern is a date and a time of day, with or without an offset from UTC.
var localPattern = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(:\d{2})?(Z|[+-]\d{2}:\d{2})?$`)

const localLayout = "2006-01-02 15:04:05"

// LoadZone returns an IANA time zone, for example "Europe/Berlin" or "UTC". The
// machine's own zone has no name here. It fails with CodeInvalidRequest.
func LoadZone(name string) (*time.Location, error) {
	if name != "UTC" && !strings.Contains(name, "/") {
		return nil, usher.Errorf(usher.CodeInvalidRequest, "timeZone: %q is no time zone: name one like Europe/Berlin or Asia/Taipei", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, usher.Errorf(usher.CodeInvalidRequest, "timeZone: %q is no time zone: name one like Europe/Berlin or Asia/Taipei", name)
	}
	return zone, nil
}

// ParseLocal reads a time of day in a zone: "2026-03-29 02:30", with seconds if
// need be. A time that the zone skips is refused, and so is one that it has
// twice, unless an offset tells which one is meant ("2026-10-25 02:30+02:00").
// An offset must be one the zone has then; "Z" is always taken as UTC. what names
// the field in the message. It fails with CodeInvalidRequest.
func ParseLocal(what, text, zone string) (time.Time, error) {
	location, err := LoadZone(zone)
	if err != nil {
		return time.Time{}, err
	}
	m := localPattern.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return time.Time{}, usher.Errorf(usher.CodeInvalidRequest, "%s: %q is no local time: write it as 2026-03-29 14:30", what, text)
	}
	seconds := m[3]
	if seconds == "" {
		seconds = ":00"
	}
	// As if it were UTC: the reading of the clock on the wall.
	wall, err := time.Parse(localLayout, m[1]+" "+m[2]+seconds)
	if err != nil {
		return time.Time{}, usher.Errorf(usher.CodeInvalidRequest, "%s: %q is no day and time of the calendar", what, text)
	}
	if m[4] == "Z" {
		return wall.In(location), nil
	}
	instants := instantsOf(wall, location)
	switch {
	case len(instants) == 0:
		return time.Time{}, usher.Errorf(usher.CodeInvalidRequest,
			"%s: %s does not exist in %s: clocks are set forward over it", what, wall.Format("2006-01-02 15:04"), zone)
	case m[4] != "":
		for _, t := range instants {
			if t.Format("-07:00") == m[4] {
				return t, nil
			}
		}
		return time.Time{}, usher.Errorf(usher.CodeInvalidRequest,
			"%s: %s has the offset %s at that time, not %s", what, zone, instants[0].Format("-07:00"), m[4])
	case len(instants) > 1:
		return time.Time{}, usher.Errorf(usher.CodeInvalidRequest,
			"%s: %s happens twice in %s: add the offset, %s for the first or %s for the second", what, wall.Format("2006-01-02 15:04"), zone,
			instants[0].Format("-07:00"), instants[1].Format("-07:00"))
	}
	return instants[0], nil
}

// instantsOf returns every instant, earliest first, at which clocks in the zone
// show the wall time: none, one or two.
func instantsOf(wall time.Time, zone *time.Location) []time.Time {
	var out []time.Time
	for _, around := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		_, offset := wall.Add(around).In(zone).Zone()
		t := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		if t.Format(localLayout) == wall.Format(localLayout) && (len(out) == 0 || !out[0].Equal(t)) {
			out = append(out, t)
		}
	}
	return out
}
