package web_test

import (
	"net/http"
	"reflect"
	"testing"

	"usher"
	"usher/internal/ledger"
)

// P45: the same request in another form is the same command, wherever its key is
// written; an unknown field is refused before anything is asked.
func TestSameRequestInOtherForms(t *testing.T) {
	w := newWorld(t)
	var got []ledger.PlaceHold
	w.ledger.placeHold = func(c ledger.PlaceHold) (ledger.Hold, error) {
		c.Session = usher.SessionID{} // the fake admits with a fresh one each time
		got = append(got, c)
		return someHold(c.Account), nil
	}
	token := `"admissionToken":"admission of ` + alice.String() + `"`
	forms := []struct {
		body string
		head []string
	}{
		{`{"seatIds":["A-1","A-2"],"idempotencyKey":"K",` + token + `}`, nil},
		{"{ " + token + " ,\n\t\"idempotencyKey\" : \"K\",\r\n \"seatIds\" : [ \"A-1\" , \"A-2\" ] }", nil},
		{`{"seatIds":["\u0041-1","A-2"],` + token + `}`, []string{"Idempotency-Key", "K"}},
	}
	for _, f := range forms {
		if a := w.do(t, http.MethodPost, "/v1/events/evt_7/holds", aliceToken, f.body, f.head...); a.status != http.StatusCreated {
			t.Fatalf("%s: %d %s", f.body, a.status, a.body)
		}
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], got[0]) {
			t.Errorf("form %d is %+v, the first one %+v", i, got[i], got[0])
		}
	}
	a := w.do(t, http.MethodPost, "/v1/events/evt_7/holds", aliceToken, `{"seatIds":["A-1","A-2"],"idempotencyKey":"K","colour":"red",`+token+`}`)
	if a.status < 400 || a.status >= 500 || len(got) != len(forms) {
		t.Errorf("an unknown field: %d %s, %d commands", a.status, a.body, len(got))
	}
}
