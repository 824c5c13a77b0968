package pg_test

import (
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"usher"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
)

// pooler stands before the database like a connection pooler. It returns the URL
// with its address in the server's place; start decides what becomes of a
// start-up message.
func pooler(t *testing.T, upstream string, start func(client net.Conn, m *pgproto3.StartupMessage) bool) string {
	t.Helper()
	cfg, err := pgconn.ParseConfig(upstream)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go relay(client, cfg, start)
		}
	}()
	u := url.URL{Scheme: "postgres", User: url.UserPassword(cfg.User, cfg.Password), Host: l.Addr().String(), Path: "/" + cfg.Database, RawQuery: "sslmode=disable"}
	return u.String()
}

func relay(client net.Conn, cfg *pgconn.Config, start func(net.Conn, *pgproto3.StartupMessage) bool) {
	defer client.Close()
	m, err := pgproto3.NewBackend(client, client).ReceiveStartupMessage()
	first, ok := m.(*pgproto3.StartupMessage)
	if err != nil || !ok || !start(client, first) {
		return
	}
	network, address := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	server, err := net.Dial(network, address)
	if err != nil {
		return
	}
	defer server.Close()
	f := pgproto3.NewFrontend(server, server)
	f.Send(first)
	if f.Flush() != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}

// P59: what stands between usher and its database and does not keep a session's
// settings is refused at start, with words that say so.
func TestOpenRefusesPoolers(t *testing.T) {
	upstream := pgtest.Database(t)
	for name, start := range map[string]func(net.Conn, *pgproto3.StartupMessage) bool{
		"refuses settings": func(client net.Conn, _ *pgproto3.StartupMessage) bool {
			b := pgproto3.NewBackend(client, client)
			b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "08P01", Message: "unsupported startup parameter: search_path"})
			_ = b.Flush()
			return false
		},
		"drops settings": func(_ net.Conn, m *pgproto3.StartupMessage) bool {
			for k := range m.Parameters {
				if k != "user" && k != "database" {
					delete(m.Parameters, k)
				}
			}
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := pooler(t, upstream, start)
			_, err := pg.Open(t.Context(), pg.Config{DirectoryURL: at, RoomURL: at, ShardURLs: map[pg.ShardNumber]string{1: at}})
			if usher.CodeOf(err) != usher.CodeUnavailable || !strings.Contains(err.Error(), "connection pooler") || strings.Contains(err.Error(), at) {
				t.Errorf("opened through it: %v", err)
			}
		})
	}
	at := pooler(t, upstream, func(net.Conn, *pgproto3.StartupMessage) bool { return true })
	homes, err := pg.Open(t.Context(), pg.Config{DirectoryURL: at, RoomURL: at, ShardURLs: map[pg.ShardNumber]string{1: at}})
	if err != nil {
		t.Fatalf("through something that passes everything on: %v", err)
	}
	homes.Close()
}
