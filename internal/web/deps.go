package web

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/account"
	"usher/internal/audit"
	"usher/internal/catalog"
	"usher/internal/checkout"
	"usher/internal/ledger"
	"usher/internal/redemption"
	"usher/internal/seatmap"
	"usher/internal/waitingroom"
)

// Deps is what the server serves. Every field is required except Gatherer
// and Pressure.
type Deps struct {
	Accounts   Accounts
	Rooms      Rooms
	Seats      Seats
	Charts     Charts
	Ledger     Ledger
	Checkout   Checkout
	Redemption Redemption
	Catalog    Catalog
	// Audit re-derives the invariants of the named events, or of all.
	Audit func(ctx context.Context, events ...usher.EventID) (*audit.Report, error)
	// Ready says whether requests can be served now.
	Ready func(ctx context.Context) error
	// Pressure says how many of the holds that may wait for an event's ledger do, from
	// 0 to 1; nil is never any.
	Pressure func(event usher.EventID) float64
	// Gatherer is what /metrics shows; nil leaves the route out.
	Gatherer prometheus.Gatherer
}

// Accounts is what the server asks of package account.
type Accounts interface {
	Verify(token string) (account.Session, error)
	RequestCode(ctx context.Context, email, locale string, remote netip.Addr) error
	SignIn(ctx context.Context, email, code string, remote netip.Addr) (string, account.Session, error)
	SignOut(ctx context.Context, s account.Session) error
	Person(ctx context.Context, id usher.AccountID) (account.Person, error)
	MintBuyers(ctx context.Context, n int) ([]account.Buyer, error)
	Operator(ctx context.Context, key string) (account.Operator, error)
	LogAction(ctx context.Context, x account.Action) (int64, error)
	Actions(ctx context.Context, f account.ActionFilter) ([]account.Action, error)
	Operators(ctx context.Context) ([]account.Operator, error)
}

// Rooms is what the server asks of package waitingroom.
type Rooms interface {
	Now(event usher.EventID) (waitingroom.NowDocument, bool)
	Join(ctx context.Context, event usher.EventID, account usher.AccountID, risk waitingroom.Risk) (waitingroom.Ticket, error)
	Leave(ctx context.Context, event usher.EventID, account usher.AccountID) error
	Me(ctx context.Context, event usher.EventID, account usher.AccountID) (waitingroom.Ticket, error)
	Admit(ctx context.Context, event usher.EventID, account usher.AccountID) (waitingroom.Admission, error)
	VerifyAdmission(token string, event usher.EventID, account usher.AccountID) (usher.SessionID, error)
	Touch(session usher.SessionID, until time.Time)
	SetRate(ctx context.Context, event usher.EventID, perSecond float64) error
	SetCap(ctx context.Context, event usher.EventID, activeMax int) error
	SetMessage(ctx context.Context, event usher.EventID, text string) error
	ResetRound(ctx context.Context, event usher.EventID, reason string) (int, error)
	Status(ctx context.Context, event usher.EventID) (waitingroom.Status, error)
}

// Seats is what the server asks of the seat maps.
type Seats interface {
	Snapshot(ctx context.Context, event usher.EventID) (seatmap.Encoded, error)
	Outsider(ctx context.Context, event usher.EventID) (seatmap.Encoded, error)
	Best(ctx context.Context, event usher.EventID, w seatmap.Wish, n, spread int) ([][]usher.SeatID, error)
	Chart(ctx context.Context, event usher.EventID) (*seatmap.Chart, error)
	Tally(ctx context.Context, event usher.EventID) (map[usher.TierID]seatmap.Tally, error)
	Subscribe(ctx context.Context, event usher.EventID, from seatmap.Position) (*seatmap.Stream, error)
}

// Charts is what the server asks of the store of charts.
type Charts interface {
	ByHash(ctx context.Context, hash string) (*seatmap.Chart, error)
	OfEvent(ctx context.Context, event usher.EventID) (*seatmap.Chart, error)
	AtHand(event usher.EventID) *seatmap.Chart
}

// Ledger is what the server asks of package ledger.
type Ledger interface {
	PlaceHold(ctx context.Context, c ledger.PlaceHold) (ledger.Hold, error)
	ReleaseHold(ctx context.Context, c ledger.ReleaseHold) (ledger.Hold, error)
	Hold(ctx context.Context, id usher.HoldID) (ledger.Hold, error)
	LiveHolds(ctx context.Context, event usher.EventID, account usher.AccountID) ([]ledger.Hold, error)
	Order(ctx context.Context, id usher.OrderID) (ledger.Order, error)
	Orders(ctx context.Context, event usher.EventID, account usher.AccountID) ([]ledger.Order, error)
	Changes(ctx context.Context, event usher.EventID, after int64, limit int) ([]ledger.Entry, error)
	Rules(ctx context.Context, event usher.EventID) (usher.Rules, []ledger.Tier, error)
	ChangeRules(ctx context.Context, event usher.EventID, change func(*usher.Rules)) (usher.Rules, error)
	Quota(ctx context.Context, event usher.EventID) ([]ledger.BucketState, error)
	Live(ctx context.Context, event usher.EventID) (ledger.Live, error)
	BlockSeats(ctx context.Context, c ledger.BlockSeats) ([]usher.SeatID, error)
	UnblockSeats(ctx context.Context, c ledger.UnblockSeats) ([]usher.SeatID, error)
	MoveCapacity(ctx context.Context, c ledger.MoveCapacity) error
	SetCapacity(ctx context.Context, c ledger.SetCapacity) error
	StaffRelease(ctx context.Context, c ledger.StaffRelease) (ledger.Hold, error)
	CancelOrder(ctx context.Context, c ledger.CancelOrder) (ledger.Order, error)
	BlockAccount(ctx context.Context, event usher.EventID, account usher.AccountID, blocked bool) error
}

// Checkout is what the server asks of package checkout.
type Checkout interface {
	Checkout(ctx context.Context, r checkout.Request) (checkout.Result, error)
	Returned(ctx context.Context, order usher.OrderID, account usher.AccountID) (checkout.Result, error)
	ReconcileNow(ctx context.Context, olderThan time.Duration, redrive bool) []checkout.ShardReport
	Webhook(ctx context.Context, provider string, h http.Header, rawBody []byte) error
}

// Redemption is what the server asks of package redemption.
type Redemption interface {
	Device(ctx context.Context, credential string) (redemption.Device, error)
	Claim(ctx context.Context, c redemption.Claim) (redemption.Redemption, error)
	Confirm(ctx context.Context, c redemption.Confirm) (redemption.Confirmation, error)
	Tickets(ctx context.Context, order usher.OrderID) ([]redemption.Ticket, error)
	RegisterDevice(ctx context.Context, event usher.EventID, name string, settle redemption.Settle, instruction string) (string, redemption.Device, error)
	Devices(ctx context.Context, event usher.EventID) ([]redemption.Device, error)
	RevokeDevice(ctx context.Context, id usher.DeviceID) error
	Refusals(ctx context.Context, event usher.EventID, before int64, limit int) ([]redemption.Refusal, error)
}

// Catalog is what the server asks of package catalog.
type Catalog interface {
	List(ctx context.Context, drafts bool) ([]catalog.Event, error)
	Get(ctx context.Context, id usher.EventID) (catalog.Event, error)
	Create(ctx context.Context, n catalog.NewEvent) (catalog.Event, error)
	ImportChart(ctx context.Context, id usher.EventID, chart *seatmap.Chart) (catalog.Event, error)
	SetStanding(ctx context.Context, id usher.EventID, tiers []catalog.Standing) (catalog.Event, error)
	SetPrices(ctx context.Context, id usher.EventID, prices map[usher.TierID]int64) (catalog.Event, error)
	Publish(ctx context.Context, id usher.EventID) (catalog.Event, error)
	Open(ctx context.Context, id usher.EventID) error
	Pause(ctx context.Context, id usher.EventID) error
	Resume(ctx context.Context, id usher.EventID) error
	Close(ctx context.Context, id usher.EventID) error
	Cancel(ctx context.Context, id usher.EventID) error
	End(ctx context.Context, id usher.EventID) error
	CheckCloses(ctx context.Context, id usher.EventID, at time.Time) error
}
