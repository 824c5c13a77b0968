package baseline

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Halves holds two seats, one in each of two databases, with nothing else: what
// an event that is sharded by seat does to a group across the border.
type Halves struct {
	A, B *pgxpool.Pool
}

const sqlTakeHalf = `
INSERT INTO bench_half (seat, owner) VALUES ($1, $2)
ON CONFLICT (seat) DO UPDATE SET owner = excluded.owner WHERE bench_half.owner = ''`

// Together takes both seats in one transaction of one database.
func (h *Halves) Together(ctx context.Context, owner, a, b string) error {
	return pgx.BeginFunc(ctx, h.A, func(tx pgx.Tx) error {
		for _, seat := range []string{a, b} {
			if err := takeHalf(ctx, tx, owner, seat); err != nil {
				return err
			}
		}
		return nil
	})
}

func takeHalf(ctx context.Context, tx pgx.Tx, owner, seat string) error {
	tag, err := tx.Exec(ctx, sqlTakeHalf, seat, owner)
	if err == nil && tag.RowsAffected() != 1 {
		err = ErrTaken
	}
	return err
}

// TwoPhase takes one seat in each database by two-phase commit. crash, if set, is
// asked between the two final commits: an error of it is a coordinator that died.
func (h *Halves) TwoPhase(ctx context.Context, owner, a, b string, crash func() error) error {
	for _, half := range []struct {
		pool *pgxpool.Pool
		seat string
	}{{h.A, a}, {h.B, b}} {
		if err := prepareHalf(ctx, half.pool, owner, half.seat); err != nil {
			return err
		}
	}
	if _, err := h.A.Exec(ctx, "COMMIT PREPARED '"+owner+a+"'"); err != nil {
		return fmt.Errorf("commit the first half: %w", err)
	}
	if crash != nil {
		if err := crash(); err != nil {
			return err
		}
	}
	if _, err := h.B.Exec(ctx, "COMMIT PREPARED '"+owner+b+"'"); err != nil {
		return fmt.Errorf("commit the second half: %w", err)
	}
	return nil
}

// prepareHalf leaves the transaction prepared: it survives its connection.
func prepareHalf(ctx context.Context, pool *pgxpool.Pool, owner, seat string) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if err := takeHalf(ctx, tx, owner, seat); err != nil {
		_ = tx.Rollback(ctx)
		return err
	}
	if _, err := conn.Exec(ctx, "PREPARE TRANSACTION '"+owner+seat+"'"); err != nil {
		_ = tx.Rollback(ctx)
		return fmt.Errorf("prepare a half: %w", err)
	}
	return nil
}

// Apart takes the two seats in two plain transactions, one after the other.
func (h *Halves) Apart(ctx context.Context, owner, a, b string, crash func() error) error {
	if err := pgx.BeginFunc(ctx, h.A, func(tx pgx.Tx) error { return takeHalf(ctx, tx, owner, a) }); err != nil {
		return err
	}
	if crash != nil {
		if err := crash(); err != nil {
			return err
		}
	}
	return pgx.BeginFunc(ctx, h.B, func(tx pgx.Tx) error { return takeHalf(ctx, tx, owner, b) })
}
