package checkout

import (
	"testing"
	"time"

	"usher"
	"usher/internal/payment"
)

func TestAnswersMeanWhatTheySay(t *testing.T) {
	tests := []struct {
		name string
		call call
		o    payment.Outcome
		want fact
	}{
		{"silence", callAuthorize, payment.Outcome{}, factUnknown},
		{"silence with a state is still silence", callAuthorize, payment.Outcome{State: payment.StateAuthorized}, factUnknown},
		{"approved", callAuthorize, payment.Outcome{Kind: payment.Approved, State: payment.StateAuthorized}, factAuthorized},
		{"approved, no state", callAuthorize, payment.Outcome{Kind: payment.Approved}, factAuthorized},
		{"approved and captured", callAuthorize, payment.Outcome{Kind: payment.Approved, State: payment.StateCaptured}, factCaptured},
		{"approved, replayed, cancelled since", callAuthorize, payment.Outcome{Kind: payment.Approved, State: payment.StateVoided, Replayed: true}, factClosed},
		{"declined", callAuthorize, payment.Outcome{Kind: payment.Declined, State: payment.StateDeclined}, factDeclined},
		{"declined, no state", callAuthorize, payment.Outcome{Kind: payment.Declined}, factDeclined},
		{"declined, cancelled", callAuthorize, payment.Outcome{Kind: payment.Declined, State: payment.StateVoided}, factClosed},
		{"declined, but authorized", callAuthorize, payment.Outcome{Kind: payment.Declined, State: payment.StateAuthorized}, factUnknown},
		{"declined, but captured", callAuthorize, payment.Outcome{Kind: payment.Declined, State: payment.StateCaptured}, factUnknown},
		{"challenge", callAuthorize, payment.Outcome{Kind: payment.ActionRequired}, factActionRequired},
		{"pending", callAuthorize, payment.Outcome{Kind: payment.Pending, State: payment.StateCreated}, factPending},
		{"rejected", callAuthorize, payment.Outcome{Kind: payment.Rejected, State: payment.StateDeclined}, factUnknown},
		{"not executed", callAuthorize, payment.Outcome{Kind: payment.NotExecuted}, factUnknown},
		{"a verdict of the future", callAuthorize, payment.Outcome{Kind: 99}, factUnknown},
		{"a state of the future", callAuthorize, payment.Outcome{Kind: payment.Approved, State: "teleported"}, factAuthorized},
		{"void approved without a state proves nothing", callVoid, payment.Outcome{Kind: payment.Approved}, factUnknown},
		{"void approved", callVoid, payment.Outcome{Kind: payment.Approved, State: payment.StateVoided}, factClosed},
		{"void declined, captured", callVoid, payment.Outcome{Kind: payment.Declined, State: payment.StateCaptured}, factCaptured},
		{"capture approved", callCapture, payment.Outcome{Kind: payment.Approved, State: payment.StateCaptured}, factCaptured},
		{"capture pending", callCapture, payment.Outcome{Kind: payment.Pending, State: payment.StateCapturePending}, factCapturing},
		{"capture declined, expired", callCapture, payment.Outcome{Kind: payment.Declined, State: payment.StateExpired}, factClosed},
	}
	for _, tt := range tests {
		if got := ofOutcome(tt.call, tt.o).fact; got != tt.want {
			t.Errorf("%s: fact %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestOnlyOurOwnIntentIsEvidence(t *testing.T) {
	auth := at(0, sent).auth
	snapshot := func(change func(*payment.Snapshot)) payment.Snapshot {
		s := payment.Snapshot{
			State: payment.StateAuthorized, Reference: auth.Reference, Amount: total, CaptureBefore: epoch.Add(time.Hour),
			Metadata: payment.Metadata{OperationID: auth.ID, OrderID: auth.Order, EventID: 7},
		}
		change(&s)
		return s
	}
	tests := []struct {
		name   string
		change func(*payment.Snapshot)
		want   fact
	}{
		{"ours", func(*payment.Snapshot) {}, factAuthorized},
		{"another operation's", func(s *payment.Snapshot) { s.Metadata.OperationID = usher.NewOperationID(7) }, factUnknown},
		{"nobody's", func(s *payment.Snapshot) { s.Metadata = payment.Metadata{} }, factUnknown},
		{"another intent", func(s *payment.Snapshot) { s.Reference = "pi_2" }, factUnknown},
		{"not found", func(s *payment.Snapshot) { *s = payment.Snapshot{State: payment.StateNotFound} }, factUnknown},
		{"failed read", func(s *payment.Snapshot) { *s = payment.Snapshot{} }, factUnknown},
	}
	for _, tt := range tests {
		if got := ofSnapshot(snapshot(tt.change), auth).fact; got != tt.want {
			t.Errorf("%s: fact %d, want %d", tt.name, got, tt.want)
		}
	}
	taken := ofSnapshot(snapshot(func(s *payment.Snapshot) {
		s.State, s.AmountReceived = payment.StateCaptured, usher.Money{AmountMinor: 7, Currency: "TWD"}
	}), auth)
	if taken.amount.AmountMinor != 7 {
		t.Errorf("a captured intent counts %s, want what was received", taken.amount)
	}
	if e := ofSnapshot(snapshot(func(s *payment.Snapshot) {
		s.State, s.Action = payment.StateActionRequired, payment.Action{Kind: payment.ActionSDK, URL: "x"}
	}), auth); e.actionURL != "" {
		t.Error("a challenge for the provider's own client has no address to send a browser to")
	}
}

// Every state of the port has a meaning here, or is known to prove nothing.
func TestEveryProviderStateIsConsidered(t *testing.T) {
	proofless := map[payment.State]bool{payment.StateUnknown: true, payment.StateNotFound: true}
	all := []payment.State{payment.StateUnknown, payment.StateNotFound, payment.StateCreated, payment.StateActionRequired, payment.StatePending,
		payment.StateAuthorized, payment.StateCapturePending, payment.StateCaptured, payment.StateVoided, payment.StateExpired,
		payment.StateDeclined, payment.StatePartlyRefunded, payment.StateRefunded, payment.StateDisputed}
	for _, s := range all {
		f, ok := factOfState[s]
		if ok == proofless[s] {
			t.Errorf("state %q: in the table %v", s, ok)
		}
		if (f == factClosed) != s.Closed() {
			t.Errorf("state %q: closed here and there differ", s)
		}
	}
}
