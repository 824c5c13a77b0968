package waitingroom_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg/pgtest"
	"usher/internal/waitingroom"
)

// proxy stands between a process and its shard, and can take the shard away.
type proxy struct {
	t       *testing.T
	url     string
	address string
	network string
	server  string

	mu       sync.Mutex
	listener net.Listener
	silent   bool
	conns    []net.Conn
	wg       sync.WaitGroup
}

// newProxy forwards to the database of the URL.
func newProxy(t *testing.T, databaseURL string) *proxy {
	t.Helper()
	c, err := pgx.ParseConfig(databaseURL)
	must(t, err)
	p := &proxy{t: t, address: "127.0.0.1:0", network: "tcp", server: net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))}
	if strings.HasPrefix(c.Host, "/") {
		p.network, p.server = "unix", filepath.Join(c.Host, ".s.PGSQL."+strconv.Itoa(int(c.Port)))
	}
	p.up()
	t.Cleanup(func() {
		p.cut()
		p.wg.Wait()
	})
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(c.User, c.Password), Host: p.address, Path: "/" + c.Database,
		RawQuery: "sslmode=disable",
	}
	p.url = u.String()
	return p
}

// up lets connections through.
func (p *proxy) up() {
	p.t.Helper()
	p.closeAll()
	l, err := net.Listen("tcp", p.address)
	must(p.t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener, p.address, p.silent = l, l.Addr().String(), false
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
}

// cut closes every connection and refuses new ones.
func (p *proxy) cut() { p.closeAll() }

// hush keeps connections open and passes nothing on, as a lost host does.
func (p *proxy) hush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = true
}

func (p *proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
	}
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns, p.listener = nil, nil
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial(p.network, p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	p.wg.Go(func() { p.copy(server, client) })
	p.copy(client, server)
}

func (p *proxy) copy(to, from net.Conn) {
	defer to.Close()
	b := make([]byte, 32*1024)
	for {
		n, err := from.Read(b)
		p.mu.Lock()
		silent := p.silent
		p.mu.Unlock()
		if n > 0 && !silent {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				p.t.Logf("proxy: %v", err)
			}
			return
		}
	}
}

// TestHomeShardDown: joins, documents and places go on; nobody is called or
// admitted, no turn is lost, and all goes on when the shard is back.
func TestHomeShardDown(t *testing.T) {
	for name, down := range map[string]func(*proxy){"refused": (*proxy).cut, "silent": (*proxy).hush} {
		t.Run(name, func(t *testing.T) {
			// They mostly wait for time limits.
			t.Parallel()
			p := newProxy(t, pgtest.Database(t))
			b := openBench(t, pgtest.Database(t), p.url)
			b.exec(b.homes.Directory, `INSERT INTO event_home (event_id, shard) VALUES ($1, 1)`, event)
			b.create()
			b.setPhase(usher.QueuePrequeue)
			accounts := b.openTo(3)
			b.admit(accounts[0])
			must(t, b.rooms.EndSession(b.ctx, accounts[1], b.admit(accounts[1]).Session))

			down(p)
			late := b.checkWithoutShard(accounts)

			p.up()
			b.admit(accounts[2])
			b.call()
			b.admit(late[1])
			if k := b.join(accounts[1]); k.Turn != 2 {
				t.Fatalf("rejoined as %+v", k)
			}
		})
	}
}

// checkWithoutShard expects the first account admitted, the second one's session
// ended and the third called. It returns two people who joined meanwhile.
func (b *bench) checkWithoutShard(accounts []usher.AccountID) []usher.AccountID {
	b.t.Helper()
	for _, i := range []int{2, 0} {
		b.wantAdmit(accounts[i], usher.CodeUnavailable)
	}
	b.setCap(50)
	late := b.joinMany(2)
	before, left := b.status().Serving, b.me(accounts[2]).ClaimWithin
	// The last sign of life gets old.
	b.exec(b.homes.Room, `UPDATE queue_state SET ticked_at = ticked_at - interval '6 seconds'`)
	b.tick()
	if s := b.status(); s.Serving != before || s.Active != nil {
		b.t.Fatalf("status is %+v, want nobody called", s)
	}
	must(b.t, b.rooms.Refresh(b.ctx))
	if n := b.now(); n["admitting"] != false || n["waiting"] != 2.0 {
		b.t.Fatalf("document says %v", n)
	}
	if k := b.me(accounts[2]); k.Status != waitingroom.PlaceCalled || k.ClaimWithin != left {
		b.t.Fatalf("the turn ran while the shard was away: %+v", k)
	}
	// Whether a used turn is over nobody can tell now, so it stays what it is.
	if k := b.join(accounts[1]); !k.Replayed {
		b.t.Fatal("a second place was given on a guess")
	}
	return late
}
