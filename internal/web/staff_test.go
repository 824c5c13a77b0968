package web_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"usher"
	"usher/internal/catalog"
	"usher/internal/ledger"
)

// commandOf is the command's fields without who acts, which changes every time.
func commandOf(c any) any {
	v := reflect.New(reflect.TypeOf(c)).Elem()
	v.Set(reflect.ValueOf(c))
	v.FieldByName("By").SetZero()
	return v.Interface()
}

// Every act of staff reaches the ledger with who and why, and is written down
// before it happens.
func TestStaffActs(t *testing.T) {
	hold, order := someHold(alice), someOrder(alice)
	for name, tc := range map[string]struct {
		method, path, body, verb string
		want                     any
	}{
		"block": {"POST", "/v1/admin/events/evt_7/seats/block", `"seatIds":["A-1","A-2"]`, "seats.block",
			ledger.BlockSeats{Event: event, Seats: []usher.SeatID{"A-1", "A-2"}}},
		"unblock": {"POST", "/v1/admin/events/evt_7/seats/unblock", `"seatIds":["A-1"]`, "seats.unblock",
			ledger.UnblockSeats{Event: event, Seats: []usher.SeatID{"A-1"}}},
		"release": {"POST", "/v1/admin/holds/" + hold.ID.String() + "/release", ``, "hold.release", ledger.StaffRelease{Hold: hold.ID}},
		"cancel":  {"POST", "/v1/admin/orders/" + order.ID.String() + "/cancel", ``, "order.cancel", ledger.CancelOrder{Order: order.ID}},
		"move": {"POST", "/v1/admin/events/evt_7/tiers/pit/quota/move", `"from":1,"to":2,"quantity":3`, "quota.move",
			ledger.MoveCapacity{Event: event, Tier: "pit", From: 1, To: 2, Quantity: 3}},
		"capacity": {"PUT", "/v1/admin/events/evt_7/tiers/pit/capacity", `"capacity":0`, "quota.capacity",
			ledger.SetCapacity{Event: event, Tier: "pit"}},
		"capacity of a bucket": {"PUT", "/v1/admin/events/evt_7/tiers/pit/capacity", `"capacity":9,"bucket":4`, "quota.capacity",
			ledger.SetCapacity{Event: event, Tier: "pit", Bucket: 4, Capacity: 9}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.standing(ledger.BucketState{Tier: "pit", Bucket: 1, Available: 10})
			w.ledger.holds = map[usher.HoldID]ledger.Hold{hold.ID: hold}
			w.ledger.orders = map[usher.OrderID]ledger.Order{order.ID: order}
			send := func(reason string) answer {
				body := strings.Trim(`"reason":`+reason+`,`+tc.body, ",")
				return w.do(t, tc.method, tc.path, staffKey, "{"+body+"}")
			}
			for _, reason := range []string{`""`, `"  "`, `null`, `"a\u0007b"`, `"` + strings.Repeat("x", 501) + `"`} {
				if a := send(reason); a.status != 400 || len(w.ledger.staff)+len(w.accounts.actions) != 0 {
					t.Errorf("reason %s: %d %s", reason, a.status, a.body)
				}
			}
			if a := w.do(t, tc.method, tc.path, staffKey, "{"+tc.body+"}"); a.status != 400 || !strings.Contains(a.detail(), "reason") {
				t.Errorf("without a reason: %d %s", a.status, a.body)
			}
			if a := send(`"flooded"`); a.status != 200 && a.status != 204 {
				t.Fatalf("%d %s", a.status, a.body)
			}
			if len(w.ledger.staff) != 1 || !reflect.DeepEqual(commandOf(w.ledger.staff[0]), tc.want) {
				t.Fatalf("the ledger is asked %+v, want %+v", w.ledger.staff, tc.want)
			}
			by := reflect.ValueOf(w.ledger.staff[0]).FieldByName("By").Interface().(ledger.Staff)
			x := w.accounts.actions[0]
			if by.Reason != "flooded" || by.Operator != x.Operator || x.Verb != tc.verb || x.Target != "evt_7" || x.Reason != "flooded" {
				t.Errorf("by %+v, written down as %+v", by, x)
			}
			// What the ledger refuses is told as it says it.
			w.ledger.refuse = usher.Errorf(usher.CodeStateConflict, "44 sold and 5 held")
			if a := send(`"again"`); a.status != 409 || a.code() != usher.CodeStateConflict || a.detail() != "44 sold and 5 held" {
				t.Errorf("refused: %d %s", a.status, a.body)
			}
			w.ledger.refuse = usher.Errorf(usher.CodeNotFound, "no such thing")
			if a := send(`"again"`); a.status != 404 {
				t.Errorf("not there: %d %s", a.status, a.body)
			}
			w.accounts.tenant, w.ledger.staff = usher.NewTenantID(), nil
			if a := send(`"another tenant's"`); a.status != 404 || len(w.ledger.staff) != 0 {
				t.Errorf("another tenant: %d %s", a.status, a.body)
			}
		})
	}
}

// The answer names what was changed, which may be less than what was asked for.
func TestMovedSeatsAreNamed(t *testing.T) {
	w := newWorld(t)
	for verb, want := range map[string]string{"block": `{"seatIds":["B"]}`, "unblock": `{"seatIds":[]}`} {
		a := w.do(t, "POST", "/v1/admin/events/evt_7/seats/"+verb, staffKey, `{"reason":"r","seatIds":["B","A"]}`)
		if a.status != 200 || strings.TrimSpace(a.body) != want {
			t.Errorf("%s: %d %s", verb, a.status, a.body)
		}
	}
}

// A seat or tier that is named twice is a mistake of the caller's, wherever places
// are named; nothing is asked, and nothing is written down.
func TestNamedTwice(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct{ path, token, body, field string }{
		{"/v1/admin/events/evt_7/seats/block", staffKey, `"reason":"r","seatIds":["A","B","A"]`, "seatIds[2]"},
		{"/v1/admin/events/evt_7/seats/unblock", staffKey, `"reason":"r","seatIds":["A","A"]`, "seatIds[1]"},
		{holdsPath, aliceToken, `"idempotencyKey":"k","seatIds":["A","A"]`, "seatIds[1]"},
		{holdsPath, aliceToken, `"idempotencyKey":"k","items":[{"tierId":"pit","quantity":1},{"tierId":"pit","quantity":1}]`, "items[1].tierId"},
	} {
		a := w.do(t, "POST", tc.path, tc.token, "{"+tc.body+"}")
		if a.status != 400 || a.code() != usher.CodeInvalidRequest || !strings.Contains(a.detail(), tc.field) || !strings.Contains(a.detail(), "twice") {
			t.Errorf("%s %s: %d %s", tc.path, tc.body, a.status, a.body)
		}
	}
	if n := len(w.ledger.staff) + len(w.accounts.actions); n != 0 {
		t.Errorf("%d acts", n)
	}
}

func TestSeatListsAreBounded(t *testing.T) {
	w := newWorld(t)
	for name, seats := range map[string]string{
		"none": `[]`, "null": `null`, "an empty id": `[""]`, "a long id": `["` + strings.Repeat("x", 65) + `"]`,
		"1001": `["x"` + strings.Repeat(`,"x"`, 1000) + `]`,
	} {
		a := w.do(t, "POST", "/v1/admin/events/evt_7/seats/block", staffKey, `{"reason":"r","seatIds":`+seats+`}`)
		if a.status != 400 || !strings.Contains(a.detail(), "seatIds") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	// A thousand long ids fit.
	long := make([]string, 1000)
	for i := range long {
		long[i] = fmt.Sprintf(`"%064d"`, i)
	}
	if a := w.do(t, "POST", "/v1/admin/events/evt_7/seats/block", staffKey, `{"reason":"r","seatIds":[`+strings.Join(long, ",")+`]}`); a.status != 200 {
		t.Errorf("1000: %d %s", a.status, a.body)
	}
}

func TestQuota(t *testing.T) {
	w := newWorld(t)
	w.standing(ledger.BucketState{Tier: "meadow", Bucket: 1, Available: 7}, ledger.BucketState{Tier: "pit", Bucket: 1, Available: 1, Held: 2, Sold: 3},
		ledger.BucketState{Tier: "pit", Bucket: 2, Available: 4})
	a := w.do(t, "GET", "/v1/admin/events/evt_7/tiers/pit/quota", staffKey, "")
	if a.status != 200 || !strings.Contains(a.body, `"capacity":10,"buckets":[{"bucket":1,"available":1,"held":2,"sold":3},{"bucket":2,"available":4`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	for _, path := range []string{"/v1/admin/events/evt_7/tiers/floor/quota", "/v1/admin/events/evt_8/tiers/pit/quota"} {
		w.ledger.refuse = nil
		if path != "/v1/admin/events/evt_7/tiers/floor/quota" {
			w.ledger.quota = func() ([]ledger.BucketState, error) { return nil, usher.Errorf(usher.CodeNotFound, "no such event") }
		}
		if a := w.do(t, "GET", path, staffKey, ""); a.status != 404 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	a = w.do(t, "PUT", "/v1/admin/events/evt_7/tiers/floor/capacity", staffKey, `{"reason":"r","capacity":4}`)
	if a.status != 404 || len(w.accounts.actions) != 0 {
		t.Errorf("a tier that is not there: %d %s", a.status, a.body)
	}
	w.catalog.draft = true
	if a := w.do(t, "GET", "/v1/admin/events/evt_7/tiers/pit/quota", staffKey, ""); a.status != 409 || !strings.Contains(a.detail(), "draft") {
		t.Errorf("a draft: %d %s", a.status, a.body)
	}
}

func TestSetStanding(t *testing.T) {
	w := newWorld(t)
	w.catalog.draft = true
	set := func(tiers string) answer {
		return w.do(t, "PUT", "/v1/admin/events/evt_7/standing", staffKey, `{"tiers":`+tiers+`}`)
	}
	if a := set(`[{"tierId":"pit","name":"Pit 搖滾區","capacity":20,"buckets":4},{"tierId":"back","name":"Back","capacity":5}]`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	want := []catalog.Standing{{ID: "pit", Name: "Pit 搖滾區", Capacity: 20, Buckets: 4}, {ID: "back", Name: "Back", Capacity: 5}}
	if !reflect.DeepEqual(w.catalog.standing, want) || w.accounts.actions[0].Verb != "event.standing" {
		t.Errorf("set %+v, %+v", w.catalog.standing, w.accounts.actions)
	}
	w.catalog.standing = nil
	for name, tier := range map[string]string{
		"no id": `"name":"x","capacity":1`, "no capacity": `"tierId":"x","name":"x"`, "capacity 0": `"tierId":"x","name":"x","capacity":0`,
		"a fraction": `"tierId":"x","name":"x","capacity":1.5`, "a text": `"tierId":"x","name":"x","capacity":"7"`,
		"huge": `"tierId":"x","name":"x","capacity":10000001`, "no buckets": `"tierId":"x","name":"x","capacity":1,"buckets":0`,
		"its price": `"tierId":"x","name":"x","capacity":1,"price":5`,
	} {
		if a := set(`[{` + tier + `}]`); a.status != 400 || w.catalog.standing != nil {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := set(`null`); a.status != 400 {
		t.Errorf("no list: %d %s", a.status, a.body)
	}
}
