package mailcatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/smtp"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"usher/internal/sim/mailcatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, dir string) *mailcatch.Catcher {
	t.Helper()
	c, err := mailcatch.Start(mailcatch.Config{SMTPAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0", Dir: dir, Hosts: []string{"mail.example"}})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return c
}

func stop(t *testing.T, c *mailcatch.Catcher) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

func running(t *testing.T) *mailcatch.Catcher {
	t.Helper()
	c := start(t, t.TempDir())
	t.Cleanup(func() { stop(t, c) })
	return c
}

func send(t *testing.T, c *mailcatch.Catcher, to, raw string) {
	t.Helper()
	if err := trySend(c, to, raw); err != nil {
		t.Fatalf("send to %s: %v", to, err)
	}
}

func trySend(c *mailcatch.Catcher, to, raw string) error {
	return smtp.SendMail(c.SMTPAddr(), nil, "shop@example.com", []string{to}, []byte(strings.ReplaceAll(raw, "\n", "\r\n")))
}

func get(t *testing.T, c *mailcatch.Catcher, path string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL()+path, nil)
	if err != nil {
		t.Fatalf("make request: %v", err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("get %s: %v", path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	return resp, string(body)
}

func list(t *testing.T, c *mailcatch.Catcher, query string) []mailcatch.Mail {
	t.Helper()
	resp, body := get(t, c, "/mails"+query)
	var out struct{ Mails []mailcatch.Mail }
	if err := json.Unmarshal([]byte(body), &out); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET /mails%s: %d %s, %v", query, resp.StatusCode, body, err)
	}
	return out.Mails
}

const plain = `From: Shop <shop@example.com>
To: ann@example.com
Subject: =?utf-8?B?5L2g55qE56Wo?= for you
Message-ID: <1@example.com>
Date: Mon, 2 Jan 2026 15:04:05 +0000
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: quoted-printable

Hello =E4=BD=A0
`

const rich = `From: shop@example.com
To: ann@example.com
Subject: Tickets
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=M

--M
Content-Type: multipart/related; boundary=R

--R
Content-Type: multipart/alternative; boundary=A

--A
Content-Type: text/plain; charset=big5
Content-Transfer-Encoding: base64

p0GmbgA=
--A
Content-Type: text/html; charset=utf-8

<!doctype html><html><head><title>x</title></head><body><script>alert(1)</script><img src="cid:qr1"></body></html>
--A--
--R
Content-Type: image/png
Content-Disposition: inline; filename="ticket 1.png"
Content-ID: <qr1>
Content-Transfer-Encoding: base64

iVBORw0KGgo=
--R--
--M
Content-Type: text/html
Content-Disposition: attachment; filename*=utf-8''%E7%A5%A8.html

<script>alert(2)</script>
--M--
`

func TestCatchesAndShows(t *testing.T) {
	c := running(t)
	send(t, c, "ann@example.com", plain)
	mails := list(t, c, "")
	if len(mails) != 1 {
		t.Fatalf("%d mails", len(mails))
	}
	m := mails[0]
	if m.Subject != "你的票 for you" || m.MessageID != "<1@example.com>" || m.From != "shop@example.com" || fmt.Sprint(m.To) != "[ann@example.com]" || m.Files != 0 {
		t.Errorf("mail is %+v", m)
	}
	_, body := get(t, c, "/mails/"+m.ID)
	var d mailcatch.MailDetail
	if err := json.Unmarshal([]byte(body), &d); err != nil || d.Text != "Hello 你\r\n" || d.HeaderFrom != "Shop <shop@example.com>" || len(d.FileList) != 0 {
		t.Errorf("detail is %+v, %v", d, err)
	}
	resp, raw := get(t, c, "/mails/"+m.ID+"/raw")
	if !strings.Contains(raw, "Hello =E4=BD=A0") || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("raw is %q, %v", raw, resp.Header)
	}
}

func TestRichMail(t *testing.T) {
	c := running(t)
	send(t, c, "ann@example.com", rich)
	_, body := get(t, c, "/mails/1")
	var d mailcatch.MailDetail
	if err := json.Unmarshal([]byte(body), &d); err != nil {
		t.Fatal(err)
	}
	if d.Text != "你好\x00" || !strings.Contains(d.HTML, `src="cid:qr1"`) || len(d.FileList) != 2 {
		t.Fatalf("detail is %+v", d)
	}
	qr, page := d.FileList[0], d.FileList[1]
	if qr.Name != "ticket 1.png" || qr.ContentID != "qr1" || !qr.Inline || qr.ContentType != "image/png" || qr.SizeBytes != 8 {
		t.Errorf("image is %+v", qr)
	}
	if page.Name != "票.html" || page.Inline {
		t.Errorf("attachment is %+v", page)
	}
	resp, content := get(t, c, qr.URL)
	if content != "\x89PNG\r\n\x1a\n" || resp.Header.Get("Content-Type") != "image/png" {
		t.Errorf("image is %q as %v", content, resp.Header)
	}
	// HTML is never served as HTML outside the sandbox.
	resp, _ = get(t, c, page.URL)
	if got := resp.Header.Get("Content-Type"); got != "application/octet-stream" || !strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("attachment is served as %v", resp.Header)
	}
	resp, html := get(t, c, "/mails/1/html")
	csp := resp.Header.Get("Content-Security-Policy")
	if !strings.Contains(csp, "sandbox allow-popups") || !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "allow-scripts") {
		t.Errorf("policy of the frame is %q", csp)
	}
	if !strings.Contains(html, `<head><base target="_blank">`) || !strings.Contains(html, `src="data:image/png;base64,iVBORw0KGgo="`) {
		t.Errorf("document is %q", html)
	}
}

func TestSelects(t *testing.T) {
	c := running(t)
	for i, to := range []string{"ann@example.com", "bob@example.com", "Ann@Example.com"} {
		send(t, c, to, fmt.Sprintf("Subject: Number %d\n\nx\n", i+1))
	}
	for query, want := range map[string]string{
		"":                                   "Number 3,Number 2,Number 1",
		"?to=ANN@example.com":                "Number 3,Number 1",
		"?to=ann":                            "",
		"?to=ann@example.com&after=1":        "Number 3",
		"?limit=1":                           "Number 3",
		"?after=3&wait=0":                    "",
		"?to=" + url.QueryEscape("%@x\x00'"): "",
	} {
		var got []string
		for _, m := range list(t, c, query) {
			got = append(got, m.Subject)
		}
		if strings.Join(got, ",") != want {
			t.Errorf("GET /mails%s: %q, want %q", query, got, want)
		}
	}
	for path, want := range map[string]int{
		"/mails?limit=0": 400, "/mails?limit=x": 400, "/mails?after=-1": 400, "/mails?wait=31": 400,
		"/mails/4": 404, "/mails/x": 404, "/mails/-9223372036854775808": 404, "/m/4": 404, "/mails/1/files/0": 404, "/mails/1/files/-1": 404,
		"/other": 404, "/static/page.html": 404, "/static/style.css": 200, "/static/app.js": 200, "/m/1": 200,
	} {
		if resp, body := get(t, c, path); resp.StatusCode != want {
			t.Errorf("GET %s: %d %s, want %d", path, resp.StatusCode, body, want)
		}
	}
}

func TestWaitsForAMail(t *testing.T) {
	c := running(t)
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			if got := list(t, c, fmt.Sprintf("?wait=30&to=p%d@example.com", i)); len(got) != 1 || got[0].Subject != fmt.Sprint(i) {
				t.Errorf("waited for %d and got %+v", i, got)
			}
		})
	}
	for i := range 5 {
		send(t, c, fmt.Sprintf("p%d@example.com", i), fmt.Sprintf("Subject: %d\n\n", i))
	}
	wg.Wait()
}

func TestStopEndsWaiting(t *testing.T) {
	c := start(t, t.TempDir())
	answered := make(chan string, 1)
	go func() {
		w := httptest.NewRecorder()
		c.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/mails?wait=30", nil))
		answered <- w.Body.String()
	}()
	stop(t, c)
	select {
	case got := <-answered:
		if got != `{"mails":[]}` {
			t.Errorf("got %s", got)
		}
	case <-time.After(20 * time.Second):
		t.Error("a waiting request outlives the catcher")
	}
}

func TestRefusals(t *testing.T) {
	c := running(t)
	for to, want := range map[string]int{
		"ann@bounce.invalid": 550, "ann@a.Bounce.Invalid": 550, "ann@busy.invalid": 451, "ann@notbounce.invalid": 0,
		"buyer-1@rehearsal.invalid": 0,
	} {
		err := trySend(c, to, plain)
		var reply *textproto.Error
		if code := 0; errors.As(err, &reply) {
			code = reply.Code
			if code != want {
				t.Errorf("%s: %v, want %d", to, err, want)
			}
		} else if err != nil || want != 0 {
			t.Errorf("%s: %v, want %d", to, err, want)
		}
	}
	// Nobody reads what simulated people get.
	if got := list(t, c, ""); len(got) != 1 {
		t.Errorf("%d mails", len(got))
	}
	if err := trySend(c, "ann@example.com", "Subject: big\n\n"+strings.Repeat(strings.Repeat("x", 900)+"\n", 12_000)); err == nil {
		t.Error("a mail of 11 MB was taken")
	}
}

func TestHostileMails(t *testing.T) {
	c := running(t)
	deep := strings.Repeat("Content-Type: multipart/mixed; boundary=B\n\n--B\n", 50)
	for i, raw := range []string{
		"no header at all",
		"Subject: =?x?q?=?=\nContent-Type: multipart/mixed; boundary=\n\nx",
		"Subject: a\nContent-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: image/png\nContent-Transfer-Encoding: base64\n\n!!!!\n",
		"Subject: a\nContent-Type: text/plain; charset=klingon\n\n\xff\xfe",
		"Subject: <script>alert(1)</script>\nFrom: \"<img src=x>\" <a@b.c>\nContent-Type: text/html\n\n<script>alert(2)</script>",
		"Subject: " + strings.Repeat("長", 600) + "\n\nx",
		"Subject: deep\n" + deep,
		"Content-Type: multipart/mixed; boundary=B\n\n" + strings.Repeat("--B\nContent-Disposition: attachment\n\nx\n", 500),
	} {
		send(t, c, "ann@example.com", raw)
		for _, path := range []string{"/", "/m/%d", "/mails/%d", "/mails/%d/html", "/mails/%d/raw"} {
			if strings.Contains(path, "%d") {
				path = fmt.Sprintf(path, i+1)
			}
			resp, body := get(t, c, path)
			if resp.StatusCode != http.StatusOK {
				t.Errorf("mail %d: GET %s: %d", i+1, path, resp.StatusCode)
			}
			if strings.HasPrefix(path, "/m/") && strings.Contains(body, "<script>") {
				t.Errorf("mail %d runs on the page: %s", i+1, body)
			}
		}
	}
}

func TestPages(t *testing.T) {
	c := running(t)
	_, body := get(t, c, "/", "Accept-Language", "zh-TW,en;q=0.5")
	if !strings.Contains(body, `lang="zh-Hant"`) || !strings.Contains(body, "還沒有信件") {
		t.Errorf("page is %s", body)
	}
	send(t, c, "ann@example.com", plain)
	send(t, c, "bob@example.com", rich)
	resp, body := get(t, c, "/m/2?q=BOB", "Accept-Language", "fr")
	for _, want := range []string{`lang="en"`, `aria-current="page"`, `src="/mails/2/html"`, `sandbox="allow-popups`, "ticket 1.png", `value="BOB"`} {
		if !strings.Contains(body, want) {
			t.Errorf("page lacks %q: %s", want, body)
		}
	}
	if strings.Contains(body, "ann@example.com</bdi></span>") {
		t.Error("the filter does not filter")
	}
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("policy is %q", csp)
	}
}

func TestServesOnlyLoopbackNames(t *testing.T) {
	c := running(t)
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:80": 200, "127.0.0.1:1": 200, "[::1]:8025": 200, "mail.example": 200,
		"evil.example": 421, "127.0.0.1.evil.example": 421, "192.0.2.1": 421, "localhost.evil.example": 421,
	} {
		if resp, _ := get(t, c, "/mails", "Host", host); resp.StatusCode != want {
			t.Errorf("Host %s: %d, want %d", host, resp.StatusCode, want)
		}
	}
	for _, addr := range []string{"0.0.0.0:0", ":0"} {
		for _, cfg := range []mailcatch.Config{{SMTPAddr: addr, HTTPAddr: "127.0.0.1:0"}, {SMTPAddr: "127.0.0.1:0", HTTPAddr: addr}} {
			cfg.Dir = t.TempDir()
			if _, err := mailcatch.Start(cfg); err == nil {
				t.Errorf("listens on %+v", cfg)
			}
		}
	}
}

func TestRestartKeepsMails(t *testing.T) {
	dir := t.TempDir()
	c := start(t, dir)
	send(t, c, "ann@example.com", plain)
	send(t, c, "ann@example.com", rich)
	before := list(t, c, "")
	stop(t, c)
	// A crash in the middle of a line: the mail was never acknowledged.
	f, err := os.OpenFile(filepath.Join(dir, "mails.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"id":3,"raw":"cut of`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for range 2 {
		c = start(t, dir)
		if after := list(t, c, ""); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("after the restart: %+v, before: %+v", after, before)
		}
		stop(t, c)
	}
	c = start(t, dir)
	defer stop(t, c)
	send(t, c, "ann@example.com", plain)
	if got := list(t, c, "?limit=1"); got[0].ID != "3" {
		t.Errorf("next mail has id %s", got[0].ID)
	}
}
