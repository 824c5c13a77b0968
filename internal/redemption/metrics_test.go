package redemption_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"usher/internal/redemption"
)

// Counters tell what happened, and neither they nor the log ever carry the text
// of a code or of a credential.
func TestMetricsAndLogs(t *testing.T) {
	b := setup(t)
	var log bytes.Buffer
	b.registry = prometheus.NewRegistry()
	b.Redeemer = redemption.New(b.homes, slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), b.registry)
	credential, d, err := b.RegisterDevice(t.Context(), concert, "Gate", redemption.SettleLater, "")
	if err != nil {
		t.Fatalf("register: %v", err)
	}
	secrets := []string{strings.SplitN(credential, ".", 2)[1]}
	var claims []redemption.Redemption
	for _, k := range b.issue(t, concert, "A-1", "A-2") {
		secrets = append(secrets, k.Code, strings.ToLower(k.Code))
		claim := redemption.Claim{Device: d, Code: strings.ToLower(k.Code), TransactionID: "T-" + string(k.Seat)}
		red, err := b.Claim(t.Context(), claim)
		if err != nil {
			t.Fatalf("claim: %v", err)
		}
		claims = append(claims, red)
		if _, err := b.Claim(t.Context(), claim); err != nil {
			t.Fatalf("repeat: %v", err)
		}
		if _, err := b.scan(t.Context(), d, k.Code); err == nil {
			t.Fatal("a second scan was granted")
		}
	}
	foreign := redemption.NewCode(match)
	secrets = append(secrets, foreign)
	if _, err := b.scan(t.Context(), d, foreign); err == nil {
		t.Fatal("a foreign code was granted")
	}
	for range 2 {
		if _, err := b.report(t.Context(), d, claims[0], redemption.ResultDispensed); err != nil {
			t.Fatalf("confirm: %v", err)
		}
	}
	b.lapse(t, claims[1])
	if _, err := b.Sweep(t.Context()); err != nil {
		t.Fatalf("sweep: %v", err)
	}
	if _, err := b.report(t.Context(), d, claims[1], redemption.ResultDispensed); err == nil {
		t.Fatal("a late report was taken")
	}

	for name, want := range map[string]float64{
		"usher_redemption_claims_total{granted}":         2,
		"usher_redemption_claims_total{replayed}":        2,
		"usher_redemption_claims_total{code_busy}":       2,
		"usher_redemption_claims_total{wrong_pool}":      1,
		"usher_redemption_claim_seconds{granted}":        2,
		"usher_redemption_claim_seconds{replayed}":       2,
		"usher_redemption_claim_seconds{refused}":        3,
		"usher_redemption_confirms_total{dispensed}":     1,
		"usher_redemption_confirms_total{replayed}":      1,
		"usher_redemption_confirms_total{code_abnormal}": 1,
		"usher_redemption_expired_total":                 1,
	} {
		if got := gather(t, b.registry)[name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if log.Len() == 0 {
		t.Error("nothing was logged")
	}
	for _, s := range secrets {
		if strings.Contains(log.String(), s) {
			t.Errorf("the log carries a code or a secret")
		}
	}
}

// gather reads every counter and the count of every histogram, by name and label.
func gather(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatalf("gather: %v", err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "{" + l.GetValue() + "}"
			}
			out[name] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}
