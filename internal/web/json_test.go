package web

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"usher"
)

func TestCheckJSON(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		ok   bool
	}{
		"object":                       {`{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}`, true},
		"spaces":                       {" {\n\"a\" : [ ] }\n ", true},
		"value in the place of a name": {`{"a":"a","b":"a"}`, true},
		"escapes":                      {`{"a":"\u00e9\n\\\"\/","b":"\\u0000"}`, true},
		"pair":                         {`{"a":"\ud83d\ude00"}`, true},
		"han":                          {`{"a":"票券𠮷"}`, true},
		"array of names":               {`["a","a"]`, true},
		"empty":                        {``, false},
		"only spaces":                  {" \n", false},
		"two values":                   {`{"a":1}{"a":1}`, false},
		"trailing text":                {`{"a":1} x`, false},
		"trailing comma":               {`{"a":1,}`, false},
		"comment":                      {`{/* */"a":1}`, false},
		"single quotes":                {`{'a':1}`, false},
		"byte mark":                    {"\ufeff{}", false},
		"twice":                        {`{"a":1,"a":1}`, false},
		"twice, escaped":               {`{"seatIds":1,"s\u0065atIds":2}`, false},
		"twice, inside":                {`{"x":[{"a":1,"b":2,"a":3}]}`, false},
		"twice, after an inner object": {`{"a":{"b":1},"c":[1],"a":2}`, false},
		"zero byte escaped":            {`{"a":"x\u0000"}`, false},
		"zero byte raw":                {"{\"a\":\"x\x00\"}", false},
		"control raw":                  {"{\"a\":\"x\ny\"}", false},
		"high alone":                   {`{"a":"\ud83d"}`, false},
		"high before text":             {`{"a":"\ud83dxxxxxx"}`, false},
		"high twice":                   {`{"a":"\ud83d\ud83d"}`, false},
		"low alone":                    {`{"a":"\ude00"}`, false},
		"surrogate in a name":          {`{"\ud83d":1}`, false},
		"broken UTF-8":                 {"{\"a\":\"\xff\"}", false},
		"surrogate as UTF-8":           {"{\"a\":\"\xed\xa0\x80\"}", false},
		"deep":                         {strings.Repeat("[", 33) + strings.Repeat("]", 33), false},
		"not so deep":                  {strings.Repeat("[", 32) + strings.Repeat("]", 32), true},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkJSON([]byte(tc.body))
			if tc.ok && err != nil {
				t.Fatalf("checkJSON(%q) = %v, want nil", tc.body, err)
			}
			if !tc.ok && usher.CodeOf(err) != usher.CodeInvalidJSON {
				t.Fatalf("checkJSON(%q) = %v, want %s", tc.body, err, usher.CodeInvalidJSON)
			}
		})
	}
}

// FuzzCheckJSON holds checkJSON to what it promises: what passes is read by the
// standard reader, and comes out unchanged when written and checked again.
func FuzzCheckJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"\ud83d\ude00",null]}`, `{"a":1,"a":2}`, `"\u0000"`, `[{"\"":1}]`, `{"a":"\\"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if checkJSON(b) != nil {
			return
		}
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatalf("%q passes and cannot be read: %v", b, err)
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("%q passes and cannot be written: %v", b, err)
		}
		if err := checkJSON(again); err != nil {
			t.Fatalf("%q passes, but written again as %q fails: %v", b, again, err)
		}
	})
}

func TestIsJSON(t *testing.T) {
	for ct, want := range map[string]bool{
		"":                                true,
		"application/json":                true,
		"Application/JSON; charset=UTF-8": true,
		"application/json; charset=utf-8": true,
		"application/json; charset=big5":  false,
		"application/json; charset":       false,
		"text/plain":                      false,
		"text/json":                       false,
		"multipart/form-data; boundary=x": false,
		"application/problem+json":        false,
		"application/x-www-form-urlencoded; charset=utf-8": false,
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Content-Type", ct)
		if got := isJSON(r); got != want {
			t.Errorf("isJSON(%q) = %v, want %v", ct, got, want)
		}
	}
}
