package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"usher"
)

// Runner works any number of queues in one process. Add every queue before Run.
type Runner struct {
	log     *slog.Logger
	metrics *metrics

	mu      sync.Mutex
	queues  map[string]*queue
	started bool
}

// queue is one table, or a part of one, in one database.
type queue struct {
	name    string
	pool    *pgxpool.Pool
	table   Table
	sql     statements
	opts    Options
	handler Handler

	wake    chan struct{}
	slots   chan struct{}
	running atomic.Int64
	last    atomic.Pointer[Stats]
}

// Stats is a queue's backlog as last sampled (every few seconds while Run runs).
type Stats struct {
	// Due counts rows that wait to be started, at most 10,000; OldestDue is for how
	// long the first of them has been waiting.
	Due       int
	OldestDue time.Duration
	// Parked counts rows that wait for a person.
	Parked int
	// Running counts the rows that this process runs now.
	Running int
}

// NewRunner makes a runner whose metrics are registered with reg.
func NewRunner(log *slog.Logger, reg prometheus.Registerer) *Runner {
	return &Runner{log: log, metrics: newMetrics(reg), queues: map[string]*queue{}}
}

// Add makes a queue: due rows of t in pool go to h. The name is unique in the
// process and is the metrics' label. It panics on a name used twice and after
// Run, which only a programming error can produce.
func (r *Runner) Add(name string, pool *pgxpool.Pool, t Table, opts Options, h Handler) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started || r.queues[name] != nil {
		panic("work: queue " + name + " added twice or after Run")
	}
	o := opts.withDefaults()
	r.queues[name] = &queue{
		name: name, pool: pool, table: t, sql: t.statements(), opts: o, handler: h,
		wake: make(chan struct{}, 1), slots: make(chan struct{}, o.Workers),
	}
}

func (r *Runner) queue(name string) *queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queues[name]
}

// Wake makes the queue look for due rows now instead of at its next poll. Call
// it after the commit that made a row due; a lost wake costs one poll interval.
// A name that is not worked here is ignored: another process will poll.
func (r *Runner) Wake(name string) {
	if q := r.queue(name); q != nil {
		q.nudge()
	}
}

func (q *queue) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Stats returns the last sample of the queue; zero when there is none.
func (r *Runner) Stats(name string) Stats {
	q := r.queue(name)
	if q == nil {
		return Stats{}
	}
	var s Stats
	if last := q.last.Load(); last != nil {
		s = *last
	}
	s.Running = int(q.running.Load())
	return s
}

// RunNow leases one row before its time and runs it here, on the caller's
// goroutine, outside the queue's workers. It returns false when the row has
// nothing to do, is parked, or is being run by somebody else: this and the
// queue's own runs exclude each other. It works without Run. It fails with
// CodeUnavailable and CodeUnknown when the row could not be leased.
func (r *Runner) RunNow(ctx context.Context, name string, id [16]byte) (bool, error) {
	q := r.queue(name)
	if q == nil {
		return false, usher.Errorf(usher.CodeInternal, "work: no queue %s", name)
	}
	deadline := q.deadline()
	l, ok, err := q.claimOne(ctx, id)
	if err != nil || !ok {
		return false, err
	}
	r.work(ctx, q, l, deadline)
	return true, nil
}

// deadline is when a run that is claimed from now on must be over: earlier than
// its lease, because the lease starts when the database writes it.
func (q *queue) deadline() time.Time { return time.Now().Add(q.opts.Lease - q.opts.Lease/10) }

// drainTimeout is how long Run lets running rows finish before their contexts end.
const drainTimeout = 5 * time.Second

// Run works all queues until ctx ends, then lets running rows finish, for a few
// seconds undisturbed and after that with their contexts ended. It returns
// ctx's cause.
func (r *Runner) Run(ctx context.Context) error {
	r.mu.Lock()
	r.started = true
	r.mu.Unlock()
	jobs, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var loops, running sync.WaitGroup
	for _, q := range r.queues {
		loops.Go(func() { r.loop(ctx, jobs, q, &running) })
		loops.Go(func() { r.sampleLoop(ctx, q) })
	}
	loops.Wait()
	drained := time.AfterFunc(drainTimeout, stop)
	defer drained.Stop()
	running.Wait()
	return context.Cause(ctx)
}

// loop claims due rows whenever there are free workers, one claim at a time. A
// poll that nobody woke looks first: an idle queue costs one read per poll.
func (r *Runner) loop(ctx, jobs context.Context, q *queue, running *sync.WaitGroup) {
	look := false
	for {
		free, ok := q.reserve(ctx)
		if !ok {
			return
		}
		deadline := q.deadline()
		got, err := q.take(ctx, free, look)
		if err != nil && !errors.Is(err, context.Canceled) {
			r.metrics.claimErrors.WithLabelValues(q.name).Inc()
			r.log.ErrorContext(ctx, "cannot claim due rows", "queue", q.name, "error", err)
		}
		for range free - len(got) {
			<-q.slots
		}
		for _, l := range got {
			running.Go(func() {
				defer q.release()
				r.work(jobs, q, l, deadline)
			})
		}
		// A full claim may have left due rows behind: go on at once.
		if look = len(got) < free; !look {
			continue
		}
		woken, ok := q.pause(ctx)
		if !ok {
			return
		}
		look = !woken
	}
}

// take claims at most limit due rows, after a look whether there are any if asked to.
func (q *queue) take(ctx context.Context, limit int, look bool) ([]lease, error) {
	if look {
		if any, err := q.due(ctx); err != nil || !any {
			return nil, err
		}
	}
	return q.claim(ctx, limit)
}

// reserve takes at least one and at most a batch of worker slots; false when
// ctx ended first.
func (q *queue) reserve(ctx context.Context) (int, bool) {
	select {
	case <-ctx.Done():
		return 0, false
	default:
	}
	select {
	case q.slots <- struct{}{}:
	case <-ctx.Done():
		return 0, false
	}
	n := 1
	for n < q.opts.Batch {
		select {
		case q.slots <- struct{}{}:
			n++
		default:
			return n, true
		}
	}
	return n, true
}

func (q *queue) release() { <-q.slots }

// pause waits for a wake or for the next poll; ok is false when ctx ended.
func (q *queue) pause(ctx context.Context) (woken, ok bool) {
	t := time.NewTimer(q.opts.Poll/2 + rand.N(q.opts.Poll))
	defer t.Stop()
	select {
	case <-q.wake:
		return true, true
	case <-t.C:
		return false, true
	case <-ctx.Done():
		return false, false
	}
}

// work runs one leased row and writes its verdict. If the process dies before
// that, the row stays due and its lease runs out.
func (r *Runner) work(ctx context.Context, q *queue, l lease, deadline time.Time) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	q.running.Add(1)
	defer q.running.Add(-1)
	begin := time.Now()
	v := r.handle(ctx, q, l.job)
	r.metrics.ran(q.name, v, time.Since(begin))
	if v.kind == verdictPark {
		r.log.ErrorContext(ctx, "row parked", "queue", q.name, "id", fmt.Sprintf("%x", l.job.ID), "attempts", l.job.Attempts, "reason", v.reason)
	}
	if err := q.finish(ctx, l, v); err != nil {
		r.log.ErrorContext(ctx, "cannot write verdict, the row runs again after its lease",
			"queue", q.name, "id", fmt.Sprintf("%x", l.job.ID), "verdict", v.String(), "error", err)
	}
}

// The pause after a handler that decided nothing.
const (
	undecidedBase  = time.Second
	undecidedLimit = time.Minute
)

// handle calls the handler; a panic parks the row, since running it again would
// most likely panic again.
func (r *Runner) handle(ctx context.Context, q *queue, j Job) (v Verdict) {
	defer func() {
		if p := recover(); p != nil {
			r.log.ErrorContext(ctx, "handler panicked", "queue", q.name, "id", fmt.Sprintf("%x", j.ID),
				"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			v = Park("panic in the handler, see the log")
		}
	}()
	v = q.handler(ctx, j)
	if v == (Verdict{}) {
		v = Again(Backoff(j.Attempts, undecidedBase, undecidedLimit), "no verdict")
	}
	return v
}
