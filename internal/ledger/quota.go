package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"

	"usher"
)

// Quota reads the buckets of the event's tiers without seats as they stand, by
// tier and bucket. What a hold past its deadline has counts as held until it is
// swept. It fails with CodeNotFound and CodeUnavailable.
func (l *Ledger) Quota(ctx context.Context, event usher.EventID) (out []BucketState, err error) {
	err = l.read(ctx, event, func(b *loadBatch) { b.readBuckets(&out) }, func(*state) error { return nil })
	return out, err
}

func (b *loadBatch) readBuckets(out *[]BucketState) {
	b.Queue(sqlReadBuckets, b.s.event).Query(func(rows pgx.Rows) (err error) {
		*out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b BucketState, err error) {
			err = row.Scan(&b.Tier, &b.Bucket, &b.Available, &b.Held, &b.Sold)
			return b, err
		})
		return err
	})
}
