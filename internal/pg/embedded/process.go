package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pollEvery is the pause between two looks at something that sends no signal.
const pollEvery = 20 * time.Millisecond

// postmaster is a running server's first process.
type postmaster struct {
	pid       int
	dataDir   string
	socketDir string
	// exited is closed when a child of ours was reaped; nil for an adopted one.
	exited   chan struct{}
	patience patience
}

// spawn starts the server as a child in a session of its own: a Ctrl-C in the
// terminal reaches usher, which then stops the server in order. The log file is
// the server's output, so it keeps working when usher is killed.
func spawn(cfg Config, who account, socketDir string) (*postmaster, error) {
	out, err := openLog(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := command(cfg, who, "postgres", cfg.serverArgs(socketDir)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	p := &postmaster{pid: cmd.Process.Pid, dataDir: cfg.DataDir, socketDir: socketDir,
		exited: make(chan struct{}), patience: cfg.patience}
	go func() {
		// How it ended stands in the log; here only that it ended matters.
		_ = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// command prepares a PostgreSQL program to run as the account. It is not bound
// to a context: only an orderly stop may end a server.
func command(cfg Config, who account, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(cfg.Installation.Bin, program), args...)
	cmd.Dir = "/"
	cmd.Env = cfg.environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: who.cred}
	return cmd
}

// running reports whether the process is there and still this server.
func (p *postmaster) running() bool {
	if p.exited == nil {
		return isPostmaster(p.pid, p.dataDir)
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// waitExit returns nil when the process is gone, or the context's error.
func (p *postmaster) waitExit(ctx context.Context) error {
	return poll(ctx, func() (bool, error) { return !p.running(), nil })
}

// stop ends the server: first it lets running statements be rolled back and
// writes everything out (fast), then it stops without writing (immediate; the
// next start recovers from the log), at last it is killed. An ended context
// goes on to the harder ways at once. Afterwards the process is gone.
func (p *postmaster) stop(ctx context.Context) error {
	steps := []struct {
		signal syscall.Signal
		wait   time.Duration
	}{
		{syscall.SIGINT, p.patience.fast},
		{syscall.SIGQUIT, p.patience.immediate},
		{syscall.SIGKILL, p.patience.immediate},
	}
	for i, step := range steps {
		if !p.running() {
			return nil
		}
		if err := syscall.Kill(p.pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal postgres pid %d: %w", p.pid, err)
		}
		parent := ctx
		if i > 0 {
			parent = context.WithoutCancel(ctx)
		}
		wait, cancel := context.WithTimeout(parent, step.wait)
		err := p.waitExit(wait)
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("stop postgres: pid %d survives every signal", p.pid)
}

// pidFile is what matters of PostgreSQL's postmaster.pid: line 1 the process,
// line 5 the socket folder, line 8 its state.
type pidFile struct {
	pid       int
	socketDir string
	stopping  bool
}

func pidFileName(dataDir string) string { return filepath.Join(clusterDir(dataDir), "postmaster.pid") }

// readPidFile returns ok == false when there is none. A file that was cut short
// by a crash gives pid 0.
func readPidFile(dataDir string) (f pidFile, ok bool, err error) {
	b, err := os.ReadFile(pidFileName(dataDir))
	if errors.Is(err, os.ErrNotExist) {
		return pidFile{}, false, nil
	}
	if err != nil {
		return pidFile{}, false, fmt.Errorf("read pid file: %w", err)
	}
	lines := strings.Split(string(b), "\n")
	line := func(n int) string {
		if len(lines) < n {
			return ""
		}
		return strings.TrimSpace(lines[n-1])
	}
	if pid, err := strconv.Atoi(line(1)); err == nil && pid > 1 {
		f.pid = pid
	}
	f.socketDir = line(5)
	f.stopping = line(8) == "stopping"
	return f, true, nil
}

// isPostmaster reports whether pid is the first process of the server on
// dataDir. The number alone proves nothing: after a reboot it is anyone's. The
// command line does, because this package wrote it; a zombie has none.
func isPostmaster(pid int, dataDir string) bool {
	if pid <= 1 {
		return false
	}
	return strings.Contains(commandLine(pid)+" ", "postgres -D "+clusterDir(dataDir)+" ")
}

// commandLine returns the arguments of a process separated by spaces, "" when
// there is no such process. /proc shows them for every user's processes.
func commandLine(pid int) string {
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
		return strings.TrimRight(strings.ReplaceAll(string(b), "\x00", " "), " ")
	}
	if _, err := os.Stat("/proc/self"); err == nil {
		return ""
	}
	out, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// poll calls done until it is true or fails, or the context ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
