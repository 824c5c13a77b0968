package notify_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/notify"
)

func TestTicketMail(t *testing.T) {
	c := catcher(t)
	o := newOffice(t, c.SMTPAddr())
	order := o.captured(t, "ann@example.com", 2)
	m := o.run(t, order)
	if m.SentAt == nil || m.WithdrawnAt != nil || m.ParkedAt != nil || m.Kind != "tickets" || m.Order != order {
		t.Errorf("row is %+v", m)
	}
	mails := caught(t, c, "ann@example.com")
	if len(mails) != 1 {
		t.Fatalf("%d mails", len(mails))
	}
	d := mails[0]
	if d.Subject != "Your tickets: Spring Concert" || d.MessageID != "<"+m.ID.String()+"@shop.example>" {
		t.Errorf("subject %q, id %q", d.Subject, d.MessageID)
	}
	for _, want := range []string{
		"Ann Lee", "Spring Concert", "Arena", "Saturday, 3 October 2026, 19:30 (UTC+08:00 Asia/Taipei)", order.String(),
		"Ticket 1 of 2", "Ticket 2 of 2", "A row 1 seat 1", "A row 1 seat 2", "Gold", "CODE0001", "CODE0002",
		"https://shop.example/orders/" + order.String(),
	} {
		if !strings.Contains(d.Text, want) {
			t.Errorf("text lacks %q: %s", want, d.Text)
		}
		if html := strings.ReplaceAll(d.HTML, "&#43;", "+"); !strings.Contains(html, want) {
			t.Errorf("HTML lacks %q: %s", want, d.HTML)
		}
	}
	// One picture per ticket, in the mail itself: nothing is loaded from outside.
	if len(d.FileList) != 2 || strings.Contains(d.HTML, `src="http`) {
		t.Fatalf("files are %+v", d.FileList)
	}
	for i, f := range d.FileList {
		content := get(t, c.URL()+f.URL, nil)
		if f.ContentType != "image/png" || !f.Inline || !strings.Contains(d.HTML, `src="cid:`+f.ContentID+`"`) || content[len(content)-1] != byte(i+1) {
			t.Errorf("file %d is %+v", i, f)
		}
	}
	if again := o.run(t, order); !again.SentAt.Equal(*m.SentAt) || len(caught(t, c, "")) != 1 {
		t.Error("a sent mail was sent again")
	}
}

func TestTicketMailInChinese(t *testing.T) {
	c := catcher(t)
	o := newOffice(t, c.SMTPAddr())
	order, account := o.buyer("wang@example.com", 1)
	o.people.contact[account] = [3]string{"wang@example.com", "王小明", "zh-Hant"}
	o.people.tickets[order][0].EventName = "春季音樂會"
	o.handle(t, entry(ledger.EntryOrderCaptured, order, account))
	o.run(t, order)
	d := caught(t, c, "wang@example.com")[0]
	if d.Subject != "您的票券：春季音樂會" || !strings.Contains(d.HTML, `<html lang="zh-Hant">`) {
		t.Errorf("subject %q, HTML %s", d.Subject, d.HTML)
	}
	for _, want := range []string{"王小明", "2026年10月3日（星期六）19:30（UTC+08:00 Asia/Taipei）", "第 1 張，共 1 張"} {
		if html := strings.ReplaceAll(d.HTML, "&#43;", "+"); !strings.Contains(d.Text, want) || !strings.Contains(html, want) {
			t.Errorf("mail lacks %q: %s", want, d.Text)
		}
	}
}

// P87 and P95: names with markup, other directions, rare characters and 200
// characters arrive whole and as text.
func TestNamesArriveAsText(t *testing.T) {
	c := catcher(t)
	o := newOffice(t, c.SMTPAddr())
	names := []string{
		`<script>alert(1)</script><img src=x onerror=alert(2)>`,
		`"Ann" & 'Lee' {{.Code}} <a href="https://evil.example">x</a>`,
		"محمد גבריאל 123",
		strings.Repeat("𠮷", 200),
		"👩‍🎤 Zoë",
		"%s %d %!",
		"=?utf-8?q?Ann?=",
		"=?utf-8?q?Ann?=" + strings.Repeat("王", 100) + "=?x",
	}
	for i, name := range names {
		email := fmt.Sprintf("n%d@example.com", i)
		order, account := o.buyer(email, 1)
		o.people.contact[account] = [3]string{email, name, "en"}
		x := &o.people.tickets[order][0]
		x.EventName, x.Venue, x.Seat, x.Tier = name, name, name, name
		o.handle(t, entry(ledger.EntryOrderCaptured, order, account))
		if m := o.run(t, order); m.SentAt == nil {
			t.Fatalf("%q: %+v", name, m)
		}
		d := caught(t, c, email)[0]
		if d.Subject != "Your tickets: "+name {
			t.Errorf("subject of %q is %q", name, d.Subject)
		}
		if n := strings.Count(d.Text, "\u2068"+name+"\u2069"); n != 6 {
			t.Errorf("text has %q %d times on its own: %s", name, n, d.Text)
		}
		for _, bad := range []string{"<script", "<img src=x", "evil.example\">"} {
			if strings.Contains(d.HTML, bad) {
				t.Errorf("HTML has %q: %s", bad, d.HTML)
			}
		}
	}
}

func TestDirectionMarksAreRemoved(t *testing.T) {
	c := catcher(t)
	o := newOffice(t, c.SMTPAddr())
	order, account := o.buyer("ann@example.com", 1)
	o.people.contact[account] = [3]string{"ann@example.com", "Ann\u202e eeL\u2069", "en"}
	o.people.tickets[order][0].Seat = "A\u202e1"
	o.handle(t, entry(ledger.EntryOrderCaptured, order, account))
	o.run(t, order)
	d := caught(t, c, "ann@example.com")[0]
	if strings.ContainsAny(d.Text+d.HTML, "\u202e") || !strings.Contains(d.Text, "\u2068A1\u2069") || !strings.Contains(d.Text, "\u2068Ann eeL\u2069") {
		t.Errorf("text is %q", d.Text)
	}
}

func TestMailThatCannotBeComposedIsParked(t *testing.T) {
	c := catcher(t)
	o := newOffice(t, c.SMTPAddr())
	for name, spoil := range map[string]func(*notify.TicketInfo){
		"line end in the event": func(x *notify.TicketInfo) { x.EventName = "Concert\r\nBcc: bob@example.com" },
		"zero byte in the seat": func(x *notify.TicketInfo) { x.Seat = "A\x00" },
		"broken venue":          func(x *notify.TicketInfo) { x.Venue = "\xff" },
		"no code":               func(x *notify.TicketInfo) { x.Code = "" },
		"no picture":            func(x *notify.TicketInfo) { x.QR = []byte("<svg>") },
		"long":                  func(x *notify.TicketInfo) { x.Tier = strings.Repeat("x", 801) },
	} {
		order, account := o.buyer("ann@example.com", 2)
		spoil(&o.people.tickets[order][1])
		o.handle(t, entry(ledger.EntryOrderCaptured, order, account))
		if m := o.run(t, order); m.ParkedAt == nil || m.SentAt != nil || m.LastError == "" {
			t.Errorf("%s: row is %+v", name, m)
		}
	}
	if got := caught(t, c, ""); len(got) != 0 {
		t.Errorf("caught %+v", got)
	}
	parked, err := o.Parked(t.Context(), 3)
	if err != nil || len(parked) != 3 {
		t.Errorf("Parked = %+v, %v", parked, err)
	}
}

func TestOneMailPerOrder(t *testing.T) {
	c := catcher(t)
	o := newOffice(t, c.SMTPAddr())
	order, account := o.buyer("ann@example.com", 1)
	other, bob := o.buyer("bob@example.com", 1)
	e := entry(ledger.EntryOrderCaptured, order, account)
	// Twice in one batch, again after a restart, and beside entries of other types.
	o.handle(t, entry(ledger.EntryHoldPlaced, order, account), entry(ledger.EntryOrderConfirmed, order, account), e, e)
	o.handle(t, e, entry(ledger.EntryOrderCaptured, other, bob))
	o.handle(t, entry(ledger.EntryPaymentFailed, order, account))
	o.run(t, order)
	o.run(t, other)
	if a, b := caught(t, c, "ann@example.com"), caught(t, c, "bob@example.com"); len(a) != 1 || len(b) != 1 {
		t.Errorf("%d and %d mails", len(a), len(b))
	}
}

func TestWaitsForTickets(t *testing.T) {
	c := catcher(t)
	o := newOffice(t, c.SMTPAddr())
	order := o.captured(t, "ann@example.com", 0)
	// Far more looks than failures would be allowed: waiting is no failure.
	for range 60 {
		if m := o.run(t, order); m.SentAt != nil || m.ParkedAt != nil {
			t.Fatalf("row is %+v", m)
		}
	}
	if m := o.mail(t, order); m.LastError != "tickets are not issued yet" || m.Attempts != 60 {
		t.Errorf("row is %+v", m)
	}
	o.people.tickets[order] = []notify.TicketInfo{ticket(1)}
	if m := o.run(t, order); m.SentAt == nil {
		t.Errorf("row is %+v", m)
	}
}

func TestCancelledOrderGetsNoTickets(t *testing.T) {
	c := catcher(t)
	o := newOffice(t, c.SMTPAddr())
	order, account := o.buyer("ann@example.com", 1)
	o.handle(t, entry(ledger.EntryOrderCaptured, order, account), entry(ledger.EntryOrderCancelled, order, account))
	m := o.run(t, order)
	if m.SentAt != nil || m.WithdrawnAt == nil || m.WithdrawnReason != "order cancelled" {
		t.Errorf("row is %+v", m)
	}
	// Cancelled after it was sent: what happened stays.
	sent := o.captured(t, "bob@example.com", 1)
	o.run(t, sent)
	o.handle(t, entry(ledger.EntryOrderCancelled, sent, account))
	if m := o.mail(t, sent); m.SentAt == nil || m.WithdrawnAt != nil {
		t.Errorf("row is %+v", m)
	}
	if got := caught(t, c, ""); len(got) != 1 {
		t.Errorf("%d mails", len(got))
	}
}

func TestErasedPersonGetsNoMail(t *testing.T) {
	o := newOffice(t, catcher(t).SMTPAddr())
	order, account := o.buyer("ann@example.com", 1)
	delete(o.people.contact, account)
	o.handle(t, entry(ledger.EntryOrderCaptured, order, account))
	if m := o.run(t, order); m.WithdrawnAt == nil || m.WithdrawnReason != "no address" || m.ParkedAt != nil {
		t.Errorf("row is %+v", m)
	}
}

func TestSourceFailureIsRetried(t *testing.T) {
	c := catcher(t)
	o := newOffice(t, c.SMTPAddr())
	order := o.captured(t, "ann@example.com", 1)
	o.people.err = usher.Errorf(usher.CodeUnavailable, "directory of ann@example.com is away")
	m := o.run(t, order)
	if m.SentAt != nil || m.ParkedAt != nil || m.WithdrawnAt != nil || strings.Contains(m.LastError, "ann") {
		t.Errorf("row is %+v", m)
	}
	o.people.err = nil
	if m := o.run(t, order); m.SentAt == nil {
		t.Errorf("row is %+v", m)
	}
}

// The server took the mail and the process died before it noted that: the buyer
// gets a second copy of one mail, not a second mail.
func TestRepeatedMailHasTheSameID(t *testing.T) {
	c := catcher(t)
	o := newOffice(t, c.SMTPAddr())
	order := o.captured(t, "ann@example.com", 1)
	disarm := fault.Arm("mail.after_send", 1, fault.Fail)
	m := o.run(t, order)
	if fault.Passes("mail.after_send") != 1 || m.SentAt != nil {
		t.Fatalf("the fault did not fire: %+v", m)
	}
	disarm()
	o.process(t, c.SMTPAddr())
	if m = o.run(t, order); m.SentAt == nil {
		t.Fatalf("row is %+v", m)
	}
	mails := caught(t, c, "ann@example.com")
	if len(mails) != 2 || mails[0].MessageID != mails[1].MessageID || mails[0].MessageID != "<"+m.ID.String()+"@shop.example>" {
		t.Errorf("caught %+v", mails)
	}
}

func TestRejectedMailIsParkedAndRedriven(t *testing.T) {
	c := catcher(t)
	o := newOffice(t, c.SMTPAddr())
	order, account := o.buyer("ann@bounce.invalid", 1)
	o.handle(t, entry(ledger.EntryOrderCaptured, order, account))
	for i := range 3 {
		if m := o.run(t, order); (m.ParkedAt != nil) != (i == 2) || m.SentAt != nil {
			t.Fatalf("after %d tries the row is %+v", i+1, m)
		}
	}
	parked, err := o.Parked(t.Context(), 10)
	if err != nil || len(parked) != 1 || parked[0].Order != order || !strings.Contains(parked[0].LastError, "550 5.1.1") {
		t.Fatalf("Parked = %+v, %v", parked, err)
	}
	if strings.Contains(parked[0].LastError+o.log.String(), "ann") {
		t.Errorf("the person is named: %s %s", parked[0].LastError, o.log)
	}
	// A redriven mail has all its tries again.
	if err := o.Redrive(t.Context(), parked[0].ID); err != nil {
		t.Fatalf("redrive: %v", err)
	}
	if m := o.run(t, order); m.ParkedAt != nil {
		t.Errorf("parked at once after the redrive: %+v", m)
	}
	o.people.contact[account] = [3]string{"ann@example.com", "", "en"}
	if m := o.run(t, order); m.SentAt == nil || m.ParkedAt != nil {
		t.Errorf("row is %+v", m)
	}
	if err := o.Redrive(t.Context(), parked[0].ID); usher.CodeOf(err) != usher.CodeNotFound {
		t.Errorf("redrive of a sent mail: %v", err)
	}
	if err := o.Redrive(t.Context(), usher.NewMailID(99)); usher.CodeOf(err) != usher.CodeNotFound {
		t.Errorf("redrive at no event: %v", err)
	}
}

// P49, second run: an outage of half an hour uses no mail's tries up.
func TestOutageIsOutlived(t *testing.T) {
	c := catcher(t)
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	o := newOffice(t, dead.Addr().String())
	order := o.captured(t, "ann@example.com", 1)
	// Tries of the first hour and more: the pauses grow to two minutes.
	for i := range 40 {
		if m := o.run(t, order); m.SentAt != nil || m.ParkedAt != nil {
			t.Fatalf("after %d tries the row is %+v", i+1, m)
		}
	}
	o.process(t, c.SMTPAddr())
	if m := o.run(t, order); m.SentAt == nil {
		t.Errorf("after the outage the row is %+v", m)
	}
	late := o.captured(t, "bob@busy.invalid", 1)
	for range 45 {
		o.run(t, late)
	}
	if m := o.mail(t, late); m.ParkedAt == nil || !strings.Contains(m.LastError, "451") {
		t.Errorf("a mail that never goes is %+v", m)
	}
}

// P49, first run: 50 mails that always fail do not delay 200 good ones, and all
// through the real runner.
func TestFailingMailsDelayNobody(t *testing.T) {
	c := catcher(t)
	o := newOffice(t, c.SMTPAddr())
	var entries []ledger.Entry
	var bad []usher.OrderID
	for i := range 250 {
		email := fmt.Sprintf("good%d@example.com", i)
		if i < 50 {
			email = fmt.Sprintf("bad%d@bounce.invalid", i)
		}
		order, account := o.buyer(email, 1)
		entries = append(entries, entry(ledger.EntryOrderCaptured, order, account))
		if i < 50 {
			bad = append(bad, order)
		}
	}
	o.handle(t, entries...)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.runner.Run(ctx) }()
	waitFor(t, "200 mails", func() bool {
		var n int
		err := o.pool.QueryRow(t.Context(), `SELECT count(*) FROM mail WHERE sent_at IS NOT NULL`).Scan(&n)
		return err == nil && n == 200
	})
	stop()
	<-ended
	for _, order := range bad {
		for o.mail(t, order).ParkedAt == nil {
			o.run(t, order)
		}
	}
	if parked, err := o.Parked(t.Context(), 100); err != nil || len(parked) != 50 {
		t.Errorf("%d parked, %v", len(parked), err)
	}
	seen := map[string]bool{}
	for _, d := range caught(t, c, "") {
		seen[d.To[0]] = true
	}
	if len(seen) != 200 {
		t.Errorf("mails to %d people", len(seen))
	}
}

// waitFor polls until the condition holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(waitMax)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no %s in time", what)
		}
	}
}

// P50, the whole way: ledger, reader, row, runner, mail server. A mail server
// that refuses leaves the order confirmed.
func TestFromOrderToMail(t *testing.T) {
	c := catcher(t)
	o := newOffice(t, c.SMTPAddr())
	l := ledger.New(o.homes, ledger.WithLog(slog.New(slog.DiscardHandler)))
	rules := usher.DefaultRules("TWD")
	rules.Sale, rules.AdmissionRequired = usher.SaleOpen, false
	err := l.SetUp(t.Context(), ledger.Setup{
		Event: testEvent, Rules: rules, Tiers: []ledger.Tier{{ID: "free", Name: "Free", Price: usher.Money{Currency: "TWD"}}},
		Seats: []ledger.SeatSetup{{ID: "A-1", Tier: "free"}, {ID: "A-2", Tier: "free"}},
	})
	if err != nil {
		t.Fatalf("set up: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- l.RunReader(ctx, o.Reader()) }()
	go func() { ended <- o.runner.Run(ctx) }()
	orders := map[string]usher.OrderID{}
	for seat, email := range map[usher.SeatID]string{"A-1": "ann@example.com", "A-2": "bob@bounce.invalid"} {
		account := usher.NewAccountID()
		hold, err := l.PlaceHold(t.Context(), ledger.PlaceHold{Event: testEvent, Account: account, Seats: []usher.SeatID{seat}, Key: "k"})
		if err != nil {
			t.Fatalf("place hold: %v", err)
		}
		order, _, err := l.BeginPayment(t.Context(), ledger.BeginPayment{Hold: hold.ID, Account: account, Key: "k"})
		if err != nil {
			t.Fatalf("begin payment: %v", err)
		}
		if order, err = l.ConfirmOrder(t.Context(), ledger.ConfirmOrder{Order: order.ID, Authorized: order.Amount}); err != nil || order.CapturedAt == nil {
			t.Fatalf("confirm: %+v, %v", order, err)
		}
		o.people.mu.Lock()
		o.people.contact[account] = [3]string{email, "Ann", "en"}
		o.people.tickets[order.ID] = []notify.TicketInfo{ticket(1)}
		o.people.mu.Unlock()
		orders[email] = order.ID
	}
	waitFor(t, "mail", func() bool { return len(caught(t, c, "ann@example.com")) == 1 })
	waitFor(t, "refusal", func() bool {
		mails, err := o.Mails(t.Context(), orders["bob@bounce.invalid"])
		return err == nil && len(mails) == 1 && strings.Contains(mails[0].LastError, "550")
	})
	stop()
	<-ended
	<-ended
	for _, id := range orders {
		if order, err := l.Order(t.Context(), id); err != nil || order.Status != usher.OrderConfirmed {
			t.Errorf("order is %v, %v", order.Status, err)
		}
	}
	if bytes.Contains(o.log.Bytes(), []byte("bob@")) {
		t.Errorf("the log names a person: %s", o.log)
	}
}
