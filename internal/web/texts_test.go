package web

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"usher"
)

func TestTextsAreThereInBothLanguages(t *testing.T) {
	for key := range texts[english] {
		if texts[chinese][key] == "" {
			t.Errorf("%q has no Chinese text", key)
		}
	}
	for key := range texts[chinese] {
		if texts[english][key] == "" {
			t.Errorf("%q has no English text", key)
		}
	}
}

var usedText = regexp.MustCompile(`(?:\.T "|\bt\('|data-t=")([\w.]+)`)

// Every key that a template or a script names is there, and none is left over.
func TestTextsAreUsed(t *testing.T) {
	used := map[string]bool{"unavailable": true, "notFound": true}
	for _, folder := range []string{"templates", "static"} {
		err := fs.WalkDir(files, folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "queue.html") {
				return err
			}
			b, err := fs.ReadFile(files, path)
			for _, m := range usedText.FindAllStringSubmatch(string(b), -1) {
				used[m[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatalf("read %s: %v", folder, err)
		}
	}
	// Titles, and what is put together from states.
	for _, key := range []string{"events", "signIn", "problems", "pay", "order"} {
		used[key] = true
	}
	prefixes := map[string]bool{"sale.": true, "state.": true, "pay.": true, "stock.": true}
	for key := range used {
		if prefixes[key] {
			continue
		}
		if texts[english][key] == "" {
			t.Errorf("the text %q is named and not there", key)
		}
	}
	for key := range texts[english] {
		group, _, dotted := strings.Cut(key, ".")
		if !used[key] && !(dotted && prefixes[group+"."]) {
			t.Errorf("the text %q is there and not named", key)
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
