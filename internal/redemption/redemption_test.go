package redemption_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/ledger"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
	"usher/internal/redemption"
)

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		os.Exit(runChild())
	}
	pgtest.Main(m)
}

// bed is one test's database with a redeemer on it.
type bed struct {
	*redemption.Redeemer
	url   string
	homes *pg.Homes
	shard *pgxpool.Pool
	// registry holds the metrics of the redeemer.
	registry *prometheus.Registry
}

// Events that every bed has, each with a pool; elsewhere lives on a shard that
// this process cannot reach.
const (
	concert   usher.EventID = 7
	match     usher.EventID = 8
	elsewhere usher.EventID = 9
)

func setup(t *testing.T) *bed {
	t.Helper()
	url := pgtest.Database(t)
	homes := pgtest.Homes(t, url)
	b := &bed{url: url, homes: homes, shard: homes.Shards()[0].Pool}
	b.restart()
	mustExec(t, homes.Directory, `INSERT INTO event_home (event_id, shard) VALUES ($1, 1), ($2, 1), ($3, 2)`, concert, match, elsewhere)
	for _, e := range []usher.EventID{concert, match} {
		if _, err := b.CreatePool(t.Context(), e, usher.NewTenantID(), redemption.DefaultPoolRules()); err != nil {
			t.Fatalf("create pool: %v", err)
		}
	}
	return b
}

// restart replaces the redeemer by a fresh one, as a new process would have.
func (b *bed) restart() {
	b.registry = prometheus.NewRegistry()
	b.Redeemer = redemption.New(b.homes, slog.New(slog.DiscardHandler), b.registry)
}

// sell records an order with sold places and returns its id; there is no code
// before capture.
func (b *bed) sell(t testing.TB, event usher.EventID, seats ...usher.SeatID) usher.OrderID {
	t.Helper()
	order := usher.NewOrderID(event)
	for i, s := range seats {
		mustExec(t, b.shard, `INSERT INTO order_line (order_id, line, event_id, account_id, seat_id, tier_id, amount_minor, state)
			VALUES ($1, $2, $3, $4, $5, 'stalls', 1200, 'sold')`, order, i, event, usher.NewAccountID(), s)
	}
	return order
}

// read hands outbox entries to the issuer in one transaction, as the ledger does.
func (b *bed) read(ctx context.Context, event usher.EventID, entries ...ledger.Entry) error {
	return pg.InTx(ctx, b.shard, func(tx pgx.Tx) error {
		return b.Issuer().Handle(ctx, tx, event, entries)
	})
}

func entry(typ ledger.EntryType, order usher.OrderID) ledger.Entry {
	return ledger.Entry{Event: order.Event(), Type: typ, Payload: ledger.Payload{Order: order}}
}

// issue sells and captures an order of the seats and returns its tickets.
func (b *bed) issue(t testing.TB, event usher.EventID, seats ...usher.SeatID) []redemption.Ticket {
	t.Helper()
	order := b.sell(t, event, seats...)
	if err := b.read(t.Context(), event, entry(ledger.EntryOrderCaptured, order)); err != nil {
		t.Fatalf("issue: %v", err)
	}
	return b.tickets(t, order)
}

func (b *bed) tickets(t testing.TB, order usher.OrderID) []redemption.Ticket {
	t.Helper()
	out, err := b.Tickets(t.Context(), order)
	if err != nil {
		t.Fatalf("read tickets: %v", err)
	}
	return out
}

// ticket reads one ticket as it stands.
func (b *bed) ticket(t testing.TB, of redemption.Ticket) redemption.Ticket {
	t.Helper()
	for _, k := range b.tickets(t, of.Order) {
		if k.ID == of.ID {
			return k
		}
	}
	t.Fatalf("ticket %s is gone", of.ID)
	return redemption.Ticket{}
}

func (b *bed) cancel(t testing.TB, order usher.OrderID) {
	t.Helper()
	if err := b.read(t.Context(), order.Event(), entry(ledger.EntryOrderCancelled, order)); err != nil {
		t.Fatalf("cancel: %v", err)
	}
}

func (b *bed) device(t testing.TB, event usher.EventID, settle redemption.Settle) redemption.Device {
	t.Helper()
	_, d, err := b.RegisterDevice(t.Context(), event, "Gate A", settle, "Open the gate")
	if err != nil {
		t.Fatalf("register device: %v", err)
	}
	return d
}

// scan claims under a transaction id of its own.
func (b *bed) scan(ctx context.Context, d redemption.Device, code string) (redemption.Redemption, error) {
	return b.Claim(ctx, redemption.Claim{Device: d, Code: code, TransactionID: "t-" + usher.NewTicketID(d.Event).String()})
}

func (b *bed) mustScan(t testing.TB, d redemption.Device, code string) redemption.Redemption {
	t.Helper()
	red, err := b.scan(t.Context(), d, code)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return red
}

func (b *bed) report(ctx context.Context, d redemption.Device, red redemption.Redemption, result redemption.Result) (redemption.Confirmation, error) {
	return b.Confirm(ctx, redemption.Confirm{Device: d, Redemption: red.ID, TransactionID: red.TransactionID, Result: result})
}

// lapse moves the limit of a claim into the past.
func (b *bed) lapse(t testing.TB, red redemption.Redemption) {
	t.Helper()
	mustExec(t, b.shard, `UPDATE redemption SET confirm_by = clock_timestamp() - interval '1 second' WHERE redemption_id = $1`, red.ID)
}

func (b *bed) refusals(t testing.TB, event usher.EventID) []redemption.Refusal {
	t.Helper()
	out, err := b.Refusals(t.Context(), event, 0, 500)
	if err != nil {
		t.Fatalf("read refusals: %v", err)
	}
	return out
}

func (b *bed) count(t testing.TB, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := b.shard.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("count: %v", err)
	}
	return n
}

func mustExec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("exec: %v", err)
	}
}

func wantCode(t testing.TB, err error, want usher.Code) {
	t.Helper()
	if got := usher.CodeOf(err); got != want {
		t.Errorf("code is %q (%v), want %q", got, err, want)
	}
}

var seatsTaken atomic.Int64

// anySeat names a seat that no other test uses: a seat is sold once.
func anySeat() usher.SeatID {
	return usher.SeatID(fmt.Sprintf("S-%d", seatsTaken.Add(1)))
}
