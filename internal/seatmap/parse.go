package seatmap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Parse reads a chart file of any known format and tells the format by its
// content: own JSON, seating-plan JSON, or CSV. A CSV file carries no name, so
// the chart is named name; the other formats name themselves. It fails with
// CodeInvalidFile and a message that names what is wrong, and never returns a
// part of a file.
func Parse(name string, file []byte) (*Chart, error) {
	if err := checkSize(file); err != nil {
		return nil, err
	}
	trimmed := bytes.TrimLeft(withoutMark(file), " \t\r\n")
	if len(trimmed) == 0 {
		return nil, refuse("the file is empty")
	}
	if trimmed[0] != '{' && trimmed[0] != '[' {
		return ParseCSV(name, file)
	}
	var probe struct {
		Format *string          `json:"format"`
		Zones  *json.RawMessage `json:"zones"`
	}
	// What the probe cannot read, the parsers refuse with a better message.
	_ = json.Unmarshal(trimmed, &probe)
	if probe.Format == nil && probe.Zones != nil {
		return ParsePlan(file)
	}
	return ParseJSON(file)
}

// ParseJSON reads a chart in usher's own format. Unknown keys are refused, so
// that a misspelt one is not lost. It fails with CodeInvalidFile.
func ParseJSON(file []byte) (*Chart, error) {
	var d document
	if err := decodeJSON(file, &d, true); err != nil {
		return nil, err
	}
	switch d.Format {
	case Format:
	case "":
		return nil, refuse("the file is no chart: it has neither %q with %q nor the zones of a seating plan", "format", Format)
	default:
		return nil, refuse("the chart has an unknown format %s: this version reads %q", quote(d.Format), Format)
	}
	return newChart(&d, placeWords("section", "tier"))
}

// decodeJSON reads exactly one JSON value. strict refuses unknown keys.
func decodeJSON(file []byte, into any, strict bool) error {
	if err := checkSize(file); err != nil {
		return err
	}
	file = withoutMark(file)
	if at := firstInvalid(file); at >= 0 {
		return refuse("not UTF-8, line %d", 1+bytes.Count(file[:at], []byte{'\n'}))
	}
	// What a few bytes of a hostile file would grow to in memory is bounded first.
	if bytes.Count(file, []byte{'{'})+bytes.Count(file, []byte{'['}) > structureMax {
		return refuse("the file has more than %d objects and lists", structureMax)
	}
	dec := json.NewDecoder(bytes.NewReader(file))
	if strict {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(into); err != nil {
		return jsonFault(file, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return refuse("the file goes on after the end of its JSON value")
	}
	return nil
}

// jsonFault turns a decoder's error into a message with a line number.
func jsonFault(file []byte, err error) error {
	line := func(offset int64) int {
		return 1 + bytes.Count(file[:min(max(offset, 0), int64(len(file)))], []byte{'\n'})
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return refuse("not JSON, line %d: %s", line(syntax.Offset), syntax.Error())
	case errors.As(err, &kind):
		return refuse("line %d: %s is %s where %s is expected", line(kind.Offset), fieldName(kind.Field), kindName(kind.Value), kindName(kind.Type.Kind().String()))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return refuse("not JSON: the file ends too early")
	}
	return refuse("the file cannot be read: %s", strings.TrimPrefix(err.Error(), "json: "))
}

func fieldName(path string) string {
	if path == "" {
		return "the file"
	}
	return fmt.Sprintf("%q", path)
}

// kindName says in plain words what the decoder calls a kind of value.
func kindName(kind string) string {
	kind, number, _ := strings.Cut(kind, " ")
	switch {
	case number != "":
		return number
	case kind == "struct", kind == "map", kind == "object":
		return "an object"
	case kind == "slice", kind == "array":
		return "a list"
	case kind == "bool":
		return "true or false"
	case kind == "string":
		return "text"
	}
	return "a number"
}

// withoutMark removes a byte order mark.
func withoutMark(file []byte) []byte { return bytes.TrimPrefix(file, []byte("\xef\xbb\xbf")) }

// firstInvalid returns the offset of the first byte that is not UTF-8, or -1.
func firstInvalid(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

func checkSize(file []byte) error {
	if len(file) > FileMax {
		return refuse("the file is larger than %d MiB", FileMax>>20)
	}
	return nil
}
