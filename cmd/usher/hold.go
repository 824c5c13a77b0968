package main

import (
	"fmt"

	"usher"
)

// holdCmd acts on holds of a running usher.
type holdCmd struct {
	Release releaseCmd `cmd:"" help:"End somebody's hold before its deadline; not while it is being paid for."`
}

type releaseCmd struct {
	adminFlags `embed:""`
	Hold       usher.HoldID `arg:"" help:"Hold."`
	Reason     string       `help:"Why, for the list of actions." required:""`
}

// Run releases the hold.
func (c *releaseCmd) Run(p *process) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	var answer struct{ Hold struct{ Status string } }
	path := "/v1/admin/holds/" + c.Hold.String() + "/release"
	if err := client.call(p.ctx, "POST", path, map[string]string{"reason": c.Reason}, &answer); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s is %s\n", c.Hold, answer.Hold.Status)
	return err
}
