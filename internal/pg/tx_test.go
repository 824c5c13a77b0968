package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/fault"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
)

func openHomes(t *testing.T) *pg.Homes {
	t.Helper()
	url := pgtest.Database(t)
	homes, err := pg.Open(t.Context(), pg.Config{DirectoryURL: url, RoomURL: url, ShardURLs: map[pg.ShardNumber]string{1: url}, PoolSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(homes.Close)
	return homes
}

const insertHome = `INSERT INTO event_home (event_id, shard) VALUES ($1, 1)`

func homesOf(t *testing.T, p *pgxpool.Pool) (n int) {
	t.Helper()
	if err := p.QueryRow(t.Context(), `SELECT count(*) FROM event_home`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A commit outlives its caller: a browser that closes its tab must not turn a
// commit into a cancel.
func TestCommitIgnoresTheCallersEnd(t *testing.T) {
	p := openHomes(t).Directory
	ctx, cancel := context.WithCancel(t.Context())
	err := pg.InTx(ctx, p, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertHome, 1)
		cancel()
		return err
	})
	if err != nil || homesOf(t, p) != 1 {
		t.Errorf("%v, %d rows", err, homesOf(t, p))
	}
}

func TestInTx(t *testing.T) {
	p := openHomes(t).Directory
	boom := errors.New("boom")
	err := pg.InTx(t.Context(), p, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), insertHome, 1); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) || homesOf(t, p) != 0 {
		t.Errorf("an error must roll back: %v", err)
	}
	// What did nothing runs again, a bounded number of times.
	for _, state := range []string{"40001", "40P01", "25P03", "25P04"} {
		runs := 0
		err = pg.InTx(t.Context(), p, func(tx pgx.Tx) error {
			if runs++; runs < 3 {
				_, err := tx.Exec(t.Context(), `DO $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '`+state+`'; END $$`)
				return err
			}
			return nil
		})
		if err != nil || runs != 3 {
			t.Errorf("%s: %v after %d runs", state, err, runs)
		}
		runs = 0
		err = pg.InTx(t.Context(), p, func(tx pgx.Tx) error {
			runs++
			_, err := tx.Exec(t.Context(), `DO $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '`+state+`'; END $$`)
			return err
		})
		if e := (*usher.Error)(nil); !errors.As(err, &e) || e.Code != usher.CodeUnavailable || e.RetryAfter == 0 || runs != 4 {
			t.Errorf("%s every time: %v after %d runs", state, err, runs)
		}
	}
	defer fault.Arm("pg.after_commit", 1, fault.Fail)()
	err = pg.InTx(t.Context(), p, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), insertHome, 2)
		return err
	})
	if !errors.Is(err, pg.ErrCommitUnknown) || usher.CodeOf(err) != usher.CodeUnknown {
		t.Errorf("a lost answer: %v", err)
	}
	if err := pg.InTx(t.Context(), p, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), insertHome, 2)
		return err
	}); !pg.IsUnique(err, "event_home_pkey") || !pg.IsData(err) {
		t.Errorf("a second insert: %v", err)
	}
}

func TestHomes(t *testing.T) {
	homes := openHomes(t)
	if _, err := homes.Shard(t.Context(), 5); usher.CodeOf(err) != usher.CodeNotFound {
		t.Errorf("an event without a home: %v", err)
	}
	for event, shard := range map[int]int{5: 1, 6: 2} {
		if _, err := homes.Directory.Exec(t.Context(), `INSERT INTO event_home (event_id, shard) VALUES ($1, $2)`, event, shard); err != nil {
			t.Fatal(err)
		}
	}
	p, err := homes.Shard(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := homes.Shard(t.Context(), 6); usher.CodeOf(err) != usher.CodeUnavailable {
		t.Errorf("a shard that is not configured: %v", err)
	}
	// A pool sees its own kind of home alone.
	if _, err := p.Exec(t.Context(), `SELECT 1 FROM event_home`); pg.State(err) != "42P01" {
		t.Errorf("a shard's pool sees the directory: %v", err)
	}
	// What is known needs no directory any more.
	homes.Directory.Close()
	if again, err := homes.Shard(t.Context(), 5); err != nil || again != p {
		t.Errorf("without the directory: %v", err)
	}
}

func TestOpenSaysWhatToDo(t *testing.T) {
	for _, url := range []string{"postgres://secret:word@127.0.0.1:1/x", "postgres://secret:word@%zz", "://"} {
		_, err := pg.Open(t.Context(), pg.Config{DirectoryURL: url, RoomURL: url})
		if usher.CodeOf(err) != usher.CodeUnavailable || strings.Contains(err.Error(), "word") || !strings.Contains(err.Error(), "directory") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestOpenWantsMigratedDatabases(t *testing.T) {
	url := pgtest.Database(t)
	homes, err := pg.Open(t.Context(), pg.Config{DirectoryURL: url, RoomURL: url, ShardURLs: map[pg.ShardNumber]string{1: url}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := homes.Directory.Exec(t.Context(), `DROP SCHEMA room CASCADE`); err != nil {
		t.Fatal(err)
	}
	homes.Close()
	_, err = pg.Open(t.Context(), pg.Config{DirectoryURL: url, RoomURL: url, ShardURLs: map[pg.ShardNumber]string{1: url}})
	if usher.CodeOf(err) != usher.CodeUnavailable || !strings.Contains(err.Error(), "usher migrate") {
		t.Errorf("%v", err)
	}
}

func TestUnavailable(t *testing.T) {
	p := openHomes(t).Directory
	state := func(s string) error {
		_, err := p.Exec(t.Context(), `DO $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '`+s+`'; END $$`)
		return err
	}
	for s, code := range map[string]usher.Code{
		"57014": usher.CodeUnavailable, "55P03": usher.CodeUnavailable, "25006": usher.CodeUnavailable, "53300": usher.CodeUnavailable,
		"23505": usher.CodeInternal, "22021": usher.CodeInternal,
	} {
		if err := pg.Unavailable(state(s)); usher.CodeOf(err) != code {
			t.Errorf("%s: %v", s, err)
		}
	}
	// Who asked, or the process, was gone, or time was over, before it was done.
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		err := pg.Unavailable(fmt.Errorf("read: %w", cause))
		if usher.CodeOf(err) != usher.CodeUnavailable || !errors.Is(err, cause) {
			t.Errorf("%v: %v", cause, err)
		}
	}
	if pg.Unavailable(nil) != nil || usher.CodeOf(pg.Unavailable(usher.Errorf(usher.CodeNotFound, "x"))) != usher.CodeNotFound {
		t.Error("what has a code keeps it")
	}
}
