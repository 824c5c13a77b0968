package account

import (
	"net/mail"
	"net/netip"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"usher"
)

const (
	addressMax   = 254
	localPartMax = 64
	labelMax     = 63
)

// Address is an e-mail address in its two forms.
type Address struct {
	// Display is the address as it was typed, trimmed and composed (NFC).
	Display string
	// Normalized identifies the mailbox; see the package comment for the rule.
	Normalized string
}

// ParseAddress checks an e-mail address and normalizes it. Only the plain form
// local@domain is taken: no display name, comment, quotes or address literal,
// no control or invisible character. It fails with CodeInvalidRequest.
func ParseAddress(s string) (Address, error) {
	s = norm.NFC.String(strings.TrimSpace(s))
	if err := usher.CheckText("email", s, addressMax); err != nil {
		return Address{}, err
	}
	parsed, err := mail.ParseAddress(s)
	if err != nil || parsed.Name != "" || parsed.Address != s {
		return Address{}, errAddress()
	}
	at := strings.LastIndexByte(s, '@')
	if local := s[:at]; len(local) > localPartMax || strings.ContainsFunc(local, notInLocalPart) {
		return Address{}, errAddress()
	}
	if !validDomain(s[at+1:]) {
		return Address{}, errAddress()
	}
	// Folding may make an address longer than what was checked above.
	n := fold(s)
	if len(n) > 2*addressMax {
		return Address{}, errAddress()
	}
	return Address{Display: s, Normalized: n}, nil
}

func errAddress() error {
	return usher.Errorf(usher.CodeInvalidRequest, "email: not an e-mail address")
}

// notInLocalPart keeps what is legal but only ever seen in attacks out: quoted
// strings and characters that cannot be seen.
func notInLocalPart(r rune) bool {
	return r == '"' || r == '\\' || unicode.IsSpace(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Zs, unicode.Zl, unicode.Zp)
}

func validDomain(domain string) bool {
	labels := strings.Split(domain, ".")
	for _, l := range labels {
		if l == "" || len(l) > labelMax || l[0] == '-' || l[len(l)-1] == '-' || strings.ContainsFunc(l, notInLabel) {
			return false
		}
	}
	last := labels[len(labels)-1]
	return len(labels) > 1 && strings.ContainsFunc(last, func(r rune) bool { return !unicode.IsDigit(r) })
}

func notInLabel(r rune) bool {
	return r != '-' && !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r)
}

// fold returns the form in which addresses and names are compared: Unicode's
// canonical caseless match (The Unicode Standard, 3.13, D145), composed.
func fold(s string) string {
	return norm.NFC.String(cases.Fold().String(norm.NFD.String(s)))
}

// remoteKey is what the limits per network address count by: an IPv4 address,
// or the /64 that an IPv6 host moves freely in. It is "" for an unknown address,
// which is not limited.
func remoteKey(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid():
		return ""
	case a.Is4():
		return a.String()
	}
	p, err := a.Prefix(64)
	if err != nil {
		return ""
	}
	return p.String()
}
