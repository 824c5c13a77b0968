package account_test

import (
	"errors"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"usher"
	"usher/internal/account"
)

func TestSignIn(t *testing.T) {
	b := newBench(t, account.DefaultLimits())
	if err := b.RequestCode(t.Context(), " Ann@Example.com ", "zh-TW", netip.Addr{}); err != nil {
		t.Fatalf("request code: %v", err)
	}
	sent := b.mails.last(t)
	if sent.to != "Ann@Example.com" || sent.locale != "zh-Hant" || len(sent.code) != 6 {
		t.Errorf("sent %+v", sent)
	}
	if n := b.count(t, `SELECT count(*) FROM account`); n != 0 {
		t.Errorf("%d accounts before the first sign-in", n)
	}
	text, s, err := b.SignIn(t.Context(), "ann@example.com", sent.code, netip.Addr{})
	if err != nil {
		t.Fatalf("sign in: %v", err)
	}
	got, err := b.Verify(text)
	if err != nil || got != s {
		t.Errorf("Verify = %+v, %v; want %+v", got, err, s)
	}
	if d := s.ExpiresAt.Sub(s.IssuedAt); d != account.SessionTime {
		t.Errorf("session lasts %v", d)
	}
	p, err := b.Person(t.Context(), s.Account)
	if err != nil || p.Email != "Ann@Example.com" || p.Locale != "zh-Hant" || p.Status != account.StatusActive || p.Name != "" {
		t.Errorf("Person = %+v, %v", p, err)
	}
	_, again := b.signIn(t, "ANN@EXAMPLE.COM")
	if again.Account != s.Account || again.ID == s.ID {
		t.Errorf("second sign-in is account %v session %v, first %v %v", again.Account, again.ID, s.Account, s.ID)
	}
}

// P24 and P88: one mailbox in another letter case or composition is one account;
// `+` aliases are addresses of their own.
func TestOneMailboxIsOneAccount(t *testing.T) {
	b := newBench(t, account.Limits{})
	_, first := b.signIn(t, "jos\u00e9@example.com")
	for _, same := range []string{"jose\u0301@example.com", "JOSE\u0301@EXAMPLE.COM", "Jos\u00e9@Example.Com"} {
		_, s := b.signIn(t, same)
		if s.Account != first.Account {
			t.Errorf("%q is another account", same)
		}
		if to := b.mails.last(t).to; to != "jos\u00e9@example.com" {
			t.Errorf("code for %q went to %q", same, to)
		}
	}
	for _, other := range []string{"jos\u00e9+2@example.com", "jose@example.com", "j.os\u00e9@example.com"} {
		if _, s := b.signIn(t, other); s.Account == first.Account {
			t.Errorf("%q is the same account", other)
		}
	}
}

// "ß" folds to "ss", but the two are different mailboxes: whoever owns the one
// must not sign in as the other.
func TestLikeAddressProvesNothing(t *testing.T) {
	b := newBench(t, account.Limits{})
	attack := b.code(t, "strasse@example.com")
	if attack.to != "strasse@example.com" {
		t.Fatalf("code went to %q", attack.to)
	}
	victim := b.code(t, "stra\u00dfe@example.com")
	if victim.to != "stra\u00dfe@example.com" {
		t.Fatalf("code went to %q", victim.to)
	}
	_, s, err := b.SignIn(t.Context(), "stra\u00dfe@example.com", victim.code, netip.Addr{})
	if err != nil {
		t.Fatalf("sign in: %v", err)
	}
	// A code sent before the account existed was sent to somebody else.
	b.exec(t, `UPDATE login_code SET used_at = NULL`)
	_, _, err = b.SignIn(t.Context(), "strasse@example.com", attack.code, netip.Addr{})
	wantCode(t, "code of a like address", err, usher.CodeSignInFailed)
	// From now on codes go to the owner, whoever asks.
	if to := b.code(t, "strasse@example.com").to; to != "stra\u00dfe@example.com" {
		t.Errorf("code went to %q", to)
	}
	if p, err := b.Person(t.Context(), s.Account); err != nil || p.Email != "stra\u00dfe@example.com" {
		t.Errorf("person is %+v, %v", p, err)
	}
}

func TestWrongCodesAreRefusedAlike(t *testing.T) {
	b := newBench(t, account.Limits{})
	text, _ := b.signIn(t, "known@example.com")
	used := b.mails.last(t).code
	_, _, reused := b.SignIn(t.Context(), "known@example.com", used, netip.Addr{})
	live := b.code(t, "known@example.com")
	errs := map[string]error{"reused": reused}
	try := func(name, email, code string) {
		t.Helper()
		_, _, errs[name] = b.SignIn(t.Context(), email, code, netip.Addr{})
	}
	try("wrong", "known@example.com", wrongCode(live.code))
	try("unknown address", "nobody@example.com", live.code)
	try("empty", "known@example.com", "")
	try("words", "known@example.com", "please")
	try("zero byte", "known@example.com", "123\x00456")
	try("long", "known@example.com", strings.Repeat("1", 1<<16))
	expired := b.code(t, "late@example.com")
	b.exec(t, `UPDATE login_code SET expires_at = clock_timestamp() WHERE email_normalized = 'late@example.com'`)
	try("expired", "late@example.com", expired.code)
	for name, err := range errs {
		if got, want := message(t, err), message(t, reused); got.Code != usher.CodeSignInFailed || got.Message != want.Message || got.RetryAfter != 0 {
			t.Errorf("%s: %+v, want what a used code gets: %+v", name, got, want)
		}
	}
	if _, err := b.Verify(text); err != nil {
		t.Errorf("a failed sign-in ended a session: %v", err)
	}
	if n := b.count(t, `SELECT count(*) FROM account`); n != 1 {
		t.Errorf("%d accounts, want 1", n)
	}
}

func TestCodeIsReadAsPeopleTypeIt(t *testing.T) {
	b := newBench(t, account.Limits{})
	for name, typed := range map[string]func(string) string{
		"spaced":     func(c string) string { return " " + c[:3] + " " + c[3:] + "\n" },
		"full width": func(c string) string { return strings.Map(func(r rune) rune { return r - '0' + '０' }, c) },
	} {
		t.Run(name, func(t *testing.T) {
			c := b.code(t, "ann@example.com").code
			if _, _, err := b.SignIn(t.Context(), "ann@example.com", typed(c), netip.Addr{}); err != nil {
				t.Errorf("sign in with %q: %v", typed(c), err)
			}
		})
	}
}

func TestFiveAttempts(t *testing.T) {
	b := newBench(t, account.Limits{})
	c := b.code(t, "ann@example.com").code
	for range 5 {
		_, _, err := b.SignIn(t.Context(), "ann@example.com", wrongCode(c), netip.Addr{})
		wantCode(t, "wrong code", err, usher.CodeSignInFailed)
	}
	_, _, err := b.SignIn(t.Context(), "ann@example.com", c, netip.Addr{})
	wantCode(t, "right code after five wrong ones", err, usher.CodeSignInFailed)
	if _, _, err := b.SignIn(t.Context(), "ann@example.com", b.code(t, "ann@example.com").code, netip.Addr{}); err != nil {
		t.Errorf("a new code does not work: %v", err)
	}
}

// Mails overtake each other: every live code works, until one is used.
func TestEarlierCodeStillWorks(t *testing.T) {
	b := newBench(t, account.Limits{})
	first, second := b.code(t, "ann@example.com"), b.code(t, "ann@example.com")
	if _, _, err := b.SignIn(t.Context(), "ann@example.com", first.code, netip.Addr{}); err != nil {
		t.Errorf("first code: %v", err)
	}
	_, _, err := b.SignIn(t.Context(), "ann@example.com", second.code, netip.Addr{})
	wantCode(t, "second code after the first was used", err, usher.CodeSignInFailed)
}

func TestCodeSignsInOnce(t *testing.T) {
	b := newBench(t, account.Limits{})
	c := b.code(t, "ann@example.com").code
	var wg sync.WaitGroup
	var won atomic.Int32
	for range 20 {
		wg.Go(func() {
			_, _, err := b.SignIn(t.Context(), "ann@example.com", c, netip.Addr{})
			if err == nil {
				won.Add(1)
			} else if usher.CodeOf(err) != usher.CodeSignInFailed {
				t.Errorf("sign in: %v", err)
			}
		})
	}
	wg.Wait()
	if n := b.count(t, `SELECT count(*) FROM account`); won.Load() != 1 || n != 1 {
		t.Errorf("%d sign-ins and %d accounts from one code", won.Load(), n)
	}
}

func TestFirstSignInsMakeOneAccount(t *testing.T) {
	b := newBench(t, account.Limits{})
	codes := make([]string, 5)
	for i := range codes {
		codes[i] = b.code(t, "ann@example.com").code
	}
	var wg sync.WaitGroup
	for _, c := range codes {
		wg.Go(func() { _, _, _ = b.SignIn(t.Context(), "Ann@example.com", c, netip.Addr{}) })
	}
	wg.Wait()
	if n := b.count(t, `SELECT count(*) FROM person`); n != 1 {
		t.Errorf("%d persons", n)
	}
}

func TestLimitPerAddress(t *testing.T) {
	b := newBench(t, account.Limits{CodesPerAddress: 2, CodesPerAddressDay: 3})
	// Spread over letter cases and network addresses: it is one mailbox.
	for i, email := range []string{"ann@example.com", "Ann@example.com"} {
		if err := b.RequestCode(t.Context(), email, "en", netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})); err != nil {
			t.Fatalf("request code: %v", err)
		}
	}
	err := b.RequestCode(t.Context(), "ANN@example.com", "en", netip.Addr{})
	wantCode(t, "third code", err, usher.CodeRateLimited)
	if wait := message(t, err).RetryAfter; wait <= 14*time.Minute || wait > 15*time.Minute {
		t.Errorf("retry after %v, want until the first code is 15 minutes old", wait)
	}
	if len(b.mails.sent) != 2 {
		t.Errorf("%d mails", len(b.mails.sent))
	}
	if err := b.RequestCode(t.Context(), "bob@example.com", "en", netip.Addr{}); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	b.exec(t, `UPDATE login_code SET created_at = created_at - interval '16 minutes'`)
	if err := b.RequestCode(t.Context(), "ann@example.com", "en", netip.Addr{}); err != nil {
		t.Errorf("after the window: %v", err)
	}
	b.exec(t, `UPDATE login_code SET created_at = created_at - interval '16 minutes'`)
	err = b.RequestCode(t.Context(), "ann@example.com", "en", netip.Addr{})
	wantCode(t, "fourth code of the day", err, usher.CodeRateLimited)
	if wait := message(t, err).RetryAfter; wait < 23*time.Hour || wait > 24*time.Hour {
		t.Errorf("retry after %v", wait)
	}
}

func TestLimitPerAddressHoldsUnderRace(t *testing.T) {
	b := newBench(t, account.Limits{CodesPerAddress: 3})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := b.RequestCode(t.Context(), "ann@example.com", "en", netip.Addr{}); err != nil && usher.CodeOf(err) != usher.CodeRateLimited {
				t.Errorf("request code: %v", err)
			}
		})
	}
	wg.Wait()
	if len(b.mails.sent) != 3 {
		t.Errorf("%d codes sent, want 3", len(b.mails.sent))
	}
}

func TestLimitPerNetworkAddress(t *testing.T) {
	b := newBench(t, account.Limits{CodesPerRemote: 2, FailuresPerRemote: 2})
	// An IPv6 host has its whole /64; a mapped IPv4 address is the IPv4 address.
	for _, from := range [][3]string{
		{"192.0.2.1", "::ffff:192.0.2.1", "192.0.2.1"},
		{"2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:0:1::%eth0"},
	} {
		for i, a := range from {
			err := b.RequestCode(t.Context(), strings.Repeat("x", i+1)+"@example.com", "en", netip.MustParseAddr(a))
			if want := usher.Code(""); i < 2 {
				wantCode(t, a, err, want)
			} else {
				wantCode(t, a, err, usher.CodeRateLimited)
			}
		}
	}
	if err := b.RequestCode(t.Context(), "z@example.com", "en", netip.MustParseAddr("2001:db8:0:1::1")); err != nil {
		t.Errorf("another /64: %v", err)
	}
	guesser := netip.MustParseAddr("203.0.113.9")
	c := b.code(t, "ann@example.com").code
	for _, email := range []string{"a@example.com", "b@example.com"} {
		_, _, err := b.SignIn(t.Context(), email, "000000", guesser)
		wantCode(t, "guess", err, usher.CodeSignInFailed)
	}
	_, _, err := b.SignIn(t.Context(), "ann@example.com", c, guesser)
	wantCode(t, "third guess", err, usher.CodeRateLimited)
	if _, _, err := b.SignIn(t.Context(), "ann@example.com", c, netip.MustParseAddr("203.0.113.10")); err != nil {
		t.Errorf("refused guess used the code up: %v", err)
	}
}

func TestFailedMailIsSaid(t *testing.T) {
	b := newBench(t, account.Limits{})
	b.mails.err = errors.New("no route to mail server")
	err := b.RequestCode(t.Context(), "ann@example.com", "en", netip.Addr{})
	wantCode(t, "request code", err, usher.CodeUnavailable)
	if m := message(t, err); m.RetryAfter == 0 || strings.Contains(m.Message, "route") {
		t.Errorf("answer is %+v", m)
	}
	// The mail may have gone out all the same: its code is valid.
	if _, _, err := b.SignIn(t.Context(), "ann@example.com", b.mails.last(t).code, netip.Addr{}); err != nil {
		t.Errorf("sign in: %v", err)
	}
}

func TestRequestCodeRefusesWhatIsNoAddress(t *testing.T) {
	b := newBench(t, account.Limits{})
	for _, email := range []string{"", "ann", "ann@example.com\r\nBcc: bob@example.com", "a\x00@example.com"} {
		wantCode(t, "request code", b.RequestCode(t.Context(), email, "en", netip.Addr{}), usher.CodeInvalidRequest)
		_, _, err := b.SignIn(t.Context(), email, "123456", netip.Addr{})
		wantCode(t, "sign in", err, usher.CodeInvalidRequest)
	}
	if len(b.mails.sent) != 0 {
		t.Errorf("%d mails", len(b.mails.sent))
	}
}

func TestChangeAddress(t *testing.T) {
	b := newBench(t, account.Limits{})
	text, ann := b.signIn(t, "ann@example.com")
	_, bob := b.signIn(t, "bob@example.com")
	change := func(email, code string) error {
		return b.ChangeAddress(t.Context(), ann.Account, email, code, netip.Addr{})
	}
	wantCode(t, "wrong code", change("new@example.com", wrongCode(b.code(t, "new@example.com").code)), usher.CodeSignInFailed)
	wantCode(t, "address of another account", change("BOB@example.com", b.code(t, "BOB@example.com").code), usher.CodeAddressTaken)
	wantCode(t, "address of another account, unproven", change("bob@example.com", "no code"), usher.CodeSignInFailed)
	if err := change("ann@example.com", b.code(t, "ann@example.com").code); err != nil {
		t.Errorf("to the same address: %v", err)
	}
	if err := change("New@example.com", b.code(t, "New@example.com").code); err != nil {
		t.Fatalf("change address: %v", err)
	}
	if _, s := b.signIn(t, "new@example.com"); s.Account != ann.Account {
		t.Error("the new address signs in to another account")
	}
	if _, s := b.signIn(t, "ann@example.com"); s.Account == ann.Account || s.Account == bob.Account {
		t.Error("the old address still signs in to the account")
	}
	if s, err := b.Verify(text); err != nil || s.Account != ann.Account {
		t.Errorf("the session ended: %v", err)
	}
	err := b.ChangeAddress(t.Context(), usher.NewAccountID(), "nobody@example.com", b.code(t, "nobody@example.com").code, netip.Addr{})
	wantCode(t, "unknown account", err, usher.CodeNotFound)
}
