package ledger

import (
	"slices"
	"sync"

	"usher"
)

// watchers tells readers in this process that an event committed something, and
// keeps its last entries for those that follow it. It saves them their poll and
// most reads: nothing depends on it.
type watchers struct {
	mu     sync.Mutex
	events map[usher.EventID]*watched
	// all holds the readers with the types of entry each wants; nil is all.
	all map[chan usher.EventID][]EntryType
}

// watched is an event that somebody follows.
type watched struct {
	wake map[chan struct{}]bool
	// tail is the last entries that this process committed, without a hole, all under
	// one epoch.
	tail  []Entry
	epoch int64
}

// tailMax is how many entries of an event are kept at least, once there were so
// many: two seconds of a siege.
const tailMax = 8192

// Watch returns a channel that receives after commits of this process to the
// event (coalesced: capacity one), and a function that ends the watch. Commits
// of other processes are found by polling Changes.
func (l *Ledger) Watch(event usher.EventID) (wake <-chan struct{}, stop func()) {
	w := &l.watchers
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.events == nil {
		w.events = map[usher.EventID]*watched{}
	}
	if w.events[event] == nil {
		w.events[event] = &watched{wake: map[chan struct{}]bool{}}
	}
	w.events[event].wake[c] = true
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		e := w.events[event]
		if delete(e.wake, c); len(e.wake) == 0 {
			delete(w.events, event)
		}
	}
}

// watchAll receives the events that committed an entry of one of the types (nil
// is any); a full channel drops the news.
func (w *watchers) watchAll(types []EntryType) (wake <-chan usher.EventID, stop func()) {
	c := make(chan usher.EventID, 256)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[chan usher.EventID][]EntryType{}
	}
	w.all[c] = types
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, c)
	}
}

// wake tells of the entries that were committed to the event under the epoch.
func (w *watchers) wake(event usher.EventID, epoch int64, entries []*Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.events[event]; e != nil {
		e.keep(epoch, entries)
		for c := range e.wake {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
	for c, types := range w.all {
		if types != nil && !slices.ContainsFunc(entries, func(e *Entry) bool { return slices.Contains(types, e.Type) }) {
			continue
		}
		select {
		case c <- event:
		default:
		}
	}
}

// keep adds committed entries to the tail. Where others committed in between, or
// a failover took entries back, the tail begins anew.
func (e *watched) keep(epoch int64, entries []*Entry) {
	if n := len(e.tail); n > 0 && (e.tail[n-1].Seq+1 != entries[0].Seq || e.epoch != epoch) {
		e.tail = nil
	}
	e.epoch = epoch
	for _, entry := range entries {
		e.tail = append(e.tail, *entry)
	}
	if len(e.tail) > 2*tailMax {
		e.tail = slices.Clone(e.tail[len(e.tail)-tailMax:])
	}
}

// after returns at most limit entries after the given number from the tail, none
// when the next one is not in it.
func (w *watchers) after(event usher.EventID, seq int64, limit int) []Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.events[event]
	if e == nil || len(e.tail) == 0 {
		return nil
	}
	first := seq + 1 - e.tail[0].Seq
	if first < 0 || first >= int64(len(e.tail)) {
		return nil
	}
	rest := e.tail[first:]
	return slices.Clone(rest[:min(limit, len(rest))])
}
