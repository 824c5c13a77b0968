package main

import (
	"strings"
	"testing"

	"usher"
)

// checkPlaces sells places without seats, alone and beside seats, from the queue
// to the gate, and takes them back with the commands of an operator.
func (r *running) checkPlaces(t *testing.T, festival, mixed demoEvent) {
	t.Helper()
	carol := r.signIn(t, "carol@example.com")
	items := func(tier string, n int) []map[string]any { return []map[string]any{{"tierId": tier, "quantity": n}} }
	if g := carol.do("GET", "/v1/events/"+festival.EventID.String()+"/seats", nil); g.status != 404 {
		t.Errorf("a picture of no seats: %d %s", g.status, g.raw)
	}
	_, codes := r.buyPlaces(t, carol, festival, map[string]any{"items": items("pit", 2)}, 2, "f-1")
	r.scan(t, festival, codes[0], "f-1", "")
	r.scan(t, festival, codes[0], "f-2", usher.CodeCodeUsed)
	r.scan(t, mixed, codes[1], "f-3", usher.CodeWrongPool)
	pit := festival.EventID.String()
	r.usher(t, exitOK, "1998", "event", "quota", pit, "pit")
	r.usher(t, exitOK, "1998", "event", "quota", pit, "pit", "--move", "10", "--from", "1", "--to", "3", "--reason", "box office")
	r.usher(t, exitRefused, "2 sold", "event", "capacity", pit, "pit", "1", "--reason", "too small")
	r.usher(t, exitOK, "1498", "event", "capacity", pit, "pit", "1500", "--reason", "a smaller pit")

	seats := r.freeSeats(t, mixed, 3)
	ask := map[string]any{"seatIds": seats[:2], "items": items("dancefloor", 2)}
	order, codes := r.buyPlaces(t, carol, mixed, ask, 4, "m-1")
	r.scan(t, mixed, codes[3], "m-1", "")
	hall := mixed.EventID.String()
	r.usher(t, exitRefused, seats[0], "event", "block", hall, seats[0], seats[2], "--reason", "camera")
	r.usher(t, exitOK, "blocked 1 of 1 seats", "event", "block", hall, seats[2], "--reason", "camera")
	r.usher(t, exitOK, "blocked 0 of 1 seats; the others were blocked already", "event", "block", hall, seats[2], "--reason", "again")
	r.usher(t, exitRefused, "named twice", "event", "block", hall, seats[1], seats[1], "--reason", "twice")
	again := map[string]any{"seatIds": seats, "items": items("dancefloor", 3), "idempotencyKey": "m-2"}
	path := "/v1/events/" + hall + "/holds"
	if g := carol.do("POST", path, again); g.status != 409 {
		t.Errorf("sold and blocked seats are held: %d %s", g.status, g.raw)
	}
	r.usher(t, exitOK, "unblocked 1 of 2 seats; the others were not blocked", "event", "unblock", hall, seats[1], seats[2], "--reason", "no camera")
	r.usher(t, exitOK, "cancelled", "order", "cancel", order, "--reason", "illness")
	r.scan(t, mixed, codes[0], "m-2", usher.CodeCodeVoided)
	again["idempotencyKey"] = "m-3"
	hold := carol.must(201, "POST", path, again).text("holdId")
	r.usher(t, exitOK, "released", "hold", "release", hold, "--reason", "asked for by phone")
	r.usher(t, exitOK, "released", "hold", "release", hold, "--reason", "again")

	r.usher(t, exitOK, "draft", "event", "create", "--slug", "yard", "--name", "Yard", "--venue", "Yard", "--starts-at", "2027-03-01 20:00",
		"--time-zone", "Europe/Berlin", "--currency", "EUR", "--no-queue")
	r.usher(t, exitUsage, "ID:PLACES:NAME", "event", "standing", "evt_5", "--tier", "yard")
	r.usher(t, exitUsage, "no --tier", "event", "standing", "evt_5", "--tier", "yard:20:Yard", "--buckets", "back=2")
	r.usher(t, exitOK, "20 places", "event", "standing", "evt_5", "--tier", "yard:20:Yard: all of it", "--buckets", "yard=2", "--price", "yard=1500")
	r.usher(t, exitOK, "published", "event", "publish", "evt_5")
	r.usher(t, exitOK, "0 violations", "audit", "--database-url", r.DatabaseURL)
}

// scan shows a code at an event's gate; code is the refusal, "" for none.
func (r *running) scan(t *testing.T, event demoEvent, text, transaction string, code usher.Code) {
	t.Helper()
	gate := caller{t: t, base: r.URL, token: event.DeviceCredential}
	g := gate.do("POST", "/v1/redemptions", map[string]string{"code": text, "transactionId": transaction})
	if (code == "") != (g.status == 201) || !strings.HasPrefix(g.text("code"), string(code)) {
		t.Errorf("scan %s at %s: %d %s, want %q", transaction, event.EventID, g.status, g.raw, code)
	}
}
