package seatmap

import (
	"context"
	"io"
	"sync"
	"time"

	"usher"
)

// queueMax bounds the messages that wait for one reader: 8 s of frames at the
// fastest pace. The messages themselves are shared by all readers.
const queueMax = 32

// Stream is one reader of an event's frames. Next and Close may be called from
// different goroutines.
type Stream struct {
	follower *follower

	mu     sync.Mutex
	queue  [][]byte
	reset  bool // the queue overflowed and one reset stands for all it held
	ended  bool
	notify chan struct{} // capacity one
}

func newStream(f *follower) *Stream { return &Stream{follower: f, notify: make(chan struct{}, 1)} }

// Next returns the SSE messages that are due, at least one, in order. It waits
// until there is one and fails with io.EOF when the stream has ended, and with
// the context's error. Messages are shared and must not be changed.
func (s *Stream) Next(ctx context.Context) ([][]byte, error) {
	for {
		s.mu.Lock()
		out, ended := s.queue, s.ended
		s.queue, s.reset = nil, false
		s.mu.Unlock()
		if len(out) > 0 {
			return out, nil
		}
		if ended {
			return nil, io.EOF
		}
		select {
		case <-s.notify:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close gives the stream's place free. It may be called more than once.
func (s *Stream) Close() {
	s.follower.remove(s)
	s.end()
}

// Beat returns a heartbeat message: the database time as it is known, and
// whether the database answers.
func (s *Stream) Beat() []byte { return s.follower.beat() }

// push queues a message. A reader whose queue is full loses what waits and is
// told to take a new snapshot instead: memory stays bounded, and it knows.
func (s *Stream) push(wire []byte, reset func() []byte) (slow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	switch {
	case len(s.queue) < queueMax:
		s.queue = append(s.queue, wire)
	case s.reset:
		// What followed the reset that waits already is dropped as well: one reset
		// stands for it, too.
		s.queue = append(s.queue[:0], reset())
	default:
		s.queue, s.reset, slow = append(s.queue[:0], reset()), true, true
	}
	select {
	case s.notify <- struct{}{}:
	default:
	}
	return slow
}

func (s *Stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	select {
	case s.notify <- struct{}{}:
	default:
	}
}

// Subscribe opens a stream that continues from the reader's position: what it
// misses comes first, from the frames of the last while, or as a reset when its
// position is older than those, from another past, or not known (pass a zero
// Position). It fails with CodeBusy when the event has all the streams it may
// have, CodeNotFound, and CodeUnavailable.
func (h *Hub) Subscribe(ctx context.Context, event usher.EventID, from Position) (*Stream, error) {
	for {
		f, v, err := h.loaded(ctx, event)
		if err != nil {
			return nil, err
		}
		// A reader that comes from another process may be ahead of this one.
		if from.Seq > v.pos.Seq {
			if err := f.refresh(ctx); err != nil {
				return nil, err
			}
		}
		s := newStream(f)
		ok, err := f.add(s, from)
		if err != nil {
			return nil, err
		}
		if ok {
			return s, nil
		}
		// The follower went to rest between the two steps: wake a new one.
	}
}

// add lets the stream in with what it misses; ok is false when the follower has
// ended.
func (f *follower) add(s *Stream, from Position) (ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false, nil
	}
	if len(f.streams) >= f.hub.cfg.StreamsMax {
		return false, &usher.Error{Code: usher.CodeBusy, Message: "too many people watch this seat map", RetryAfter: 5 * time.Second}
	}
	missed, known := f.missed(from)
	if !known {
		f.hub.metrics.resetStart.Inc()
		missed = []frame{newReset(f.view.Load())}
	}
	for _, m := range missed {
		s.queue = append(s.queue, m.wire)
	}
	f.streams[s] = true
	f.hub.metrics.streams.Inc()
	return true, nil
}

// missed returns the frames a reader at the position needs. f.mu is held.
func (f *follower) missed(from Position) (out []frame, known bool) {
	v := f.view.Load()
	if from == (Position{}) || from.Seq > v.pos.Seq {
		return nil, false
	}
	for _, m := range f.ring {
		if m.seq > from.Seq || m.lapsed > from.Lapse {
			out = append(out, m)
		}
	}
	switch {
	case len(out) == 0:
		return nil, v.pos.Seq <= from.Seq && v.lapsed <= from.Lapse
	case len(out) > queueMax:
		return nil, false
	}
	return out, out[0].from.Seq <= from.Seq && out[0].from.Lapse <= from.Lapse
}

func (f *follower) remove(s *Stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.streams[s] {
		delete(f.streams, s)
		f.hub.metrics.streams.Dec()
	}
	f.used = time.Now()
}
