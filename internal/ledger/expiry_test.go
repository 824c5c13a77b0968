package ledger

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"usher"
)

// Deadlines within one slot are one message per event, which comes after each of
// them and never before; whoever comes late finds the next slot.
func TestMessagesAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMessages()
		defer m.listen()()
		for i := range 10000 {
			m.add(7, time.Second+time.Duration(i)*20*time.Microsecond)
		}
		m.add(8, 3*time.Second, 3*time.Second, -time.Hour)
		if m.queued > 4 {
			t.Errorf("10,000 holds and three more are %d messages", m.queued)
		}
		var sent []usher.EventID
		var at []time.Duration
		for start := time.Now(); time.Since(start) < 5*time.Second; {
			for _, e := range m.due() {
				sent, at = append(sent, e), append(at, time.Since(start))
			}
			<-time.After(10 * time.Millisecond)
		}
		if !slices.Equal(sent, []usher.EventID{8, 7, 8}) {
			t.Fatalf("messages for %v at %v", sent, at)
		}
		for i, deadline := range []time.Duration{0, 1200 * time.Millisecond, 3 * time.Second} {
			if at[i] < deadline || at[i] > deadline+2*slotLength {
				t.Errorf("message %d for %v came at %v", i, deadline, at[i])
			}
		}
		if m.queued != 0 || len(m.slots) != 0 {
			t.Errorf("%d messages in %d slots are left", m.queued, len(m.slots))
		}
	})
}

// Memory is bounded: what finds no room is counted and left to the sweep, and a
// process that sends no messages keeps none.
func TestMessagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMessages()
		if m.add(7, time.Second); m.queued != 0 {
			t.Error("a message is kept that nobody will send")
		}
		stop := m.listen()
		dropped := 0
		for i := range messagesMax + 5 {
			dropped += m.add(usher.EventID(i), time.Second)
		}
		if dropped != 5 || m.queued != messagesMax {
			t.Errorf("%d dropped, %d kept", dropped, m.queued)
		}
		if m.add(7, time.Second) != 0 {
			t.Error("a message that is there already was dropped")
		}
		<-time.After(2 * time.Second)
		if n := len(m.due()); n != messagesMax {
			t.Errorf("%d messages came", n)
		}
		if m.add(7, time.Second) != 0 || m.queued != 1 {
			t.Error("there is no room again")
		}
		stop()
		if m.queued != 0 || len(m.due()) != 0 {
			t.Error("messages outlive their loop")
		}
	})
}

// One look per event at a time; whoever comes meanwhile is worth one more look,
// not one each.
func TestLooksAreShared(t *testing.T) {
	m := newMessages()
	if !m.begin(7) || m.begin(7) || m.begin(7) || !m.begin(8) {
		t.Error("begin")
	}
	if !m.end(7) || m.end(7) || m.end(8) || !m.begin(7) {
		t.Error("end")
	}
}
