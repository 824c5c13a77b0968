package ledger

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/fault"
	"usher/internal/pg"
)

const (
	groupMax = 512
	// waitingMax holds come in at one instant when a hall of phones goes off: they
	// are some two seconds of work, and all are answered.
	waitingMax = 6144
	// pairAt holds are worth a second group while one runs: PostgreSQL then has work
	// while this process writes its next trip, and two cores to do it on. Fewer are
	// cheaper in the next group.
	pairAt = 128
	// A group frees up to dueMax due holds, or fewer the longer it is, down to dueMin.
	dueMax         = 256
	dueMin         = 32
	retryBusy      = time.Second
	groupTimeout   = 20 * time.Second
	unknownCap     = 30 * time.Second
	staleRunsMax   = 5
	abortedRunsMax = 3
)

// command is one of the command types of this package.
type command interface {
	// resolve names the holds and orders whose immutable columns are needed first.
	resolve(*keySet)
	// lock names the rows to lock and read.
	lock(*keySet, *resolved)
	// decide is pure: state in, changes in state and an answer out.
	decide(*state) (answer, error)
}

type item = pg.Item[command, answer]

// runGroup takes one group of an event through its trips until every command
// has an answer: done, refused, busy, or unknown. It never leaves one waiting.
func (l *Ledger) runGroup(ctx context.Context, event usher.EventID, items []*item) {
	ctx, cancel := context.WithTimeout(ctx, unknownCap)
	defer cancel()
	start := time.Now()
	l.metrics.groupSize.Observe(float64(len(items)))
	defer func() { l.metrics.groupSeconds.Observe(time.Since(start).Seconds()) }()
	pool, err := l.homes.Shard(ctx, event)
	if err != nil {
		finishAll(items, err)
		return
	}
	l.runUntilSettled(ctx, pool, event, items)
}

// runUntilSettled runs the group again where that is safe and may help: after a
// deadlock or serialization failure, with skipped locks after a lock timeout,
// under fresh rules when the writer was stale, and on a new connection after an
// unknown COMMIT, where the locks wait for the zombie and the keys replay.
//
// Once a COMMIT got no answer, only a run that was answered says what happened:
// locks are waited for, not skipped, and giving up means "unknown".
func (l *Ledger) runUntilSettled(ctx context.Context, pool *pgxpool.Pool, event usher.EventID, items []*item) {
	var aborted, stale int
	var skipLocked, unknown bool
	for {
		err := l.runOnce(ctx, pool, event, items, skipLocked)
		switch {
		case err == nil:
			return
		case errors.Is(err, errMoreDue):
		case errors.Is(err, errStale) && stale < staleRunsMax:
			stale++
			l.metrics.reruns.WithLabelValues("stale").Inc()
		case pg.IsRetryable(err) && aborted < abortedRunsMax:
			aborted++
			l.metrics.reruns.WithLabelValues("aborted").Inc()
			_ = pg.Jitter(ctx, aborted)
		case pg.IsLockTimeout(err) && (unknown && ctx.Err() == nil || !unknown && !skipLocked):
			skipLocked = !unknown
			l.metrics.reruns.WithLabelValues("lock_timeout").Inc()
		case errors.Is(err, pg.ErrCommitUnknown) && ctx.Err() == nil:
			skipLocked, unknown = false, true
			l.metrics.reruns.WithLabelValues("commit_unknown").Inc()
			_ = pg.Jitter(ctx, 6)
		case pg.IsData(err) && len(items) > 1 && !unknown:
			// One command's data is at fault: find it, let the others through.
			l.log.WarnContext(ctx, "group bisected", "event", event, "size", len(items), "error", err)
			l.runUntilSettled(ctx, pool, event, items[:len(items)/2])
			l.runUntilSettled(ctx, pool, event, items[len(items)/2:])
			return
		case usher.CodeOf(err) == usher.CodeNotFound:
			finishAll(items, err)
			return
		default:
			l.log.ErrorContext(ctx, "group failed", "event", event, "size", len(items), "error", err)
			finishAll(items, givenUp(fmt.Errorf("run group of %s: %w", event, err), unknown))
			return
		}
	}
}

// givenUp is what a group answers that is not run again.
func givenUp(err error, unknown bool) error {
	switch {
	case unknown:
		return &usher.Error{Code: usher.CodeUnknown, Message: pg.ErrCommitUnknown.Message, Err: err}
	case pg.IsRetryable(err), errors.Is(err, errStale):
		// PostgreSQL aborted it, or the fence did, every time: nothing was decided.
		return &usher.Error{Code: usher.CodeBusy, Message: errMissed.Message, RetryAfter: retryBusy, Err: err}
	}
	return pg.Unavailable(err)
}

func finishAll(items []*item, err error) {
	for _, it := range items {
		it.Finish(answer{}, err)
	}
}

// errStale says that the fence matched nothing: another epoch or other rules are
// in force, and this group changed nothing.
var errStale = errors.New("epoch or rules changed")

// errMoreDue says that this run decided nothing: more may be due than it freed, and
// a count of what is available would be too low.
var errMoreDue = errors.New("more holds are due")

// counts reports whether a command's decision rests on how much is available.
func counts(items []*item) bool {
	return slices.ContainsFunc(items, func(it *item) bool {
		c, ok := it.Cmd.(*PlaceHold)
		return ok && len(c.Items) > 0
	})
}

// claims names what a hold is going to lock, for the group that may run beside its
// own: account, seats, and all buckets of a tier.
func claims(c command) []uint64 {
	p, ok := c.(*PlaceHold)
	if !ok {
		return nil
	}
	out := []uint64{maphash.Comparable(claimSeed, p.Account)}
	for _, group := range append(slices.Clip(p.Alternatives), p.Seats) {
		for _, id := range group {
			out = append(out, maphash.Comparable(claimSeed, id))
		}
	}
	for _, i := range p.Items {
		out = append(out, maphash.Comparable(claimSeed, i.Tier))
	}
	return out
}

var claimSeed = maphash.MakeSeed()

// dueFor says how many due holds a group frees before it decides, and how many
// once one is two seconds late (sqlDueHolds). A lapsed seat sells by its deadline
// alone, so many buyers do not wait for what can be done later; all is freed
// before a count of what is left. Of two groups that run at once, one frees: the
// other would wait for its locks to find nothing left.
func dueFor(items []*item, alone bool) (n, late int) {
	switch {
	case counts(items):
		return dueMax, dueMax
	case alone:
		return max(dueMin, dueMax-len(items)), dueMax
	}
	return 0, 0
}

// beginFreeing reports whether no other group of this process frees what is due of
// the event; if so, end says that this one has.
func (l *Ledger) beginFreeing(event usher.EventID) (end func(), alone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.freeing[event] {
		return func() {}, false
	}
	l.freeing[event] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.freeing, event)
	}, true
}

// runOnce is one transaction. Nothing is durable before Commit returns; answers
// leave only after it did.
func (l *Ledger) runOnce(ctx context.Context, pool *pgxpool.Pool, event usher.EventID, items []*item, skipLocked bool) error {
	ctx, cancel := context.WithTimeout(ctx, groupTimeout)
	defer cancel()
	tx, err := pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer pg.Rollback(ctx, tx)
	ended, alone := l.beginFreeing(event)
	defer ended()
	keys, err := readKeys(ctx, tx, event, items, alone)
	if err != nil {
		return err
	}
	locking := time.Now()
	s, err := l.load(ctx, tx, event, keys, skipLocked)
	l.metrics.lockSeconds.Observe(time.Since(locking).Seconds())
	if err != nil {
		return err
	}
	if err := l.checkEpoch(event, s.epoch); err != nil {
		return err
	}
	freed, left := s.expireDue(keys.due)
	l.metrics.expired.Add(float64(freed))
	// As many as a group frees were due, whoever has freed them by now.
	if counts(items) && len(keys.due) == dueMax && left < dueMax {
		return l.finish(ctx, tx, s, errMoreDue)
	}
	answers := make([]answer, len(items))
	errs := make([]error, len(items))
	for i, it := range items {
		answers[i], errs[i] = it.Cmd.decide(s)
		answers[i].freed = freed
	}
	if err := l.finish(ctx, tx, s, nil); err != nil {
		return err
	}
	for i, it := range items {
		l.metrics.decided(it.Cmd, errs[i])
		it.Finish(answers[i], errs[i])
	}
	return nil
}

// finish writes what changed and commits. It returns then when all went well.
func (l *Ledger) finish(ctx context.Context, tx pgx.Tx, s *state, then error) error {
	if err := fault.Point(ctx, "ledger.before_write"); err != nil {
		return err
	}
	if err := s.write(ctx, tx); err != nil {
		return err
	}
	if l.codes != nil && len(s.cancelled) > 0 {
		if err := l.codes(ctx, tx, s.cancelled); err != nil {
			return fmt.Errorf("void codes: %w", err)
		}
	}
	if err := pg.Commit(ctx, tx); err != nil {
		return err
	}
	l.scheduleExpiry(s)
	if err := fault.Point(ctx, "ledger.after_commit"); err != nil {
		return fmt.Errorf("%w (%w)", pg.ErrCommitUnknown, err)
	}
	if len(s.entries) > 0 {
		l.watchers.wake(s.event, s.entries)
	}
	return then
}

// checkEpoch refuses a database whose epoch is older than one this process has
// seen: it is a demoted primary.
func (l *Ledger) checkEpoch(event usher.EventID, epoch int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if epoch < l.epochs[event] {
		return &usher.Error{Code: usher.CodeUnavailable, Message: "temporarily unavailable", RetryAfter: retryBusy,
			Err: fmt.Errorf("database of %s has epoch %d, %d was seen", event, epoch, l.epochs[event])}
	}
	l.epochs[event] = epoch
	return nil
}

// readKeys is trip 0: what is due, and the immutable columns of what the
// commands name, give the rows to lock.
func readKeys(ctx context.Context, tx pgx.Tx, event usher.EventID, items []*item, alone bool) (*keySet, error) {
	k := newKeySet()
	for _, it := range items {
		it.Cmd.resolve(k)
	}
	r := &resolved{holds: map[usher.HoldID]resolvedHold{}, orders: map[usher.OrderID]usher.HoldID{}}
	b := &pgx.Batch{}
	n, late := dueFor(items, alone)
	b.Queue(sqlDueHolds, event, n, late).Query(func(rows pgx.Rows) error {
		return eachHold(rows, nil, func(h resolvedHold) {
			k.due = append(k.due, h.id)
			r.holds[h.id] = h
			k.addHold(h)
		})
	})
	if ids := sortedIDs(k.resolveHolds); len(ids) > 0 {
		b.Queue(sqlResolveHolds, ids).Query(func(rows pgx.Rows) error {
			return eachHold(rows, nil, func(h resolvedHold) { r.holds[h.id] = h })
		})
	}
	if ids := sortedIDs(k.resolveOrders); len(ids) > 0 {
		b.Queue(sqlResolveOrders, ids).Query(func(rows pgx.Rows) error {
			var id usher.OrderID
			return eachHold(rows, &id, func(h resolvedHold) {
				r.holds[h.id] = h
				r.orders[id] = h.id
			})
		})
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("resolve keys: %w", err)
	}
	for _, it := range items {
		it.Cmd.lock(k, r)
	}
	return k, nil
}

func eachHold(rows pgx.Rows, order *usher.OrderID, add func(resolvedHold)) error {
	var h resolvedHold
	dest := []any{&h.id, &h.account, &h.seats, &h.tiers}
	if order != nil {
		dest = append([]any{order}, dest...)
	}
	_, err := pgx.ForEachRow(rows, dest, func() error {
		add(resolvedHold{h.id, h.account, slices.Clone(h.seats), slices.Clone(h.tiers)})
		return nil
	})
	return err
}
