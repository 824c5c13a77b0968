package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/ledger"
	"usher/internal/notify"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
	"usher/internal/sim/mailcatch"
	"usher/internal/work"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	testEvent = usher.EventID(7)
	waitMax   = 30 * time.Second
)

var png = []byte("\x89PNG\r\n\x1a\nnot really a picture")

// catcher is a mail server of the test's own.
func catcher(t *testing.T) *mailcatch.Catcher {
	t.Helper()
	c, err := mailcatch.Start(mailcatch.Config{SMTPAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0", Dir: t.TempDir()})
	if err != nil {
		t.Fatalf("start mail catcher: %v", err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), waitMax)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("stop mail catcher: %v", err)
		}
	})
	return c
}

func mailConfig(addr string) notify.Config {
	return notify.Config{Addr: addr, TLS: notify.TLSNone, From: "Arena Tickets <tickets@shop.example>", SiteURL: "https://shop.example/"}
}

func newMailer(t *testing.T, addr string) *notify.Mailer {
	t.Helper()
	m, err := notify.NewMailer(mailConfig(addr), prometheus.NewRegistry())
	if err != nil {
		t.Fatalf("new mailer: %v", err)
	}
	return m
}

func get(t *testing.T, url string, into any) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("get %s: %v", url, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("get %s: %d %v", url, resp.StatusCode, err)
	}
	return body
}

// caught returns the mails to one address, or to all for "", newest first.
func caught(t *testing.T, c *mailcatch.Catcher, to string) []mailcatch.MailDetail {
	t.Helper()
	var list struct{ Mails []mailcatch.Mail }
	get(t, c.URL()+"/mails?limit=2000&to="+url.QueryEscape(to), &list)
	out := make([]mailcatch.MailDetail, len(list.Mails))
	for i, m := range list.Mails {
		get(t, c.URL()+"/mails/"+m.ID, &out[i])
	}
	return out
}

// people is an address book and a ticket source.
type people struct {
	mu      sync.Mutex
	contact map[usher.AccountID][3]string
	tickets map[usher.OrderID][]notify.TicketInfo
	err     error
}

func (p *people) Contact(_ context.Context, id usher.AccountID) (email, name, locale string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.contact[id]
	if !ok {
		return "", "", "", usher.Errorf(usher.CodeNotFound, "no such person")
	}
	return c[0], c[1], c[2], p.err
}

func (p *people) Tickets(_ context.Context, order usher.OrderID) ([]notify.TicketInfo, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tickets[order], p.err
}

// office is a shard with a notifier.
type office struct {
	*notify.Notifier
	people *people
	homes  *pg.Homes
	pool   *pgxpool.Pool
	runner *work.Runner
	log    *bytes.Buffer
}

func newOffice(t *testing.T, smtpAddr string) *office {
	t.Helper()
	url := pgtest.Database(t)
	homes := pgtest.Homes(t, url)
	o := &office{homes: homes, pool: homes.Shards()[0].Pool, log: new(bytes.Buffer),
		people: &people{contact: map[usher.AccountID][3]string{}, tickets: map[usher.OrderID][]notify.TicketInfo{}}}
	o.exec(t, homes.Directory, `INSERT INTO event_home (event_id, shard) VALUES ($1, 1)`, testEvent)
	o.process(t, smtpAddr)
	return o
}

// process makes a notifier and its runner, as a process would at its start.
func (o *office) process(t *testing.T, smtpAddr string) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(&lockedWriter{w: o.log}, nil))
	o.Notifier = notify.New(o.homes, newMailer(t, smtpAddr), o.people, o.people, log)
	o.runner = work.NewRunner(log, prometheus.NewRegistry())
	o.Work(o.runner)
}

type lockedWriter struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func (o *office) exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("exec: %v", err)
	}
}

// handle gives entries to the reader, in a transaction of its own.
func (o *office) handle(t *testing.T, entries ...ledger.Entry) {
	t.Helper()
	err := pg.InTx(t.Context(), o.pool, func(tx pgx.Tx) error {
		return o.Reader().Handle(t.Context(), tx, testEvent, entries)
	})
	if err != nil {
		t.Fatalf("handle entries: %v", err)
	}
}

func entry(typ ledger.EntryType, order usher.OrderID, account usher.AccountID) ledger.Entry {
	return ledger.Entry{Event: testEvent, Type: typ, Payload: ledger.Payload{Order: order, Account: account}}
}

// buyer makes an account with an address and an order with tickets.
func (o *office) buyer(email string, tickets int) (usher.OrderID, usher.AccountID) {
	order, account := usher.NewOrderID(testEvent), usher.NewAccountID()
	o.people.mu.Lock()
	defer o.people.mu.Unlock()
	o.people.contact[account] = [3]string{email, "Ann Lee", "en"}
	for i := range tickets {
		o.people.tickets[order] = append(o.people.tickets[order], ticket(i+1))
	}
	return order, account
}

func ticket(n int) notify.TicketInfo {
	return notify.TicketInfo{
		EventName: "Spring Concert", Venue: "Arena", StartsAt: time.Date(2026, 10, 3, 11, 30, 0, 0, time.UTC), TimeZone: "Asia/Taipei",
		Seat: fmt.Sprintf("A row 1 seat %d", n), Tier: "Gold", Code: fmt.Sprintf("CODE%04d", n), QR: append(png[:len(png):len(png)], byte(n)),
	}
}

// captured adds the mail of a captured order.
func (o *office) captured(t *testing.T, email string, tickets int) usher.OrderID {
	t.Helper()
	order, account := o.buyer(email, tickets)
	o.handle(t, entry(ledger.EntryOrderCaptured, order, account))
	return order
}

// mail reads the one mail row of an order.
func (o *office) mail(t *testing.T, order usher.OrderID) notify.Mail {
	t.Helper()
	mails, err := o.Mails(t.Context(), order)
	if err != nil || len(mails) != 1 {
		t.Fatalf("Mails(%s) = %+v, %v; want one", order, mails, err)
	}
	return mails[0]
}

// run works one mail now, whenever it is due.
func (o *office) run(t *testing.T, order usher.OrderID) notify.Mail {
	t.Helper()
	if _, err := o.runner.RunNow(t.Context(), "mail-1", o.mail(t, order).ID); err != nil {
		t.Fatalf("run mail: %v", err)
	}
	return o.mail(t, order)
}

func TestNewMailerRefuses(t *testing.T) {
	good := mailConfig("127.0.0.1:25")
	for name, spoil := range map[string]func(*notify.Config){
		"no address": func(c *notify.Config) { c.Addr = "" },
		"no port":    func(c *notify.Config) { c.Addr = "mail.example" },
		"no host":    func(c *notify.Config) { c.Addr = ":25" },
		"bad port":   func(c *notify.Config) { c.Addr = "mail.example:smtp" },
		"high port":  func(c *notify.Config) { c.Addr = "mail.example:65536" },
		"TLS":        func(c *notify.Config) { c.TLS = "maybe" },
		"sender":     func(c *notify.Config) { c.From = "Arena" },
		"injection":  func(c *notify.Config) { c.From = "a@b.example\r\nBcc: c@d.example" },
		"no site":    func(c *notify.Config) { c.SiteURL = "" },
		"script":     func(c *notify.Config) { c.SiteURL = "javascript:alert(1)" },
		"no scheme":  func(c *notify.Config) { c.SiteURL = "shop.example" },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := notify.NewMailer(cfg, prometheus.NewRegistry()); usher.CodeOf(err) != usher.CodeInvalidRequest {
			t.Errorf("%s: %v, want invalid_request", name, err)
		}
	}
	if _, err := notify.NewMailer(good, prometheus.NewRegistry()); err != nil {
		t.Errorf("good configuration: %v", err)
	}
}

func TestSendCode(t *testing.T) {
	c := catcher(t)
	m := newMailer(t, c.SMTPAddr())
	for locale, want := range map[string]string{"en": "123456 is your sign-in code", "zh-Hant": "您的登入驗證碼：123456", "fr": "123456 is your sign-in code"} {
		to := locale + "@example.com"
		if err := m.SendCode(t.Context(), to, "123456", locale); err != nil {
			t.Fatalf("send code: %v", err)
		}
		mails := caught(t, c, to)
		if len(mails) != 1 {
			t.Fatalf("%d mails to %s", len(mails), to)
		}
		d := mails[0]
		if d.Subject != want || !strings.Contains(d.Text, "123456") || !strings.Contains(d.HTML, ">123456<") || !strings.Contains(d.Text, "shop.example") {
			t.Errorf("mail is %+v", d)
		}
		if d.HeaderFrom != `"Arena Tickets" <tickets@shop.example>` || !strings.HasSuffix(d.MessageID, "@shop.example>") || d.Date == "" {
			t.Errorf("headers are %q, %q, %q", d.HeaderFrom, d.MessageID, d.Date)
		}
		raw := string(get(t, c.URL()+"/mails/"+d.ID+"/raw", nil))
		if !strings.Contains(raw, "Auto-Submitted: auto-generated") || strings.Contains(raw, "User-Agent") {
			t.Errorf("raw mail is %s", raw)
		}
	}
	// Beyond ASCII in both parts of the address.
	if err := m.SendCode(t.Context(), "jos\u00e9@例子.tw", "123456", "en"); err != nil {
		t.Errorf("send code: %v", err)
	}
	if mails := caught(t, c, "jos\u00e9@例子.tw"); len(mails) != 1 {
		t.Errorf("%d mails beyond ASCII; all went to %+v", len(mails), caught(t, c, "")[0].To)
	}
}

func TestSendCodeRefuses(t *testing.T) {
	c := catcher(t)
	m := newMailer(t, c.SMTPAddr())
	for _, to := range []string{"", "ann", "ann@example.com\r\nBcc: bob@example.com", "a@example.com, b@example.com", "Ann <ann@example.com>"} {
		if err := m.SendCode(t.Context(), to, "123456", "en"); usher.CodeOf(err) != usher.CodeInvalidRequest {
			t.Errorf("to %q: %v", to, err)
		}
	}
	if err := m.SendCode(t.Context(), "ann@example.com", "1\r\nX: y", "en"); usher.CodeOf(err) != usher.CodeInvalidRequest {
		t.Errorf("code with a line end: %v", err)
	}
	for _, to := range []string{"ann@bounce.invalid", "ann@busy.invalid"} {
		err := m.SendCode(t.Context(), to, "123456", "en")
		if usher.CodeOf(err) != usher.CodeUnavailable {
			t.Errorf("to %q: %v", to, err)
		}
		var e *usher.Error
		if errors.As(err, &e) && (strings.Contains(fmt.Sprint(e.Err), "ann") || strings.Contains(e.Message, "ann")) {
			t.Errorf("the error names the person: %v, %v", e, e.Err)
		}
	}
	if got := caught(t, c, ""); len(got) != 0 {
		t.Errorf("caught %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.SendCode(ctx, "ann@example.com", "123456", "en"); usher.CodeOf(err) != usher.CodeUnavailable {
		t.Errorf("under a cancelled context: %v", err)
	}
}
