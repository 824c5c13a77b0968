package audit

import "context"

// RunOn audits what one connection or transaction sees.
func RunOn(ctx context.Context, q reader) (*Report, error) {
	r := newReport()
	return r, r.runShard(ctx, q, nil)
}
