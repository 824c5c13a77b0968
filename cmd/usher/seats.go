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

// move asks for the move and prints what it changed; otherwise says why it left the
// other seats as they are.
func (f *seatFlags) move(p *process, verb, otherwise string) error {
	client, err := f.client()
	if err != nil {
		return err
	}
	path := "/v1/admin/events/" + f.Event.String() + "/seats/" + verb
	var moved struct{ SeatIDs []usher.SeatID }
	if err := client.call(p.ctx, "POST", path, map[string]any{"seatIds": f.Seats, "reason": f.Reason}, &moved); err != nil {
		return err
	}
	line := fmt.Sprintf("%s: %sed %d of %d seats", f.Event, verb, len(moved.SeatIDs), len(f.Seats))
	if len(moved.SeatIDs) < len(f.Seats) {
		line += "; the others " + otherwise
	}
	_, err = fmt.Fprintln(p.stdout, line)
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
func (c *blockCmd) Run(p *process) error { return c.move(p, "block", "were blocked already") }

// Run puts the seats back on sale.
func (c *unblockCmd) Run(p *process) error { return c.move(p, "unblock", "were not blocked") }
