package paysim

import "slices"

// The statuses of an intent, as they are on the wire.
const (
	statusNeedsMethod  = "requires_payment_method"
	statusNeedsConfirm = "requires_confirmation"
	statusNeedsAction  = "requires_action"
	statusNeedsCapture = "requires_capture"
	statusSucceeded    = "succeeded"
	statusCanceled     = "canceled"
)

// The statuses of a refund.
const (
	refundPending   = "pending"
	refundSucceeded = "succeeded"
	refundFailed    = "failed"
)

// captureManual is the capture method that only reserves; the others take the
// money when the bank approves.
const captureManual = "manual"

// intent is one version of a payment intent. Versions are never changed: a
// transition copies, edits the copy and puts it in place. Amounts are in the
// wire's units; times are Unix seconds.
type intent struct {
	ID            string            `json:"id"`
	Created       int64             `json:"created"`
	Amount        int64             `json:"amount"`
	Currency      string            `json:"currency"`
	Status        string            `json:"status"`
	CaptureMethod string            `json:"captureMethod"`
	Confirmation  string            `json:"confirmation"`
	MethodTypes   []string          `json:"methodTypes,omitempty"`
	PaymentMethod string            `json:"paymentMethod,omitempty"`
	ReturnURL     string            `json:"returnUrl,omitempty"`
	UseSDK        bool              `json:"useSdk,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	Description   string            `json:"description,omitempty"`
	Suffix        string            `json:"suffix,omitempty"`
	Email         string            `json:"email,omitempty"`
	Customer      string            `json:"customer,omitempty"`
	Received      int64             `json:"received,omitempty"`
	CanceledAt    int64             `json:"canceledAt,omitempty"`
	CancelReason  string            `json:"cancelReason,omitempty"`
	LastError     *apiError         `json:"lastError,omitempty"`
	// Charges are the attempts at the bank, the latest last.
	Charges []charge `json:"charges,omitempty"`
	// What was really done, for the control plane.
	Authorizations int `json:"authorizations,omitempty"`
	Captures       int `json:"captures,omitempty"`
	Voids          int `json:"voids,omitempty"`
	Refunds        int `json:"refunds,omitempty"`
}

// charge is one attempt at the bank, approved or not.
type charge struct {
	ID            string `json:"id"`
	Created       int64  `json:"created"`
	Amount        int64  `json:"amount"`
	Captured      int64  `json:"captured,omitempty"`
	IsCaptured    bool   `json:"isCaptured,omitempty"`
	Released      int64  `json:"released,omitempty"`
	Refunded      int64  `json:"refunded,omitempty"`
	PaymentMethod string `json:"paymentMethod"`
	Paid          bool   `json:"paid,omitempty"`
	FailureCode   string `json:"failureCode,omitempty"`
	DeclineCode   string `json:"declineCode,omitempty"`
	CaptureBefore int64  `json:"captureBefore,omitempty"`
	Disputed      bool   `json:"disputed,omitempty"`
}

// refund is one version of a refund.
type refund struct {
	ID       string            `json:"id"`
	Created  int64             `json:"created"`
	Amount   int64             `json:"amount"`
	Currency string            `json:"currency"`
	Intent   string            `json:"intent"`
	Charge   string            `json:"charge"`
	Reason   string            `json:"reason,omitempty"`
	Status   string            `json:"status"`
	Failure  string            `json:"failure,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	// TurnsTo is the status it takes by itself at TurnsAt (Unix milliseconds).
	TurnsTo string `json:"turnsTo,omitempty"`
	TurnsAt int64  `json:"turnsAt,omitempty"`
}

// edit returns a copy to change. Metadata is shared: it is replaced, never
// written to.
func (p *intent) edit() *intent {
	next := *p
	next.Charges = slices.Clone(p.Charges)
	return &next
}

// latest returns the last attempt at the bank, nil before the first.
func (p *intent) latest() *charge {
	if len(p.Charges) == 0 {
		return nil
	}
	return &p.Charges[len(p.Charges)-1]
}

// capturable is what can still be captured.
func (p *intent) capturable() int64 {
	if p.Status != statusNeedsCapture {
		return 0
	}
	return p.latest().Amount
}

// refundable is what was captured and not given back.
func (p *intent) refundable() int64 {
	c := p.latest()
	if c == nil || !c.IsCaptured {
		return 0
	}
	return c.Captured - c.Refunded
}

// findCharge returns the attempt with the id, nil if the intent has none such.
func (p *intent) findCharge(id string) *charge {
	for i := range p.Charges {
		if p.Charges[i].ID == id {
			return &p.Charges[i]
		}
	}
	return nil
}
