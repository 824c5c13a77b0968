package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"usher"
)

// The command asks with what it was given, prints a line per shard and per open
// payment, and fails when a shard was not gone through.
func TestReconcileCommand(t *testing.T) {
	var asked string
	answer := `{"shards":[{"shard":1,"redriven":2,"asked":7,"settled":6,"stillOpen":1,"open":[
		{"operationId":"pop_1","orderId":"ord_1","kind":"capture","status":"unknown","ageSeconds":90,"problem":"timeout"}]}]}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		asked = r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization") + " " + string(b)
		_, _ = io.WriteString(w, answer)
	}))
	defer s.Close()
	c := reconcileCmd{adminFlags: adminFlags{URL: s.URL, AdminToken: "usk_x"}, OlderThan: time.Minute, Redrive: true, Reason: "outage"}
	var out bytes.Buffer
	p := &process{ctx: t.Context(), stdout: &out}
	if err := c.Run(p); err != nil {
		t.Fatal(err)
	}
	if want := `POST /v1/admin/payments/reconcile Bearer usk_x {"olderThanSeconds":60,"reason":"outage","redriveParked":true}`; asked != want {
		t.Errorf("asked %s", asked)
	}
	for _, want := range []string{"shard 1: 2 redriven, 7 asked, 6 settled, 1 still open\n", "pop_1 of ord_1: capture unknown for 1m30s timeout\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q lacks %q", out.String(), want)
		}
	}
	answer = `{"shards":[{"shard":2,"open":[],"problem":"busy"}]}`
	c.JSON = true
	out.Reset()
	if err := c.Run(p); usher.CodeOf(err) != usher.CodeUnavailable || out.String() != answer+"\n" {
		t.Errorf("%v, printed %q", err, out.String())
	}
}
