package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"usher"
	"usher/internal/account"
	"usher/internal/notify"
	"usher/internal/payment"
	"usher/internal/payment/stripe"
	"usher/internal/pg"
	"usher/internal/web"
)

// databaseFlags say where the homes are.
type databaseFlags struct {
	DatabaseURL     secret            `help:"PostgreSQL URL that serves every home that has no URL of its own." env:"USHER_DATABASE_URL" placeholder:"URL"`
	DatabaseURLFile string            `help:"File with that URL." type:"path" env:"USHER_DATABASE_URL_FILE" placeholder:"FILE"`
	DirectoryURL    secret            `help:"URL of the directory." env:"USHER_DIRECTORY_URL" placeholder:"URL"`
	RoomURL         secret            `help:"URL of the waiting rooms." env:"USHER_ROOM_URL" placeholder:"URL"`
	ShardURL        map[string]secret `help:"URLs of the home shards: 1=URL;2=URL." env:"USHER_SHARD_URL" placeholder:"NUMBER=URL"`
}

// homes turns the flags into where each home is.
func (f *databaseFlags) homes() (pg.Config, error) {
	all, err := secretFrom("the database URL", f.DatabaseURL, f.DatabaseURLFile)
	if err != nil {
		return pg.Config{}, err
	}
	or := func(s secret) string {
		if s == "" {
			return all
		}
		return string(s)
	}
	cfg := pg.Config{DirectoryURL: or(f.DirectoryURL), RoomURL: or(f.RoomURL), ShardURLs: map[pg.ShardNumber]string{}}
	for number, url := range f.ShardURL {
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil || n < 1 {
			return pg.Config{}, fmt.Errorf("%q is no number of a shard", number)
		}
		cfg.ShardURLs[pg.ShardNumber(n)] = string(url)
	}
	if len(cfg.ShardURLs) == 0 && all != "" {
		cfg.ShardURLs[1] = all
	}
	if cfg.DirectoryURL == "" || cfg.RoomURL == "" || len(cfg.ShardURLs) == 0 {
		return pg.Config{}, usher.Errorf(usher.CodeUnavailable,
			"no database is configured: set USHER_DATABASE_URL (or one URL per home), or run `usher demo`, which brings its own")
	}
	return cfg, nil
}

// limitFlags bound single callers. The defaults are web.DefaultLimits.
type limitFlags struct {
	Joins        web.Rate `help:"Joins of queues per account: calls a second and burst, or off." default:"1/10" env:"USHER_LIMIT_JOINS"`
	AddressJoins web.Rate `help:"Joins of queues per network address." default:"50/500" env:"USHER_LIMIT_ADDRESS_JOINS"`
	Codes        web.Rate `help:"Sign-in codes per network address." default:"0.5/30" env:"USHER_LIMIT_CODES"`
	SignIns      web.Rate `help:"Tries to sign in per network address." default:"1/60" env:"USHER_LIMIT_SIGN_INS"`
	Holds        web.Rate `help:"Holds and checkouts per account." default:"2/20" env:"USHER_LIMIT_HOLDS"`
	AddressHolds web.Rate `help:"Holds and checkouts per network address." default:"100/500" env:"USHER_LIMIT_ADDRESS_HOLDS"`
}

func (f limitFlags) limits() web.Limits {
	return web.Limits{
		JoinPerAccount: f.Joins, JoinPerAddress: f.AddressJoins, CodePerAddress: f.Codes, SignInPerAddress: f.SignIns,
		HoldPerAccount: f.Holds, HoldPerAddress: f.AddressHolds,
	}
}

// serveCmd runs usher on databases of the operator's own.
type serveCmd struct {
	databaseFlags `embed:""`

	Addr         string   `help:"Address to listen on." default:"127.0.0.1:8080" env:"USHER_ADDR"`
	MetricsAddr  string   `help:"Address for /metrics alone; by default it is served beside everything else." env:"USHER_METRICS_ADDR"`
	PublicURL    string   `help:"Origin that people use, for example https://tickets.example; by default the listening address." env:"USHER_PUBLIC_URL" placeholder:"URL"`
	Role         []string `help:"What this process does: room, shop, worker." enum:"room,shop,worker" default:"room,shop,worker" env:"USHER_ROLE"`
	PoolSize     int      `help:"Most connections per home." default:"16" env:"USHER_POOL_SIZE"`
	TrustedProxy []string `help:"Networks of proxies that may name the client's address." env:"USHER_TRUSTED_PROXY" placeholder:"CIDR"`

	Limit limitFlags `embed:"" prefix:"limit-"`

	StripeURL               string `help:"Origin of the payment provider's API; empty is Stripe's own." env:"USHER_STRIPE_URL" placeholder:"URL"`
	StripeSecretKey         secret `help:"Its secret key." hidden:"" env:"USHER_STRIPE_SECRET_KEY"`
	StripeSecretKeyFile     string `help:"File with the provider's secret key (or USHER_STRIPE_SECRET_KEY)." type:"path" env:"USHER_STRIPE_SECRET_KEY_FILE" placeholder:"FILE"`
	StripeWebhookSecret     secret `help:"Secret that its webhooks are signed with." hidden:"" env:"USHER_STRIPE_WEBHOOK_SECRET"`
	StripeWebhookSecretFile string `help:"File with the webhook secret (or USHER_STRIPE_WEBHOOK_SECRET)." type:"path" env:"USHER_STRIPE_WEBHOOK_SECRET_FILE" placeholder:"FILE"`
	CardPage                string `help:"Page where a buyer's browser gets a payment method token." env:"USHER_CARD_PAGE" placeholder:"URL"`

	SMTPAddr         string `help:"Mail server's host and port." default:"127.0.0.1:25" env:"USHER_SMTP_ADDR"`
	SMTPTLS          string `name:"smtp-tls" help:"How the connection to it is protected." enum:"none,starttls,tls" default:"starttls" env:"USHER_SMTP_TLS"`
	SMTPUsername     string `help:"User name at the mail server." env:"USHER_SMTP_USERNAME"`
	SMTPPassword     secret `help:"Password at the mail server." hidden:"" env:"USHER_SMTP_PASSWORD"`
	SMTPPasswordFile string `help:"File with that password (or USHER_SMTP_PASSWORD)." type:"path" env:"USHER_SMTP_PASSWORD_FILE" placeholder:"FILE"`
	MailFrom         string `help:"Sender of mails." default:"usher <tickets@localhost>" env:"USHER_MAIL_FROM"`
}

// Run serves until the process is told to end.
func (c *serveCmd) Run(p *process) error {
	cfg, err := c.config(p)
	if err != nil {
		return err
	}
	if c.StripeURL != "" {
		if err := reachable(p.ctx, c.StripeURL); err != nil {
			// Payments wait for their provider; everything else need not.
			p.log.Warn("the payment provider does not answer: start it (usher paysim), or correct --stripe-url; checkouts wait for it",
				"url", c.StripeURL, "error", err)
		}
	}
	l, err := listen(c.Addr, "")
	if err != nil {
		return err
	}
	if cfg.Web.PublicURL == "" {
		cfg.Web.PublicURL = "http://" + l.Addr().String()
		cfg.Mail.SiteURL = cfg.Web.PublicURL
	}
	a, err := newApp(p.ctx, cfg)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer a.close()
	p.log.Info("usher is up", "url", cfg.Web.PublicURL, "addr", l.Addr().String(), "roles", cfg.Roles)
	return a.serve(p.ctx, l, c.MetricsAddr)
}

func (c *serveCmd) config(p *process) (appConfig, error) {
	cfg := appConfig{Roles: c.Role, Log: p.log, MetricsElsewhere: c.MetricsAddr != "", AccountLimits: account.DefaultLimits()}
	var err error
	if cfg.Homes, err = c.homes(); err != nil {
		return cfg, err
	}
	cfg.Homes.PoolSize = c.PoolSize
	cfg.Web = web.Config{
		PublicURL: strings.TrimRight(c.PublicURL, "/"), CardPage: c.CardPage, Limits: c.Limit.limits(), Version: version(),
	}
	for _, text := range c.TrustedProxy {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return cfg, fmt.Errorf("%q is no network of proxies, for example 10.0.0.0/8", text)
		}
		cfg.Web.TrustedProxies = append(cfg.Web.TrustedProxies, prefix)
	}
	password, err := secretFrom("the mail password", c.SMTPPassword, c.SMTPPasswordFile)
	if err != nil {
		return cfg, err
	}
	cfg.Mail = notify.Config{
		Addr: c.SMTPAddr, TLS: notify.TLSMode(c.SMTPTLS), Username: c.SMTPUsername, Password: password,
		From: c.MailFrom, SiteURL: cfg.Web.PublicURL,
	}
	cfg.Providers, err = c.providers()
	return cfg, err
}

func (c *serveCmd) providers() ([]payment.Provider, error) {
	key, err := secretFrom("the provider's secret key", c.StripeSecretKey, c.StripeSecretKeyFile)
	if err != nil {
		return nil, err
	}
	secret, err := secretFrom("the webhook secret", c.StripeWebhookSecret, c.StripeWebhookSecretFile)
	if err != nil {
		return nil, err
	}
	if key == "" || secret == "" {
		return nil, usher.Errorf(usher.CodeUnavailable,
			"no payment provider is configured: set USHER_STRIPE_SECRET_KEY and USHER_STRIPE_WEBHOOK_SECRET (or their _FILE forms)")
	}
	adapter, err := stripe.New(stripe.Config{SecretKey: key, BaseURL: c.StripeURL, WebhookSecrets: []string{secret}})
	if err != nil {
		return nil, err
	}
	return []payment.Provider{adapter}, nil
}

// serve runs the app's loops and answers requests until ctx ends or a loop
// fails. Requests finish first, on loops that still run; then the loops end.
func (a *app) serve(ctx context.Context, l net.Listener, metricsAddr string) error {
	loops := newSupervisor(context.WithoutCancel(ctx), a.log)
	a.start(loops)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(loops.ctx, cancel)()
	if metricsAddr != "" {
		metrics, err := listen(metricsAddr, "")
		if err != nil {
			return errors.Join(err, l.Close(), loops.stop(stopWithin))
		}
		loops.run("metrics", func(ctx context.Context) error {
			return serveHTTP(ctx, metrics, promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{}), a.log, func() {})
		})
	}
	var handler http.Handler = a.server
	if !a.cfg.has(roleRoom) && !a.cfg.has(roleShop) {
		handler = a.server.Probes()
	}
	err := serveHTTP(ctx, l, handler, a.log, a.server.Drain)
	return errors.Join(err, loops.stop(stopWithin))
}
