package catalog

import (
	"context"
	"time"

	"usher"
)

// CloseOver closes a sale that was found to be over at the given end.
func (c *Catalog) CloseOver(ctx context.Context, id usher.EventID, end time.Time) error {
	_, err := c.closeOver(ctx, overSale{id, end})
	return err
}
