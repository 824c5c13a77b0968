package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"usher"
)

// eventCmd steers events of a running usher through its API.
type eventCmd struct {
	List     listEventsCmd  `cmd:"" help:"List every event, drafts too."`
	Status   eventStatusCmd `cmd:"" help:"Show an event with its rules in force and its queue."`
	Create   createCmd      `cmd:"" help:"Make a draft without a chart, for general admission."`
	Import   importCmd      `cmd:"" help:"Make a draft from a chart file with its prices, or give a draft another chart."`
	Standing standingCmd    `cmd:"" help:"Give a draft its tiers without seats."`
	Publish  publishCmd     `cmd:"" help:"Publish a draft."`
	Open     openCmd        `cmd:"" help:"Open the sale now."`
	Pause    pauseCmd       `cmd:"" help:"Stop admission and new holds."`
	Resume   resumeCmd      `cmd:"" help:"Open a paused sale again."`
	Close    closeCmd       `cmd:"" help:"End the sale for good."`
	Block    blockCmd       `cmd:"" help:"Take seats out of sale."`
	Unblock  unblockCmd     `cmd:"" help:"Put blocked seats back on sale."`
	Quota    quotaCmd       `cmd:"" help:"Show the buckets of a tier without seats, or move free places between them."`
	Capacity capacityCmd    `cmd:"" help:"Change how many places a tier without seats has."`
}

// eventAnswer is what commands read of the API's answer.
type eventAnswer struct {
	EventID  usher.EventID `json:"eventId"`
	Slug     string        `json:"slug"`
	Name     string        `json:"name"`
	StartsAt time.Time     `json:"startsAt"`
	TimeZone string        `json:"timeZone"`
	Status   string        `json:"status"`
	Sale     string        `json:"sale"`
	Queue    bool          `json:"queue"`
	Seats    int           `json:"seats"`
	Standing int           `json:"standing"`
}

type listEventsCmd struct {
	adminFlags `embed:""`
	JSON       bool `help:"Print JSON."`
}

// Run lists the events.
func (c *listEventsCmd) Run(p *process) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := client.call(p.ctx, "GET", "/v1/admin/events", nil, &raw); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p, raw)
	}
	var list struct{ Events []eventAnswer }
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "EVENT\tSTATUS\tSALE\tSEATS\tSTANDING\tSTARTS\tNAME")
	for _, e := range list.Events {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", e.EventID, e.Status, e.Sale, e.Seats, e.Standing, e.StartsAt.Format("2006-01-02 15:04Z"), e.Name)
	}
	return w.Flush()
}

type eventStatusCmd struct {
	adminFlags `embed:""`
	Event      usher.EventID `arg:"" help:"Event, for example evt_12."`
}

// Run shows the event as the API does.
func (c *eventStatusCmd) Run(p *process) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := client.call(p.ctx, "GET", "/v1/admin/events/"+c.Event.String(), nil, &raw); err != nil {
		return err
	}
	return printJSON(p, raw)
}

func printJSON(p *process, raw json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(p.stdout)
	return err
}

// newEventFlags describe an event that is to be made.
type newEventFlags struct {
	Slug     string `help:"Unique name of the new event."`
	Name     string `help:"Its name."`
	Venue    string `help:"Where it takes place."`
	StartsAt string `help:"When it starts, in its time zone: 2026-12-24 19:30."`
	TimeZone string `help:"IANA zone of the venue, for example Asia/Taipei."`
	OpensAt  string `help:"When the sale opens by itself; without it, it opens by hand."`
	Currency string `help:"ISO 4217 code." default:"TWD"`
	NoQueue  bool   `help:"Sell without a queue."`
}

// check names every flag that a new event lacks, at once.
func (f *newEventFlags) check() error {
	var missing []string
	for _, flag := range []struct{ name, value string }{
		{"--slug", f.Slug}, {"--name", f.Name}, {"--venue", f.Venue}, {"--starts-at", f.StartsAt}, {"--time-zone", f.TimeZone},
	} {
		if flag.value == "" {
			missing = append(missing, flag.name)
		}
	}
	if missing == nil {
		return nil
	}
	return usagef("missing flags: %s", strings.Join(missing, ", "))
}

func (f *newEventFlags) create(p *process, client *adminClient) (usher.EventID, error) {
	body := map[string]any{
		"slug": f.Slug, "name": f.Name, "venue": f.Venue, "startsAt": f.StartsAt, "timeZone": f.TimeZone, "currency": f.Currency,
		"rules": map[string]bool{"admissionRequired": !f.NoQueue},
	}
	if f.OpensAt != "" {
		body["opensAt"] = f.OpensAt
	}
	var answer struct{ Event eventAnswer }
	err := client.call(p.ctx, "POST", "/v1/admin/events", body, &answer)
	return answer.Event.EventID, err
}

// createCmd makes a draft; run again, it finds the one that is there.
type createCmd struct {
	adminFlags    `embed:""`
	newEventFlags `embed:""`
}

// Run makes the draft.
func (c *createCmd) Run(p *process) error {
	if err := c.check(); err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	event, err := c.create(p, client)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s is a draft: give it tiers with usher event standing, or a chart with usher event import\n", event)
	return err
}

// importCmd makes a draft in up to three steps. Each may be repeated, so an
// import that broke off is run again as it was.
type importCmd struct {
	adminFlags    `embed:""`
	newEventFlags `embed:""`

	Chart string           `arg:"" help:"Chart file: usher's JSON, the open seating-plan JSON, or CSV." type:"existingfile"`
	Event usher.EventID    `help:"Draft that gets the chart; without it a draft is made." placeholder:"EVENT"`
	Price map[string]int64 `help:"Price of a tier in minor units: --price floor=680000, repeated." placeholder:"TIER=AMOUNT"`
}

// Run imports the chart and sets the prices.
func (c *importCmd) Run(p *process) error {
	if c.Event == 0 {
		if err := c.check(); err != nil {
			return err
		}
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	file, err := os.ReadFile(c.Chart)
	if err != nil {
		return fmt.Errorf("read chart: %w", err)
	}
	if c.Event == 0 {
		if c.Event, err = c.create(p, client); err != nil {
			return err
		}
	}
	path := "/v1/admin/events/" + c.Event.String()
	media := "application/json"
	if strings.EqualFold(filepath.Ext(c.Chart), ".csv") {
		media = "text/csv"
	}
	var answer struct{ Event eventAnswer }
	name := strings.TrimSuffix(filepath.Base(c.Chart), filepath.Ext(c.Chart))
	if err := client.send(p.ctx, "PUT", path+"/chart?name="+url.QueryEscape(name), media, bytes.NewReader(file), &answer); err != nil {
		return err
	}
	if len(c.Price) > 0 {
		if err := client.call(p.ctx, "PUT", path+"/prices", map[string]any{"prices": c.Price}, nil); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(p.stdout, "%s has a chart of %d seats\n", c.Event, answer.Event.Seats)
	return err
}

// steer are the flags of every command that moves a sale.
type steer struct {
	adminFlags `embed:""`
	Event      usher.EventID `arg:"" help:"Event, for example evt_12."`
	Reason     string        `help:"Why, for the list of actions."`
}

func (s *steer) move(p *process, verb string) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	var answer struct{ Event eventAnswer }
	path := "/v1/admin/events/" + s.Event.String() + "/" + verb
	if err := client.call(p.ctx, "POST", path, map[string]string{"reason": s.Reason}, &answer); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%s is %s, its sale is %s\n", s.Event, answer.Event.Status, answer.Event.Sale)
	return err
}

type (
	publishCmd struct {
		steer `embed:""`
	}
	openCmd struct {
		steer `embed:""`
	}
	pauseCmd struct {
		steer `embed:""`
	}
	resumeCmd struct {
		steer `embed:""`
	}
	closeCmd struct {
		steer `embed:""`
	}
)

// Run publishes the draft.
func (c *publishCmd) Run(p *process) error { return c.move(p, "publish") }

// Run opens the sale.
func (c *openCmd) Run(p *process) error { return c.move(p, "open") }

// Run pauses the sale.
func (c *pauseCmd) Run(p *process) error { return c.move(p, "pause") }

// Run resumes the sale.
func (c *resumeCmd) Run(p *process) error { return c.move(p, "resume") }

// Run closes the sale.
func (c *closeCmd) Run(p *process) error { return c.move(p, "close") }
