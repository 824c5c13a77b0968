package work

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher/internal/pg"
)

// LeaderLease is how long a leader that died keeps others waiting.
const LeaderLease = 15 * time.Second

const (
	leaderRenewEvery = LeaderLease / 3
	leaderRetryEvery = 2 * time.Second
)

// Leader runs fn in one process at a time: the one that has the lease of the
// name in pool's database. fn's context ends when the lease can no longer be
// trusted, which is always before another process can get it; fn then returns.
// When fn returns for its own reasons it is run again after a pause. Leader
// returns ctx's cause when ctx ends. A lease bounds who works; it does not fence
// writes: what fn writes must be guarded by state or version.
func Leader(ctx context.Context, pool *pgxpool.Pool, name string, fn func(ctx context.Context) error) error {
	l := leader{pool: pool, name: name}
	rand.Read(l.holder[:])
	for ctx.Err() == nil {
		begin := time.Now()
		won, err := l.take(ctx)
		if err != nil && ctx.Err() == nil {
			slog.ErrorContext(ctx, "cannot take leader lease", "leader", name, "error", err)
		}
		if won {
			l.lead(ctx, begin, fn)
		}
		rest(ctx, leaderRetryEvery)
	}
	return context.Cause(ctx)
}

type leader struct {
	pool   *pgxpool.Pool
	name   string
	holder [16]byte
}

// lead runs fn while the lease taken at the given local time can be renewed.
func (l *leader) lead(ctx context.Context, taken time.Time, fn func(ctx context.Context) error) {
	work, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- fn(work) }()
	err, over := l.keep(ctx, taken, done)
	if !over {
		stop()
		err = <-done
	}
	switch {
	case err == nil || ctx.Err() != nil:
	case !over && errors.Is(err, context.Canceled):
		// A stalled machine or a database that was away: nothing to do unless it goes on.
		slog.WarnContext(ctx, "leader lease not renewed in time, somebody takes it again", "leader", l.name)
	default:
		slog.ErrorContext(ctx, "leader stopped", "leader", l.name, "error", err)
	}
	l.giveUp(ctx)
}

// keep renews until fn is done (over is true), the lease is lost, or ctx ends.
// Local time is counted from before the renewal was sent, so it runs out first.
func (l *leader) keep(ctx context.Context, taken time.Time, done <-chan error) (err error, over bool) {
	for {
		end := taken.Add(LeaderLease - LeaderLease/10)
		timer := time.NewTimer(min(leaderRenewEvery, time.Until(end)))
		select {
		case err := <-done:
			timer.Stop()
			return err, true
		case <-ctx.Done():
			timer.Stop()
			return nil, false
		case <-timer.C:
		}
		begin := time.Now()
		renew, cancel := context.WithDeadline(ctx, end)
		won, err := l.take(renew)
		cancel()
		switch {
		case err == nil && !won, !time.Now().Before(end):
			return nil, false
		case err == nil:
			taken = begin
		}
	}
}

const sqlTakeLead = `
INSERT INTO leader (name, holder, lease_until) VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
ON CONFLICT (name) DO UPDATE SET holder = EXCLUDED.holder, lease_until = clock_timestamp() + make_interval(secs => $3)
WHERE leader.holder = EXCLUDED.holder OR leader.lease_until <= clock_timestamp()`

// take gets or renews the lease.
func (l *leader) take(ctx context.Context) (bool, error) {
	var won bool
	err := pg.InTx(ctx, l.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sqlTakeLead, l.name, l.holder, LeaderLease.Seconds())
		won = tag.RowsAffected() == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("take lease: %w", err)
	}
	return won, nil
}

const sqlGiveUpLead = `UPDATE leader SET lease_until = clock_timestamp() WHERE name = $1 AND holder = $2`

// giveUp lets others in at once; if it fails, the lease runs out by itself.
func (l *leader) giveUp(ctx context.Context) {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	err := pg.InTx(own, l.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(own, sqlGiveUpLead, l.name, l.holder)
		return err
	})
	if err != nil {
		slog.WarnContext(ctx, "cannot give up leader lease", "leader", l.name, "error", err)
	}
}

func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(Backoff(1, d, d))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
