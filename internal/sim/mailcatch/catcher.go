package mailcatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/emersion/go-smtp"
)

const (
	messageMax    = 10 << 20
	recipientsMax = 100
	ioTimeout     = 30 * time.Second
)

// Config says where the catcher listens and keeps its mails.
type Config struct {
	// SMTPAddr and HTTPAddr are loopback addresses; port 0 takes a free one.
	SMTPAddr, HTTPAddr string
	// Dir is the data folder; it is made if missing.
	Dir string
	// Hosts are names, besides loopback ones, under which the page may be asked
	// for: for example the name of a forwarded port.
	Hosts []string
}

// Catcher is a running mail catcher.
type Catcher struct {
	store    *store
	hosts    []string
	smtp     *smtp.Server
	http     *http.Server
	mails    net.Listener
	pages    net.Listener
	stopping chan struct{}
	serving  chan error
}

// Start reads the mails of an earlier run and listens on both addresses; mails
// can be sent as soon as it returns. An address that is not loopback is refused.
func Start(cfg Config) (*Catcher, error) {
	smtpListener, err := listen(cfg.SMTPAddr)
	if err != nil {
		return nil, err
	}
	httpListener, err := listen(cfg.HTTPAddr)
	if err != nil {
		return nil, errors.Join(err, smtpListener.Close())
	}
	s, err := openStore(cfg.Dir)
	if err != nil {
		return nil, errors.Join(err, smtpListener.Close(), httpListener.Close())
	}
	c := &Catcher{
		store: s, hosts: cfg.Hosts, mails: smtpListener, pages: httpListener,
		stopping: make(chan struct{}), serving: make(chan error, 2),
	}
	c.smtp = c.newSMTP()
	c.http = &http.Server{
		Handler: c.Handler(), ReadTimeout: ioTimeout, WriteTimeout: waitMax + ioTimeout, IdleTimeout: ioTimeout,
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
	}
	go func() { c.serving <- c.smtp.Serve(smtpListener) }()
	go func() { c.serving <- c.http.Serve(httpListener) }()
	return c, nil
}

func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for mails: %w", err)
	}
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("listen for mails: %s is no loopback address", addr), l.Close())
	}
	return l, nil
}

// SMTPAddr returns the host and port that mails are sent to.
func (c *Catcher) SMTPAddr() string { return c.mails.Addr().String() }

// URL returns the address of the page, without a path.
func (c *Catcher) URL() string { return "http://" + c.pages.Addr().String() }

// Close stops taking mails, lets page requests in progress end within ctx, and
// closes the file. A mail in transfer is cut off; its sender was not told that it
// was taken.
func (c *Catcher) Close(ctx context.Context) error {
	close(c.stopping)
	err := errors.Join(c.smtp.Close(), c.http.Shutdown(ctx))
	// The SMTP server does not know its listener before its goroutine ran.
	_ = c.mails.Close()
	if err != nil {
		// Somebody holds a connection open: cut it.
		_ = c.http.Close()
	}
	for range 2 {
		if served := <-c.serving; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
	}
	return errors.Join(err, c.store.close())
}

func (c *Catcher) newSMTP() *smtp.Server {
	s := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &session{store: c.store}, nil
	}))
	s.Domain = "mailcatch.localhost"
	s.MaxMessageBytes = messageMax
	s.MaxRecipients = recipientsMax
	s.ReadTimeout, s.WriteTimeout = ioTimeout, ioTimeout
	s.EnableSMTPUTF8 = true
	s.ErrorLog = slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn)
	return s
}

// session is one SMTP connection, used by one goroutine.
type session struct {
	store *store
	from  string
	to    []string
	// nobody says that a recipient reads no mails.
	nobody bool
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.from = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	switch domain := to[strings.LastIndexByte(to, '@')+1:]; {
	case within(domain, "bounce.invalid"):
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "No such mailbox"}
	case within(domain, "busy.invalid"):
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "Try again later"}
	case within(domain, "rehearsal.invalid"):
		s.nobody = true
		return nil
	}
	s.to = append(s.to, to)
	return nil
}

// within reports whether the domain is the parent or below it.
func within(domain, parent string) bool {
	domain = strings.ToLower(domain)
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if s.nobody && len(s.to) == 0 {
		return nil
	}
	if err := s.store.add(s.from, s.to, raw); err != nil {
		slog.Error("mail not stored", "error", err)
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 1}, Message: "Mail could not be stored"}
	}
	return nil
}

func (s *session) Reset() { s.from, s.to, s.nobody = "", nil, false }

func (s *session) Logout() error { return nil }
