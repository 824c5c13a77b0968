// Package linetest gives tests a line to a database that they can cut and mend:
// to everybody on it the server is away, while it runs on for everybody else.
package linetest

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Line forwards connections to one database until it is cut.
type Line struct {
	url             string
	network, server string
	listener        net.Listener
	running         sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

// New returns a line to the database at the URL; it ends with the test.
func New(t testing.TB, databaseURL string) *Line {
	t.Helper()
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		t.Fatalf("linetest: read URL: %v", err)
	}
	// t.TempDir is too long for the path of a socket.
	dir, err := os.MkdirTemp("", "usher-line-")
	if err != nil {
		t.Fatalf("linetest: make folder: %v", err)
	}
	l := &Line{conns: map[net.Conn]bool{}}
	l.network, l.server = "tcp", net.JoinHostPort(cfg.Host, fmt.Sprint(cfg.Port))
	if strings.HasPrefix(cfg.Host, "/") {
		l.network, l.server = "unix", filepath.Join(cfg.Host, fmt.Sprintf(".s.PGSQL.%d", cfg.Port))
	}
	if l.listener, err = net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432")); err != nil {
		t.Fatalf("linetest: listen: %v", err)
	}
	l.url = fmt.Sprintf("postgres://%s@/%s?host=%s&port=5432", url.UserPassword(cfg.User, cfg.Password), url.PathEscape(cfg.Database), url.QueryEscape(dir))
	l.running.Go(l.accept)
	t.Cleanup(func() {
		_ = l.listener.Close()
		l.Cut()
		l.running.Wait()
		_ = os.RemoveAll(dir)
	})
	return l
}

// URL is the database's address on this line.
func (l *Line) URL() string { return l.url }

// Cut ends every connection and refuses new ones.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.conns {
		_ = c.Close()
	}
}

// Mend lets connections through again.
func (l *Line) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
}

func (l *Line) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.running.Go(func() { l.forward(client) })
	}
}

func (l *Line) forward(client net.Conn) {
	defer client.Close()
	server, err := net.Dial(l.network, l.server)
	if err != nil {
		return
	}
	defer server.Close()
	l.mu.Lock()
	if l.cut {
		l.mu.Unlock()
		return
	}
	l.conns[client], l.conns[server] = true, true
	l.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			// However one way ends, the other has nothing left to say.
			_, _ = io.Copy(way[1], way[0])
			_ = client.Close()
			_ = server.Close()
		})
	}
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, client)
	delete(l.conns, server)
}
