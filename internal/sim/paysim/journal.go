package paysim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// journalName is the ledger's file in the data directory.
const journalName = "ledger.jsonl"

// errLocked means that another process uses the data directory.
var errLocked = errors.New("the data directory is in use by another simulator")

// errJournalClosed is what a wait ends with after a close.
var errJournalClosed = errors.New("the ledger is closed")

// journal is an append-only file of JSON lines with one writer: lines gather
// while the previous group is being synced, so one fsync serves many requests.
type journal struct {
	f    *os.File
	done chan struct{}

	mu       sync.Mutex
	work     sync.Cond // there is something to write, or the end
	synced   sync.Cond // durable has grown, or the end
	buf      []byte
	appended int64 // lines accepted
	durable  int64 // lines on disk
	closing  bool
	err      error
}

// openJournal opens or creates the ledger, hands each whole line to replay, and
// cuts a torn tail off: that line's request was never answered.
func openJournal(dir string, replay func(line []byte) error) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, journalName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	if err := readJournal(f, replay); err != nil {
		_ = f.Close()
		return nil, err
	}
	j := &journal{f: f, done: make(chan struct{})}
	j.work.L, j.synced.L = &j.mu, &j.mu
	go j.write()
	return j, nil
}

// readJournal locks the file, replays its lines and leaves the offset behind the
// last whole one.
func readJournal(f *os.File, replay func(line []byte) error) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock ledger: %w", errLocked)
	}
	var whole int64
	for r := bufio.NewReaderSize(f, 1<<20); ; {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("read ledger: %w", err)
		}
		// A lost power supply can leave a hole where the last group was; that group
		// was never answered. Anywhere else a broken line is damage.
		if _, err := r.Peek(1); err == io.EOF && !json.Valid(line) {
			break
		}
		if err := replay(line); err != nil {
			return fmt.Errorf("replay ledger at byte %d: %w", whole, err)
		}
		whole += int64(len(line))
	}
	if err := f.Truncate(whole); err != nil {
		return fmt.Errorf("cut torn ledger tail: %w", err)
	}
	if _, err := f.Seek(whole, io.SeekStart); err != nil {
		return fmt.Errorf("seek ledger end: %w", err)
	}
	return nil
}

// append accepts a line without its newline. The line is not durable yet.
func (j *journal) append(line []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.buf = append(append(j.buf, line...), '\n')
	j.appended++
	j.work.Signal()
}

// sync returns once every line accepted before the call is on disk.
func (j *journal) sync() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	want := j.appended
	for j.durable < want && j.err == nil {
		j.synced.Wait()
	}
	if j.durable < want {
		return j.err
	}
	return nil
}

// write is the one writer. A failed write or sync is final: what is on disk is
// no longer known, so nothing is ever called durable again.
func (j *journal) write() {
	defer close(j.done)
	var spare []byte
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		for len(j.buf) == 0 && !j.closing {
			j.work.Wait()
		}
		if len(j.buf) == 0 {
			j.fail(errJournalClosed)
			return
		}
		group, upTo := j.buf, j.appended
		j.buf = spare[:0]
		j.mu.Unlock()
		_, err := j.f.Write(group)
		if err == nil {
			err = j.f.Sync()
		}
		j.mu.Lock()
		spare = group
		if err != nil {
			j.fail(fmt.Errorf("write ledger: %w", err))
			return
		}
		j.durable = upTo
		j.synced.Broadcast()
	}
}

func (j *journal) fail(err error) {
	j.err = err
	j.synced.Broadcast()
}

// close writes what was accepted and closes the file, which also unlocks it.
func (j *journal) close() error {
	j.mu.Lock()
	j.closing = true
	j.work.Signal()
	j.mu.Unlock()
	<-j.done
	err := j.err
	if errors.Is(err, errJournalClosed) {
		err = nil
	}
	// Closing alone would leave the lock with a child that is between fork and exec.
	return errors.Join(err, syscall.Flock(int(j.f.Fd()), syscall.LOCK_UN), j.f.Close())
}
