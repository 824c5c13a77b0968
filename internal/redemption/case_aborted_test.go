package redemption_test

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/pg/pgproxy"
	"usher/internal/pg/pgtest"
	"usher/internal/redemption"
)

// P56, at the gate: what PostgreSQL aborts once, nobody notices; what it aborts every
// time is "try again", and the same transaction afterwards has one effect.
func TestAbortedClaims(t *testing.T) {
	b := setup(t)
	proxy := pgproxy.Start(t, b.url)
	r := redemption.New(pgtest.Homes(t, proxy.URL()), slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	d := b.device(t, concert, redemption.SettleLater)
	seats := []usher.SeatID{"A-1", "A-2", "A-3", "A-4"}
	tickets := b.issue(t, concert, seats...)
	for i, where := range []struct{ sql, state string }{
		{"UPDATE code SET status = 'processing'", "40P01"}, {"UPDATE code SET status = 'processing'", "40001"}, {"commit", "40P01"}, {"commit", "40001"},
	} {
		claim := redemption.Claim{Device: d, Code: tickets[i].Code, TransactionID: "t-" + string(seats[i])}
		f := proxy.Arm(where.sql, 0, pgproxy.Refuse(where.state))
		_, err := r.Claim(t.Context(), claim)
		f.Disarm()
		if usher.CodeOf(err) != usher.CodeUnavailable {
			t.Errorf("%s at %q every time: %v", where.state, where.sql, err)
		}
		f = proxy.Arm(where.sql, 1, pgproxy.Refuse(where.state))
		red, err := r.Claim(t.Context(), claim)
		f.Disarm()
		if err != nil || f.Fired() != 1 {
			t.Fatalf("%s at %q once: %v; fired %d times", where.state, where.sql, err, f.Fired())
		}
		again, err := r.Claim(t.Context(), claim)
		if err != nil || again.ID != red.ID {
			t.Errorf("the same claim again: %+v, %v", again, err)
		}
		confirm := redemption.Confirm{Device: d, Redemption: red.ID, TransactionID: claim.TransactionID, Result: redemption.ResultAdmitted}
		f = proxy.Arm("commit", 1, pgproxy.Refuse(where.state))
		_, err = r.Confirm(t.Context(), confirm)
		f.Disarm()
		if err != nil || f.Fired() != 1 {
			t.Errorf("%s at the confirmation's commit once: %v; fired %d times", where.state, err, f.Fired())
		}
		if got := b.ticket(t, tickets[i]).Status; got != usher.CodeUsed {
			t.Errorf("the code is %s", got)
		}
	}
	var redemptions int
	if err := b.shard.QueryRow(t.Context(), `SELECT count(*) FROM redemption`).Scan(&redemptions); err != nil || redemptions != len(seats) {
		t.Errorf("%d redemptions of %d codes, %v", redemptions, len(seats), err)
	}
}
