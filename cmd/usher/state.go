package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"usher"
)

// demoState is what a demo needs to continue where it was: its secrets, and the
// ports that open browser tabs point at. The file is readable by its owner only.
type demoState struct {
	AdminToken string `json:"adminToken,omitempty"`
	// Gates are the credentials of the sample events' gates: a device acts for one
	// event.
	Gates map[usher.EventID]string `json:"gates,omitempty"`
	// Rates are the waiting rooms' usual rates while a crowd has slower ones.
	Rates         map[usher.EventID]float64 `json:"rates,omitempty"`
	SimulatorKey  string                    `json:"simulatorKey"`
	WebhookSecret string                    `json:"webhookSecret"`
	// Addr, SimulatorAddr and MailAddr are the addresses of the last run.
	Addr          string `json:"addr,omitempty"`
	SimulatorAddr string `json:"simulatorAddr,omitempty"`
	MailAddr      string `json:"mailAddr,omitempty"`

	path string
}

const stateName = "demo.json"

// openState reads the state in the data folder, or makes the first one. The
// message says what to do when the folder cannot be used.
func openState(dataDir string) (*demoState, error) {
	// Others may walk through, not look around: PostgreSQL runs as another user
	// when usher is root. What is secret has its own mode.
	if err := os.MkdirAll(dataDir, 0o711); err != nil {
		return nil, folderError(dataDir, err)
	}
	s := &demoState{path: filepath.Join(dataDir, stateName)}
	b, err := os.ReadFile(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.SimulatorKey, s.WebhookSecret = "sk_test_"+rand.Text(), "whsec_"+rand.Text()
		return s, s.save()
	case err != nil:
		return nil, folderError(dataDir, err)
	}
	if err := json.Unmarshal(b, s); err != nil || s.SimulatorKey == "" || s.WebhookSecret == "" {
		return nil, usher.Errorf(usher.CodeUnavailable,
			"%s is damaged: remove the folder to start afresh, or give another one with --data-dir", s.path)
	}
	return s, nil
}

// save replaces the file at once: a kill at any line leaves the old one or the
// new one.
func (s *demoState) save() error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	dir := filepath.Dir(s.path)
	f, err := os.CreateTemp(dir, stateName+".*")
	if err != nil {
		return folderError(dir, err)
	}
	_, err = f.Write(append(b, '\n'))
	// CreateTemp makes the file with mode 0600.
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return folderError(dir, err)
	}
	return nil
}

func folderError(dir string, err error) error {
	return &usher.Error{
		Code:    usher.CodeUnavailable,
		Message: fmt.Sprintf("the data folder %s cannot be written: make it writable, or give another one with --data-dir", dir),
		Err:     err,
	}
}

// listen opens the address. A port of 0 tries the last run's port first, so that
// open tabs keep working.
func listen(addr, last string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, usher.Errorf(usher.CodeUnavailable, "%q is no address to listen on: give host:port, for example 127.0.0.1:8080", addr)
	}
	if port == "0" && last != "" {
		if lastHost, _, err := net.SplitHostPort(last); err == nil && lastHost == host {
			if l, err := net.Listen("tcp", last); err == nil {
				return l, nil
			}
		}
	}
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &usher.Error{Code: usher.CodeUnavailable, Err: err,
			Message: fmt.Sprintf("%s is in use by another program: stop it, or choose another address with --addr (port 0 picks a free one)", addr)}
	case err != nil:
		return nil, &usher.Error{Code: usher.CodeUnavailable, Err: err,
			Message: fmt.Sprintf("cannot listen on %s: choose another address with --addr", addr)}
	}
	return l, nil
}
