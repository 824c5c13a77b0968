package catalog

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"usher"
	"usher/internal/pg"
)

// Status is where an event is in its life.
type Status string

// The states of an event: draft to published, published to cancelled or ended,
// and draft to cancelled.
const (
	StatusDraft     Status = "draft"
	StatusPublished Status = "published"
	StatusCancelled Status = "cancelled"
	StatusEnded     Status = "ended"
)

// nameMax is in characters, of any script.
const nameMax = 200

// Event is an event as the directory knows it. Times are instants; StartsAt and
// the others are shown to people in TimeZone.
type Event struct {
	ID     usher.EventID
	Tenant usher.TenantID
	Slug   string
	Name   string
	Venue  string

	StartsAt time.Time
	// TimeZone is the IANA name of the venue's zone.
	TimeZone string
	// QueueOpensAt is when people may begin to join the waiting room; nil is at
	// publication. OpensAt is when the sale opens by itself; nil is by hand.
	QueueOpensAt *time.Time
	OpensAt      *time.Time

	Currency usher.Currency
	// Rules are the ones the sale begins with; the ledger has those in force.
	Rules usher.Rules
	// RatePerSecond and ActiveMax are the waiting room's first settings.
	RatePerSecond float64
	ActiveMax     int

	Status Status
	// Chart is the hash of the event's chart, "" before one was imported and for
	// pure general admission.
	Chart string
	// Tiers are the price tiers: those of the chart in its order, once they have
	// prices, and then the standing ones.
	Tiers []Tier

	CreatedAt time.Time
	// FrozenAt is when the first publication began.
	FrozenAt    *time.Time
	PublishedAt *time.Time
	ClosedAt    *time.Time
}

// NewEvent is what an event begins with.
type NewEvent struct {
	Tenant       usher.TenantID
	Slug         string // unique; lower-case letters, digits and single hyphens, at most 63
	Name         string // 1 to 200 characters of any script
	Venue        string // likewise
	StartsAt     time.Time
	TimeZone     string
	QueueOpensAt *time.Time
	OpensAt      *time.Time
	Currency     usher.Currency
	// Rules default to usher.DefaultRules; their sale status, currency and price
	// version are set here.
	Rules *usher.Rules
	// RatePerSecond and ActiveMax default to 100 people a second and 10,000 shoppers.
	RatePerSecond float64
	ActiveMax     int
	// Shard is the event's home; 0 is the first that is configured.
	Shard pg.ShardNumber
}

var slugPattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// normalize fills in the defaults and checks everything. It fails with
// CodeInvalidRequest.
func (n NewEvent) normalize() (NewEvent, error) {
	// A copy: the caller's rules stay as they are.
	rules := usher.DefaultRules(n.Currency)
	if n.Rules != nil {
		rules = *n.Rules
	}
	rules.Sale, rules.Currency, rules.PriceVersion = usher.SaleScheduled, n.Currency, 1
	n.Rules = &rules
	if n.RatePerSecond == 0 {
		n.RatePerSecond = 100
	}
	if n.ActiveMax == 0 {
		n.ActiveMax = 10_000
	}
	if err := checkName("name", n.Name); err != nil {
		return n, err
	}
	if err := checkName("venue", n.Venue); err != nil {
		return n, err
	}
	if _, err := LoadZone(n.TimeZone); err != nil {
		return n, err
	}
	if err := rules.Validate(); err != nil {
		return n, err
	}
	switch {
	case n.Slug == "":
		return n, usher.Errorf(usher.CodeInvalidRequest, "slug is empty: the event needs a unique name of lower-case letters, digits and single hyphens")
	case len(n.Slug) > 63 || !slugPattern.MatchString(n.Slug):
		return n, usher.Errorf(usher.CodeInvalidRequest, "slug must be lower-case letters, digits and single hyphens, at most 63")
	case n.StartsAt.Year() < 2000 || n.StartsAt.Year() > 9999:
		return n, usher.Errorf(usher.CodeInvalidRequest, "startsAt must be in the years 2000 to 9999")
	case n.QueueOpensAt != nil && n.QueueOpensAt.After(n.StartsAt):
		return n, usher.Errorf(usher.CodeInvalidRequest, "queueOpensAt must not be after startsAt: the queue opens before the event starts")
	case n.OpensAt != nil && n.OpensAt.After(n.StartsAt):
		return n, usher.Errorf(usher.CodeInvalidRequest, "opensAt must not be after startsAt: the sale opens before the event starts")
	case rules.SaleClosesAt != nil && n.OpensAt != nil && !rules.SaleClosesAt.After(*n.OpensAt):
		return n, usher.Errorf(usher.CodeInvalidRequest, "rules.saleClosesAt must be after opensAt: the sale opens before it closes")
	case n.QueueOpensAt != nil && n.OpensAt != nil && n.QueueOpensAt.After(*n.OpensAt):
		return n, usher.Errorf(usher.CodeInvalidRequest, "queueOpensAt must not be after opensAt: the queue opens before the sale does")
	case !(n.RatePerSecond > 0 && n.RatePerSecond <= 100_000):
		return n, usher.Errorf(usher.CodeInvalidRequest, "ratePerSecond must be above 0 and at most 100000")
	case n.ActiveMax < 1 || n.ActiveMax > 1_000_000:
		return n, usher.Errorf(usher.CodeInvalidRequest, "activeMax must be 1 to 1000000")
	}
	return n, nil
}

// checkName checks text that people read.
func checkName(what, s string) error {
	if strings.TrimSpace(s) == "" {
		return usher.Errorf(usher.CodeInvalidRequest, "%s is empty", what)
	}
	if err := usher.CheckText(what, s, nameMax*utf8.UTFMax); err != nil {
		return err
	}
	if utf8.RuneCountInString(s) > nameMax {
		return usher.Errorf(usher.CodeInvalidRequest, "%s is longer than %d characters", what, nameMax)
	}
	return nil
}

// same reports whether the event was created from n, so that a creation whose
// answer was lost can be repeated.
func (e *Event) same(n NewEvent) bool {
	equal := func(a, b *time.Time) bool { return (a == nil) == (b == nil) && (a == nil || a.Equal(*b)) }
	return e.Tenant == n.Tenant && e.Slug == n.Slug && e.Name == n.Name && e.Venue == n.Venue &&
		e.StartsAt.Equal(n.StartsAt) && e.TimeZone == n.TimeZone && e.Currency == n.Currency &&
		equal(e.OpensAt, n.OpensAt) && equal(e.QueueOpensAt, n.QueueOpensAt) && e.RatePerSecond == n.RatePerSecond &&
		e.ActiveMax == n.ActiveMax && equal(e.Rules.SaleClosesAt, n.Rules.SaleClosesAt) && withoutEnd(e.Rules) == withoutEnd(*n.Rules)
}

func withoutEnd(r usher.Rules) usher.Rules {
	r.SaleClosesAt = nil
	return r
}

// clone keeps callers from sharing the cache's slices.
func (e Event) clone() Event {
	e.Tiers = slices.Clone(e.Tiers)
	return e
}

// storedRules is the JSON of the rules column: durations in whole seconds.
type storedRules struct {
	SaleClosesAt         *time.Time `json:"saleClosesAt,omitempty"`
	AdmissionRequired    bool       `json:"admissionRequired"`
	PurchaseLimit        int        `json:"purchaseLimit"`
	HoldSeconds          int        `json:"holdSeconds"`
	GraceSeconds         int        `json:"graceSeconds"`
	PayMarginSeconds     int        `json:"payMarginSeconds"`
	PendingPerAccountMax int        `json:"pendingPerAccountMax"`
	PendingPerEventMax   int        `json:"pendingPerEventMax"`
}

func encodeRules(r usher.Rules) ([]byte, error) {
	return json.Marshal(storedRules{
		r.SaleClosesAt, r.AdmissionRequired, r.PurchaseLimit, int(r.HoldTime / time.Second), int(r.Grace / time.Second),
		int(r.PayMargin / time.Second), r.PendingPerAccountMax, r.PendingPerEventMax,
	})
}

func decodeRules(raw []byte, currency usher.Currency) (usher.Rules, error) {
	var s storedRules
	err := json.Unmarshal(raw, &s)
	return usher.Rules{
		Sale:                 usher.SaleScheduled,
		SaleClosesAt:         s.SaleClosesAt,
		AdmissionRequired:    s.AdmissionRequired,
		PurchaseLimit:        s.PurchaseLimit,
		HoldTime:             time.Duration(s.HoldSeconds) * time.Second,
		Grace:                time.Duration(s.GraceSeconds) * time.Second,
		PayMargin:            time.Duration(s.PayMarginSeconds) * time.Second,
		PendingPerAccountMax: s.PendingPerAccountMax,
		PendingPerEventMax:   s.PendingPerEventMax,
		PriceVersion:         1,
		Currency:             currency,
	}, err
}

// microseconds cuts times to what the database keeps.
func (n NewEvent) microseconds() NewEvent {
	cut := func(t *time.Time) *time.Time {
		if t == nil {
			return nil
		}
		short := t.Truncate(time.Microsecond)
		return &short
	}
	n.StartsAt, n.OpensAt, n.QueueOpensAt = n.StartsAt.Truncate(time.Microsecond), cut(n.OpensAt), cut(n.QueueOpensAt)
	n.Rules.SaleClosesAt = cut(n.Rules.SaleClosesAt)
	return n
}
