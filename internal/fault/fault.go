// Package fault lets tests break usher at named points of its own code: real
// crashes (SIGKILL to itself), errors, delays, barriers. A point that is not
// armed costs one atomic load.
//
// Points are armed by the environment variable USHER_FAULTS at start ("name=kill",
// "name=error", "name=twice", "name=delay:50ms", "name@3=kill" for the third pass,
// comma-separated) or by Arm from a test in the same process.
package fault

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrInjected is what an armed "error" action returns.
var ErrInjected = errors.New("injected fault")

// ErrTwice is what an armed "twice" action returns; points that send something
// then send it twice.
var ErrTwice = errors.New("injected repetition")

// Action is what happens when a point is reached.
type Action func(ctx context.Context) error

// Kill ends the process with SIGKILL, as a power cut would: no deferred code runs.
func Kill(context.Context) error {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// Fail makes the point return ErrInjected.
func Fail(context.Context) error { return ErrInjected }

// Twice makes a point that knows ErrTwice do what it guards twice.
func Twice(context.Context) error { return ErrTwice }

// Delay makes the point wait, or return early when ctx ends.
func Delay(d time.Duration) Action {
	return func(ctx context.Context) error {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return nil
	}
}

type armed struct {
	action Action
	// pass is the pass that fires; 0 is every pass.
	pass  int64
	count atomic.Int64
}

var (
	active atomic.Bool
	mu     sync.Mutex
	points = map[string]*armed{}
)

// Point is a named place where a test may break the code. It returns nil unless
// an armed action returns an error.
func Point(ctx context.Context, name string) error {
	if !active.Load() {
		return nil
	}
	mu.Lock()
	a := points[name]
	mu.Unlock()
	if a == nil {
		return nil
	}
	if n := a.count.Add(1); a.pass != 0 && n != a.pass {
		return nil
	}
	slog.WarnContext(ctx, "fault point fired", "point", name)
	return a.action(ctx)
}

// Arm makes the point run the action on the given pass (1 is the first, 0 is
// every pass) and returns a function that disarms it.
func Arm(name string, pass int, action Action) (disarm func()) {
	mu.Lock()
	defer mu.Unlock()
	points[name] = &armed{action: action, pass: int64(pass)}
	active.Store(true)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		delete(points, name)
		active.Store(len(points) > 0)
	}
}

// Passes returns how often the armed point was reached; 0 when it is not armed.
// A test whose point was never reached has proved nothing.
func Passes(name string) int64 {
	mu.Lock()
	defer mu.Unlock()
	if a := points[name]; a != nil {
		return a.count.Load()
	}
	return 0
}

// ArmFromEnv arms the points of USHER_FAULTS; the error names what cannot be read.
func ArmFromEnv(spec string) error {
	for item := range strings.SplitSeq(spec, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		point, what, ok := strings.Cut(item, "=")
		if !ok {
			return fmt.Errorf("fault %q has no action", item)
		}
		name, pass := point, 1
		if n, at, found := strings.Cut(point, "@"); found {
			v, err := strconv.Atoi(at)
			if err != nil || v < 0 {
				return fmt.Errorf("fault %q has no valid pass number", item)
			}
			name, pass = n, v
		}
		action, err := parseAction(what)
		if err != nil {
			return err
		}
		Arm(name, pass, action)
	}
	return nil
}

func parseAction(s string) (Action, error) {
	verb, arg, _ := strings.Cut(s, ":")
	switch verb {
	case "kill":
		return Kill, nil
	case "error":
		return Fail, nil
	case "twice":
		return Twice, nil
	case "delay":
		d, err := time.ParseDuration(arg)
		if err != nil {
			return nil, fmt.Errorf("fault delay %q: %w", arg, err)
		}
		return Delay(d), nil
	}
	return nil, fmt.Errorf("unknown fault action %q", verb)
}
