package bench

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// echo answers with what it was sent, and counts connections by their address.
type echo struct {
	mu    sync.Mutex
	peers map[string]int
	// hangUp closes the connection after each answer without saying so.
	hangUp bool
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.peers[r.RemoteAddr]++
	e.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	switch r.URL.Path {
	case "/hang":
		<-r.Context().Done()
		return
	case "/big":
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		return
	}
	w.Header().Set("X-Method", r.Method)
	_, _ = io.WriteString(w, `{"host":"`+r.Host+`","auth":"`+r.Header.Get("Authorization")+`","type":"`+r.Header.Get("Content-Type")+
		`","more":"`+r.Header.Get("Usher-Admission")+`","body":"`+string(body)+`"}`)
	if e.hangUp {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = buf.Flush()
			_ = conn.Close()
		}
	}
}

func startEcho(t *testing.T, e *echo) *caller {
	e.peers = map[string]int{}
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	c, err := newCaller(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

// Requests arrive as they were meant, one after the other on one connection,
// whatever became of the bodies of the answers.
func TestWire(t *testing.T) {
	e := &echo{}
	c := startEcho(t, e)
	var got struct{ Host, Auth, Type, More, Body string }
	q := call{method: "POST", path: "/x?y=1", token: "tok", body: []byte("hello"), header: map[string]string{"Usher-Admission": "adm"}}
	if status, err := c.do(t.Context(), q, &got); err != nil || status != 200 {
		t.Fatalf("%d, %v", status, err)
	}
	if got.Host != c.host || got.Auth != "Bearer tok" || got.Type != "application/json" || got.More != "adm" || got.Body != "hello" {
		t.Errorf("arrived as %+v", got)
	}
	for _, q := range []call{{method: "GET", path: "/big"}, {method: "GET", path: "/x"}, {method: "PUT", path: "/x", media: "text/csv", body: []byte("1")}} {
		got.Type = ""
		var out any
		if q.media != "" {
			out = &got
		}
		if status, err := c.do(t.Context(), q, out); err != nil || status != 200 {
			t.Errorf("%s %s: %d, %v", q.method, q.path, status, err)
		}
	}
	if got.Type != "text/csv" || got.Auth != "" {
		t.Errorf("the file arrived as %+v", got)
	}
	if len(e.peers) != 1 {
		t.Errorf("%d connections", len(e.peers))
	}
	if _, err := c.do(t.Context(), call{method: "GET", path: "/big"}, &got); err == nil {
		t.Error("what is no JSON was decoded")
	}
}

// A connection that the server closed meanwhile is replaced; a request that gets
// no answer ends with its context; a server that is away is told.
func TestWireBreaks(t *testing.T) {
	e := &echo{hangUp: true}
	c := startEcho(t, e)
	for range 3 {
		if status, err := c.do(t.Context(), call{method: "GET", path: "/x"}, nil); status != 200 {
			t.Fatalf("%d, %v", status, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := c.do(ctx, call{method: "GET", path: "/hang"}, nil)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a request that was given up: %v", err)
	}
	away, err := newCaller("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := away.do(t.Context(), call{method: "GET", path: "/x"}, nil); err == nil {
		t.Error("nobody answered, and nobody says so")
	}
	for _, bad := range []string{"", "127.0.0.1:80", "ftp://x", "http://"} {
		if _, err := newCaller(bad); err == nil {
			t.Errorf("%q is an address", bad)
		}
	}
}
