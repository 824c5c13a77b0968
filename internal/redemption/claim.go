package redemption

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"usher"
	"usher/internal/fault"
	"usher/internal/pg"
)

// Claim asks to redeem a code at a device.
type Claim struct {
	// Device is what Redeemer.Device answered for the caller's credential.
	Device Device
	// Code is what was scanned or typed, as it came.
	Code string
	// TransactionID is the device's own name for this attempt: 1 to 128 printable
	// ASCII characters, unique per device, kept until the answer is known.
	TransactionID string
}

// Redemption is a granted claim.
type Redemption struct {
	ID            usher.RedemptionID
	Ticket        usher.TicketID
	Event         usher.EventID
	Seat          usher.SeatID
	Tier          usher.TierID
	Device        usher.DeviceID
	TransactionID string
	// Status is the first answer: used where the device settles now, else processing.
	Status usher.CodeStatus
	// Current is the code's state now. A device that settles later acts only while
	// it is processing and ConfirmBy has not passed.
	Current     usher.CodeStatus
	Instruction string
	ClaimedAt   time.Time
	// ConfirmBy is when an unconfirmed claim is frozen.
	ConfirmBy time.Time
	// Now is the database time at which this view was taken.
	Now time.Time
	// Replayed says that this is the stored answer to an earlier request.
	Replayed bool
}

// Claim redeems a code, or begins to: the code moves from unused to processing,
// and to used in the same transaction where the device settles now. The same
// device and transaction id get the first answer again.
//
// Refusals, the most serious reason first: CodeUnauthenticated (the device was
// revoked), CodeTransactionConflict (the transaction id redeemed another code),
// CodeWrongPool, CodeCodeUnknown, CodeCodeVoided, CodeRedemptionClosed,
// CodeCodeAbnormal, CodeCodeUsed, CodeCodeBusy (with RetryAfter when a claim of
// the code is still undecided). A refusal changes no code and no count; it is
// kept in the audit list alone and is not bound to the transaction id.
// CodeInvalidRequest and CodeIdempotencyKeyRequired report the transaction id;
// CodeUnavailable and CodeUnknown are to be repeated with the same one.
func (r *Redeemer) Claim(ctx context.Context, c Claim) (Redemption, error) {
	start := time.Now()
	red, err := r.claim(ctx, c)
	took := time.Since(start)
	r.metrics.claimed(red.Replayed, err, took)
	if err != nil {
		r.log.InfoContext(ctx, "claim refused", "event", c.Device.Event, "device", c.Device.ID, "reason", usher.CodeOf(err), "took", took)
		return Redemption{}, err
	}
	r.log.InfoContext(ctx, "claim granted", "event", red.Event, "device", red.Device, "redemption", red.ID,
		"status", red.Status, "replayed", red.Replayed, "took", took)
	return red, nil
}

// scan is one claim on its way through the transaction.
type scan struct {
	Claim
	// text is the code as stored; empty when what was scanned is not a code of
	// this event, and then nothing is looked up by it.
	text string
	// foreign says that it is a code of another event.
	foreign bool
	// redemption is the id that the claim gets if it wins.
	redemption usher.RedemptionID
}

func newScan(c Claim) scan {
	s := scan{Claim: c, redemption: usher.NewRedemptionID(c.Device.Event)}
	text, event, ok := parseCode(c.Code)
	switch {
	case ok && event == c.Device.Event:
		s.text = text
	case ok:
		s.foreign = true
	}
	return s
}

// digest names what was scanned in the audit list without keeping its text.
func (s scan) digest() []byte {
	text, _, ok := parseCode(s.Code)
	if !ok {
		text = s.Code
	}
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

func (r *Redeemer) claim(ctx context.Context, c Claim) (Redemption, error) {
	if err := usher.CheckKey("transaction id", c.TransactionID); err != nil {
		return Redemption{}, err
	}
	shard, err := r.homes.Shard(ctx, c.Device.Event)
	if err != nil {
		return Redemption{}, err
	}
	s := newScan(c)
	var red Redemption
	var refusal error
	attempt := func() error {
		return pg.InTx(ctx, shard, func(tx pgx.Tx) (err error) {
			red, refusal, err = s.run(ctx, tx)
			return err
		})
	}
	err = attempt()
	if pg.IsUnique(err, "redemption_transaction") {
		// The transaction id redeemed another code in that very moment. Its row is
		// committed, so the second attempt finds it.
		err = attempt()
	}
	if err != nil {
		return Redemption{}, fmt.Errorf("claim at %s: %w", c.Device.ID, err)
	}
	if refusal != nil {
		return Redemption{}, refusal
	}
	// Durable now: the claim and its redemption. A device that never hears of it
	// asks again under the same transaction id, or the limit freezes the code.
	if err := fault.Point(ctx, "redeem.after_claim"); err != nil {
		return Redemption{}, fmt.Errorf("claim at %s: %w", c.Device.ID, err)
	}
	return red, nil
}

// run takes the code, or finds out why not. A refusal is a result: its row in
// the audit list commits, so it comes back beside a nil error.
func (s scan) run(ctx context.Context, tx pgx.Tx) (red Redemption, refusal, err error) {
	if s.text != "" {
		red, won, err := s.take(ctx, tx)
		if won || err != nil {
			return red, nil, err
		}
	}
	st, err := s.look(ctx, tx)
	if err != nil {
		return Redemption{}, nil, err
	}
	if refused := decideClaim(s, st); refused != nil {
		if refused.Code == usher.CodeUnauthenticated {
			return Redemption{}, refused, nil
		}
		return Redemption{}, refused, s.recordRefusal(ctx, tx, st, refused.Code)
	}
	return s.replay(st), nil, nil
}

// sqlClaimCode takes the code if it is unused and nobody else has its row, and
// writes the redemption, or does nothing at all. It waits for nobody: a locked row
// is skipped. The subqueries are scalar, because a join would scan the whole hall
// on tables that were never analysed.
const sqlClaimCode = `
WITH allowed AS (
    SELECT d.device_id, d.settle, p.pool_id, p.confirm_seconds
    FROM device d JOIN pool p ON p.event_id = d.event_id AND p.kind = 'ticket'
    WHERE d.device_id = $1 AND d.revoked_at IS NULL
        AND (p.valid_from IS NULL OR p.valid_from <= clock_timestamp())
        AND (p.valid_until IS NULL OR clock_timestamp() < p.valid_until)
), taken AS (
    UPDATE code SET status = 'processing', redemption_id = $4, claimed_at = clock_timestamp()
    WHERE status = 'unused' AND ticket_id = (
        SELECT ticket_id FROM code
        WHERE pool_id = (SELECT pool_id FROM allowed) AND code = $2 AND status = 'unused'
            AND NOT EXISTS (SELECT FROM redemption WHERE device_id = $1 AND transaction_id = $3)
        FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING ticket_id, event_id, seat_id, tier_id, claimed_at
), made AS (
    INSERT INTO redemption (redemption_id, ticket_id, event_id, device_id, transaction_id, settle, claimed_at, confirm_by)
    SELECT $4, t.ticket_id, t.event_id, a.device_id, $3, a.settle, t.claimed_at, t.claimed_at + make_interval(secs => a.confirm_seconds)
    FROM taken t CROSS JOIN allowed a
    RETURNING confirm_by
)
SELECT t.ticket_id, t.event_id, t.seat_id, t.tier_id, t.claimed_at, m.confirm_by, clock_timestamp()
FROM taken t CROSS JOIN made m`

// take reports whether the claim won. Where the device settles now, the second
// edge follows in the same round trip and the same commit.
func (s scan) take(ctx context.Context, tx pgx.Tx) (red Redemption, won bool, err error) {
	red = s.granted(s.redemption, s.Device.Settle)
	red.Current = red.Status
	var b pgx.Batch
	b.Queue(sqlClaimCode, s.Device.ID, s.text, s.TransactionID, s.redemption).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&red.Ticket, &red.Event, &red.Seat, &red.Tier, &red.ClaimedAt, &red.ConfirmBy, &red.Now)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		won = err == nil
		return err
	})
	if s.Device.Settle == SettleNow {
		b.Queue(sqlSettleUsed, s.redemption, ResultAdmitted).Exec(func(tag pgconn.CommandTag) error {
			if won && tag.RowsAffected() != 1 {
				return errors.New("the claim's own code was not in processing")
			}
			return nil
		})
	}
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return Redemption{}, false, fmt.Errorf("take code: %w", err)
	}
	return red, won, nil
}

// granted is what a claim's first answer says whenever it is given.
func (s scan) granted(id usher.RedemptionID, settle Settle) Redemption {
	red := Redemption{
		ID:            id,
		Event:         s.Device.Event,
		Device:        s.Device.ID,
		TransactionID: s.TransactionID,
		Status:        usher.CodeProcessing,
		Instruction:   s.Device.Instruction,
	}
	if settle == SettleNow {
		red.Status = usher.CodeUsed
	}
	return red
}

// replay is the first answer once more, beside what became of the code since.
func (s scan) replay(st standing) Redemption {
	red := s.granted(st.own.redemption, st.own.settle)
	red.Ticket, red.Seat, red.Tier = st.code.ticket, st.code.seat, st.code.tier
	red.Current = st.code.statusAt(st.now)
	red.ClaimedAt, red.ConfirmBy, red.Now = st.own.claimedAt, st.own.confirmBy, st.now
	red.Replayed = true
	return red
}

// sqlReadStanding tells why a claim took nothing. It is a later statement of the
// same transaction, so it sees what was committed while the claim ran.
const sqlReadStanding = `
SELECT clock_timestamp(), d.revoked_at IS NOT NULL,
    coalesce(p.valid_from > clock_timestamp() OR p.valid_until <= clock_timestamp(), false),
    own.redemption_id, own.ticket_id, own.settle, own.claimed_at, own.confirm_by,
    c.ticket_id, c.seat_id, c.tier_id, c.status, c.cancelled_at IS NOT NULL, c.used_at, r.confirm_by
FROM device d
LEFT JOIN pool p ON p.event_id = d.event_id AND p.kind = 'ticket'
LEFT JOIN redemption own ON own.device_id = d.device_id AND own.transaction_id = $3
LEFT JOIN code c ON c.pool_id = p.pool_id AND c.code = $2
LEFT JOIN redemption r ON r.redemption_id = c.redemption_id
WHERE d.device_id = $1`

func (s scan) look(ctx context.Context, tx pgx.Tx) (standing, error) {
	var (
		st                           standing
		ownID                        *usher.RedemptionID
		ownTicket, ticket            *usher.TicketID
		settle                       *Settle
		claimedAt, ownBy, usedAt, by *time.Time
		seat                         *usher.SeatID
		tier                         *usher.TierID
		status                       *usher.CodeStatus
		cancelled                    bool
	)
	err := tx.QueryRow(ctx, sqlReadStanding, s.Device.ID, s.text, s.TransactionID).Scan(
		&st.now, &st.revoked, &st.closed, &ownID, &ownTicket, &settle, &claimedAt, &ownBy,
		&ticket, &seat, &tier, &status, &cancelled, &usedAt, &by)
	if errors.Is(err, pgx.ErrNoRows) {
		return standing{revoked: true}, nil
	}
	if err != nil {
		return standing{}, fmt.Errorf("read why not: %w", err)
	}
	if ownID != nil {
		st.own = &ownClaim{*ownID, *ownTicket, *settle, *claimedAt, *ownBy}
	}
	if ticket != nil {
		st.code = &codeStanding{*ticket, *seat, *tier, *status, cancelled, usedAt, by}
	}
	return st, nil
}
