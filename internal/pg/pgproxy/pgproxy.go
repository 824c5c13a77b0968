// Package pgproxy stands between a test and its PostgreSQL, understands where
// messages begin and end and which statement they carry, and breaks exactly what
// a test names: it swallows the answer to COMMIT, keeps a COMMIT back until its
// sender has given up, resets, delays, refuses, or goes silent.
//
// What holds: without a fault every byte passes unchanged and in order; a fault
// acts on the connections whose statement it matches and on no other; a
// connection that a fault ended is ended on both sides.
package pgproxy

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Proxy is one listening proxy. It is safe for concurrent use.
type Proxy struct {
	url               string
	network, upstream string
	listener          net.Listener
	wg                sync.WaitGroup

	mu     sync.Mutex
	closed bool
	links  map[*link]bool
	faults []*Fault
	// silence is open while the whole proxy says nothing; nil otherwise.
	silence chan struct{}
}

// port is only a part of the socket's name.
const port = "5432"

// Start listens on a unix socket in front of the server that the URL names and
// ends with the test.
func Start(t testing.TB, upstreamURL string) *Proxy {
	t.Helper()
	p, err := listen(upstreamURL)
	if err != nil {
		t.Fatalf("pgproxy: %v", err)
	}
	t.Cleanup(p.close)
	return p
}

func listen(upstreamURL string) (*Proxy, error) {
	cfg, err := pgconn.ParseConfig(upstreamURL)
	if err != nil {
		return nil, fmt.Errorf("parse the server's URL: %w", err)
	}
	u, err := url.Parse(upstreamURL)
	if err != nil {
		return nil, fmt.Errorf("parse the server's URL: %w", err)
	}
	// Short, because a socket's path may have about a hundred bytes only.
	dir, err := os.MkdirTemp("", "pgproxy-")
	if err != nil {
		return nil, fmt.Errorf("make socket folder: %w", err)
	}
	p := &Proxy{links: map[*link]bool{}}
	p.network, p.upstream = pgconn.NetworkAddress(cfg.Host, cfg.Port)
	if p.listener, err = net.Listen("unix", filepath.Join(dir, ".s.PGSQL."+port)); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("listen: %w", err)
	}
	q := u.Query()
	q.Set("host", dir)
	q.Set("port", port)
	q.Set("sslmode", "disable")
	u.Host, u.RawQuery = "", strings.ReplaceAll(q.Encode(), "+", "%20")
	p.url = u.String()
	p.wg.Go(p.accept)
	return p, nil
}

// URL is the upstream URL with the proxy in the server's place.
func (p *Proxy) URL() string { return p.url }

// Cut resets every connection there is. New ones are served.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.end()
	}
}

// Hush makes every connection, new ones included, say nothing until Heal: bytes
// are accepted and kept, as on a network that lost its way.
func (p *Proxy) Hush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silence == nil {
		p.silence = make(chan struct{})
	}
}

// Heal ends the silence of Hush and of every connection that a fault silenced;
// what was kept back is delivered now.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silence != nil {
		close(p.silence)
		p.silence = nil
	}
	for l := range p.links {
		l.heal()
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Heal()
	_ = p.listener.Close()
	p.Cut()
	p.wg.Wait()
	_ = os.RemoveAll(filepath.Dir(p.listener.Addr().String()))
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(p.network, p.upstream)
		if err != nil {
			// The server is away: so is the proxy.
			_ = client.Close()
			continue
		}
		p.serve(&link{proxy: p, client: client, server: server, statements: map[string]string{}, ended: make(chan struct{})})
	}
}

func (p *Proxy) serve(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.end()
		return
	}
	p.links[l] = true
	var pumps sync.WaitGroup
	pumps.Go(l.fromClient)
	pumps.Go(l.fromServer)
	p.wg.Go(func() {
		pumps.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
}

func (p *Proxy) hushed() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silence
}
