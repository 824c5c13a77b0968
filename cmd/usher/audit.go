package main

import (
	"encoding/json"
	"fmt"
	"io"

	"usher"
	"usher/internal/audit"
	"usher/internal/pg"
)

// auditCmd re-derives every invariant from the rows. It only reads, and may run
// during a sale.
type auditCmd struct {
	databaseFlags `embed:""`

	Event []usher.EventID `help:"Audit these events alone (evt_1). May be repeated." placeholder:"EVENT"`
	JSON  bool            `help:"Print the whole report as one JSON object."`
}

// errViolations ends a command whose audit found something.
var errViolations = fmt.Errorf("the audit found violations")

// Run prints the report and fails when a promise was broken.
func (c *auditCmd) Run(p *process) error {
	cfg, err := c.homes()
	if err != nil {
		return err
	}
	cfg.PoolSize, cfg.ApplicationName = 2, "usher audit"
	homes, err := pg.OpenReadOnly(p.ctx, cfg)
	if err != nil {
		return err
	}
	defer homes.Close()
	report, err := audit.Run(p.ctx, homes.Shards(), c.Event...)
	if err != nil {
		return err
	}
	if c.JSON {
		err = json.NewEncoder(p.stdout).Encode(report)
	} else {
		err = printAudit(p.stdout, report)
	}
	if err == nil && !report.Clean() {
		err = errViolations
	}
	return err
}

func printAudit(w io.Writer, r *audit.Report) error {
	for _, c := range r.Checks {
		mark := "ok  "
		if c.Count > 0 {
			mark = "FAIL"
		}
		if _, err := fmt.Fprintf(w, "%s  %-32s %s\n", mark, c.Check, c.Proves); err != nil {
			return err
		}
		for _, v := range c.Violations {
			if _, err := fmt.Fprintf(w, "      %s %s: %s\n", v.Event, v.Subject, v.Detail); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(w, "%d events, %d violations, %.1f s\n", len(r.Events), r.Violations, r.Seconds)
	return err
}
