package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"usher"
	"usher/internal/pg"
)

// The order of a sale's two switches. The ledger decides what may be held, the
// room decides who comes in:
//
//   - to open or resume, the ledger first: whoever is let in finds a shop that
//     sells. A crash in between leaves an open shop that nobody is let into, and
//     the command is repeated;
//   - to pause, close or cancel, the room first, so that nobody uses up a turn at
//     a shop that is shutting; but a room that does not answer never keeps the
//     ledger from stopping: both are tried, and what failed is reported.
//
// Every command may be repeated; one that finds its work done changes nothing.

// Open opens the sale now, whatever its announced time. It fails with
// CodeNotFound, with CodeStateConflict unless the event is published and its
// sale is scheduled or open and not past its end, and with CodeUnavailable.
func (c *Catalog) Open(ctx context.Context, id usher.EventID) error {
	e, err := c.published(ctx, id)
	if err != nil {
		return err
	}
	if err := c.checkNotOver(ctx, id); err != nil {
		return err
	}
	if err := c.moveSale(ctx, id, usher.SaleOpen, usher.SaleScheduled); err != nil {
		return err
	}
	return c.moveRoom(ctx, e, usher.QueueOpen)
}

// checkNotOver refuses to open a sale whose end has passed by the clock of its
// home: it would be open and sell nothing.
func (c *Catalog) checkNotOver(ctx context.Context, id usher.EventID) error {
	rules, _, err := c.ledger.Rules(ctx, id)
	if err != nil || rules.SaleClosesAt == nil || rules.Sale == usher.SaleOpen {
		return err
	}
	over, err := c.over(ctx, id, *rules.SaleClosesAt)
	if over {
		err = usher.Errorf(usher.CodeStateConflict, "the sale ended at %s: change saleClosesAt first, or take it away with null", rules.SaleClosesAt.UTC().Format(time.RFC3339))
	}
	return err
}

// CheckCloses refuses an end of the sale that has passed by the clock of the event's
// home: the sale would be closed for good at once, which Close says more plainly. It
// fails with CodeInvalidRequest, CodeNotFound and CodeUnavailable.
func (c *Catalog) CheckCloses(ctx context.Context, id usher.EventID, at time.Time) error {
	over, err := c.over(ctx, id, at)
	if over {
		err = usher.Errorf(usher.CodeInvalidRequest, "rules.saleClosesAt is past: %s; to end the sale now, close it", at.UTC().Format(time.RFC3339))
	}
	return err
}

// over reports whether a time has passed by the clock of the event's home.
func (c *Catalog) over(ctx context.Context, id usher.EventID, at time.Time) (bool, error) {
	now, err := c.homeNow(ctx, id)
	return err == nil && !now.Before(at), err
}

// Pause stops admission and new holds; buyers may finish what they hold. It
// fails with CodeNotFound, CodeStateConflict unless the sale is open or paused,
// and CodeUnavailable.
func (c *Catalog) Pause(ctx context.Context, id usher.EventID) error {
	return c.shut(ctx, id, usher.QueuePaused, usher.SalePaused, usher.SaleOpen)
}

// Resume opens a paused sale again. It fails with CodeNotFound,
// CodeStateConflict unless the sale is paused or open and not past its end, and
// CodeUnavailable.
func (c *Catalog) Resume(ctx context.Context, id usher.EventID) error {
	e, err := c.published(ctx, id)
	if err != nil {
		return err
	}
	if err := c.checkNotOver(ctx, id); err != nil {
		return err
	}
	if err := c.moveSale(ctx, id, usher.SaleOpen, usher.SalePaused); err != nil {
		return err
	}
	return c.moveRoom(ctx, e, usher.QueueOpen)
}

// Close ends the sale for good; buyers may finish what they hold. It fails with
// CodeNotFound, CodeStateConflict for a cancelled sale, and CodeUnavailable.
func (c *Catalog) Close(ctx context.Context, id usher.EventID) error {
	return c.shut(ctx, id, usher.QueueClosed, usher.SaleClosed, usher.SaleScheduled, usher.SaleOpen, usher.SalePaused)
}

const sqlCloseEvent = `
UPDATE event SET status = $2, closed_at = clock_timestamp()
WHERE event_id = $1 AND status = $3 AND (status <> 'draft' OR frozen_at IS NULL)`

// Cancel cancels the event: nothing more is held, paid or confirmed. The status
// follows last, so that a cancellation that crashed is seen as unfinished. What
// was sold is compensated elsewhere. It fails with CodeNotFound,
// CodeStateConflict for an event that has ended or whose publication is
// unfinished, and CodeUnavailable.
func (c *Catalog) Cancel(ctx context.Context, id usher.EventID) error {
	e, err := c.current(ctx, id)
	if usher.CodeOf(err) == usher.CodeUnavailable {
		// The directory is away: stop the sale at least, the status follows when
		// this is repeated.
		e, err = c.Get(ctx, id)
	}
	if err != nil {
		return err
	}
	switch {
	case e.Status == StatusCancelled:
		return nil
	case e.Status == StatusEnded:
		return usher.Errorf(usher.CodeStateConflict, "the event has ended")
	case e.Status == StatusDraft && e.FrozenAt != nil:
		return usher.Errorf(usher.CodeStateConflict, "finish the publication first")
	case e.Status == StatusPublished:
		err := c.shut(ctx, id, usher.QueueClosed, usher.SaleCancelled,
			usher.SaleScheduled, usher.SaleOpen, usher.SalePaused, usher.SaleClosed)
		if err != nil {
			return err
		}
	}
	return c.finish(ctx, e, StatusCancelled)
}

// End closes the sale and files the event away after it took place. It fails
// as Close does.
func (c *Catalog) End(ctx context.Context, id usher.EventID) error {
	e, err := c.current(ctx, id)
	if err != nil || e.Status == StatusEnded {
		return err
	}
	if err := c.Close(ctx, id); err != nil {
		return err
	}
	return c.finish(ctx, e, StatusEnded)
}

// finish moves the status on from what it was when the command began.
func (c *Catalog) finish(ctx context.Context, was Event, to Status) error {
	tag, err := c.homes.Directory.Exec(ctx, sqlCloseEvent, was.ID, to, was.Status)
	if err != nil {
		return fmt.Errorf("set status of %s: %w", was.ID, pg.Unavailable(err))
	}
	e, err := c.current(ctx, was.ID)
	if err == nil && tag.RowsAffected() == 0 && e.Status != to {
		err = usher.Errorf(usher.CodeStateConflict, "the event is %s", string(e.Status))
	}
	return err
}

// published returns the event if it is on sale. It answers from memory: a sale
// can be steered while the directory is away.
func (c *Catalog) published(ctx context.Context, id usher.EventID) (Event, error) {
	e, err := c.Get(ctx, id)
	if err == nil && e.Status != StatusPublished {
		err = usher.Errorf(usher.CodeStateConflict, "the event is not on sale: it is %s", string(e.Status))
	}
	return e, err
}

// shut moves the room and then the ledger, the ledger in any case.
func (c *Catalog) shut(ctx context.Context, id usher.EventID, room usher.QueuePhase, to usher.SaleStatus, from ...usher.SaleStatus) error {
	e, err := c.published(ctx, id)
	if err != nil {
		return err
	}
	rules, _, err := c.ledger.Rules(ctx, id)
	if err == nil {
		err = checkMove(rules.Sale, to, from)
	}
	if usher.CodeOf(err) == usher.CodeStateConflict {
		return err
	}
	return errors.Join(c.moveRoom(ctx, e, room), c.moveSale(ctx, id, to, from...))
}

// moveSale changes the ledger's sale status from one of the given ones. An
// operator who acts at the same moment is never overruled: the check is made
// again under the ledger's lock.
func (c *Catalog) moveSale(ctx context.Context, id usher.EventID, to usher.SaleStatus, from ...usher.SaleStatus) error {
	rules, _, err := c.ledger.Rules(ctx, id)
	if err != nil {
		return fmt.Errorf("read sale of %s: %w", id, err)
	}
	if err := checkMove(rules.Sale, to, from); err != nil || rules.Sale == to {
		return err
	}
	var refused error
	_, err = c.ledger.ChangeRules(ctx, id, func(r *usher.Rules) {
		if refused = checkMove(r.Sale, to, from); refused == nil {
			r.Sale = to
		}
	})
	if err != nil {
		return fmt.Errorf("change sale of %s: %w", id, err)
	}
	if refused == nil {
		c.log.InfoContext(ctx, "sale", "event", id, "from", rules.Sale, "to", to)
	}
	return refused
}

func checkMove(now, to usher.SaleStatus, from []usher.SaleStatus) error {
	if now == to {
		return nil
	}
	for _, f := range from {
		if now == f {
			return nil
		}
	}
	return usher.Errorf(usher.CodeStateConflict, "the sale is %s and cannot become %s", string(now), string(to))
}

// moveRoom moves the event's waiting room, if it has one. A room that nobody
// could join yet need not be closed.
func (c *Catalog) moveRoom(ctx context.Context, e Event, to usher.QueuePhase) error {
	if !e.Rules.AdmissionRequired {
		return nil
	}
	err := c.rooms.SetPhase(ctx, e.ID, to)
	if usher.CodeOf(err) == usher.CodeStateConflict && to == usher.QueueClosed {
		if s, statusErr := c.rooms.Status(ctx, e.ID); statusErr == nil && s.Phase == usher.QueueScheduled {
			return nil
		}
	}
	return err
}
