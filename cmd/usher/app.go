package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"usher"
	"usher/internal/account"
	"usher/internal/audit"
	"usher/internal/catalog"
	"usher/internal/checkout"
	"usher/internal/ledger"
	"usher/internal/notify"
	"usher/internal/payment"
	"usher/internal/pg"
	"usher/internal/redemption"
	"usher/internal/seatmap"
	"usher/internal/token"
	"usher/internal/waitingroom"
	"usher/internal/web"
	"usher/internal/work"
)

// The roles of a process. Room and shop answer requests, the worker runs what is
// due. Which paths reach which process is the proxy's business.
const (
	roleRoom   = "room"
	roleShop   = "shop"
	roleWorker = "worker"
)

// appConfig is what an app is made of.
type appConfig struct {
	Homes pg.Config
	Roles []string
	Web   web.Config
	Mail  notify.Config
	// AccountLimits bound codes and sign-ins.
	AccountLimits account.Limits
	Providers     []payment.Provider
	Log           *slog.Logger
	// MetricsElsewhere leaves /metrics off the public address.
	MetricsElsewhere bool
}

func (c appConfig) has(role string) bool { return slices.Contains(c.Roles, role) }

// app is every part of usher in one process, wired together.
type app struct {
	cfg      appConfig
	log      *slog.Logger
	registry *prometheus.Registry

	homes    *pg.Homes
	keys     *token.Keyring
	accounts *account.Accounts
	rooms    *waitingroom.Rooms
	ledger   *ledger.Ledger
	charts   *seatmap.Charts
	hub      *seatmap.Hub
	runner   *work.Runner
	checkout *checkout.Checkout
	redeemer *redemption.Redeemer
	catalog  *catalog.Catalog
	notifier *notify.Notifier
	server   *web.Server
}

// newApp connects to the homes and wires every part. Nothing runs yet. It fails
// with CodeUnavailable, and a message that says what to do, when a home does not
// answer.
func newApp(ctx context.Context, cfg appConfig) (*app, error) {
	a := &app{cfg: cfg, log: cfg.Log, registry: prometheus.NewRegistry()}
	a.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var err error
	if a.homes, err = pg.Open(ctx, cfg.Homes); err != nil {
		return nil, err
	}
	if err := a.wire(ctx); err != nil {
		a.homes.Close()
		return nil, err
	}
	return a, nil
}

func (a *app) wire(ctx context.Context) error {
	mailer, err := notify.NewMailer(a.cfg.Mail, a.registry)
	if err != nil {
		return fmt.Errorf("mail: %w", err)
	}
	if a.keys, err = token.NewKeyring(ctx, a.homes.Directory); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if a.accounts, err = account.New(ctx, a.homes.Directory, a.keys, mailer, a.cfg.AccountLimits); err != nil {
		return fmt.Errorf("accounts: %w", err)
	}
	a.rooms, err = waitingroom.New(ctx, waitingroom.Config{Homes: a.homes, Keys: a.keys, Log: a.log, Metrics: a.registry})
	if err != nil {
		return fmt.Errorf("waiting rooms: %w", err)
	}
	a.redeemer = redemption.New(a.homes, a.log, a.registry)
	a.ledger = ledger.New(a.homes, ledger.WithLog(a.log), ledger.WithMetrics(a.registry), ledger.WithCodes(a.redeemer))
	a.charts = seatmap.NewCharts(a.homes)
	a.runner = work.NewRunner(a.log, a.registry)
	a.checkout, err = checkout.New(checkout.Config{
		Homes: a.homes, Ledger: a.ledger, Runner: a.runner, Providers: a.cfg.Providers, Log: a.log, Registerer: a.registry,
		ReturnURL: func(id usher.OrderID) string { return a.cfg.Web.PublicURL + "/orders/" + id.String() },
	})
	if err != nil {
		return err
	}
	a.catalog = catalog.New(ctx, catalog.Config{
		Homes: a.homes, Ledger: a.ledger, Charts: a.charts, Rooms: a.rooms, Pools: a.redeemer, Log: a.log,
	})
	a.notifier = notify.New(a.homes, mailer, a.accounts, ticketSource{a}, a.log)
	a.notifier.Work(a.runner)
	a.hub = seatmap.NewHub(seatmap.HubConfig{
		Homes: a.homes, Ledger: a.ledger, Charts: a.charts, Log: a.log, Metrics: a.registry,
	})
	a.wireServer()
	return nil
}

func (a *app) wireServer() {
	deps := web.Deps{
		Accounts: a.accounts, Rooms: a.rooms, Seats: a.hub, Charts: a.charts, Ledger: a.ledger, Checkout: a.checkout,
		Redemption: a.redeemer, Catalog: a.catalog, Audit: a.audit, Ready: a.ready, Pressure: a.ledger.Pressure,
		Gatherer: a.registry,
	}
	if a.cfg.MetricsElsewhere {
		deps.Gatherer = nil
	}
	cfg := a.cfg.Web
	if n := a.cfg.Homes.PoolSize; n > 0 {
		cfg.ReadsPerEvent = max(1, n/4)
	}
	a.server = web.New(cfg, deps, a.log, a.registry)
}

// ready says whether requests are of use here: the waiting rooms answer, or some
// shard does. A shard that is away must not take the queue with it, nor the room
// the shops of everybody who is inside.
func (a *app) ready(ctx context.Context) error {
	err := a.homes.Room.Ping(ctx)
	if err == nil {
		return nil
	}
	away := []error{fmt.Errorf("room: %w", err)}
	for _, s := range a.homes.Shards() {
		if err := s.Pool.Ping(ctx); err == nil {
			return nil
		}
		away = append(away, fmt.Errorf("shard %d: %w", s.Number, err))
	}
	return &usher.Error{Code: usher.CodeUnavailable, Message: "no home answers", Err: errors.Join(away...)}
}

// auditPool is how many connections an audit may use beside a sale.
const auditPool = 2

// audit runs on connections of its own that cannot write.
func (a *app) audit(ctx context.Context, events ...usher.EventID) (*audit.Report, error) {
	cfg := a.cfg.Homes
	cfg.PoolSize, cfg.ApplicationName = auditPool, "usher audit"
	homes, err := pg.OpenReadOnly(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer homes.Close()
	return audit.Run(ctx, homes.Shards(), events...)
}

// start runs the loops of the process's roles.
func (a *app) start(s *supervisor) {
	s.run("keys", loop(a.keys.Run))
	s.run("accounts", loop(a.accounts.Run))
	s.run("waiting rooms", loop(a.rooms.Run))
	s.run("events", loop(a.catalog.Run))
	s.run("stock", loop(a.runStock))
	if a.cfg.has(roleShop) {
		s.run("seat maps", loop(a.hub.Run))
	}
	if a.cfg.has(roleShop) || a.cfg.has(roleWorker) {
		// Whoever commits a hold sends its message.
		s.run("expiry messages", a.ledger.RunExpiry)
	}
	// Checkouts of this process are driven here, whoever works the due rows.
	s.run("checkout", a.checkout.Run)
	if !a.cfg.has(roleWorker) {
		return
	}
	s.run("due work", a.runner.Run)
	s.run("expiry sweep", a.ledger.RunSweeper)
	s.run("tickets", func(ctx context.Context) error { return a.ledger.RunReader(ctx, a.redeemer.Issuer()) })
	s.run("ticket mails", func(ctx context.Context) error { return a.ledger.RunReader(ctx, a.notifier.Reader()) })
	s.run("redemptions", a.redeemer.Run)
}

// close gives connections back. Loops must have ended.
func (a *app) close() {
	a.hub.Close()
	a.homes.Close()
}

// ticketSource gives mails the content of an order's tickets: the code from the
// redemption side, names and times from the catalog, the seat's words from the
// chart.
type ticketSource struct{ app *app }

// Tickets implements notify.TicketSource.
func (t ticketSource) Tickets(ctx context.Context, order usher.OrderID) ([]notify.TicketInfo, error) {
	tickets, err := t.app.redeemer.Tickets(ctx, order)
	if err != nil || len(tickets) == 0 {
		return nil, err
	}
	event, err := t.app.catalog.Get(ctx, order.Event())
	if err != nil {
		return nil, err
	}
	var chart *seatmap.Chart
	if event.Chart != "" {
		if chart, err = t.app.charts.OfEvent(ctx, order.Event()); err != nil {
			return nil, err
		}
	}
	tiers := map[usher.TierID]string{}
	for _, tier := range event.Tiers {
		tiers[tier.ID] = tier.Name
	}
	out := make([]notify.TicketInfo, 0, len(tickets))
	for _, k := range tickets {
		if k.Cancelled {
			continue
		}
		out = append(out, notify.TicketInfo{
			EventName: event.Name, Venue: event.Venue, StartsAt: event.StartsAt, TimeZone: event.TimeZone,
			Seat: seatName(chart, k.Seat), Tier: tiers[k.Tier], Code: k.Code, QR: redemption.QRPNG(k.Code, ticketQRScale),
		})
	}
	return out, nil
}

// ticketQRScale is how many pixels a module of a mailed symbol has.
const ticketQRScale = 6

// seatName words a seat as the hall does: section, row and seat. A place without a
// seat has no name.
func seatName(chart *seatmap.Chart, id usher.SeatID) string {
	if chart == nil || id == "" {
		return string(id)
	}
	ordinal, ok := chart.Ordinal(id)
	if !ok {
		return string(id)
	}
	row := chart.RowOf(ordinal)
	return fmt.Sprintf("%s · %s · %s", row.Section, row.Label, chart.Seat(ordinal).Label)
}

// stopWithin is how long loops may take to end.
const stopWithin = 10 * time.Second
