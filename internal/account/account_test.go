package account_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/account"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
	"usher/internal/token"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// mailbox keeps what was sent.
type mailbox struct {
	mu   sync.Mutex
	sent []letter
	err  error
}

type letter struct{ to, code, locale string }

func (m *mailbox) SendCode(_ context.Context, to, code, locale string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = append(m.sent, letter{to, code, locale})
	return m.err
}

func (m *mailbox) last(t *testing.T) letter {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.sent) == 0 {
		t.Fatal("no code was sent")
	}
	return m.sent[len(m.sent)-1]
}

// bench is a directory with the accounts of one process.
type bench struct {
	*account.Accounts
	mails *mailbox
	pool  *pgxpool.Pool
	keys  *token.Keyring
}

func newBench(t *testing.T, limits account.Limits) *bench {
	t.Helper()
	url := pgtest.Database(t)
	homes, err := pg.Open(t.Context(), pg.Config{DirectoryURL: url, RoomURL: url})
	if err != nil {
		t.Fatalf("open homes: %v", err)
	}
	t.Cleanup(homes.Close)
	keys, err := token.NewKeyring(t.Context(), homes.Directory)
	if err != nil {
		t.Fatalf("new keyring: %v", err)
	}
	b := &bench{mails: &mailbox{}, pool: homes.Directory, keys: keys}
	b.Accounts = b.process(t, limits)
	return b
}

// process is another process on the same directory.
func (b *bench) process(t *testing.T, limits account.Limits) *account.Accounts {
	t.Helper()
	a, err := account.New(t.Context(), b.pool, b.keys, b.mails, limits)
	if err != nil {
		t.Fatalf("new accounts: %v", err)
	}
	return a
}

func (b *bench) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("exec: %v", err)
	}
}

func (b *bench) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("count: %v", err)
	}
	return n
}

// code asks for a code and returns what was sent.
func (b *bench) code(t *testing.T, email string) letter {
	t.Helper()
	if err := b.RequestCode(t.Context(), email, "en", netip.Addr{}); err != nil {
		t.Fatalf("request code for %s: %v", email, err)
	}
	return b.mails.last(t)
}

// signIn asks for a code and enters it.
func (b *bench) signIn(t *testing.T, email string) (string, account.Session) {
	t.Helper()
	text, s, err := b.SignIn(t.Context(), email, b.code(t, email).code, netip.Addr{})
	if err != nil {
		t.Fatalf("sign in %s: %v", email, err)
	}
	return text, s
}

func wantCode(t *testing.T, what string, err error, want usher.Code) {
	t.Helper()
	if usher.CodeOf(err) != want {
		t.Errorf("%s: %v, want code %q", what, err, want)
	}
}

// wrongCode is a code that is not the one given.
func wrongCode(code string) string {
	if code == "000000" {
		return "000001"
	}
	return "000000"
}

// message is what a client would be shown.
func message(t *testing.T, err error) usher.Error {
	t.Helper()
	var e *usher.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no coded error", err)
	}
	return usher.Error{Code: e.Code, Message: e.Message, RetryAfter: e.RetryAfter}
}
