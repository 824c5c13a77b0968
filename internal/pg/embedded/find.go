package embedded

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"usher"
)

// MinMajor is the oldest PostgreSQL that usher runs on.
const MinMajor = 15

// EnvBin names the environment variable that points at a folder of PostgreSQL
// server binaries. When set, no other place is looked at.
const EnvBin = "USHER_POSTGRES_BIN"

// EnvState names the environment variable that moves the state folder.
const EnvState = "USHER_STATE_DIR"

// Installation is a set of PostgreSQL server binaries.
type Installation struct {
	// Bin is the absolute folder of initdb, postgres and pg_ctl.
	Bin string
	// Major is the major version, 15 or newer.
	Major int
	// Version is what the server calls itself, e.g. "15.20".
	Version string
}

// serverPrograms must all be there; a client-only installation has none of them.
var serverPrograms = []string{"initdb", "postgres", "pg_ctl"}

// systemPlaces are where packages of the common systems put server binaries, as
// glob patterns.
var systemPlaces = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/libexec/postgresql*",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// StateDir returns the folder where usher keeps what must survive a restart of
// this machine: USHER_STATE_DIR, else /var/lib/usher for root, else the user's
// own state folder. It does not create it.
func StateDir() (string, error) {
	if dir := os.Getenv(EnvState); dir != "" {
		return filepath.Abs(dir)
	}
	if os.Geteuid() == 0 {
		// Not below root's home: the unprivileged server must be able to walk in.
		return "/var/lib/usher", nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "usher"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", &usher.Error{Code: usher.CodeUnavailable, Err: err,
			Message: "no home folder: set " + EnvState + " to a folder for usher's state"}
	}
	return filepath.Join(home, ".local", "state", "usher"), nil
}

// Find returns the first complete installation of PostgreSQL >= 15 among
// USHER_POSTGRES_BIN, `pg_config --bindir`, the usual places of the system
// (newest first), PATH, and the copy that Download made in the state folder.
// It fails with CodeUnavailable and a message that says what to install.
func Find(ctx context.Context) (Installation, error) {
	return find(ctx, 0)
}

// find prefers the given major version and falls back to the first usable one;
// 0 has no preference.
func find(ctx context.Context, major int) (Installation, error) {
	if bin := os.Getenv(EnvBin); bin != "" {
		in, err := inspect(ctx, bin)
		if err != nil {
			return Installation{}, &usher.Error{Code: usher.CodeUnavailable, Err: err,
				Message: fmt.Sprintf("%s is set, but cannot be used: %v", EnvBin, err)}
		}
		return in, nil
	}
	var first Installation
	for _, bin := range candidates(ctx) {
		in, err := inspect(ctx, bin)
		if err != nil {
			continue
		}
		if major == 0 || in.Major == major {
			return in, nil
		}
		if first.Bin == "" {
			first = in
		}
	}
	if err := ctx.Err(); err != nil {
		return Installation{}, fmt.Errorf("look for PostgreSQL: %w", err)
	}
	if first.Bin == "" {
		return Installation{}, usher.Errorf(usher.CodeUnavailable,
			"PostgreSQL %d or newer was not found on this machine. Install it with `apt-get install postgresql`"+
				" (or your system's package), or run `make demo`, which installs it;"+
				" if it is in an unusual place, set %s to the folder that holds initdb and postgres", MinMajor, EnvBin)
	}
	return first, nil
}

// candidates lists folders to look at, best first, without duplicates.
func candidates(ctx context.Context) []string {
	var dirs []string
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, string(bytes.TrimSpace(out)))
	}
	for _, pattern := range systemPlaces {
		found, err := filepath.Glob(pattern)
		if err != nil {
			panic("embedded: bad pattern " + pattern)
		}
		slices.SortFunc(found, func(a, b string) int { return numberIn(b) - numberIn(a) })
		dirs = append(dirs, found...)
	}
	for _, program := range serverPrograms {
		if path, err := exec.LookPath(program); err == nil {
			// Debian links single programs into PATH; the others live beside the target.
			if real, err := filepath.EvalSymlinks(path); err == nil {
				dirs = append(dirs, filepath.Dir(real))
			}
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	if state, err := StateDir(); err == nil {
		dirs = append(dirs, DownloadedBin(state))
	}
	var unique []string
	for _, d := range dirs {
		if !slices.Contains(unique, d) {
			unique = append(unique, d)
		}
	}
	return unique
}

var digits = regexp.MustCompile(`[0-9]+`)

// numberIn returns the version number in a path, 0 when it has none.
func numberIn(path string) int {
	n, err := strconv.Atoi(digits.FindString(path))
	if err != nil {
		return 0
	}
	return n
}

// versionText matches "postgres (PostgreSQL) 15.20 (Debian ...)", "18.4", "19beta1".
var versionText = regexp.MustCompile(`\(PostgreSQL\) (([0-9]+)[^ \n]*)`)

// inspect tells what the folder holds, or why it cannot be used.
func inspect(ctx context.Context, bin string) (Installation, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return Installation{}, fmt.Errorf("resolve folder: %w", err)
	}
	for _, program := range serverPrograms {
		if _, err := exec.LookPath(filepath.Join(bin, program)); err != nil {
			return Installation{}, fmt.Errorf("%s has no runnable %s", bin, program)
		}
	}
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return Installation{}, fmt.Errorf("ask postgres in %s for its version: %w", bin, err)
	}
	m := versionText.FindSubmatch(out)
	if m == nil {
		return Installation{}, fmt.Errorf("postgres in %s says %q for its version", bin, strings.TrimSpace(string(out)))
	}
	major, err := strconv.Atoi(string(m[2]))
	if err != nil || major < MinMajor {
		return Installation{}, fmt.Errorf("PostgreSQL in %s is %s, older than %d", bin, m[1], MinMajor)
	}
	return Installation{Bin: bin, Major: major, Version: string(m[1])}, nil
}
