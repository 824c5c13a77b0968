package account

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"usher"
	"usher/internal/pg"
	"usher/internal/token"
)

// SessionTime is how long a sign-in lasts.
const SessionTime = 30 * 24 * time.Hour

// SessionID identifies one sign-in. It is no credential: the signed token is.
type SessionID [16]byte

// String returns the id in hex.
func (id SessionID) String() string { return hex.EncodeToString(id[:]) }

// Session is a verified sign-in.
type Session struct {
	Account   usher.AccountID
	ID        SessionID
	IssuedAt  time.Time
	ExpiresAt time.Time
}

// sessionSize is the payload: account, session id, and both times in Unix milliseconds.
const sessionSize = 16 + 16 + 8 + 8

// issue makes a session of the account, from now, and its token.
func (a *Accounts) issue(account usher.AccountID) (string, Session) {
	s := Session{Account: account, IssuedAt: a.keys.Now().UTC().Truncate(time.Millisecond)}
	s.ExpiresAt = s.IssuedAt.Add(SessionTime)
	// crypto/rand.Read never returns an error since Go 1.24.
	_, _ = rand.Read(s.ID[:])
	b := make([]byte, 0, sessionSize)
	b = append(b, s.Account[:]...)
	b = append(b, s.ID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.IssuedAt.UnixMilli()))
	b = binary.BigEndian.AppendUint64(b, uint64(s.ExpiresAt.UnixMilli()))
	return a.keys.Sign(token.Session, b), s
}

// Verify returns the session of a token without asking the database. It fails
// with CodeUnauthenticated for a token that is not valid, has expired (by
// database time) or was signed out, and CodeAccountBlocked for a blocked
// account; a sign-out or block made by another process counts within seconds.
func (a *Accounts) Verify(text string) (Session, error) {
	b, err := a.keys.Verify(token.Session, text)
	if err != nil {
		return Session{}, err
	}
	if len(b) != sessionSize {
		return Session{}, usher.Errorf(usher.CodeUnauthenticated, "the token is not valid")
	}
	s := Session{
		Account:   usher.AccountID(b[:16]),
		ID:        SessionID(b[16:32]),
		IssuedAt:  time.UnixMilli(int64(binary.BigEndian.Uint64(b[32:]))).UTC(),
		ExpiresAt: time.UnixMilli(int64(binary.BigEndian.Uint64(b[40:]))).UTC(),
	}
	if !a.keys.Now().Before(s.ExpiresAt) {
		return Session{}, usher.Errorf(usher.CodeUnauthenticated, "the sign-in has expired")
	}
	if _, ok := a.revoked.Load(s.ID); ok {
		return Session{}, usher.Errorf(usher.CodeUnauthenticated, "the session was signed out")
	}
	if _, ok := (*a.blocked.Load())[s.Account]; ok {
		return Session{}, errBlocked()
	}
	return s, nil
}

func errBlocked() error {
	return usher.Errorf(usher.CodeAccountBlocked, "this account is blocked")
}

const sqlRevokeSession = `
INSERT INTO revoked_session (session_id, revoked_at, expires_at) VALUES ($1, clock_timestamp(), $2)
ON CONFLICT (session_id) DO NOTHING`

// SignOut ends a session: at once in this process, within seconds in others.
// Signing out twice changes nothing. It fails with CodeUnavailable, and then the
// session has ended in this process only.
func (a *Accounts) SignOut(ctx context.Context, s Session) error {
	a.revoked.Store(s.ID, s.ExpiresAt)
	if _, err := a.pool.Exec(ctx, sqlRevokeSession, [16]byte(s.ID), s.ExpiresAt); err != nil {
		return fmt.Errorf("revoke session: %w", pg.Unavailable(err))
	}
	return nil
}
