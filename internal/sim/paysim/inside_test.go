package paysim

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestBothCataloguesHaveTheSameTexts(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(maps.Keys(textEnglish))
	if other := slices.Sorted(maps.Keys(textChinese)); !slices.Equal(names, other) {
		t.Errorf("English %v, Chinese %v", names, other)
	}
	for _, name := range names {
		if textEnglish[name] == "" || textChinese[name] == "" {
			t.Errorf("%s is empty", name)
		}
	}
}

func TestEveryCardNumberHasABehaviour(t *testing.T) {
	t.Parallel()
	for number, name := range cardNumbers {
		if _, known := behaviours[name]; !known {
			t.Errorf("%s does %q, which is unknown", number, name)
		}
		if b, ok := behaviourOf(tokenMark + "ABCD_" + name); !ok || b.brand == "" {
			t.Errorf("the token of %s is unknown", number)
		}
	}
	for name := range behaviours {
		token := "pm_card_" + name
		if strings.HasPrefix(name, "usher_") {
			token = "pm_" + name
		}
		if _, ok := behaviourOf(token); !ok {
			t.Errorf("%s is unknown", token)
		}
	}
	for _, token := range []string{"", "pm_", "pm_card_", "pm_tok_", "pm_tok_visa", "tok_visa", "pm_usher_nothing"} {
		if _, ok := behaviourOf(token); ok {
			t.Errorf("%q is a card", token)
		}
	}
}

func TestJudgeFindsWhatThePublicAPICannotProduce(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]Intent{
		"captured <= authorized":                       {ID: "a", Authorized: 1, Captured: 2},
		"refunded <= captured":                         {ID: "a", Authorized: 3, Captured: 1, Refunded: 2},
		"one authorization and one capture per intent": {ID: "a", Authorizations: 2},
	} {
		if got := judge([]Intent{v}); len(got) != 1 || got[0].Invariant != want || got[0].Subject != "a" {
			t.Errorf("%+v: %+v", v, got)
		}
	}
	fine := []Intent{
		{ID: "a", OrderID: "o", Status: statusCanceled, Authorizations: 1, Voids: 1, Authorized: 5},
		{ID: "b", OrderID: "o", Status: statusSucceeded, Authorizations: 1, Captures: 1, Authorized: 5, Captured: 5},
		{ID: "c", Status: statusNeedsCapture, Authorizations: 1, Authorized: 5},
	}
	if got := judge(fine); len(got) != 0 {
		t.Errorf("fine ledger: %+v", got)
	}
}

// docs/payments.md names everything that a user of the simulator can ask for.
func TestDocumentIsComplete(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../../docs/payments.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range slices.Concat(callActions, hookActions, []action{actionRefuse}) {
		names = append(names, "`"+string(a)+"`")
	}
	for name := range behaviours {
		if strings.HasPrefix(name, "usher_") {
			names = append(names, "`pm_"+name+"`")
		}
	}
	for name := range profiles {
		names = append(names, `"`+name+`"`)
	}
	for _, name := range names {
		if !strings.Contains(string(doc), name) {
			t.Errorf("%s is not documented", name)
		}
	}
}

func TestForm(t *testing.T) {
	t.Parallel()
	f, err := parseForm("amount=5&expand[0]=a&expand[1]=b&metadata[x]=1&metadata[y%5D]=2&flag=true&empty=&amount=7&list[]=p&list[]=q")
	if err == nil {
		t.Fatalf("a bracket inside a name was accepted: %v", f)
	}
	f, err = parseForm("amount=5&expand[0]=a&expand[1]=b&metadata[x]=1&metadata[y]=2+3&flag=true&empty=&amount=7&list[]=p&list[]=q&&deep[a][b]=c")
	if err != nil {
		t.Fatal(err)
	}
	n, ok := f.integer("amount")
	if n != 7 || !ok || !f.flag("flag") || !f.has("empty") || f.has("nothing") || f.get("empty") != "" {
		t.Errorf("form = %v", f)
	}
	if !slices.Equal(f.list("expand"), []string{"a", "b"}) || !slices.Equal(f.list("list"), []string{"p", "q"}) || f.list("deep") != nil {
		t.Errorf("lists = %v %v", f.list("expand"), f.list("list"))
	}
	if !maps.Equal(f.sub("metadata"), map[string]string{"x": "1", "y": "2 3"}) || f.sub("other") != nil {
		t.Errorf("metadata = %v", f.sub("metadata"))
	}
	if name, bad := f.unknown([]string{"amount", "expand", "metadata", "flag", "empty", "list"}); !bad || name != "deep[a][b]" {
		t.Errorf("unknown = %q", name)
	}
	for _, bad := range []string{"%zz=1", "a=%zz", "a[=1", "a]=1", "a[b]c=1", "a[[b]]=1", "=1", "[a]=1"} {
		if _, err := parseForm(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if _, err := parseForm(strings.Repeat("a[]=1&", formPairsMax+1)); err == nil {
		t.Error("too many parameters were accepted")
	}
}

func FuzzForm(f *testing.F) {
	f.Add("amount=5&metadata[a]=b&expand[0]=c")
	f.Add("a[b][c]=d&a[]=e&%41=1")
	f.Fuzz(func(t *testing.T, raw string) {
		form, err := parseForm(raw)
		if err != nil {
			return
		}
		reversed := slices.Clone(form)
		slices.Reverse(reversed)
		repeated := slices.ContainsFunc(form, func(p pair) bool { return strings.HasSuffix(p.name, "[]") })
		if !repeated && form.digest("/p") != reversed.digest("/p") {
			t.Errorf("%q: the digest depends on the order", raw)
		}
		if form.digest("/p") == append(form, pair{"x", "y"}).digest("/p") || form.digest("/p") == form.digest("/q") {
			t.Errorf("%q: two requests have one digest", raw)
		}
		for _, p := range form {
			form.list(p.name)
			form.sub(p.name)
			if !form.has(p.name) {
				t.Errorf("%q: %q is lost", raw, p.name)
			}
		}
	})
}

func TestShowAmount(t *testing.T) {
	t.Parallel()
	for want, in := range map[string]pair{"TWD 1,200": {"twd", "120000"}, "TWD 1,234,567.80": {"twd", "123456780"}, "JPY 5,000": {"jpy", "5000"}, "KWD 1.250": {"KWD", "1250"}, "USD 0.05": {"usd", "5"}} {
		n, _ := form{in}.integer(in.name)
		if got := showAmount(n, in.name); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
