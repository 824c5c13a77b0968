package main

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"

	"usher"
)

// standingCmd gives a draft its tiers without seats.
type standingCmd struct {
	adminFlags `embed:""`

	Event   usher.EventID    `arg:"" help:"Draft, for example evt_12."`
	Tier    []string         `help:"A tier, repeated in the order in which they are shown: --tier 'pit:2000:Front pit'. Those that are left out go." placeholder:"ID:PLACES:NAME" sep:"none" required:""`
	Buckets map[string]int   `help:"Counters that a tier is spread over, 1 by default: --buckets pit=4." placeholder:"ID=N"`
	Price   map[string]int64 `help:"Prices in minor units; then of every tier of the event." placeholder:"TIER=AMOUNT"`
	Reason  string           `help:"Why, for the list of actions."`
}

type standingTier struct {
	TierID   string `json:"tierId"`
	Name     string `json:"name"`
	Capacity int    `json:"capacity"`
	Buckets  int    `json:"buckets,omitempty"`
}

// Run sets the tiers, and the prices that are given.
func (c *standingCmd) Run(p *process) error {
	tiers, err := parseTiers(c.Tier, c.Buckets)
	if err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	path := "/v1/admin/events/" + c.Event.String()
	var answer struct{ Event eventAnswer }
	if err := client.call(p.ctx, "PUT", path+"/standing", map[string]any{"tiers": tiers, "reason": c.Reason}, &answer); err != nil {
		return err
	}
	if len(c.Price) > 0 {
		if err := client.call(p.ctx, "PUT", path+"/prices", map[string]any{"prices": c.Price, "reason": c.Reason}, nil); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(p.stdout, "%s has %d places without seats\n", c.Event, answer.Event.Standing)
	return err
}

// parseTiers reads ID:PLACES:NAME; a name may have colons.
func parseTiers(texts []string, buckets map[string]int) ([]standingTier, error) {
	tiers := make([]standingTier, 0, len(texts))
	known := map[string]bool{}
	for _, text := range texts {
		parts := strings.SplitN(text, ":", 3)
		capacity := 0
		var err error
		if len(parts) == 3 {
			capacity, err = strconv.Atoi(parts[1])
		}
		if len(parts) < 3 || err != nil {
			return nil, usagef("--tier %s: write it as ID:PLACES:NAME, for example pit:2000:Front pit", text)
		}
		known[parts[0]] = true
		tiers = append(tiers, standingTier{TierID: parts[0], Name: parts[2], Capacity: capacity, Buckets: buckets[parts[0]]})
	}
	for id := range buckets {
		if !known[id] {
			return nil, usagef("--buckets %s: there is no --tier of that id", id)
		}
	}
	return tiers, nil
}

// tierFlags name a tier of an event on sale.
type tierFlags struct {
	adminFlags `embed:""`
	Event      usher.EventID `arg:"" help:"Event, for example evt_12."`
	Tier       string        `arg:"" help:"Tier without seats."`
}

func (f *tierFlags) path() string {
	return "/v1/admin/events/" + f.Event.String() + "/tiers/" + url.PathEscape(f.Tier)
}

// quotaAnswer is what the API says of a tier's buckets.
type quotaAnswer struct {
	Capacity int
	Buckets  []struct{ Bucket, Available, Held, Sold int }
}

func (q *quotaAnswer) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "BUCKET\tFREE\tHELD\tSOLD\tCAPACITY\t")
	free, held, sold := 0, 0, 0
	for _, b := range q.Buckets {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t\n", b.Bucket, b.Available, b.Held, b.Sold, b.Available+b.Held+b.Sold)
		free, held, sold = free+b.Available, held+b.Held, sold+b.Sold
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%d\t%d\t\n", free, held, sold, q.Capacity)
	return w.Flush()
}

// quotaCmd shows a tier's buckets, and moves free places between them.
type quotaCmd struct {
	tierFlags `embed:""`

	Move   *int   `help:"Move so many free places." placeholder:"PLACES" and:"move"`
	From   int    `help:"From this bucket." placeholder:"BUCKET" and:"move"`
	To     int    `help:"To this one; it is made if it is not there." placeholder:"BUCKET" and:"move"`
	Reason string `help:"Why, for the list of actions." and:"move"`
}

// Run moves what is asked for and shows the buckets.
func (c *quotaCmd) Run(p *process) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	var q quotaAnswer
	if c.Move != nil {
		body := map[string]any{"from": c.From, "to": c.To, "quantity": *c.Move, "reason": c.Reason}
		err = client.call(p.ctx, "POST", c.path()+"/quota/move", body, &q)
	} else {
		err = client.call(p.ctx, "GET", c.path()+"/quota", nil, &q)
	}
	if err != nil {
		return err
	}
	return q.print(p.stdout)
}

// capacityCmd changes how many places a tier, or one of its buckets, has.
type capacityCmd struct {
	tierFlags `embed:""`

	Places int    `arg:"" help:"How many places there are to be; never below what is held and sold."`
	Bucket int    `help:"This bucket alone; by default all of the tier, in the shares its buckets have." placeholder:"BUCKET"`
	Reason string `help:"Why, for the list of actions." required:""`
}

// Run sets the capacity and shows the buckets.
func (c *capacityCmd) Run(p *process) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	body := map[string]any{"capacity": c.Places, "reason": c.Reason}
	if c.Bucket != 0 {
		body["bucket"] = c.Bucket
	}
	var q quotaAnswer
	if err := client.call(p.ctx, "PUT", c.path()+"/capacity", body, &q); err != nil {
		return err
	}
	return q.print(p.stdout)
}
