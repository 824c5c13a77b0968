package paysim_test

import (
	"encoding/json"
	"strconv"
	"sync/atomic"
	"testing"

	"usher/internal/sim/paysim/paysimtest"
)

// BenchmarkIntent is one whole sale at the provider: create, confirm, capture,
// each durable, over real HTTP. The client's cost is in it.
func BenchmarkIntent(b *testing.B) {
	sim := paysimtest.Start(b, nil)
	var n atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			key := strconv.FormatInt(n.Add(1), 10)
			created, _ := try(sim.URL, "/v1/payment_intents", key+":create", "amount=5000&currency=usd&capture_method=manual&metadata[order_id]="+key)
			var pi struct{ ID string }
			_ = json.Unmarshal([]byte(created), &pi)
			_, confirmed := try(sim.URL, "/v1/payment_intents/"+pi.ID+"/confirm", key+":confirm", "payment_method=pm_card_visa&expand[0]=latest_charge")
			_, captured := try(sim.URL, "/v1/payment_intents/"+pi.ID+"/capture", key+":capture", "")
			if !confirmed || !captured {
				b.Error("a call failed")
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "intents/s")
}
