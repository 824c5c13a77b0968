package waitingroom_test

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
	"usher/internal/token"
	"usher/internal/waitingroom"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const event usher.EventID = 7

// bench is one process's rooms on databases of its own.
type bench struct {
	t     *testing.T
	ctx   context.Context
	url   string
	homes *pg.Homes
	keys  *token.Keyring
	rooms *waitingroom.Rooms
	reg   *prometheus.Registry
}

// newBench makes a bench with a prequeue room of the event, called by hand: cap
// and rate are the test's means of saying who is called.
func newBench(t *testing.T, change ...func(*waitingroom.RoomSetup)) *bench {
	t.Helper()
	url := pgtest.Database(t)
	b := openBench(t, url, url)
	b.exec(b.homes.Directory, `INSERT INTO event_home (event_id, shard) VALUES ($1, 1)`, event)
	b.create(change...)
	b.setPhase(usher.QueuePrequeue)
	return b
}

func openBench(t *testing.T, url, shardURL string) *bench {
	t.Helper()
	ctx := context.Background()
	homes, err := pg.Open(ctx, pg.Config{
		DirectoryURL: url, RoomURL: url, ShardURLs: map[pg.ShardNumber]string{1: shardURL},
	})
	must(t, err)
	t.Cleanup(homes.Close)
	keys, err := token.NewKeyring(ctx, homes.Directory)
	must(t, err)
	b := &bench{t: t, ctx: ctx, url: url, homes: homes, keys: keys, reg: prometheus.NewRegistry()}
	b.rooms, err = waitingroom.New(ctx, waitingroom.Config{
		Homes: homes, Keys: keys, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Metrics: b.reg,
	})
	must(t, err)
	return b
}

// another is a second process on the same databases.
func (b *bench) another() *bench { b.t.Helper(); return openBench(b.t, b.url, b.url) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, want usher.Code) {
	t.Helper()
	if got := usher.CodeOf(err); got != want {
		t.Fatalf("got %q (%v), want %q", got, err, want)
	}
}

func (b *bench) exec(pool *pgxpool.Pool, sql string, args ...any) {
	b.t.Helper()
	_, err := pool.Exec(b.ctx, sql, args...)
	must(b.t, err)
}

func (b *bench) shard() *pgxpool.Pool {
	b.t.Helper()
	pool, err := b.homes.Shard(b.ctx, event)
	must(b.t, err)
	return pool
}

// scan reads one value.
func scan[T any](b *bench, pool *pgxpool.Pool, sql string, args ...any) (v T) {
	b.t.Helper()
	must(b.t, pool.QueryRow(b.ctx, sql, args...).Scan(&v))
	return v
}

func (b *bench) create(change ...func(*waitingroom.RoomSetup)) {
	b.t.Helper()
	s := waitingroom.RoomSetup{
		Event: event, PurchaseLimit: 6, RatePerSecond: 100_000, ActiveMax: 0,
		BucketTime: time.Millisecond, ClaimWindow: time.Minute, IdleWindow: 15 * time.Minute,
	}
	for _, c := range change {
		c(&s)
	}
	must(b.t, b.rooms.Create(b.ctx, s))
}

func (b *bench) setPhase(to usher.QueuePhase) {
	b.t.Helper()
	must(b.t, b.rooms.SetPhase(b.ctx, event, to))
}

func (b *bench) setCap(n int) { b.t.Helper(); must(b.t, b.rooms.SetCap(b.ctx, event, n)) }

func (b *bench) join(a usher.AccountID) waitingroom.Ticket {
	b.t.Helper()
	k, err := b.rooms.Join(b.ctx, event, a, waitingroom.Risk{})
	must(b.t, err)
	return k
}

// joinMany gives n accounts a place and returns them in the order of their numbers.
func (b *bench) joinMany(n int) []usher.AccountID {
	b.t.Helper()
	accounts := make([]usher.AccountID, n)
	var wg sync.WaitGroup
	for i := range accounts {
		accounts[i] = usher.NewAccountID()
		wg.Go(func() {
			if _, err := b.rooms.Join(b.ctx, event, accounts[i], waitingroom.Risk{}); err != nil {
				b.t.Errorf("join: %v", err)
			}
		})
	}
	wg.Wait()
	b.closeBucket()
	first := scan[int64](b, b.homes.Room, `SELECT next_number FROM queue_state WHERE event_id = $1`, event) - int64(n)
	ordered := make([]usher.AccountID, n)
	for _, a := range accounts {
		ordered[*b.me(a).Number-first] = a
	}
	return ordered
}

// closeBucket ticks until every place has its number: a bucket of a test lasts a
// millisecond.
func (b *bench) closeBucket() {
	b.t.Helper()
	for scan[int64](b, b.homes.Room, `SELECT bucket_size FROM queue_state WHERE event_id = $1`, event) > 0 {
		b.tick()
	}
}

func (b *bench) tick() { b.t.Helper(); must(b.t, b.rooms.Tick(b.ctx, event)) }

// call makes time pass for one tick, which calls whoever cap and rate allow.
func (b *bench) call() {
	b.t.Helper()
	b.exec(b.homes.Room, `UPDATE queue_state SET ticked_at = ticked_at - interval '1 second' WHERE event_id = $1`, event)
	b.tick()
}

// passOpenTime moves the room's own clock.
func (b *bench) passOpenTime(d time.Duration) {
	b.t.Helper()
	b.exec(b.homes.Room, `UPDATE queue_state SET open_ms = open_ms + $2 WHERE event_id = $1`, event, d.Milliseconds())
}

// passShopTime makes sessions older.
func (b *bench) passShopTime(d time.Duration) {
	b.t.Helper()
	b.exec(b.shard(), `UPDATE shopper_session SET expires_at = expires_at - make_interval(secs => $2) WHERE event_id = $1`,
		event, d.Seconds())
}

func (b *bench) me(a usher.AccountID) waitingroom.Ticket {
	b.t.Helper()
	k, err := b.rooms.Me(b.ctx, event, a)
	must(b.t, err)
	return k
}

func (b *bench) admit(a usher.AccountID) waitingroom.Admission {
	b.t.Helper()
	ad, err := b.rooms.Admit(b.ctx, event, a)
	must(b.t, err)
	return ad
}

// admitAll admits everybody at once and returns their tokens.
func (b *bench) admitAll(accounts []usher.AccountID) map[usher.AccountID]string {
	b.t.Helper()
	tokens := map[usher.AccountID]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, a := range accounts {
		wg.Go(func() {
			ad, err := b.rooms.Admit(b.ctx, event, a)
			if err != nil {
				b.t.Errorf("admit: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			tokens[a] = ad.Token
		})
	}
	wg.Wait()
	return tokens
}

func (b *bench) wantAdmit(a usher.AccountID, want usher.Code) {
	b.t.Helper()
	_, err := b.rooms.Admit(b.ctx, event, a)
	wantCode(b.t, err, want)
}

func (b *bench) wantStatus(a usher.AccountID, want waitingroom.PlaceStatus) {
	b.t.Helper()
	if got := b.me(a).Status; got != want {
		b.t.Fatalf("place is %s, want %s", got, want)
	}
}

func (b *bench) status() waitingroom.Status {
	b.t.Helper()
	s, err := b.rooms.Status(b.ctx, event)
	must(b.t, err)
	return s
}

// openTo opens the room with n people called, out of n who joined.
func (b *bench) openTo(n int) []usher.AccountID {
	b.t.Helper()
	accounts := b.joinMany(n)
	b.setCap(n)
	b.setPhase(usher.QueueOpen)
	b.call()
	return accounts
}

// tamper changes one character in the middle of a token.
func tamper(text string) string {
	b := []byte(text)
	i := len(b) / 2
	if b[i]++; b[i] > 'z' || b[i] < 'a' {
		b[i] = 'a'
	}
	return string(b)
}
