package mailcatch

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	mailsMax = 2000
	bytesMax = 256 << 20
	fileName = "mails.jsonl"
)

// record is one line of the file.
type record struct {
	ID         int64     `json:"id"`
	ReceivedAt time.Time `json:"receivedAt"`
	From       string    `json:"from"`
	To         []string  `json:"to"`
	Raw        []byte    `json:"raw"`
}

// entry is one mail in memory: as it came, and what the list shows of it.
type entry struct {
	record
	subject, messageID string
	attachments        int
}

func newEntry(r record) *entry {
	m := parse(r.Raw)
	return &entry{record: r, subject: m.Subject, messageID: m.MessageID, attachments: len(m.parts)}
}

// store keeps the newest mails. Everything below mu is guarded by it.
type store struct {
	path string

	mu      sync.Mutex
	file    *os.File
	entries []*entry // oldest first
	bytes   int
	lines   int // lines in the file, those of dropped mails included
	lastID  int64
	changed chan struct{} // closed and replaced at every new mail
}

// openStore reads the file of an earlier run. A last line that was cut by a
// crash is dropped: its sender was never told that the mail was taken.
func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make mail folder: %w", err)
	}
	s := &store{path: filepath.Join(dir, fileName), changed: make(chan struct{})}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("read mails: %w", err)
	}
	// Always rewritten: the file then ends in a whole line and has no stale ones.
	if err := s.compact(); err != nil {
		return nil, fmt.Errorf("rewrite mails: %w", err)
	}
	return s, nil
}

func (s *store) load() error {
	f, err := os.Open(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var rec record
		if json.Unmarshal(line, &rec) == nil && rec.ID > s.lastID {
			s.push(newEntry(rec))
		}
	}
}

// push adds to memory and drops the oldest beyond the bounds, but never the newest.
func (s *store) push(e *entry) {
	s.entries = append(s.entries, e)
	s.bytes += len(e.Raw)
	s.lastID = e.ID
	drop := 0
	for len(s.entries)-drop > mailsMax || s.bytes > bytesMax && len(s.entries)-drop > 1 {
		s.bytes -= len(s.entries[drop].Raw)
		drop++
	}
	s.entries = slices.Delete(s.entries, 0, drop)
}

// compact replaces the file by one of the mails in memory. Dying before the
// rename leaves the old file as it was.
func (s *store) compact() error {
	tmp, err := os.OpenFile(s.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(tmp)
	enc := json.NewEncoder(w)
	for _, e := range s.entries {
		err = errors.Join(err, enc.Encode(e.record))
	}
	if err = errors.Join(err, w.Flush()); err == nil {
		err = os.Rename(s.path+".new", s.path)
	}
	if err != nil {
		return errors.Join(err, tmp.Close())
	}
	if s.file != nil {
		_ = s.file.Close() // the old file's content is not needed any more
	}
	s.file, s.lines = tmp, len(s.entries)
	return nil
}

// add stores a mail: first in the file, then in memory.
func (s *store) add(from string, to []string, raw []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return errors.New("store mail: the catcher is closed")
	}
	e := newEntry(record{ID: s.lastID + 1, ReceivedAt: time.Now().UTC(), From: from, To: to, Raw: raw})
	var line bytes.Buffer
	if err := json.NewEncoder(&line).Encode(e.record); err != nil {
		return fmt.Errorf("store mail: %w", err)
	}
	if _, err := s.file.Write(line.Bytes()); err != nil {
		// Part of the line may be there; a rewrite leaves whole lines only.
		return fmt.Errorf("store mail: %w", errors.Join(err, s.compact()))
	}
	s.lines++
	s.push(e)
	if s.lines > 2*mailsMax {
		if err := s.compact(); err != nil {
			return fmt.Errorf("rewrite mails: %w", err)
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}

// query selects mails; zero fields select all.
type query struct {
	// to is one recipient, in any letter case; text is part of sender, recipient
	// or subject, in any letter case.
	to, text string
	// after selects mails with a higher id.
	after int64
	limit int
}

func (q query) matches(e *entry) bool {
	fold := func(s string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(q.text)) }
	return e.ID > q.after &&
		(q.to == "" || slices.ContainsFunc(e.To, func(a string) bool { return strings.EqualFold(a, q.to) })) &&
		(q.text == "" || fold(e.subject) || fold(e.From) || slices.ContainsFunc(e.To, fold))
}

// find returns the matching mails, newest first, and a channel that is closed
// when another mail comes.
func (s *store) find(q query) (found []*entry, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range slices.Backward(s.entries) {
		if len(found) == q.limit || e.ID <= q.after {
			break
		}
		if q.matches(e) {
			found = append(found, e)
		}
	}
	return found, s.changed
}

// get returns one mail, or nil.
func (s *store) get(id int64) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := slices.BinarySearchFunc(s.entries, id, func(e *entry, id int64) int { return cmp.Compare(e.ID, id) })
	if !ok {
		return nil
	}
	return s.entries[i]
}

func (s *store) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}
