package work

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/pg"
)

const sqlRedrive = `
UPDATE {table}
SET parked_at = NULL, next_at = clock_timestamp(), attempts = 0
WHERE {key} = $1 AND parked_at IS NOT NULL AND next_at IS NOT NULL AND {only}`

// Redrive makes a parked row due at once and counts its attempts anew. It fails
// with CodeNotFound when there is no such parked row, and with CodeUnavailable.
func Redrive(ctx context.Context, pool *pgxpool.Pool, t Table, id [16]byte) error {
	var found bool
	err := pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, t.fill(sqlRedrive), id)
		found = tag.RowsAffected() == 1
		return err
	})
	if err != nil {
		return fmt.Errorf("redrive a row of %s: %w", t.Name, err)
	}
	if !found {
		return usher.Errorf(usher.CodeNotFound, "no such parked work")
	}
	return nil
}
