package redemption_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"usher"
	"usher/internal/fault"
	"usher/internal/pg"
	"usher/internal/redemption"
)

// envChild makes the test binary a process that serves one request and may be
// killed in the middle of it; its value is the job as JSON.
const envChild = "USHER_TEST_REDEMPTION_CHILD"

// job is what a child process does: claim, or confirm if Confirm is set.
type job struct {
	URL     string
	Faults  string
	Claim   *redemption.Claim
	Confirm *redemption.Confirm
}

func runChild() int {
	var j job
	if err := json.Unmarshal([]byte(os.Getenv(envChild)), &j); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := context.Background()
	homes, err := pg.Open(ctx, pg.Config{DirectoryURL: j.URL, RoomURL: j.URL, ShardURLs: map[pg.ShardNumber]string{1: j.URL}})
	if err == nil {
		err = fault.ArmFromEnv(j.Faults)
	}
	if err == nil {
		r := redemption.New(homes, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		if j.Confirm != nil {
			_, err = r.Confirm(ctx, *j.Confirm)
		} else {
			_, err = r.Claim(ctx, *j.Claim)
		}
	}
	fmt.Fprintln(os.Stderr, "child lived on:", err)
	return 1
}

// mustDie runs the job in a process of its own and expects SIGKILL to end it at
// the armed point.
func mustDie(t *testing.T, j job) {
	t.Helper()
	spec, err := json.Marshal(j)
	if err != nil {
		t.Fatalf("encode job: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("find test binary: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), envChild+"="+string(spec))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the process did not die at its fault point (%v): %s", err, out)
	}
}

// Each cell: a process dies at a boundary, the device asks another process.
func TestCrashAroundClaim(t *testing.T) {
	b := setup(t)
	for _, c := range []struct {
		faults string
		// replayed tells whether the claim was durable before the crash.
		replayed bool
	}{
		{"pg.before_commit=kill", false},
		{"pg.after_commit=kill", true},
		{"redeem.after_claim=kill", true},
	} {
		for _, settle := range []redemption.Settle{redemption.SettleNow, redemption.SettleLater} {
			t.Run(c.faults+"/"+string(settle), func(t *testing.T) {
				d, ticket := b.device(t, concert, settle), b.issue(t, concert, anySeat())[0]
				claim := redemption.Claim{Device: d, Code: ticket.Code, TransactionID: "T1"}
				mustDie(t, job{URL: b.url, Faults: c.faults, Claim: &claim})

				red, err := retryBusy(func() (redemption.Redemption, error) { return b.Claim(t.Context(), claim) })
				if err != nil {
					t.Fatalf("retry: %v", err)
				}
				if red.Replayed != c.replayed {
					t.Errorf("retry is a replay: %t, want %t", red.Replayed, c.replayed)
				}
				if n := b.count(t, `SELECT count(*) FROM redemption WHERE device_id = $1`, d.ID); n != 1 {
					t.Errorf("%d redemptions, want 1", n)
				}
				_, err = b.scan(t.Context(), b.device(t, concert, settle), ticket.Code)
				want := map[redemption.Settle]usher.Code{redemption.SettleNow: usher.CodeCodeUsed, redemption.SettleLater: usher.CodeCodeBusy}
				wantCode(t, err, want[settle])
			})
		}
	}
}

func TestCrashAroundConfirm(t *testing.T) {
	b := setup(t)
	for _, c := range []struct {
		faults   string
		replayed bool
	}{
		{"redeem.before_confirm=kill", false},
		{"pg.before_commit=kill", false},
		{"pg.after_commit=kill", true},
	} {
		t.Run(c.faults, func(t *testing.T) {
			d, ticket := b.device(t, concert, redemption.SettleLater), b.issue(t, concert, anySeat())[0]
			red := b.mustScan(t, d, ticket.Code)
			confirm := redemption.Confirm{Device: d, Redemption: red.ID, TransactionID: red.TransactionID, Result: redemption.ResultDispensed}
			mustDie(t, job{URL: b.url, Faults: c.faults, Confirm: &confirm})

			out, err := b.Confirm(t.Context(), confirm)
			if err != nil {
				t.Fatalf("retry: %v", err)
			}
			if out.Replayed != c.replayed || out.Status != usher.CodeUsed {
				t.Errorf("retry answers %+v, want used, replayed %t", out, c.replayed)
			}
			if got := b.ticket(t, ticket); got.Status != usher.CodeUsed {
				t.Errorf("code is %s, want used", got.Status)
			}
		})
	}
}

// The same boundaries with a process that lives and a device that hears an error:
// it does not know, asks again, and gets its first answer.
func TestLostAnswers(t *testing.T) {
	b := setup(t)
	for point, want := range map[string]usher.Code{
		"pg.after_commit":    usher.CodeUnknown,
		"redeem.after_claim": usher.CodeInternal,
	} {
		d, ticket := b.device(t, concert, redemption.SettleNow), b.issue(t, concert, anySeat())[0]
		claim := redemption.Claim{Device: d, Code: ticket.Code, TransactionID: "T1"}
		disarm := fault.Arm(point, 1, fault.Fail)
		_, err := b.Claim(t.Context(), claim)
		disarm()
		wantCode(t, err, want)
		if red, err := b.Claim(t.Context(), claim); err != nil || !red.Replayed || red.Status != usher.CodeUsed {
			t.Errorf("%s: retry answers %+v (%v), want the first answer", point, red, err)
		}
	}
}

// The process dies with the claim, and so does the device: nobody ever confirms.
func TestCrashOfBothSides(t *testing.T) {
	b := setup(t)
	d, ticket := b.device(t, concert, redemption.SettleLater), b.issue(t, concert, "A-1")[0]
	mustDie(t, job{URL: b.url, Faults: "redeem.after_claim=kill", Claim: &redemption.Claim{Device: d, Code: ticket.Code, TransactionID: "T1"}})
	mustExec(t, b.shard, `UPDATE redemption SET confirm_by = clock_timestamp() - interval '1 second'`)
	if n, err := b.Sweep(t.Context()); n != 1 || err != nil {
		t.Fatalf("sweep froze %d (%v), want 1", n, err)
	}
	if got := b.ticket(t, ticket); got.Status != usher.CodeAbnormal {
		t.Errorf("code is %s, want abnormal", got.Status)
	}
	_, err := b.scan(t.Context(), b.device(t, concert, redemption.SettleNow), ticket.Code)
	wantCode(t, err, usher.CodeCodeAbnormal)
}

// retryBusy repeats a claim while the dead process's transaction still holds the
// row, as the answer's RetryAfter tells a device to do; the server notices the
// death within a second or so.
func retryBusy(claim func() (redemption.Redemption, error)) (red redemption.Redemption, err error) {
	for range 5000 {
		if red, err = claim(); usher.CodeOf(err) != usher.CodeCodeBusy {
			return red, err
		}
	}
	return red, err
}
