package baseline_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/bench/baseline"
	"usher/internal/ledger"
	"usher/internal/pg/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const event = usher.EventID(9)

// newHolds sets an event of 20 seats up.
func newHolds(t *testing.T) (baseline.Holds, *ledger.Ledger) {
	t.Helper()
	homes := pgtest.Homes(t, pgtest.Database(t))
	if _, err := homes.Directory.Exec(t.Context(), `INSERT INTO event_home (event_id, shard) VALUES ($1, 1)`, event); err != nil {
		t.Fatal(err)
	}
	rules := usher.DefaultRules("TWD")
	rules.Sale, rules.AdmissionRequired = usher.SaleOpen, false
	setup := ledger.Setup{Event: event, Rules: rules, Tiers: []ledger.Tier{{ID: "g", Name: "G", Price: usher.Money{AmountMinor: 100, Currency: "TWD"}}}}
	for i := range 20 {
		setup.Seats = append(setup.Seats, ledger.SeatSetup{ID: seat(i), Tier: "g"})
	}
	l := ledger.New(homes, ledger.WithLog(slog.New(slog.DiscardHandler)))
	if err := l.SetUp(t.Context(), setup); err != nil {
		t.Fatal(err)
	}
	rules, _, err := l.Rules(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	pool := homes.Shards()[0].Pool
	if _, err := pool.Exec(t.Context(), baseline.Tables); err != nil {
		t.Fatal(err)
	}
	return baseline.Holds{Pool: pool, Event: event, Rules: rules}, l
}

func seat(i int) usher.SeatID { return usher.SeatID(fmt.Sprintf("S%02d", i)) }

// Every alternative that is compared grants each seat once, or the comparison
// would flatter it.
func TestAlternativesGrantOnce(t *testing.T) {
	h, _ := newHolds(t)
	queue := baseline.NewQueued(&h, true)
	ctx, stop := context.WithCancel(context.Background())
	var consumer sync.WaitGroup
	consumer.Go(func() { queue.Run(ctx) })
	defer consumer.Wait()
	defer stop()
	for i, p := range []interface {
		Place(context.Context, usher.AccountID, []usher.SeatID, string) error
	}{
		&h, baseline.Swap(h), queue,
		&baseline.Leased{Holds: &h, Service: h.Pool}, &baseline.Leased{Holds: &h, Service: h.Pool, Durable: true},
	} {
		var won atomic.Int32
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				err := p.Place(context.Background(), usher.NewAccountID(), []usher.SeatID{seat(i)}, "k")
				if err == nil {
					won.Add(1)
				} else if !errors.Is(err, baseline.ErrTaken) {
					t.Errorf("alternative %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		if won.Load() > 1 || i < 3 && won.Load() != 1 {
			t.Errorf("alternative %d has %d winners", i, won.Load())
		}
	}
}

// A lease without a fence grants twice when its holder pauses: the lock service
// gives the seat to the next one, and the paused writer, who was told that it has
// the lock, writes after all. The ledger's own rule refuses the late writer.
func TestPausedLeaseHolderGrantsTwice(t *testing.T) {
	h, l := newHolds(t)
	conn, err := h.Pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	owner := map[usher.SeatID]usher.AccountID{} // a store that trusts the lock
	write := func(a usher.AccountID) { owner[seat(0)] = a }
	paused, other := usher.NewAccountID(), usher.NewAccountID()
	acquire := func(a usher.AccountID) bool {
		ok, err := baseline.Acquire(t.Context(), conn, a, seat(0), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if !acquire(paused) || acquire(other) {
		t.Fatal("the lease does not exclude")
	}
	// The holder pauses here, between the lock and the write, past the lease.
	if _, err := conn.Exec(t.Context(), `UPDATE bench_lease SET until = clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
	if !acquire(other) {
		t.Fatal("the lease does not end")
	}
	write(other)
	write(paused)
	if owner[seat(0)] != paused {
		t.Error("the paused holder did not overwrite the next one's grant: nothing is shown")
	}
	// The same two through the ledger: the second one is refused, however late.
	if _, err := l.PlaceHold(t.Context(), ledger.PlaceHold{Event: event, Account: other, Seats: []usher.SeatID{seat(0)}, Key: "k"}); err != nil {
		t.Fatal(err)
	}
	_, err = l.PlaceHold(t.Context(), ledger.PlaceHold{Event: event, Account: paused, Seats: []usher.SeatID{seat(0)}, Key: "k"})
	if usher.CodeOf(err) != usher.CodeSeatsUnavailable {
		t.Errorf("the late writer: %v", err)
	}
}

// A group over two databases without two-phase commit is half held when its
// coordinator dies in between.
func TestCoordinatorDiesBetweenHalves(t *testing.T) {
	a, _ := newHolds(t)
	b, _ := newHolds(t)
	halves := baseline.Halves{A: a.Pool, B: b.Pool}
	died := errors.New("coordinator died")
	err := halves.Apart(t.Context(), "alice", "S00", "S01", func() error { return died })
	if !errors.Is(err, died) {
		t.Fatal(err)
	}
	if n, m := owned(t, a.Pool), owned(t, b.Pool); n != 1 || m != 0 {
		t.Errorf("%d and %d seats are held, want the half group 1 and 0", n, m)
	}
	if err := halves.Apart(t.Context(), "bob", "S02", "S01", nil); err != nil {
		t.Fatalf("the other half is free for anybody: %v", err)
	}
}

func owned(t *testing.T, p *pgxpool.Pool) (n int) {
	t.Helper()
	if err := p.QueryRow(t.Context(), `SELECT count(*) FROM bench_half WHERE owner <> ''`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
