package seatmap

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"usher"
)

// fakeWriter is a connection whose deadlines work as net/http's do.
type fakeWriter struct {
	mu       sync.Mutex
	header   http.Header
	body     strings.Builder
	deadline time.Time
	deaf     bool
	stuck    bool // the reader takes nothing
}

func (w *fakeWriter) Header() http.Header { return w.header }
func (w *fakeWriter) WriteHeader(int)     {}
func (w *fakeWriter) Flush()              {}

func (w *fakeWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stuck {
		<-time.After(time.Until(w.deadline) + 1)
	}
	w.late()
	if w.deaf {
		return 0, errors.New("i/o timeout")
	}
	return w.body.Write(b)
}

func (w *fakeWriter) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline cannot move a deadline that has passed.
func (w *fakeWriter) SetWriteDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late()
	w.deadline = at
	return nil
}

func (w *fakeWriter) late() {
	if !w.deadline.IsZero() && time.Now().After(w.deadline) {
		w.deaf = true
	}
}

// A stream that is quiet for minutes beats, outlives the server's write limit,
// and still brings the change that comes at last.
func TestServeQuietStream(t *testing.T) {
	bubble(t, HubConfig{}, func(t *testing.T, h *Hub, home *fakeHome) {
		var v viewer
		v.snapshot(t, mustSnapshot(t, h))
		w := &fakeWriter{header: http.Header{}, deadline: time.Now().Add(30 * time.Second)}
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "GET", "/?after="+v.pos.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- Serve(w, r, mustSubscribe(t, h, From(r))) }()
		settle(3 * time.Minute)
		home.wakes(usher.SeatSold, 0, 5)
		settle(time.Second)
		cancel()
		if err := <-served; !errors.Is(err, context.Canceled) {
			t.Errorf("served until %v", err)
		}
		text := w.body.String()
		if n := strings.Count(text, "event: beat"); n < 12 || n > 14 {
			t.Errorf("%d heartbeats in 3 min", n)
		}
		if !strings.HasPrefix(text, "retry: 2000\n\n") || w.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("headers %v, begins %.40q", w.header, text)
		}
		if n := strings.Count(text, "event: frame"); n != 1 || !strings.Contains(text, `"changes":[[5,2]]`) {
			t.Errorf("%d frames", n)
		}
		synctest.Wait()
		if n := value(t, h.metrics.streams); n != 0 {
			t.Errorf("%v streams are left", n)
		}
	})
}

// A reader that takes nothing is cut, and its place is free again.
func TestServeStuckReader(t *testing.T) {
	bubble(t, HubConfig{}, func(t *testing.T, h *Hub, home *fakeHome) {
		w := &fakeWriter{header: http.Header{}, stuck: true}
		r, err := http.NewRequestWithContext(t.Context(), "GET", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := Serve(w, r, mustSubscribe(t, h, Position{})); err == nil {
			t.Error("no error")
		}
		if d := time.Since(began); d < 10*time.Second || d > 11*time.Second {
			t.Errorf("cut after %v", d)
		}
		if n := value(t, h.metrics.streams); n != 0 {
			t.Errorf("%v streams are left", n)
		}
	})
}

func TestFrom(t *testing.T) {
	for _, c := range []struct {
		query, last string
		want        Position
	}{
		{"", "", Position{}}, {"?after=3.4", "", Position{3, 4}}, {"?after=3.4", "5.6", Position{5, 6}}, {"?after=x", "", Position{}},
	} {
		r, err := http.NewRequest("GET", "/"+c.query, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Last-Event-ID", c.last)
		if got := From(r); got != c.want {
			t.Errorf("%q, %q: %v, want %v", c.query, c.last, got, c.want)
		}
	}
}

// serveHub runs a real server with a short write limit on a hub.
func serveHub(t *testing.T, h *Hub) (*http.Server, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{WriteTimeout: 50 * time.Millisecond, ReadTimeout: 50 * time.Millisecond, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			s, err := h.Subscribe(r.Context(), testEvent, From(r))
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			_ = Serve(w, r, s)
		})}
	server.RegisterOnShutdown(h.Close)
	go func() { _ = server.Serve(listener) }()
	return server, "http://" + listener.Addr().String()
}

// Over a real connection: a write limit does not make the stream deaf, and open
// streams do not keep the server from stopping.
func TestServeRealServer(t *testing.T) {
	home := newFakeHome(Club())
	h := newHub(HubConfig{FrameEvery: time.Millisecond, Poll: 10 * time.Millisecond}, home)
	defer h.Close()
	var v viewer
	v.snapshot(t, mustSnapshot(t, h))
	server, url := serveHub(t, h)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var streams []*http.Response
	for range 100 {
		res, err := client.Get(url + "/?after=" + v.pos.String())
		if err != nil {
			t.Fatalf("get: %v", err)
		}
		defer res.Body.Close()
		streams = append(streams, res)
	}
	first := bufio.NewReader(streams[0].Body)
	expect := func(want string) {
		for {
			line, err := first.ReadString('\n')
			if err != nil {
				t.Fatalf("waiting for %q: %v", want, err)
			}
			if strings.Contains(line, want) {
				return
			}
		}
	}
	expect("event: beat")
	// Longer than the server's limits: four changes, each seen before the next,
	// over at least four of them.
	began := time.Now()
	for i := 0; time.Since(began) < 200*time.Millisecond; i++ {
		home.commit([]usher.SeatStatus{usher.SeatSold, usher.SeatAvailable}[i%2], 0, 5)
		expect(`"changes":[[5,`)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		t.Fatalf("shutdown with open streams: %v", err)
	}
	for _, res := range streams[1:] {
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Errorf("stream ended with %v", err)
		}
	}
}
