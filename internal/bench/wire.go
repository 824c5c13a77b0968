package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// requestTimeout is when a request counts as one that got no answer.
const requestTimeout = 30 * time.Second

// wires are HTTP/1.1 connections to one server. The generator shares its machine
// with what it measures, so a request costs it a write and a read on a connection
// that it owns meanwhile, and no goroutine of its own.
type wires struct {
	host string
	dial func(ctx context.Context) (net.Conn, error)

	mu   sync.Mutex
	idle []*wire
}

// wire is one connection; one request at a time.
type wire struct {
	conn   net.Conn
	reader *bufio.Reader
	// used says that it has carried a request before: the server may have closed it.
	used bool
}

func newWires(base string) (*wires, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no address of a server", base)
	}
	addr := u.Host
	if u.Port() == "" {
		addr = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	w := &wires{host: u.Host}
	w.dial = func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", addr) }
	if u.Scheme == "https" {
		w.dial = func(ctx context.Context) (net.Conn, error) { return (&tls.Dialer{}).DialContext(ctx, "tcp", addr) }
	}
	return w, nil
}

// take returns the connection that was used last, or a new one.
func (w *wires) take(ctx context.Context) (*wire, error) {
	w.mu.Lock()
	if n := len(w.idle); n > 0 {
		c := w.idle[n-1]
		w.idle = w.idle[:n-1]
		w.mu.Unlock()
		return c, nil
	}
	w.mu.Unlock()
	conn, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &wire{conn: conn, reader: bufio.NewReaderSize(conn, 2048)}, nil
}

func (w *wires) put(c *wire) {
	c.used = true
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = append(w.idle, c)
}

// close closes what is idle.
func (w *wires) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.idle {
		_ = c.conn.Close()
	}
	w.idle = nil
}

// roundTrip sends a request and hands its answer to read, whose error is the
// request's. A connection that the server had closed meanwhile is replaced: every
// write of this package has a key or may be repeated.
func (w *wires) roundTrip(ctx context.Context, q call, read func(*http.Response) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request := q.encode(w.host)
	for {
		c, err := w.take(ctx)
		if err != nil {
			return err
		}
		keep, err := c.exchange(ctx, request, read)
		if keep {
			w.put(c)
			return err
		}
		_ = c.conn.Close()
		if !c.used || !errors.Is(err, errClosed) {
			return err
		}
	}
}

// errClosed says that a connection ended before the first byte of an answer.
var errClosed = errors.New("the server closed the connection")

// exchange tells whether the connection can carry another request.
func (c *wire) exchange(ctx context.Context, request []byte, read func(*http.Response) error) (keep bool, err error) {
	defer context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err = c.conn.Write(request); err == nil {
		_, err = c.reader.Peek(1)
	}
	switch {
	case ctx.Err() != nil:
		return false, fmt.Errorf("no answer: %w", ctx.Err())
	case err != nil:
		return false, fmt.Errorf("%w: %w", errClosed, err)
	}
	res, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return false, err
	}
	err = read(res)
	// A body that was read to its end leaves the connection clean.
	_, drained := io.Copy(io.Discard, res.Body)
	return drained == nil && !res.Close && ctx.Err() == nil, errors.Join(err, drained)
}

// encode is the request as it goes over the wire.
func (q call) encode(host string) []byte {
	var b bytes.Buffer
	b.Grow(512 + len(q.body))
	b.WriteString(q.method + " " + q.path + " HTTP/1.1\r\nHost: " + host + "\r\n")
	if q.token != "" {
		b.WriteString("Authorization: Bearer " + q.token + "\r\n")
	}
	for name, value := range q.header {
		b.WriteString(name + ": " + value + "\r\n")
	}
	if q.body != nil {
		media := q.media
		if media == "" {
			media = jsonMedia
		}
		b.WriteString("Content-Type: " + media + "\r\nContent-Length: " + strconv.Itoa(len(q.body)) + "\r\n")
	}
	b.WriteString("\r\n")
	b.Write(q.body)
	return b.Bytes()
}
