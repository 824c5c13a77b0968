package web

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"usher"
)

const (
	// bodyMax is the most bytes of a JSON body, except for files.
	bodyMax = 64 << 10
	// fileMax is the most bytes of an imported chart.
	fileMax = 32 << 20
	// depthMax is how deep JSON may nest.
	depthMax = 32
)

// checkJSON refuses everything that two readers of one text could understand
// differently: text that is not UTF-8, names that appear twice in an object,
// lone surrogates (which readers replace), a zero byte, data after the value,
// deep nesting. It fails with CodeInvalidJSON.
func checkJSON(b []byte) error {
	switch {
	case len(bytes.TrimSpace(b)) == 0:
		return usher.Errorf(usher.CodeInvalidJSON, "the body is empty")
	case !utf8.Valid(b):
		return usher.Errorf(usher.CodeInvalidJSON, "the body is not UTF-8")
	case !json.Valid(b):
		return usher.Errorf(usher.CodeInvalidJSON, "the body is not one JSON value")
	}
	w := walker{text: b}
	return w.walk()
}

// walker reads text that is known to be one valid JSON value.
type walker struct {
	text []byte
	at   int
	// objects holds the names seen so far of every open object; nil for an array.
	open []map[string]struct{}
	// wantName says that the next string is a name of the innermost object.
	wantName bool
}

func (w *walker) walk() error {
	for w.at < len(w.text) {
		switch w.text[w.at] {
		case '{', '[':
			if err := w.enter(); err != nil {
				return err
			}
		case '}', ']':
			w.open = w.open[:len(w.open)-1]
			w.wantName = false
		case ',':
			w.wantName = w.open[len(w.open)-1] != nil
		case '"':
			if err := w.str(); err != nil {
				return err
			}
			continue
		}
		w.at++
	}
	return nil
}

func (w *walker) enter() error {
	if len(w.open) == depthMax {
		return usher.Errorf(usher.CodeInvalidJSON, "the body nests deeper than %d", depthMax)
	}
	if w.text[w.at] == '{' {
		w.open = append(w.open, map[string]struct{}{})
		w.wantName = true
		return nil
	}
	w.open = append(w.open, nil)
	w.wantName = false
	return nil
}

// str reads the string that begins here and stops behind it.
func (w *walker) str() error {
	start := w.at
	escaped := false
	for w.at++; w.text[w.at] != '"'; w.at++ {
		if w.text[w.at] != '\\' {
			continue
		}
		escaped = true
		w.at++
		if w.text[w.at] == 'u' {
			if err := w.escape(); err != nil {
				return err
			}
		}
	}
	w.at++
	if !w.wantName {
		return nil
	}
	w.wantName = false
	return w.name(w.text[start:w.at], escaped)
}

// escape reads the four digits after \u, and the second half of a pair; it stops
// on the last digit.
func (w *walker) escape() error {
	r := w.digits(w.at + 1)
	w.at += 4
	switch {
	case r == 0:
		return usher.Errorf(usher.CodeInvalidJSON, "the body has a zero byte in a text")
	case r < 0xd800 || r > 0xdfff:
		return nil
	}
	// A high surrogate must be followed by the escape of a low one.
	if r < 0xdc00 && w.at+6 < len(w.text) && w.text[w.at+1] == '\\' && w.text[w.at+2] == 'u' {
		if low := w.digits(w.at + 3); low >= 0xdc00 && low <= 0xdfff {
			w.at += 6
			return nil
		}
	}
	return usher.Errorf(usher.CodeInvalidJSON, "the body has half a surrogate pair in a text")
}

func (w *walker) digits(at int) uint64 {
	r, err := strconv.ParseUint(string(w.text[at:at+4]), 16, 32)
	if err != nil {
		panic("web: escape without digits in valid JSON")
	}
	return r
}

func (w *walker) name(quoted []byte, escaped bool) error {
	name := string(quoted[1 : len(quoted)-1])
	if escaped {
		if err := json.Unmarshal(quoted, &name); err != nil {
			panic("web: name cannot be read in valid JSON: " + err.Error())
		}
	}
	names := w.open[len(w.open)-1]
	if _, twice := names[name]; twice {
		return usher.Errorf(usher.CodeInvalidJSON, "the name %q appears twice in one object", clip(name))
	}
	names[name] = struct{}{}
	return nil
}

// jsonFormat is what huma binds with, after checkJSON has passed. The schema has
// refused unknown names before the second, typed reading; refusing them here as
// well keeps a gap in the schema from letting one through.
var jsonFormat = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return e.Encode(v)
	},
	Unmarshal: func(b []byte, v any) error {
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		if tree, ok := v.(*any); ok {
			return decodeTree(d, tree)
		}
		return d.Decode(v)
	},
}

// decodeTree reads a body for the schema to check. Its numbers are as they are
// written: the schema knows values alone, and would take 1.0 for an integer.
func decodeTree(d *json.Decoder, tree *any) error {
	d.UseNumber()
	if err := d.Decode(tree); err != nil {
		return err
	}
	*tree = written(*tree)
	return nil
}

// written replaces the numbers of a tree by what the schema's check understands.
func written(tree any) any {
	switch v := tree.(type) {
	case map[string]any:
		for name := range v {
			v[name] = written(v[name])
		}
	case []any:
		for i := range v {
			v[i] = written(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		// A number beyond all floats is infinite, and so above every maximum.
		f, _ := v.Float64()
		if strings.ContainsAny(v.String(), ".eE") {
			// A hair off the value, and in its bounds: refused where an integer is
			// wanted, the same in every other respect. What is bound is read from the
			// text again.
			f = math.Nextafter(f, 0)
			if f == 0 {
				f = math.SmallestNonzeroFloat64
			}
		}
		return f
	}
	return tree
}

// isJSON reports whether the request says that its body is JSON. A request
// without a content type is taken at its word.
func isJSON(r *http.Request) bool {
	ct := r.Header.Get("Content-Type")
	if ct == "" {
		return true
	}
	media, params, err := mime.ParseMediaType(ct)
	if err != nil || media != "application/json" {
		return false
	}
	charset, given := params["charset"]
	return !given || strings.EqualFold(charset, "utf-8")
}
