package account_test

import (
	"strings"
	"testing"

	"usher"
	"usher/internal/account"
)

func TestParseAddress(t *testing.T) {
	tests := []struct{ name, in, display, normalized string }{
		{"plain", "ann@example.com", "ann@example.com", "ann@example.com"},
		{"trimmed", "  ann@example.com\r\n", "ann@example.com", "ann@example.com"},
		{"letter case of the whole address", "Ann.LEE@Example.COM", "Ann.LEE@Example.COM", "ann.lee@example.com"},
		{"composed", "jos\u00e9@example.com", "jos\u00e9@example.com", "jos\u00e9@example.com"},
		{"decomposed", "jose\u0301@example.com", "jos\u00e9@example.com", "jos\u00e9@example.com"},
		{"decomposed capitals", "JOSE\u0301@EXAMPLE.COM", "JOS\u00c9@EXAMPLE.COM", "jos\u00e9@example.com"},
		{"plus alias is another address", "ann+gigs@example.com", "ann+gigs@example.com", "ann+gigs@example.com"},
		{"dots are part of the address", "a.nn@example.com", "a.nn@example.com", "a.nn@example.com"},
		{"han", "王小明@例子.tw", "王小明@例子.tw", "王小明@例子.tw"},
		{"punycode stays", "ann@xn--fsqu00a.tw", "ann@xn--fsqu00a.tw", "ann@xn--fsqu00a.tw"},
		{"sharp s folds", "stra\u00dfe@example.com", "stra\u00dfe@example.com", "strasse@example.com"},
		{"final sigma folds", "ΟΔΟΣ@example.com", "ΟΔΟΣ@example.com", "οδοσ@example.com"},
		{"digits and marks", "o'neil_9!#$%&*/=?^`{|}~-@a-b.example", "o'neil_9!#$%&*/=?^`{|}~-@a-b.example", "o'neil_9!#$%&*/=?^`{|}~-@a-b.example"},
		{"longest local part", strings.Repeat("a", 64) + "@example.com", strings.Repeat("a", 64) + "@example.com", strings.Repeat("a", 64) + "@example.com"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := account.ParseAddress(tt.in)
			if err != nil || got.Display != tt.display || got.Normalized != tt.normalized {
				t.Errorf("ParseAddress(%q) = %+v, %v; want %q and %q", tt.in, got, err, tt.display, tt.normalized)
			}
		})
	}
}

func TestParseAddressRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"empty":               "",
		"space":               "   ",
		"no at":               "ann.example.com",
		"two ats":             "ann@b@example.com",
		"no local part":       "@example.com",
		"no domain":           "ann@",
		"display name":        "Ann <ann@example.com>",
		"angle brackets":      "<ann@example.com>",
		"comment":             "ann(me)@example.com",
		"list":                "ann@example.com, bob@example.com",
		"quoted":              `"ann lee"@example.com`,
		"address literal":     "ann@[127.0.0.1]",
		"one label":           "ann@localhost",
		"numeric last label":  "ann@127.0.0.1",
		"empty label":         "ann@example..com",
		"trailing dot":        "ann@example.com.",
		"hyphen first":        "ann@-example.com",
		"hyphen last":         "ann@example-.com",
		"underscore":          "ann@exa_mple.com",
		"dots in a row":       "ann..lee@example.com",
		"header injection":    "ann@example.com\r\nBcc: bob@example.com",
		"bare line feed":      "ann\n@example.com",
		"zero byte":           "ann\x00@example.com",
		"encoded word":        "=?utf-8?q?ann?=@example.com ",
		"broken UTF-8":        "ann\xff@example.com",
		"replacement":         "ann\ufffd@example.com",
		"zero width space":    "an\u200bn@example.com",
		"direction override":  "ann\u202e@example.com",
		"invisible in domain": "ann@exam\u00adple.com",
		"long local part":     strings.Repeat("a", 65) + "@example.com",
		"long":                "a@" + strings.Repeat("b.", 130) + "com",
		"long label":          "a@" + strings.Repeat("b", 64) + ".com",
		"inner space":         "ann @example.com",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := account.ParseAddress(in); name != "encoded word" {
				if usher.CodeOf(err) != usher.CodeInvalidRequest {
					t.Errorf("ParseAddress(%q) = %+v, %v; want invalid_request", in, got, err)
				}
			} else if err == nil && got.Display != strings.TrimSpace(in) {
				t.Errorf("ParseAddress(%q) = %+v: decoded", in, got)
			}
		})
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"ann@example.com", "JOSE\u0301@EXAMPLE.COM", "stra\u00dfe@b.de", "\u0345\u03b1@b.c", "ﬀ@b.c", "İ@b.c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := account.ParseAddress(s)
		if err != nil {
			if usher.CodeOf(err) != usher.CodeInvalidRequest {
				t.Fatalf("ParseAddress(%q): %v", s, err)
			}
			return
		}
		if strings.ContainsAny(a.Display, "\r\n\x00 <>\",") {
			t.Errorf("ParseAddress(%q) let %q through", s, a.Display)
		}
		// The normal form is a fixed point, and so is what is shown.
		if again, err := account.ParseAddress(a.Display); err != nil || again != a {
			t.Errorf("ParseAddress(%q) = %+v, then %+v, %v", s, a, again, err)
		}
		if b, err := account.ParseAddress(a.Normalized); err == nil && b.Normalized != a.Normalized {
			t.Errorf("%q normalizes to %q, that to %q", s, a.Normalized, b.Normalized)
		}
	})
}

func TestLocale(t *testing.T) {
	for in, want := range map[string]string{
		"": "en", "en": "en", "en-GB": "en", "fr": "en", "zh": "zh-Hant", "zh-TW": "zh-Hant", "zh_TW": "zh-Hant",
		"zh-Hant": "zh-Hant", "zh-HK": "zh-Hant", "zh-CN": "zh-Hant", "ZH-tw": "zh-Hant",
		"zh-TW,zh;q=0.9,en;q=0.8": "zh-Hant", "fr,zh-TW;q=0.5": "zh-Hant", "en-US,zh-TW;q=0.5": "en",
		"zh-TW;q=0.1,en;q=0.9": "en", "\x00": "en", "'; DROP TABLE": "en", strings.Repeat("a-", 5000): "en",
	} {
		if got := account.Locale(in); got != want {
			t.Errorf("Locale(%.30q) = %s, want %s", in, got, want)
		}
	}
}
