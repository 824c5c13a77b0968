package web_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"usher"
)

// schema is what the tests read of a schema in the description.
type schema struct {
	Ref                  string             `json:"$ref"`
	Type                 any                `json:"type"`
	Properties           map[string]*schema `json:"properties"`
	Required             []string           `json:"required"`
	Items                *schema            `json:"items"`
	AdditionalProperties json.RawMessage    `json:"additionalProperties"`
	Enum                 []any              `json:"enum"`
	Pattern              string             `json:"pattern"`
	Format               string             `json:"format"`
	Minimum              *json.Number       `json:"minimum"`
	Maximum              *json.Number       `json:"maximum"`
}

// bodies are the schemas of the bodies that operations take.
type bodies struct {
	Paths map[string]map[string]struct {
		RequestBody struct {
			Content map[string]struct{ Schema *schema }
		}
	}
	Components struct{ Schemas map[string]*schema }
}

func (b *bodies) resolve(s *schema) *schema {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return b.Components.Schemas[name]
	}
	return s
}

func (s *schema) is(kind string) bool {
	if kinds, many := s.Type.([]any); many {
		return slices.Contains(kinds, any(kind))
	}
	return s.Type == kind
}

// values is the schema of the values of a map, nil for a closed object.
func (s *schema) values() *schema {
	var v schema
	if json.Unmarshal(s.AdditionalProperties, &v) != nil || v.Type == nil {
		return nil
	}
	return &v
}

// sample is the least that the schema takes, as JSON.
func (b *bodies) sample(s *schema) string {
	s = b.resolve(s)
	switch {
	case s.Enum != nil:
		text, _ := json.Marshal(s.Enum[0])
		return string(text)
	case s.Pattern != "":
		return `"` + usher.NewAccountID().String() + `"`
	case s.is("integer"), s.is("number"):
		return s.Minimum.String()
	case s.is("boolean"):
		return "true"
	case s.is("array"):
		return "[" + b.sample(s.Items) + "]"
	case s.is("object"):
		return b.object(s, "", "")
	}
	return `"x"`
}

// object is the least object that the schema takes, with one property as given.
func (b *bodies) object(s *schema, name, value string) string {
	fields := map[string]string{}
	for _, required := range s.Required {
		fields[required] = b.sample(s.Properties[required])
	}
	if name != "" {
		fields[name] = value
	}
	var out []string
	for _, n := range slices.Sorted(maps.Keys(fields)) {
		out = append(out, `"`+n+`":`+fields[n])
	}
	return "{" + strings.Join(out, ",") + "}"
}

// wrong calls found for everything that can be wrong in the schema: the path of a
// field and a whole value with that field wrong.
func (b *bodies) wrong(s *schema, path string, found func(path, value string)) {
	s = b.resolve(s)
	at := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	switch {
	case s.is("object"):
		for name, p := range s.Properties {
			b.wrong(p, at(name), func(path, value string) { found(path, b.object(s, name, value)) })
		}
		if v := s.values(); v != nil {
			b.wrong(v, at("a"), func(path, value string) { found(path, `{"a":`+value+`}`) })
		}
	case s.is("array"):
		found(path, `"x"`)
		b.wrong(s.Items, path+"[0]", func(path, value string) { found(path, "["+value+"]") })
	case s.is("integer"):
		for _, value := range []string{"0.0", "-0.0", "1.0", "1.5", "1e0", "1e3", "1e-400", "1e400", "-1e400", "9223372036854775808", "10000000000000000000", "-10000000000000000000", `"1"`, "{}"} {
			found(path, value)
		}
	case s.is("number"):
		for _, value := range []string{"1e400", "-1e400", "10000000000000000000", `"1"`, "{}"} {
			found(path, value)
		}
	case s.is("boolean"):
		found(path, `"true"`)
	default:
		found(path, "5")
	}
	if s.Format == "date-time" {
		found(path, `"tomorrow"`)
	}
	if s.Pattern != "" && !strings.HasSuffix(path, "]") {
		found(path, `"`+strings.Repeat("0", 30)+`"`)
	}
}

// Whatever is wrong in a body, the refusal names the field, down to the element of a
// list, and says what is allowed in plain figures.
func TestEveryWrongFieldIsNamed(t *testing.T) {
	w := newWorld(t)
	var doc bodies
	if err := json.Unmarshal(w.server.OpenAPI(), &doc); err != nil {
		t.Fatalf("read description: %v", err)
	}
	tokens := map[string]string{"buyer": aliceToken, "operator": staffKey, "device": gateKey}
	audience := map[string]string{}
	for _, o := range operations(t, w) {
		audience[o.method+o.path] = tokens[o.audience]
	}
	sent := 0
	for path, methods := range doc.Paths {
		for method, op := range methods {
			body := op.RequestBody.Content["application/json"].Schema
			if body == nil {
				continue
			}
			method, path := strings.ToUpper(method), parameter.ReplaceAllStringFunc(path, func(s string) string { return exampleIDs[s[1:len(s)-1]] })
			doc.wrong(body, "", func(field, value string) {
				sent++
				a := w.do(t, method, path, audience[method+path], value)
				if a.status != 400 || a.code() != usher.CodeInvalidRequest || !strings.HasPrefix(a.detail(), field+":") && !strings.Contains(a.detail(), "; "+field+":") ||
					!strings.Contains(a.detail(), "expected ") || strings.Contains(a.detail(), "e+") {
					t.Errorf("%s %s %s: %d %s, want %s", method, path, value, a.status, a.body, field)
				}
			})
		}
	}
	if sent < 200 || len(w.accounts.actions) != 0 {
		t.Errorf("%d bodies were sent and %d actions written down", sent, len(w.accounts.actions))
	}
}

// A body in a coding is refused by its header, before anything reads it as text.
func TestCompressedBodies(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct{ method, path, token string }{
		{"POST", holdsPath, aliceToken}, {"PUT", "/v1/admin/events/evt_7/chart", staffKey},
	} {
		a := w.do(t, tc.method, tc.path, tc.token, "\x1f\x8b\x08\x00", "Content-Encoding", "gzip")
		if a.status != 415 || a.code() != usher.CodeUnsupportedMediaType || !strings.Contains(a.detail(), "Content-Encoding") {
			t.Errorf("%s: %d %s", tc.path, a.status, a.body)
		}
	}
	a := w.do(t, "POST", holdsPath, aliceToken, "{}", "Content-Encoding", "identity")
	if a.code() != usher.CodeIdempotencyKeyRequired {
		t.Errorf("as it is: %d %s", a.status, a.body)
	}
}
