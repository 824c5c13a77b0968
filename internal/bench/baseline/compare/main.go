// Command compare measures the other ways of placing holds beside the ledger, in
// one run on one private cluster with fsync on, for docs/decisions. It prints one
// line per contender. Every contender has the same effects (except the two halves,
// which only take seats), a fresh event, and the same stream of requests: each
// seat is asked for by the given number of callers, one after the other.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/bench/baseline"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/pg/embedded"
)

func main() {
	seconds := flag.Float64("seconds", 3, "how long each contender is measured")
	same := flag.Int("same", 1, "how many callers ask for each seat")
	flag.Parse()
	r := &runner{length: time.Duration(*seconds * float64(time.Second)), same: int64(*same)}
	if err := r.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

type runner struct {
	length time.Duration
	same   int64
	homes  *pg.Homes
	pool   *pgxpool.Pool
	last   usher.EventID
}

const (
	tier  = usher.TierID("standard")
	seats = 30_000
)

func (r *runner) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "usher-compare-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cluster, err := embedded.Start(ctx, embedded.Config{DataDir: dir, Durable: true, Log: slog.New(slog.DiscardHandler),
		Settings: map[string]string{"max_prepared_transactions": "64"}})
	if err != nil {
		return err
	}
	defer func() { _ = cluster.Stop(ctx) }()
	url := cluster.URL("postgres")
	if err := pg.Migrate(ctx, url); err != nil {
		return err
	}
	r.homes, err = pg.Open(ctx, pg.Config{DirectoryURL: url, RoomURL: url, ShardURLs: map[pg.ShardNumber]string{1: url}, PoolSize: 40})
	if err != nil {
		return err
	}
	defer r.homes.Close()
	r.pool = r.homes.Shards()[0].Pool
	if _, err := r.pool.Exec(ctx, baseline.Tables); err != nil {
		return err
	}
	for _, phase := range []func(context.Context) error{r.ledgerPhase, r.naivePhases, r.otherPhases, r.halfPhases} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return nil
}

// place asks for one seat.
type place func(ctx context.Context, a usher.AccountID, seat usher.SeatID) error

// measure runs callers in a closed loop and prints what they reached.
func (r *runner) measure(ctx context.Context, name string, callers int, ask place) error {
	ctx, cancel := context.WithTimeout(ctx, r.length)
	defer cancel()
	var next, held, taken atomic.Int64
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	begin := time.Now()
	for range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				n := (next.Add(1) - 1) / r.same
				err := ask(context.WithoutCancel(ctx), usher.NewAccountID(), seat(int(n%seats)))
				switch {
				case err == nil:
					held.Add(1)
				case errors.Is(err, baseline.ErrTaken):
					taken.Add(1)
				default:
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(begin).Seconds()
	fmt.Printf("%-34s callers %4d  held/s %7.0f  taken/s %7.0f  decided/s %7.0f\n", name, callers,
		float64(held.Load())/took, float64(taken.Load())/took, float64(held.Load()+taken.Load())/took)
	return failed
}

func seat(i int) usher.SeatID { return usher.SeatID(fmt.Sprintf("S%05d", i)) }

// event sets a fresh event up.
func (r *runner) event(ctx context.Context) (baseline.Holds, *ledger.Ledger, error) {
	r.last++
	rules := usher.DefaultRules("TWD")
	rules.Sale, rules.AdmissionRequired, rules.PurchaseLimit = usher.SaleOpen, false, 1000
	if _, err := r.homes.Directory.Exec(ctx, `INSERT INTO event_home (event_id, shard) VALUES ($1, 1)`, r.last); err != nil {
		return baseline.Holds{}, nil, err
	}
	setup := ledger.Setup{Event: r.last, Rules: rules, Tiers: []ledger.Tier{{ID: tier, Name: "Standard", Price: usher.Money{AmountMinor: 100000, Currency: "TWD"}}}}
	for i := range seats {
		setup.Seats = append(setup.Seats, ledger.SeatSetup{ID: seat(i), Tier: tier})
	}
	l := ledger.New(r.homes)
	if err := l.SetUp(ctx, setup); err != nil {
		return baseline.Holds{}, nil, err
	}
	for _, sql := range []string{"VACUUM (ANALYZE) seat_inventory", "CHECKPOINT"} {
		if _, err := r.pool.Exec(ctx, sql); err != nil {
			return baseline.Holds{}, nil, err
		}
	}
	rules, _, err := l.Rules(ctx, r.last)
	return baseline.Holds{Pool: r.pool, Event: r.last, Rules: rules}, l, err
}

func (r *runner) ledgerPhase(ctx context.Context) error {
	h, l, err := r.event(ctx)
	if err != nil {
		return err
	}
	return r.measure(ctx, "ledger, groups", 512, func(ctx context.Context, a usher.AccountID, s usher.SeatID) error {
		_, err := l.PlaceHold(ctx, ledger.PlaceHold{Event: h.Event, Account: a, Seats: []usher.SeatID{s}, Key: "k"})
		if usher.CodeOf(err) == usher.CodeSeatsUnavailable {
			return baseline.ErrTaken
		}
		return err
	})
}

// placer is an alternative.
type placer interface {
	Place(ctx context.Context, a usher.AccountID, seats []usher.SeatID, key string) error
}

func by(p placer) place {
	return func(ctx context.Context, a usher.AccountID, s usher.SeatID) error {
		return p.Place(ctx, a, []usher.SeatID{s}, "k")
	}
}

func (r *runner) naivePhases(ctx context.Context) error {
	for _, callers := range []int{2, 4, 8, 16} {
		h, _, err := r.event(ctx)
		if err == nil {
			err = r.measure(ctx, "transaction each, row locks", callers, by(&h))
		}
		if err != nil {
			return err
		}
		if h, _, err = r.event(ctx); err == nil {
			err = r.measure(ctx, "transaction each, compare-and-swap", callers, by(baseline.Swap(h)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) otherPhases(ctx context.Context) error {
	for _, durable := range []bool{false, true} {
		h, _, err := r.event(ctx)
		if err != nil {
			return err
		}
		q := baseline.NewQueued(&h, durable)
		consumer, stop := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { q.Run(consumer) })
		err = r.measure(ctx, fmt.Sprintf("queue, one consumer, durable %v", durable), 16, by(q))
		stop()
		wg.Wait()
		if err != nil {
			return err
		}
		if h, _, err = r.event(ctx); err != nil {
			return err
		}
		l := &baseline.Leased{Holds: &h, Service: r.homes.Room, Durable: durable}
		if durable {
			l.Service = r.pool
		}
		if err := r.measure(ctx, fmt.Sprintf("lock service, durable %v", durable), 8, by(l)); err != nil {
			return err
		}
	}
	return nil
}

// halfPhases takes pairs of seats. Both halves are in one database here, which
// flatters the way over two: its four commits share one log.
func (r *runner) halfPhases(ctx context.Context) error {
	h := baseline.Halves{A: r.pool, B: r.pool}
	for _, way := range []struct {
		name string
		take func(ctx context.Context, owner, a, b string) error
	}{
		{"pair of seats, one transaction", h.Together},
		{"pair of seats, two-phase commit", func(ctx context.Context, owner, a, b string) error { return h.TwoPhase(ctx, owner, a, b, nil) }},
	} {
		err := r.measure(ctx, way.name, 8, func(ctx context.Context, a usher.AccountID, _ usher.SeatID) error {
			return way.take(ctx, a.String(), way.name+a.String()+"a", way.name+a.String()+"b")
		})
		if err != nil {
			return err
		}
	}
	return nil
}
