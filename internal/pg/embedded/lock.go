package embedded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"usher"
)

// lockFolder takes the folder for this process. The file stays for ever: to
// delete it would let two processes hold locks on two files of one name. It
// fails with CodeUnavailable when another process has the folder.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "usher.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &usher.Error{Code: usher.CodeUnavailable, Err: err,
			Message: fmt.Sprintf("the data folder %s cannot be written: %v", dir, errors.Unwrap(err))}
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock data folder %s: %w", dir, err)
		}
		return nil, usher.Errorf(usher.CodeUnavailable, "the data folder %s is already in use by %s", dir, holder(f))
	}
	if err := writeHolder(f); err != nil {
		f.Close()
		return nil, &usher.Error{Code: usher.CodeUnavailable, Err: err,
			Message: fmt.Sprintf("the data folder %s cannot be written: %v", dir, err)}
	}
	return f, nil
}

// unlockFolder gives the folder back. Closing alone would leave the lock with a
// child of this process that is between fork and exec.
func unlockFolder(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

func writeHolder(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// holder names the process in the lock file, for people.
func holder(f *os.File) string {
	b, err := io.ReadAll(io.LimitReader(f, 32))
	pid, convErr := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || convErr != nil {
		return "another process"
	}
	return fmt.Sprintf("pid %d", pid)
}
