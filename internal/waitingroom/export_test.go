package waitingroom

import (
	"context"
	"time"

	"usher"
	"usher/internal/token"
)

// Tick, Refresh, Flush and Sweep are single steps of Run, for tests that decide
// when they happen.
func (r *Rooms) Tick(ctx context.Context, event usher.EventID) error { return r.tick(ctx, event) }

func (r *Rooms) Refresh(ctx context.Context) error { return r.refresh(ctx, false) }

func (r *Rooms) Flush(ctx context.Context) { r.flush(ctx) }

func (r *Rooms) Sweep(ctx context.Context, event usher.EventID) (int64, error) {
	return r.sweep(ctx, event)
}

// SignAdmission issues a token with the given times.
func (r *Rooms) SignAdmission(
	event usher.EventID, account usher.AccountID, session usher.SessionID, round int, issued, expires time.Time,
) string {
	p := admissionPayload{event: event, round: round, account: account, session: session, issued: issued, expires: expires}
	return r.keys.Sign(token.Admission, p.encode())
}

// Advance and BucketKey are pure parts worth tests of their own.
var (
	Advance   = advance
	BucketKey = bucketKey
)

// RoomStatements and ShardStatements are all statements by name.
var (
	RoomStatements = map[string]string{
		"sqlCreateRoom": sqlCreateRoom, "sqlCreateRound": sqlCreateRound, "sqlLockRules": sqlLockRules,
		"sqlReadRules": sqlReadRules, "sqlReplaceRules": sqlReplaceRules, "sqlReplaceSettings": sqlReplaceSettings,
		"sqlRounds": sqlRounds, "sqlLockState": sqlLockState, "sqlReadClock": sqlReadClock,
		"sqlReadEntries": sqlReadEntries, "sqlReadCalls": sqlReadCalls, "sqlReadLeavers": sqlReadLeavers,
		"sqlReadGaps": sqlReadGaps, "sqlInsertEntries": sqlInsertEntries, "sqlUpdateEntry": sqlUpdateEntry,
		"sqlInsertBucket": sqlInsertBucket, "sqlInsertCall": sqlInsertCall, "sqlUpdateCall": sqlUpdateCall,
		"sqlUpdateState": sqlUpdateState, "sqlReadState": sqlReadState, "sqlReadBucket": sqlReadBucket,
		"sqlReadGateSettings": sqlReadGateSettings, "sqlRoomsToTick": sqlRoomsToTick, "sqlGiveUpLeads": sqlGiveUpLeads,
		"sqlMeasure": sqlMeasure, "sqlRefresh": sqlRefresh, "sqlSetPhase": sqlSetPhase, "sqlSetRate": sqlSetRate,
		"sqlSetCap": sqlSetCap, "sqlSetMessage": sqlSetMessage, "sqlSetOpensAt": sqlSetOpensAt,
		"sqlEndRound": sqlEndRound, "sqlResetState": sqlResetState, "sqlStatus": sqlStatus,
	}
	ShardStatements = map[string]string{
		"sqlHasLiveSession": sqlHasLiveSession, "sqlEndSession": sqlEndSession, "sqlSessionExists": sqlSessionExists,
		"sqlTouchSessions": sqlTouchSessions, "sqlPutGate": sqlPutGate, "sqlEndOlderRounds": sqlEndOlderRounds,
		"sqlReadGateVersion": sqlReadGateVersion, "sqlLockGate": sqlLockGate, "sqlEndIdle": sqlEndIdle,
		"sqlShopClock": sqlShopClock, "sqlCountLive": sqlCountLive, "sqlReadSessions": sqlReadSessions,
		"sqlInsertSessions": sqlInsertSessions, "sqlExtendSession": sqlExtendSession,
		"sqlCountUnexpired": sqlCountUnexpired,
	}
)
