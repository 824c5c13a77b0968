package redemption

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/fault"
	"usher/internal/pg"
)

// Result is what a device reports of a granted claim.
type Result string

// Results. Dispensed and Admitted make the code used; Failed and Unknown make it
// abnormal, for reconciliation or staff: nobody guesses what the machine did.
const (
	ResultDispensed Result = "dispensed"
	ResultAdmitted  Result = "admitted"
	ResultFailed    Result = "failed"
	ResultUnknown   Result = "unknown"

	// resultExpired is stored when the limit passed without a report.
	resultExpired Result = "expired"
)

// status is the code's state that a settlement leads to.
func (r Result) status() usher.CodeStatus {
	if r == ResultDispensed || r == ResultAdmitted {
		return usher.CodeUsed
	}
	return usher.CodeAbnormal
}

// Confirm reports what a device did with a granted claim.
type Confirm struct {
	// Device is what Redeemer.Device answered for the caller's credential.
	Device     Device
	Redemption usher.RedemptionID
	// TransactionID is the one the claim was made with.
	TransactionID string
	Result        Result
}

// Confirmation is a settled redemption.
type Confirmation struct {
	Redemption usher.RedemptionID
	// Status is what the report made of the code: used or abnormal.
	Status    usher.CodeStatus
	Result    Result
	SettledAt time.Time
	// Replayed says that this is the stored answer to an earlier request.
	Replayed bool
}

func errNoRedemption() *usher.Error {
	return usher.Errorf(usher.CodeNotFound, "no such redemption of this device")
}

// Confirm settles a claim that is in processing. The first report counts; the
// same report again gets the first answer.
//
// Refusals: CodeInvalidRequest, CodeUnauthenticated (the device was revoked),
// CodeNotFound (also for another device's redemption), CodeTransactionConflict
// (another transaction id, or another result than the first), CodeCodeAbnormal
// (the limit passed first). Reports of the last two kinds change nothing and are
// kept as evidence. CodeUnavailable and CodeUnknown are to be repeated.
func (r *Redeemer) Confirm(ctx context.Context, c Confirm) (Confirmation, error) {
	out, err := r.confirm(ctx, c)
	r.metrics.confirmed(out, err)
	if err != nil {
		r.log.WarnContext(ctx, "confirmation refused", "event", c.Device.Event, "device", c.Device.ID,
			"redemption", c.Redemption, "reason", usher.CodeOf(err))
		return Confirmation{}, err
	}
	r.log.InfoContext(ctx, "redemption confirmed", "event", c.Device.Event, "device", c.Device.ID,
		"redemption", c.Redemption, "result", out.Result, "status", out.Status, "replayed", out.Replayed)
	return out, nil
}

func (r *Redeemer) confirm(ctx context.Context, c Confirm) (Confirmation, error) {
	if err := usher.CheckKey("transaction id", c.TransactionID); err != nil {
		return Confirmation{}, err
	}
	switch c.Result {
	case ResultDispensed, ResultAdmitted, ResultFailed, ResultUnknown:
	default:
		return Confirmation{}, usher.Errorf(usher.CodeInvalidRequest, "the result must be dispensed, admitted, failed or unknown")
	}
	if c.Redemption.Event() != c.Device.Event {
		return Confirmation{}, errNoRedemption()
	}
	shard, err := r.homes.Shard(ctx, c.Device.Event)
	if err != nil {
		return Confirmation{}, err
	}
	// Nothing of the report is durable yet: if we die here the device repeats it,
	// or the limit freezes the code.
	if err := fault.Point(ctx, "redeem.before_confirm"); err != nil {
		return Confirmation{}, fmt.Errorf("confirm %s: %w", c.Redemption, err)
	}
	var out Confirmation
	var refusal error
	err = pg.InTx(ctx, shard, func(tx pgx.Tx) (err error) {
		out, refusal, err = c.run(ctx, tx)
		return err
	})
	if err != nil {
		return Confirmation{}, fmt.Errorf("confirm %s: %w", c.Redemption, err)
	}
	if refusal != nil {
		return Confirmation{}, refusal
	}
	return out, nil
}

// run decides under the lock of the code. A refusal is a result: what it keeps
// as evidence commits, so it comes back beside a nil error.
func (c Confirm) run(ctx context.Context, tx pgx.Tx) (out Confirmation, refusal, err error) {
	p, found, err := c.look(ctx, tx)
	if err != nil {
		return Confirmation{}, nil, err
	}
	if !found {
		return Confirmation{}, errNoRedemption(), nil
	}
	v := decideConfirm(c, p)
	if v.evidence {
		if err := c.keepEvidence(ctx, tx); err != nil {
			return Confirmation{}, nil, err
		}
	}
	out = Confirmation{Redemption: c.Redemption, Status: p.result.status(), Result: p.result, Replayed: v.replay}
	if p.settledAt != nil {
		out.SettledAt = *p.settledAt
	}
	if v.settle != "" {
		if out, err = c.settle(ctx, tx, v.settle); err != nil {
			return Confirmation{}, nil, err
		}
	}
	if v.refusal != nil {
		return Confirmation{}, v.refusal, nil
	}
	return out, nil, nil
}

// sqlLockRedeemed locks the code of a redemption, the row that every change of
// either lines up on. The ticket of a redemption never changes.
const sqlLockRedeemed = `
SELECT FROM code WHERE ticket_id = (SELECT ticket_id FROM redemption WHERE redemption_id = $1)
FOR NO KEY UPDATE`

// sqlReadRedemption runs after the lock is held, so its clock and its rows are
// those of the decision.
const sqlReadRedemption = `
SELECT clock_timestamp(), d.revoked_at IS NOT NULL, r.device_id, r.transaction_id, r.confirm_by,
    coalesce(r.result, ''), r.settled_at, c.status
FROM redemption r JOIN code c ON c.ticket_id = r.ticket_id JOIN device d ON d.device_id = $2
WHERE r.redemption_id = $1`

func (c Confirm) look(ctx context.Context, tx pgx.Tx) (p reported, found bool, err error) {
	var b pgx.Batch
	b.Queue(sqlLockRedeemed, c.Redemption)
	b.Queue(sqlReadRedemption, c.Redemption, c.Device.ID).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&p.now, &p.revoked, &p.device, &p.transactionID, &p.confirmBy, &p.result, &p.settledAt, &p.status)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		found = err == nil
		return err
	})
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return reported{}, false, fmt.Errorf("lock redemption: %w", err)
	}
	return p, found, nil
}

// The two ways out of processing. Each moves the code and its redemption in one
// statement, and nothing if the code is not in processing any more.
const (
	sqlSettleUsed = `
WITH moved AS (
    UPDATE code SET status = 'used', used_at = clock_timestamp()
    WHERE ticket_id = (SELECT ticket_id FROM redemption WHERE redemption_id = $1)
        AND status = 'processing' AND redemption_id = $1
    RETURNING used_at
)
UPDATE redemption SET result = $2, settled_at = (SELECT used_at FROM moved)
WHERE redemption_id = $1 AND result IS NULL AND EXISTS (SELECT FROM moved)
RETURNING settled_at`

	sqlSettleAbnormal = `
WITH moved AS (
    UPDATE code SET status = 'abnormal', abnormal_at = clock_timestamp()
    WHERE ticket_id = (SELECT ticket_id FROM redemption WHERE redemption_id = $1)
        AND status = 'processing' AND redemption_id = $1
    RETURNING abnormal_at
)
UPDATE redemption SET result = $2, settled_at = (SELECT abnormal_at FROM moved)
WHERE redemption_id = $1 AND result IS NULL AND EXISTS (SELECT FROM moved)
RETURNING settled_at`
)

// settle fails when the row is not what the decision saw, which the lock rules
// out: the transaction then rolls back.
func (c Confirm) settle(ctx context.Context, tx pgx.Tx, result Result) (Confirmation, error) {
	sql := sqlSettleAbnormal
	if result.status() == usher.CodeUsed {
		sql = sqlSettleUsed
	}
	out := Confirmation{Redemption: c.Redemption, Status: result.status(), Result: result}
	if err := tx.QueryRow(ctx, sql, c.Redemption, result).Scan(&out.SettledAt); err != nil {
		return Confirmation{}, fmt.Errorf("settle redemption as %s: %w", result, err)
	}
	return out, nil
}

const sqlKeepEvidence = `
INSERT INTO late_confirm (redemption_id, result, event_id, device_id, code_status, received_at)
SELECT r.redemption_id, $2, r.event_id, r.device_id, c.status, clock_timestamp()
FROM redemption r JOIN code c ON c.ticket_id = r.ticket_id
WHERE r.redemption_id = $1
ON CONFLICT (redemption_id, result) DO NOTHING`

// keepEvidence stores the report once, however often it is repeated.
func (c Confirm) keepEvidence(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, sqlKeepEvidence, c.Redemption, c.Result); err != nil {
		return fmt.Errorf("keep evidence: %w", err)
	}
	return nil
}
