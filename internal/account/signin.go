package account

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

// sendTimeout bounds sending one code, on a context of its own.
const sendTimeout = 15 * time.Second

const sqlAddCode = `
INSERT INTO login_code (email_normalized, sent_to, remote, locale, salt, code_hash, created_at, expires_at)
SELECT $1, $2, $3, $4, $5, $6, c.now, c.now + make_interval(secs => $7) FROM (SELECT clock_timestamp() AS now) AS c`

// RequestCode sends a sign-in code to an address. It does and answers the same
// whether or not the address has an account. remote is who asks; the zero value
// is not limited. It fails with CodeInvalidRequest, CodeRateLimited with
// RetryAfter, and CodeUnavailable when the code could not be sent.
func (a *Accounts) RequestCode(ctx context.Context, email, locale string, remote netip.Addr) error {
	addr, err := ParseAddress(email)
	if err != nil {
		return err
	}
	locale = Locale(locale)
	code, salt := newCode(), make([]byte, 16)
	// crypto/rand.Read never returns an error since Go 1.24.
	_, _ = rand.Read(salt)
	var to string
	err = pg.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		if err := a.checkCodeLimits(ctx, tx, addr, remoteKey(remote)); err != nil {
			return err
		}
		// A mailbox that has an account gets its code where it is on record: another
		// mailbox whose address folds to the same text must not receive it.
		p, err := personByAddress(ctx, tx, addr)
		if err != nil {
			return err
		}
		if to = addr.Display; p.found {
			to = p.email
		}
		_, err = tx.Exec(ctx, sqlAddCode, addr.Normalized, to, remoteKey(remote), locale, salt, hashCode(salt, code), codeTime.Seconds())
		return err
	})
	if err != nil {
		return fmt.Errorf("request code: %w", err)
	}
	// The code is committed and valid from here on. A closed browser tab must not
	// take the mail back.
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	if err := a.sender.SendCode(own, to, code, locale); err != nil {
		return &usher.Error{
			Code: usher.CodeUnavailable, Message: "the mail with the code could not be sent, try again",
			RetryAfter: 10 * time.Second, Err: fmt.Errorf("send code: %w", err),
		}
	}
	return nil
}

// Everything about one address, and then one network address, goes one after
// the other: the limits are exact, and a code is used once. The locks end with
// the transaction.
const sqlLockSubject = `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`

func lockSubject(ctx context.Context, tx pgx.Tx, subject string) error {
	_, err := tx.Exec(ctx, sqlLockSubject, subject)
	return err
}

// Each reads the age in seconds of the event that fills the limit: the $3rd
// latest of the subject within the window of $2 seconds, if there is one.
const (
	sqlCodesOfAddress = `
SELECT extract(epoch FROM clock_timestamp() - created_at)::float8 FROM login_code
WHERE email_normalized = $1 AND created_at > clock_timestamp() - make_interval(secs => $2)
ORDER BY created_at DESC OFFSET $3 - 1 LIMIT 1`

	sqlCodesOfRemote = `
SELECT extract(epoch FROM clock_timestamp() - created_at)::float8 FROM login_code
WHERE remote = $1 AND created_at > clock_timestamp() - make_interval(secs => $2)
ORDER BY created_at DESC OFFSET $3 - 1 LIMIT 1`

	sqlFailuresOfRemote = `
SELECT extract(epoch FROM clock_timestamp() - created_at)::float8 FROM login_failure
WHERE remote = $1 AND created_at > clock_timestamp() - make_interval(secs => $2)
ORDER BY created_at DESC OFFSET $3 - 1 LIMIT 1`
)

// checkLimit fails with CodeRateLimited when the subject has reached max.
func checkLimit(ctx context.Context, tx pgx.Tx, sql, subject string, window time.Duration, max int) error {
	if max == 0 || subject == "" {
		return nil
	}
	var age float64
	err := tx.QueryRow(ctx, sql, subject, window.Seconds(), max).Scan(&age)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return errLimited(time.Duration(age*float64(time.Second)), window)
}

func (a *Accounts) checkCodeLimits(ctx context.Context, tx pgx.Tx, addr Address, remote string) error {
	if err := lockSubject(ctx, tx, "address "+addr.Normalized); err != nil {
		return err
	}
	if err := checkLimit(ctx, tx, sqlCodesOfAddress, addr.Normalized, limitWindow, a.limits.CodesPerAddress); err != nil {
		return err
	}
	if err := checkLimit(ctx, tx, sqlCodesOfAddress, addr.Normalized, limitDay, a.limits.CodesPerAddressDay); err != nil {
		return err
	}
	if remote == "" {
		return nil
	}
	if err := lockSubject(ctx, tx, "remote "+remote); err != nil {
		return err
	}
	return checkLimit(ctx, tx, sqlCodesOfRemote, remote, limitWindow, a.limits.CodesPerRemote)
}

// known is the account behind an address.
type known struct {
	found   bool
	account usher.AccountID
	email   string
	status  Status
}

const sqlPersonByAddress = `
SELECT p.account_id, p.email, a.status FROM person AS p JOIN account AS a ON a.account_id = p.account_id
WHERE p.email_normalized = $1`

func personByAddress(ctx context.Context, tx pgx.Tx, addr Address) (known, error) {
	var k known
	err := tx.QueryRow(ctx, sqlPersonByAddress, addr.Normalized).Scan((*[16]byte)(&k.account), &k.email, &k.status)
	if errors.Is(err, pgx.ErrNoRows) {
		return known{}, nil
	}
	k.found = err == nil
	return k, err
}

// SignIn exchanges a code for a session and its token, and makes the account at
// the first time. It fails with CodeSignInFailed for a code that is wrong, has
// expired, was used or was never sent, all with the same words; with
// CodeAccountBlocked once the mailbox is proven; with CodeInvalidRequest for
// what is no address, CodeRateLimited with RetryAfter, and CodeUnavailable.
func (a *Accounts) SignIn(ctx context.Context, email, code string, remote netip.Addr) (string, Session, error) {
	var who known
	err := a.prove(ctx, email, code, remote, func(tx pgx.Tx, addr Address, sent sentCode, k known) (err error) {
		if who = k; !k.found {
			who.account, err = createAccount(ctx, tx, addr, sent)
		}
		return err
	})
	if err != nil {
		return "", Session{}, fmt.Errorf("sign in: %w", err)
	}
	if who.status == StatusBlocked {
		return "", Session{}, errBlocked()
	}
	text, s := a.issue(who.account)
	return text, s, nil
}

const (
	sqlTryCodes = `
UPDATE login_code SET attempts = attempts + 1
WHERE email_normalized = $1 AND used_at IS NULL AND attempts < $2 AND expires_at > clock_timestamp()
RETURNING sent_to, locale, salt, code_hash`

	sqlAddFailure = `INSERT INTO login_failure (remote, created_at) VALUES ($1, clock_timestamp())`

	sqlUseCodes = `UPDATE login_code SET used_at = clock_timestamp() WHERE email_normalized = $1 AND used_at IS NULL`
)

// prove runs then in the transaction that uses up the address's codes, if the
// code entered is one of them. Otherwise the attempt counts against all live
// codes of the address, durably, and the answer is CodeSignInFailed.
func (a *Accounts) prove(ctx context.Context, email, code string, remote netip.Addr, then func(pgx.Tx, Address, sentCode, known) error) error {
	addr, err := ParseAddress(email)
	if err != nil {
		return err
	}
	proven := false
	err = pg.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		if err := checkLimit(ctx, tx, sqlFailuresOfRemote, remoteKey(remote), limitWindow, a.limits.FailuresPerRemote); err != nil {
			return err
		}
		if err := lockSubject(ctx, tx, "address "+addr.Normalized); err != nil {
			return err
		}
		live, err := tryCodes(ctx, tx, addr)
		if err != nil {
			return err
		}
		k, err := personByAddress(ctx, tx, addr)
		if err != nil {
			return err
		}
		sent, ok := matchCode(live, cleanCode(code))
		// A code proves the mailbox it was sent to, not one with a like address.
		if proven = ok && (!k.found || k.email == sent.sentTo); !proven {
			return addFailure(ctx, tx, remoteKey(remote))
		}
		if _, err := tx.Exec(ctx, sqlUseCodes, addr.Normalized); err != nil {
			return err
		}
		return then(tx, addr, sent, k)
	})
	if err == nil && !proven {
		return errSignIn()
	}
	return err
}

func addFailure(ctx context.Context, tx pgx.Tx, remote string) error {
	if remote == "" {
		return nil
	}
	_, err := tx.Exec(ctx, sqlAddFailure, remote)
	return err
}

func tryCodes(ctx context.Context, tx pgx.Tx, addr Address) ([]sentCode, error) {
	rows, err := tx.Query(ctx, sqlTryCodes, addr.Normalized, attemptsMax)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (sentCode, error) {
		var c sentCode
		err := row.Scan(&c.sentTo, &c.locale, &c.salt, &c.hash)
		return c, err
	})
}

const (
	sqlAddAccount = `INSERT INTO account (account_id, status, created_at) VALUES ($1, 'active', clock_timestamp())`

	sqlAddPerson = `
INSERT INTO person (account_id, email, email_normalized, locale, updated_at) VALUES ($1, $2, $3, $4, clock_timestamp())`
)

// createAccount makes the account of a mailbox that was just proven. The lock on
// the address keeps a second one from being made; the unique constraint would.
func createAccount(ctx context.Context, tx pgx.Tx, addr Address, sent sentCode) (usher.AccountID, error) {
	id := usher.NewAccountID()
	if _, err := tx.Exec(ctx, sqlAddAccount, [16]byte(id)); err != nil {
		return id, err
	}
	_, err := tx.Exec(ctx, sqlAddPerson, [16]byte(id), sent.sentTo, addr.Normalized, sent.locale)
	return id, err
}

const sqlChangeAddress = `
UPDATE person SET email = $2, email_normalized = $3, updated_at = clock_timestamp() WHERE account_id = $1`

// ChangeAddress gives the account another e-mail address, proven by a code that
// RequestCode sent there. The account stays the same, and so do its limits. It
// fails like SignIn, with CodeAddressTaken when the mailbox has an account of
// its own, and with CodeNotFound for an account that has no person.
func (a *Accounts) ChangeAddress(ctx context.Context, account usher.AccountID, email, code string, remote netip.Addr) error {
	taken := false
	err := a.prove(ctx, email, code, remote, func(tx pgx.Tx, addr Address, sent sentCode, k known) error {
		if taken = k.found && k.account != account; taken || k.found {
			return nil
		}
		tag, err := tx.Exec(ctx, sqlChangeAddress, [16]byte(account), sent.sentTo, addr.Normalized)
		if err == nil && tag.RowsAffected() == 0 {
			err = usher.Errorf(usher.CodeNotFound, "no such account")
		}
		return err
	})
	if taken && err == nil || pg.IsUnique(err, "person_email") {
		return usher.Errorf(usher.CodeAddressTaken, "this address belongs to another account")
	}
	if err != nil {
		return fmt.Errorf("change address: %w", err)
	}
	return nil
}
