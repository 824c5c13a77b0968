package work_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/fault"
	"usher/internal/pg/pgtest"
	"usher/internal/work"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// waitMax bounds every wait of a test; reaching it is a failure.
const waitMax = 20 * time.Second

var jobTable = work.Table{Name: "job", Key: "job_id"}

type bench struct {
	pool   *pgxpool.Pool
	runner *work.Runner
	log    *bytes.Buffer
	reg    *prometheus.Registry
}

// setup gives a fresh table of jobs and a runner that is not running yet.
func setup(t *testing.T) *bench {
	t.Helper()
	url := pgtest.Database(t)
	homes := pgtest.Homes(t, url)
	b := &bench{pool: homes.Shards()[0].Pool, log: new(bytes.Buffer)}
	b.exec(t, `CREATE TABLE job (job_id uuid PRIMARY KEY, kind text NOT NULL DEFAULT 'a', next_at timestamptz,
		attempts integer NOT NULL DEFAULT 0, lease_until timestamptz, last_error text NOT NULL DEFAULT '', parked_at timestamptz)`)
	b.exec(t, `CREATE INDEX job_due ON job (next_at) WHERE next_at IS NOT NULL AND parked_at IS NULL`)
	b.renew()
	return b
}

// renew makes another runner on the same table, as a second process would.
func (b *bench) renew() *work.Runner {
	b.reg = prometheus.NewRegistry()
	b.runner = work.NewRunner(slog.New(slog.NewTextHandler(&lockedWriter{w: b.log}, nil)), b.reg)
	return b.runner
}

type lockedWriter struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func (b *bench) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// insert adds n rows that are due after the given time, numbered from first.
func (b *bench) insert(t *testing.T, first, n int, in time.Duration) {
	t.Helper()
	for i := range n {
		b.exec(t, `INSERT INTO job (job_id, next_at) VALUES ($1, clock_timestamp() + make_interval(secs => $2))`, id(first+i), in.Seconds())
	}
}

func id(n int) [16]byte {
	var b [16]byte
	binary.BigEndian.PutUint64(b[8:], uint64(n))
	return b
}

func number(id [16]byte) int { return int(binary.BigEndian.Uint64(id[8:])) }

type row struct {
	due, leased, parked bool
	dueIn               time.Duration
	attempts            int
	lastError           string
}

func (b *bench) row(t *testing.T, n int) row {
	t.Helper()
	var r row
	var secs float64
	err := b.pool.QueryRow(t.Context(), `SELECT next_at IS NOT NULL, COALESCE(lease_until > clock_timestamp(), false), parked_at IS NOT NULL,
		COALESCE(EXTRACT(EPOCH FROM next_at - clock_timestamp()), 0)::float8, attempts, last_error FROM job WHERE job_id = $1`, id(n)).
		Scan(&r.due, &r.leased, &r.parked, &secs, &r.attempts, &r.lastError)
	if err != nil {
		t.Fatal(err)
	}
	r.dueIn = time.Duration(secs * float64(time.Second))
	return r
}

// start runs the runner until the test ends or stop is called.
func start(t *testing.T, r *work.Runner) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("Run = %v, want the context's cause", err)
				}
			case <-time.After(waitMax):
				t.Error("Run does not end")
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func receive[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(waitMax):
		t.Fatalf("no %s within %s", what, waitMax)
		panic("unreachable")
	}
}

// eventually waits until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(waitMax)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("never: %s", what)
		}
	}
}

func TestTwoRunnersShareRowsAndRunEachOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const rows = 300
	b.insert(t, 0, rows, -time.Second)
	var runs [rows]atomic.Int32
	var total atomic.Int32
	all := make(chan struct{})
	h := func(_ context.Context, j work.Job) work.Verdict {
		runs[number(j.ID)].Add(1)
		if total.Add(1) == rows {
			close(all)
		}
		return work.Done()
	}
	opts := work.Options{Batch: 7, Workers: 5, Poll: 10 * time.Millisecond}
	for range 2 {
		r := b.renew()
		r.Add("q", b.pool, jobTable, opts, h)
		start(t, r)
	}
	receive(t, all, "last row")
	for i := range runs {
		if n := runs[i].Load(); n != 1 {
			t.Errorf("row %d ran %d times", i, n)
		}
	}
	eventually(t, "all rows done", func() bool {
		var due int
		if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM job WHERE next_at IS NOT NULL OR lease_until IS NOT NULL`).Scan(&due); err != nil {
			t.Fatal(err)
		}
		return due == 0
	})
}

func TestWakeRunsWithoutPollLatency(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ran := make(chan int, 1)
	b.runner.Add("q", b.pool, jobTable, work.Options{Poll: time.Hour}, func(_ context.Context, j work.Job) work.Verdict {
		ran <- number(j.ID)
		return work.Done()
	})
	start(t, b.runner)
	for i := range 5 {
		b.insert(t, i, 1, 0)
		b.runner.Wake("q")
		if got := receive(t, ran, "run"); got != i {
			t.Fatalf("ran row %d, want %d", got, i)
		}
	}
	b.runner.Wake("nobody works this here")
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		verdict work.Verdict
		during  string // what the row's owner commits while the handler runs
		want    func(row) bool
	}{
		{"done", work.Done(), "", func(r row) bool { return !r.due && !r.parked && r.lastError == "" }},
		{"again", work.Again(time.Minute, "not yet"), "",
			func(r row) bool {
				return r.due && r.dueIn > 50*time.Second && r.dueIn < 70*time.Second && r.lastError == "not yet"
			}},
		{"zero verdict runs again", work.Verdict{}, "", func(r row) bool { return r.due && r.dueIn > 0 && r.lastError == "no verdict" }},
		{"park", work.Park("hopeless"), "", func(r row) bool { return r.parked && r.lastError == "hopeless" }},
		{"done, but made due again meanwhile", work.Done(), `UPDATE job SET next_at = clock_timestamp() + interval '1 minute'`,
			func(r row) bool { return r.due && r.dueIn > 50*time.Second }},
		{"again, but made due sooner meanwhile", work.Again(time.Hour, "x"), `UPDATE job SET next_at = clock_timestamp() + interval '1 minute'`,
			func(r row) bool { return r.due && r.dueIn < 70*time.Second }},
		{"again, but settled meanwhile", work.Again(time.Minute, "x"), `UPDATE job SET next_at = NULL`, func(r row) bool { return !r.due }},
		{"park, but settled meanwhile", work.Park("x"), `UPDATE job SET next_at = NULL`, func(r row) bool { return !r.due && !r.parked }},
		{"long and broken reason", work.Park(strings.Repeat("ä", 400) + "\xff"), "",
			func(r row) bool { return r.parked && len(r.lastError) <= 500 && strings.HasPrefix(r.lastError, "ää") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.insert(t, 1, 1, time.Hour)
			b.runner.Add("q", b.pool, jobTable, work.Options{}, func(ctx context.Context, j work.Job) work.Verdict {
				if tt.during != "" {
					b.exec(t, tt.during)
				}
				return tt.verdict
			})
			ran, err := b.runner.RunNow(t.Context(), "q", id(1))
			if !ran || err != nil {
				t.Fatalf("RunNow = %v, %v", ran, err)
			}
			if r := b.row(t, 1); r.leased || r.attempts != 1 || !tt.want(r) {
				t.Errorf("row = %+v", r)
			}
		})
	}
}

func TestBadRowsBlockNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const panics, hangs = 1, 2
	b.insert(t, panics, 1, -time.Hour)
	b.insert(t, hangs, 1, -time.Hour)
	b.insert(t, 10, 50, -time.Second)
	good := make(chan int, 50)
	b.runner.Add("q", b.pool, jobTable, work.Options{Batch: 2, Workers: 2, Poll: 10 * time.Millisecond},
		func(ctx context.Context, j work.Job) work.Verdict {
			switch number(j.ID) {
			case panics:
				panic("broken row")
			case hangs:
				<-ctx.Done()
				return work.Again(time.Hour, "hung")
			}
			good <- number(j.ID)
			return work.Done()
		})
	stop := start(t, b.runner)
	for range 50 {
		receive(t, good, "good row")
	}
	eventually(t, "panicking row parked", func() bool { return b.row(t, panics).parked })
	stop()
	if r := b.row(t, hangs); r.parked || r.leased || r.lastError != "hung" {
		t.Errorf("hanging row = %+v, want it back in the queue", r)
	}
	if !strings.Contains(b.log.String(), "broken row") || !strings.Contains(b.log.String(), "work_test.go") {
		t.Error("the panic and its stack are not in the log")
	}
}

func TestLeases(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.insert(t, 1, 3, -time.Second)
	b.exec(t, `UPDATE job SET attempts = 4, lease_until = clock_timestamp() + interval '1 hour' WHERE job_id = $1`, id(1))
	b.exec(t, `UPDATE job SET attempts = 4, lease_until = clock_timestamp() - interval '1 ms' WHERE job_id = $1`, id(2))
	b.exec(t, `UPDATE job SET parked_at = clock_timestamp() WHERE job_id = $1`, id(3))
	ran := make(chan work.Job, 3)
	b.runner.Add("q", b.pool, jobTable, work.Options{Poll: 10 * time.Millisecond}, func(_ context.Context, j work.Job) work.Verdict {
		ran <- j
		return work.Done()
	})
	start(t, b.runner)
	if j := receive(t, ran, "row of a dead runner"); number(j.ID) != 2 || j.Attempts != 5 {
		t.Errorf("ran %d at attempt %d, want 2 at 5", number(j.ID), j.Attempts)
	}
	for _, n := range []int{1, 3} {
		if ok, err := b.runner.RunNow(t.Context(), "q", id(n)); ok || err != nil {
			t.Errorf("RunNow of leased or parked row %d = %v, %v", n, ok, err)
		}
	}
	if len(ran) != 0 {
		t.Errorf("ran %d", number((<-ran).ID))
	}
}

func TestVerdictOfALostLeaseChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for n, v := range []work.Verdict{work.Done(), work.Again(time.Hour, "mine"), work.Park("mine")} {
		b.insert(t, n, 1, -time.Minute)
		name := fmt.Sprint("q", n)
		b.runner.Add(name, b.pool, jobTable, work.Options{}, func(context.Context, work.Job) work.Verdict {
			// The lease ran out and another runner claimed the row.
			b.exec(t, `UPDATE job SET lease_until = clock_timestamp() + interval '1 hour', last_error = 'theirs' WHERE job_id = $1`, id(n))
			return v
		})
		if ok, err := b.runner.RunNow(t.Context(), name, id(n)); !ok || err != nil {
			t.Fatalf("RunNow = %v, %v", ok, err)
		}
		if r := b.row(t, n); !r.due || !r.leased || r.parked || r.lastError != "theirs" {
			t.Errorf("%s: row = %+v, want the other runner's", v, r)
		}
	}
}

func TestRunNowExcludesOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.insert(t, 1, 1, time.Hour)
	var now, most, runs atomic.Int32
	release := make(chan struct{})
	b.runner.Add("q", b.pool, jobTable, work.Options{}, func(ctx context.Context, _ work.Job) work.Verdict {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		runs.Add(1)
		if _, ok := ctx.Deadline(); !ok {
			t.Error("the handler has no deadline")
		}
		<-release
		return work.Done()
	})
	var wg sync.WaitGroup
	var refused atomic.Int32
	for range 20 {
		wg.Go(func() {
			ok, err := b.runner.RunNow(context.Background(), "q", id(1))
			if err != nil {
				t.Error(err)
			}
			// The last of the losers lets the winner finish.
			if !ok && refused.Add(1) == 19 {
				close(release)
			}
		})
	}
	wg.Wait()
	if runs.Load() != 1 || most.Load() != 1 {
		t.Errorf("%d runs, %d at once, want 1", runs.Load(), most.Load())
	}
	if ok, err := b.runner.RunNow(t.Context(), "q", id(1)); ok || err != nil {
		t.Errorf("RunNow of a row that is done = %v, %v", ok, err)
	}
	if _, err := b.runner.RunNow(t.Context(), "nothing", id(1)); err == nil {
		t.Error("RunNow of an unknown queue succeeds")
	}
}

func TestQueuesOfOneTableAreApart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.insert(t, 1, 2, -time.Second)
	b.exec(t, `UPDATE job SET kind = 'b' WHERE job_id = $1`, id(2))
	got := make(chan string, 2)
	for _, kind := range []string{"a", "b"} {
		only := jobTable
		only.Only = "kind = '" + kind + "'"
		b.runner.Add(kind, b.pool, only, work.Options{}, func(_ context.Context, j work.Job) work.Verdict {
			got <- fmt.Sprint(kind, number(j.ID))
			return work.Done()
		})
	}
	start(t, b.runner)
	a, c := receive(t, got, "run"), receive(t, got, "run")
	if a > c {
		a, c = c, a
	}
	if a != "a1" || c != "b2" {
		t.Errorf("ran %s and %s", a, c)
	}
}

func TestRunnerSurvivesLostConnections(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ran := make(chan int, 10)
	b.runner.Add("q", b.pool, jobTable, work.Options{Poll: 5 * time.Millisecond}, func(_ context.Context, j work.Job) work.Verdict {
		ran <- number(j.ID)
		return work.Done()
	})
	start(t, b.runner)
	for i := range 5 {
		// A connection that died in the round before may still be in the pool.
		eventually(t, "all other connections die", func() bool {
			_, err := b.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid()`)
			return err == nil
		})
		eventually(t, "insert works", func() bool {
			_, err := b.pool.Exec(t.Context(), `INSERT INTO job (job_id, next_at) VALUES ($1, clock_timestamp()) ON CONFLICT DO NOTHING`, id(i))
			return err == nil
		})
		receive(t, ran, "run after the connections died")
	}
}

// A claim whose COMMIT got no answer is found out: nobody waits for a lease that
// nobody runs. It shares the process's fault points, so nothing runs beside it.
func TestClaimInDoubtIsFoundOut(t *testing.T) {
	b := setup(t)
	b.insert(t, 1, 2, -time.Second)
	b.insert(t, 9, 1, time.Hour)
	ran := make(chan int, 3)
	b.runner.Add("q", b.pool, jobTable, work.Options{Poll: time.Hour}, func(_ context.Context, j work.Job) work.Verdict {
		ran <- number(j.ID)
		return work.Done()
	})
	disarm := fault.Arm("pg.after_commit", 1, fault.Fail)
	defer disarm()
	if ok, err := b.runner.RunNow(t.Context(), "q", id(9)); !ok || err != nil {
		t.Errorf("RunNow with its claim in doubt = %v, %v", ok, err)
	}
	receive(t, ran, "row 9")
	disarm()
	disarm = fault.Arm("pg.after_commit", 1, fault.Fail)
	start(t, b.runner)
	if n := receive(t, ran, "row") + receive(t, ran, "row"); n != 3 {
		t.Errorf("ran rows that sum up to %d, want 1 and 2", n)
	}
	if fault.Passes("pg.after_commit") == 0 {
		t.Error("nothing was in doubt")
	}
	disarm()
}

func TestParkedAndRedrive(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.insert(t, 1, 3, -time.Second)
	b.exec(t, `UPDATE job SET parked_at = clock_timestamp() - interval '1 s' * $2, attempts = 9, last_error = 'bad' WHERE job_id = $1`, id(1), 1)
	b.exec(t, `UPDATE job SET parked_at = clock_timestamp() - interval '1 s' * $2, attempts = 9, last_error = 'bad' WHERE job_id = $1`, id(2), 2)
	b.insert(t, 4, 1, 0)
	b.exec(t, `UPDATE job SET parked_at = clock_timestamp(), next_at = NULL WHERE job_id = $1`, id(4)) // settled by its owner
	got, err := work.Parked(t.Context(), b.pool, jobTable, 10)
	if err != nil || len(got) != 2 || number(got[0].ID) != 2 || number(got[1].ID) != 1 || got[0].LastError != "bad" || got[0].Attempts != 9 || got[0].ParkedAt.IsZero() {
		t.Fatalf("Parked = %+v, %v", got, err)
	}
	if err := work.Redrive(t.Context(), b.pool, jobTable, id(1)); err != nil {
		t.Fatal(err)
	}
	if r := b.row(t, 1); r.parked || !r.due || r.dueIn > 0 || r.attempts != 0 {
		t.Errorf("redriven row = %+v", r)
	}
	for _, n := range []int{1, 3, 4, 99} {
		if err := work.Redrive(t.Context(), b.pool, jobTable, id(n)); usher.CodeOf(err) != usher.CodeNotFound {
			t.Errorf("Redrive of row %d, which is not parked = %v", n, err)
		}
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.insert(t, 1, 4, -time.Minute)
	b.insert(t, 10, 1, time.Hour)
	b.exec(t, `UPDATE job SET parked_at = clock_timestamp() WHERE job_id = $1`, id(1))
	b.exec(t, `UPDATE job SET lease_until = clock_timestamp() + interval '1 hour' WHERE job_id = $1`, id(2))
	// Everything is leased or parked for this queue's workers: two rows wait.
	b.runner.Add("q", b.pool, jobTable, work.Options{Workers: 1, Batch: 1, Poll: time.Hour}, func(ctx context.Context, _ work.Job) work.Verdict {
		<-ctx.Done()
		return work.Done()
	})
	if s := b.runner.Stats("q"); s != (work.Stats{}) {
		t.Errorf("Stats before a sample = %+v", s)
	}
	if s := b.runner.Stats("no such queue"); s != (work.Stats{}) {
		t.Errorf("Stats of nothing = %+v", s)
	}
	start(t, b.runner)
	eventually(t, "sample", func() bool {
		s := b.runner.Stats("q")
		return s.Parked == 1 && s.Running == 1 && s.Due >= 1 && s.Due <= 2 && s.OldestDue > 50*time.Second && s.OldestDue < 80*time.Second
	})
	families, err := b.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range families {
		names[f.GetName()] = true
	}
	for _, want := range []string{"usher_work_due", "usher_work_oldest_due_seconds", "usher_work_parked"} {
		if !names[want] {
			t.Errorf("metric %s is missing", want)
		}
	}
}

func TestAddIsRefusedTwiceAndAfterRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := func(context.Context, work.Job) work.Verdict { return work.Done() }
	panics := func(f func()) (did bool) {
		defer func() { did = recover() != nil }()
		f()
		return false
	}
	b.runner.Add("q", b.pool, jobTable, work.Options{}, h)
	if !panics(func() { b.runner.Add("q", b.pool, jobTable, work.Options{}, h) }) {
		t.Error("a queue can be added twice")
	}
	start(t, b.runner)()
	if !panics(func() { b.runner.Add("r", b.pool, jobTable, work.Options{}, h) }) {
		t.Error("a queue can be added after Run")
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	const base, limit = time.Second, 30 * time.Second
	for attempts, ceiling := range map[int]time.Duration{-1: base, 0: base, 1: base, 2: 2 * base, 5: 16 * base, 6: limit, 40: limit, 1 << 30: limit} {
		lo, hi := time.Duration(1<<62), time.Duration(0)
		for range 2000 {
			d := work.Backoff(attempts, base, limit)
			lo, hi = min(lo, d), max(hi, d)
		}
		if lo < base/2 || hi > ceiling || hi < ceiling*3/4 {
			t.Errorf("Backoff(%d) was between %s and %s, want within %s and %s", attempts, lo, hi, base/2, ceiling)
		}
	}
	if d := work.Backoff(3, time.Minute, time.Second); d > time.Second {
		t.Errorf("Backoff above its limit: %s", d)
	}
}

func TestVerdictText(t *testing.T) {
	t.Parallel()
	v := work.Again(-time.Second, "why")
	if v.String() != "again" || v.After() <= 0 || v.Reason() != "why" || work.Done().String() != "done" || work.Park("p").String() != "park" {
		t.Errorf("verdicts read %q %s %q", v, v.After(), v.Reason())
	}
}
