package notify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/fault"
	"usher/internal/pg"
	"usher/internal/work"
)

const (
	sendWorkers = 8
	// sendLease is longer than one sending with everything around it may take.
	sendLease = sendTimeout + 30*time.Second

	// A mail that the server rejects for good is tried a few times all the same,
	// minutes apart: policies and mailboxes change. One that fails for now is
	// tried for more than an hour of outage before a person has to look.
	rejectionsMax = 3
	rejectedPause = 2 * time.Minute
	failuresMax   = 45
	retryBase     = 5 * time.Second
	retryLimit    = 2 * time.Minute

	// Tickets follow the capture within a second; when they do not, asking costs
	// little and nobody's help is needed.
	waitBase  = 500 * time.Millisecond
	waitLimit = time.Minute
)

// contact is who a mail goes to.
type contact struct{ email, name, locale string }

// pending is a mail row that is not settled.
type pending struct {
	id      usher.MailID
	order   usher.OrderID
	account usher.AccountID
}

// deliver works one mail row. What is durable at each step: nothing until the
// mail server took the mail; then, after markSent, that it did. Dying between
// the two sends the mail once more, with the same Message-ID.
func (n *Notifier) deliver(ctx context.Context, pool *pgxpool.Pool, j work.Job) work.Verdict {
	m, found, err := readPending(ctx, pool, j.ID)
	switch {
	case err != nil:
		return work.Again(backoff(j.Attempts), "mail row not read: "+string(usher.CodeOf(err)))
	case !found:
		return work.Done()
	}
	to, err := n.contact(ctx, m.account)
	switch {
	case usher.CodeOf(err) == usher.CodeNotFound:
		return settle(ctx, pool, j, sqlWithdrawMail, m.id, "no address")
	case err != nil:
		return work.Again(backoff(j.Attempts), "address not read: "+string(usher.CodeOf(err)))
	}
	tickets, err := n.tickets.Tickets(ctx, m.order)
	switch {
	case err != nil:
		return work.Again(backoff(j.Attempts), "tickets not read: "+string(usher.CodeOf(err)))
	case len(tickets) == 0:
		return work.Again(work.Backoff(j.Attempts, waitBase, waitLimit), "tickets are not issued yet")
	}
	l, err := n.mailer.ticketsLetter(m.id, m.order, to, tickets)
	if err != nil {
		// The text of the error names the field, never its content.
		return work.Park(fmt.Sprintf("mail cannot be composed: %v", err))
	}
	if err := n.sendOnce(ctx, l); err != nil {
		return n.failed(ctx, pool, m, j, err)
	}
	return settle(ctx, pool, j, sqlMarkSent, m.id)
}

// sendOnce is the sending with the points where tests break it.
func (n *Notifier) sendOnce(ctx context.Context, l letter) error {
	if err := fault.Point(ctx, "mail.before_send"); err != nil {
		return err
	}
	if err := n.mailer.send(ctx, l); err != nil {
		return err
	}
	return fault.Point(ctx, "mail.after_send")
}

func (n *Notifier) contact(ctx context.Context, account usher.AccountID) (contact, error) {
	email, name, locale, err := n.addresses.Contact(ctx, account)
	return contact{email, name, locale}, err
}

func backoff(attempts int) time.Duration { return work.Backoff(attempts, retryBase, retryLimit) }

const sqlReadPending = `
SELECT mail_id, order_id, account_id FROM mail WHERE mail_id = $1 AND next_at IS NOT NULL`

func readPending(ctx context.Context, pool *pgxpool.Pool, id [16]byte) (m pending, found bool, err error) {
	err = pool.QueryRow(ctx, sqlReadPending, id).Scan(&m.id, &m.order, &m.account)
	if errors.Is(err, pgx.ErrNoRows) {
		return m, false, nil
	}
	return m, err == nil, pg.Unavailable(err)
}

const (
	sqlMarkSent = `
UPDATE mail SET sent_at = clock_timestamp(), next_at = NULL, failures = 0
WHERE mail_id = $1 AND sent_at IS NULL`

	sqlWithdrawMail = `
UPDATE mail SET withdrawn_at = clock_timestamp(), next_at = NULL, withdrawn_reason = $2
WHERE mail_id = $1 AND next_at IS NOT NULL`
)

// settle ends a mail.
func settle(ctx context.Context, pool *pgxpool.Pool, j work.Job, sql string, args ...any) work.Verdict {
	err := pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
	if err != nil {
		return work.Again(backoff(j.Attempts), "result not written: "+string(usher.CodeOf(err)))
	}
	return work.Done()
}

// Failures are counted apart from attempts, which also count the looks for
// tickets. A redriven row starts at attempt 1 and counts anew.
const sqlCountFailure = `
UPDATE mail SET failures = CASE WHEN $2 THEN 1 ELSE failures + 1 END WHERE mail_id = $1 RETURNING failures`

func (n *Notifier) failed(ctx context.Context, pool *pgxpool.Pool, m pending, j work.Job, cause error) work.Verdict {
	var failures int
	err := pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sqlCountFailure, m.id, j.Attempts == 1).Scan(&failures)
	})
	if err != nil {
		return work.Again(retryLimit, "failure not counted: "+string(usher.CodeOf(err)))
	}
	most, pause, reason := failuresMax, backoff(failures), "not sent"
	var se *sendError
	if errors.As(cause, &se) {
		reason = se.reason
		if se.rejected {
			most, pause = rejectionsMax, rejectedPause
		}
	}
	n.log.WarnContext(ctx, "mail not sent", "mail", m.id.String(), "failures", failures, "reason", reason)
	if failures >= most {
		return work.Park(reason)
	}
	return work.Again(pause, reason)
}
