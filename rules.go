package usher

import "time"

// SaleStatus says whether an event sells.
type SaleStatus string

// Sale states. Only an open sale takes new holds; a paused one lets buyers
// finish what they hold; closed and cancelled are described in docs/rules.md.
const (
	SaleScheduled SaleStatus = "scheduled"
	SaleOpen      SaleStatus = "open"
	SalePaused    SaleStatus = "paused"
	SaleClosed    SaleStatus = "closed"
	SaleCancelled SaleStatus = "cancelled"
)

// Rules are what the ledger decides by. They are frozen at opening except
// through an operator's action, which gives them a new version that no command
// in flight can slip past.
type Rules struct {
	Sale SaleStatus
	// SaleClosesAt ends new holds, by database time; what is held by then may still
	// be paid. nil is never.
	SaleClosesAt *time.Time
	// AdmissionRequired refuses holds without a live shopper session.
	AdmissionRequired bool
	// PurchaseLimit is the most places an account may hold, pay for and own together.
	PurchaseLimit int
	// HoldTime is how long a hold lasts, in whole seconds.
	HoldTime time.Duration
	// Grace is added to a hold's deadline once, while a payment is pending.
	Grace time.Duration
	// PayMargin is how much time must be left for a checkout to begin.
	PayMargin time.Duration
	// PendingPerAccountMax and PendingPerEventMax cap holds that are being paid for.
	PendingPerAccountMax int
	PendingPerEventMax   int
	// PriceVersion is the version new holds are priced by.
	PriceVersion int
	Currency     Currency
}

// DefaultRules are the rules of the design case.
func DefaultRules(currency Currency) Rules {
	return Rules{
		Sale:                 SaleScheduled,
		AdmissionRequired:    true,
		PurchaseLimit:        6,
		HoldTime:             5 * time.Minute,
		Grace:                2 * time.Minute,
		PayMargin:            10 * time.Second,
		PendingPerAccountMax: 2,
		PendingPerEventMax:   10_000,
		PriceVersion:         1,
		Currency:             currency,
	}
}

// Validate checks every rule's range. It fails with CodeInvalidRequest.
func (r Rules) Validate() error {
	_, known := Currencies[r.Currency]
	whole := func(d time.Duration) bool { return d >= 0 && d <= 24*time.Hour && d%time.Second == 0 }
	switch {
	case r.Sale != SaleScheduled && r.Sale != SaleOpen && r.Sale != SalePaused && r.Sale != SaleClosed && r.Sale != SaleCancelled:
		return Errorf(CodeInvalidRequest, "unknown sale status %q", string(r.Sale))
	case !known:
		return Errorf(CodeInvalidRequest, "currency: %q is not known", string(r.Currency))
	case r.PurchaseLimit < 1 || r.PurchaseLimit > 1000:
		return Errorf(CodeInvalidRequest, "rules.purchaseLimit must be 1 to 1000")
	case r.HoldTime < time.Second || !whole(r.HoldTime) || !whole(r.Grace) || !whole(r.PayMargin):
		return Errorf(CodeInvalidRequest, "rules.holdSeconds must be 1 to 86400, graceSeconds and payMarginSeconds 0 to 86400")
	case r.PayMargin >= r.HoldTime:
		return Errorf(CodeInvalidRequest, "rules.payMarginSeconds must be less than holdSeconds, or nobody could pay")
	case r.PendingPerAccountMax < 1 || r.PendingPerEventMax < 1:
		return Errorf(CodeInvalidRequest, "rules.pendingPerAccountMax and pendingPerEventMax must be at least 1")
	case r.PriceVersion < 1:
		return Errorf(CodeInvalidRequest, "price version must be at least 1")
	}
	return nil
}
