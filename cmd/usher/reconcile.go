package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"usher"
)

// reconcileCmd has a running usher ask the payment provider about everything
// that is open.
type reconcileCmd struct {
	adminFlags `embed:""`
	OlderThan  time.Duration `help:"Only payments at least this old." default:"0s"`
	Redrive    bool          `help:"Make parked payments and provider messages due again first."`
	Reason     string        `help:"Why, for the list of actions." required:""`
	JSON       bool          `help:"Print the whole report as one JSON object."`
}

// reconciliation is the API's answer.
type reconciliation struct {
	Shards []struct {
		Shard, Redriven, Asked, Settled, StillOpen int
		Open                                       []struct {
			OperationID, OrderID, Kind, Status, Problem string
			AgeSeconds                                  int64
		}
		Problem usher.Code
	}
}

// Run prints what was found, and fails when a shard was not gone through.
func (c *reconcileCmd) Run(p *process) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	var raw json.RawMessage
	err = client.call(p.ctx, "POST", "/v1/admin/payments/reconcile", map[string]any{
		"olderThanSeconds": int(c.OlderThan.Seconds()), "redriveParked": c.Redrive, "reason": c.Reason,
	}, &raw)
	if err != nil {
		return err
	}
	var r reconciliation
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("read report: %w", err)
	}
	if c.JSON {
		_, err = fmt.Fprintf(p.stdout, "%s\n", raw)
	} else {
		err = r.print(p.stdout)
	}
	for _, s := range r.Shards {
		if err == nil && s.Problem != "" {
			err = usher.Errorf(usher.CodeUnavailable, "shard %d was not gone through (%s): run it again", s.Shard, s.Problem)
		}
	}
	return err
}

func (r *reconciliation) print(w io.Writer) error {
	for _, s := range r.Shards {
		if _, err := fmt.Fprintf(w, "shard %d: %d redriven, %d asked, %d settled, %d still open\n",
			s.Shard, s.Redriven, s.Asked, s.Settled, s.StillOpen); err != nil {
			return err
		}
		for _, o := range s.Open {
			age := time.Duration(o.AgeSeconds) * time.Second
			if _, err := fmt.Fprintf(w, "  %s of %s: %s %s for %s %s\n", o.OperationID, o.OrderID, o.Kind, o.Status, age, o.Problem); err != nil {
				return err
			}
		}
	}
	return nil
}
