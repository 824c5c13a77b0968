package redemption_test

import (
	"strings"
	"testing"

	"usher"
	"usher/internal/redemption"
)

func TestDeviceCredential(t *testing.T) {
	b := setup(t)
	credential, d, err := b.RegisterDevice(t.Context(), concert, "Tor 3 北門", redemption.SettleLater, "")
	if err != nil {
		t.Fatalf("register: %v", err)
	}
	if !strings.HasPrefix(credential, "udv_"+d.ID.String()+".") || d.ID.Event() != concert || d.CreatedAt.IsZero() {
		t.Errorf("registered %+v", d)
	}
	for range 2 {
		got, err := b.Device(t.Context(), credential)
		if err != nil || !got.CreatedAt.Equal(d.CreatedAt) {
			t.Fatalf("resolve: %v", err)
		}
		got.CreatedAt = d.CreatedAt
		if got != d {
			t.Errorf("resolved %+v, want %+v", got, d)
		}
	}
	if n := b.count(t, `SELECT count(*) FROM device WHERE secret_hash = convert_to($1, 'UTF8')`, credential[len(credential)-32:]); n != 0 {
		t.Error("the secret is stored")
	}
}

// P94: nothing public opens a gate's routes, and every wrong credential gets the
// same answer, in a process that knows the device and in one that does not.
func TestDeviceRefusesCredentials(t *testing.T) {
	b := setup(t)
	credential, d, err := b.RegisterDevice(t.Context(), concert, "Gate", redemption.SettleNow, "")
	if err != nil {
		t.Fatalf("register: %v", err)
	}
	other, _, err := b.RegisterDevice(t.Context(), concert, "Gate 2", redemption.SettleNow, "")
	if err != nil {
		t.Fatalf("register: %v", err)
	}
	secret := strings.SplitN(credential, ".", 2)[1]
	bad := map[string]string{
		"empty":                  "",
		"id alone":               d.ID.String(),
		"id with prefix":         "udv_" + d.ID.String(),
		"empty secret":           "udv_" + d.ID.String() + ".",
		"id as secret":           "udv_" + d.ID.String() + "." + d.ID.String(),
		"other device's secret":  "udv_" + d.ID.String() + "." + strings.SplitN(other, ".", 2)[1],
		"one letter changed":     "udv_" + d.ID.String() + "." + flip(secret),
		"longer":                 credential + "A",
		"shorter":                credential[:len(credential)-1],
		"upper case":             strings.ToUpper(credential),
		"white space":            " " + credential,
		"unknown device":         "udv_" + usher.NewDeviceID(concert).String() + "." + secret,
		"event without a home":   "udv_" + usher.NewDeviceID(4711).String() + "." + secret,
		"another kind of id":     "udv_" + usher.NewOrderID(concert).String() + "." + secret,
		"a session token":        "uss_AAECAwQFBgcICQ.c2lnbmF0dXJl",
		"zero bytes":             "udv_" + d.ID.String() + ".\x00" + secret[1:],
		"secret of many letters": "udv_" + d.ID.String() + "." + strings.Repeat("A", 1<<16),
	}
	for _, warm := range []bool{false, true} {
		b.restart()
		if warm {
			if _, err := b.Device(t.Context(), credential); err != nil {
				t.Fatalf("resolve: %v", err)
			}
		}
		var text string
		for name, c := range bad {
			_, err := b.Device(t.Context(), c)
			if usher.CodeOf(err) != usher.CodeUnauthenticated {
				t.Errorf("%s: %v, want unauthenticated", name, err)
				continue
			}
			if text == "" {
				text = err.Error()
			}
			if err.Error() != text {
				t.Errorf("%s is answered %q, others %q", name, err, text)
			}
		}
	}
	// A home that cannot be reached is no wrong credential.
	_, err = b.Device(t.Context(), "udv_"+usher.NewDeviceID(elsewhere).String()+"."+secret)
	wantCode(t, err, usher.CodeUnavailable)
}

func flip(secret string) string {
	if secret[0] == 'A' {
		return "B" + secret[1:]
	}
	return "A" + secret[1:]
}

// P99: a revoked device is refused at once in every process, with claims in
// flight, also where its credential was resolved a moment ago.
func TestRevokeDevice(t *testing.T) {
	b := setup(t)
	credential, d, err := b.RegisterDevice(t.Context(), concert, "Gate", redemption.SettleLater, "")
	if err != nil {
		t.Fatalf("register: %v", err)
	}
	tickets := b.issue(t, concert, "A-1", "A-2")
	red := b.mustScan(t, d, tickets[0].Code)
	here := b.Redeemer
	b.restart()
	there := b.Redeemer
	for _, r := range []*redemption.Redeemer{here, there} {
		if _, err := r.Device(t.Context(), credential); err != nil {
			t.Fatalf("resolve: %v", err)
		}
	}
	for range 2 {
		if err := here.RevokeDevice(t.Context(), d.ID); err != nil {
			t.Fatalf("revoke: %v", err)
		}
	}
	_, err = here.Device(t.Context(), credential)
	wantCode(t, err, usher.CodeUnauthenticated)
	for _, r := range []*redemption.Redeemer{here, there} {
		_, err = r.Claim(t.Context(), redemption.Claim{Device: d, Code: tickets[1].Code, TransactionID: "T2"})
		wantCode(t, err, usher.CodeUnauthenticated)
		_, err = r.Claim(t.Context(), redemption.Claim{Device: d, Code: tickets[0].Code, TransactionID: red.TransactionID})
		wantCode(t, err, usher.CodeUnauthenticated)
		_, err = r.Confirm(t.Context(), redemption.Confirm{Device: d, Redemption: red.ID, TransactionID: red.TransactionID, Result: redemption.ResultAdmitted})
		wantCode(t, err, usher.CodeUnauthenticated)
	}
	if got := b.ticket(t, tickets[1]); got.Status != usher.CodeUnused {
		t.Errorf("a revoked device moved a code to %s", got.Status)
	}
	if got := b.ticket(t, tickets[0]); got.Status != usher.CodeProcessing {
		t.Errorf("a revoked device moved its claim to %s", got.Status)
	}
	if n := len(b.refusals(t, concert)); n != 0 {
		t.Errorf("a revoked device wrote %d rows", n)
	}
}

func TestRevokeDeviceThatNeverConnected(t *testing.T) {
	b := setup(t)
	credential, d, err := b.RegisterDevice(t.Context(), concert, "Spare", redemption.SettleNow, "")
	if err != nil {
		t.Fatalf("register: %v", err)
	}
	if err := b.RevokeDevice(t.Context(), d.ID); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	_, err = b.Device(t.Context(), credential)
	wantCode(t, err, usher.CodeUnauthenticated)
	wantCode(t, b.RevokeDevice(t.Context(), usher.NewDeviceID(concert)), usher.CodeNotFound)
	wantCode(t, b.RevokeDevice(t.Context(), usher.NewDeviceID(4711)), usher.CodeNotFound)
}

func TestRegisterDeviceRefuses(t *testing.T) {
	b := setup(t)
	for name, c := range map[string]struct {
		event             usher.EventID
		name, instruction string
		settle            redemption.Settle
		want              usher.Code
	}{
		"no name":          {concert, "", "", redemption.SettleNow, usher.CodeInvalidRequest},
		"long name":        {concert, strings.Repeat("x", 101), "", redemption.SettleNow, usher.CodeInvalidRequest},
		"control in name":  {concert, "a\x00b", "", redemption.SettleNow, usher.CodeInvalidRequest},
		"no settle mode":   {concert, "Gate", "", "", usher.CodeInvalidRequest},
		"other mode":       {concert, "Gate", "", "sometimes", usher.CodeInvalidRequest},
		"long instruction": {concert, "Gate", strings.Repeat("x", 501), redemption.SettleNow, usher.CodeInvalidRequest},
		"no such event":    {4711, "Gate", "", redemption.SettleNow, usher.CodeNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := b.RegisterDevice(t.Context(), c.event, c.name, c.settle, c.instruction)
			wantCode(t, err, c.want)
		})
	}
}

func TestDevices(t *testing.T) {
	b := setup(t)
	first, second := b.device(t, concert, redemption.SettleNow), b.device(t, concert, redemption.SettleLater)
	b.device(t, match, redemption.SettleNow)
	if err := b.RevokeDevice(t.Context(), first.ID); err != nil {
		t.Fatalf("revoke: %v", err)
	}
	list, err := b.Devices(t.Context(), concert)
	if err != nil || len(list) != 2 {
		t.Fatalf("listed %+v (%v), want 2 devices", list, err)
	}
	revoked := map[usher.DeviceID]bool{}
	for _, d := range list {
		revoked[d.ID] = d.RevokedAt != nil
	}
	if !revoked[first.ID] || revoked[second.ID] {
		t.Errorf("revoked: %v", revoked)
	}
}
