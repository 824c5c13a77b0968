package web

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"usher"
)

// frontEnd is the source of the pages' scripts.
const frontEnd = "../../web/src"

var placeholder = regexp.MustCompile(`\{\w+\}`)

// Every text is there in both languages, with the same values to fill in.
func TestTextsAreThereInBothLanguages(t *testing.T) {
	for key, english := range texts[english] {
		other := texts[chinese][key]
		if strings.TrimSpace(other) == "" || strings.TrimSpace(english) == "" {
			t.Errorf("%q is empty in a language", key)
			continue
		}
		// "{n} place" in one form may be "one place" in another language.
		if strings.HasSuffix(key, ".one") {
			continue
		}
		a, b := placeholder.FindAllString(english, -1), placeholder.FindAllString(other, -1)
		slices.Sort(a)
		slices.Sort(b)
		if !slices.Equal(a, b) {
			t.Errorf("%q fills in %v in English and %v in Chinese", key, a, b)
		}
	}
	for key := range texts[chinese] {
		if _, ok := texts[english][key]; !ok {
			t.Errorf("%q has no English text", key)
		}
	}
}

// One thing is worded as one.
func TestNumbersOfThings(t *testing.T) {
	for _, tc := range []struct {
		lang lang
		n    int
		want string
	}{
		{english, 1, texts[english]["ruleLimit.one"]},
		{english, 2, texts[english]["ruleLimit.other"]},
		{chinese, 1, texts[chinese]["ruleLimit.other"]},
	} {
		want := strings.ReplaceAll(tc.want, "{n}", strconv.Itoa(tc.n))
		if got := (view{Lang: tc.lang}).Tn("ruleLimit", tc.n); got != want || strings.Contains(got, "{") {
			t.Errorf("%d in %s is %q, want %q", tc.n, tc.lang, got, want)
		}
	}
}

// A key lives in one group, and in the same one in both languages.
func TestTextGroups(t *testing.T) {
	home := map[string]string{}
	for group, words := range textGroups[english] {
		for key := range words {
			if other, ok := home[key]; ok {
				t.Errorf("%q is in %s and in %s", key, group, other)
			}
			home[key] = group
			if textGroups[chinese][group][key] == "" {
				t.Errorf("%q is not in %s in Chinese", key, group)
			}
		}
	}
}

// usedText finds t('key'), tn('key', n), {{.T "key"}}, v.T("key"), newView(r, "key"
// and the beginnings of keys that are put together.
var usedText = regexp.MustCompile("(?:\\.T \\(print \"|\\.T ?\\(?\"|\\.Tn\\(\"|\\bnewView\\(r, \"|\\bt\\(\\s*['\"`]|\\btn\\(\\s*['\"`]|[^.\\w]has\\(\\s*['\"`]|Key = ['\"`])([\\w.]+)")

// namesOfTexts collects the keys and beginnings of keys that the sources name.
func namesOfTexts(t *testing.T) map[string]bool {
	t.Helper()
	used := map[string]bool{}
	note := func(path string, body []byte) {
		for _, m := range usedText.FindAllStringSubmatch(string(body), -1) {
			used[m[1]] = true
		}
		// Keys in a list or a condition: 'a.b' by themselves.
		for _, m := range regexp.MustCompile("['\"`]([a-z]\\w*(?:\\.\\w+)*)['\"`]").FindAllStringSubmatch(string(body), -1) {
			if _, ok := texts[english][m[1]]; ok && filepath.Ext(path) != ".go" {
				used[m[1]] = true
			}
		}
		for _, m := range regexp.MustCompile("`([a-z]\\w*\\.)\\$\\{").FindAllStringSubmatch(string(body), -1) {
			used[m[1]] = true
		}
	}
	walk := func(fsys fs.FS, folder string) {
		err := fs.WalkDir(fsys, folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !slices.Contains([]string{".ts", ".svelte", ".html", ".js", ".go"}, filepath.Ext(path)) ||
				strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "queue.html") {
				return err
			}
			body, err := fs.ReadFile(fsys, path)
			note(path, body)
			return err
		})
		if err != nil {
			t.Fatalf("read %s: %v", folder, err)
		}
	}
	walk(files, "templates")
	walk(files, "static")
	walk(os.DirFS(frontEnd), ".")
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range sources {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(path, "_test.go") {
			note(path, body)
		}
	}
	return used
}

// Every key that a page names is there, and none is left over.
func TestTextsAreUsed(t *testing.T) {
	used := namesOfTexts(t)
	known := func(key string) bool {
		for _, form := range []string{key, key + ".other"} {
			if _, ok := texts[english][form]; ok {
				return true
			}
		}
		return false
	}
	for key := range used {
		if !strings.HasSuffix(key, ".") && !known(key) {
			t.Errorf("the text %q is named and not there", key)
		}
	}
	for key := range texts[english] {
		base := strings.TrimSuffix(strings.TrimSuffix(key, ".one"), ".other")
		for i, c := range key {
			if c == '.' && used[key[:i+1]] {
				used[key] = true
			}
		}
		if !used[key] && !used[base] {
			t.Errorf("the text %q is there and not named", key)
		}
	}
}

// A refusal of staff has words in both languages: what the server says in detail is
// English.
func TestRefusalsOfStaffHaveTexts(t *testing.T) {
	// Answered to buyers, to providers and to programs alone.
	others := []usher.Code{
		usher.CodeIdempotencyKeyRequired, usher.CodeIdempotencyKeyReused, usher.CodeMethodNotAllowed, usher.CodeUnsupportedMediaType, usher.CodeAddressTaken,
		usher.CodeQueueClosed, usher.CodeNotInQueue, usher.CodeNotYourTurn, usher.CodeTurnLapsed, usher.CodeShopFull, usher.CodeOlderRound,
		usher.CodeAdmissionRequired, usher.CodeSessionEnded, usher.CodeSaleNotOpen, usher.CodeSaleClosed, usher.CodeEventCancelled,
		usher.CodeLimitExceeded, usher.CodeAccountBlocked, usher.CodeTooLateToPay, usher.CodePendingLimit, usher.CodeOrderNotPayable,
		usher.CodePaymentMismatch, usher.CodeWebhookSignature, usher.CodePaymentRejected,
	}
	for _, c := range usher.Codes {
		// The pages have words of their own for whoever is signed out, and for what is not
		// decided.
		if s := Status(c); s == http.StatusUnauthorized || s == http.StatusTooManyRequests || s >= http.StatusInternalServerError {
			continue
		}
		worded := texts[english]["deny."+string(c)] != "" || texts[english]["refused."+string(c)] != ""
		if worded == slices.Contains(others, c) {
			t.Errorf("%s: worded for staff %v", c, worded)
		}
	}
}

func TestStatesHaveTexts(t *testing.T) {
	for _, s := range []usher.SaleStatus{usher.SaleScheduled, usher.SaleOpen, usher.SalePaused, usher.SaleClosed, usher.SaleCancelled} {
		if texts[english]["sale."+string(s)] == "" {
			t.Errorf("sale state %s has no text", s)
		}
	}
	for _, e := range usher.OrderTransitions {
		for _, s := range []usher.OrderStatus{e.From, e.To} {
			if texts[english]["state."+string(s)] == "" {
				t.Errorf("order state %s has no text", s)
			}
		}
	}
}
