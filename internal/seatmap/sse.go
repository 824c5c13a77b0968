package seatmap

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// beatEvery is how often a quiet stream says that it lives.
	beatEvery = 15 * time.Second
	// writeTimeout bounds one write: a reader that takes nothing for so long is cut.
	writeTimeout = 10 * time.Second
	// retryMillis is how long a browser waits before it connects again.
	retryMillis = 2000
)

// From returns the position a request for the stream continues from: the
// browser's Last-Event-ID if it reconnects, else the query's "after"; the zero
// position if there is none, or none that can be read.
func From(r *http.Request) Position {
	id := r.Header.Get("Last-Event-ID")
	if id == "" {
		id = r.URL.Query().Get("after")
	}
	p, _ := ParsePosition(id)
	return p
}

// Serve writes the stream as server-sent events until the reader goes away,
// takes nothing for 10 s, or the stream ends; then it closes the stream. The
// returned error says why: context.Canceled, io.EOF and timeouts are ordinary.
func Serve(w http.ResponseWriter, r *http.Request, s *Stream) error {
	defer s.Close()
	rc := http.NewResponseController(w)
	// The server's own time limits are for requests that end; past its deadline a
	// connection would go deaf without a word. Each write gets its own instead,
	// and none is left standing: a deadline that has passed cannot be moved.
	if err := errors.Join(rc.SetReadDeadline(time.Time{}), rc.SetWriteDeadline(time.Time{})); err != nil {
		return fmt.Errorf("lift deadlines of stream: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	// For nginx, which would otherwise keep events back.
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	hello := append(fmt.Appendf(nil, "retry: %d\n\n", retryMillis), s.Beat()...)
	if err := write(w, rc, [][]byte{hello}); err != nil {
		return err
	}
	for {
		messages, err := nextOrBeat(r.Context(), s)
		if err != nil {
			return err
		}
		if err := write(w, rc, messages); err != nil {
			return err
		}
	}
}

// nextOrBeat waits for messages, but not longer than a heartbeat.
func nextOrBeat(ctx context.Context, s *Stream) ([][]byte, error) {
	wait, cancel := context.WithTimeout(ctx, beatEvery)
	defer cancel()
	messages, err := s.Next(wait)
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		return [][]byte{s.Beat()}, nil
	}
	return messages, err
}

func write(w http.ResponseWriter, rc *http.ResponseController, messages [][]byte) error {
	if err := rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return fmt.Errorf("set write deadline of stream: %w", err)
	}
	for _, m := range messages {
		if _, err := w.Write(m); err != nil {
			return fmt.Errorf("write to stream: %w", err)
		}
	}
	if err := rc.Flush(); err != nil {
		return fmt.Errorf("write to stream: %w", err)
	}
	return rc.SetWriteDeadline(time.Time{})
}

// ServeSnapshot answers a request with a snapshot: 304 when the reader has it,
// compressed when the reader can take that. The caller sets Cache-Control.
func ServeSnapshot(w http.ResponseWriter, r *http.Request, e Encoded) {
	h := w.Header()
	h.Set("ETag", e.ETag)
	h.Add("Vary", "Accept-Encoding")
	for tag := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if tag = strings.TrimSpace(tag); tag == e.ETag || tag == "*" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Type", "application/json")
	body := e.Body
	if acceptsGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body = e.Gzip
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	if r.Method != http.MethodHead {
		// A reader that went away is no failure of ours.
		_, _ = w.Write(body)
	}
}

// acceptsGzip reads Accept-Encoding; "gzip;q=0" is a no.
func acceptsGzip(accept string) bool {
	for item := range strings.SplitSeq(accept, ",") {
		coding, params, _ := strings.Cut(item, ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			q := strings.ReplaceAll(params, " ", "")
			return q != "q=0" && !strings.HasPrefix(q, "q=0.0")
		}
	}
	return false
}
