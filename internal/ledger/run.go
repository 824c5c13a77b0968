package ledger

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
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
	// pendingMargin is what sixteen other processes may be about to add.
	pendingMargin = 16 * groupMax
	// waitingMax holds come in at one instant when a hall of phones goes off: they
	// are some two seconds of work, and all are answered.
	waitingMax = 6144
	// pairAt holds are worth a second group while one runs: PostgreSQL then has work
	// while this process writes its next trip, and two cores to do it on. Fewer are
	// cheaper in the next group.
	pairAt = 128
	// pairConns is the smallest pool of a shard in which an event may have two groups.
	pairConns = 4
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

// runGroup runs an event's first group, which frees what is due as well.
func (l *Ledger) runGroup(ctx context.Context, event usher.EventID, items []*item) {
	l.settle(ctx, run{event: event, items: items, frees: true})
}

// runBeside runs an event's second group, whose holds count nothing. It frees
// nothing: it would wait for the first one's locks to find nothing left.
func (l *Ledger) runBeside(ctx context.Context, event usher.EventID, items []*item) {
	l.settle(ctx, run{event: event, items: items})
}

// run is a group and how it is run.
type run struct {
	pool  *pgxpool.Pool
	event usher.EventID
	items []*item
	// frees has the group free due holds before it decides.
	frees bool
	// counted are the tiers of which a decision rests on how much is available.
	counted []usher.TierID
	// skipLocked leaves out rows that somebody else keeps locked.
	skipLocked bool
	// asRead lets a count be right as of the reading of what was due.
	asRead bool
}

// settle takes one group of an event through its trips until every command
// has an answer: done, refused, busy, or unknown. It never leaves one waiting.
func (l *Ledger) settle(ctx context.Context, r run) {
	ctx, cancel := context.WithTimeout(ctx, unknownCap)
	defer cancel()
	start := time.Now()
	l.metrics.groupSize.Observe(float64(len(r.items)))
	defer func() { l.metrics.groupSeconds.Observe(time.Since(start).Seconds()) }()
	var err error
	if r.pool, err = l.homes.Shard(ctx, r.event); err != nil {
		finishAll(r.items, err)
		return
	}
	l.runUntilSettled(ctx, r)
}

// runUntilSettled runs the group again where that is safe and may help: after a
// deadlock or serialization failure, once after the connection was cut, with skipped locks after a lock timeout, under
// fresh rules when the writer was stale, and after a COMMIT without an answer, once it
// is known that nothing was committed.
func (l *Ledger) runUntilSettled(ctx context.Context, r run) {
	var aborted, stale int
	var cut bool
	var lost *lostCommit
	for {
		err := l.runOnce(ctx, r)
		switch {
		case err == nil:
			return
		case errors.As(err, &lost):
			l.metrics.reruns.WithLabelValues("commit_unknown").Inc()
			committed, err := l.learn(ctx, r, lost)
			if err != nil {
				l.log.ErrorContext(ctx, "group's COMMIT is unknown", "event", r.event, "size", len(r.items), "error", err)
				finishAll(r.items, err)
				return
			}
			if committed {
				l.announce(lost.state)
				l.tell(r.items, lost.outcome)
				return
			}
		case errors.Is(err, errMoreDue):
			l.metrics.reruns.WithLabelValues("more_due").Inc()
		case errors.Is(err, errLapsed):
			r.asRead = true
			l.metrics.reruns.WithLabelValues("lapsed").Inc()
		case errors.Is(err, errStale) && stale < staleRunsMax:
			stale++
			l.metrics.reruns.WithLabelValues("stale").Inc()
		case pg.IsRetryable(err) && aborted < abortedRunsMax:
			aborted++
			l.metrics.reruns.WithLabelValues("aborted").Inc()
			_ = pg.Jitter(ctx, aborted)
		case pg.IsCut(err) && !cut:
			cut = true
			l.metrics.reruns.WithLabelValues("cut").Inc()
		case errors.Is(err, errTurn) && ctx.Err() == nil:
			l.metrics.reruns.WithLabelValues("turn").Inc()
		case pg.IsLockTimeout(err) && !r.skipLocked:
			r.skipLocked = true
			l.metrics.reruns.WithLabelValues("lock_timeout").Inc()
		case errors.Is(err, pg.ErrCommitUnknown) && ctx.Err() == nil:
			// It had freed what was due, or written down refusals: both stand or come again.
			l.metrics.reruns.WithLabelValues("commit_unknown").Inc()
			_ = pg.Jitter(ctx, 6)
		case (pg.IsData(err) || errors.Is(err, errPanicked)) && len(r.items) > 1:
			// One command's data is at fault: find it, let the others through.
			l.log.WarnContext(ctx, "group bisected", "event", r.event, "size", len(r.items), "error", err)
			for _, half := range [][]*item{r.items[:len(r.items)/2], r.items[len(r.items)/2:]} {
				r.items = half
				l.runUntilSettled(ctx, r)
			}
			return
		case usher.CodeOf(err) == usher.CodeNotFound:
			finishAll(r.items, err)
			return
		default:
			l.log.ErrorContext(ctx, "group failed", "event", r.event, "size", len(r.items), "error", err)
			finishAll(r.items, givenUp(fmt.Errorf("run group of %s: %w", r.event, err)))
			return
		}
	}
}

// givenUp is what a group answers that is not run again: nothing was decided.
func givenUp(err error) error {
	if pg.IsRetryable(err) || errors.Is(err, errStale) {
		// PostgreSQL aborted it, or the fence did, every time.
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

// errMoreDue says that this run freed what it could and decided nothing: more may be
// due, and a count of what is available would be too low.
var errMoreDue = errors.New("more holds are due")

// errLapsed says that this run changed nothing: a count was too low, and holds lapsed
// since it read what was due. The next run answers as of its own reading, which every
// command of the group has waited for: where holds lapse all the time, nobody would be
// answered otherwise.
var errLapsed = errors.New("holds lapsed meanwhile")

// errTurn says that another transaction stands between this one and its COMMIT: it
// keeps the ledger row, or adds the same account. Neither can be skipped, so this one
// waits in line.
var errTurn = errors.New("another group commits")

// counted returns the tiers whose places are counted for one of the commands.
func counted(items []*item) []usher.TierID {
	tiers := map[usher.TierID]bool{}
	for _, it := range items {
		switch c := it.Cmd.(type) {
		case *PlaceHold:
			for _, i := range c.Items {
				tiers[i.Tier] = true
			}
		case *SetCapacity:
			tiers[c.Tier] = true
		case *MoveCapacity:
			tiers[c.Tier] = true
		}
	}
	return slices.Sorted(maps.Keys(tiers))
}

// claims names what a hold is going to lock, account and seats, for the group that
// may run beside its own. Only a hold of seats may be in a second group: what counts,
// of places or of payments, has one group at a time in its process.
func claims(c command) (claims []uint64, beside bool) {
	p, ok := c.(*PlaceHold)
	if !ok {
		return nil, false
	}
	claims = []uint64{maphash.Comparable(claimSeed, p.Account)}
	for _, group := range append(slices.Clip(p.Alternatives), p.Seats) {
		for _, id := range group {
			claims = append(claims, maphash.Comparable(claimSeed, id))
		}
	}
	return claims, len(p.Items) == 0
}

var claimSeed = maphash.MakeSeed()

// dueFor says how many due holds a group frees before it decides, and how many
// once one is two seconds late (sqlDueHolds). A lapsed seat sells by its deadline
// alone, so many buyers do not wait for what can be done later; all is freed
// before a count of what is left.
func (r run) dueFor() (n, late int) {
	if len(r.counted) > 0 {
		return dueMax, dueMax
	}
	return max(dueMin, dueMax-len(r.items)), dueMax
}

// runOnce is one transaction. Nothing is durable before Commit returns; answers
// leave only after it did.
func (l *Ledger) runOnce(ctx context.Context, r run) error {
	ctx, cancel := context.WithTimeout(ctx, groupTimeout)
	defer cancel()
	tx, err := r.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer pg.Rollback(ctx, tx)
	r.counted = counted(r.items)
	keys, err := readKeys(ctx, tx, r)
	if err != nil {
		return err
	}
	locking := time.Now()
	s, err := l.load(ctx, tx, keys, r)
	l.metrics.lockSeconds.Observe(time.Since(locking).Seconds())
	if err != nil {
		return err
	}
	if err := l.checkEpoch(r.event, s.epoch); err != nil {
		return err
	}
	freed, left, damaged := s.expireDue(keys.due)
	l.tellOfDamage(ctx, damaged)
	l.metrics.expired.Add(float64(freed))
	// As many as a group frees were due, whoever has freed them by now.
	if len(r.counted) > 0 && len(keys.due) == dueMax && left < dueMax {
		return l.finish(ctx, tx, s, errMoreDue)
	}
	o, err := l.decide(ctx, s, r, freed)
	if err != nil {
		return err
	}
	if s.short && s.moreDue && !r.asRead {
		return errLapsed
	}
	err = l.finish(ctx, tx, s, nil)
	if errors.Is(err, pg.ErrCommitUnknown) && len(s.entries) > 0 {
		return &lostCommit{err, o}
	}
	if err == nil {
		l.tell(r.items, o)
	}
	return err
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
		if err := l.codes.VoidCodes(ctx, tx, s.cancelled); err != nil {
			return fmt.Errorf("void codes: %w", err)
		}
	}
	if err := pg.Commit(ctx, tx); err != nil {
		return err
	}
	if err := fault.Point(ctx, "ledger.after_commit"); err != nil {
		return fmt.Errorf("%w (%w)", pg.ErrCommitUnknown, err)
	}
	l.announce(s)
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

// homeBatch begins a batch with the check of the event's epoch, for what is not
// written by a group.
func (l *Ledger) homeBatch(event usher.EventID) *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue(sqlReadEpoch, event).QueryRow(func(row pgx.Row) error {
		var epoch int64
		if err := row.Scan(&epoch); err != nil {
			return err
		}
		return l.checkEpoch(event, epoch)
	})
	return b
}

// readKeys is trip 0: what is due, and the immutable columns of what the
// commands name, give the rows to lock.
func readKeys(ctx context.Context, tx pgx.Tx, run run) (*keySet, error) {
	k := newKeySet()
	for _, it := range run.items {
		it.Cmd.resolve(k)
	}
	r := &resolved{holds: map[usher.HoldID]resolvedHold{}, orders: map[usher.OrderID]usher.HoldID{}}
	b := &pgx.Batch{}
	if run.frees {
		n, late := run.dueFor()
		b.Queue(sqlDueHolds, run.event, n, late).Query(func(rows pgx.Rows) error {
			return eachHold(rows, nil, func(h resolvedHold) {
				k.due = append(k.due, h.id)
				r.holds[h.id] = h
				k.addHold(h)
			})
		})
	}
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
	for _, it := range run.items {
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
