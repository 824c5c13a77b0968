package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"usher"
	"usher/internal/sim/crowd"
)

// rehearseCmd runs a whole on-sale with simulated people against a running usher.
type rehearseCmd struct {
	adminFlags `embed:""`

	Event        []usher.EventID `help:"Event to rehearse; every one on sale by default. May be repeated." placeholder:"EVENT"`
	People       int             `help:"How many people come." default:"300"`
	Arrive       time.Duration   `help:"Over how long they come; 50 a second by default." placeholder:"TIME"`
	Seed         uint64          `help:"Who does what: the same seed casts the same people." default:"1"`
	Patience     time.Duration   `help:"How long people put up with a server that is away." default:"2m"`
	Settle       time.Duration   `help:"How long an order may stay undecided." default:"5m"`
	SimulatorURL string          `help:"Have the payment simulator's own ledger checked, too." placeholder:"URL"`
	JSON         bool            `help:"Print the report as one JSON object on the last line."`
}

var errRehearsal = errors.New("the rehearsal did not pass")

// Run rehearses, prints the verdict, and fails when it is not a pass.
func (c *rehearseCmd) Run(p *process) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	events, err := c.events(p, client)
	if err != nil {
		return err
	}
	report, err := crowd.Run(p.ctx, crowd.Config{
		URL: client.base, AdminToken: client.token, Events: events, People: c.People, Arrive: c.Arrive, Seed: c.Seed,
		Patience: c.Patience, Settle: c.Settle, SimulatorURL: c.SimulatorURL,
		Progress: func(line string) { fmt.Fprintln(p.stderr, line) },
	})
	if err != nil {
		return fmt.Errorf("rehearse: %w", err)
	}
	if c.JSON {
		err = json.NewEncoder(p.stdout).Encode(report)
	} else {
		err = printRehearsal(p.stdout, report)
	}
	if err == nil && !report.Pass {
		err = errRehearsal
	}
	return err
}

// events are the names of those that are to be rehearsed, all of which are there. It
// fails as every command does when the key or the address is wrong, before people are
// patient with it.
func (c *rehearseCmd) events(p *process, client *adminClient) ([]string, error) {
	var list struct{ Events []eventAnswer }
	if err := client.call(p.ctx, "GET", "/v1/admin/events", nil, &list); err != nil {
		return nil, err
	}
	var names []string
	for _, id := range c.Event {
		if !slices.ContainsFunc(list.Events, func(e eventAnswer) bool { return e.EventID == id }) {
			return nil, usher.Errorf(usher.CodeNotFound, "there is no event %s here", id)
		}
		names = append(names, id.String())
	}
	return names, nil
}

func printRehearsal(w io.Writer, r *crowd.Report) error {
	verdict := "PASS"
	if !r.Pass {
		verdict = "FAIL"
	}
	_, err := fmt.Fprintf(w, `%s  %d people in %.1f s

places sold            %d   seated %d, standing %d
tickets issued         %d   difference %d
admitted at the gate   %d   second scans refused %d
audit violations       %d

lock wait p99          %.1f ms
conflict rate          %.1f %%
expiry rate            %.1f %%
unknown payment age    %.1f s
queue wait p99         %.1f s
admission rate         %.1f /s

requests %d, repeated %d, server away %d, server errors %d, answers lost on purpose %d
`, verdict, r.People, r.Seconds, r.UnitsSold, r.SoldSeated, r.SoldStanding, r.TicketsIssued, r.TicketDifference, r.AdmittedAtGate, r.SecondScans, r.AuditViolations,
		r.LockWaitP99Ms, r.ConflictRate*100, r.ExpiryRate*100, r.UnknownPaymentAgeSeconds, r.QueueWaitP99Seconds, r.AdmissionRatePerSecond,
		r.Requests, r.Retries, r.ServerAway, r.ServerErrors, r.LostAnswers)
	if err != nil {
		return err
	}
	if err := printOutcomes(w, r); err != nil {
		return err
	}
	for _, f := range r.Failures {
		if _, err := fmt.Fprintf(w, "FAIL: %s\n", f); err != nil {
			return err
		}
	}
	return nil
}

// printOutcomes prints how people fared: a column for each event and one for all.
func printOutcomes(out io.Writer, r *crowd.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, of func(crowd.EventReport) int, all int) {
		fmt.Fprintf(w, "%s\t", name)
		for _, e := range r.Events {
			fmt.Fprintf(w, "%d\t", of(e))
		}
		fmt.Fprintf(w, "%d\t\n", all)
	}
	fmt.Fprint(w, "\nEVENT\t")
	for _, e := range r.Events {
		fmt.Fprintf(w, "%s\t", e.Event)
	}
	fmt.Fprint(w, "all\t\n")
	row("people", func(e crowd.EventReport) int { return e.People }, r.People)
	row("seated places sold", func(e crowd.EventReport) int { return e.SoldSeated }, r.SoldSeated)
	row("standing places sold", func(e crowd.EventReport) int { return e.SoldStanding }, r.SoldStanding)
	for _, outcome := range slices.Sorted(maps.Keys(r.Outcomes)) {
		row(strings.ReplaceAll(outcome, "_", " "), func(e crowd.EventReport) int { return e.Outcomes[outcome] }, r.Outcomes[outcome])
	}
	return w.Flush()
}
