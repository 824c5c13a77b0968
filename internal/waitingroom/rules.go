package waitingroom

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"usher"
)

// Policy says how places within a round are ordered.
type Policy string

// PolicyFIFO orders by buckets of equal length, with a permutation inside each.
const PolicyFIFO Policy = "fifo"

// Rules are the published rules of one round, frozen when the room leaves the
// scheduled phase. Their JSON is stored and served byte for byte; the hash
// people compare is over those bytes. Words like "database" are stable keywords
// that the pages put into people's languages.
type Rules struct {
	Event  usher.EventID `json:"eventId"`
	Round  int           `json:"round"`
	Policy Policy        `json:"policy"`
	// BucketMillis is the granularity: who joins within it is in random order.
	BucketMillis int `json:"bucketMillis"`
	// Clock says whose time counts: "database".
	Clock string `json:"clock"`
	// Person says who counts as one person: "account".
	Person string `json:"person"`
	// Reconnect and Devices: "same_place", however often and from wherever.
	Reconnect string `json:"reconnect"`
	Devices   string `json:"devices"`
	// ClaimSeconds is how long a called place may wait to be claimed, counted
	// while the room admits; NoShow is what happens then: "rejoin_at_end".
	ClaimSeconds int    `json:"claimSeconds"`
	NoShow       string `json:"noShow"`
	// IdleSeconds ends a shopper's session that does nothing.
	IdleSeconds int `json:"idleSeconds"`
	// PurchaseLimit is the most places an account may hold and own together.
	PurchaseLimit int `json:"purchaseLimit"`
	// Risk says how risk signals are used: "recorded_only".
	Risk string `json:"risk"`
	// NotPromised lists what nobody should expect.
	NotPromised []string `json:"notPromised"`
	// SeedHash is the SHA-256, in hex, of the secret that the permutation keys
	// come from. PublicValue names the later public value that is mixed in; null
	// means the order is not independently checkable.
	SeedHash    string  `json:"seedHash"`
	PublicValue *string `json:"publicValue"`
}

// RoomSetup is what a waiting room is made of.
type RoomSetup struct {
	Event usher.EventID
	// OpensAt is the announced start of the sale, for people; nil is not announced.
	// The room opens by SetPhase.
	OpensAt *time.Time
	// BucketTime is the granularity of the order; 0 means 100 ms.
	BucketTime time.Duration
	// ClaimWindow is how long a called place waits, in whole seconds; 0 means 2 min.
	ClaimWindow time.Duration
	// IdleWindow ends an idle shopper session, in whole seconds; 0 means 15 min.
	IdleWindow time.Duration
	// PurchaseLimit is published with the rules; the ledger enforces it.
	PurchaseLimit int
	// RatePerSecond and ActiveMax are the first settings; operators change them later.
	RatePerSecond float64
	ActiveMax     int
}

// The ranges of settings.
const (
	rateMax     = 100_000
	activeLimit = 1_000_000
	messageMax  = 500
	windowMax   = 24 * time.Hour
)

// normalize fills in the defaults and checks every range. It fails with
// CodeInvalidRequest.
func (s RoomSetup) normalize() (RoomSetup, error) {
	if s.BucketTime == 0 {
		s.BucketTime = 100 * time.Millisecond
	}
	if s.ClaimWindow == 0 {
		s.ClaimWindow = 2 * time.Minute
	}
	if s.IdleWindow == 0 {
		s.IdleWindow = 15 * time.Minute
	}
	wholeIn := func(d, unit, most time.Duration) bool { return d >= unit && d <= most && d%unit == 0 }
	switch {
	case s.Event < 1 || s.Event > usher.EventIDMax:
		return s, usher.Errorf(usher.CodeInvalidRequest, "event number out of range")
	case !wholeIn(s.BucketTime, time.Millisecond, time.Hour):
		return s, usher.Errorf(usher.CodeInvalidRequest, "bucket time must be whole milliseconds of at most an hour")
	case !wholeIn(s.ClaimWindow, time.Second, windowMax) || !wholeIn(s.IdleWindow, time.Second, windowMax):
		return s, usher.Errorf(usher.CodeInvalidRequest, "claim and idle windows must be whole seconds of at most a day")
	case s.PurchaseLimit < 1:
		return s, usher.Errorf(usher.CodeInvalidRequest, "purchase limit must be at least 1")
	}
	if err := checkRate(s.RatePerSecond); err != nil {
		return s, err
	}
	return s, checkCap(s.ActiveMax)
}

func checkRate(perSecond float64) error {
	// Written so that NaN fails, too.
	if !(perSecond >= 0 && perSecond <= rateMax) {
		return usher.Errorf(usher.CodeInvalidRequest, "admission rate must be 0 to %d people a second", rateMax)
	}
	return nil
}

func checkCap(activeMax int) error {
	if activeMax < 0 || activeMax > activeLimit {
		return usher.Errorf(usher.CodeInvalidRequest, "cap of active shoppers must be 0 to %d", activeLimit)
	}
	return nil
}

// rules returns the setup's rules for its first round, with no seed yet.
func (s RoomSetup) rules() Rules {
	return Rules{
		Event:         s.Event,
		Round:         1,
		Policy:        PolicyFIFO,
		BucketMillis:  int(s.BucketTime / time.Millisecond),
		Clock:         "database",
		Person:        "account",
		Reconnect:     "same_place",
		Devices:       "same_place",
		ClaimSeconds:  int(s.ClaimWindow / time.Second),
		NoShow:        "rejoin_at_end",
		IdleSeconds:   int(s.IdleWindow / time.Second),
		PurchaseLimit: s.PurchaseLimit,
		Risk:          "recorded_only",
		NotPromised:   []string{"strict_global_fifo", "proof_of_humanity"},
	}
}

// publication is a round's rules as they are published, with their secret.
type publication struct {
	seed, text []byte
	hash       [32]byte
}

// publish draws a new seed, commits to it in the rules and encodes them.
func (r Rules) publish() (publication, error) {
	seed := make([]byte, 32)
	// crypto/rand.Read never returns an error since Go 1.24.
	_, _ = rand.Read(seed)
	commitment := sha256.Sum256(seed)
	r.SeedHash = hex.EncodeToString(commitment[:])
	text, err := json.Marshal(r)
	return publication{seed: seed, text: text, hash: sha256.Sum256(text)}, err
}

// parameters are the rules without what differs from round to round by itself.
func (r Rules) parameters() Rules {
	r.Round, r.SeedHash, r.NotPromised = 0, "", nil
	return r
}
