package web_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"usher"
	"usher/internal/catalog"
	"usher/internal/web"
)

// nasty is a name with markup in it.
const nasty = `<script>alert("1")</script><img src=x onerror=alert(2)> & "Q"`

type fakeCatalog struct {
	web.Catalog
	queued  bool
	created []catalog.NewEvent
	// tiers are those of the event instead of one seated tier.
	tiers []catalog.Tier
	// standing is what SetStanding was called with; draft makes the event one.
	standing []catalog.Standing
	draft    bool
	// chart is the address of the event's chart, "" without one.
	chart string
	// status is the event's instead of published.
	status catalog.Status
}

func (f *fakeCatalog) SetStanding(_ context.Context, _ usher.EventID, tiers []catalog.Standing) (catalog.Event, error) {
	f.standing = tiers
	return f.event(), nil
}

func (f *fakeCatalog) event() catalog.Event {
	published := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	rules := usher.DefaultRules("TWD")
	rules.AdmissionRequired = f.queued
	tiers := f.tiers
	if tiers == nil {
		tiers = []catalog.Tier{{ID: "floor", Name: nasty, Kind: catalog.TierSeated, Price: usher.Money{AmountMinor: 120000, Currency: "TWD"}}}
	}
	e := catalog.Event{
		ID: event, Slug: "nasty", Name: nasty, Venue: nasty, StartsAt: published.AddDate(0, 1, 0), TimeZone: "Asia/Taipei", Currency: "TWD",
		Rules: rules, Status: catalog.StatusPublished, PublishedAt: &published, CreatedAt: published,
		Tiers: tiers, Chart: f.chart,
	}
	if f.status != "" {
		e.Status = f.status
	}
	if f.draft {
		e.Status, e.PublishedAt = catalog.StatusDraft, nil
	}
	return e
}

func (f *fakeCatalog) Get(_ context.Context, id usher.EventID) (catalog.Event, error) {
	if id != event {
		return catalog.Event{}, usher.Errorf(usher.CodeNotFound, "no such event")
	}
	return f.event(), nil
}

func (f *fakeCatalog) List(context.Context, bool) ([]catalog.Event, error) {
	return []catalog.Event{f.event()}, nil
}

func (f *fakeCatalog) Create(_ context.Context, n catalog.NewEvent) (catalog.Event, error) {
	f.created = append(f.created, n)
	return f.event(), nil
}

func (f *fakeCatalog) Pause(context.Context, usher.EventID) error { return nil }

// The waiting page is one small file, the same for everybody, that runs no
// script but its own.
func TestWaitingPage(t *testing.T) {
	w := newWorld(t)
	a := w.do(t, "GET", "/events/evt_7/queue", "", "", "Cookie", "usher_session="+aliceToken, "Accept-Language", "zh-TW")
	b := w.do(t, "GET", "/events/evt_9/queue?lang=en", "", "")
	if a.status != 200 || a.body != b.body {
		t.Error("the page differs from event to event")
	}
	if len(a.body) > 30<<10 {
		t.Errorf("the page has %d bytes", len(a.body))
	}
	if a.header.Get("Set-Cookie") != "" || !strings.HasPrefix(a.header.Get("Cache-Control"), "public") {
		t.Errorf("headers %v", a.header)
	}
	for _, from := range []string{" src=", "@import", "url(", "http://", "https://", "onclick", "innerHTML", "style=\""} {
		if strings.Contains(a.body, from) {
			t.Errorf("the page has %q", from)
		}
	}
	if c := w.do(t, "GET", "/events/evt_7/queue", "", "", "If-None-Match", a.header.Get("Etag")); c.status != 304 {
		t.Errorf("known page: %d", c.status)
	}
}

func TestStaticFiles(t *testing.T) {
	w := newWorld(t)
	page := w.do(t, "GET", "/sign-in", "", "")
	_, rest, ok := strings.Cut(page.body, `src="/static/`)
	name, _, _ := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("the page has no script: %s", page.body)
	}
	a := w.do(t, "GET", "/static/"+name, "", "")
	if a.status != 200 || !strings.Contains(a.header.Get("Cache-Control"), "immutable") || !strings.HasPrefix(a.header.Get("Content-Type"), "text/javascript") {
		t.Errorf("named by its version: %d %v", a.status, a.header)
	}
	if a := w.do(t, "GET", "/static/signin.js", "", ""); strings.Contains(a.header.Get("Cache-Control"), "immutable") {
		t.Error("a file without its version is kept for ever")
	}
	if a := w.do(t, "GET", "/static/nothing.js", "", ""); a.status != 404 {
		t.Errorf("no such file: %d", a.status)
	}
}

// A page that says that there is nothing has a heading that says so, in both languages.
func TestErrorPagesSaySo(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/nothing", "/events/evt_999", "/events/none", "/events/evt_999/seats", "/pay/none"} {
		for l, heading := range map[string]string{"en": "Page not found", "zh-Hant": "找不到這個頁面"} {
			a := w.do(t, "GET", path+"?lang="+l, "", "", "Accept", "text/html")
			if a.status < 400 || a.status > 499 || !strings.Contains(a.body, "<h1><bdi>"+heading+"</bdi></h1>") || !strings.Contains(a.body, `href="/?lang=`+l+`"`) {
				t.Errorf("%s in %s: %d %s", path, l, a.status, a.body)
			}
		}
	}
}

func TestLanguages(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct{ query, accept, want string }{
		{"", "", "en"}, {"", "en-GB", "en"}, {"", "zh-TW,en;q=0.5", "zh-Hant"}, {"", "zh-CN", "zh-Hant"}, {"", "zh", "zh-Hant"},
		{"", "fr, zh-TW;q=0.5", "zh-Hant"}, {"", "de", "en"}, {"?lang=zh-Hant", "en", "zh-Hant"}, {"?lang=en", "zh-TW", "en"},
		{"?lang=%3Cscript%3E", "", "en"}, {"", "*", "en"}, {"", ";;;", "en"},
	} {
		a := w.do(t, "GET", "/sign-in"+tc.query, "", "", "Accept-Language", tc.accept)
		if a.header.Get("Content-Language") != tc.want || !strings.Contains(a.body, `<html lang="`+tc.want+`">`) {
			t.Errorf("%q with %q speaks %q, want %s", tc.query, tc.accept, a.header.Get("Content-Language"), tc.want)
		}
	}
}

// A language that was chosen stays chosen where a page is come back to without it.
func TestChosenLanguageStays(t *testing.T) {
	w := newWorld(t)
	a := w.do(t, "GET", "/sign-in?lang=zh-Hant", "", "", "Accept-Language", "en")
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	if cookie != "usher_lang=zh-Hant" {
		t.Fatalf("cookie %q", cookie)
	}
	for query, want := range map[string]string{"": "zh-Hant", "?lang=en": "en"} {
		if a := w.do(t, "GET", "/sign-in"+query, "", "", "Accept-Language", "en", "Cookie", cookie); a.header.Get("Content-Language") != want {
			t.Errorf("%q after it speaks %q, want %s", query, a.header.Get("Content-Language"), want)
		}
	}
	if a := w.do(t, "GET", "/sign-in", "", "", "Cookie", "usher_lang=<script>"); a.header.Get("Content-Language") != "en" {
		t.Errorf("junk in the cookie speaks %q", a.header.Get("Content-Language"))
	}
}

// Amounts look the same on every page: thousands set apart, decimals where they say
// something, by each currency's own digits.
func TestAmountsOnPages(t *testing.T) {
	for _, tc := range []struct {
		price usher.Money
		want  string
	}{
		{usher.Money{AmountMinor: 680000, Currency: "TWD"}, ">TWD 6,800<"}, {usher.Money{AmountMinor: 0, Currency: "TWD"}, ">TWD 0<"},
		{usher.Money{AmountMinor: 123456789, Currency: "EUR"}, ">EUR 1,234,567.89<"}, {usher.Money{AmountMinor: 5, Currency: "EUR"}, ">EUR 0.05<"},
		{usher.Money{AmountMinor: 5000, Currency: "JPY"}, ">JPY 5,000<"}, {usher.Money{AmountMinor: 1250, Currency: "KWD"}, ">KWD 1.250<"},
	} {
		w := newWorld(t)
		w.catalog.tiers = []catalog.Tier{{ID: "floor", Name: "Floor", Kind: catalog.TierSeated, Price: tc.price}}
		if a := w.do(t, "GET", "/events/evt_7", "", ""); !strings.Contains(a.body, tc.want) {
			t.Errorf("%s is not shown as %s", tc.price, tc.want)
		}
	}
}

func TestPagesForNothing(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/nothing", "/events/evt_99", "/events/evt_99/seats", "/events/x", "/orders/x", "/pay/x"} {
		a := w.do(t, "GET", path, "", "", "Accept", "text/html")
		if a.status != 404 && a.status != 400 || !strings.Contains(a.header.Get("Content-Type"), "text/html") {
			t.Errorf("%s answers %d %s", path, a.status, a.header.Get("Content-Type"))
		}
	}
	if a := w.do(t, "GET", "/nothing", "", ""); a.code() != usher.CodeNotFound {
		t.Errorf("a program gets %d %s", a.status, a.body)
	}
}

// P95: names with markup are text on every page, and never code in its data.
func TestNamesAreText(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/", "/events/evt_7", "/events/evt_7/seats"} {
		for _, l := range []string{"en", "zh-Hant"} {
			a := w.do(t, "GET", path+"?lang="+l, "", "")
			if a.status != 200 || !strings.Contains(a.body, "&lt;script&gt;") {
				t.Errorf("%s answers %d without the name", path, a.status)
			}
			for _, markup := range []string{"<script>alert", "<img src=x", `</script><img`} {
				if strings.Contains(a.body, markup) {
					t.Errorf("%s in %s has %q", path, l, markup)
				}
			}
			if !strings.Contains(a.body, "Asia/Taipei") && path == "/events/evt_7" {
				t.Error("the event's zone is not named")
			}
		}
	}
	a := w.do(t, "GET", "/v1/events/evt_7", "", "")
	if a.status != 200 || !strings.Contains(a.header.Get("Cache-Control"), "public") || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("event: %d %v", a.status, a.header)
	}
}

func TestSaleThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.ledger.rules = func() (usher.Rules, error) {
		return usher.Rules{}, usher.Errorf(usher.CodeUnavailable, "shard is away")
	}
	if a := w.do(t, "GET", "/v1/events/evt_7", "", ""); a.status != 200 || !strings.Contains(a.body, `"sale":"unavailable"`) {
		t.Errorf("event: %d %s", a.status, a.body)
	}
	if a := w.do(t, "GET", "/events/evt_7?lang=en", "", ""); a.status != 200 || !strings.Contains(a.body, "Temporarily unavailable") {
		t.Errorf("page: %d %s", a.status, a.body)
	}
}
