package redemption

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

// Refusal is one refused scan in the audit list of an event.
type Refusal struct {
	// Number grows within the event's shard.
	Number        int64
	Event         usher.EventID
	Device        usher.DeviceID
	TransactionID string
	// Ticket is the code that was scanned; zero when it is none of this event.
	Ticket usher.TicketID
	Reason usher.Code
	At     time.Time
}

// sqlInsertRefusal appends to the audit list; it locks and changes nothing else.
const sqlInsertRefusal = `
INSERT INTO scan_refusal (event_id, device_id, transaction_id, ticket_id, code_digest, reason, refused_at)
VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp())`

func (s scan) recordRefusal(ctx context.Context, tx pgx.Tx, st standing, reason usher.Code) error {
	var ticket *usher.TicketID
	if st.code != nil {
		ticket = &st.code.ticket
	}
	_, err := tx.Exec(ctx, sqlInsertRefusal, s.Device.Event, s.Device.ID, s.TransactionID, ticket, s.digest(), reason)
	if err != nil {
		return fmt.Errorf("record refusal: %w", err)
	}
	return nil
}

// refusalsMax bounds one page of the audit list.
const refusalsMax = 500

const sqlListRefusals = `
SELECT refusal_id, event_id, device_id, transaction_id, ticket_id, reason, refused_at
FROM scan_refusal WHERE event_id = $1 AND ($2::bigint = 0 OR refusal_id < $2)
ORDER BY refusal_id DESC LIMIT $3`

// Refusals reads the event's refused scans, newest first, at most limit (capped
// at 500), older than the given number; 0 begins with the newest. It fails with
// CodeNotFound for an event without a home.
func (r *Redeemer) Refusals(ctx context.Context, event usher.EventID, before int64, limit int) ([]Refusal, error) {
	shard, err := r.homes.Shard(ctx, event)
	if err != nil {
		return nil, err
	}
	// The caller sees what Query failed with when the rows are collected.
	rows, _ := shard.Query(ctx, sqlListRefusals, event, before, min(max(limit, 1), refusalsMax))
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f Refusal, err error) {
		var ticket *usher.TicketID
		err = row.Scan(&f.Number, &f.Event, &f.Device, &f.TransactionID, &ticket, &f.Reason, &f.At)
		if ticket != nil {
			f.Ticket = *ticket
		}
		return f, err
	})
	if err != nil {
		return nil, fmt.Errorf("list refusals of %s: %w", event, pg.Unavailable(err))
	}
	return out, nil
}
