package paysim

import (
	"context"
	"net"
	"sync"
	"time"
)

// gate is a listener that can close its port for a while, so that connections
// are really refused, and come back on the same address.
type gate struct {
	addr net.Addr
	// onRefuse is told when the port closes and opens again, to end idle connections.
	onRefuse func(closed bool)

	mu     sync.Mutex
	inner  net.Listener
	opened chan struct{} // closed when inner is usable, or the gate has ended
	ended  bool
}

func listen(addr string) (*gate, error) {
	inner, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	open := make(chan struct{})
	close(open)
	return &gate{addr: inner.Addr(), inner: inner, opened: open, onRefuse: func(bool) {}}, nil
}

// Addr implements net.Listener.
func (g *gate) Addr() net.Addr { return g.addr }

// Accept implements net.Listener; while the port is closed it waits.
func (g *gate) Accept() (net.Conn, error) {
	for {
		g.mu.Lock()
		opened := g.opened
		g.mu.Unlock()
		<-opened
		g.mu.Lock()
		inner, ended := g.inner, g.ended
		g.mu.Unlock()
		if ended {
			return nil, net.ErrClosed
		}
		conn, err := inner.Accept()
		if err == nil {
			return conn, nil
		}
		g.mu.Lock()
		same := g.inner == inner && !g.ended && g.opened == opened
		g.mu.Unlock()
		if same {
			return nil, err
		}
	}
}

// Close implements net.Listener.
func (g *gate) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return nil
	}
	g.ended = true
	select {
	case <-g.opened:
		return g.inner.Close()
	default:
		close(g.opened)
		return nil
	}
}

// refuse closes the port for d. A second call while it is closed changes nothing.
func (g *gate) refuse(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		return
	}
	if g.ended {
		return
	}
	g.opened = make(chan struct{})
	_ = g.inner.Close()
	g.onRefuse(true)
	time.AfterFunc(d, g.reopen)
}

// reopen takes the port back; while somebody else has it, it tries again.
func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	inner, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", g.addr.String())
	if err != nil {
		time.AfterFunc(50*time.Millisecond, g.reopen)
		return
	}
	g.inner = inner
	g.onRefuse(false)
	close(g.opened)
}
