package account

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"math/big"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/language"

	"usher"
)

const (
	codeDigits  = 6
	codeTime    = 10 * time.Minute
	attemptsMax = 5

	limitWindow = 15 * time.Minute
	limitDay    = 24 * time.Hour
)

// Limits bound how often codes are sent and guessed. 0 is no limit.
type Limits struct {
	// CodesPerAddress and CodesPerAddressDay are the most codes sent for one
	// address in 15 minutes and in 24 hours. With five attempts per code they also
	// bound guessing: at most 100 tries a day at 1 in 1,000,000.
	CodesPerAddress    int
	CodesPerAddressDay int
	// CodesPerRemote and FailuresPerRemote are the most codes and failed sign-ins
	// from one network address in 15 minutes. Many people may share one.
	CodesPerRemote    int
	FailuresPerRemote int
}

// DefaultLimits are the limits for the open internet.
func DefaultLimits() Limits {
	return Limits{CodesPerAddress: 5, CodesPerAddressDay: 20, CodesPerRemote: 200, FailuresPerRemote: 100}
}

// errLimited refuses when the event that fills the limit is this old: it has to
// leave the window first.
func errLimited(age, window time.Duration) error {
	return &usher.Error{
		Code:       usher.CodeRateLimited,
		Message:    "too many attempts, try again later",
		RetryAfter: max((window-age).Truncate(time.Second)+time.Second, time.Second),
	}
}

// errSignIn is the one answer to every code that does not sign in.
func errSignIn() error {
	return usher.Errorf(usher.CodeSignInFailed, "the code is wrong or has expired")
}

// newCode returns a random code of six digits.
func newCode() string {
	// rand.Int never returns an error since Go 1.24.
	n, _ := rand.Int(rand.Reader, big.NewInt(1_000_000))
	return fmt.Sprintf("%0*d", codeDigits, n.Int64())
}

// hashCode keeps codes out of backups and replicas in plain text. Six digits
// cannot resist a search; their ten minutes and five attempts do.
func hashCode(salt []byte, code string) []byte {
	sum := sha256.Sum256(append(salt[:len(salt):len(salt)], code...))
	return sum[:]
}

// cleanCode removes what people and keyboards add: space between the digits, and
// full-width digits of East Asian input methods. Anything else stays and fails.
func cleanCode(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return -1
		case r >= '０' && r <= '９':
			return r - '０' + '0'
		}
		return r
	}, s)
}

// sentCode is a live code of an address.
type sentCode struct {
	sentTo, locale string
	salt, hash     []byte
}

// matchCode finds the live code that was entered. It compares with every one, in
// the same time whichever matches.
func matchCode(sent []sentCode, entered string) (sentCode, bool) {
	var found sentCode
	ok := false
	for _, c := range sent {
		if subtle.ConstantTimeCompare(hashCode(c.salt, entered), c.hash) == 1 {
			found, ok = c, true
		}
	}
	return found, ok
}

// locales are the supported languages; the first is the fallback.
var (
	locales       = []string{"en", "zh-Hant"}
	localeMatcher = language.NewMatcher([]language.Tag{language.English, language.TraditionalChinese})
)

// Locale returns the supported language ("en" or "zh-Hant") that fits a language
// tag or an Accept-Language value best; "en" when none does.
func Locale(s string) string {
	_, i := language.MatchStrings(localeMatcher, s)
	return locales[i]
}
