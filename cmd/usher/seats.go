package main

import (
	"fmt"

	"usher"
)

// seatFlags name seats of an event, and why something is done to them.
type seatFlags struct {
	adminFlags `embed:""`
	Event      usher.EventID `arg:"" help:"Event, for example evt_12."`
	Seats      []string      `arg:"" help:"Seats by their ids; all of them or none."`
	Reason     string        `help:"Why, for the list of actions." required:""`
}

func (f *seatFlags) move(p *process, verb string) error {
	client, err := f.client()
	if err != nil {
		return err
	}
	path := "/v1/admin/events/" + f.Event.String() + "/seats/" + verb
	if err := client.call(p.ctx, "POST", path, map[string]any{"seatIds": f.Seats, "reason": f.Reason}, nil); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%d seats of %s: %sed\n", len(f.Seats), f.Event, verb)
	return err
}

type (
	blockCmd struct {
		seatFlags `embed:""`
	}
	unblockCmd struct {
		seatFlags `embed:""`
	}
)

// Run takes the seats out of sale.
func (c *blockCmd) Run(p *process) error { return c.move(p, "block") }

// Run puts the seats back on sale.
func (c *unblockCmd) Run(p *process) error { return c.move(p, "unblock") }
