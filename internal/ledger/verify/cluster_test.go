package verify_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/pg/embedded"
	"usher/internal/pg/pgtest"
)

// cluster is a PostgreSQL of one test, whose clock it moves or which it crashes.
type cluster struct {
	t     *testing.T
	cfg   embedded.Config
	c     *embedded.Cluster
	clock string
}

// startCluster starts and migrates one. With a time, its clock stands still there.
func startCluster(t *testing.T, at time.Time) *cluster {
	t.Helper()
	dir := t.TempDir()
	k := &cluster{t: t, clock: filepath.Join(dir, "clock"), cfg: embedded.Config{
		DataDir: filepath.Join(dir, "pg"), Settings: map[string]string{"shared_buffers": "32MB"},
	}}
	if !at.IsZero() {
		k.set(at)
		// PostgreSQL measures by the monotonic clock how long it waits: that one stays.
		k.cfg.Env = []string{"LD_PRELOAD=" + libfaketime(t), "FAKETIME_TIMESTAMP_FILE=" + k.clock, "FAKETIME_NO_CACHE=1",
			"FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"}
	}
	k.start()
	t.Cleanup(func() {
		if err := k.c.Stop(context.Background()); err != nil {
			t.Errorf("stop cluster: %v", err)
		}
	})
	if err := pg.Migrate(t.Context(), k.url()); err != nil {
		t.Fatalf("migrate: %v", err)
	}
	return k
}

// libfaketime finds the library that Debian's package faketime installs.
func libfaketime(t *testing.T) string {
	t.Helper()
	for _, pattern := range []string{"/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1", "/usr/lib64/faketime/libfaketime.so.1"} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	t.Fatal("libfaketime is needed to move the database's clock: install the package faketime")
	return ""
}

func (k *cluster) start() {
	k.t.Helper()
	c, err := embedded.Start(context.Background(), k.cfg)
	if err != nil {
		k.t.Fatalf("start cluster: %v", err)
	}
	k.c = c
}

func (k *cluster) url() string { return k.c.URL("postgres") }

// crash ends the server without a shutdown and starts it again: it recovers from
// its log.
func (k *cluster) crash() {
	k.t.Helper()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if err := k.c.Stop(over); err != nil {
		k.t.Fatalf("crash cluster: %v", err)
	}
	k.start()
}

// set stops the clock at a time. The half microsecond keeps rounding from making
// it a microsecond earlier.
func (k *cluster) set(at time.Time) {
	k.t.Helper()
	next := k.clock + ".next"
	text := at.UTC().Add(500 * time.Nanosecond).Format("2006-01-02 15:04:05.000000000")
	err := os.WriteFile(next, []byte(text+"\n"), 0o644)
	if err == nil {
		err = os.Rename(next, k.clock)
	}
	if err != nil {
		k.t.Fatalf("set clock: %v", err)
	}
}

// The database crashes and recovers at every boundary of a hold: what it had
// committed is there, what it had not is done by the next try, once.
func TestMatrixDatabaseCrash(t *testing.T) {
	k := startCluster(t, time.Time{})
	h := newHallOn(t, k.url(), 10, nil)
	for i, tc := range []struct {
		name, point string
		// undecided says that the first answer may be "unavailable": nothing was done.
		undecided bool
		then      error
	}{
		{"B02 inside the transaction/P", "ledger.before_write", true, nil},
		{"B03 before COMMIT/P", "pg.before_commit", false, nil},
		{"B03 after COMMIT/P", "pg.after_commit", false, fault.ErrInjected},
		{"B04 before the answer/P", "ledger.after_commit", false, fault.ErrInjected},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := h.in(t)
			a := usher.NewAccountID()
			disarm := fault.Arm(tc.point, 1, func(context.Context) error { k.crash(); return tc.then })
			defer disarm()
			_, err := h.PlaceHold(t.Context(), placing(a, "k", seatID(i)))
			if code := usher.CodeOf(err); code != "" && code != usher.CodeUnknown && (code != usher.CodeUnavailable || !tc.undecided) {
				t.Errorf("first answer: %v", err)
			}
			h.shard().Reset()
			if fault.Passes(tc.point) == 0 {
				t.Fatal("the database did not crash")
			}
			var hold ledger.Hold
			pgtest.Until(t, "an answer", func() bool {
				hold, err = h.PlaceHold(t.Context(), placing(a, "k", seatID(i)))
				return err == nil
			})
			h.wantSeat(seatID(i), usher.SeatHeld, hold.ID)
			if n := h.count(ledger.EntryHoldPlaced); n != i+1 {
				t.Errorf("%d holds were placed, want %d", n, i+1)
			}
		})
	}
	t.Run("B05 the deadline passes/P", func(t *testing.T) {
		h := h.in(t)
		old := h.mustPlace(usher.NewAccountID(), "k", seatID(9))
		h.expireIn(old, 0)
		k.crash()
		h.shard().Reset()
		l := h.process()
		b := usher.NewAccountID()
		hold, err := l.PlaceHold(t.Context(), placing(b, "k", seatID(9)))
		if err != nil {
			t.Fatal(err)
		}
		h.wantSeat(seatID(9), usher.SeatHeld, hold.ID)
	})
}
