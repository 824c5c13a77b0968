package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
)

//go:generate go test -run TestOpenAPIIsFresh . -update

// apiDescription opens the API's description.
const apiDescription = `Sells and honours scarce, one-time things.

Ids are opaque text. Times are RFC 3339 in UTC and come from the database. Money is an integer in minor units with its ISO 4217 currency.

Every failure is a problem (RFC 9457) with a stable code; act on the code, show the detail. 429 and 503 are not decisions: retry with the same idempotency key after Retry-After. An answer that was given before carries "Idempotent-Replayed: true".

JSON is read strictly: unknown and repeated names are refused, names are case-sensitive, numbers must be integers where integers are meant, and text must be whole Unicode without zero bytes.`

// securitySchemes are the credentials of the three audiences.
var securitySchemes = map[string]*huma.SecurityScheme{
	string(buyers):   {Type: "http", Scheme: "bearer", Description: "A buyer's session token, from signing in"},
	"buyerCookie":    {Type: "apiKey", In: "cookie", Name: cookieSecure, Description: "The same token as a browser sends it; __Host- only with https"},
	string(staff):    {Type: "http", Scheme: "bearer", Description: "An operator's key: usk_..."},
	string(machines): {Type: "http", Scheme: "bearer", Description: "A device's credential: udv_..."},
}

// schemaName names a schema after its Go type: holdView is Hold.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	name = strings.TrimSuffix(name, "View")
	r := []rune(name)
	r[0] = unicode.ToUpper(r[0])
	return string(r)
}

// OpenAPI returns the API's description, generated from the routes: OpenAPI 3.1
// as indented JSON.
func (s *Server) OpenAPI() []byte {
	var compact, indented bytes.Buffer
	if err := json.NewEncoder(&compact).Encode(s.api.OpenAPI()); err != nil {
		panic("web: API description cannot be encoded: " + err.Error())
	}
	if err := json.Indent(&indented, compact.Bytes(), "", " "); err != nil {
		panic("web: API description is no JSON: " + err.Error())
	}
	return indented.Bytes()
}

// document describes an operation that a bare handler answers.
func (s *Server) document(op huma.Operation, answers map[int]string) {
	op.Responses = map[string]*huma.Response{}
	for status, media := range answers {
		response := &huma.Response{Description: http.StatusText(status)}
		if media != "" {
			response.Content = map[string]*huma.MediaType{media: {}}
		}
		op.Responses[fmt.Sprint(status)] = response
	}
	problem := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	op.Responses["default"] = &huma.Response{
		Description: "Error",
		Content:     map[string]*huma.MediaType{problemType: {Schema: problem}},
	}
	s.api.OpenAPI().AddOperation(&op)
}
