package account_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"usher"
	"usher/internal/account"
)

func TestUpdatePerson(t *testing.T) {
	b := newBench(t, account.Limits{})
	_, s := b.signIn(t, "ann@example.com")
	for name, want := range map[string]string{
		"  Zoe\u0308  ":          "Zo\u00eb",
		"":                       "",
		`<b>"Ann" & 'Lee'</b>`:   `<b>"Ann" & 'Lee'</b>`,
		strings.Repeat("𠮷", 200): strings.Repeat("𠮷", 200),
		"محمد \u202eגבריאל 123 👩‍🎤": "محمد \u202eגבריאל 123 👩‍🎤",
		"=1+1": "=1+1",
	} {
		if err := b.UpdatePerson(t.Context(), s.Account, name, "zh-TW"); err != nil {
			t.Errorf("UpdatePerson(%.20q): %v", name, err)
		}
		email, got, locale, err := b.Contact(t.Context(), s.Account)
		if err != nil || got != want || locale != "zh-Hant" || email != "ann@example.com" {
			t.Errorf("Contact = %q, %q, %q, %v; want name %q", email, got, locale, err, want)
		}
	}
	for what, name := range map[string]string{
		"zero byte": "Ann\x00", "line end": "Ann\nLee", "broken": "Ann\xff", "replacement": "\ufffd", "long": strings.Repeat("a", 201),
		"lone surrogate": "\xed\xa0\x80",
	} {
		wantCode(t, what, b.UpdatePerson(t.Context(), s.Account, name, "en"), usher.CodeInvalidRequest)
	}
	wantCode(t, "unknown account", b.UpdatePerson(t.Context(), usher.NewAccountID(), "Ann", "en"), usher.CodeNotFound)
}

// P88: search finds address and name in either composition and any letter case.
func TestFind(t *testing.T) {
	b := newBench(t, account.Limits{})
	for email, name := range map[string]string{"zoe\u0308@example.com": "Zo\u00eb M\u00fcller", "ann@example.com": "Ann_Lee%", "nameless@example.com": ""} {
		_, s := b.signIn(t, email)
		if err := b.UpdatePerson(t.Context(), s.Account, name, "en"); err != nil {
			t.Fatalf("update person: %v", err)
		}
	}
	for text, want := range map[string][]string{
		"zo\u00eb":               {"zo\u00eb@example.com"},
		"ZOE\u0308@EXAMPLE.COM":  {"zo\u00eb@example.com"},
		"zoe\u0308 m\u00fcLLer ": {"zo\u00eb@example.com"},
		"ANN_LEE%":               {"ann@example.com"},
		"ann@":                   {"ann@example.com"},
		"%":                      nil,
		"_":                      nil,
		"zoe":                    nil,
		"' OR 1=1 --":            nil,
	} {
		found, err := b.Find(t.Context(), text)
		var got []string
		for _, p := range found {
			got = append(got, p.Email)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Find(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "  ", "a\x00", "\xff", strings.Repeat("a", 801)} {
		_, err := b.Find(t.Context(), text)
		wantCode(t, "search", err, usher.CodeInvalidRequest)
	}
}

func TestErase(t *testing.T) {
	b := newBench(t, account.Limits{})
	text, s := b.signIn(t, "ann@example.com")
	live := b.code(t, "ann@example.com").code
	if err := b.Erase(t.Context(), s.Account); err != nil {
		t.Fatalf("erase: %v", err)
	}
	_, err := b.Person(t.Context(), s.Account)
	wantCode(t, "person", err, usher.CodeNotFound)
	_, _, _, err = b.Contact(t.Context(), s.Account)
	wantCode(t, "contact", err, usher.CodeNotFound)
	_, err = b.Verify(text)
	wantCode(t, "session", err, usher.CodeAccountBlocked)
	_, _, err = b.SignIn(t.Context(), "ann@example.com", live, netip.Addr{})
	wantCode(t, "code sent before", err, usher.CodeSignInFailed)
	wantCode(t, "again", b.Erase(t.Context(), s.Account), usher.CodeNotFound)
	if n := b.count(t, `SELECT count(*) FROM login_code`); n != 0 {
		t.Errorf("%d codes still name the address", n)
	}
	if _, fresh := b.signIn(t, "ann@example.com"); fresh.Account == s.Account {
		t.Error("the mailbox got its old account back")
	}
}

func TestMintBuyers(t *testing.T) {
	b := newBench(t, account.Limits{})
	const n = 10_500 // more than one slice
	buyers, err := b.MintBuyers(t.Context(), n)
	if err != nil || len(buyers) != n {
		t.Fatalf("minted %d buyers, %v", len(buyers), err)
	}
	seen := map[usher.AccountID]bool{}
	for _, x := range buyers {
		s, err := b.Verify(x.Token)
		if err != nil || s.Account != x.Account {
			t.Fatalf("token of %v is %+v, %v", x.Account, s, err)
		}
		seen[x.Account] = true
	}
	if len(seen) != n {
		t.Errorf("%d different accounts", len(seen))
	}
	if got := b.count(t, `SELECT count(*) FROM account AS a JOIN person AS p ON p.account_id = a.account_id
		WHERE a.status = 'active' AND p.email ~ '^buyer-[0-9]+-[a-z0-9]+@rehearsal[.]invalid$' AND p.email = p.email_normalized`); got != n {
		t.Errorf("%d rows", got)
	}
	if found, err := b.Find(t.Context(), "buyer 10500"); err != nil || len(found) != 1 {
		t.Errorf("found %v, %v", found, err)
	}
	// A second call does not collide with the first.
	if _, err := b.MintBuyers(t.Context(), 3); err != nil {
		t.Errorf("mint again: %v", err)
	}
	for _, n := range []int{-1, 0, 100_001} {
		_, err := b.MintBuyers(t.Context(), n)
		wantCode(t, "mint", err, usher.CodeInvalidRequest)
	}
}
