package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"usher"
)

func TestStateSurvives(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "state")
	first, err := openState(dir)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	if first.SimulatorKey == "" || first.WebhookSecret == "" || first.AdminToken != "" {
		t.Errorf("a new state is %+v", first)
	}
	first.AdminToken, first.Addr = "usk_x", "127.0.0.1:1234"
	first.Gates = map[usher.EventID]string{3: "udv_x"}
	if err := first.save(); err != nil {
		t.Fatalf("save: %v", err)
	}
	again, err := openState(dir)
	if err != nil {
		t.Fatalf("open again: %v", err)
	}
	if !reflect.DeepEqual(again, first) {
		t.Errorf("came back as %+v, was %+v", again, first)
	}
	info, err := os.Stat(first.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files are left, %v", len(entries), err)
	}
}

func TestDamagedStateSaysWhatToDo(t *testing.T) {
	for _, text := range []string{"", "{", "{}", `{"simulatorKey":"x"}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, stateName), []byte(text), 0o600); err != nil {
			t.Fatalf("write: %v", err)
		}
		_, err := openState(dir)
		if usher.CodeOf(err) != usher.CodeUnavailable || !strings.Contains(explain(err), "--data-dir") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFolderThatCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatalf("write: %v", err)
	}
	_, err := openState(filepath.Join(file, "below"))
	if usher.CodeOf(err) != usher.CodeUnavailable || !strings.Contains(explain(err), "--data-dir") || exitCode(err) != exitMissing {
		t.Errorf("error %v", err)
	}
}

func TestListen(t *testing.T) {
	l, err := listen("127.0.0.1:0", "")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	addr := l.Addr().String()
	_, err = listen(addr, "")
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(explain(err), "--addr") || exitCode(err) != exitMissing {
		t.Errorf("a taken port gives %v", err)
	}
	other, err := listen("127.0.0.1:0", addr)
	if err != nil || other.Addr().String() == addr {
		t.Fatalf("the last port is taken, and listen gives %v", err)
	}
	closeListener(t, other)
	closeListener(t, l)
	again, err := listen("127.0.0.1:0", addr)
	if err != nil || again.Addr().String() != addr {
		t.Fatalf("the last port is free, and listen gives %v", err)
	}
	closeListener(t, again)
	for _, bad := range []string{"8080", "", "[::1"} {
		if _, err := listen(bad, ""); usher.CodeOf(err) != usher.CodeUnavailable {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func closeListener(t *testing.T, l net.Listener) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}
