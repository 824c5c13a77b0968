package redemption

import (
	"time"

	"usher"
)

// standing is what there is to know when a claim took nothing.
type standing struct {
	now time.Time
	// revoked says that the device may not act.
	revoked bool
	// closed says that the pool honours nothing at this time.
	closed bool
	// own is the redemption that the device and transaction id have already.
	own *ownClaim
	// code is the code that was scanned, if it exists.
	code *codeStanding
}

type ownClaim struct {
	redemption usher.RedemptionID
	ticket     usher.TicketID
	settle     Settle
	claimedAt  time.Time
	confirmBy  time.Time
}

type codeStanding struct {
	ticket    usher.TicketID
	seat      usher.SeatID
	tier      usher.TierID
	status    usher.CodeStatus
	cancelled bool
	usedAt    *time.Time
	// confirmBy is the limit of its claim; nil when it was never claimed.
	confirmBy *time.Time
}

// statusAt is the code's state at a time: a claim past its limit is abnormal by
// time alone, whether the sweep has come by or not.
func (c codeStanding) statusAt(now time.Time) usher.CodeStatus {
	if c.status == usher.CodeProcessing && !now.Before(*c.confirmBy) {
		return usher.CodeAbnormal
	}
	return c.status
}

const retryUndecided = time.Second

// decideClaim gives the most serious reason why a claim took nothing, or nil
// when it is a repeat that gets its first answer again. "Used" is said only of a
// code that would be good otherwise.
func decideClaim(s scan, st standing) *usher.Error {
	switch {
	case st.revoked:
		return usher.Errorf(usher.CodeUnauthenticated, "the device credential is not valid")
	case st.own != nil && st.code != nil && st.own.ticket == st.code.ticket:
		return nil
	case st.own != nil:
		return usher.Errorf(usher.CodeTransactionConflict, "this transaction id has redeemed another code")
	case s.foreign:
		return usher.Errorf(usher.CodeWrongPool, "this code belongs to another event")
	case st.code == nil:
		return usher.Errorf(usher.CodeCodeUnknown, "this is not a code of this event")
	}
	status := st.code.statusAt(st.now)
	switch {
	case status == usher.CodeVoided || st.code.cancelled:
		return usher.Errorf(usher.CodeCodeVoided, "this code was cancelled")
	case st.closed:
		return usher.Errorf(usher.CodeRedemptionClosed, "codes are not honoured at this time")
	case status == usher.CodeAbnormal:
		return usher.Errorf(usher.CodeCodeAbnormal, "this code needs a member of staff")
	case status == usher.CodeUsed:
		return usher.Errorf(usher.CodeCodeUsed, "this code was used at %s", st.code.usedAt.UTC().Format(time.RFC3339))
	case status == usher.CodeProcessing:
		return usher.Errorf(usher.CodeCodeBusy, "this code is being redeemed")
	}
	// Still unused: another claim holds its row and is not decided yet.
	busy := usher.Errorf(usher.CodeCodeBusy, "this code is being redeemed")
	busy.RetryAfter = retryUndecided
	return busy
}

// reported is a redemption as a confirmation finds it, read under the lock of
// its code.
type reported struct {
	now           time.Time
	revoked       bool
	device        usher.DeviceID
	transactionID string
	confirmBy     time.Time
	status        usher.CodeStatus
	// result and settledAt are the first settlement; empty and nil before it.
	result    Result
	settledAt *time.Time
}

// verdict is what a confirmation does.
type verdict struct {
	// settle is the result to settle the redemption with; "" settles nothing.
	settle Result
	// evidence keeps the report beside the settlement that contradicts it.
	evidence bool
	// replay repeats the first answer.
	replay bool
	// refusal is the answer when the report was not what settled the redemption.
	refusal *usher.Error
}

// decideConfirm judges a confirmation. The first word counts; a report that
// comes after the limit, or contradicts the first, changes nothing and is kept.
func decideConfirm(c Confirm, p reported) verdict {
	frozen := usher.Errorf(usher.CodeCodeAbnormal, "this redemption was frozen before the report came; the report is kept for staff")
	switch {
	case p.revoked:
		return verdict{refusal: usher.Errorf(usher.CodeUnauthenticated, "the device credential is not valid")}
	case p.device != c.Device.ID:
		return verdict{refusal: errNoRedemption()}
	case p.transactionID != c.TransactionID:
		return verdict{refusal: usher.Errorf(usher.CodeTransactionConflict, "this redemption has another transaction id")}
	case p.result == "" && p.now.Before(p.confirmBy):
		return verdict{settle: c.Result}
	case p.result == "":
		return verdict{settle: resultExpired, evidence: true, refusal: frozen}
	case p.result == c.Result:
		return verdict{replay: true}
	case p.status == usher.CodeAbnormal || p.result == resultExpired:
		return verdict{evidence: true, refusal: frozen}
	}
	return verdict{
		evidence: true,
		refusal:  usher.Errorf(usher.CodeTransactionConflict, "another result was reported before; this report is kept for staff"),
	}
}
