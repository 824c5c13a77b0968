package bench

import (
	"context"
	"fmt"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg"
)

const sqlHome = `INSERT INTO event_home (event_id, shard) VALUES ($1, 1) ON CONFLICT DO NOTHING`

func open(ctx context.Context, url string, poolSize int) (*pg.Homes, error) {
	return pg.Open(ctx, pg.Config{
		DirectoryURL: url, RoomURL: url, ShardURLs: map[pg.ShardNumber]string{1: url}, PoolSize: poolSize, ApplicationName: "usher bench",
	})
}

// prepare opens pools and sets up events of its own for a phase.
func prepare(ctx context.Context, url string, events []usher.EventID, poolSize, seats int) (*pg.Homes, usher.Rules, error) {
	rules := usher.DefaultRules("TWD")
	rules.Sale, rules.AdmissionRequired, rules.HoldTime, rules.PayMargin, rules.PurchaseLimit = usher.SaleOpen, false, shortHold, 0, 1000
	homes, err := open(ctx, url, poolSize)
	if err != nil {
		return nil, rules, err
	}
	if err := setUp(ctx, homes, events, rules, seats); err != nil {
		homes.Close()
		return nil, rules, err
	}
	return homes, rules, nil
}

func setUp(ctx context.Context, homes *pg.Homes, events []usher.EventID, rules usher.Rules, seats int) error {
	setup := ledger.Setup{Rules: rules, Tiers: []ledger.Tier{
		{ID: benchTier, Name: "Standard", Price: usher.Money{AmountMinor: 100000, Currency: "TWD"}},
	}}
	for i := range seats {
		setup.Seats = append(setup.Seats, ledger.SeatSetup{ID: benchSeat(i), Tier: benchTier})
	}
	l := ledger.New(homes)
	for _, event := range events {
		if _, err := homes.Directory.Exec(ctx, sqlHome, event); err != nil {
			return fmt.Errorf("give the event a home: %w", err)
		}
		setup.Event = event
		if err := l.SetUp(ctx, setup); err != nil {
			return fmt.Errorf("set up event: %w", err)
		}
	}
	return settle(ctx, homes)
}

// settle has what loading leaves behind done before anything is measured: the
// first readers of a row would set its hint bits otherwise, and a checkpoint fall
// into one phase and not into another.
func settle(ctx context.Context, homes *pg.Homes) error {
	for _, sql := range []string{"VACUUM (ANALYZE) seat_inventory", "CHECKPOINT"} {
		if _, err := homes.Shards()[0].Pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("settle what was loaded: %w", err)
		}
	}
	return nil
}

func benchSeat(i int) usher.SeatID { return usher.SeatID(fmt.Sprintf("S%07d", i)) }
