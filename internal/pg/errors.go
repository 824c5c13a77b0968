package pg

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"usher"
)

// SQLSTATE values that usher tells apart (PostgreSQL manual, appendix A).
const (
	stateSerialization   = "40001"
	stateDeadlock        = "40P01"
	stateLockTimeout     = "55P03"
	stateAdminShutdown   = "57P01"
	stateCrashShutdown   = "57P02"
	stateIdleTimeout     = "25P03"
	stateTxTimeout       = "25P04"
	stateQueryCanceled   = "57014"
	stateReadOnly        = "25006"
	stateUniqueViolation = "23505"
	stateNotSupported    = "0A000"
	stateProtocol        = "08P01"
)

// State returns the SQLSTATE of err, or "" when it is no answer of the server.
func State(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

// IsRetryable reports a serialization failure, a deadlock, a session that the server
// ended because this process stood still, or a statement that was prepared before a
// migration changed its columns: the transaction did nothing and may be run again as a
// whole.
func IsRetryable(err error) bool {
	switch State(err) {
	case stateSerialization, stateDeadlock, stateIdleTimeout, stateTxTimeout:
		return true
	}
	return isOutdated(err)
}

// isOutdated reports "cached plan must not change result type". The text is
// translated by the server; the routine is not.
func isOutdated(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == stateNotSupported && pe.Routine == "RevalidateCachedQuery"
}

// IsLockTimeout reports that a row stayed locked by somebody else for too long.
func IsLockTimeout(err error) bool { return State(err) == stateLockTimeout }

// IsUnique reports a violation of the named unique constraint or index.
func IsUnique(err error, constraint string) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == stateUniqueViolation && pe.ConstraintName == constraint
}

// IsData reports an error that the data of one command caused (classes 21, 22
// and 23): running the same group again would meet it again.
func IsData(err error) bool {
	s := State(err)
	return len(s) == 5 && (s[:2] == "21" || s[:2] == "22" || s[:2] == "23")
}

// Unavailable turns an error that means "the database is not there, or not
// writable, or too slow now, or aborted it for others' sake every time, or this
// process stops" into a CodeUnavailable that wraps it; every other error is returned
// as it is.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	if coded := (*usher.Error)(nil); errors.As(err, &coded) {
		return err
	}
	if !isUnavailable(err) {
		return err
	}
	return &usher.Error{Code: usher.CodeUnavailable, Message: "temporarily unavailable", RetryAfter: retryAfterUnavailable, Err: err}
}

// IsCut reports that a connection ended in the middle of a transaction, before its
// COMMIT: the server was told to end it, or it is gone. The transaction did nothing and
// may be run again on another connection.
func IsCut(err error) bool {
	if errors.Is(err, ErrCommitUnknown) {
		return false
	}
	s := State(err)
	return s == stateAdminShutdown || s == stateCrashShutdown || s == "" &&
		(errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE))
}

func isUnavailable(err error) bool {
	var ne net.Error
	var ce *pgconn.ConnectError
	if errors.As(err, &ce) {
		// No connection, for whatever reason the server gives.
		return true
	}
	switch s := State(err); {
	case s == stateReadOnly, s == stateQueryCanceled, s == stateLockTimeout, IsRetryable(err):
		return true
	case len(s) == 5 && (s[:2] == "08" || s[:2] == "53" || s[:2] == "57"):
		return true
	case s != "":
		return false
	}
	return errors.As(err, &ne) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || pgconn.Timeout(err) || pgconn.SafeToRetry(err)
}
