package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"usher"
	"usher/internal/pg"
)

// Setup is what an event's inventory is made of.
type Setup struct {
	Event usher.EventID
	Rules usher.Rules
	Tiers []Tier
	Seats []SeatSetup
	// Standing are the tiers without seats.
	Standing []StandingSetup
}

// StandingSetup is a general-admission tier: its capacity, spread evenly over a
// number of buckets.
type StandingSetup struct {
	Tier     usher.TierID
	Capacity int
	Buckets  int
}

// Tier is a price tier of the current price version.
type Tier struct {
	ID        usher.TierID
	Name      string
	Price     usher.Money
	Withdrawn bool
}

// SeatSetup is one seat with its tier.
type SeatSetup struct {
	ID   usher.SeatID
	Tier usher.TierID
}

const (
	sqlInsertLedger = `INSERT INTO event_ledger (event_id) VALUES ($1) ON CONFLICT DO NOTHING`

	sqlInsertRules = `
INSERT INTO event_rules (event_id, sale, sale_closes_at, admission_required, purchase_limit, hold_seconds, grace_seconds,
    pay_margin_seconds, pending_per_account_max, pending_per_event_max, price_version, currency, purchase_limit_highest)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $5)`

	sqlInsertPrice = `
INSERT INTO price_version (event_id, price_version, tier_id, name, amount_minor, withdrawn) VALUES ($1, $2, $3, $4, $5, $6)`

	sqlCompareSeats = `
SELECT count(*), count(*) FILTER (WHERE s.tier_id = u.tier_id)
FROM unnest($2::text[], $3::text[]) u(seat_id, tier_id)
JOIN seat_inventory s ON s.event_id = $1 AND s.seat_id = u.seat_id`

	sqlInsertBucket = `
INSERT INTO inventory_bucket (event_id, tier_id, bucket, available) VALUES ($1, $2, $3, $4)`

	sqlCountBuckets = `
SELECT tier_id, sum(available + held + sold) FROM inventory_bucket WHERE event_id = $1 GROUP BY tier_id`

	sqlCountSeats = `SELECT count(*) FROM seat_inventory WHERE event_id = $1`

	sqlLockRules = `
SELECT l.epoch, l.rules_version, r.sale, r.sale_closes_at, r.admission_required, r.purchase_limit, r.hold_seconds,
    r.grace_seconds, r.pay_margin_seconds, r.pending_per_account_max, r.pending_per_event_max, r.price_version, r.currency,
    clock_timestamp()
FROM event_ledger l
JOIN event_rules r ON r.event_id = l.event_id
WHERE l.event_id = $1
FOR NO KEY UPDATE OF l`

	sqlUpdateRules = `
UPDATE event_rules
SET sale = $2, sale_closes_at = $3, admission_required = $4, purchase_limit = $5, hold_seconds = $6, grace_seconds = $7,
    pay_margin_seconds = $8, pending_per_account_max = $9, pending_per_event_max = $10, price_version = $11, currency = $12,
    purchase_limit_highest = greatest(purchase_limit_highest, $5)
WHERE event_id = $1`

	sqlBumpRules = `UPDATE event_ledger SET rules_version = rules_version + 1 WHERE event_id = $1`
)

// SetUp creates an event's inventory, rules and prices in its home shard. Doing
// it again with the same seats changes nothing, so a crashed publication is
// simply repeated. It fails with CodeInvalidRequest, and with CodeStateConflict
// when the event exists with other seats.
func (l *Ledger) SetUp(ctx context.Context, s Setup) error {
	if err := s.validate(); err != nil {
		return err
	}
	pool, err := l.homes.Shard(ctx, s.Event)
	if err != nil {
		return err
	}
	created := false
	err = pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sqlInsertLedger, s.Event)
		if err != nil {
			return fmt.Errorf("insert event ledger: %w", err)
		}
		if created = tag.RowsAffected() == 1; !created {
			return s.sameAs(ctx, tx)
		}
		return s.insert(ctx, tx)
	})
	if err != nil || !created {
		return err
	}
	// Fresh statistics for a table that just grew by an event; plans do not depend on it.
	if _, err := pool.Exec(ctx, "ANALYZE seat_inventory, price_version"); err != nil {
		l.log.WarnContext(ctx, "analyze after set-up failed", "event", s.Event, "error", err)
	}
	return nil
}

func (s *Setup) validate() error {
	if err := s.Rules.Validate(); err != nil {
		return err
	}
	if len(s.Seats)+len(s.Standing) == 0 || len(s.Tiers) == 0 {
		return usher.Errorf(usher.CodeInvalidRequest, "an event needs places and price tiers")
	}
	tiers := map[usher.TierID]bool{}
	for _, t := range s.Tiers {
		if err := usher.CheckText("tier id", string(t.ID), 64); err != nil {
			return err
		}
		if err := t.Price.Validate(); err != nil {
			return err
		}
		if t.Price.Currency != s.Rules.Currency || tiers[t.ID] {
			return usher.Errorf(usher.CodeInvalidRequest, "tier %q is named twice or not in %s", string(t.ID), s.Rules.Currency)
		}
		tiers[t.ID] = true
	}
	s.Seats = slices.SortedFunc(slices.Values(s.Seats), func(a, b SeatSetup) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for i, seat := range s.Seats {
		if err := usher.CheckText("seat id", string(seat.ID), 64); err != nil {
			return err
		}
		if !tiers[seat.Tier] {
			return usher.Errorf(usher.CodeInvalidRequest, "seat %q has an unknown tier %q", string(seat.ID), string(seat.Tier))
		}
		if i > 0 && s.Seats[i-1].ID == seat.ID {
			return usher.Errorf(usher.CodeInvalidRequest, "seat %q is named twice", string(seat.ID))
		}
	}
	return s.validateStanding(tiers)
}

// validateStanding wants each standing tier once, with a price, without seats.
func (s *Setup) validateStanding(tiers map[usher.TierID]bool) error {
	seen := map[usher.TierID]bool{}
	for _, seat := range s.Seats {
		seen[seat.Tier] = true
	}
	for _, st := range s.Standing {
		switch {
		case !tiers[st.Tier]:
			return usher.Errorf(usher.CodeInvalidRequest, "standing tier %q has no price", string(st.Tier))
		case seen[st.Tier]:
			return usher.Errorf(usher.CodeInvalidRequest, "tier %q is named twice or has seats", string(st.Tier))
		case st.Capacity < 1 || st.Capacity > CapacityMax || st.Buckets < 1 || st.Buckets > BucketMax || st.Buckets > st.Capacity:
			return usher.Errorf(usher.CodeInvalidRequest, "tier %q needs 1 to %d places in 1 to %d buckets", string(st.Tier), CapacityMax, BucketMax)
		}
		seen[st.Tier] = true
	}
	return nil
}

func (s *Setup) sameAs(ctx context.Context, tx pgx.Tx) error {
	var total, found, same int
	if err := tx.QueryRow(ctx, sqlCountSeats, s.Event).Scan(&total); err != nil {
		return fmt.Errorf("count seats: %w", err)
	}
	err := tx.QueryRow(ctx, sqlCompareSeats, s.Event,
		column(s.Seats, func(x SeatSetup) string { return string(x.ID) }),
		column(s.Seats, func(x SeatSetup) string { return string(x.Tier) })).Scan(&found, &same)
	if err != nil {
		return fmt.Errorf("compare seats: %w", err)
	}
	if total != len(s.Seats) || found != total || same != total {
		return usher.Errorf(usher.CodeStateConflict, "the event exists with other seats")
	}
	return s.sameStanding(ctx, tx)
}

// sameStanding compares the tiers without seats; their capacity may have been
// changed by staff since, so only the tiers themselves count.
func (s *Setup) sameStanding(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, sqlCountBuckets, s.Event)
	if err != nil {
		return fmt.Errorf("count buckets: %w", err)
	}
	have := map[usher.TierID]int{}
	var id usher.TierID
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&id, &n}, func() error { have[id] = n; return nil }); err != nil {
		return fmt.Errorf("count buckets: %w", err)
	}
	for _, st := range s.Standing {
		if _, ok := have[st.Tier]; !ok {
			return usher.Errorf(usher.CodeStateConflict, "the event exists without the tier %q", string(st.Tier))
		}
	}
	if len(have) != len(s.Standing) {
		return usher.Errorf(usher.CodeStateConflict, "the event exists with other tiers")
	}
	return nil
}

func (s *Setup) insert(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, sqlInsertRules, ruleArgs(s.Event, s.Rules)...); err != nil {
		return fmt.Errorf("insert rules: %w", err)
	}
	b := &pgx.Batch{}
	for _, t := range s.Tiers {
		b.Queue(sqlInsertPrice, s.Event, s.Rules.PriceVersion, t.ID, t.Name, t.Price.AmountMinor, t.Withdrawn)
	}
	for _, st := range s.Standing {
		for n := range st.Buckets {
			share := st.Capacity / st.Buckets
			if n < st.Capacity%st.Buckets {
				share++
			}
			b.Queue(sqlInsertBucket, s.Event, st.Tier, n+1, share)
		}
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("insert prices and buckets: %w", err)
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"seat_inventory"}, []string{"event_id", "seat_id", "tier_id", "price_version"},
		pgx.CopyFromSlice(len(s.Seats), func(i int) ([]any, error) {
			return []any{int32(s.Event), string(s.Seats[i].ID), string(s.Seats[i].Tier), s.Rules.PriceVersion}, nil
		}))
	if err != nil {
		return fmt.Errorf("insert seats: %w", err)
	}
	return nil
}

func ruleArgs(event usher.EventID, r usher.Rules) []any {
	return []any{
		event, string(r.Sale), r.SaleClosesAt, r.AdmissionRequired, r.PurchaseLimit, int(r.HoldTime / time.Second),
		int(r.Grace / time.Second), int(r.PayMargin / time.Second), r.PendingPerAccountMax, r.PendingPerEventMax, r.PriceVersion,
		string(r.Currency),
	}
}

// Rules reads the rules in force and the tiers of the current price version. It
// fails with CodeNotFound.
func (l *Ledger) Rules(ctx context.Context, event usher.EventID) (usher.Rules, []Tier, error) {
	var rules usher.Rules
	var tiers []Tier
	err := l.read(ctx, event, func(*loadBatch) {}, func(s *state) error {
		rules, tiers = s.rules, nil
		for id, p := range s.prices[rules.PriceVersion] {
			tiers = append(tiers, Tier{id, p.name, usher.Money{AmountMinor: p.amount, Currency: rules.Currency}, p.withdrawn})
		}
		return nil
	})
	slices.SortFunc(tiers, func(a, b Tier) int {
		if a.Price.AmountMinor != b.Price.AmountMinor {
			return int(b.Price.AmountMinor - a.Price.AmountMinor)
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
	return rules, tiers, err
}

// ChangeRules applies change to the rules under a lock and gives them a new
// version; a group in flight under the old version changes nothing and decides
// again. It fails with CodeNotFound and CodeInvalidRequest, and with CodeStateConflict
// for hold time and grace once the sale has opened: buyers were told them. The currency
// and the price version cannot be changed here.
func (l *Ledger) ChangeRules(ctx context.Context, event usher.EventID, change func(*usher.Rules)) (usher.Rules, error) {
	pool, err := l.homes.Shard(ctx, event)
	if err != nil {
		return usher.Rules{}, err
	}
	var rules usher.Rules
	err = pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		epoch, _, was, _, err := scanLedger(tx.QueryRow(ctx, sqlLockRules, event))
		if err != nil {
			return notFound(err, errNoEvent)
		}
		if err := l.checkEpoch(event, epoch); err != nil {
			return err
		}
		rules = was
		change(&rules)
		if rules.Currency != was.Currency || rules.PriceVersion != was.PriceVersion {
			return usher.Errorf(usher.CodeInvalidRequest, "currency and prices are not rules")
		}
		if was.Sale != usher.SaleScheduled && (rules.HoldTime != was.HoldTime || rules.Grace != was.Grace) {
			return usher.Errorf(usher.CodeStateConflict, "holdSeconds and graceSeconds are fixed since the sale opened")
		}
		if err := rules.Validate(); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlUpdateRules, ruleArgs(event, rules)...); err != nil {
			return fmt.Errorf("update rules: %w", err)
		}
		if _, err := tx.Exec(ctx, sqlBumpRules, event); err != nil {
			return fmt.Errorf("bump rules version: %w", err)
		}
		return nil
	})
	return rules, err
}

// SetPrices writes a new price version and makes new holds use it; what is held
// or ordered already keeps the version it was priced by. The tiers must be the
// event's tiers. It fails with CodeNotFound and CodeInvalidRequest.
func (l *Ledger) SetPrices(ctx context.Context, event usher.EventID, tiers []Tier) error {
	pool, err := l.homes.Shard(ctx, event)
	if err != nil {
		return err
	}
	return pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		epoch, _, rules, _, err := scanLedger(tx.QueryRow(ctx, sqlLockRules, event))
		if err != nil {
			return notFound(err, errNoEvent)
		}
		if err := l.checkEpoch(event, epoch); err != nil {
			return err
		}
		known, err := readPrices(ctx, tx, event)
		if err != nil {
			return err
		}
		if err := sameTiers(known[rules.PriceVersion], tiers, rules.Currency); err != nil {
			return err
		}
		rules.PriceVersion++
		b := &pgx.Batch{}
		for _, t := range tiers {
			b.Queue(sqlInsertPrice, event, rules.PriceVersion, t.ID, t.Name, t.Price.AmountMinor, t.Withdrawn)
		}
		b.Queue(sqlUpdateRules, ruleArgs(event, rules)...)
		b.Queue(sqlBumpRules, event)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("write prices: %w", err)
		}
		return nil
	})
}

func sameTiers(known map[usher.TierID]price, tiers []Tier, currency usher.Currency) error {
	seen := map[usher.TierID]bool{}
	for _, t := range tiers {
		if err := t.Price.Validate(); err != nil {
			return err
		}
		if _, ok := known[t.ID]; !ok || seen[t.ID] || t.Price.Currency != currency {
			return usher.Errorf(usher.CodeInvalidRequest, "tier %q is unknown, named twice or not in %s", string(t.ID), currency)
		}
		seen[t.ID] = true
	}
	if len(seen) != len(known) {
		return usher.Errorf(usher.CodeInvalidRequest, "a price version names every tier")
	}
	return nil
}

const sqlBlockAccount = `
INSERT INTO account_usage (event_id, account_id, blocked) VALUES ($1, $2, $3)
ON CONFLICT (event_id, account_id) DO UPDATE SET blocked = excluded.blocked`

// BlockAccount forbids or allows an account to buy at one event. It waits for
// the account's commands in flight; what they decided stands. It fails with
// CodeNotFound.
func (l *Ledger) BlockAccount(ctx context.Context, event usher.EventID, account usher.AccountID, blocked bool) error {
	pool, err := l.homes.Shard(ctx, event)
	if err != nil {
		return err
	}
	return pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		b := l.homeBatch(event)
		b.Queue(sqlBlockAccount, event, account, blocked)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return notFound(fmt.Errorf("block account: %w", err), errNoEvent)
		}
		return nil
	})
}
