package checkout

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/fault"
	"usher/internal/ledger"
	"usher/internal/payment"
	"usher/internal/pg"
	"usher/internal/work"
)

// Config is what a Checkout is made of. Zero durations and counts take the
// defaults.
type Config struct {
	Homes  *pg.Homes
	Ledger *ledger.Ledger
	// Runner works the operations; New adds its queues to it.
	Runner *work.Runner
	// Providers by their names; new payments go to the first.
	Providers  []payment.Provider
	Log        *slog.Logger
	Registerer prometheus.Registerer
	// ReturnURL says where a buyer comes back to after a challenge. It must give
	// the same address for the same order for ever.
	ReturnURL func(usher.OrderID) string
	// AnswerWithin is how long a checkout waits for the provider before it answers
	// with what is known; default 8 s.
	AnswerWithin time.Duration
	// InFlightMax and InFlightMin bound how many authorizations this process has in
	// flight; default 256 and 4. Answers slower than LatencyTarget (default 2 s)
	// shrink the bound.
	InFlightMax, InFlightMin int
	LatencyTarget            time.Duration
	// Poll is the mean pause between looks for due operations; default work's own.
	Poll time.Duration
}

func (c Config) withDefaults() Config {
	if c.AnswerWithin == 0 {
		c.AnswerWithin = 8 * time.Second
	}
	if c.InFlightMax == 0 {
		c.InFlightMax = 256
	}
	if c.InFlightMin == 0 {
		c.InFlightMin = min(4, c.InFlightMax)
	}
	if c.LatencyTarget == 0 {
		c.LatencyTarget = 2 * time.Second
	}
	if c.ReturnURL == nil {
		c.ReturnURL = func(usher.OrderID) string { return "" }
	}
	return c
}

// Checkout drives orders through their payment.
type Checkout struct {
	cfg       Config
	log       *slog.Logger
	ledger    *ledger.Ledger
	ops       *ledger.Operations
	runner    *work.Runner
	providers map[string]payment.Provider
	provider  payment.Provider
	limiter   *limiter
	metrics   *metrics
	shards    map[*pgxpool.Pool]shard

	// backlogs holds the last Backlog by pg.ShardNumber.
	backlogs sync.Map

	// driving counts goroutines that outlive the request that started them.
	driving sync.WaitGroup
}

// shard names the queues of one home shard.
type shard struct {
	number                            pg.ShardNumber
	pool                              *pgxpool.Pool
	authorize, capture, void, webhook string
}

// OperationTable is the table of payment operations, for listing and redriving
// parked ones.
var OperationTable = work.Table{Name: "payment_operation", Key: "operation_id"}

// EventTable is the table of provider messages, likewise.
var EventTable = work.Table{Name: "provider_event", Key: "message_id"}

// operationLease is how long one run has an operation for itself: longer than
// preparing, authorizing and looking up take together.
const operationLease = 30 * time.Second

// New makes a Checkout and adds its queues to the runner. It fails on a
// configuration that could lose money: no provider, two of one name, or one
// that cannot give money back by its API.
func New(cfg Config) (*Checkout, error) {
	cfg = cfg.withDefaults()
	c := &Checkout{
		cfg: cfg, log: cfg.Log, ledger: cfg.Ledger, ops: cfg.Ledger.Operations(), runner: cfg.Runner,
		providers: map[string]payment.Provider{}, shards: map[*pgxpool.Pool]shard{},
		limiter: newLimiter(cfg.InFlightMin, cfg.InFlightMax, cfg.LatencyTarget),
	}
	if len(cfg.Providers) == 0 {
		return nil, fmt.Errorf("checkout: no payment provider is configured")
	}
	for _, p := range cfg.Providers {
		if c.providers[p.Name()] != nil {
			return nil, fmt.Errorf("checkout: payment provider %q is configured twice", p.Name())
		}
		if !p.Capabilities().RefundByAPI {
			return nil, fmt.Errorf("checkout: payment provider %q cannot refund by API, so reserved seats cannot be sold with it", p.Name())
		}
		c.providers[p.Name()] = p
	}
	c.provider = cfg.Providers[0]
	c.metrics = newMetrics(cfg.Registerer, c.limiter)
	for _, s := range cfg.Homes.Shards() {
		c.addQueues(s)
	}
	return c, nil
}

// addQueues gives each kind of operation workers of its own: a flood of captures
// must not delay the closing of doors.
func (c *Checkout) addQueues(s pg.Shard) {
	name := func(kind string) string { return fmt.Sprintf("%s/%d", kind, s.Number) }
	q := shard{number: s.Number, pool: s.Pool, authorize: name("authorize"), capture: name("capture"), void: name("void"), webhook: name("webhook")}
	c.shards[s.Pool] = q
	add := func(queue string, t work.Table, only string, workers int, h work.Handler) {
		t.Only = only
		c.runner.Add(queue, s.Pool, t, work.Options{Workers: workers, Lease: operationLease, Poll: c.cfg.Poll}, h)
	}
	add(q.authorize, OperationTable, "kind = 'authorize'", 32, func(ctx context.Context, j work.Job) work.Verdict {
		return c.work(ctx, j, decideAuthorization)
	})
	add(q.capture, OperationTable, "kind = 'capture'", 32, func(ctx context.Context, j work.Job) work.Verdict {
		return c.work(ctx, j, decideCapture)
	})
	add(q.void, OperationTable, "kind IN ('void', 'refund')", 16, func(ctx context.Context, j work.Job) work.Verdict {
		return c.work(ctx, j, decideVoid)
	})
	add(q.webhook, EventTable, "", 16, func(ctx context.Context, j work.Job) work.Verdict {
		return c.workWebhook(ctx, q, j)
	})
}

// home returns the queues of the event's shard.
func (c *Checkout) home(ctx context.Context, event usher.EventID) (shard, error) {
	pool, err := c.cfg.Homes.Shard(ctx, event)
	if err != nil {
		return shard{}, err
	}
	return c.shards[pool], nil
}

// Request asks for a hold to be paid for.
type Request struct {
	Hold    usher.HoldID
	Account usher.AccountID
	// MethodToken is the provider's token of the buyer's card; never the card.
	MethodToken string
	// Key is the caller's idempotency key.
	Key string
}

// Result is an order with what its buyer is told.
type Result struct {
	Order         ledger.Order
	PaymentStatus PaymentStatus
	NextAction    NextAction
}

func resultOf(o ledger.Order) Result { return Result{o, StatusOf(o), NextActionOf(o)} }

const retryAfterBusy = 2 * time.Second

// Checkout begins the payment of a hold, or returns the hold's order if it is
// being paid for or was. It drives the authorization itself and answers, at the
// latest after Config.AnswerWithin, with what is then known; the work goes on
// whether anybody waits for it or not.
//
// It fails with CodeBusy, before anything is written, when too many
// authorizations are in flight, with CodePaymentRejected when the provider knows no
// such payment method (the hold stays, and another may be tried), and with the
// refusals of ledger.BeginPayment.
func (c *Checkout) Checkout(ctx context.Context, r Request) (Result, error) {
	if !c.limiter.acquire() {
		c.metrics.busy.Inc()
		return Result{}, &usher.Error{Code: usher.CodeBusy, Message: "too many payments are being made at once", RetryAfter: retryAfterBusy}
	}
	order, started, err := c.ledger.BeginPayment(ctx, ledger.BeginPayment{
		Hold: r.Hold, Account: r.Account, Provider: c.provider.Name(), MethodToken: r.MethodToken, Key: r.Key,
	})
	if err != nil {
		c.limiter.cancel()
		return Result{}, err
	}
	// The order is durable from here on: whoever dies, its operation row is worked.
	if err := fault.Point(ctx, "checkout.after_begin"); err != nil {
		c.limiter.cancel()
		return Result{}, fmt.Errorf("checkout: %w", err)
	}
	if order.Status == usher.OrderPaymentPending && order.Authorization == nil {
		c.limiter.cancel()
		return c.confirmFree(ctx, order)
	}
	if !started {
		c.limiter.cancel()
		return answerOf(order)
	}
	if !c.await(ctx, c.drive(ctx, order.Authorization.ID)) {
		return Result{}, fmt.Errorf("checkout: %w", context.Cause(ctx))
	}
	return answerOf(c.read(ctx, order).Order)
}

// answerOf is the answer to a checkout. A token that the provider does not know is the
// caller's mistake and no bank's decision; the order waits as after a decline.
func answerOf(o ledger.Order) (Result, error) {
	r := resultOf(o)
	if r.PaymentStatus == PaymentDeclined && o.Authorization != nil && o.Authorization.ProviderCode == payment.MethodUnknown {
		e := usher.Errorf(usher.CodePaymentRejected, "paymentMethodToken: the payment provider knows no such payment method; pay with another while the hold lasts")
		e.Replayed = o.Replayed
		return Result{}, e
	}
	return r, nil
}

// drive runs the authorization on a context that outlives the request: a browser
// that closes must not leave a payment half done. The channel closes at its end.
func (c *Checkout) drive(ctx context.Context, id usher.OperationID) <-chan struct{} {
	done := make(chan struct{})
	detached := context.WithoutCancel(ctx)
	c.driving.Go(func() {
		defer close(done)
		begin := time.Now()
		c.runNow(detached, id)
		c.limiter.release(time.Now(), time.Since(begin), c.answered(detached, id))
	})
	return done
}

// answered reports whether the provider has said where the operation stands.
func (c *Checkout) answered(ctx context.Context, id usher.OperationID) bool {
	op, err := c.ops.Get(ctx, id)
	return err != nil || settled(op.Status) || op.Status == usher.OperationActionRequired
}

// runNow works an authorization here unless somebody else is at it. An error
// costs time only: the row stays due and the runner takes it.
func (c *Checkout) runNow(ctx context.Context, id usher.OperationID) bool {
	home, err := c.home(ctx, id.Event())
	if err == nil {
		var ran bool
		if ran, err = c.runner.RunNow(ctx, home.authorize, id); err == nil {
			return ran
		}
	}
	c.log.WarnContext(ctx, "cannot run an authorization now", "operation", id.String(), "error", err)
	return false
}

// await waits for the end of the drive or for the time to answer; false when the
// caller is gone.
func (c *Checkout) await(ctx context.Context, done <-chan struct{}) bool {
	t := time.NewTimer(c.cfg.AnswerWithin)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// read returns the order as it stands now, or as it was when it cannot be read:
// an older truth that the page will refresh.
func (c *Checkout) read(ctx context.Context, known ledger.Order) Result {
	now, err := c.ledger.Order(ctx, known.ID)
	if err != nil {
		c.log.WarnContext(ctx, "cannot read the order again", "order", known.ID.String(), "error", err)
		return resultOf(known)
	}
	now.Replayed = known.Replayed
	return resultOf(now)
}

// confirmFree sells an order of nothing: no provider is asked.
func (c *Checkout) confirmFree(ctx context.Context, o ledger.Order) (Result, error) {
	confirmed, err := c.ledger.ConfirmOrder(ctx, ledger.ConfirmOrder{Order: o.ID, Authorized: usher.Money{Currency: o.Amount.Currency}})
	if err != nil {
		return Result{}, err
	}
	confirmed.Replayed = o.Replayed
	return resultOf(confirmed), nil
}

// Returned is for a buyer who comes back from a challenge. The return proves
// nothing, it is only a good moment to ask the provider; the answer is the order
// as it then stands. It fails with CodeNotFound for somebody else's order.
func (c *Checkout) Returned(ctx context.Context, id usher.OrderID, account usher.AccountID) (Result, error) {
	o, err := c.ledger.Order(ctx, id)
	if err != nil {
		return Result{}, err
	}
	if o.Account != account {
		return Result{}, usher.Errorf(usher.CodeNotFound, "no such order")
	}
	if o.Status != usher.OrderPaymentPending || o.Authorization == nil || settled(o.Authorization.Status) {
		return resultOf(o), nil
	}
	done := make(chan struct{})
	detached := context.WithoutCancel(ctx)
	c.driving.Go(func() {
		defer close(done)
		c.runNow(detached, o.Authorization.ID)
	})
	if !c.await(ctx, done) {
		return Result{}, fmt.Errorf("return to order: %w", context.Cause(ctx))
	}
	return c.read(ctx, o), nil
}
