package token

import (
	"slices"
	"time"
)

// Purpose says what a token is for.
type Purpose string

// The closed list of purposes.
const (
	Session   Purpose = "session"
	Queue     Purpose = "queue"
	Admission Purpose = "admission"
	Device    Purpose = "device"
	Ticket    Purpose = "ticket"
)

// Purposes lists every purpose once.
var Purposes = []Purpose{Session, Queue, Admission, Device, Ticket}

// announce is how long a new key is known before it signs: three refreshes, so
// that a process that missed one or two still accepts the first tokens.
const announce = 3 * refreshEvery

// slack is added to a key's overlap, for a process that could not refresh for a
// while and went on signing with the old key.
const slack = 24 * time.Hour

var lives = map[Purpose]time.Duration{
	Session:   30 * 24 * time.Hour,
	Queue:     90 * 24 * time.Hour,
	Admission: 24 * time.Hour,
	Device:    400 * 24 * time.Hour,
	Ticket:    5 * 365 * 24 * time.Hour,
}

// LifeMax returns the longest life an issuer may give a token of the purpose: a
// rotated key goes on verifying for that long, and a day more.
func LifeMax(p Purpose) time.Duration { return lives[p] }

func (p Purpose) known() bool { return slices.Contains(Purposes, p) }
