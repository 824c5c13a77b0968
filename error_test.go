package usher_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"usher"
)

// Whoever logs an error logs its cause, once, however deep it sits; the message for
// clients stays without it.
func TestErrorsTellTheirCause(t *testing.T) {
	cause := errors.New("dial 10.0.0.7: connection refused")
	away := &usher.Error{Code: usher.CodeUnavailable, Message: "temporarily unavailable", Err: cause}
	for name, err := range map[string]error{
		"alone": away, "wrapped": fmt.Errorf("read seats: %w", away), "in another": &usher.Error{Code: usher.CodeBusy, Message: "later", Err: away},
		"without a message": &usher.Error{Code: usher.CodeUnavailable, Err: cause}, "formatted": usher.Errorf(usher.CodeUnavailable, "no database: %w", cause),
	} {
		if strings.Count(err.Error(), cause.Error()) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if away.Message != "temporarily unavailable" {
		t.Errorf("for clients: %s", away.Message)
	}
}

func TestInField(t *testing.T) {
	refusal := usher.Errorf(usher.CodeInvalidRequest, "out of range")
	var named *usher.Error
	if err := usher.InField("prices.pit", refusal); !errors.As(err, &named) || named.Message != "prices.pit: out of range" || named.Code != refusal.Code {
		t.Errorf("named: %v", err)
	}
	if refusal.Message != "out of range" {
		t.Errorf("the refusal itself was changed: %v", refusal)
	}
	other := errors.New("other")
	if usher.InField("x", other) != other || usher.InField("x", nil) != nil {
		t.Error("what is no refusal was changed")
	}
}
