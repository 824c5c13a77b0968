package notify

import (
	"strings"
	"testing"
	"time"
)

func TestCatalogueIsComplete(t *testing.T) {
	en := catalogue["en"]
	for lang, words := range catalogue {
		if words["lang"] != lang {
			t.Errorf("%s calls itself %s", lang, words["lang"])
		}
		for key, text := range en {
			if words[key] == "" || strings.Count(words[key], "%s") != strings.Count(text, "%s") || strings.Count(words[key], "%d") != strings.Count(text, "%d") {
				t.Errorf("%s: %s is %q, in English %q", lang, key, words[key], text)
			}
		}
		if len(words) != len(en) {
			t.Errorf("%s has %d texts, English %d", lang, len(words), len(en))
		}
	}
}

// P90: the venue's clock, whatever the zone of the server, the ambiguous and the
// day-shifting hours included.
func TestEventTime(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, tt := range []struct{ instant, zone, lang, want string }{
		{"2026-10-03T11:30:00Z", "Asia/Taipei", "en", "Saturday, 3 October 2026, 19:30 (UTC+08:00 Asia/Taipei)"},
		{"2026-10-03T19:30:00+08:00", "Asia/Taipei", "zh-Hant", "2026年10月3日（星期六）19:30（UTC+08:00 Asia/Taipei）"},
		{"2026-10-03T17:00:00Z", "Asia/Taipei", "en", "Sunday, 4 October 2026, 01:00 (UTC+08:00 Asia/Taipei)"},
		{"2026-10-25T00:30:00Z", "Europe/Berlin", "en", "Sunday, 25 October 2026, 02:30 (UTC+02:00 Europe/Berlin)"},
		{"2026-10-25T01:30:00Z", "Europe/Berlin", "en", "Sunday, 25 October 2026, 02:30 (UTC+01:00 Europe/Berlin)"},
		{"2026-07-04T00:00:00Z", "America/St_Johns", "en", "Friday, 3 July 2026, 21:30 (UTC-02:30 America/St_Johns)"},
		{"2026-10-03T11:30:00Z", "UTC", "en", "Saturday, 3 October 2026, 11:30 (UTC)"},
		{"2026-10-03T11:30:00Z", "Nowhere/Land", "en", "Saturday, 3 October 2026, 11:30 (UTC)"},
		{"2026-10-03T11:30:00Z", "", "zh-Hant", "2026年10月3日（星期六）11:30（UTC）"},
		{"2026-10-03T11:30:00Z", "Local", "en", "Saturday, 3 October 2026, 11:30 (UTC)"},
		{"2026-10-03T11:30:00Z", "../etc/passwd", "en", "Saturday, 3 October 2026, 11:30 (UTC)"},
	} {
		if got := eventTime(at(tt.instant), tt.zone, tt.lang); got != tt.want {
			t.Errorf("eventTime(%s, %s, %s) = %q, want %q", tt.instant, tt.zone, tt.lang, got, tt.want)
		}
	}
}
