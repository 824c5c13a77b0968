package ledger_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
)

// beside runs first up to its write, then second, which is another process's, until
// it waits for what the first one locked or has ended, and lets both end.
func (h *hall) beside(first, second func(*ledger.Ledger) error) (error, error) {
	h.t.Helper()
	reached, goOn := make(chan struct{}), make(chan struct{})
	disarm := fault.Arm("ledger.before_write", 1, func(context.Context) error {
		close(reached)
		<-goOn
		return nil
	})
	defer disarm()
	var wg sync.WaitGroup
	var errs [2]error
	wg.Go(func() { errs[0] = first(h.Ledger) })
	<-reached
	other, ended := h.process(), make(chan struct{})
	wg.Go(func() {
		defer close(ended)
		errs[1] = second(other)
	})
	pgtest.Until(h.t, "the second to wait", func() bool {
		select {
		case <-ended:
			return true
		default:
			return h.lockWaits() > 0
		}
	})
	close(goOn)
	wg.Wait()
	return errs[0], errs[1]
}

// lockWaits is how many sessions of the database wait for a row.
func (h *hall) lockWaits() (n int) {
	h.scan(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`, &n)
	return n
}

// keep locks a row as somebody else would, until release.
func (h *hall) keep(sql string) (release func()) {
	h.t.Helper()
	tx, err := h.pool.Begin(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	release = sync.OnceFunc(func() { _ = tx.Rollback(context.Background()) })
	h.t.Cleanup(release)
	for _, sql := range []string{`SET LOCAL idle_in_transaction_session_timeout = 0`, sql} {
		if _, err := tx.Exec(context.Background(), sql); err != nil {
			h.t.Fatalf("%s: %v", sql, err)
		}
	}
	return release
}

func moving(to, n int) func(*ledger.Ledger) error {
	return func(l *ledger.Ledger) error {
		return l.MoveCapacity(context.Background(), ledger.MoveCapacity{Event: fieldEvent, Tier: "lawn", From: 1, To: to, Quantity: n, By: staff})
	}
}

// Who waits for the buckets of a tier finds the ones made meanwhile.
func TestBucketMadeMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		moved  int
		second func(*hall) func(*ledger.Ledger) error
		free   []int
	}{
		"buyer": {10, func(h *hall) func(*ledger.Ledger) error {
			return func(l *ledger.Ledger) error {
				_, err := h.field(l, usher.NewAccountID(), "k", lawn(2))
				return err
			}
		}, []int{0, 8}},
		"move":           {3, func(*hall) func(*ledger.Ledger) error { return moving(2, 2) }, []int{5, 5}},
		"move elsewhere": {3, func(*hall) func(*ledger.Ledger) error { return moving(3, 2) }, []int{5, 3, 2}},
		"capacity": {4, func(*hall) func(*ledger.Ledger) error {
			return func(l *ledger.Ledger) error {
				return l.SetCapacity(context.Background(), ledger.SetCapacity{Event: fieldEvent, Tier: "lawn", Capacity: 10, By: staff})
			}
		}, []int{6, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newField(t, 10, 1, nil)
			first, second := h.beside(moving(2, c.moved), c.second(h))
			if first != nil || second != nil {
				t.Fatalf("%v, %v", first, second)
			}
			free, capacity := h.quota()
			if capacity != 10 || len(free) != len(c.free) {
				t.Fatalf("free %v of %d, want %v of 10", free, capacity, c.free)
			}
			for i, n := range c.free {
				if free[i] != n {
					t.Errorf("free %v, want %v", free, c.free)
				}
			}
		})
	}
}

// The maximum of payments under way is one of all processes together.
func TestPendingMaxOfTwoProcesses(t *testing.T) {
	h := newHall(t, 4, func(r *usher.Rules) { r.PendingPerEventMax = 1 })
	beginning := func(seat int) func(*ledger.Ledger) error {
		hold := h.mustPlace(usher.NewAccountID(), "k", seatID(seat))
		return func(l *ledger.Ledger) error {
			_, _, err := l.BeginPayment(context.Background(), ledger.BeginPayment{Hold: hold.ID, Account: hold.Account, Provider: "test", MethodToken: "m", Key: "c"})
			return err
		}
	}
	first, second := h.beside(beginning(0), beginning(1))
	if first != nil {
		t.Fatal(first)
	}
	wantCode(t, second, usher.CodePendingLimit)
}

// A COMMIT that takes longer than any lock is waited for keeps the ledger row locked.
// Who comes next waits in line: it is neither refused nor decided without its rows.
func TestLongCommitIsWaitedFor(t *testing.T) {
	h := newHall(t, 4, func(r *usher.Rules) { r.PendingPerEventMax = 3 })
	metrics := prometheus.NewRegistry()
	l := ledger.New(h.homes, ledger.WithLog(slog.New(slog.DiscardHandler)), ledger.WithMetrics(metrics))
	o, hold := h.mustBegin(h.mustPlace(usher.NewAccountID(), "k", seatID(0)), "c"), h.mustPlace(usher.NewAccountID(), "k", seatID(1))
	for name, call := range map[string]func() error{
		"confirm": func() error {
			_, err := l.ConfirmOrder(context.Background(), ledger.ConfirmOrder{Order: o.ID, Operation: o.Authorization.ID, Authorized: o.Amount})
			return err
		},
		"begin near the maximum": func() error {
			_, _, err := l.BeginPayment(context.Background(), ledger.BeginPayment{Hold: hold.ID, Account: hold.Account, Provider: "test", MethodToken: "m", Key: "c"})
			return err
		},
	} {
		turns := func() float64 { return reruns(t, metrics, "turn") }
		before := turns()
		release := h.keep(`SELECT 1 FROM event_ledger FOR NO KEY UPDATE`)
		done := make(chan error, 1)
		go func() { done <- call() }()
		pgtest.Until(t, name+": two turns passed", func() bool { return turns() == before+2 })
		release()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := reruns(t, metrics, "lock_timeout"); n != 0 {
			t.Errorf("%s: %v groups ran with skipped locks", name, n)
		}
	}
}

// reruns is how many groups were run again for the reason.
func reruns(t *testing.T, r *prometheus.Registry, reason string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "usher_ledger_group_reruns_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == reason {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// What is left beside a locked bucket is no count of what is left.
func TestLockedBucketIsBusy(t *testing.T) {
	h := newField(t, 10, 2, nil)
	h.keep(`SELECT 1 FROM inventory_bucket WHERE bucket = 1 FOR NO KEY UPDATE`)
	if _, err := h.field(h.Ledger, usher.NewAccountID(), "k", lawn(5)); err != nil {
		t.Errorf("five of the bucket that is not locked: %v", err)
	}
	_, err := h.field(h.Ledger, usher.NewAccountID(), "k", lawn(5))
	wantCode(t, err, usher.CodeBusy)
}

// A hold that lapses while a group waits for its locks is free for that group.
func TestLapsesWhileLocksAreWaitedFor(t *testing.T) {
	h := newField(t, 4, 1, nil)
	hold, err := h.field(h.Ledger, usher.NewAccountID(), "k", lawn(4))
	if err != nil {
		t.Fatal(err)
	}
	h.exec(h.pool, `UPDATE hold SET expires_at = clock_timestamp() + interval '500 ms' WHERE hold_id = $1`, hold.ID)
	release := h.keep(`SELECT 1 FROM inventory_bucket FOR NO KEY UPDATE`)
	done := make(chan error, 1)
	go func() {
		_, err := h.field(h.Ledger, usher.NewAccountID(), "k", lawn(2))
		done <- err
	}()
	pgtest.Until(t, "the hold to lapse while the buyer waits", func() bool {
		var over bool
		h.scan(`SELECT expires_at < clock_timestamp() FROM hold`, &over)
		return over && h.lockWaits() > 0
	})
	release()
	if err := <-done; err != nil {
		t.Errorf("the only hold was over before the decision: %v", err)
	}
	// What is not due is not looked for a second time.
	if _, err := h.field(h.Ledger, usher.NewAccountID(), "k", lawn(3)); usher.CodeOf(err) != usher.CodeSeatsUnavailable {
		t.Errorf("two of four are held: %v", err)
	}
}

// A transaction that adds an account and has not ended is waited for in line: the
// commands beside it are not turned away.
func TestAccountBeingAddedIsWaitedFor(t *testing.T) {
	h := newHall(t, 4, nil)
	metrics := prometheus.NewRegistry()
	l := ledger.New(h.homes, ledger.WithLog(slog.New(slog.DiscardHandler)), ledger.WithMetrics(metrics))
	a := usher.NewAccountID()
	release := h.keep(fmt.Sprintf(`INSERT INTO account_usage (event_id, account_id) VALUES (%d, '%x')`, testEvent, a[:]))
	done := make(chan error, 1)
	go func() {
		_, err := l.PlaceHold(context.Background(), ledger.PlaceHold{Event: testEvent, Account: a, Seats: seatIDs(0), Key: "k"})
		done <- err
	}()
	pgtest.Until(t, "two turns passed", func() bool { return reruns(t, metrics, "turn") == 2 })
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// However many holds are due, capacity is counted after all of them.
func TestCapacityAfterAllThatIsDue(t *testing.T) {
	const holds = 300
	h := newField(t, holds, 1, nil)
	var wg sync.WaitGroup
	for range holds {
		wg.Go(func() {
			if _, err := h.field(h.Ledger, usher.NewAccountID(), "k", lawn(1)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	h.exec(h.pool, `UPDATE hold SET expires_at = clock_timestamp() - interval '1 s'`)
	set := func(n int) error {
		return h.SetCapacity(t.Context(), ledger.SetCapacity{Event: fieldEvent, Tier: "lawn", Capacity: n, By: staff})
	}
	if err := set(1); err != nil {
		t.Errorf("all %d holds are over: %v", holds, err)
	}
	if err := set(holds); err != nil {
		t.Fatal(err)
	}
}

// An event takes two connections only where others are left with as many.
func TestPairsNeedRoom(t *testing.T) {
	url := pgtest.Database(t)
	for size, want := range map[int]bool{1: false, 3: false, 4: true} {
		homes, err := pg.Open(t.Context(), pg.Config{DirectoryURL: url, RoomURL: url, ShardURLs: map[pg.ShardNumber]string{1: url}, PoolSize: size})
		if err != nil {
			t.Fatal(err)
		}
		if got := ledger.RoomForPairs(homes); got != want {
			t.Errorf("%d connections: %v, want %v", size, got, want)
		}
		homes.Close()
	}
}
