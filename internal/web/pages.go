package web

import (
	"bytes"
	"cmp"
	"context"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"usher"
	"usher/internal/catalog"
)

// pagePolicy is the security policy of the pages: their own files and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// pages renders the pages of the shop.
type pages struct {
	templates *template.Template
	assets    assets
}

func newPages() *pages {
	a := loadAssets()
	t := template.New("").Funcs(template.FuncMap{"asset": a.url})
	return &pages{templates: template.Must(t.ParseFS(files, "templates/*.html")), assets: a}
}

// view is what every page gets.
type view struct {
	Lang, OtherLang lang
	// OtherLangURL is this page in the other language.
	OtherLangURL string
	Title        string
	// Path is where signing in leads back to.
	Path     string
	SignedIn bool
	// Wide is for pages that use a desktop's width.
	Wide bool
	// Staff is for pages of operators and stewards: they show nothing of a buyer's sign-in.
	Staff bool
	// Policy is the page's own security policy, where it needs another one.
	Policy string
	// Script is the page's own script; Data is what it reads.
	Script string
	Data   map[string]any

	Message string
	// RuleLimit and RuleHold word the event's rules.
	RuleLimit, RuleHold string
	Events              []eventLine
	Event               *eventLine
	Problems            []Problem
}

// T returns a text of the page's language.
func (v view) T(key string) string { return texts[v.Lang][key] }

// Tn returns the text for a number of things.
func (v view) Tn(key string, n int) string {
	form := ".other"
	if v.Lang == english && n == 1 {
		form = ".one"
	}
	return fill(v.T(key+form), "n", strconv.Itoa(n))
}

// eventLine is an event as pages show it, with times in the event's own zone.
type eventLine struct {
	ID                string
	Name, Venue       string
	StartsAt, OpensAt string
	// ClosesAt is when the sale closes by itself; "" where it does not.
	ClosesAt string
	Sale     saleStatus
	// From is the lowest price, "" where there are no tiers.
	From   string
	Queued bool
	// Seated is whether there are seats to choose.
	Seated bool
	Tiers  []tierLine
	// Limit is the most places an account may have; Hold is how long they are held.
	Limit int
	Hold  time.Duration
}

// Tone is the colour of the word for the sale.
func (e eventLine) Tone() string {
	switch e.Sale {
	case saleStatus(usher.SaleOpen):
		return "good"
	case saleStatus(usher.SalePaused), saleUnavailable:
		return "warn"
	case saleStatus(usher.SaleCancelled):
		return "bad"
	}
	return ""
}

// tierLine is a tier as pages show it. Stock is "" where nothing is known.
type tierLine struct {
	Name, Price string
	Stock       usher.Stock
}

// newView begins a page in the reader's language.
func (s *Server) newView(r *http.Request, title, script string) view {
	l := langOf(r)
	v := view{Lang: l, OtherLang: chinese, Path: r.URL.Path, Script: script}
	if l == chinese {
		v.OtherLang = english
	}
	query := r.URL.Query()
	query.Set("lang", string(v.OtherLang))
	v.OtherLangURL = "?" + query.Encode()
	if v.Title = texts[l][title]; v.Title == "" {
		v.Title = title
	}
	_, err := s.session(r)
	v.SignedIn = err == nil
	v.Data = map[string]any{
		"lang": l, "texts": textsFor(l, script), "digits": usher.Currencies, "cardPage": s.cfg.CardPage, "signedIn": v.SignedIn,
		// The moment of the page, for countdowns until an answer brings the database's.
		"serverTime": time.Now().UTC(),
	}
	return v
}

// langKept is how many seconds a chosen language is kept: a year.
const langKept = 365 * 24 * 3600

// show renders a page as a whole before any of it is sent.
func (s *Server) show(w http.ResponseWriter, r *http.Request, status int, name string, v view) {
	var body bytes.Buffer
	if err := s.pages.templates.ExecuteTemplate(&body, name, v); err != nil {
		s.fail(w, r, err)
		return
	}
	h := w.Header()
	if r.URL.Query().Get("lang") != "" {
		http.SetCookie(w, &http.Cookie{Name: langCookieName, Value: string(v.Lang), Path: "/", MaxAge: langKept, SameSite: http.SameSiteLaxMode})
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", cmp.Or(v.Policy, pagePolicy))
	h.Set("Content-Language", string(v.Lang))
	h.Set("Vary", "Accept-Language, Cookie")
	w.WriteHeader(status)
	// A reader that went away is no failure of ours.
	_, _ = w.Write(body.Bytes())
}

// showError is the page for a failure: what it is, without anything of ours.
func (s *Server) showError(w http.ResponseWriter, r *http.Request, err error) {
	p := s.report(r.Context(), err)
	v := s.newView(r, "notNow", "plain.js")
	v.Message = v.T("unavailable")
	if p.Status < http.StatusInternalServerError {
		v.Title, v.Message = v.T("notFound"), v.T("pageGone")
	}
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	s.show(w, r, p.Status, "message.html", v)
}

// notFound answers what no route answers: a page to a browser, a problem to a
// program.
func (s *Server) notFound(w http.ResponseWriter, r *http.Request, err error) {
	api := strings.HasPrefix(r.URL.Path, "/v1/")
	if !api && strings.Contains(r.Header.Get("Accept"), "text/html") && usher.CodeOf(err) == usher.CodeNotFound {
		s.showError(w, r, err)
		return
	}
	s.fail(w, r, err)
}

func (s *Server) addPages(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", s.homePage)
	mux.HandleFunc("GET /sign-in", s.signInPage)
	mux.HandleFunc("GET /problems", s.problemsPage)
	mux.HandleFunc("GET /events/{eventId}", s.eventPage("event.html", "event.js"))
	mux.HandleFunc("GET /events/{eventId}/seats", s.eventPage("seats.html", "seats.js"))
	mux.HandleFunc("GET /events/{eventId}/queue", s.pages.assets.waitingPage())
	mux.HandleFunc("GET /pay/{holdId}", s.payPage)
	mux.HandleFunc("GET /orders", s.ordersPage)
	mux.HandleFunc("GET /orders/{orderId}", s.orderPage)
	s.addStaffPages(mux)
	mux.HandleFunc("GET /static/{name}", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := s.pages.assets[r.PathValue("name")]; !ok {
			s.fail(w, r, usher.Errorf(usher.CodeNotFound, "no such file"))
			return
		}
		s.pages.assets.serve(w, r)
	})
}

func (s *Server) homePage(w http.ResponseWriter, r *http.Request) {
	v := s.newView(r, "events", "plain.js")
	v.Wide = true
	var err error
	if v.Events, err = s.eventLines(r.Context(), v.Lang); err != nil {
		s.showError(w, r, err)
		return
	}
	s.show(w, r, http.StatusOK, "home.html", v)
}

func (s *Server) signInPage(w http.ResponseWriter, r *http.Request) {
	s.show(w, r, http.StatusOK, "app.html", s.newView(r, "signIn", "signin.js"))
}

func (s *Server) problemsPage(w http.ResponseWriter, r *http.Request) {
	v := s.newView(r, "problems", "plain.js")
	for _, code := range usher.Codes {
		v.Problems = append(v.Problems, *problemOf(&usher.Error{Code: code}))
	}
	s.show(w, r, http.StatusOK, "problems.html", v)
}

// eventPage shows an event, or what is chosen within it.
func (s *Server) eventPage(name, script string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		event, err := usher.ParseEventID(r.PathValue("eventId"))
		if err != nil {
			s.showError(w, r, err)
			return
		}
		v := s.newView(r, "", script)
		line, data, err := s.eventLine(r.Context(), event, v.Lang)
		if err != nil {
			s.showError(w, r, err)
			return
		}
		v.Title, v.Event, v.Wide = line.Name, &line, name == "seats.html"
		maps.Copy(v.Data, data)
		v.RuleLimit = v.Tn("ruleLimit", line.Limit)
		if line.Hold%time.Minute == 0 {
			v.RuleHold = v.Tn("ruleHold", int(line.Hold/time.Minute))
		} else {
			v.RuleHold = v.Tn("ruleHoldSeconds", int(line.Hold/time.Second))
		}
		s.show(w, r, http.StatusOK, name, v)
	}
}

// payPage is where the provider's card page leads back to: its script checks out
// with the token. Opening the page by itself pays nothing.
func (s *Server) payPage(w http.ResponseWriter, r *http.Request) {
	var hold usher.HoldID
	if err := hold.UnmarshalText([]byte(r.PathValue("holdId"))); err != nil {
		s.showError(w, r, err)
		return
	}
	v := s.newView(r, "pay", "pay.js")
	v.Data["holdId"], v.Data["eventId"] = hold, hold.Event()
	s.show(w, r, http.StatusOK, "app.html", v)
}

// ordersPage lists what the reader holds and bought. The API keeps orders by event,
// so the page's script asks for each event that is shown.
func (s *Server) ordersPage(w http.ResponseWriter, r *http.Request) {
	v := s.newView(r, "yourOrders", "orders.js")
	if !v.SignedIn {
		toSignIn(w, r)
		return
	}
	events, err := s.deps.Catalog.List(r.Context(), false)
	if err != nil {
		s.showError(w, r, err)
		return
	}
	views := make([]eventView, 0, len(events))
	for _, e := range soonestFirst(events, time.Now()) {
		views = append(views, s.eventViewOf(r.Context(), e, s.look(r.Context(), e)))
	}
	v.Data["events"] = views
	s.show(w, r, http.StatusOK, "app.html", v)
}

// toSignIn sends a reader to the sign-in page, which leads back.
func toSignIn(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "/sign-in?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
}

// orderPage shows one order. Its script reads the order; the event is nice to have,
// and the order shows without it.
func (s *Server) orderPage(w http.ResponseWriter, r *http.Request) {
	var order usher.OrderID
	if err := order.UnmarshalText([]byte(r.PathValue("orderId"))); err != nil {
		s.showError(w, r, err)
		return
	}
	if _, err := s.session(r); usher.CodeOf(err) == usher.CodeUnauthenticated {
		toSignIn(w, r)
		return
	}
	v := s.newView(r, "order", "order.js")
	v.Data["orderId"] = order
	if e, err := s.publicEvent(r.Context(), order.Event()); err == nil {
		v.Data["event"] = s.eventViewOf(r.Context(), e, s.look(r.Context(), e))
	}
	s.show(w, r, http.StatusOK, "app.html", v)
}

// showTime words a time in an event's zone, and names the zone: a reader
// elsewhere must not take it for local time.
func showTime(t *time.Time, zone *time.Location, l lang) string {
	if t == nil {
		return ""
	}
	format := "Mon, 2 Jan 2006, 15:04"
	if l == chinese {
		format = "2006年1月2日 15:04"
	}
	return t.In(zone).Format(format) + " (" + zone.String() + ")"
}

// showMoney words an amount as the pages' script does: thousands set apart, whole
// amounts without decimals.
func showMoney(m usher.Money) string {
	currency, amount, _ := strings.Cut(m.String(), " ")
	whole, rest, _ := strings.Cut(amount, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if strings.Trim(rest, "0") != "" {
		whole += "." + rest
	}
	return currency + " " + whole
}

// eventLines are the events for the home page.
func (s *Server) eventLines(ctx context.Context, l lang) ([]eventLine, error) {
	events, err := s.deps.Catalog.List(ctx, false)
	if err != nil {
		return nil, err
	}
	lines := make([]eventLine, 0, len(events))
	for _, e := range soonestFirst(events, time.Now()) {
		lines = append(lines, s.lineOf(ctx, e, l))
	}
	return lines, nil
}

// soonestFirst returns events in the order in which people look for them: what comes
// next, then what has begun, the latest first.
func soonestFirst(events []catalog.Event, now time.Time) []catalog.Event {
	return slices.SortedStableFunc(slices.Values(events), func(a, b catalog.Event) int {
		begunA, begunB := !a.StartsAt.After(now), !b.StartsAt.After(now)
		switch {
		case begunA != begunB && begunA:
			return 1
		case begunA != begunB:
			return -1
		case begunA:
			return b.StartsAt.Compare(a.StartsAt)
		}
		return a.StartsAt.Compare(b.StartsAt)
	})
}

// eventLine is one event for its pages, and what their scripts need of it.
func (s *Server) eventLine(ctx context.Context, id usher.EventID, l lang) (eventLine, map[string]any, error) {
	e, err := s.publicEvent(ctx, id)
	if err != nil {
		return eventLine{}, nil, err
	}
	now := s.look(ctx, e)
	data := map[string]any{
		"eventId": e.ID, "queued": e.Rules.AdmissionRequired, "seated": e.Seated(), "chart": e.Chart,
		"tiers": tierViews(e, now), "event": s.eventViewOf(ctx, e, now),
	}
	return s.lineOf(ctx, e, l), data, nil
}

func (s *Server) lineOf(ctx context.Context, e catalog.Event, l lang) eventLine {
	zone, err := catalog.LoadZone(e.TimeZone)
	if err != nil {
		// Checked when the event was made; an older zone table must not hide it.
		zone = time.UTC
	}
	now := s.look(ctx, e)
	line := eventLine{
		ID: e.ID.String(), Name: e.Name, Venue: e.Venue, StartsAt: showTime(&e.StartsAt, zone, l), OpensAt: showTime(e.OpensAt, zone, l),
		ClosesAt: showTime(now.rules.SaleClosesAt, zone, l),
		Queued:   e.Rules.AdmissionRequired, Seated: e.Seated(), Limit: now.rules.PurchaseLimit, Hold: now.rules.HoldTime, Sale: now.sale,
	}
	for _, t := range e.Tiers {
		line.Tiers = append(line.Tiers, tierLine{Name: t.Name, Price: showMoney(t.Price), Stock: now.stock(t.ID)})
	}
	if len(e.Tiers) > 0 {
		line.From = showMoney(slices.MinFunc(e.Tiers, func(a, b catalog.Tier) int { return cmp.Compare(a.Price.AmountMinor, b.Price.AmountMinor) }).Price)
	}
	return line
}
