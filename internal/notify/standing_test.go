package notify_test

import (
	"strings"
	"testing"

	"usher/internal/ledger"
)

// A mail for seats and standing places counts the places of each tier, and names
// no seat where there is none.
func TestStandingPlacesInMail(t *testing.T) {
	for _, tc := range []struct{ locale, places, seat string }{{"en", "Places: ", "Seat"}, {"zh-Hant", "張數: ", "座位"}} {
		t.Run(tc.locale, func(t *testing.T) {
			c := catcher(t)
			o := newOffice(t, c.SMTPAddr())
			order, account := o.buyer("kim@example.com", 3)
			o.people.contact[account] = [3]string{"kim@example.com", "Kim", tc.locale}
			for i := range o.people.tickets[order][1:] {
				x := &o.people.tickets[order][i+1]
				x.Seat, x.Tier = "", "Standing floor 站席"
			}
			o.handle(t, entry(ledger.EntryOrderCaptured, order, account))
			o.run(t, order)
			d := caught(t, c, "kim@example.com")[0]
			for _, want := range []string{tc.places + "1 × \u2068Gold\u2069", tc.places + "2 × \u2068Standing floor 站席\u2069"} {
				if !strings.Contains(d.Text, want) {
					t.Errorf("text lacks %q: %s", want, d.Text)
				}
			}
			if !strings.Contains(d.HTML, "<div>2 × <bdi>Standing floor 站席</bdi></div>") {
				t.Errorf("HTML lacks the count: %s", d.HTML)
			}
			if seats := strings.Count(d.Text, tc.seat+": "); seats != 1 || len(d.FileList) != 3 {
				t.Errorf("%d seats are named, %d pictures: %s", seats, len(d.FileList), d.Text)
			}
		})
	}
}
