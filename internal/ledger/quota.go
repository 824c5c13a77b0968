package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"usher"
)

// Quota reads the buckets of the event's tiers without seats as they stand, by
// tier and bucket. What a hold past its deadline has counts as held until it is
// swept. It fails with CodeNotFound and CodeUnavailable.
func (l *Ledger) Quota(ctx context.Context, event usher.EventID) ([]BucketState, error) {
	var out []BucketState
	err := l.read(ctx, event, func(r *reading) (err error) {
		out, err = r.buckets(ctx, event)
		return err
	})
	return out, err
}

func (r *reading) buckets(ctx context.Context, event usher.EventID) ([]BucketState, error) {
	rows, err := r.tx.Query(ctx, sqlReadBuckets, event)
	if err != nil {
		return nil, fmt.Errorf("read buckets: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (b BucketState, err error) {
		err = row.Scan(&b.Tier, &b.Bucket, &b.Available, &b.Held, &b.Sold)
		return b, err
	})
}
