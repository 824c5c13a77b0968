package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"usher"
)

const (
	// childStart is how long a child may take until it is ready. A predecessor that
	// still holds the data folder is gone well within it.
	childStart = 20 * time.Second
	// childStop is how long a child may take to end by itself.
	childStop = 8 * time.Second
	// childPause is the wait between two starts.
	childPause = 500 * time.Millisecond
)

// child runs this same binary as another process and keeps it running. The
// child ends when its standard input ends, so it never outlives this process,
// even one that was killed.
type child struct {
	name string
	args []string
	env  []string
	log  *slog.Logger
	// binary is what to run; empty is this process's own.
	binary string
}

// run starts the child, reports its URL on ready once, restarts it whenever it
// ends, and ends it with ctx. It fails when the first start does.
func (c *child) run(ctx context.Context, ready chan<- string) error {
	var started atomic.Bool
	deadline := time.Now().Add(childStart)
	for {
		err := c.runOnce(ctx, func(url string) {
			if started.CompareAndSwap(false, true) {
				ready <- url
			}
		})
		if ctx.Err() != nil {
			return nil
		}
		if !started.Load() && time.Now().After(deadline) {
			return &usher.Error{Code: usher.CodeUnavailable, Message: "the " + c.name + " does not start", Err: err}
		}
		if started.Load() {
			c.log.Warn("a child process ended and is started again", "child", c.name, "error", err)
		}
		pause := time.NewTimer(childPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil
		}
	}
}

// runOnce runs the child until it ends or ctx does.
func (c *child) runOnce(ctx context.Context, ready func(url string)) error {
	binary := c.binary
	if binary == "" {
		own, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find own binary: %w", err)
		}
		binary = own
	}
	cmd := exec.Command(binary, c.args...)
	cmd.Env = append(os.Environ(), c.env...)
	// A terminal sends Ctrl-C to the whole group: the child has to outlive this
	// process's last requests to it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	tail := &lastLine{}
	cmd.Stderr = tail
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	ended := make(chan error, 1)
	go func() {
		// Wait closes the pipe, so it comes after the last read.
		announce(stdout, ready)
		ended <- cmd.Wait()
	}()
	select {
	case err := <-ended:
		return errors.Join(fmt.Errorf("%s ended: %s", c.name, tail), err)
	case <-ctx.Done():
	}
	_ = stdin.Close()
	t := time.NewTimer(childStop)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
		_ = cmd.Process.Kill()
		<-ended
	}
	return nil
}

// announce reads the child's ready line, and then whatever else it prints.
func announce(stdout io.Reader, tell func(url string)) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var r ready
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.URL != "" {
			tell(r.URL)
			break
		}
	}
	_, _ = io.Copy(io.Discard, stdout)
}

// lastLine keeps the last line of a child's log: the reason of an early end.
type lastLine struct {
	mu   sync.Mutex
	line []byte
	done bool
}

// Write implements io.Writer.
func (l *lastLine) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range b {
		switch {
		case c == '\n':
			l.done = true
		case l.done:
			l.line, l.done = append(l.line[:0], c), false
		case len(l.line) < 4096:
			l.line = append(l.line, c)
		}
	}
	return len(b), nil
}

// String returns the last line.
func (l *lastLine) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.line)
}
