package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"golang.org/x/text/unicode/norm"

	"usher"
	"usher/internal/pg"
)

// Status says whether an account may sign in.
type Status string

// Account states.
const (
	StatusActive  Status = "active"
	StatusBlocked Status = "blocked"
)

const (
	nameRunesMax = 200
	nameBytesMax = 4 * nameRunesMax
	findMax      = 100
)

// Person is who is behind an account. All of it is personal data: it is shown to
// the account itself and to operators, and never logged.
type Person struct {
	Account   usher.AccountID
	Status    Status
	CreatedAt time.Time
	Email     string
	// Name is empty until the person gives one.
	Name string
	// Locale is "en" or "zh-Hant".
	Locale string
}

const sqlPerson = `
SELECT a.account_id, a.status, a.created_at, p.email, p.name, p.locale
FROM account AS a JOIN person AS p ON p.account_id = a.account_id
WHERE a.account_id = $1`

// Person reads the person behind an account. It fails with CodeNotFound when
// there is no such account or the person was erased, and CodeUnavailable.
func (a *Accounts) Person(ctx context.Context, account usher.AccountID) (Person, error) {
	rows, err := a.pool.Query(ctx, sqlPerson, [16]byte(account))
	if err != nil {
		return Person{}, fmt.Errorf("read person: %w", pg.Unavailable(err))
	}
	p, err := pgx.CollectExactlyOneRow(rows, scanPerson)
	if errors.Is(err, pgx.ErrNoRows) {
		return Person{}, usher.Errorf(usher.CodeNotFound, "no such person")
	}
	if err != nil {
		return Person{}, fmt.Errorf("read person: %w", pg.Unavailable(err))
	}
	return p, nil
}

func scanPerson(row pgx.CollectableRow) (Person, error) {
	var p Person
	err := row.Scan((*[16]byte)(&p.Account), &p.Status, &p.CreatedAt, &p.Email, &p.Name, &p.Locale)
	return p, err
}

// Contact returns where mail to the account goes. It is the address book of
// package notify and fails like Person.
func (a *Accounts) Contact(ctx context.Context, account usher.AccountID) (email, name, locale string, err error) {
	p, err := a.Person(ctx, account)
	return p.Email, p.Name, p.Locale, err
}

const sqlUpdatePerson = `
UPDATE person SET name = $2, name_normalized = $3, locale = $4, updated_at = clock_timestamp() WHERE account_id = $1`

// UpdatePerson sets name (empty, or up to 200 characters; stored composed) and
// language. It fails with CodeInvalidRequest, CodeNotFound and CodeUnavailable.
func (a *Accounts) UpdatePerson(ctx context.Context, account usher.AccountID, name, locale string) error {
	name = norm.NFC.String(strings.TrimSpace(name))
	if name != "" {
		if err := usher.CheckText("the name", name, nameBytesMax); err != nil {
			return err
		}
	}
	if utf8.RuneCountInString(name) > nameRunesMax {
		return usher.Errorf(usher.CodeInvalidRequest, "the name is longer than %d characters", nameRunesMax)
	}
	tag, err := a.pool.Exec(ctx, sqlUpdatePerson, [16]byte(account), name, fold(name), Locale(locale))
	if err != nil {
		return fmt.Errorf("update person: %w", pg.Unavailable(err))
	}
	if tag.RowsAffected() == 0 {
		return usher.Errorf(usher.CodeNotFound, "no such person")
	}
	return nil
}

const sqlFindPersons = `
SELECT a.account_id, a.status, a.created_at, p.email, p.name, p.locale
FROM (
    (SELECT account_id FROM person WHERE email_normalized ^@ $1 ORDER BY email_normalized LIMIT $2)
    UNION
    (SELECT account_id FROM person WHERE name_normalized <> '' AND name_normalized ^@ $1 ORDER BY name_normalized LIMIT $2)
) AS f
JOIN person AS p ON p.account_id = f.account_id
JOIN account AS a ON a.account_id = f.account_id
ORDER BY p.email_normalized
LIMIT $2`

// Find lists persons whose address or name begins with the text, in any letter
// case and any composition, at most 100, by address. It fails with
// CodeInvalidRequest and CodeUnavailable.
func (a *Accounts) Find(ctx context.Context, text string) ([]Person, error) {
	text = strings.TrimSpace(text)
	if err := usher.CheckText("the search text", text, nameBytesMax); err != nil {
		return nil, err
	}
	rows, err := a.pool.Query(ctx, sqlFindPersons, fold(text), findMax)
	if err != nil {
		return nil, fmt.Errorf("find persons: %w", pg.Unavailable(err))
	}
	out, err := pgx.CollectRows(rows, scanPerson)
	if err != nil {
		return nil, fmt.Errorf("find persons: %w", pg.Unavailable(err))
	}
	return out, nil
}

const sqlSetStatus = `UPDATE account SET status = $2 WHERE account_id = $1`

// SetStatus blocks or unblocks an account: a blocked one cannot sign in, and its
// sessions are refused at once here and within seconds elsewhere. What it holds
// and owns follows the ledger's rules. It fails with CodeInvalidRequest,
// CodeNotFound and CodeUnavailable.
func (a *Accounts) SetStatus(ctx context.Context, account usher.AccountID, s Status) error {
	if s != StatusActive && s != StatusBlocked {
		return usher.Errorf(usher.CodeInvalidRequest, "unknown account status %q", string(s))
	}
	tag, err := a.pool.Exec(ctx, sqlSetStatus, [16]byte(account), s)
	if err != nil {
		return fmt.Errorf("set account status: %w", pg.Unavailable(err))
	}
	if tag.RowsAffected() == 0 {
		return usher.Errorf(usher.CodeNotFound, "no such account")
	}
	return a.Refresh(ctx)
}

const (
	sqlErasePerson = `DELETE FROM person WHERE account_id = $1 RETURNING email_normalized`
	sqlEraseCodes  = `DELETE FROM login_code WHERE email_normalized = $1`
)

// Erase deletes the person behind an account for good and blocks the account,
// which stays as the owner of its orders. The mailbox may sign in again and gets
// a new account. It fails with CodeNotFound and CodeUnavailable.
func (a *Accounts) Erase(ctx context.Context, account usher.AccountID) error {
	err := pg.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		var email string
		err := tx.QueryRow(ctx, sqlErasePerson, [16]byte(account)).Scan(&email)
		if errors.Is(err, pgx.ErrNoRows) {
			return usher.Errorf(usher.CodeNotFound, "no such person")
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlEraseCodes, email); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, sqlSetStatus, [16]byte(account), StatusBlocked)
		return err
	})
	if err != nil {
		return fmt.Errorf("erase person: %w", err)
	}
	return a.Refresh(ctx)
}
