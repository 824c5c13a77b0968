package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/work"
)

// kindTickets is the mail with the tickets of a captured order.
const kindTickets = "tickets"

// MailTable is where work finds mails.
var MailTable = work.Table{Name: "mail", Key: "mail_id"}

// AddressBook knows where mail to an account goes; package account implements it.
type AddressBook interface {
	// Contact returns address, name (may be empty) and locale. It fails with
	// CodeNotFound when the account has no person, or no longer has one.
	Contact(ctx context.Context, account usher.AccountID) (email, name, locale string, err error)
}

// TicketSource knows the tickets of an order as a mail shows them.
type TicketSource interface {
	// Tickets returns all tickets of the order, or none while they are not issued.
	Tickets(ctx context.Context, order usher.OrderID) ([]TicketInfo, error)
}

// Notifier sends the mails that orders cause.
type Notifier struct {
	homes     *pg.Homes
	mailer    *Mailer
	addresses AddressBook
	tickets   TicketSource
	log       *slog.Logger
}

// New makes a notifier. Its reader and its queues run elsewhere: see Reader and
// Work.
func New(homes *pg.Homes, mailer *Mailer, addresses AddressBook, tickets TicketSource, log *slog.Logger) *Notifier {
	return &Notifier{homes: homes, mailer: mailer, addresses: addresses, tickets: tickets, log: log}
}

// Reader is the outbox reader that writes a mail row when an order is captured,
// and withdraws it when the order is cancelled before it was sent. Rows and
// cursor commit together: exactly one row per order.
func (n *Notifier) Reader() ledger.Reader {
	return ledger.Reader{Name: "mail", Types: []ledger.EntryType{ledger.EntryOrderCaptured, ledger.EntryOrderCancelled}, Handle: n.handleEntries}
}

const (
	sqlAddMails = `
INSERT INTO mail (mail_id, event_id, order_id, account_id, kind, created_at, next_at)
SELECT m.mail_id, $1, m.order_id, m.account_id, 'tickets', c.now, c.now
FROM unnest($2::uuid[], $3::uuid[], $4::uuid[]) AS m(mail_id, order_id, account_id)
CROSS JOIN (SELECT clock_timestamp() AS now) AS c
ON CONFLICT (order_id, kind) DO NOTHING`

	sqlWithdrawMails = `
UPDATE mail SET withdrawn_at = clock_timestamp(), withdrawn_reason = 'order cancelled', next_at = NULL
WHERE order_id = ANY($1::uuid[]) AND next_at IS NOT NULL`
)

// handleEntries adds before it withdraws: an order is captured before it can be
// cancelled.
func (n *Notifier) handleEntries(ctx context.Context, tx pgx.Tx, event usher.EventID, entries []ledger.Entry) error {
	var ids []usher.MailID
	var captured, cancelled []usher.OrderID
	var accounts []usher.AccountID
	for _, e := range entries {
		switch e.Type {
		case ledger.EntryOrderCaptured:
			ids = append(ids, usher.NewMailID(event))
			captured, accounts = append(captured, e.Payload.Order), append(accounts, e.Payload.Account)
		case ledger.EntryOrderCancelled:
			cancelled = append(cancelled, e.Payload.Order)
		}
	}
	if len(captured) > 0 {
		if _, err := tx.Exec(ctx, sqlAddMails, event, ids, captured, accounts); err != nil {
			return fmt.Errorf("add mails: %w", err)
		}
	}
	if len(cancelled) > 0 {
		if _, err := tx.Exec(ctx, sqlWithdrawMails, cancelled); err != nil {
			return fmt.Errorf("withdraw mails: %w", err)
		}
	}
	return nil
}

// Work adds one queue per shard to the runner, which sends the mails.
func (n *Notifier) Work(r *work.Runner) {
	opts := work.Options{Workers: sendWorkers, Lease: sendLease}
	for _, s := range n.homes.Shards() {
		r.Add(queueName(s.Number), s.Pool, MailTable, opts, func(ctx context.Context, j work.Job) work.Verdict {
			return n.deliver(ctx, s.Pool, j)
		})
	}
}

func queueName(shard pg.ShardNumber) string { return "mail-" + strconv.Itoa(int(shard)) }

// Mail is a mail row as staff see it.
type Mail struct {
	ID        usher.MailID
	Order     usher.OrderID
	Kind      string
	CreatedAt time.Time
	// SentAt, WithdrawnAt and ParkedAt are nil unless that happened.
	SentAt          *time.Time
	WithdrawnAt     *time.Time
	WithdrawnReason string
	ParkedAt        *time.Time
	Attempts        int
	LastError       string
}

const (
	sqlMailsOfOrder = `
SELECT mail_id, order_id, kind, created_at, sent_at, withdrawn_at, withdrawn_reason, parked_at, attempts, last_error
FROM mail WHERE order_id = $1 ORDER BY created_at`

	sqlParkedMails = `
SELECT mail_id, order_id, kind, created_at, sent_at, withdrawn_at, withdrawn_reason, parked_at, attempts, last_error
FROM mail WHERE parked_at IS NOT NULL AND next_at IS NOT NULL ORDER BY parked_at, mail_id LIMIT $1`
)

// Mails lists the mails of an order. It fails with CodeNotFound for an event
// without a home, and CodeUnavailable.
func (n *Notifier) Mails(ctx context.Context, order usher.OrderID) ([]Mail, error) {
	pool, err := n.homes.Shard(ctx, order.Event())
	if err != nil {
		return nil, err
	}
	return readMails(ctx, pool, sqlMailsOfOrder, order)
}

// Parked lists mails that wait for a person, at most limit per shard, the
// longest parked first. A shard that does not answer leaves the others listed;
// its CodeUnavailable is returned beside them.
func (n *Notifier) Parked(ctx context.Context, limit int) ([]Mail, error) {
	var out []Mail
	var errs []error
	for _, s := range n.homes.Shards() {
		mails, err := readMails(ctx, s.Pool, sqlParkedMails, limit)
		out, errs = append(out, mails...), append(errs, err)
	}
	return out, errors.Join(errs...)
}

func readMails(ctx context.Context, pool *pgxpool.Pool, sql string, arg any) ([]Mail, error) {
	// What Query failed with comes back when the rows are collected.
	rows, _ := pool.Query(ctx, sql, arg)
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m Mail, err error) {
		err = row.Scan(&m.ID, &m.Order, &m.Kind, &m.CreatedAt, &m.SentAt, &m.WithdrawnAt, &m.WithdrawnReason,
			&m.ParkedAt, &m.Attempts, &m.LastError)
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("read mails: %w", pg.Unavailable(err))
	}
	return out, nil
}

// Redrive sends a parked mail again. It fails with CodeNotFound when the mail is
// not parked, and CodeUnavailable.
func (n *Notifier) Redrive(ctx context.Context, id usher.MailID) error {
	pool, err := n.homes.Shard(ctx, id.Event())
	if err != nil {
		return err
	}
	return work.Redrive(ctx, pool, MailTable, id)
}
