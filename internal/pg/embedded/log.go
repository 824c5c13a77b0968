package embedded

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// maxLog is where a start begins a new log file, in bytes.
const maxLog = 16 << 20

// openLog opens the server's log for appending; one older generation is kept.
func openLog(dataDir string) (*os.File, error) {
	name := logFile(dataDir)
	if fi, err := os.Stat(name); err == nil && fi.Size() > maxLog {
		if err := os.Rename(name, name+".old"); err != nil {
			return nil, fmt.Errorf("rotate server log: %w", err)
		}
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open server log: %w", err)
	}
	return f, nil
}

// logTail returns the last lines of the server's log, for an error message.
func logTail(dataDir string) string {
	f, err := os.Open(logFile(dataDir))
	if err != nil {
		return "(no log)"
	}
	defer f.Close()
	const most = 2048
	if fi, err := f.Stat(); err == nil && fi.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return "(unreadable log)"
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return "(unreadable log)"
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}
