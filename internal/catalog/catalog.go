package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/redemption"
	"usher/internal/seatmap"
	"usher/internal/waitingroom"
)

const (
	// refreshEvery is how old the events in memory get while the directory answers.
	refreshEvery = time.Second
	// refreshTimeout bounds one reading of the directory.
	refreshTimeout = 3 * time.Second
	// missEvery spaces the readings that questions about unknown events cause.
	missEvery = 200 * time.Millisecond
)

// Config is what a Catalog needs.
type Config struct {
	Homes  *pg.Homes
	Ledger *ledger.Ledger
	Charts *seatmap.Charts
	Rooms  *waitingroom.Rooms
	Pools  *redemption.Redeemer
	// Log defaults to slog.Default.
	Log *slog.Logger
}

// Catalog is the directory of events, as one process serves it. It is safe for
// concurrent use.
type Catalog struct {
	homes  *pg.Homes
	ledger *ledger.Ledger
	charts *seatmap.Charts
	rooms  *waitingroom.Rooms
	pools  *redemption.Redeemer
	log    *slog.Logger

	// events is replaced as a whole: readers take no lock and issue no SQL. Nil
	// until the directory answered once.
	events    atomic.Pointer[index]
	refreshMu sync.Mutex
	missedAt  time.Time // under refreshMu
	// routed are the events whose home this process knows; under refreshMu.
	routed map[usher.EventID]bool
}

// index is every event, newest start first.
type index struct {
	list []Event
	byID map[usher.EventID]int
	slug map[string]int
}

// New makes a catalog and reads the events once. A directory that is away is no
// error: they are read when it is back.
func New(ctx context.Context, cfg Config) *Catalog {
	c := &Catalog{homes: cfg.Homes, ledger: cfg.Ledger, charts: cfg.Charts, rooms: cfg.Rooms, pools: cfg.Pools, log: cfg.Log,
		routed: map[usher.EventID]bool{}}
	if c.log == nil {
		c.log = slog.Default()
	}
	if err := c.refresh(ctx); err != nil {
		c.log.WarnContext(ctx, "events cannot be read yet", "error", err)
	}
	return c
}

// Run keeps the events in memory fresh and opens queues and sales at their time,
// until ctx ends.
func (c *Catalog) Run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { c.runRefresh(ctx) })
	both.Go(func() { c.runOpener(ctx) })
	both.Wait()
}

func (c *Catalog) runRefresh(ctx context.Context) {
	t := time.NewTicker(refreshEvery)
	defer t.Stop()
	away := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err := c.refresh(ctx)
		if ctx.Err() == nil && (err != nil) != away {
			away = err != nil
			c.log.WarnContext(ctx, "directory of events", "away", away, "error", err)
		}
	}
}

// List returns the events that are or were on sale, those that start last
// first; drafts says whether drafts are among them. It answers from memory, and
// fails with CodeUnavailable when the directory never answered.
func (c *Catalog) List(ctx context.Context, drafts bool) ([]Event, error) {
	i, err := c.index(ctx)
	if err != nil {
		return nil, err
	}
	var out []Event
	for _, e := range i.list {
		if drafts || e.PublishedAt != nil {
			out = append(out, e.clone())
		}
	}
	return out, nil
}

// Get returns an event, drafts included. It answers from memory, so that a
// directory that is away changes nothing. It fails with CodeNotFound, and with
// CodeUnavailable when the directory never answered.
func (c *Catalog) Get(ctx context.Context, id usher.EventID) (Event, error) {
	return c.find(ctx, func(i *index) (int, bool) { n, ok := i.byID[id]; return n, ok })
}

// BySlug returns the event with the slug, as Get does.
func (c *Catalog) BySlug(ctx context.Context, slug string) (Event, error) {
	return c.find(ctx, func(i *index) (int, bool) { n, ok := i.slug[slug]; return n, ok })
}

func (c *Catalog) find(ctx context.Context, look func(*index) (int, bool)) (Event, error) {
	i, err := c.index(ctx)
	if err != nil {
		return Event{}, err
	}
	if n, ok := look(i); ok {
		return i.list[n].clone(), nil
	}
	// Another process may have created it a moment ago.
	c.refreshMissed(ctx)
	i = c.events.Load()
	if n, ok := look(i); ok {
		return i.list[n].clone(), nil
	}
	return Event{}, usher.Errorf(usher.CodeNotFound, "no such event")
}

// index returns what is in memory, reading the directory only if nothing is.
func (c *Catalog) index(ctx context.Context) (*index, error) {
	if i := c.events.Load(); i != nil {
		return i, nil
	}
	if err := c.refresh(ctx); err != nil {
		return nil, err
	}
	return c.events.Load(), nil
}

// refreshMissed reads the directory if that was not done just now; when it is
// away, what is in memory stands.
func (c *Catalog) refreshMissed(ctx context.Context) {
	c.refreshMu.Lock()
	defer c.refreshMu.Unlock()
	if time.Since(c.missedAt) < missEvery {
		return
	}
	c.missedAt = time.Now()
	if err := c.refreshLocked(ctx); err != nil {
		c.log.WarnContext(ctx, "events cannot be read anew", "error", err)
	}
}

func (c *Catalog) refresh(ctx context.Context) error {
	c.refreshMu.Lock()
	defer c.refreshMu.Unlock()
	return c.refreshLocked(ctx)
}

const (
	sqlReadEvents = `
SELECT event_id, tenant_id, slug, name, venue, starts_at, time_zone, queue_opens_at, opens_at, currency, rules,
    rate_per_second, active_max, status, coalesce(chart_hash, ''), created_at, frozen_at, published_at, closed_at
FROM event ORDER BY starts_at DESC, event_id DESC`

	sqlReadTiers = `
SELECT event_id, tier_id, name, amount_minor, kind, coalesce(capacity, 0), coalesce(buckets, 0)
FROM event_tier ORDER BY event_id, position`
)

func (c *Catalog) refreshLocked(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	i := &index{byID: map[usher.EventID]int{}, slug: map[string]int{}}
	// One snapshot: prices never belong to another chart than the one shown.
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, c.homes.Directory, opts, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sqlReadEvents)
		if err != nil {
			return err
		}
		if i.list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Event, error) { return scanEvent(row) }); err != nil {
			return err
		}
		for n, e := range i.list {
			i.byID[e.ID], i.slug[e.Slug] = n, n
		}
		if rows, err = tx.Query(ctx, sqlReadTiers); err != nil {
			return err
		}
		return i.scanTiers(rows)
	})
	if err != nil {
		return fmt.Errorf("read events: %w", pg.Unavailable(err))
	}
	c.route(ctx, i.list)
	c.events.Store(i)
	return nil
}

func (i *index) scanTiers(rows pgx.Rows) error {
	var id usher.EventID
	var t Tier
	var amount *int64
	_, err := pgx.ForEachRow(rows, []any{&id, &t.ID, &t.Name, &amount, &t.Kind, &t.Capacity, &t.Buckets}, func() error {
		e := &i.list[i.byID[id]]
		t.Price = usher.Money{}
		if amount != nil {
			t.Price = usher.Money{AmountMinor: *amount, Currency: e.Currency}
		}
		e.Tiers = append(e.Tiers, t)
		return nil
	})
	return err
}

// route learns where the events on sale live while the directory can tell:
// afterwards this process sells them without it.
func (c *Catalog) route(ctx context.Context, events []Event) {
	for _, e := range events {
		if e.Status != StatusPublished || c.routed[e.ID] {
			continue
		}
		if _, err := c.homes.Shard(ctx, e.ID); err == nil {
			c.routed[e.ID] = true
		}
	}
}

func scanEvent(row pgx.Row) (Event, error) {
	var e Event
	var rules []byte
	err := row.Scan(&e.ID, &e.Tenant, &e.Slug, &e.Name, &e.Venue, &e.StartsAt, &e.TimeZone, &e.QueueOpensAt, &e.OpensAt, &e.Currency,
		&rules, &e.RatePerSecond, &e.ActiveMax, &e.Status, &e.Chart, &e.CreatedAt, &e.FrozenAt, &e.PublishedAt, &e.ClosedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return e, usher.Errorf(usher.CodeNotFound, "no such event")
	}
	if err == nil {
		e.Rules, err = decodeRules(rules, e.Currency)
	}
	return e, err
}

// current returns the event as the directory has it now: for decisions, never
// for browsing.
func (c *Catalog) current(ctx context.Context, id usher.EventID) (Event, error) {
	if err := c.refresh(ctx); err != nil {
		return Event{}, err
	}
	return c.Get(ctx, id)
}
