package mailcatch

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	listLimit = 100
	waitMax   = 30 * time.Second
)

//go:embed static
var static embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"join": func(list []string) string { return strings.Join(list, ", ") },
	"kb":   func(n int) string { return fmt.Sprintf("%.1f", float64(n)/1000) },
}).ParseFS(static, "static/*.html"))

// Content security policies: of the pages, and of the frame that shows a mail.
const (
	pageCSP = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; frame-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	mailCSP = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'none'; frame-ancestors 'self'; " +
		"sandbox allow-popups allow-popups-to-escape-sandbox"
	fileCSP = "default-src 'none'; sandbox"
)

// Handler returns the pages and the JSON:
//
//	GET /                            the list as a page; ?q= filters
//	GET /m/{id}                      one mail as a page
//	GET /mails                       {"mails": [...]}, newest first; ?to= one recipient, ?after= ids above,
//	                                 ?limit= (100), ?wait= seconds until there is a match (0, at most 30)
//	GET /mails/{id}                  one mail with text, HTML and its files
//	GET /mails/{id}/html             its HTML, sandboxed
//	GET /mails/{id}/raw              as it came
//	GET /mails/{id}/files/{number}   one of its files
func (c *Catcher) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.pageList)
	mux.HandleFunc("GET /m/{id}", c.pageMail)
	mux.HandleFunc("GET /mails", c.jsonList)
	mux.HandleFunc("GET /mails/{id}", c.jsonMail)
	mux.HandleFunc("GET /mails/{id}/html", c.mailHTML)
	mux.HandleFunc("GET /mails/{id}/raw", c.mailRaw)
	mux.HandleFunc("GET /mails/{id}/files/{number}", c.mailFile)
	mux.HandleFunc("GET /static/{name}", serveStatic)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", pageCSP)
		if !c.knownHost(r.Host) {
			http.Error(w, "this host name is not served here", http.StatusMisdirectedRequest)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (c *Catcher) knownHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	addr, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil && addr.IsLoopback() || strings.EqualFold(name, "localhost") || slices.Contains(c.hosts, name)
}

// Mail is one mail in the JSON answers.
type Mail struct {
	// ID grows with every mail.
	ID         string    `json:"id"`
	ReceivedAt time.Time `json:"receivedAt"`
	// From and To are the envelope's: who really gets it.
	From      string   `json:"from"`
	To        []string `json:"to"`
	Subject   string   `json:"subject"`
	MessageID string   `json:"messageId"`
	SizeBytes int      `json:"sizeBytes"`
	// Files counts attachments and inline images.
	Files int `json:"files"`
}

// MailDetail is one mail with its content.
type MailDetail struct {
	Mail
	HeaderFrom string `json:"headerFrom"`
	HeaderTo   string `json:"headerTo"`
	Date       string `json:"date"`
	Text       string `json:"text"`
	HTML       string `json:"html"`
	FileList   []File `json:"fileList"`
}

// File is an attachment or an inline image.
type File struct {
	Name        string `json:"name"`
	ContentType string `json:"contentType"`
	ContentID   string `json:"contentId"`
	Inline      bool   `json:"inline"`
	SizeBytes   int    `json:"sizeBytes"`
	URL         string `json:"url"`
}

func summary(e *entry) Mail {
	return Mail{
		ID: strconv.FormatInt(e.ID, 10), ReceivedAt: e.ReceivedAt, From: e.From, To: e.To,
		Subject: e.subject, MessageID: e.messageID, SizeBytes: len(e.Raw), Files: e.attachments,
	}
}

func detail(e *entry) MailDetail {
	m := parse(e.Raw)
	d := MailDetail{Mail: summary(e), HeaderFrom: m.From, HeaderTo: m.To, Date: m.Date, Text: m.Text, HTML: m.HTML, FileList: []File{}}
	for i, p := range m.parts {
		d.FileList = append(d.FileList, File{
			Name: p.name, ContentType: p.contentType, ContentID: p.contentID, Inline: p.inline, SizeBytes: len(p.body),
			URL: fmt.Sprintf("/mails/%d/files/%d", e.ID, i),
		})
	}
	return d
}

func (c *Catcher) jsonList(w http.ResponseWriter, r *http.Request) {
	q := query{to: r.FormValue("to")}
	var wait int64
	err := errors.Join(
		formInt(r, "after", &q.after, 0, 1<<53), formInt(r, "wait", &wait, 0, int64(waitMax/time.Second)))
	limit := int64(listLimit)
	if err = errors.Join(err, formInt(r, "limit", &limit, 1, mailsMax)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q.limit = int(limit)
	found := c.await(r, q, time.Duration(wait)*time.Second)
	out := struct {
		Mails []Mail `json:"mails"`
	}{[]Mail{}}
	for _, e := range found {
		out.Mails = append(out.Mails, summary(e))
	}
	writeJSON(w, out)
}

// await returns what matches, waiting for the first match up to the given time.
func (c *Catcher) await(r *http.Request, q query, wait time.Duration) []*entry {
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for {
		found, changed := c.store.find(q)
		if len(found) > 0 {
			return found
		}
		select {
		case <-changed:
		case <-timeout.C:
			return nil
		case <-r.Context().Done():
			return nil
		case <-c.stopping:
			return nil
		}
	}
}

func formInt(r *http.Request, name string, into *int64, low, high int64) error {
	v := r.FormValue(name)
	if v == "" {
		return nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < low || n > high {
		return fmt.Errorf("%s must be a number from %d to %d", name, low, high)
	}
	*into = n
	return nil
}

func writeJSON(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		slog.Error("mail not encoded", "error", err)
		http.Error(w, "the mail cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	write(w, b)
}

// write sends a body; a client that went away needs no answer.
func write(w http.ResponseWriter, b []byte) { _, _ = w.Write(b) }

// mail finds the mail of the path, or answers 404.
func (c *Catcher) mail(w http.ResponseWriter, r *http.Request) *entry {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err == nil {
		if e := c.store.get(id); e != nil {
			return e
		}
	}
	http.Error(w, "no such mail", http.StatusNotFound)
	return nil
}

func (c *Catcher) jsonMail(w http.ResponseWriter, r *http.Request) {
	if e := c.mail(w, r); e != nil {
		writeJSON(w, detail(e))
	}
}

func (c *Catcher) mailHTML(w http.ResponseWriter, r *http.Request) {
	if e := c.mail(w, r); e != nil {
		w.Header().Set("Content-Security-Policy", mailCSP)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		write(w, []byte(parse(e.Raw).document()))
	}
}

func (c *Catcher) mailRaw(w http.ResponseWriter, r *http.Request) {
	if e := c.mail(w, r); e != nil {
		w.Header().Set("Content-Security-Policy", fileCSP)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		write(w, e.Raw)
	}
}

func (c *Catcher) mailFile(w http.ResponseWriter, r *http.Request) {
	e := c.mail(w, r)
	if e == nil {
		return
	}
	parts := parse(e.Raw).parts
	n, err := strconv.Atoi(r.PathValue("number"))
	if err != nil || n < 0 || n >= len(parts) {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	p, disposition := parts[n], "attachment"
	contentType := "application/octet-stream"
	if imageTypes[p.contentType] {
		contentType, disposition = p.contentType, "inline"
	}
	h := w.Header()
	h.Set("Content-Security-Policy", fileCSP)
	h.Set("Content-Type", contentType)
	h.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": p.name}))
	write(w, p.body)
}

func serveStatic(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if strings.HasSuffix(name, ".html") {
		http.NotFound(w, r)
		return
	}
	http.ServeFileFS(w, r, static, "static/"+name)
}
