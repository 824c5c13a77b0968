package paysim

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

//go:embed pages.html
var pagesSource string

var pages = template.Must(template.New("pages").Parse(pagesSource))

// The ways the card page hands its token over.
const (
	modeRedirect = "redirect" // the browser goes to the return URL with payment_method=...
	modePost     = "post"     // the browser posts payment_method to the return URL
	modeMessage  = "message"  // the page posts a message to the window that embeds it
)

// page is what the templates need. Nonce lets the page's own script run.
type page struct {
	Lang   string
	T      map[string]string
	Nonce  string
	Amount string
	// Of the card page.
	Mode, ReturnURL, Origin, Token, Problem string
	// CancelURL is where a buyer goes who pays with no card; "" offers no such way.
	CancelURL string
	// Minor and Currency are the amount as it came.
	Minor, Currency     string
	Number, Expiry, CVC string
	Cards               []testCard
	// Of the challenge page.
	Intent string
	Open   bool
	Done   string
}

// testCard is one row of the list of cards to try.
type testCard struct{ Number, Effect string }

// shownCards are the cards that the page offers, with the text that says what each does.
var shownCards = []struct{ number, text string }{
	{"4242424242424242", "cardApproved"},
	{"4000000000003220", "cardChallenge"},
	{"4000000000000002", "cardDeclined"},
	{"4000000000009995", "cardFunds"},
	{"4000008400001629", "cardChallengeDeclined"},
}

// newPage starts a page in the language that was asked for, or that the browser prefers.
func newPage(r *http.Request) page {
	lang := r.FormValue("lang")
	if lang == "" {
		lang, _, _ = strings.Cut(r.Header.Get("Accept-Language"), ",")
	}
	p := page{Lang: "en", T: textEnglish, Nonce: rand.Text()}
	if strings.HasPrefix(strings.ToLower(lang), "zh") {
		p.Lang, p.T = "zh-Hant", textChinese
	}
	for _, c := range shownCards {
		p.Cards = append(p.Cards, testCard{c.number, p.T[c.text]})
	}
	return p
}

// show renders a page. Only its own script and style run in it.
func (p page) show(w http.ResponseWriter, status int, name string) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, p); err != nil {
		http.Error(w, "page failed", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'nonce-"+p.Nonce+"'; style-src 'nonce-"+p.Nonce+"'; base-uri 'none'")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// readCardRequest takes what both card handlers need; ok is false after it answered.
func readCardRequest(w http.ResponseWriter, r *http.Request) (p page, back *url.URL, ok bool) {
	r.Body = http.MaxBytesReader(w, r.Body, bodyMax)
	p = newPage(r)
	p.Mode, p.ReturnURL = r.FormValue("mode"), r.FormValue("return_url")
	if p.Mode == "" {
		p.Mode = modeRedirect
	}
	back, err := url.Parse(p.ReturnURL)
	if err != nil || back.Scheme != "http" && back.Scheme != "https" || back.Host == "" {
		http.Error(w, "return_url must be an absolute http or https address", http.StatusBadRequest)
		return p, nil, false
	}
	if p.Mode != modeRedirect && p.Mode != modePost && p.Mode != modeMessage {
		http.Error(w, "mode is redirect, post or message", http.StatusBadRequest)
		return p, nil, false
	}
	p.Origin = back.Scheme + "://" + back.Host
	if amount, err := strconv.ParseInt(r.FormValue("amount"), 10, 64); err == nil {
		p.Minor, p.Currency = r.FormValue("amount"), r.FormValue("currency")
		p.Amount = showAmount(amount, p.Currency)
	}
	if cancel := r.FormValue("cancel_url"); strings.HasPrefix(cancel, p.Origin+"/") {
		p.CancelURL = cancel
	}
	return p, back, true
}

// showCard serves the form that a buyer types a test card into.
func (s *server) showCard(w http.ResponseWriter, r *http.Request) {
	if p, _, ok := readCardRequest(w, r); ok {
		p.show(w, http.StatusOK, "card")
	}
}

// takeCard turns a typed card into a token and hands it back. The number is
// neither stored nor logged.
func (s *server) takeCard(w http.ResponseWriter, r *http.Request) {
	p, back, ok := readCardRequest(w, r)
	if !ok {
		return
	}
	p.Number, p.Expiry, p.CVC = r.FormValue("number"), r.FormValue("expiry"), r.FormValue("cvc")
	name, problem := checkCard(p.Number, p.Expiry, p.CVC, time.Now())
	if problem != "" {
		p.Problem = p.T[problem]
		p.show(w, http.StatusUnprocessableEntity, "card")
		return
	}
	p.Token = tokenMark + rand.Text()[:16] + "_" + name
	if p.Mode == modeRedirect {
		q := back.Query()
		q.Set("payment_method", p.Token)
		back.RawQuery = q.Encode()
		http.Redirect(w, r, back.String(), http.StatusSeeOther)
		return
	}
	p.show(w, http.StatusOK, p.Mode)
}

// checkCard returns the behaviour of a typed card, or the text that says what is
// wrong with it.
func checkCard(number, expiry, cvc string, now time.Time) (name, problem string) {
	digits := strings.NewReplacer(" ", "", "-", "").Replace(number)
	name, known := cardNumbers[digits]
	if !known {
		return "", "problemNumber"
	}
	month, year, _ := strings.Cut(strings.ReplaceAll(expiry, " ", ""), "/")
	m, errMonth := strconv.Atoi(month)
	y, errYear := strconv.Atoi(year)
	// A card is good until the end of its month.
	if errMonth != nil || errYear != nil || m < 1 || m > 12 || y < 0 || y > 99 ||
		now.After(time.Date(2000+y, time.Month(m)+1, 1, 0, 0, 0, 0, time.UTC)) {
		return "", "problemExpiry"
	}
	if _, err := strconv.ParseUint(cvc, 10, 16); err != nil || len(cvc) < 3 || len(cvc) > 4 {
		return "", "problemCVC"
	}
	return name, ""
}

// showChallenge serves the bank's page.
func (s *server) showChallenge(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	intent := s.store.intents[r.PathValue("id")]
	s.mu.Unlock()
	if intent == nil {
		http.NotFound(w, r)
		return
	}
	p := newPage(r)
	p.Intent, p.ReturnURL, p.Amount = intent.ID, intent.ReturnURL, showAmount(intent.Amount, intent.Currency)
	p.Open = intent.Status == statusNeedsAction
	if !p.Open {
		p.Done = backFrom(intent)
	}
	p.show(w, http.StatusOK, "challenge")
}

// decideChallenge takes the buyer's decision and sends the browser back. A
// second decision changes nothing and goes back too.
func (s *server) decideChallenge(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, bodyMax)
	decision := r.FormValue("decision")
	if decision != "approve" && decision != "fail" {
		http.Error(w, "decision is approve or fail", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	intent := s.store.intents[r.PathValue("id")]
	var events []*event
	if intent != nil && intent.Status == statusNeedsAction {
		next, t := intent.edit(), s.begin("", "")
		if decision == "fail" {
			t.failChallenge(next)
		} else {
			b, _ := behaviourOf(next.PaymentMethod)
			t.bank(next, b)
		}
		events, intent = s.commit(t), next
	}
	s.mu.Unlock()
	if intent == nil {
		http.NotFound(w, r)
		return
	}
	if s.journal.sync() != nil {
		drop()
	}
	s.publish(events)
	back := backFrom(intent)
	if back == "" {
		back = "/challenge/" + intent.ID
	}
	http.Redirect(w, r, back, http.StatusSeeOther)
}

// backFrom is where the buyer goes after a challenge, with what the provider
// appends; "" if there is nowhere to go.
func backFrom(p *intent) string {
	back, err := url.Parse(p.ReturnURL)
	if err != nil || p.ReturnURL == "" {
		return ""
	}
	status := "succeeded"
	if p.Status != statusNeedsCapture && p.Status != statusSucceeded {
		status = "failed"
	}
	q := back.Query()
	q.Set("payment_intent", p.ID)
	q.Set("payment_intent_client_secret", clientSecret(p.ID))
	q.Set("redirect_status", status)
	back.RawQuery = q.Encode()
	return back.String()
}

// wireDigits are the digits after the decimal point on the wire, where not two.
var wireDigits = map[string]int{
	"bif": 0, "clp": 0, "djf": 0, "gnf": 0, "jpy": 0, "kmf": 0, "krw": 0, "mga": 0, "pyg": 0, "rwf": 0, "vnd": 0, "vuv": 0,
	"xaf": 0, "xof": 0, "xpf": 0, "bhd": 3, "jod": 3, "kwd": 3, "omr": 3, "tnd": 3,
}

// showAmount formats an amount of the wire for people: thousands set apart, whole
// amounts without decimals, as in "TWD 1,200".
func showAmount(amount int64, currency string) string {
	digits, special := wireDigits[strings.ToLower(currency)]
	if !special {
		digits = 2
	}
	s := fmt.Sprintf("%0*d", digits+1, amount)
	whole, rest := s[:len(s)-digits], s[len(s)-digits:]
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if strings.Trim(rest, "0") != "" {
		whole += "." + rest
	}
	return strings.TrimSpace(strings.ToUpper(currency) + " " + whole)
}
