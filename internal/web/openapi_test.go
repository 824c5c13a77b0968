package web_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"usher"
)

var update = flag.Bool("update", false, "rewrite docs/openapi.json")

const openAPIFile = "../../docs/openapi.json"

func TestOpenAPIIsFresh(t *testing.T) {
	w := newWorld(t)
	got := w.server.OpenAPI()
	if *update {
		if err := os.WriteFile(openAPIFile, got, 0o644); err != nil {
			t.Fatalf("write: %v", err)
		}
	}
	want, err := os.ReadFile(openAPIFile)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/openapi.json is not what the code says: run `go generate ./internal/web`")
	}
	if a := w.do(t, "GET", "/openapi.json", "", ""); a.status != 200 || a.body != string(got) {
		t.Errorf("/openapi.json answers %d", a.status)
	}
}

// operation is one route of the description, with ids filled in.
type operation struct{ method, path, audience string }

var parameter = regexp.MustCompile(`\{(\w+)\}`)

var exampleIDs = map[string]string{
	"eventId": "evt_7", "holdId": usher.NewHoldID(event).String(), "orderId": usher.NewOrderID(event).String(),
	"ticketId": usher.NewTicketID(event).String(), "deviceId": usher.NewDeviceID(event).String(),
	"redemptionId": usher.NewRedemptionID(event).String(), "hash": "0123", "tierId": "meadow", "provider": "stripe",
}

func operations(t *testing.T, w *world) []operation {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			Security []map[string][]string
		}
	}
	if err := json.Unmarshal(w.server.OpenAPI(), &doc); err != nil {
		t.Fatalf("read description: %v", err)
	}
	var out []operation
	for path, methods := range doc.Paths {
		for method, op := range methods {
			o := operation{method: strings.ToUpper(method)}
			o.path = parameter.ReplaceAllStringFunc(path, func(s string) string {
				id, ok := exampleIDs[s[1:len(s)-1]]
				if !ok {
					t.Fatalf("no example for %s", s)
				}
				return id
			})
			// A route that also serves nobody in particular lists an empty requirement.
			if len(op.Security) > 0 && len(op.Security[0]) > 0 {
				for name := range op.Security[0] {
					o.audience = name
				}
			}
			out = append(out, o)
		}
	}
	return out
}

// Every operation that changes something takes an idempotency key, or says by
// its nature that repeating it is harmless.
func TestWritesTakeKeys(t *testing.T) {
	w := newWorld(t)
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string
			Parameters  []struct{ Name string }
		}
	}
	if err := json.Unmarshal(w.server.OpenAPI(), &doc); err != nil {
		t.Fatalf("read description: %v", err)
	}
	keyed := map[string]bool{}
	for _, methods := range doc.Paths {
		for _, op := range methods {
			keyed[op.OperationID] = slices.ContainsFunc(op.Parameters, func(p struct{ Name string }) bool { return p.Name == "Idempotency-Key" })
		}
	}
	for _, id := range []string{"placeHold", "checkOut", "claimCode", "confirmRedemption"} {
		if !keyed[id] {
			t.Errorf("%s takes no Idempotency-Key", id)
		}
	}
}
