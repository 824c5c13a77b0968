package paysim

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// formPairsMax bounds one request's parameters.
const formPairsMax = 500

var errForm = errors.New("parameters are not well formed")

// pair is one parameter with its full bracketed name, such as "metadata[order_id]".
type pair struct{ name, value string }

// form is a request's parameters in the order they came. There are few, so
// reading one is a scan.
type form []pair

// parseForm decodes a form body or a query string. A parameter that appears
// twice keeps its last value.
func parseForm(raw string) (form, error) {
	if raw == "" {
		return nil, nil
	}
	var f form
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		k, v, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(k)
		if err != nil || !wellFormedName(name) {
			return nil, errForm
		}
		value, err := url.QueryUnescape(v)
		if err != nil {
			return nil, errForm
		}
		if i := slices.IndexFunc(f, func(p pair) bool { return p.name == name }); i >= 0 && !strings.HasSuffix(name, "[]") {
			f[i].value = value
			continue
		}
		if len(f) == formPairsMax {
			return nil, errForm
		}
		f = append(f, pair{name, value})
	}
	return f, nil
}

// wellFormedName accepts a name, or a name with closed brackets behind it.
func wellFormedName(name string) bool {
	base, rest, nested := strings.Cut(name, "[")
	if base == "" || strings.Contains(base, "]") {
		return false
	}
	for nested {
		inner, tail, closed := strings.Cut(rest, "]")
		if !closed || strings.Contains(inner, "[") {
			return false
		}
		if tail == "" {
			return true
		}
		if tail[0] != '[' {
			return false
		}
		rest = tail[1:]
	}
	return true
}

// get returns the value of a name, "" if absent.
func (f form) get(name string) string {
	for _, p := range f {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// has reports whether the name was sent, empty or not.
func (f form) has(name string) bool {
	return slices.ContainsFunc(f, func(p pair) bool { return p.name == name })
}

// list returns the values of name[0], name[1], ... or name[] in the order they came.
func (f form) list(name string) []string {
	var out []string
	for _, p := range f {
		if base, rest, ok := strings.Cut(p.name, "["); ok && base == name && strings.Count(rest, "[") == 0 && p.value != "" {
			out = append(out, p.value)
		}
	}
	return out
}

// sub returns the values of name[key] by key, nil if there are none.
func (f form) sub(name string) map[string]string {
	var out map[string]string
	for _, p := range f {
		base, rest, ok := strings.Cut(p.name, "[")
		if !ok || base != name {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[strings.TrimSuffix(rest, "]")] = p.value
	}
	return out
}

// flag returns a boolean parameter.
func (f form) flag(name string) bool { return f.get(name) == "true" }

// integer returns an integer parameter; ok is false if it is absent or no integer.
func (f form) integer(name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(f.get(name), 10, 64)
	return n, err == nil
}

// unknown returns the first parameter whose base name is not among the allowed.
func (f form) unknown(allowed []string) (string, bool) {
	for _, p := range f {
		base, _, _ := strings.Cut(p.name, "[")
		if !slices.Contains(allowed, base) {
			return p.name, true
		}
	}
	return "", false
}

// digest identifies a request to one path: the same for any order of the same
// parameters, different for any other meaning.
func (f form) digest(path string) string {
	sorted := slices.Clone(f)
	slices.SortStableFunc(sorted, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	h := sha256.New()
	field := func(s string) {
		_, _ = h.Write(strconv.AppendInt(nil, int64(len(s)), 10))
		_, _ = h.Write([]byte{':'})
		_, _ = h.Write([]byte(s))
	}
	field(path)
	for _, p := range sorted {
		field(p.name)
		field(p.value)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
