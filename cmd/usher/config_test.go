package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// settings is a command with one flag of each sort.
type settings struct {
	Config string        `env:"USHER_CONFIG"`
	Addr   string        `default:"from-default" env:"USHER_ADDR"`
	Roles  []string      `default:"a,b" env:"USHER_ROLE"`
	Wait   time.Duration `default:"1s" env:"USHER_WAIT"`
	Key    secret        `env:"USHER_KEY"`
}

func parse(t *testing.T, args ...string) (settings, error) {
	t.Helper()
	var s settings
	parser, err := kong.New(&s, kong.Resolvers(&configFile{}))
	if err != nil {
		t.Fatalf("make parser: %v", err)
	}
	_, err = parser.Parse(args)
	return s, err
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "usher.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatalf("write file: %v", err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	file := writeFile(t, "addr: from-file\nroles: [x, y]\nwait: 5s\nkey: from-file\n")
	check := func(name string, s settings, err error, addr string) {
		t.Helper()
		if err != nil || s.Addr != addr {
			t.Errorf("%s: addr %q, error %v, want %q", name, s.Addr, err, addr)
		}
	}
	s, err := parse(t)
	check("default", s, err, "from-default")
	s, err = parse(t, "--config", file)
	check("file", s, err, "from-file")
	if strings.Join(s.Roles, ",") != "x,y" || s.Wait != 5*time.Second || s.Key != "from-file" {
		t.Errorf("file gives %v %v", s.Roles, s.Wait)
	}
	t.Setenv("USHER_ADDR", "from-env")
	t.Setenv("USHER_CONFIG", file)
	s, err = parse(t)
	check("environment", s, err, "from-env")
	if s.Wait != 5*time.Second {
		t.Error("a file named by the environment is not read")
	}
	s, err = parse(t, "--addr", "from-flag")
	check("flag", s, err, "from-flag")
}

func TestFileIsRefused(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"unknown key": {"addr: x\nadr: hunter2\n", "unknown keys: adr"},
		"nested":      {"- addr\n- hunter2\n", "no flat YAML"},
		"twice":       {"key: hunter2\nkey: b\n", "no flat YAML"},
		"broken":      {"key: 'hunter2\n", "no flat YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, "--config", writeFile(t, tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows a value: %v", err)
			}
		})
	}
	if _, err := parse(t, "--config", filepath.Join(t.TempDir(), "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}
}

func TestUnknownEnvironmentIsRefused(t *testing.T) {
	parser, err := kong.New(&settings{})
	if err != nil {
		t.Fatalf("make parser: %v", err)
	}
	known := []string{"PATH=/bin", "USHER_ADDR=x", "USHER_FAULTS=", "USHER_SERVICE_HOST=10.0.0.1", "USHER_PORT_80_TCP=x"}
	if err := checkEnv(parser.Model, known); err != nil {
		t.Errorf("known variables are refused: %v", err)
	}
	err = checkEnv(parser.Model, append(known, "USHER_ADR=hunter2"))
	if err == nil || !strings.Contains(err.Error(), "USHER_ADR") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("an unknown variable gives %v", err)
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	type holder struct{ Key secret }
	h := holder{Key: "hunter2"}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", h.Key, "holder", fmt.Sprintf("%v %+v %#v %s", h, h, h, h.Key))
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log has the secret: %s", log.String())
	}
}

func TestSecretFrom(t *testing.T) {
	file := writeFile(t, " hunter2\n")
	if got, err := secretFrom("key", "", file); err != nil || got != "hunter2" {
		t.Errorf("from a file: %q, %v", got, err)
	}
	if got, err := secretFrom("key", "direct", ""); err != nil || got != "direct" {
		t.Errorf("direct: %q, %v", got, err)
	}
	if _, err := secretFrom("key", "direct", file); err == nil || strings.Contains(err.Error(), "direct") {
		t.Errorf("given twice: %v", err)
	}
	if _, err := secretFrom("key", "", writeFile(t, "\n")); err == nil {
		t.Error("an empty file is a secret")
	}
}

func TestSupervisor(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	t.Run("stops politely", func(t *testing.T) {
		s := newSupervisor(t.Context(), log)
		s.run("waits", loop(func(ctx context.Context) { <-ctx.Done() }))
		if err := s.stop(time.Minute); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	t.Run("a loop that fails ends all", func(t *testing.T) {
		s := newSupervisor(t.Context(), log)
		s.run("waits", loop(func(ctx context.Context) { <-ctx.Done() }))
		s.run("fails", func(context.Context) error { return errors.New("broken") })
		<-s.ctx.Done()
		if err := s.stop(time.Minute); err == nil || err.Error() != "fails: broken" {
			t.Errorf("stop: %v", err)
		}
	})
	t.Run("a loop that ends by itself ends all", func(t *testing.T) {
		s := newSupervisor(t.Context(), log)
		s.run("ends", loop(func(context.Context) {}))
		<-s.ctx.Done()
		if err := s.stop(time.Minute); err == nil || !strings.Contains(err.Error(), "ends: ended by itself") {
			t.Errorf("stop: %v", err)
		}
	})
	t.Run("a loop that hangs is named", func(t *testing.T) {
		s := newSupervisor(t.Context(), log)
		release := make(chan struct{})
		s.run("hangs", loop(func(context.Context) { <-release }))
		if err := s.stop(time.Millisecond); err == nil || !strings.Contains(err.Error(), "hangs") {
			t.Errorf("stop: %v", err)
		}
		close(release)
		s.wg.Wait()
	})
}
