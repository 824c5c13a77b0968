package usher_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"usher"
)

var update = flag.Bool("update", false, "rewrite generated documents")

const statesHead = `# States

The graphs along which seats, holds, orders, payment operations, codes and
waiting rooms move. This page is written from ` + "`state.go`" + ` and compared with it by
a test (` + "`go test . -run TestStatesDocument -update`" + ` rewrites it). A move that is
not listed here panics in the ledger and is refused by a CHECK or a guarded
UPDATE in the database.
`

// The document and the code describe the same graphs.
func TestStatesDocument(t *testing.T) {
	var b strings.Builder
	b.WriteString(statesHead)
	section(&b, "Seat", "A seat can be taken when it is available, or held and past its time. A pending seat is never taken by time.", usher.SeatAvailable, usher.SeatTransitions)
	section(&b, "Hold", "`held` and `payment_pending` are live. The deadline is set once; grace is added once.", usher.HoldHeld, usher.HoldTransitions)
	section(&b, "Order", "A hold has one order. `voiding` is the closed door: nothing can be sold any more, the seats wait for the provider's word.", usher.OrderPaymentPending, usher.OrderTransitions)
	section(&b, "Payment operation", "Done, not done, or not known: a timeout is `unknown`, and only the provider's own word ends it.", usher.OperationCreated, usher.OperationTransitions)
	section(&b, "Code", "Nothing ever returns to `unused`.", usher.CodeUnused, usher.CodeTransitions)
	section(&b, "Waiting room", "", usher.QueueScheduled, usher.QueueTransitions)
	if *update {
		if err := os.WriteFile("docs/states.md", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("docs/states.md")
	if err != nil || string(got) != b.String() {
		t.Errorf("docs/states.md does not match state.go (%v): run go test . -run TestStatesDocument -update", err)
	}
}

func section[S ~string](b *strings.Builder, name, note string, first S, graph []usher.Transition[S]) {
	fmt.Fprintf(b, "\n## %s\n\n", name)
	if note != "" {
		fmt.Fprintf(b, "%s\n\n", note)
	}
	fmt.Fprintf(b, "Starts as `%s`.", first)
	var final []string
	seen := map[S]bool{}
	for _, e := range graph {
		if leaves := slices.ContainsFunc(graph, func(o usher.Transition[S]) bool { return o.From == e.To }); !leaves && !seen[e.To] {
			seen[e.To] = true
			final = append(final, "`"+string(e.To)+"`")
		}
	}
	if final != nil {
		fmt.Fprintf(b, " Ends as %s.", strings.Join(final, ", "))
	}
	b.WriteString("\n\n| from | to | by |\n| --- | --- | --- |\n")
	for _, e := range graph {
		fmt.Fprintf(b, "| `%s` | `%s` | %s |\n", e.From, e.To, e.Cause)
	}
}

// Every graph is one piece: each state but the first can be reached.
func TestGraphsAreConnected(t *testing.T) {
	connected(t, usher.SeatAvailable, usher.SeatTransitions)
	connected(t, usher.HoldHeld, usher.HoldTransitions)
	connected(t, usher.OrderPaymentPending, usher.OrderTransitions)
	connected(t, usher.OperationCreated, usher.OperationTransitions)
	connected(t, usher.CodeUnused, usher.CodeTransitions)
	connected(t, usher.QueueScheduled, usher.QueueTransitions)
	for _, e := range usher.CodeTransitions {
		if e.To == usher.CodeUnused {
			t.Errorf("a code returns to unused from %s", e.From)
		}
	}
	if usher.CanMove(usher.SeatTransitions, usher.SeatPending, usher.SeatBlocked) || !usher.CanMove(usher.SeatTransitions, usher.SeatPending, usher.SeatSold) {
		t.Error("CanMove does not read the graph")
	}
}

func connected[S ~string](t *testing.T, first S, graph []usher.Transition[S]) {
	t.Helper()
	reached := map[S]bool{first: true}
	for range graph {
		for _, e := range graph {
			if reached[e.From] {
				reached[e.To] = true
			}
		}
	}
	for _, e := range graph {
		if !reached[e.From] || !reached[e.To] {
			t.Errorf("%s -> %s cannot be reached from %s", e.From, e.To, first)
		}
	}
}
