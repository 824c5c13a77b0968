package account_test

import (
	"context"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"usher"
	"usher/internal/account"
	"usher/internal/token"
)

func TestSignOut(t *testing.T) {
	b := newBench(t, account.Limits{})
	other := b.process(t, account.Limits{})
	text, s := b.signIn(t, "ann@example.com")
	phone, _ := b.signIn(t, "ann@example.com")
	for range 2 {
		if err := b.SignOut(t.Context(), s); err != nil {
			t.Fatalf("sign out: %v", err)
		}
	}
	_, err := b.Verify(text)
	wantCode(t, "signed-out session", err, usher.CodeUnauthenticated)
	if _, err := b.Verify(phone); err != nil {
		t.Errorf("the other session ended, too: %v", err)
	}
	if err := other.Refresh(t.Context()); err != nil {
		t.Fatalf("refresh: %v", err)
	}
	_, err = other.Verify(text)
	wantCode(t, "signed-out session in another process", err, usher.CodeUnauthenticated)
	_, err = b.process(t, account.Limits{}).Verify(text)
	wantCode(t, "signed-out session in a fresh process", err, usher.CodeUnauthenticated)
}

func TestSignOutWithoutDatabase(t *testing.T) {
	b := newBench(t, account.Limits{})
	text, s := b.signIn(t, "ann@example.com")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.SignOut(ctx, s); err == nil {
		t.Error("sign out succeeded without a database")
	}
	_, err := b.Verify(text)
	wantCode(t, "session signed out here", err, usher.CodeUnauthenticated)
}

func TestVerifyRefuses(t *testing.T) {
	b := newBench(t, account.Limits{})
	sign := func(p token.Purpose, expires time.Time, size int) string {
		payload := make([]byte, 40, 64)
		payload = binary.BigEndian.AppendUint64(payload, uint64(expires.UnixMilli()))
		return b.keys.Sign(p, append(payload, make([]byte, 16)...)[:size])
	}
	future := b.keys.Now().Add(time.Hour)
	for name, text := range map[string]string{
		"empty":         "",
		"words":         "let me in",
		"expired":       sign(token.Session, b.keys.Now().Add(-time.Millisecond), 48),
		"short":         sign(token.Session, future, 47),
		"long":          sign(token.Session, future, 49),
		"other purpose": sign(token.Admission, future, 48),
	} {
		_, err := b.Verify(text)
		wantCode(t, name, err, usher.CodeUnauthenticated)
	}
	if _, err := b.Verify(sign(token.Session, future, 48)); err != nil {
		t.Errorf("the same payload, in order: %v", err)
	}
}

func TestBlockedAccount(t *testing.T) {
	b := newBench(t, account.Limits{})
	other := b.process(t, account.Limits{})
	text, s := b.signIn(t, "ann@example.com")
	bob, _ := b.signIn(t, "bob@example.com")
	if err := b.SetStatus(t.Context(), s.Account, account.StatusBlocked); err != nil {
		t.Fatalf("block: %v", err)
	}
	if err := other.Refresh(t.Context()); err != nil {
		t.Fatalf("refresh: %v", err)
	}
	for _, a := range []*account.Accounts{b.Accounts, other} {
		_, err := a.Verify(text)
		wantCode(t, "session of a blocked account", err, usher.CodeAccountBlocked)
		if _, err := a.Verify(bob); err != nil {
			t.Errorf("somebody else: %v", err)
		}
	}
	// Only who owns the mailbox learns that the account is blocked.
	c := b.code(t, "ann@example.com").code
	_, _, err := b.SignIn(t.Context(), "ann@example.com", wrongCode(c), netip.Addr{})
	wantCode(t, "wrong code", err, usher.CodeSignInFailed)
	_, _, err = b.SignIn(t.Context(), "ann@example.com", c, netip.Addr{})
	wantCode(t, "right code", err, usher.CodeAccountBlocked)
	if err := b.SetStatus(t.Context(), s.Account, account.StatusActive); err != nil {
		t.Fatalf("unblock: %v", err)
	}
	if _, err := b.Verify(text); err != nil {
		t.Errorf("after unblocking: %v", err)
	}
	wantCode(t, "unknown account", b.SetStatus(t.Context(), usher.NewAccountID(), account.StatusBlocked), usher.CodeNotFound)
	wantCode(t, "unknown status", b.SetStatus(t.Context(), s.Account, "gone"), usher.CodeInvalidRequest)
}

func TestRetention(t *testing.T) {
	b := newBench(t, account.Limits{})
	_, s := b.signIn(t, "ann@example.com")
	if err := b.SignOut(t.Context(), s); err != nil {
		t.Fatalf("sign out: %v", err)
	}
	_, _, err := b.SignIn(t.Context(), "ann@example.com", "000000", netip.MustParseAddr("192.0.2.1"))
	wantCode(t, "wrong code", err, usher.CodeSignInFailed)
	rows := func() [3]int {
		return [3]int{
			b.count(t, `SELECT count(*) FROM login_code`), b.count(t, `SELECT count(*) FROM login_failure`),
			b.count(t, `SELECT count(*) FROM revoked_session`),
		}
	}
	sweep := func() {
		t.Helper()
		if err := b.Sweep(t.Context()); err != nil {
			t.Fatalf("sweep: %v", err)
		}
	}
	if sweep(); rows() != [3]int{1, 1, 1} {
		t.Errorf("rows are %v after a sweep of fresh ones", rows())
	}
	b.exec(t, `UPDATE login_code SET created_at = created_at - interval '25 hours'`)
	b.exec(t, `UPDATE login_failure SET created_at = created_at - interval '61 minutes'`)
	b.exec(t, `UPDATE revoked_session SET expires_at = clock_timestamp() - interval '1 second'`)
	if sweep(); rows() != [3]int{} {
		t.Errorf("rows are %v after a sweep of old ones", rows())
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	b := newBench(t, account.Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.Run(ctx)
}
