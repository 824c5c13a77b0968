package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
	"usher/internal/waitingroom"
	"usher/internal/work"
)

const (
	// openEvery is how often the opener looks for events that are due. Within it a
	// due time is met to the millisecond.
	openEvery = time.Second
	// openTimeout bounds the opening of one event.
	openTimeout = 5 * time.Second
)

// runOpener opens and closes queues and sales at their times, in one process at a time. The
// lease lives with the rooms: the directory may be away when a sale opens.
func (c *Catalog) runOpener(ctx context.Context) {
	_ = work.Leader(ctx, c.homes.Room, "catalog.opener", func(ctx context.Context) error {
		opened, closed := map[usher.EventID]bool{}, map[overSale]bool{}
		for {
			next := c.openAll(ctx, opened)
			c.closeAll(ctx, closed)
			t := time.NewTimer(next)
			select {
			case <-ctx.Done():
				t.Stop()
				return ctx.Err()
			case <-t.C:
			}
		}
	})
}

// openAll opens what is due and says when to look again. done remembers events
// with nothing left to open, for this leader.
func (c *Catalog) openAll(ctx context.Context, done map[usher.EventID]bool) time.Duration {
	next := openEvery
	i := c.events.Load()
	if i == nil {
		return next
	}
	for _, e := range i.list {
		if e.Status != StatusPublished || done[e.ID] {
			continue
		}
		own, cancel := context.WithTimeout(ctx, openTimeout)
		left, err := c.openDue(own, e)
		cancel()
		switch {
		case err != nil:
			c.log.WarnContext(ctx, "queue or sale cannot be opened yet", "event", e.ID, "error", err)
		case left == nil:
			// By hand only, or open: operators have it from here on.
			done[e.ID] = true
		default:
			next = min(next, max(*left, time.Millisecond))
		}
	}
	return next
}

// sqlOverSales finds sales to close, and those closed of late, whose room a crash may
// have left open.
const sqlOverSales = `
SELECT event_id, sale_closes_at FROM event_rules
WHERE sale_closes_at <= clock_timestamp()
    AND (sale IN ('scheduled', 'open', 'paused') OR sale = 'closed' AND sale_closes_at > clock_timestamp() - interval '1 hour')`

// overSale is a sale whose end has passed by its home's clock.
type overSale struct {
	Event usher.EventID
	End   time.Time
}

// closeAll closes the sales whose end has passed, as an operator would: the ledger
// refuses their holds already, and nobody is to wait for that in a queue. done
// remembers those with nothing left to close, for this leader.
func (c *Catalog) closeAll(ctx context.Context, done map[overSale]bool) {
	for _, shard := range c.homes.Shards() {
		rows, err := shard.Pool.Query(ctx, sqlOverSales)
		if err == nil {
			var over []overSale
			if over, err = pgx.CollectRows(rows, pgx.RowToStructByPos[overSale]); err == nil {
				for _, o := range over {
					if !done[o] {
						var closeErr error
						done[o], closeErr = c.closeOver(ctx, o)
						err = errors.Join(err, closeErr)
					}
				}
			}
		}
		if err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "sales that are over cannot be closed yet", "shard", shard.Number, "error", err)
		}
	}
}

// closeOver closes one sale that is over, the ledger first: under its lock it shows
// whether an operator has moved the end meanwhile, and a closed sale has no way back. An
// event whose publication is unfinished is nobody's yet. done says that nothing is left
// to do for this end.
func (c *Catalog) closeOver(ctx context.Context, o overSale) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	e, err := c.published(ctx, o.Event)
	switch {
	case usher.CodeOf(err) == usher.CodeStateConflict:
		return false, nil
	case err != nil:
		return false, err
	}
	closed := false
	rules, err := c.ledger.ChangeRules(ctx, o.Event, func(r *usher.Rules) {
		if r.SaleClosesAt != nil && r.SaleClosesAt.Equal(o.End) && r.Sale != usher.SaleCancelled && r.Sale != usher.SaleClosed {
			r.Sale, closed = usher.SaleClosed, true
		}
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("close sale of %s: %w", o.Event, err)
	case closed:
		c.log.InfoContext(ctx, "sale", "event", o.Event, "to", usher.SaleClosed, "ended", o.End)
	case rules.Sale != usher.SaleClosed:
		return true, nil
	}
	if err := c.moveRoom(ctx, e, usher.QueueClosed); err != nil {
		return false, fmt.Errorf("close room of %s: %w", o.Event, err)
	}
	return true, nil
}

const sqlShardNow = `SELECT clock_timestamp()`

// homeNow is the time by the clock of the event's home.
func (c *Catalog) homeNow(ctx context.Context, id usher.EventID) (now time.Time, err error) {
	pool, err := c.homes.Shard(ctx, id)
	if err != nil {
		return now, err
	}
	if err := pool.QueryRow(ctx, sqlShardNow).Scan(&now); err != nil {
		return now, fmt.Errorf("read time of %s: %w", id, pg.Unavailable(err))
	}
	return now, nil
}

// openDue opens the event's queue and sale if their times have come by the clock
// of its home. It goes by what ledger and room say, not by a memory of its own:
// a sale that an operator paused or closed stays so, and an opening that crashed
// between the two is finished. left is the time to the next opening, nil when
// there is none to come.
func (c *Catalog) openDue(ctx context.Context, e Event) (left *time.Duration, err error) {
	now, err := c.homeNow(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	wait := func(at *time.Time) {
		if d := at.Sub(now); left == nil || d < *left {
			left = &d
		}
	}
	room := waitingroom.Status{Round: 1, Phase: usher.QueueOpen}
	if e.Rules.AdmissionRequired {
		if room, err = c.rooms.Status(ctx, e.ID); err != nil {
			return nil, err
		}
	}
	// Later rounds begin when operators say so.
	if room.Phase == usher.QueueScheduled && room.Round == 1 {
		if e.QueueOpensAt == nil || !now.Before(*e.QueueOpensAt) {
			if err := c.rooms.SetPhase(ctx, e.ID, usher.QueuePrequeue); err != nil {
				return nil, err
			}
			room.Phase = usher.QueuePrequeue
		} else {
			wait(e.QueueOpensAt)
		}
	}
	if e.OpensAt == nil {
		return left, nil
	}
	if now.Before(*e.OpensAt) {
		wait(e.OpensAt)
		return left, nil
	}
	return left, c.openSale(ctx, e, room)
}

// openSale opens a scheduled sale and its room. If the sale is open already, the
// room of the first round is opened if nobody was let through it yet: that is
// what a crash between the two leaves.
func (c *Catalog) openSale(ctx context.Context, e Event, room waitingroom.Status) error {
	rules, _, err := c.ledger.Rules(ctx, e.ID)
	if err != nil {
		return err
	}
	switch {
	case rules.Sale == usher.SaleScheduled:
		if err := c.moveSale(ctx, e.ID, usher.SaleOpen, usher.SaleScheduled); err != nil {
			return err
		}
	case rules.Sale != usher.SaleOpen || room.Round > 1:
		return nil
	}
	if room.Phase == usher.QueueScheduled || room.Phase == usher.QueuePrequeue {
		return c.moveRoom(ctx, e, usher.QueueOpen)
	}
	return nil
}
