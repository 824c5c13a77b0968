package redemption_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"usher"
	"usher/internal/redemption"
)

func TestNewCode(t *testing.T) {
	seen := map[string]bool{}
	for _, event := range []usher.EventID{1, 31, 32, 4711, usher.EventIDMax} {
		for range 1000 {
			text := redemption.NewCode(event)
			if len(text) != 32 || strings.Trim(text, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") != "" {
				t.Fatalf("code %q is not 32 characters of the alphabet", text)
			}
			if seen[text] {
				t.Fatalf("code came twice")
			}
			seen[text] = true
			back, of, ok := redemption.ParseCode(text)
			if !ok || back != text || of != event {
				t.Fatalf("code of %s parses as (%q, %s, %t)", event, back, of, ok)
			}
		}
	}
}

// The written rule of P68.
func TestParseCode(t *testing.T) {
	const code = "00007ABCDEFGH0123456789JKMNPQRS1"
	for name, c := range map[string]struct {
		scanned string
		ok      bool
	}{
		"as issued":              {code, true},
		"CR LF at the end":       {code + "\r\n", true},
		"spaces and tabs":        {"  \t" + code + " \n", true},
		"lower case":             {strings.ToLower(code), true},
		"full width":             {fullWidth(code), true},
		"full width, lower":      {fullWidth(strings.ToLower(code)), true},
		"ideographic space":      {"\u3000" + code + "\u3000", true},
		"groups":                 {"00007ABC-DEFGH012 3456789J-KMNPQRS1", true},
		"typed O, I and L":       {"oOo07ABCDEFGHOi23456789JKMNPQRSL", true},
		"empty":                  {"", false},
		"white space alone":      {" \r\n", false},
		"control inside":         {code[:10] + "\x1d" + code[10:], false},
		"zero byte inside":       {code[:10] + "\x00" + code[10:], false},
		"control outside":        {"\x02" + code, false},
		"line end inside":        {code[:10] + "\r\n" + code[10:], false},
		"too short":              {code[:31], false},
		"too long":               {code + "0", false},
		"two codes":              {code + code, false},
		"letter U":               {"U" + code[1:], false},
		"dotless i":              {"ı" + code[1:], false},
		"Kelvin sign":            {strings.Replace(code, "K", "\u212a", 1), false},
		"not UTF-8":              {code[:31] + "\xff", false},
		"event zero":             {"00000" + code[5:], false},
		"event above 24 bits":    {"G0000" + code[5:], false},
		"a link":                 {"https://example.org/t/" + code, false},
		"far too long":           {strings.Repeat("-", 10_000) + code, false},
		"hyphens without a code": {"--------------------------------", false},
	} {
		t.Run(name, func(t *testing.T) {
			text, event, ok := redemption.ParseCode(c.scanned)
			if ok != c.ok {
				t.Fatalf("is a code: %t, want %t", ok, c.ok)
			}
			if ok && (text != code || event != 7) {
				t.Errorf("parsed as (%q, %s)", text, event)
			}
		})
	}
}

// Another ticket is never matched: whatever the fold makes of a mangled code is
// that code or nothing.
func TestParseCodeNeverMatchesAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		code := redemption.NewCode(usher.EventID(rapid.IntRange(1, usher.EventIDMax).Draw(t, "event")))
		mangled := code
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 0:
			mangled = strings.ToLower(code)
		case 1:
			mangled = fullWidth(code)
		case 2:
			i := rapid.IntRange(0, len(code)).Draw(t, "at")
			mangled = code[:i] + rapid.String().Draw(t, "inserted") + code[i:]
		case 3:
			mangled = rapid.StringMatching(`\s*`).Draw(t, "before") + code + rapid.StringMatching(`\s*`).Draw(t, "after")
		}
		if text, _, ok := redemption.ParseCode(mangled); ok && text != code {
			t.Fatalf("a mangled code matches another: %q", mangled)
		}
	})
}

func FuzzParseCode(f *testing.F) {
	f.Add(redemption.NewCode(7))
	f.Add("００００７ABCDEFGH-0123456789JKMNPQRS1\r\n")
	f.Add("\xff\x00")
	f.Fuzz(func(t *testing.T, scanned string) {
		text, event, ok := redemption.ParseCode(scanned)
		if !ok {
			return
		}
		again, of, ok := redemption.ParseCode(text)
		if !ok || again != text || of != event || len(text) != 32 {
			t.Errorf("%q parses as %q, which parses as (%q, %s, %t)", scanned, text, again, of, ok)
		}
	})
}

// fullWidth spells ASCII in the full-width forms of East Asian input.
func fullWidth(s string) string {
	return strings.Map(func(r rune) rune { return r + '\uff01' - '!' }, s)
}
