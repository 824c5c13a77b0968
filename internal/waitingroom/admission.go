package waitingroom

import (
	"encoding/binary"
	"time"

	"usher"
	"usher/internal/token"
)

const (
	// AdmissionLife is how long an admission token lives. Admit renews it while the
	// session lives.
	AdmissionLife = 10 * time.Minute
	// ClockTolerance is how far the database clocks that two processes measured may
	// differ. It is the same for every time in an admission token: not used before
	// its issue, not used after its expiry.
	ClockTolerance = time.Minute
)

// Admission is the right to enter an event's shop. It owns no seat.
type Admission struct {
	// Token goes with every hold; it is signed and bound to event, account,
	// session and round.
	Token string
	// ExpiresAt is the token's expiry by the database clock.
	ExpiresAt time.Time
	Session   usher.SessionID
	// SessionExpiresAt is when the session ends unless it is used before.
	SessionExpiresAt time.Time
}

// admissionPayload is what an admission token says. Layout: version 1, event 4,
// round 4, account 16, session 16, issued 8, expires 8 (Unix milliseconds), big
// endian.
type admissionPayload struct {
	event           usher.EventID
	round           int
	account         usher.AccountID
	session         usher.SessionID
	issued, expires time.Time
}

const (
	admissionPayloadVersion = 1
	admissionPayloadSize    = 1 + 4 + 4 + 16 + 16 + 8 + 8
)

func (p admissionPayload) encode() []byte {
	b := make([]byte, 0, admissionPayloadSize)
	b = append(b, admissionPayloadVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(p.event))
	b = binary.BigEndian.AppendUint32(b, uint32(p.round))
	b = append(b, p.account[:]...)
	b = append(b, p.session[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(p.issued.UnixMilli()))
	return binary.BigEndian.AppendUint64(b, uint64(p.expires.UnixMilli()))
}

func decodeAdmissionPayload(b []byte) (p admissionPayload, ok bool) {
	if len(b) != admissionPayloadSize || b[0] != admissionPayloadVersion {
		return p, false
	}
	p.event = usher.EventID(binary.BigEndian.Uint32(b[1:]))
	p.round = int(binary.BigEndian.Uint32(b[5:]))
	copy(p.account[:], b[9:25])
	copy(p.session[:], b[25:41])
	p.issued = time.UnixMilli(int64(binary.BigEndian.Uint64(b[41:])))
	p.expires = time.UnixMilli(int64(binary.BigEndian.Uint64(b[49:])))
	return p, p.session.Event() == p.event
}

// sign issues an admission token. Its times are the database's as this process
// last measured it, so that a machine's own clock does not matter.
func (r *Rooms) sign(event usher.EventID, account usher.AccountID, s entrance) Admission {
	issued := r.keys.Now()
	p := admissionPayload{
		event: event, round: s.round, account: account, session: s.session,
		issued: issued, expires: issued.Add(AdmissionLife),
	}
	return Admission{
		Token:     r.keys.Sign(token.Admission, p.encode()),
		ExpiresAt: p.expires.Truncate(time.Millisecond), Session: s.session, SessionExpiresAt: s.expires,
	}
}

// VerifyAdmission checks an admission token of the account for the event and
// returns its session, without SQL. Whether that session is still live is for
// the transaction that acts on it to read. It fails with CodeAdmissionRequired
// for an empty token, CodeAdmissionExpired, CodeOlderRound for one of an earlier
// round, and CodeAdmissionInvalid for anything else that is wrong.
func (r *Rooms) VerifyAdmission(text string, event usher.EventID, account usher.AccountID) (usher.SessionID, error) {
	if text == "" {
		return usher.SessionID{}, usher.Errorf(usher.CodeAdmissionRequired, "an admission token is needed; queue first")
	}
	payload, err := r.keys.Verify(token.Admission, text)
	p, ok := decodeAdmissionPayload(payload)
	now := r.keys.Now()
	switch {
	case err != nil, !ok, p.event != event, p.account != account, now.Before(p.issued.Add(-ClockTolerance)):
		return usher.SessionID{}, usher.Errorf(usher.CodeAdmissionInvalid, "the admission token is not valid here")
	case !now.Before(p.expires.Add(ClockTolerance)):
		return usher.SessionID{}, usher.Errorf(usher.CodeAdmissionExpired, "the admission token has expired; ask for a new one")
	}
	// A room that this process has not heard of yet, or not of its newest round,
	// is behind, not wrong: the session's own state decides then.
	if v := r.view(event); v != nil && p.round < v.round {
		return usher.SessionID{}, errOlderRound()
	}
	return p.session, nil
}
