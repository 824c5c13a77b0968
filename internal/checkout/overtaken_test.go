package checkout_test

import (
	"context"
	"testing"

	"usher"
	"usher/internal/ledger"
	"usher/internal/payment"
)

// overtaken is a provider that lets another driver of the same operation go
// first, one whose lease ran out while it was stalled: when our own call comes,
// the reference is stored and the money is asked for. Ours is then rejected.
type overtaken struct {
	*fake
	ahead func(payment.AuthorizeRequest)
}

func (o *overtaken) Prepare(_ context.Context, r payment.AuthorizeRequest) payment.Outcome {
	o.ahead(r)
	return payment.Outcome{Kind: payment.Rejected, ProviderCode: "key_in_use"}
}

// What a driver decides from "nothing was sent" is refused once something was:
// it looks again, and finds the authorization that the other driver made.
func TestNotSentIsCheckedUnderTheLock(t *testing.T) {
	t.Parallel()
	p := &overtaken{fake: newFake()}
	s := openShop(t, p, nil).start()
	p.ahead = func(r payment.AuthorizeRequest) {
		ctx := context.Background()
		r.Reference = p.fake.Prepare(ctx, r).Reference
		if _, err := s.ledger.Operations().Learn(ctx, r.OperationID, ledger.Learned{Reference: r.Reference, Sent: true}); err != nil {
			t.Errorf("learn: %v", err)
		}
		p.Authorize(ctx, r)
	}
	h := s.hold(2)
	r := s.mustPay(h, "ok", "k")
	s.untilCaptured(r.Order.ID)
	s.wantSeats(h, usher.SeatSold)
	if all := p.all(); len(all) != 1 || all[0].captures != 1 {
		t.Errorf("provider: %+v", all)
	}
}
