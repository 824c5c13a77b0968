package verify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"usher/internal/pg/pgtest"
)

// edit replaces one text of a file of package ledger.
type edit struct{ file, old, new string }

// mutant is a planted bug and the tests that must catch it.
type mutant struct {
	name  string
	edits []edit
	// tests of package ledger, or of this one when here is set.
	tests string
	here  bool
}

var mutants = []mutant{
	{name: "release without owner check", tests: "TestReleaseHold", edits: []edit{{"decide_hold.go",
		"case h == nil || h.Account != c.Account:\n\t\treturn answer{}, errNoHold\n\t}\n\treturn s.release(",
		"case h == nil:\n\t\treturn answer{}, errNoHold\n\t}\n\treturn s.release("}}},
	{name: "checkout without owner check", tests: "TestOneOrderPerHold", edits: []edit{{"decide_order.go",
		"case h == nil || h.Account != c.Account:", "case h == nil:"}}},
	{name: "checkout without deadline check", tests: "TestDeadlinePassesWhileWaiting", here: true, edits: []edit{
		{"decide_hold.go", "case h.Status != usher.HoldHeld || s.now.Before(h.ExpiresAt):",
			"case !looked[id] || h.Status != usher.HoldHeld || s.now.Before(h.ExpiresAt):"},
		{"decide_order.go", "case !s.now.Before(h.ExpiresAt):", "case false:"},
		{"decide_order.go", "case h.ExpiresAt.Sub(s.now) < s.rules.PayMargin:", "case false:"}}},
	{name: "now() for clock_timestamp()", tests: "TestDeadlinePassesWhileWaiting|TestTakeoverThenOldExpiry", here: true, edits: []edit{{"sql.go",
		"    clock_timestamp()\nFROM event_ledger l\nJOIN event_rules r", "    now()\nFROM event_ledger l\nJOIN event_rules r"}}},
	{name: "digest not compared", tests: "TestIdempotencyKeys", edits: []edit{{"decide_hold.go",
		"if !slices.Equal(h.digest, digest) {", "if false {"}}},
	{name: "fence ignored", tests: "TestRulesVersionFences", edits: []edit{{"write.go",
		"b.err = errStale", "_ = errStale"}}},
	{name: "epoch not in the fence", tests: "TestEpochFences", here: true, edits: []edit{{"sql.go",
		"WHERE event_id = $1 AND epoch = $2 AND rules_version = $3", "WHERE event_id = $1 AND $2::bigint > 0 AND rules_version = $3"}}},
	{name: "older epoch accepted", tests: "TestOlderEpochRefused", edits: []edit{{"run.go",
		"if epoch < l.epochs[event] {", "if false {"}}},
	{name: "limit counted outside the lock", tests: "TestLimitIsCountedUnderTheLock", here: true, edits: []edit{{"sql.go",
		"FROM account_usage WHERE event_id = $1 AND account_id = k.id\n    OFFSET 0 FOR NO KEY UPDATE) u",
		"FROM account_usage WHERE event_id = $1 AND account_id = k.id\n    OFFSET 0) u"}}},
	{name: "seat version not raised", tests: "TestPlaceHold", edits: []edit{
		{"state.go", "\ts.version++\n", ""},
		{"sql.go", "WHERE seat_inventory.version < excluded.version", "WHERE seat_inventory.version <= excluded.version"}}},
	{name: "expiry by seat", tests: "TestTakeoverThenOldExpiry", here: true, edits: []edit{{"decide_hold.go",
		"if st := s.seats[place.ID]; st.ownedBy(h.ID, usher.SeatHeld) {", "if st := s.seats[place.ID]; st.status == usher.SeatHeld {"}}},
	{name: "partial group kept", tests: "TestPlaceHoldRefusals|TestOverlappingGroups", edits: []edit{
		{"decide_hold.go", "case taken != nil || short != nil:", "case taken != nil && len(taken) == len(c.Seats) || short != nil:"},
		{"decide_hold.go", "\t\ttiers[i] = st.tier\n", "\t\ttiers[i] = st.tier\n\t\tif !st.takeable(s.now) {\n\t\t\tcontinue\n\t\t}\n"}}},
	{name: "seats locked in any order", tests: "TestSeatsAreLockedInOrder", here: true, edits: []edit{{"load.go",
		"b.lock(sqlLockSeats, b.s.event, slices.Sorted(maps.Keys(k.seats)))", "b.lock(sqlLockSeats, b.s.event, slices.Collect(maps.Keys(k.seats)))"}}},
	{name: "pending seat taken by time", tests: "TestBuySeats", edits: []edit{{"state.go",
		"s.status == usher.SeatHeld && !now.Before(*s.expires)", "(s.status == usher.SeatHeld || s.status == usher.SeatPending) && !now.Before(*s.expires)"}}},
	{name: "skipped row taken for a missing one", tests: "TestLockedRowIsBusy", edits: []edit{{"decide_hold.go",
		"case (unknown != nil || noTier != nil || short != nil) && s.partial:", "case false:"}}},
	{name: "skipped payment taken for none", tests: "TestSkippedRowsAreNotMissing", edits: []edit{
		{"load.go", "if b.skipLocked {\n\t\t\tb.Queue(", "if false {\n\t\t\tb.Queue("},
		{"decide_order.go", "\tif op == nil {\n\t\tpanic(", "\tif false {\n\t\tpanic("}}},
	{name: "bucket made meanwhile not seen", tests: "TestBucketMadeMeanwhile", edits: []edit{{"load.go",
		"\t\tb.lock(sqlLockBuckets, b.s.event, tiers)\n", ""}}},
	{name: "payments counted beside another process", tests: "TestPendingMaxOfTwoProcesses", edits: []edit{{"load.go",
		"if k.pending && s.pendingInEvent", "if false && s.pendingInEvent"}}},
	{name: "lapsed while waiting, counted as held", tests: "TestLapsesWhileLocksAreWaitedFor", edits: []edit{{"run.go",
		"if s.short && s.moreDue && !r.asRead {", "if false {"}}},
	{name: "counts wait until nothing lapses", tests: "TestLapsesAllTheTime", edits: []edit{{"run.go",
		"if s.short && s.moreDue && !r.asRead {", "if s.short && s.moreDue {"}}},
	{name: "checkout of a hold that lost its seats", tests: "TestClockBackAfterTakeover", here: true, edits: []edit{{"decide_order.go",
		"if h.Status == usher.HoldHeld && !s.owns(h) {", "if false {"}}},
	{name: "unknown COMMIT run again", tests: "TestLostAnswers", edits: []edit{{"run.go",
		"if committed {", "if committed && false {"}}},
	{name: "unknown COMMIT taken for none", tests: "TestZombieOutlivesLockTimeout|TestUnknownStaysUnknown", here: true, edits: []edit{{"outcome.go",
		"b.Queue(sqlLockLedger, r.event)", ""}}},
	{name: "one panic for the whole group", tests: "TestDamagedOrder", edits: []edit{{"run.go",
		"case (pg.IsData(err) || errors.Is(err, errPanicked)) && len(r.items) > 1:", "case pg.IsData(err) && len(r.items) > 1:"}}},
	{name: "decline past the deadline keeps the seats", tests: "TestDeclineAfterDeadline", edits: []edit{{"decide_order.go",
		"if s.now.Before(h.ExpiresAt) {", "if true {"}}},
	{name: "failed attempt confirmed", tests: "TestDeclineThenSuccess", edits: []edit{{"decide_order.go",
		"case o.Status == usher.OrderDeclined, o.operation != c.Operation, auth != nil && auth.Status == usher.OperationFailed:", "case false:"}}},
	{name: "confirmed behind the closed door", tests: "TestVoidOrder", edits: []edit{{"decide_order.go",
		"case o.Status != usher.OrderPaymentPending && o.Status != usher.OrderDeclined:",
		"case o.Status != usher.OrderPaymentPending && o.Status != usher.OrderDeclined && o.Status != usher.OrderVoiding:"}}},
}

// perRun is how many planted bugs a run of the default scale tries.
const perRun = 2

// Every planted bug is caught by a test that is there for it. The code itself
// stays clean: the compiler is shown other text in place of a file.
func TestPlantedBugs(t *testing.T) {
	chosen := slices.Clone(mutants)
	if scale() == 1 {
		rand.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:perRun]
	}
	admin := adminURL(t)
	for _, m := range chosen {
		t.Run(m.name, func(t *testing.T) {
			start := time.Now()
			caught, out := m.run(t, admin)
			if len(caught) == 0 {
				t.Fatalf("no test caught it:\n%s", out)
			}
			t.Logf("caught by %s in %v", strings.Join(caught, ", "), time.Since(start).Round(time.Millisecond))
		})
	}
}

// Every edit still fits the code: one that fits no more would plant nothing.
func TestPlantedBugsFit(t *testing.T) {
	for _, m := range mutants {
		m.overlay(t, t.TempDir())
	}
	if len(mutants) < 10 {
		t.Errorf("only %d planted bugs", len(mutants))
	}
}

// adminURL is the cluster that the tests of this process use.
func adminURL(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/postgres"
	return u.String()
}

var reFailed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// run builds and runs the tests against the planted bug and returns those that
// failed. A bug that does not compile fails the test here.
func (m mutant) run(t *testing.T, admin string) (caught []string, output string) {
	t.Helper()
	pkg := "usher/internal/ledger"
	if m.here {
		pkg += "/verify"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-overlay", m.overlay(t, t.TempDir()), "-vet=off", "-count=1", "-timeout=4m",
		"-run", "^("+m.tests+")$", pkg)
	cmd.Env = append(os.Environ(), pgtest.EnvURL+"="+admin, envScale+"=1")
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "[build failed]") || strings.Contains(string(out), "no tests to run") {
		t.Fatalf("the planted bug was not tested:\n%s", out)
	}
	for _, f := range reFailed.FindAllStringSubmatch(string(out), -1) {
		caught = append(caught, f[1])
	}
	return caught, fmt.Sprintf("%s%v", out, err)
}

// overlay writes the changed files and the list that go build takes.
func (m mutant) overlay(t *testing.T, dir string) string {
	t.Helper()
	changed := map[string]string{}
	for _, e := range m.edits {
		path, err := filepath.Abs(filepath.Join("..", e.file))
		if err != nil {
			t.Fatal(err)
		}
		if changed[path] == "" {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			changed[path] = string(raw)
		}
		if n := strings.Count(changed[path], e.old); n != 1 {
			t.Fatalf("%s: its text stands %d times in %s: plant it anew:\n%s", m.name, n, e.file, e.old)
		}
		changed[path] = strings.Replace(changed[path], e.old, e.new, 1)
	}
	replace := map[string]string{}
	for path, text := range changed {
		replace[path] = filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return list
}
