package checkout

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/ledger"
	"usher/internal/payment"
	"usher/internal/pg"
	"usher/internal/work"
)

// What becomes of a genuine webhook, as a metric label.
const (
	webhookStored     = "stored"
	webhookRepeated   = "repeated"
	webhookIgnored    = "ignored"
	webhookUnroutable = "unroutable"
)

const (
	sqlInsertEvent = `
INSERT INTO provider_event (message_id, provider, provider_event_id, event_id, operation_id, type, reference, suggested_state,
    ignored, sent_at, received_at, next_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, clock_timestamp(), CASE WHEN $9 = '' THEN clock_timestamp() END)
ON CONFLICT (message_id) DO NOTHING`

	sqlReadEvent = `
SELECT provider, operation_id, type, reference, suggested_state FROM provider_event WHERE message_id = $1`
)

// messageID is the key of a provider's message: the same for every delivery.
func messageID(provider, eventID string) (id [16]byte) {
	sum := sha256.Sum256([]byte(provider + "\x00" + eventID))
	copy(id[:], sum[:])
	return id
}

// Webhook takes one delivery of a provider's message. It returns nil once the
// message is stored, or known, or of no concern to usher, and then the provider
// gets a 2xx; what the message is about is worked afterwards.
//
// It fails with CodeNotFound for a provider that is not configured, with
// CodeWebhookSignature, and with CodeUnavailable or CodeUnknown when the message
// could not be stored: the provider then delivers it again.
func (c *Checkout) Webhook(ctx context.Context, provider string, h http.Header, rawBody []byte) error {
	p := c.providers[provider]
	if p == nil {
		return usher.Errorf(usher.CodeNotFound, "no such payment provider")
	}
	n, err := p.ParseWebhook(h, rawBody)
	if err != nil {
		return err
	}
	home, err := c.route(ctx, n)
	if usher.CodeOf(err) == usher.CodeNotFound {
		// Payments of another system on the same account, and kinds of events that
		// name no operation: there is no shard to store them in and nothing to do.
		c.metrics.webhooks.WithLabelValues(webhookUnroutable).Inc()
		c.log.InfoContext(ctx, "webhook about nothing of ours", "provider", provider, "message", n.EventID, "type", n.Type, "ignored", string(n.Ignored))
		return nil
	}
	if err != nil {
		return fmt.Errorf("route webhook: %w", err)
	}
	fresh := false
	err = pg.InTx(ctx, home.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sqlInsertEvent, messageID(provider, n.EventID), provider, n.EventID, n.Metadata.OperationID.Event(),
			n.Metadata.OperationID, n.Type, n.Reference, string(n.State), string(n.Ignored), n.Created)
		fresh = tag.RowsAffected() == 1
		return err
	})
	if err != nil {
		return fmt.Errorf("store webhook: %w", err)
	}
	// Durable: the message. If we die before the answer, its repeat finds the row.
	c.received(n, fresh, home)
	return nil
}

func (c *Checkout) received(n payment.Notice, fresh bool, home shard) {
	switch {
	case !fresh:
		c.metrics.webhooks.WithLabelValues(webhookRepeated).Inc()
	case n.Ignored != "":
		c.metrics.webhooks.WithLabelValues(webhookIgnored).Inc()
	default:
		c.metrics.webhooks.WithLabelValues(webhookStored).Inc()
		c.runner.Wake(home.webhook)
	}
}

// route finds the shard of the operation a message names; CodeNotFound when it
// names none of ours.
func (c *Checkout) route(ctx context.Context, n payment.Notice) (shard, error) {
	if n.Metadata.OperationID.IsZero() {
		return shard{}, usher.Errorf(usher.CodeNotFound, "the message names no operation")
	}
	return c.home(ctx, n.Metadata.OperationID.Event())
}

// hint is a stored message.
type hint struct {
	provider  string
	operation usher.OperationID
	kind      string
	reference string
	state     payment.State
}

// target is what a hint leads to.
type target uint8

const (
	// targetNone: the hint cannot change anything.
	targetNone target = iota
	// targetAuthorization and targetCapture: the operation is worked now, which
	// reads the intent at the provider first.
	targetAuthorization
	targetCapture
	// targetOrphan: an operation that ended unpaid may have a live authorization.
	targetOrphan
)

// targetOf decides whether a hint could change anything, without asking the
// provider: a call costs more than this whole path.
func targetOf(h hint, op ledger.Operation, o ledger.Order) target {
	if op.Kind != usher.OperationAuthorize || op.Provider != h.provider || op.Reference != "" && h.reference != op.Reference {
		return targetNone
	}
	f := factOfState[h.state]
	switch {
	case !settled(op.Status) && o.Status == usher.OrderPaymentPending && f != factCreated:
		return targetAuthorization
	case op.Status == usher.OperationFailed || op.Status == usher.OperationReversed:
		if f == factAuthorized || f == factCapturing || f == factCaptured || f == factUnknown {
			return targetOrphan
		}
	case o.Status == usher.OrderConfirmed && o.Capture != nil && !settled(o.Capture.Status):
		if f == factUnknown || f == factClosed || f >= factCaptured && f <= factRefunded {
			return targetCapture
		}
	}
	return targetNone
}

// hintRetry is the pause while somebody else works the operation.
const hintRetry = 500 * time.Millisecond

// workWebhook works one stored message of the shard.
func (c *Checkout) workWebhook(ctx context.Context, home shard, j work.Job) work.Verdict {
	v, err := c.applyHint(ctx, home, j)
	if err != nil {
		c.log.WarnContext(ctx, "webhook has to be worked again", "message", fmt.Sprintf("%x", j.ID), "attempts", j.Attempts, "error", err)
		return work.Again(work.Backoff(j.Attempts, retryMin, retryMax), string(usher.CodeOf(err)))
	}
	return v
}

func (c *Checkout) applyHint(ctx context.Context, home shard, j work.Job) (work.Verdict, error) {
	var h hint
	err := home.pool.QueryRow(ctx, sqlReadEvent, j.ID).Scan(&h.provider, &h.operation, &h.kind, &h.reference, &h.state)
	if err != nil {
		return work.Verdict{}, fmt.Errorf("read webhook: %w", pg.Unavailable(err))
	}
	op, err := c.ops.Get(ctx, h.operation)
	if usher.CodeOf(err) == usher.CodeNotFound {
		c.log.WarnContext(ctx, "webhook names an operation that does not exist", "operation", h.operation.String(), "type", h.kind)
		return work.Done(), nil
	}
	if err != nil {
		return work.Verdict{}, err
	}
	o, err := c.ledger.Order(ctx, op.Order)
	if err != nil {
		return work.Verdict{}, err
	}
	switch targetOf(h, op, o) {
	case targetAuthorization:
		return c.hurry(ctx, home.authorize, op)
	case targetCapture:
		return c.hurry(ctx, home.capture, *o.Capture)
	case targetOrphan:
		op.Reference = h.reference
		return c.giveUpOrphan(ctx, j, home, view{op: op, auth: op, order: o})
	}
	return work.Done(), nil
}

// hurry works an operation before its time. When somebody else is working it,
// that run may have read the provider before this message was sent, so the
// message is done only after a run that began later.
func (c *Checkout) hurry(ctx context.Context, queue string, op ledger.Operation) (work.Verdict, error) {
	ran, err := c.runner.RunNow(ctx, queue, op.ID)
	if err != nil || ran {
		return work.Done(), err
	}
	if op, err = c.ops.Get(ctx, op.ID); err != nil {
		return work.Verdict{}, err
	}
	switch {
	case settled(op.Status):
		return work.Done(), nil
	case op.ParkedAt != nil:
		c.log.WarnContext(ctx, "webhook about a parked operation", "operation", op.ID.String())
		return work.Done(), nil
	case op.NextAt == nil:
		// Open and yet not scheduled: give it its schedule back.
		if _, err := c.ops.Learn(ctx, op.ID, ledger.Learned{NextIn: hintRetry}); err != nil {
			return work.Verdict{}, err
		}
	}
	return work.Again(hintRetry, "the operation is being worked"), nil
}

// giveUpOrphan asks about an operation that ended unpaid, and gives up what is
// nevertheless authorized on it. It must never find anything: the seats of such
// an order may be somebody else's by now. The stored message is the durable
// intent, so it is repeated until the provider has answered.
func (c *Checkout) giveUpOrphan(ctx context.Context, j work.Job, home shard, v view) (work.Verdict, error) {
	r := &run{c: c, p: c.providers[v.op.Provider], home: home, v: v, log: c.log.With("operation", v.op.ID.String())}
	again := work.Again(work.Backoff(j.Attempts, askMin, askMax), "asking about an operation that has ended")
	if r.p == nil {
		return again, nil
	}
	e := r.lookup(ctx)
	var d do
	switch e.fact {
	case factUnknown, factPending:
		return again, nil
	case factAuthorized, factCapturing:
		d = doFence
	case factCaptured, factPartlyRefunded:
		d = doRefund
	default:
		return work.Done(), nil
	}
	c.metrics.orphans.Inc()
	r.log.ErrorContext(ctx, "an operation that had ended unpaid holds money, giving it up", "order", v.op.Order.String(), "by", d.String())
	if _, err := r.ask(ctx, d); err != nil {
		return work.Verdict{}, err
	}
	// Whatever the answer was, the next look says whether it is so.
	return again, nil
}
