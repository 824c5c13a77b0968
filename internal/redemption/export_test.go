package redemption

// For black-box tests of what the package keeps to itself.
var (
	NewCode   = newCode
	ParseCode = parseCode
)

// Statements lists every statement by name, for preparing and explaining.
var Statements = map[string]string{
	"sqlInsertPool":     sqlInsertPool,
	"sqlReadPool":       sqlReadPool,
	"sqlChangePool":     sqlChangePool,
	"sqlInsertDevice":   sqlInsertDevice,
	"sqlReadDevice":     sqlReadDevice,
	"sqlListDevices":    sqlListDevices,
	"sqlRevokeDevice":   sqlRevokeDevice,
	"sqlReadTickets":    sqlReadTickets,
	"sqlCountUsed":      sqlCountUsed,
	"sqlKeepOrders":     sqlKeepOrders,
	"sqlLockCodes":      sqlLockCodes,
	"sqlSkippedCodes":   sqlSkippedCodes,
	"sqlSoldPlaces":     sqlSoldPlaces,
	"sqlInsertCodes":    sqlInsertCodes,
	"sqlHasPool":        sqlHasPool,
	"sqlCancelCodes":    sqlCancelCodes,
	"sqlClaimCode":      sqlClaimCode,
	"sqlReadStanding":   sqlReadStanding,
	"sqlLockRedeemed":   sqlLockRedeemed,
	"sqlReadRedemption": sqlReadRedemption,
	"sqlSettleUsed":     sqlSettleUsed,
	"sqlSettleAbnormal": sqlSettleAbnormal,
	"sqlKeepEvidence":   sqlKeepEvidence,
	"sqlInsertRefusal":  sqlInsertRefusal,
	"sqlListRefusals":   sqlListRefusals,
	"sqlFreezeExpired":  sqlFreezeExpired,
}
