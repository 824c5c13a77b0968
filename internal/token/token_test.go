package token_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"usher"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
	"usher/internal/token"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// directory opens the directory of a fresh database.
func directory(t testing.TB) *pgxpool.Pool {
	t.Helper()
	url := pgtest.Database(t)
	homes, err := pg.Open(context.Background(), pg.Config{DirectoryURL: url, RoomURL: url})
	if err != nil {
		t.Fatalf("open homes: %v", err)
	}
	t.Cleanup(homes.Close)
	return homes.Directory
}

func keyring(t testing.TB, pool *pgxpool.Pool) *token.Keyring {
	t.Helper()
	k, err := token.NewKeyring(context.Background(), pool)
	if err != nil {
		t.Fatalf("new keyring: %v", err)
	}
	return k
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("exec: %v", err)
	}
}

func wantInvalid(t *testing.T, k *token.Keyring, p token.Purpose, text string) {
	t.Helper()
	if got, err := k.Verify(p, text); usher.CodeOf(err) != usher.CodeUnauthenticated || got != nil {
		t.Errorf("Verify(%s, %.40q) = %x, %v; want unauthenticated", p, text, got, err)
	}
}

func wantValid(t *testing.T, k *token.Keyring, p token.Purpose, text, payload string) {
	t.Helper()
	if got, err := k.Verify(p, text); err != nil || string(got) != payload {
		t.Errorf("Verify(%s) = %q, %v; want %q", p, got, err, payload)
	}
}

func TestSignAndVerify(t *testing.T) {
	k := keyring(t, directory(t))
	for _, p := range token.Purposes {
		for _, payload := range []string{"", "x", strings.Repeat("\x00\xff", token.PayloadMax/2)} {
			wantValid(t, k, p, k.Sign(p, []byte(payload)), payload)
		}
	}
}

func TestVerifyRefusesOtherPurposes(t *testing.T) {
	k := keyring(t, directory(t))
	for _, p := range token.Purposes {
		text := k.Sign(p, []byte("payload"))
		for _, other := range token.Purposes {
			if other != p {
				wantInvalid(t, k, other, text)
			}
		}
		wantInvalid(t, k, "no purpose", text)
	}
}

func TestVerifyRefusesTampering(t *testing.T) {
	k := keyring(t, directory(t))
	text := k.Sign(token.Admission, []byte("event and account"))
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	// Every bit of version, key id, payload and MAC counts.
	for i := range len(raw) * 8 {
		b := bytes.Clone(raw)
		b[i/8] ^= 1 << (i % 8)
		wantInvalid(t, k, token.Admission, base64.RawURLEncoding.EncodeToString(b))
	}
	for n := range raw {
		wantInvalid(t, k, token.Admission, base64.RawURLEncoding.EncodeToString(raw[:n]))
	}
	unsigned := base64.RawURLEncoding.EncodeToString(raw[:len(raw)-16])
	for name, bad := range map[string]string{
		"unsigned":  unsigned,
		"zero MAC":  base64.RawURLEncoding.EncodeToString(append(bytes.Clone(raw[:len(raw)-16]), make([]byte, 16)...)),
		"line end":  text + "\n",
		"line ends": text[:8] + "\r\n" + text[8:],
		"padding":   text + "=",
		"space":     " " + text,
		"standard":  strings.NewReplacer("-", "+", "_", "/").Replace(text) + "+/",
		"long":      strings.Repeat("A", 1<<20),
		"words":     "not a token",
		"zero byte": text + "\x00",
	} {
		t.Run(name, func(t *testing.T) { wantInvalid(t, k, token.Admission, bad) })
	}
}

// A last character has spare bits when the length is no multiple of three: its
// other spellings are other texts and must not be the same token.
func TestVerifyRefusesSecondSpelling(t *testing.T) {
	k := keyring(t, directory(t))
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for _, payload := range []string{"a", "ab", "abc"} {
		text := k.Sign(token.Queue, []byte(payload))
		for _, c := range alphabet {
			if other := text[:len(text)-1] + string(c); other != text {
				wantInvalid(t, k, token.Queue, other)
			}
		}
	}
}

func TestPayloadDoesNotAliasTheMAC(t *testing.T) {
	k := keyring(t, directory(t))
	payload, err := k.Verify(token.Queue, k.Sign(token.Queue, []byte("abc")))
	if err != nil || cap(payload) != len(payload) {
		t.Errorf("payload has capacity %d for %d bytes, %v", cap(payload), len(payload), err)
	}
}

func TestSignPanicsOnMisuse(t *testing.T) {
	k := keyring(t, directory(t))
	for name, sign := range map[string]func(){
		"purpose": func() { k.Sign("other", nil) },
		"payload": func() { k.Sign(token.Session, make([]byte, token.PayloadMax+1)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			sign()
		})
	}
}

func TestProcessesShareKeys(t *testing.T) {
	pool := directory(t)
	rings := make([]*token.Keyring, 8)
	var wg sync.WaitGroup
	for i := range rings {
		wg.Go(func() {
			k, err := token.NewKeyring(context.Background(), pool)
			if err != nil {
				t.Errorf("new keyring: %v", err)
			}
			rings[i] = k
		})
	}
	wg.Wait()
	for _, a := range rings {
		for _, b := range rings {
			wantValid(t, b, token.Session, a.Sign(token.Session, []byte("who")), "who")
		}
	}
	var n int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM signing_key`).Scan(&n); err != nil || n != len(token.Purposes) {
		t.Errorf("%d keys, %v; want one per purpose", n, err)
	}
}

// keyID reads the id of the key that signed a token.
func keyID(t *testing.T, text string) string {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[1:5])
}

// passTime moves the purpose's key schedule into the past, as the database sees it.
func passTime(t *testing.T, pool *pgxpool.Pool, p token.Purpose, d time.Duration) {
	t.Helper()
	exec(t, pool, `UPDATE signing_key SET created_at = created_at - $2::interval, signs_from = signs_from - $2::interval,
		retired_at = retired_at - $2::interval WHERE purpose = $1`, p, d)
}

func TestRotate(t *testing.T) {
	pool := directory(t)
	here, there := keyring(t, pool), keyring(t, pool)
	refresh := func() {
		t.Helper()
		if err := errors.Join(here.Refresh(t.Context()), there.Refresh(t.Context())); err != nil {
			t.Fatalf("refresh: %v", err)
		}
	}
	old := here.Sign(token.Admission, []byte("old"))
	if err := here.Rotate(t.Context(), token.Admission); err != nil {
		t.Fatalf("rotate: %v", err)
	}
	// While the new key is announced the old one signs: a process that does not
	// know the new key yet must understand every fresh token.
	announced := here.Sign(token.Admission, []byte("announced"))
	wantValid(t, there, token.Admission, announced, "announced")
	if err := there.Rotate(t.Context(), token.Admission); usher.CodeOf(err) != usher.CodeStateConflict {
		t.Errorf("second rotation at once: %v, want state_conflict", err)
	}

	passTime(t, pool, token.Admission, time.Minute)
	refresh()
	fresh := here.Sign(token.Admission, []byte("fresh"))
	if keyID(t, fresh) == keyID(t, announced) {
		t.Error("the new key does not sign after its announcement")
	}
	wantValid(t, there, token.Admission, fresh, "fresh")
	wantValid(t, there, token.Admission, old, "old")

	passTime(t, pool, token.Admission, token.LifeMax(token.Admission))
	refresh()
	wantValid(t, here, token.Admission, old, "old")
	passTime(t, pool, token.Admission, 25*time.Hour)
	refresh()
	wantInvalid(t, here, token.Admission, old)
	wantInvalid(t, there, token.Admission, announced)
	wantValid(t, there, token.Admission, fresh, "fresh")
	wantValid(t, there, token.Session, here.Sign(token.Session, nil), "")
}

func TestRotateForgetsOldSecrets(t *testing.T) {
	pool := directory(t)
	k := keyring(t, pool)
	for range 3 {
		if err := k.Rotate(t.Context(), token.Queue); err != nil {
			t.Fatalf("rotate: %v", err)
		}
		passTime(t, pool, token.Queue, 200*24*time.Hour)
	}
	var n int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM signing_key WHERE purpose = 'queue'`).Scan(&n); err != nil || n != 2 {
		t.Errorf("%d queue keys, %v; want the current and the last one", n, err)
	}
}

// A process that cannot refresh still stops accepting a key when its time is up.
func TestRetiredKeyIsRefusedWithoutRefresh(t *testing.T) {
	pool := directory(t)
	k := keyring(t, pool)
	text := k.Sign(token.Device, []byte("gate"))
	exec(t, pool, `UPDATE signing_key SET retired_at = clock_timestamp() + interval '200 ms' WHERE purpose = 'device'`)
	exec(t, pool, `INSERT INTO signing_key (purpose, secret, created_at, signs_from) VALUES ('device', $1, now(), now())`, make([]byte, 32))
	if err := k.Refresh(t.Context()); err != nil {
		t.Fatalf("refresh: %v", err)
	}
	wantValid(t, k, token.Device, text, "gate")
	for start := time.Now(); ; runtime.Gosched() {
		if _, err := k.Verify(token.Device, text); err != nil {
			break
		}
		if time.Since(start) > 10*time.Second {
			t.Fatal("the key still verifies long after its end")
		}
	}
}

func TestReplaceEndsOldTokensAtOnce(t *testing.T) {
	pool := directory(t)
	here, there := keyring(t, pool), keyring(t, pool)
	old := here.Sign(token.Session, []byte("old"))
	if err := here.Replace(t.Context(), token.Session); err != nil {
		t.Fatalf("replace: %v", err)
	}
	wantInvalid(t, here, token.Session, old)
	fresh := here.Sign(token.Session, []byte("fresh"))
	wantValid(t, here, token.Session, fresh, "fresh")
	if err := there.Refresh(t.Context()); err != nil {
		t.Fatalf("refresh: %v", err)
	}
	wantInvalid(t, there, token.Session, old)
	wantValid(t, there, token.Session, fresh, "fresh")
}

func TestConcurrentChangesLeaveOneCurrentKey(t *testing.T) {
	pool := directory(t)
	k := keyring(t, pool)
	var wg sync.WaitGroup
	for range 10 {
		for _, change := range []func(context.Context, token.Purpose) error{k.Rotate, k.Replace} {
			wg.Go(func() {
				if err := change(context.Background(), token.Ticket); err != nil && usher.CodeOf(err) != usher.CodeStateConflict {
					t.Errorf("change: %v", err)
				}
			})
		}
	}
	wg.Wait()
	var n int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM signing_key WHERE purpose = 'ticket' AND retired_at IS NULL`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d current keys, %v; want 1", n, err)
	}
	wantValid(t, k, token.Ticket, k.Sign(token.Ticket, []byte("x")), "x")
}

func TestChangeRefusesUnknownPurpose(t *testing.T) {
	k := keyring(t, directory(t))
	for _, change := range []func(context.Context, token.Purpose) error{k.Rotate, k.Replace} {
		if err := change(t.Context(), "other"); usher.CodeOf(err) != usher.CodeInvalidRequest {
			t.Errorf("change: %v, want invalid_request", err)
		}
	}
}

func TestFailedRefreshKeepsKeys(t *testing.T) {
	pool := directory(t)
	k := keyring(t, pool)
	text := k.Sign(token.Session, []byte("who"))
	exec(t, pool, `DELETE FROM signing_key WHERE purpose = 'session'`)
	if err := k.Refresh(t.Context()); err == nil {
		t.Error("a directory without a key was taken as the truth")
	}
	wantValid(t, k, token.Session, text, "who")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Refresh(ctx); err == nil {
		t.Error("refresh under a cancelled context succeeded")
	}
	wantValid(t, k, token.Session, text, "who")
	k.Run(ctx)
}

func TestNowIsDatabaseTime(t *testing.T) {
	pool := directory(t)
	k := keyring(t, pool)
	var before, after time.Time
	if err := pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&before); err != nil {
		t.Fatal(err)
	}
	now := k.Now()
	if err := pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&after); err != nil {
		t.Fatal(err)
	}
	if tolerance := 200 * time.Millisecond; now.Before(before.Add(-tolerance)) || now.After(after.Add(tolerance)) {
		t.Errorf("Now() = %v, want between %v and %v", now, before, after)
	}
}

func FuzzVerify(f *testing.F) {
	k := keyring(f, directory(f))
	f.Add(k.Sign(token.Session, []byte("payload")))
	f.Add("")
	f.Add("AQAAAAE")
	f.Fuzz(func(t *testing.T, text string) {
		payload, err := k.Verify(token.Session, text)
		if err == nil && k.Sign(token.Session, payload) != text {
			t.Errorf("%q verifies and is not what Sign makes of its payload", text)
		}
		if err != nil && usher.CodeOf(err) != usher.CodeUnauthenticated {
			t.Errorf("Verify(%q): %v", text, err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	k := keyring(b, directory(b))
	text := k.Sign(token.Session, make([]byte, 48))
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := k.Verify(token.Session, text); err != nil {
				b.Fatal(err)
			}
		}
	})
}
