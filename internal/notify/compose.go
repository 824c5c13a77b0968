package notify

import (
	"bytes"
	"crypto/rand"
	"embed"
	"fmt"
	htmltemplate "html/template"
	netmail "net/mail"
	"strings"
	texttemplate "text/template"
	"time"

	"usher"
)

//go:embed templates
var files embed.FS

var functions = map[string]any{"isolate": isolate}

var (
	htmlTemplates = htmltemplate.Must(htmltemplate.New("").Funcs(functions).ParseFS(files, "templates/*.html"))
	textTemplates = texttemplate.Must(texttemplate.New("").Funcs(functions).ParseFS(files, "templates/*.txt"))
)

const fieldMax = 800

// TicketInfo is one ticket as the mail shows it.
type TicketInfo struct {
	// EventName, Venue, StartsAt and TimeZone (an IANA name) are the event's, the
	// same for all tickets of an order. Venue may be empty.
	EventName, Venue string
	StartsAt         time.Time
	TimeZone         string
	// Seat is the place as the hall names it, empty where places are free; Tier is
	// the name of the price category.
	Seat, Tier string
	// Code is the ticket's text and QR a PNG of it. Both are secrets of the holder.
	Code string
	QR   []byte
}

// clean removes direction marks from what is shown and refuses control
// characters. It fails with CodeInvalidRequest.
func (t TicketInfo) clean() (TicketInfo, error) {
	for _, f := range []struct {
		what     string
		text     *string
		optional bool
	}{
		{"the event's name", &t.EventName, false}, {"the venue", &t.Venue, true}, {"the seat", &t.Seat, true},
		{"the tier", &t.Tier, true}, {"the code", &t.Code, false},
	} {
		if f.optional && *f.text == "" {
			continue
		}
		if err := usher.CheckText(f.what, *f.text, fieldMax); err != nil {
			return t, err
		}
		*f.text = withoutMarks(*f.text)
	}
	if !bytes.HasPrefix(t.QR, []byte("\x89PNG\r\n\x1a\n")) {
		return t, usher.Errorf(usher.CodeInvalidRequest, "the QR picture is no PNG")
	}
	return t, nil
}

// codeView is what the templates of the code mail see.
type codeView struct {
	T             texts
	Site, Code    string
	Title, Footer string
}

func (m *Mailer) codeLetter(to, code, locale string) (letter, error) {
	if err := checkAddress(to); err != nil {
		return letter{}, err
	}
	if err := usher.CheckText("the code", code, 20); err != nil {
		return letter{}, err
	}
	t := textsOf(locale)
	v := codeView{T: t, Site: siteName(m.site), Code: code, Title: t["codeTitle"], Footer: t["footer"]}
	l := letter{kind: "code", to: to, subject: fmt.Sprintf(t["codeSubject"], code), messageID: strings.ToLower(rand.Text()) + "@" + m.domain}
	return l, l.render("code", v)
}

// ticketsView is what the templates of the ticket mail see.
type ticketsView struct {
	T                          texts
	Name, Event, Venue, Starts string
	Order, Link                string
	Title, Footer              string
	// Places counts the tickets of each tier, in the order of the tickets.
	Places  []placesView
	Tickets []ticketView
}

type placesView struct {
	Count int
	Tier  string
}

// count adds a ticket to those of its tier.
func (v *ticketsView) count(tier string) {
	if tier == "" {
		return
	}
	for i := range v.Places {
		if v.Places[i].Tier == tier {
			v.Places[i].Count++
			return
		}
	}
	v.Places = append(v.Places, placesView{1, tier})
}

type ticketView struct {
	Number, Of       int
	Seat, Tier, Code string
	// Image is the name under which the QR picture is in the mail.
	Image string
}

// ticketsLetter composes the ticket mail of an order. The Message-ID is made of
// the row's id, so that a mail sent twice can be told from two mails.
func (m *Mailer) ticketsLetter(id usher.MailID, order usher.OrderID, to contact, tickets []TicketInfo) (letter, error) {
	if err := checkAddress(to.email); err != nil {
		return letter{}, err
	}
	if to.name != "" {
		if err := usher.CheckText("the name", to.name, fieldMax); err != nil {
			return letter{}, err
		}
	}
	t := textsOf(to.locale)
	v := ticketsView{
		T: t, Name: withoutMarks(to.name), Order: order.String(), Link: m.site + "/orders/" + order.String(),
		Title: t["ticketTitle"], Footer: t["footer"],
	}
	l := letter{kind: kindTickets, to: to.email, messageID: id.String() + "@" + m.domain}
	for i, info := range tickets {
		info, err := info.clean()
		if err != nil {
			return letter{}, err
		}
		if i == 0 {
			v.Event, v.Venue, v.Starts = info.EventName, info.Venue, eventTime(info.StartsAt, info.TimeZone, t["lang"])
		}
		v.count(info.Tier)
		name := fmt.Sprintf("ticket-%d.png", i+1)
		v.Tickets = append(v.Tickets, ticketView{Number: i + 1, Of: len(tickets), Seat: info.Seat, Tier: info.Tier, Code: info.Code, Image: name})
		l.images = append(l.images, image{name, info.QR})
	}
	l.subject = fmt.Sprintf(t["ticketSubject"], v.Event)
	return l, l.render("tickets", v)
}

func (l *letter) render(name string, view any) error {
	var text, html bytes.Buffer
	if err := textTemplates.ExecuteTemplate(&text, name+".txt", view); err != nil {
		return fmt.Errorf("render %s mail: %w", name, err)
	}
	if err := htmlTemplates.ExecuteTemplate(&html, name+".html", view); err != nil {
		return fmt.Errorf("render %s mail: %w", name, err)
	}
	l.text, l.html = text.Bytes(), html.Bytes()
	return nil
}

// checkAddress is the last guard before a header: the address was checked when
// it was stored.
func checkAddress(s string) error {
	if err := usher.CheckText("the e-mail address", s, fieldMax); err != nil {
		return err
	}
	if a, err := netmail.ParseAddress(s); err != nil || a.Address != s {
		return usher.Errorf(usher.CodeInvalidRequest, "not an e-mail address")
	}
	return nil
}

// siteName is how people know the shop: its address without the scheme.
func siteName(site string) string {
	_, name, _ := strings.Cut(site, "://")
	return name
}
