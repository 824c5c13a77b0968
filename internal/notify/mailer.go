package notify

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/wneessen/go-mail"

	"usher"
)

// TLSMode says how the connection to the mail server is protected.
type TLSMode string

// TLS modes. STARTTLS is required where it is chosen, not tried.
const (
	TLSNone  TLSMode = "none"
	TLSStart TLSMode = "starttls"
	TLSOnly  TLSMode = "tls"
)

// Config says how mail is sent.
type Config struct {
	// Addr is the mail server's host and port.
	Addr string
	// TLS is TLSStart when empty.
	TLS TLSMode
	// Username and Password sign in at the mail server; empty is no sign-in.
	Username, Password string
	// From is the sender: an address, with or without a name.
	From string
	// SiteURL is the public address of the shop, for links: https://tickets.example.com.
	SiteURL string
}

const (
	dialTimeout = 10 * time.Second
	// sendTimeout bounds one mail with everything around it.
	sendTimeout = 30 * time.Second
)

// Mailer sends mails over SMTP, a connection each. Its methods may be called at
// the same time.
type Mailer struct {
	cfg     Config
	host    string
	port    int
	from    *netmail.Address
	domain  string
	site    string
	sends   *prometheus.CounterVec
	seconds prometheus.Histogram
}

// NewMailer checks the configuration; it connects to nothing. It fails with
// CodeInvalidRequest.
func NewMailer(cfg Config, reg prometheus.Registerer) (*Mailer, error) {
	m := &Mailer{cfg: cfg}
	host, port, err := net.SplitHostPort(cfg.Addr)
	if err == nil {
		m.port, err = strconv.Atoi(port)
	}
	if err != nil || host == "" || m.port < 1 || m.port > 65535 {
		return nil, usher.Errorf(usher.CodeInvalidRequest, "the mail server must be host:port")
	}
	m.host = host
	if m.cfg.TLS == "" {
		m.cfg.TLS = TLSStart
	}
	if m.cfg.TLS != TLSNone && m.cfg.TLS != TLSStart && m.cfg.TLS != TLSOnly {
		return nil, usher.Errorf(usher.CodeInvalidRequest, "unknown mail TLS mode %q", string(cfg.TLS))
	}
	if m.from, err = netmail.ParseAddress(cfg.From); err != nil {
		return nil, usher.Errorf(usher.CodeInvalidRequest, "the mail sender is no address")
	}
	m.domain = m.from.Address[strings.LastIndexByte(m.from.Address, '@')+1:]
	site, err := url.Parse(cfg.SiteURL)
	if err != nil || site.Scheme != "http" && site.Scheme != "https" || site.Host == "" {
		return nil, usher.Errorf(usher.CodeInvalidRequest, "the site's URL must start with http:// or https://")
	}
	m.site = strings.TrimRight(site.String(), "/")
	m.register(reg)
	return m, nil
}

func (m *Mailer) register(reg prometheus.Registerer) {
	m.sends = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "usher_mail_sends_total",
		Help: "Mails handed to the mail server, by kind and outcome: sent, rejected (for good), failed (for now).",
	}, []string{"kind", "outcome"})
	m.seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "usher_mail_send_seconds",
		Help:    "How long handing one mail to the mail server took.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	})
	reg.MustRegister(m.sends, m.seconds)
}

// SendCode sends a sign-in code, now. It fails with CodeInvalidRequest for what
// is no address and CodeUnavailable when the mail server did not take the mail.
func (m *Mailer) SendCode(ctx context.Context, to, code, locale string) error {
	l, err := m.codeLetter(to, code, locale)
	if err != nil {
		return err
	}
	if err := m.send(ctx, l); err != nil {
		return &usher.Error{Code: usher.CodeUnavailable, Message: "the mail could not be sent", RetryAfter: dialTimeout, Err: err}
	}
	return nil
}

// letter is a composed mail.
type letter struct {
	kind, to, subject, messageID string
	text, html                   []byte
	images                       []image
}

// image is a picture in the mail's HTML, which names it as cid:name.
type image struct {
	name string
	png  []byte
}

// sendError is why a mail was not taken. Its text names no person: what a mail
// server answers may quote the address, so its words are left out.
type sendError struct {
	// rejected: this mail will not be taken later either.
	rejected bool
	reason   string
}

func (e *sendError) Error() string { return e.reason }

// send hands one mail to the mail server. It returns nil once the server took
// responsibility, and a *sendError otherwise.
func (m *Mailer) send(ctx context.Context, l letter) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	msg, client, err := m.prepare(l)
	if err != nil {
		return &sendError{rejected: true, reason: "the mail cannot be composed"}
	}
	begin := time.Now()
	err = client.DialAndSendWithContext(ctx, msg)
	m.seconds.Observe(time.Since(begin).Seconds())
	// An error after delivery (reset, quit) is none of the mail's.
	if err == nil || msg.IsDelivered() {
		m.sends.WithLabelValues(l.kind, "sent").Inc()
		return nil
	}
	failed := explain(err)
	outcome := "failed"
	if failed.rejected {
		outcome = "rejected"
	}
	m.sends.WithLabelValues(l.kind, outcome).Inc()
	return failed
}

func (m *Mailer) prepare(l letter) (*mail.Msg, *mail.Client, error) {
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent())
	msg.FromMailAddress(m.from)
	msg.ToMailAddress(&netmail.Address{Address: l.to})
	setSubject(msg, l.subject)
	msg.SetMessageIDWithValue(l.messageID)
	msg.SetDate()
	// Nobody's holiday notice should answer.
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetGenHeader(mail.HeaderXAutoResponseSuppress, "All")
	msg.SetBodyString(mail.TypeTextPlain, string(l.text))
	msg.AddAlternativeString(mail.TypeTextHTML, string(l.html))
	for _, i := range l.images {
		if err := msg.EmbedReader(i.name, bytes.NewReader(i.png), mail.WithFileContentType("image/png")); err != nil {
			return nil, nil, fmt.Errorf("embed image: %w", err)
		}
	}
	// A client of its own for each mail: it is cheap and shares no state.
	opts := []mail.Option{mail.WithPort(m.port), mail.WithTimeout(dialTimeout), mail.WithHELO(m.domain)}
	switch m.cfg.TLS {
	case TLSNone:
		opts = append(opts, mail.WithTLSPolicy(mail.NoTLS))
	case TLSStart:
		opts = append(opts, mail.WithTLSPolicy(mail.TLSMandatory))
	case TLSOnly:
		opts = append(opts, mail.WithSSL())
	}
	if m.cfg.Username != "" {
		opts = append(opts, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(m.cfg.Username), mail.WithPassword(m.cfg.Password))
	}
	client, err := mail.NewClient(m.host, opts...)
	if err != nil {
		return nil, nil, fmt.Errorf("make mail client: %w", err)
	}
	return msg, client, nil
}

// setSubject sets the subject. Plain ASCII that looks like an encoded word would
// be decoded by the reader's mail program, so it is encoded itself (RFC 2047).
func setSubject(msg *mail.Msg, s string) {
	if !strings.Contains(s, "=?") {
		msg.Subject(s)
		return
	}
	const wordBytes = 45 // 60 characters of base64: a word has at most 75
	var words []string
	var chunk []byte
	flush := func() {
		words = append(words, "=?utf-8?b?"+base64.StdEncoding.EncodeToString(chunk)+"?=")
		chunk = nil
	}
	for _, r := range s {
		if len(chunk)+utf8.RuneLen(r) > wordBytes {
			flush()
		}
		chunk = utf8.AppendRune(chunk, r)
	}
	flush()
	msg.SetGenHeaderPreformatted(mail.HeaderSubject, strings.Join(words, "\r\n "))
}

// explain sorts a failure: an answer of 500 or more to this mail's envelope or
// content rejects it; everything before that (no connection, greeting, TLS,
// sign-in) and every 4xx may go away.
func explain(err error) *sendError {
	var se *mail.SendError
	var reply *textproto.Error
	var op *net.OpError
	switch {
	case errors.As(err, &se):
		answer := strings.TrimSpace(fmt.Sprintf("%d %s", se.ErrorCode(), se.EnhancedStatusCode()))
		broken := se.Reason == mail.ErrGetSender || se.Reason == mail.ErrGetRcpts
		return &sendError{rejected: se.ErrorCode() >= 500 || broken, reason: fmt.Sprintf("mail server: %s: %s", se.Reason, answer)}
	case errors.As(err, &reply):
		return &sendError{reason: fmt.Sprintf("mail server refuses to talk: %d", reply.Code)}
	case errors.As(err, &op):
		return &sendError{reason: "mail server not reached: " + op.Op}
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		return &sendError{reason: "mail server did not answer in time"}
	}
	return &sendError{reason: "mail server cannot be used (TLS or sign-in)"}
}
