package main

import (
	"fmt"

	"usher"
)

// orderCmd acts on orders of a running usher.
type orderCmd struct {
	Cancel cancelCmd `cmd:"" help:"Take a sold order back: places, codes and money in one step."`
}

type cancelCmd struct {
	adminFlags `embed:""`
	Order      usher.OrderID `arg:"" help:"Order."`
	Reason     string        `help:"Why, for the list of actions." required:""`
}

// Run cancels the order.
func (c *cancelCmd) Run(p *process) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	var answer struct{ Order struct{ OrderStatus string } }
	path := "/v1/admin/orders/" + c.Order.String() + "/cancel"
	if err := client.call(p.ctx, "POST", path, map[string]string{"reason": c.Reason}, &answer); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s is %s; the money is on its way back\n", c.Order, answer.Order.OrderStatus)
	return err
}
