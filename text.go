package usher

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// SeatID names a seat within its event's chart: the seat_guid of the chart
// file, byte for byte, 1 to 64 bytes.
type SeatID string

// TierID names a price tier of an event, 1 to 64 bytes.
type TierID string

// PlacesMax is the most places one hold may take, seats and quantities together.
const PlacesMax = 6

// CheckText refuses text that is empty, longer than max bytes, not UTF-8, or
// holds control characters, a zero byte or a replacement character (the mark of
// text that was broken before it came here). what names the field in the
// message. It fails with CodeInvalidRequest.
func CheckText(what, s string, max int) error {
	switch {
	case s == "":
		return Errorf(CodeInvalidRequest, "%s is empty", what)
	case len(s) > max:
		return Errorf(CodeInvalidRequest, "%s is longer than %d bytes", what, max)
	case !utf8.ValidString(s):
		return Errorf(CodeInvalidRequest, "%s is not UTF-8", what)
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }):
		return Errorf(CodeInvalidRequest, "%s has a character that is not allowed", what)
	}
	return nil
}

// CheckKey refuses an idempotency key or transaction id that is empty, longer
// than 128 bytes, or has a space or anything but printable ASCII. It fails with
// CodeIdempotencyKeyRequired when empty and CodeInvalidRequest otherwise.
func CheckKey(what, s string) error {
	if s == "" {
		return Errorf(CodeIdempotencyKeyRequired, "%s is missing", what)
	}
	if len(s) > 128 || strings.ContainsFunc(s, func(r rune) bool { return r < '!' || r > '~' }) {
		return Errorf(CodeInvalidRequest, "%s must be 1 to 128 printable ASCII characters without spaces", what)
	}
	return nil
}
