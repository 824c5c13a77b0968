package ledger

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"usher"
)

// priceCache keeps each event's prices for the epoch and rules version they were read
// under: amounts never change, and what may (a withdrawn tier) bumps the version. A
// new primary may have lost a version, and counts on from the one before.
type priceCache struct {
	mu     sync.Mutex
	events map[usher.EventID]versionedPrices
}

type versionedPrices struct {
	epoch, rulesVersion int64
	table               priceTable
}

// queryer is the part of a pool or a transaction that reads.
type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func (c *priceCache) get(ctx context.Context, q queryer, event usher.EventID, epoch, rulesVersion int64) (priceTable, error) {
	c.mu.Lock()
	cached, ok := c.events[event]
	c.mu.Unlock()
	if ok && cached.epoch == epoch && cached.rulesVersion == rulesVersion {
		return cached.table, nil
	}
	table, err := readPrices(ctx, q, event)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.events == nil {
		c.events = map[usher.EventID]versionedPrices{}
	}
	c.events[event] = versionedPrices{epoch, rulesVersion, table}
	return table, nil
}

func readPrices(ctx context.Context, q queryer, event usher.EventID) (priceTable, error) {
	rows, err := q.Query(ctx, sqlReadPrices, event)
	if err != nil {
		return nil, fmt.Errorf("read prices of %s: %w", event, err)
	}
	table := priceTable{}
	var version int
	var tier usher.TierID
	var p price
	_, err = pgx.ForEachRow(rows, []any{&version, &tier, &p.name, &p.amount, &p.withdrawn}, func() error {
		if table[version] == nil {
			table[version] = map[usher.TierID]price{}
		}
		table[version][tier] = p
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read prices of %s: %w", event, err)
	}
	return table, nil
}
