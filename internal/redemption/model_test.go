package redemption_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"usher"
	"usher/internal/redemption"
)

// modelCode is what the model knows of one code.
type modelCode struct {
	ticket    redemption.Ticket
	status    usher.CodeStatus
	cancelled bool
	// lapsed says that the limit of the open claim has passed.
	lapsed bool
	// red is the one redemption; nil before it. result is its settlement.
	red    *redemption.Redemption
	device redemption.Device
	result redemption.Result
}

// shows is the state that a scan goes by.
func (c *modelCode) shows() usher.CodeStatus {
	if c.status == usher.CodeProcessing && c.lapsed {
		return usher.CodeAbnormal
	}
	return c.status
}

// refusal is the reason a scan of the code by somebody else gets; "" grants.
func (c *modelCode) refusal() usher.Code {
	switch s := c.shows(); {
	case s == usher.CodeVoided || c.cancelled:
		return usher.CodeCodeVoided
	case s == usher.CodeAbnormal:
		return usher.CodeCodeAbnormal
	case s == usher.CodeUsed:
		return usher.CodeCodeUsed
	case s == usher.CodeProcessing:
		return usher.CodeCodeBusy
	}
	return ""
}

// model drives a redeemer and a simple picture of it side by side.
type model struct {
	t       *testing.T
	bed     *bed
	devices []redemption.Device
	codes   []*modelCode
	// owner finds the code that a device's transaction redeemed.
	owner map[string]*modelCode
	// refused and evidence are the rows that the lists must have.
	refused  int
	evidence map[string]bool
	// entries is the event's count when the run began.
	entries int
	// round keeps transaction ids of one run apart from those of the last.
	round int
}

func (m *model) claim(t *rapid.T) {
	d := m.devices[rapid.IntRange(0, len(m.devices)-1).Draw(t, "device")]
	c := m.codes[rapid.IntRange(0, len(m.codes)-1).Draw(t, "code")]
	tx := fmt.Sprintf("R%d-%d", m.round, rapid.IntRange(0, 4).Draw(t, "transaction"))
	key := d.ID.String() + tx
	red, err := m.bed.Claim(m.t.Context(), redemption.Claim{Device: d, Code: c.ticket.Code, TransactionID: tx})

	if own := m.owner[key]; own == c {
		if err != nil || !red.Replayed || red.ID != c.red.ID || red.Status != c.red.Status || red.Current != c.shows() {
			t.Fatalf("repeat answers %+v (%v), want %+v showing %s", red, err, *c.red, c.shows())
		}
		return
	} else if own != nil {
		m.refused++
		m.wantCode(t, err, usher.CodeTransactionConflict)
		return
	}
	if want := c.refusal(); want != "" {
		m.refused++
		m.wantCode(t, err, want)
		return
	}
	if err != nil || red.Replayed {
		t.Fatalf("claim answers %+v (%v), want a grant", red, err)
	}
	c.status, c.red, c.device = red.Status, &red, d
	if d.Settle == redemption.SettleNow {
		c.result = redemption.ResultAdmitted
	}
	m.owner[key] = c
}

func (m *model) confirm(t *rapid.T) {
	c := m.codes[rapid.IntRange(0, len(m.codes)-1).Draw(t, "code")]
	if c.red == nil {
		return
	}
	result := rapid.SampledFrom(results).Draw(t, "result")
	out, err := m.bed.report(m.t.Context(), c.device, *c.red, result)
	evidence := c.red.ID.String() + string(result)
	switch {
	case c.result == "" && !c.lapsed:
		c.result, c.status = result, usher.CodeAbnormal
		if result == redemption.ResultAdmitted || result == redemption.ResultDispensed {
			c.status = usher.CodeUsed
		}
		if err != nil || out.Replayed || out.Status != c.status {
			t.Fatalf("confirm answers %+v (%v), want %s", out, err, c.status)
		}
	case c.result == "":
		c.result, c.status = "expired", usher.CodeAbnormal
		m.evidence[evidence] = true
		m.wantCode(t, err, usher.CodeCodeAbnormal)
	case c.result == result:
		if err != nil || !out.Replayed || out.Status != c.status {
			t.Fatalf("repeat answers %+v (%v), want %s", out, err, c.status)
		}
	default:
		m.evidence[evidence] = true
		want := usher.CodeTransactionConflict
		if c.status == usher.CodeAbnormal {
			want = usher.CodeCodeAbnormal
		}
		m.wantCode(t, err, want)
	}
}

func (m *model) lapse(t *rapid.T) {
	c := m.codes[rapid.IntRange(0, len(m.codes)-1).Draw(t, "code")]
	if c.red == nil || c.lapsed {
		return
	}
	m.bed.lapse(m.t, *c.red)
	c.lapsed = true
}

func (m *model) sweep(t *rapid.T) {
	want := 0
	for _, c := range m.codes {
		if c.status == usher.CodeProcessing && c.lapsed {
			c.status, c.result = usher.CodeAbnormal, "expired"
			want++
		}
	}
	if n, err := m.bed.Sweep(m.t.Context()); n != want || err != nil {
		t.Fatalf("sweep froze %d (%v), want %d", n, err, want)
	}
}

func (m *model) cancel(t *rapid.T) {
	c := m.codes[rapid.IntRange(0, len(m.codes)-1).Draw(t, "code")]
	m.bed.cancel(m.t, c.ticket.Order)
	c.cancelled = true
	if c.status == usher.CodeUnused {
		c.status = usher.CodeVoided
	}
}

func (m *model) restart(*rapid.T) { m.bed.restart() }

// check compares everything after every step, and every move with the graph.
func (m *model) check(t *rapid.T) {
	used := m.entries
	for _, got := range m.read(t) {
		c := m.codes[slices.IndexFunc(m.codes, func(c *modelCode) bool { return c.ticket.ID == got.ID })]
		if got.Status != c.status || got.Cancelled != c.cancelled {
			t.Fatalf("code is %s (cancelled %t), want %s (%t)", got.Status, got.Cancelled, c.status, c.cancelled)
		}
		if got.Status != c.ticket.Status && !reaches(c.ticket.Status, got.Status) {
			t.Fatalf("no path leads from %s to %s", c.ticket.Status, got.Status)
		}
		c.ticket.Status = got.Status
		if got.Status == usher.CodeUsed {
			used++
		}
	}
	if n, err := m.bed.EntryCount(m.t.Context(), concert); n != used || err != nil {
		t.Fatalf("entry count is %d (%v), want %d", n, err, used)
	}
}

// read reads the run's codes in one statement.
func (m *model) read(t *rapid.T) []redemption.Ticket {
	var ids []usher.TicketID
	for _, c := range m.codes {
		ids = append(ids, c.ticket.ID)
	}
	rows, _ := m.bed.shard.Query(m.t.Context(), `SELECT ticket_id, status, cancelled_at IS NOT NULL FROM code WHERE ticket_id = ANY($1)`, ids)
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k redemption.Ticket, err error) {
		err = row.Scan(&k.ID, &k.Status, &k.Cancelled)
		return k, err
	})
	if err != nil || len(out) != len(ids) {
		t.Fatalf("read %d codes (%v), want %d", len(out), err, len(ids))
	}
	return out
}

// reaches says whether a path of the graph leads from one state to the other.
func reaches(from, to usher.CodeStatus) bool {
	seen := []usher.CodeStatus{from}
	for i := 0; i < len(seen); i++ {
		for _, e := range usher.CodeTransitions {
			if e.From == seen[i] && !slices.Contains(seen, e.To) {
				seen = append(seen, e.To)
			}
		}
	}
	return slices.Contains(seen[1:], to)
}

func (m *model) wantCode(t *rapid.T, err error, want usher.Code) {
	if got := usher.CodeOf(err); got != want {
		t.Fatalf("code is %q (%v), want %q", got, err, want)
	}
}

// TestModel runs random histories of a few codes and devices against PostgreSQL
// and the model above.
func TestModel(t *testing.T) {
	b := setup(t)
	// Limits pass by lapse alone, however slow the machine is.
	if _, err := b.ChangePool(t.Context(), concert, redemption.PoolRules{ConfirmWithin: 24 * time.Hour}); err != nil {
		t.Fatalf("change pool: %v", err)
	}
	devices := []redemption.Device{
		b.device(t, concert, redemption.SettleNow), b.device(t, concert, redemption.SettleLater), b.device(t, concert, redemption.SettleLater),
	}
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		m := &model{t: t, bed: b, devices: devices, owner: map[string]*modelCode{}, evidence: map[string]bool{}, round: round}
		for range 3 {
			m.codes = append(m.codes, &modelCode{ticket: b.issue(t, concert, anySeat())[0], status: usher.CodeUnused})
		}
		// What an earlier run left past its limit is not this run's to sweep.
		if _, err := b.Sweep(t.Context()); err != nil {
			rt.Fatalf("sweep: %v", err)
		}
		m.entries = b.count(t, `SELECT count(*) FROM code WHERE status = 'used'`)
		refusedBefore := b.count(t, `SELECT count(*) FROM scan_refusal`)
		evidenceBefore := b.count(t, `SELECT count(*) FROM late_confirm`)
		rt.Repeat(map[string]func(*rapid.T){
			"claim": m.claim, "claim again": m.claim, "confirm": m.confirm, "lapse": m.lapse, "sweep": m.sweep,
			"cancel": m.cancel, "restart": m.restart, "": m.check,
		})
		if n := b.count(t, `SELECT count(*) FROM scan_refusal`) - refusedBefore; n != m.refused {
			rt.Fatalf("%d refusals in the audit list, want %d", n, m.refused)
		}
		if n := b.count(t, `SELECT count(*) FROM late_confirm`) - evidenceBefore; n != len(m.evidence) {
			rt.Fatalf("%d rows of evidence, want %d", n, len(m.evidence))
		}
	})
}
