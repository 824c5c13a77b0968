package catalog_test

import (
	"strings"
	"testing"
	"time"

	"usher"
	"usher/internal/catalog"
)

func TestParseLocal(t *testing.T) {
	const berlin, taipei = "Europe/Berlin", "Asia/Taipei"
	for _, c := range []struct{ text, zone, want string }{
		{"2026-03-29 01:59", berlin, "2026-03-29T00:59:00Z"},
		{"2026-03-29 03:00", berlin, "2026-03-29T01:00:00Z"},
		{"2026-07-01T20:30", berlin, "2026-07-01T18:30:00Z"},
		{"2026-07-01 20:30:15", berlin, "2026-07-01T18:30:15Z"},
		{"2026-07-01T20:30+02:00", berlin, "2026-07-01T18:30:00Z"},
		{"2026-07-01T18:30Z", berlin, "2026-07-01T18:30:00Z"},
		{"2026-10-25 02:30+02:00", berlin, "2026-10-25T00:30:00Z"},
		{"2026-10-25 02:30+01:00", berlin, "2026-10-25T01:30:00Z"},
		{"2026-10-25 03:00", berlin, "2026-10-25T02:00:00Z"},
		{" 2026-12-31 23:59 ", taipei, "2026-12-31T15:59:00Z"},
		{"2026-12-31 23:59", "America/New_York", "2027-01-01T04:59:00Z"},
		{"2026-12-31 23:59", "UTC", "2026-12-31T23:59:00Z"},
		// Half an hour, on Lord Howe Island.
		{"2026-04-05 01:45+11:00", "Australia/Lord_Howe", "2026-04-04T14:45:00Z"},
	} {
		got, err := catalog.ParseLocal("startsAt", c.text, c.zone)
		if err != nil || got.UTC().Format(time.RFC3339) != c.want || got.Location().String() != c.zone {
			t.Errorf("%q in %s is %v (%v), want %s", c.text, c.zone, got, err, c.want)
		}
	}
	for _, c := range []struct{ text, zone, names string }{
		{"2026-03-29 02:30", berlin, "does not exist"},
		{"2026-03-29 02:30+01:00", berlin, "does not exist"},
		{"2026-10-25 02:30", berlin, "happens twice"},
		{"2026-04-05 01:45", "Australia/Lord_Howe", "+10:30"},
		{"2026-10-25 02:30+03:00", berlin, "+02:00"},
		{"2026-07-01 20:30+01:00", berlin, "+02:00"},
		// A whole day that Samoa skipped.
		{"2011-12-30 12:00", "Pacific/Apia", "does not exist"},
		{"2026-02-30 12:00", berlin, "calendar"},
		{"2026-01-01 24:00", berlin, "calendar"},
		{"tomorrow", berlin, "2026-03-29 14:30"},
		{"2026-01-01", berlin, "local time"},
		{"1767225600", berlin, "local time"},
		{"2026-01-01 12:00", "Berlin", "time zone"},
		{"2026-01-01 12:00", "", "time zone"},
		{"2026-01-01 12:00", "Local", "time zone"},
	} {
		got, err := catalog.ParseLocal("startsAt", c.text, c.zone)
		if usher.CodeOf(err) != usher.CodeInvalidRequest || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%q in %s is %v (%v), want a refusal that says %q", c.text, c.zone, got, err, c.names)
		}
	}
}

// The machine's zone plays no part.
func TestParseLocalIgnoresTheMachine(t *testing.T) {
	was := time.Local
	defer func() { time.Local = was }()
	for _, name := range []string{"UTC", "America/Los_Angeles"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		time.Local = zone
		got, err := catalog.ParseLocal("startsAt", "2026-06-01 12:00", "Asia/Taipei")
		if err != nil || got.UTC().Format(time.RFC3339) != "2026-06-01T04:00:00Z" {
			t.Errorf("with the machine in %s: %v, %v", name, got, err)
		}
	}
}

func FuzzParseLocal(f *testing.F) {
	f.Add("2026-03-29 02:30", "Europe/Berlin")
	f.Add("2026-10-25T02:30:01+02:00", "Pacific/Apia")
	f.Fuzz(func(t *testing.T, text, zone string) {
		got, err := catalog.ParseLocal("startsAt", text, zone)
		if err != nil {
			if usher.CodeOf(err) != usher.CodeInvalidRequest {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		// What it gives, with its offset, reads as the same instant.
		again, err := catalog.ParseLocal("startsAt", got.Format("2006-01-02T15:04:05-07:00"), zone)
		if _, offset := got.Zone(); offset%60 == 0 && (err != nil || !again.Equal(got)) {
			t.Fatalf("%v reads back as %v, %v", got, again, err)
		}
	})
}
