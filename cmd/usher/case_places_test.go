package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"usher"
	"usher/internal/catalog"
	"usher/internal/notify"
	"usher/internal/payment"
	"usher/internal/payment/stripe"
	"usher/internal/pg"
	"usher/internal/pg/pgtest"
	"usher/internal/seatmap"
	"usher/internal/sim/paysim/paysimtest"
	"usher/internal/web"
)

// house is the whole product in this process, behind its HTTP interface, with the
// payment simulator as its provider.
type house struct {
	caller // the operator
	app    *app
	event  usher.EventID
	path   string
}

// newHouse opens a sale without a queue: four seats, and the given tiers without.
func newHouse(t *testing.T, standing ...catalog.Standing) *house {
	t.Helper()
	ctx := t.Context()
	sim := paysimtest.Start(t, nil)
	provider, err := stripe.New(stripe.Config{SecretKey: sim.SecretKey, BaseURL: sim.URL, WebhookSecrets: []string{paysimtest.WebhookSecret}})
	if err != nil {
		t.Fatalf("provider: %v", err)
	}
	url, log := pgtest.Database(t), slog.New(slog.DiscardHandler)
	a, err := newApp(ctx, appConfig{
		Homes:     pg.Config{DirectoryURL: url, RoomURL: url, ShardURLs: map[pg.ShardNumber]string{1: url}},
		Roles:     []string{roleRoom, roleShop, roleWorker},
		Web:       web.Config{PublicURL: "http://127.0.0.1", Version: "test"},
		Mail:      notify.Config{Addr: "127.0.0.1:1", TLS: notify.TLSNone, From: "usher <x@usher.localhost>", SiteURL: "http://127.0.0.1"},
		Providers: []payment.Provider{provider}, Log: log,
	})
	if err != nil {
		t.Fatalf("app: %v", err)
	}
	loops := newSupervisor(context.WithoutCancel(ctx), log)
	a.start(loops)
	server := httptest.NewServer(a.server)
	t.Cleanup(func() {
		server.Close()
		if err := loops.stop(stopWithin); err != nil {
			t.Errorf("stop: %v", err)
		}
		a.close()
	})
	operator, err := a.accounts.CreateOperator(ctx, "Staff", usher.TenantID{})
	if err != nil {
		t.Fatalf("operator: %v", err)
	}
	key, _, err := a.accounts.CreateKey(ctx, operator.ID, "test")
	if err != nil {
		t.Fatalf("key: %v", err)
	}
	h := &house{caller: caller{t: t, base: server.URL, token: key}, app: a}
	h.open(standing)
	return h
}

func (h *house) open(standing []catalog.Standing) {
	h.t.Helper()
	ctx := h.t.Context()
	rules := usher.DefaultRules("EUR")
	rules.AdmissionRequired = false
	e, err := h.app.catalog.Create(ctx, catalog.NewEvent{
		Tenant: usher.NewTenantID(), Slug: "case", Name: "Case", Venue: "Hall", TimeZone: "UTC", Currency: "EUR", Rules: &rules,
		StartsAt: time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC),
	})
	if err != nil {
		h.t.Fatalf("create: %v", err)
	}
	chart, err := seatmap.Parse("Hall", []byte("seat_id,section,row,number,tier,x,y\n1,S,1,1,seats,0,0\n2,S,1,2,seats,10,0\n3,S,1,3,seats,20,0\n4,S,1,4,seats,30,0\n"))
	if err != nil {
		h.t.Fatalf("chart: %v", err)
	}
	prices := map[usher.TierID]int64{"seats": 5000}
	for _, t := range standing {
		prices[t.ID] = 1000
	}
	for _, step := range []func() error{
		func() error { _, err := h.app.catalog.ImportChart(ctx, e.ID, chart); return err },
		func() error { _, err := h.app.catalog.SetStanding(ctx, e.ID, standing); return err },
		func() error { _, err := h.app.catalog.SetPrices(ctx, e.ID, prices); return err },
		func() error { _, err := h.app.catalog.Publish(ctx, e.ID); return err },
		func() error { return h.app.catalog.Open(ctx, e.ID) },
	} {
		if err := step(); err != nil {
			h.t.Fatalf("open: %v", err)
		}
	}
	h.event, h.path = e.ID, "/v1/events/"+e.ID.String()
}

// buyers makes n accounts.
func (h *house) buyers(n int) []caller {
	h.t.Helper()
	minted, err := h.app.accounts.MintBuyers(h.t.Context(), n)
	if err != nil {
		h.t.Fatalf("buyers: %v", err)
	}
	out := make([]caller, n)
	for i, b := range minted {
		out[i] = caller{t: h.t, base: h.base, token: b.Token}
	}
	return out
}

// ask is a request for places.
func ask(key, tier string, n int, seats ...string) map[string]any {
	body := map[string]any{"idempotencyKey": key}
	if n > 0 {
		body["items"] = []map[string]any{{"tierId": tier, "quantity": n}}
	}
	if len(seats) > 0 {
		body["seatIds"] = seats
	}
	return body
}

// pay checks out with a card and waits for the money.
func (h *house) pay(buyer caller, hold, card, want string) (order string) {
	h.t.Helper()
	order = buyer.must(201, "POST", "/v1/holds/"+hold+"/checkout", map[string]any{"paymentMethodToken": card, "idempotencyKey": "pay-" + hold}).text("orderId")
	buyer.poll("/v1/orders/"+order, func(g got) bool {
		return g.text("orderStatus") == want && (want != "confirmed" || g.text("capturedAt") != "")
	})
	return order
}

// count runs a query for one number.
func (h *house) count(sql string) (n int) {
	h.t.Helper()
	if err := h.app.homes.Shards()[0].Pool.QueryRow(h.t.Context(), sql).Scan(&n); err != nil {
		h.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// quota is what a tier has.
func (h *house) quota(tier usher.TierID) (free, held, sold int) {
	h.t.Helper()
	buckets, err := h.app.ledger.Quota(h.t.Context(), h.event)
	if err != nil {
		h.t.Fatalf("quota: %v", err)
	}
	for _, b := range buckets {
		if b.Tier == tier {
			free, held, sold = free+b.Available, held+b.Held, sold+b.Sold
		}
	}
	return free, held, sold
}

// settled waits until no payment is in motion, and audits.
func (h *house) settled() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), until)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for h.count(`SELECT count(*) FROM payment_operation WHERE settled_at IS NULL`) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			h.t.Fatal("payments do not settle")
		}
	}
	if g := h.must(200, "POST", "/v1/admin/audit", map[string]any{}); g.body["violations"] != 0.0 {
		h.t.Errorf("audit: %s", g.raw)
	}
}

// P22: quantities that are none are refused, and nothing at all comes of them.
func TestCaseP22(t *testing.T) {
	h := newHouse(t, catalog.Standing{ID: "floor", Name: "Floor", Capacity: 20}, catalog.Standing{ID: "pit", Name: "Pit", Capacity: 20})
	buyer := h.buyers(1)[0]
	keys := 0
	for name, items := range map[string]string{
		"-1": `{"tierId":"floor","quantity":-1}`, "0": `{"tierId":"floor","quantity":0}`, "7": `{"tierId":"floor","quantity":7}`,
		"1.5": `{"tierId":"floor","quantity":1.5}`, "1.0": `{"tierId":"floor","quantity":1.0}`, "1e0": `{"tierId":"floor","quantity":1e0}`,
		"text": `{"tierId":"floor","quantity":"2"}`, "null": `{"tierId":"floor","quantity":null}`, "missing": `{"tierId":"floor"}`,
		"2^31": `{"tierId":"floor","quantity":2147483648}`, "2^63": `{"tierId":"floor","quantity":9223372036854775808}`,
		"+2 and -2":    `{"tierId":"floor","quantity":2},{"tierId":"pit","quantity":-2}`,
		"4 and 3":      `{"tierId":"floor","quantity":4},{"tierId":"pit","quantity":3}`,
		"twice":        `{"tierId":"floor","quantity":1},{"tierId":"floor","quantity":1}`,
		"unknown tier": `{"tierId":"roof","quantity":1}`, "seated tier": `{"tierId":"seats","quantity":1}`, "no tier": `{"quantity":1}`,
		"empty tier": `{"tierId":"","quantity":1}`, "a price": `{"tierId":"floor","quantity":1,"price":1}`, "none": ``,
	} {
		for _, seats := range []string{``, `"seatIds":["1"],`} {
			keys++
			key := fmt.Sprint("k", keys)
			g := buyer.do("POST", h.path+"/holds", json.RawMessage(`{`+seats+`"items":[`+items+`],"idempotencyKey":"`+key+`"}`))
			if g.status < 400 || g.status > 499 || g.text("code") == "" || strings.Contains(g.text("detail"), "Key") {
				t.Errorf("%s %s: %d %s", name, seats, g.status, g.raw)
			}
		}
	}
	for _, table := range []string{"hold", "orders", "payment_operation"} {
		if n := h.count(`SELECT count(*) FROM ` + table); n != 0 {
			t.Errorf("%d rows of %s", n, table)
		}
	}
	if free, held, sold := h.quota("floor"); free != 20 || held != 0 || sold != 0 {
		t.Errorf("floor has %d, %d, %d", free, held, sold)
	}
	if g := buyer.must(201, "POST", h.path+"/holds", ask("k", "floor", 4, "1", "2")); g.body["amount"].(map[string]any)["amountMinor"] != 14000.0 {
		t.Errorf("six places: %s", g.raw)
	}
	h.settled()
}

// P18: the last units are sold once, and a request that fits is not refused.
func TestCaseP18(t *testing.T) {
	h := newHouse(t, catalog.Standing{ID: "two", Name: "Two", Capacity: 2}, catalog.Standing{ID: "many", Name: "Many", Capacity: 37, Buckets: 5})
	buyers := h.buyers(50)
	var mu sync.Mutex
	results := map[int]int{}
	rush := func(tier string, quantity func(int) int) {
		clear(results)
		var all sync.WaitGroup
		for i, b := range buyers {
			all.Go(func() {
				g := b.do("POST", h.path+"/holds", ask("k-"+tier, tier, quantity(i)))
				if g.status != 201 && (g.status != 409 || g.text("code") != string(usher.CodeSeatsUnavailable)) {
					t.Errorf("hold: %d %s", g.status, g.raw)
				}
				mu.Lock()
				results[g.status]++
				mu.Unlock()
			})
		}
		all.Wait()
	}
	rush("two", func(int) int { return 2 })
	if results[201] != 1 || results[409] != 49 {
		t.Errorf("two places: %v", results)
	}
	// Whoever has two already may have four more.
	rush("many", func(i int) int { return 1 + i%4 })
	free, held, _ := h.quota("many")
	if free < 0 || free+held != 37 || held > 37 {
		t.Errorf("many: %d free, %d held", free, held)
	}
	// Nobody competes now: what fits is had, whole, over however many buckets.
	late := h.buyers(2)
	if free < 6 {
		if g := late[0].do("POST", h.path+"/holds", ask("k", "many", free+1)); g.status != 409 {
			t.Errorf("one more than %d: %d %s", free, g.status, g.raw)
		}
	}
	if free > 0 {
		late[1].must(201, "POST", h.path+"/holds", ask("k", "many", min(free, 6)))
	}
	h.settled()
}

// P20: whatever ends a claim gives exactly its units back, and the account may buy
// as many again.
func TestCaseP20(t *testing.T) {
	h := newHouse(t, catalog.Standing{ID: "floor", Name: "Floor", Capacity: 8, Buckets: 3})
	b := h.buyers(4)
	whole, gone, other := b[0], b[1], b[2]
	first := whole.must(201, "POST", h.path+"/holds", ask("k", "floor", 4, "1", "2"))
	order := h.pay(whole, first.text("holdId"), "pm_card_visa", "confirmed")
	abandoned := gone.must(201, "POST", h.path+"/holds", ask("k", "floor", 2, "3", "4"))
	h.pay(gone, abandoned.text("holdId"), "pm_card_visa_chargeDeclined", "declined")
	h.pay(other, other.must(201, "POST", h.path+"/holds", ask("k", "floor", 2)).text("holdId"), "pm_card_visa", "confirmed")
	if g := b[3].do("POST", h.path+"/holds", ask("k", "floor", 1)); g.status != 409 {
		t.Errorf("sold out: %d %s", g.status, g.raw)
	}
	want := func(what string, free, held, sold int) {
		t.Helper()
		if f, hd, s := h.quota("floor"); f != free || hd != held || s != sold {
			t.Errorf("%s: %d free, %d held, %d sold; want %d, %d, %d", what, f, hd, s, free, held, sold)
		}
	}
	want("sold out", 0, 2, 6)
	if g := whole.do("POST", h.path+"/holds", ask("over", "floor", 1)); g.text("code") != string(usher.CodeSeatsUnavailable) && g.text("code") != string(usher.CodeLimitExceeded) {
		t.Errorf("a seventh place: %d %s", g.status, g.raw)
	}
	cancel := map[string]string{"reason": "case"}
	h.must(200, "POST", "/v1/admin/orders/"+order+"/cancel", cancel)
	h.must(200, "POST", "/v1/admin/orders/"+order+"/cancel", cancel)
	want("one order cancelled twice", 4, 2, 2)
	gone.must(200, "DELETE", "/v1/holds/"+abandoned.text("holdId"), nil)
	want("one checkout abandoned", 6, 0, 2)
	again := whole.must(201, "POST", h.path+"/holds", ask("k2", "floor", 4, "1", "2"))
	h.pay(whole, again.text("holdId"), "pm_card_visa", "confirmed")
	gone.must(201, "POST", h.path+"/holds", ask("k2", "floor", 2, "3", "4"))
	want("bought again", 0, 2, 6)
	h.settled()
}

// P21: a seeded life of holds, releases, payments, declines, cancellations and
// repeated requests; the counters equal a recount from holds and orders.
func TestCaseP21(t *testing.T) {
	h := newHouse(t, catalog.Standing{ID: "floor", Name: "Floor", Capacity: 60, Buckets: 4})
	var all sync.WaitGroup
	for w, b := range h.buyers(8) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(21, uint64(w)))
			for i := range 8 {
				h.live(b, rng, fmt.Sprint("k", i))
			}
		})
	}
	all.Wait()
	h.settled()
	_, held, sold := h.quota("floor")
	lines := h.count(`SELECT coalesce(sum(l.quantity), 0) FROM hold_line l JOIN hold USING (hold_id) WHERE status IN ('held', 'payment_pending')`)
	owned := h.count(`SELECT count(*) FROM order_line WHERE state = 'sold' AND seat_id IS NULL`)
	if held != lines || sold != owned || sold == 0 {
		t.Errorf("%d held, holds have %d; %d sold, orders own %d", held, lines, sold, owned)
	}
	// The audit names a difference that was planted.
	if _, err := h.app.homes.Shards()[0].Pool.Exec(t.Context(), `UPDATE inventory_bucket SET sold = sold + 1 WHERE bucket = 2`); err != nil {
		t.Fatal(err)
	}
	if g := h.must(200, "POST", "/v1/admin/audit", map[string]any{}); g.body["violations"] == 0.0 {
		t.Error("the audit does not see a counter that is off by one")
	}
}

// live asks for places, twice with one key, and does one of the things that may
// become of them.
func (h *house) live(b caller, rng *rand.Rand, key string) {
	body := ask(key, "floor", 1+rng.IntN(4))
	g := b.do("POST", h.path+"/holds", body)
	if again := b.do("POST", h.path+"/holds", body); again.status != g.status || again.text("holdId") != g.text("holdId") {
		h.t.Errorf("replay: %d %s, first %d %s", again.status, again.raw, g.status, g.raw)
	}
	if g.status != 201 {
		if g.status != 409 {
			h.t.Errorf("hold: %d %s", g.status, g.raw)
		}
		return
	}
	hold, fate := g.text("holdId"), rng.IntN(6)
	switch fate {
	case 0:
		b.must(200, "DELETE", "/v1/holds/"+hold, nil)
		b.must(200, "DELETE", "/v1/holds/"+hold, nil)
	case 1:
		h.pay(b, hold, "pm_card_visa_chargeDeclined", "declined")
		h.must(200, "POST", "/v1/admin/holds/"+hold+"/release", map[string]string{"reason": "case"})
	default:
		order := h.pay(b, hold, "pm_card_visa", "confirmed")
		if fate > 3 {
			h.must(200, "POST", "/v1/admin/orders/"+order+"/cancel", map[string]string{"reason": "case"})
		}
	}
}
