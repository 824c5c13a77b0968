package ledger

import (
	"slices"
	"sync"

	"usher"
)

// watchers tells readers in this process that an event committed something. It
// only saves them their poll: nothing depends on it.
type watchers struct {
	mu     sync.Mutex
	events map[usher.EventID]map[chan struct{}]bool
	// all holds the readers with the types of entry each wants; nil is all.
	all map[chan usher.EventID][]EntryType
}

// Watch returns a channel that receives after commits of this process to the
// event (coalesced: capacity one), and a function that ends the watch. Commits
// of other processes are found by polling Changes.
func (l *Ledger) Watch(event usher.EventID) (wake <-chan struct{}, stop func()) {
	w := &l.watchers
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.events == nil {
		w.events = map[usher.EventID]map[chan struct{}]bool{}
	}
	if w.events[event] == nil {
		w.events[event] = map[chan struct{}]bool{}
	}
	w.events[event][c] = true
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.events[event], c)
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

// wake tells of the entries that were committed to the event.
func (w *watchers) wake(event usher.EventID, entries []*Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.events[event] {
		select {
		case c <- struct{}{}:
		default:
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
