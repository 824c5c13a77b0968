package pgproxy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"usher/internal/pg/pgproxy"
	"usher/internal/pg/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bench is a proxy with a connection through it and one beside it.
type bench struct {
	t       *testing.T
	proxy   *pgproxy.Proxy
	through *pgx.Conn
	beside  *pgx.Conn
}

func newBench(t *testing.T) *bench {
	url := pgtest.Database(t)
	p := pgproxy.Start(t, url)
	b := &bench{t: t, proxy: p, through: connect(t, p.URL()), beside: connect(t, url)}
	if _, err := b.beside.Exec(t.Context(), `CREATE TABLE public.note (n integer PRIMARY KEY)`); err != nil {
		t.Fatal(err)
	}
	return b
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// write inserts n in a transaction of its own and returns the error of its end.
func (b *bench) write(ctx context.Context, n int) error {
	tx, err := b.through.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO public.note VALUES ($1)`, n); err != nil {
		_ = tx.Rollback(ctx)
		return err
	}
	return tx.Commit(ctx)
}

func (b *bench) has(n int) bool {
	b.t.Helper()
	var there bool
	if err := b.beside.QueryRow(b.t.Context(), `SELECT EXISTS (SELECT FROM public.note WHERE n = $1)`, n).Scan(&there); err != nil {
		b.t.Fatal(err)
	}
	return there
}

func TestPassesEverything(t *testing.T) {
	b := newBench(t)
	if err := b.write(t.Context(), 1); err != nil || !b.has(1) {
		t.Fatalf("write: %v", err)
	}
	var text string
	if err := b.through.QueryRow(t.Context(), `SELECT repeat('x', 3000000)`).Scan(&text); err != nil || len(text) != 3000000 {
		t.Errorf("a large answer: %d bytes, %v", len(text), err)
	}
	if err := b.through.QueryRow(t.Context(), `SELECT $1::text || ''`, text).Scan(&text); err != nil || len(text) != 3000000 {
		t.Errorf("a large question: %d bytes, %v", len(text), err)
	}
	batch := &pgx.Batch{}
	for n := range 50 {
		batch.Queue(`INSERT INTO public.note VALUES ($1)`, 100+n)
	}
	if err := b.through.SendBatch(t.Context(), batch).Close(); err != nil || !b.has(149) {
		t.Errorf("batch: %v", err)
	}
}

// A statement is cancelled through the proxy as it is without it.
func TestCancel(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := b.through.Exec(ctx, `SELECT pg_sleep(60) /* slow */`)
		failed <- err
	}()
	running := func() (n int) {
		if err := b.beside.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%/* slow%' AND state = 'active' AND pid <> pg_backend_pid()`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	pgtest.Until(b.t, "the statement's start", func() bool { return running() == 1 })
	cancel()
	if err := <-failed; err == nil {
		t.Error("the statement was not cancelled")
	}
	pgtest.Until(b.t, "the statement's end", func() bool { return running() == 0 })
}

func TestActions(t *testing.T) {
	for _, tc := range []struct {
		name, sql string
		do        pgproxy.Action
		// fails and written say how the write ends; state is its SQLSTATE.
		fails, written bool
		state          string
	}{
		{"swallowed commit", "commit", pgproxy.SwallowAnswer(), true, true, ""},
		{"late commit", "COMMIT", pgproxy.Late(50 * time.Millisecond), true, true, ""},
		{"reset commit", "commit", pgproxy.Reset(), true, false, ""},
		{"reset write", "insert into public.note", pgproxy.Reset(), true, false, ""},
		{"delay", "commit", pgproxy.Delay(20 * time.Millisecond), false, true, ""},
		{"refused write", "insert into public.note", pgproxy.Refuse("40P01"), true, false, "40P01"},
		{"refused begin", "begin", pgproxy.Refuse("53300"), true, false, "53300"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			f := b.proxy.Arm(tc.sql, 1, tc.do)
			err := b.write(t.Context(), 1)
			if (err != nil) != tc.fails {
				t.Errorf("write: %v", err)
			}
			var pe *pgconn.PgError
			if tc.state != "" && (!errors.As(err, &pe) || pe.Code != tc.state) {
				t.Errorf("got %v, want SQLSTATE %s", err, tc.state)
			}
			if f.Fired() != 1 {
				t.Errorf("the fault fired %d times", f.Fired())
			}
			if tc.written {
				pgtest.Until(b.t, "the write", func() bool { return b.has(1) })
			} else if b.has(1) {
				t.Error("it was written")
			}
			if b.through.IsClosed() {
				b.through = connect(t, b.proxy.URL())
			}
			if err := b.write(t.Context(), 2); err != nil || !b.has(2) {
				t.Errorf("the next write: %v", err)
			}
		})
	}
}

// The refused statement of a batch ends it; what follows is not run.
func TestRefusedBatch(t *testing.T) {
	b := newBench(t)
	f := b.proxy.Arm("insert into public.note", 2, pgproxy.Refuse("40001"))
	tx, err := b.through.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	batch := &pgx.Batch{}
	for n := range 4 {
		batch.Queue(`INSERT INTO public.note VALUES ($1)`, n)
	}
	err = tx.SendBatch(t.Context(), batch).Close()
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || pe.Code != "40001" || b.through.PgConn().TxStatus() != 'E' {
		t.Errorf("got %v in state %c", err, b.through.PgConn().TxStatus())
	}
	if err := tx.Rollback(t.Context()); err != nil || b.has(0) || f.Fired() != 1 {
		t.Errorf("rollback: %v; fired %d times", err, f.Fired())
	}
	f.Disarm()
	if err := b.write(t.Context(), 1); err != nil {
		t.Errorf("the same connection afterwards: %v", err)
	}
}

func TestPasses(t *testing.T) {
	for _, tc := range []struct {
		name string
		pass int
		want [4]bool
	}{
		{"second", 2, [4]bool{false, true, false, false}},
		{"every", 0, [4]bool{true, true, true, true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			b.proxy.Arm("insert into public.note", tc.pass, pgproxy.Refuse("40001"))
			for n, want := range tc.want {
				if err := b.write(t.Context(), n); (err != nil) != want {
					t.Errorf("pass %d: %v", n+1, err)
				}
			}
		})
	}
}

func TestSilence(t *testing.T) {
	for _, tc := range []struct {
		name    string
		quieten func(*pgproxy.Proxy)
		written bool
	}{
		{"question", func(p *pgproxy.Proxy) { p.Arm("commit", 1, pgproxy.Silence()) }, false},
		{"answer", func(p *pgproxy.Proxy) { p.Arm("commit", 1, pgproxy.SilenceAnswer()) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			tc.quieten(b.proxy)
			done := make(chan error, 1)
			go func() { done <- b.write(t.Context(), 1) }()
			if tc.written {
				pgtest.Until(b.t, "the write", func() bool { return b.has(1) })
			}
			select {
			case err := <-done:
				t.Fatalf("the silent connection answered: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
			if b.has(1) != tc.written {
				t.Errorf("written: %v, want %v", b.has(1), tc.written)
			}
			b.proxy.Heal()
			if err := <-done; err != nil || !b.has(1) {
				t.Errorf("after the silence: %v", err)
			}
		})
	}
}

// A hushed proxy says nothing to new clients either; a cut one serves them.
func TestHushAndCut(t *testing.T) {
	b := newBench(t)
	b.proxy.Hush()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if c, err := pgx.Connect(ctx, b.proxy.URL()); err == nil {
		t.Error("a hushed proxy let a client in")
		_ = c.Close(ctx)
	}
	b.proxy.Heal()
	if err := b.write(t.Context(), 1); err != nil {
		t.Errorf("after the silence: %v", err)
	}
	b.proxy.Cut()
	if err := b.write(t.Context(), 2); err == nil {
		t.Error("a cut connection lives on")
	}
	b.through = connect(t, b.proxy.URL())
	if err := b.write(t.Context(), 3); err != nil {
		t.Errorf("a new connection: %v", err)
	}
}
