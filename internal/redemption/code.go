package redemption

import (
	"crypto/rand"
	"strings"
	"unicode"

	"usher"
)

// The text of a code: 5 characters that carry the event number, so that a scan
// is routed by its text alone, and 27 random ones (135 bits). Upper-case
// Crockford base32 has no I, L, O, U to misread and fits the dense alphanumeric
// mode of QR.
const (
	codeAlphabet    = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	codeEventLength = 5
	codeLength      = codeEventLength + 27
	// scanLengthMax bounds what is read of a scan, in bytes; a code with every
	// character full-width and separated stays below it.
	scanLengthMax = 512
)

// newCode makes the text of a code of the event.
func newCode(event usher.EventID) string {
	var b [codeLength]byte
	// Read never fails: the process ends if the system has no randomness.
	_, _ = rand.Read(b[codeEventLength:])
	for i := range b {
		if i < codeEventLength {
			b[i] = byte(event >> (5 * (codeEventLength - 1 - i)))
		}
		b[i] = codeAlphabet[b[i]&31]
	}
	return string(b[:])
}

// parseCode reads what a scanner or a person typed as a code of ours: outer white
// space (line ends included) is ignored, full-width forms and letter case are
// folded, spaces and hyphens between characters are dropped, I and L read as 1
// and O as 0. The fold keeps different codes different because every character
// of a code folds to itself. Anything else, a control character included, is not
// a code: ok is false.
func parseCode(scanned string) (text string, event usher.EventID, ok bool) {
	if len(scanned) > scanLengthMax {
		return "", 0, false
	}
	folded := strings.TrimFunc(strings.Map(foldRune, scanned), unicode.IsSpace)
	b := make([]byte, 0, codeLength)
	for _, r := range folded {
		if r == ' ' || r == '-' {
			continue
		}
		v := -1
		if r < unicode.MaxASCII {
			v = strings.IndexByte(codeAlphabet, byte(r))
		}
		if v < 0 || len(b) == codeLength {
			return "", 0, false
		}
		if len(b) < codeEventLength {
			event = event<<5 | usher.EventID(v)
		}
		b = append(b, byte(r))
	}
	if len(b) != codeLength || event == 0 || event > usher.EventIDMax {
		return "", 0, false
	}
	return string(b), event, true
}

// foldRune maps one character as parseCode describes, ASCII letters only: no
// other script has a letter that may stand for one of ours.
func foldRune(r rune) rune {
	switch {
	case r == '\u3000':
		r = ' '
	case r >= '\uff01' && r <= '\uff5e':
		r -= '\uff01' - '!'
	}
	if r >= 'a' && r <= 'z' {
		r -= 'a' - 'A'
	}
	switch r {
	case 'I', 'L':
		return '1'
	case 'O':
		return '0'
	}
	return r
}
