package account

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

const (
	mintMax = 100_000
	// mintSlice keeps one COPY well inside the statement timeout.
	mintSlice = 10_000
)

// Buyer is an account made for a rehearsal, with the token of a session.
type Buyer struct {
	Account usher.AccountID
	Token   string
}

// MintBuyers makes n accounts (1 to 100,000) with synthetic addresses under the
// reserved domain rehearsal.invalid, and a session for each. Slices of 10,000
// commit by themselves: after an error some accounts may exist that nobody uses.
// It fails with CodeInvalidRequest and CodeUnavailable.
func (a *Accounts) MintBuyers(ctx context.Context, n int) ([]Buyer, error) {
	if n < 1 || n > mintMax {
		return nil, usher.Errorf(usher.CodeInvalidRequest, "the number of buyers must be 1 to %d", mintMax)
	}
	// One random word per call keeps addresses of different calls apart.
	run := strings.ToLower(rand.Text()[:10])
	buyers := make([]Buyer, n)
	for from := 0; from < n; from += mintSlice {
		slice := buyers[from:min(from+mintSlice, n)]
		if err := a.mintSlice(ctx, slice, from, run); err != nil {
			return nil, fmt.Errorf("mint buyers: %w", err)
		}
	}
	return buyers, nil
}

func (a *Accounts) mintSlice(ctx context.Context, buyers []Buyer, from int, run string) error {
	now := a.keys.Now()
	accounts, persons := make([][]any, len(buyers)), make([][]any, len(buyers))
	for i := range buyers {
		id := usher.NewAccountID()
		buyers[i].Account = id
		buyers[i].Token, _ = a.issue(id)
		accounts[i] = []any{[16]byte(id), string(StatusActive), now}
		persons[i] = mintPerson(id, from+i+1, run, now)
	}
	return pg.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"account"},
			[]string{"account_id", "status", "created_at"}, pgx.CopyFromRows(accounts))
		if err != nil {
			return err
		}
		_, err = tx.CopyFrom(ctx, pgx.Identifier{"person"},
			[]string{"account_id", "email", "email_normalized", "name", "name_normalized", "locale", "updated_at"}, pgx.CopyFromRows(persons))
		return err
	})
}

func mintPerson(id usher.AccountID, n int, run string, now time.Time) []any {
	email, name := fmt.Sprintf("buyer-%d-%s@rehearsal.invalid", n, run), fmt.Sprintf("Buyer %d", n)
	return []any{[16]byte(id), email, email, name, fold(name), "en", now}
}
