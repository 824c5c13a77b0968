package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// taken counts the places of an event that are held or sold, by asking as
// everybody and as the operator does.
func (r *running) taken(t *testing.T, e demoEvent) (seats, standing int) {
	t.Helper()
	public, admin := caller{t: t, base: r.URL}, caller{t: t, base: r.URL, token: r.AdminToken}
	path := "/events/" + e.EventID.String()
	if e.Seats > 0 {
		left, err := countSeats(public.must(200, "GET", "/v1"+path+"/seats", nil).raw)
		if err != nil {
			t.Fatal(err)
		}
		seats = left.total - left.free
	}
	tiers, _ := public.must(200, "GET", "/v1"+path, nil).body["tiers"].([]any)
	for _, k := range tiers {
		tier, _ := k.(map[string]any)
		if tier["kind"] != "standing" {
			continue
		}
		var quota struct{ Buckets []struct{ Held, Sold int } }
		raw := admin.must(200, "GET", fmt.Sprintf("/v1/admin%s/tiers/%s/quota", path, tier["tierId"]), nil).raw
		if err := json.Unmarshal(raw, &quota); err != nil {
			t.Fatal(err)
		}
		for _, b := range quota.Buckets {
			standing += b.Held + b.Sold
		}
	}
	return seats, standing
}

func (r *running) roomRate(t *testing.T) float64 {
	t.Helper()
	queue, _ := caller{t: t, base: r.URL, token: r.AdminToken}.must(200, "GET", "/v1/admin/events/evt_1", nil).body["queue"].(map[string]any)
	rate, _ := queue["ratePerSecond"].(float64)
	return rate
}

// TestDemoCrowd watches a crowd: there is a line at the arena, every house fills
// and part of it stays, an operator's pause is no fault, and the books are right.
func TestDemoCrowd(t *testing.T) {
	dir := demoFolder(t)
	r := startDemo(t, dir, "--crowd", "40", "--crowd-speed", "20")
	public, admin := caller{t: t, base: r.URL}, caller{t: t, base: r.URL, token: r.AdminToken}
	public.poll("/v1/events/evt_1/queue/now", func(g got) bool {
		waiting, _ := g.body["waiting"].(float64)
		return waiting > 0
	})
	for _, e := range r.Events {
		public.poll("/v1/events", func(got) bool {
			seats, standing := r.taken(t, e)
			return (e.Seats == 0 || seats > 2) && (e.Standing == 0 || standing > 2)
		})
	}
	admin.must(200, "POST", "/v1/admin/events/evt_1/pause", map[string]string{"reason": "a look at a paused sale"})
	_, before := r.taken(t, r.Events[2])
	public.poll("/v1/events", func(got) bool {
		_, standing := r.taken(t, r.Events[2])
		return standing > before+10
	})
	if rate := r.roomRate(t); rate >= 200 {
		t.Errorf("the room lets in %v people a second: nobody would stand in line", rate)
	}
	r.usher(t, exitOK, "0 violations", "audit", "--database-url", r.DatabaseURL)
	if code := r.stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("a polite end exits with %d", code)
	}
	if log := r.log.String(); !strings.Contains(log, `"msg":"crowd","people":40`) || !strings.Contains(log, `"failed":0,"server_errors":0`) {
		t.Errorf("the last line of the crowd is missing, or tells of failures:\n%s", log)
	}
	r = startDemo(t, dir)
	if rate := r.roomRate(t); rate != 200 {
		t.Errorf("without a crowd the room lets in %v people a second", rate)
	}
	r.usher(t, exitOK, "0 violations", "audit", "--database-url", r.DatabaseURL)
	if code := r.stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("a polite end exits with %d", code)
	}
}
