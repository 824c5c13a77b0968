package embedded_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"usher/internal/pg/embedded"
)

// fakeInstallation makes a folder of programs whose server says the given version.
func fakeInstallation(t *testing.T, version string, programs ...string) string {
	t.Helper()
	bin := t.TempDir()
	for _, p := range programs {
		script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n"
		if err := os.WriteFile(filepath.Join(bin, p), []byte(script), 0o755); err != nil {
			t.Fatalf("write program: %v", err)
		}
	}
	return bin
}

func TestFindOnThisMachine(t *testing.T) {
	t.Setenv(embedded.EnvBin, "")
	in, err := embedded.Find(t.Context())
	if err != nil {
		t.Fatalf("find: %v", err)
	}
	out, err := exec.Command(filepath.Join(in.Bin, "postgres"), "--version").Output()
	if err != nil {
		t.Fatalf("ask for version: %v", err)
	}
	if want := fmt.Sprintf("(PostgreSQL) %s", in.Version); !strings.Contains(string(out), want) || !strings.HasPrefix(in.Version, fmt.Sprint(in.Major)) {
		t.Errorf("found %+v, the server says %s", in, out)
	}
}

func TestFindByVariable(t *testing.T) {
	all := []string{"initdb", "postgres", "pg_ctl"}
	for _, tt := range []struct {
		name, version string
		programs      []string
		major         int
		words         []string
	}{
		{"good", "15.20 (Debian 15.20-0+deb12u1)", all, 15, nil},
		{"beta", "19beta1", all, 19, nil},
		{"too old", "14.13", all, 0, []string{"14.13", "older than 15"}},
		{"client only", "15.20", []string{"pg_ctl"}, 0, []string{"no runnable initdb"}},
		{"no version", "", all, 0, []string{"for its version"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bin := fakeInstallation(t, tt.version, tt.programs...)
			t.Setenv(embedded.EnvBin, bin)
			in, err := embedded.Find(t.Context())
			if tt.major == 0 {
				wantUnavailable(t, err, append(tt.words, embedded.EnvBin, bin)...)
				return
			}
			if err != nil || in.Major != tt.major || in.Bin != bin {
				t.Errorf("got %+v (%v), want major %d in %s", in, err, tt.major, bin)
			}
		})
	}
}

func TestFindThroughPathAndPgConfig(t *testing.T) {
	t.Setenv(embedded.EnvBin, "")
	inPath := fakeInstallation(t, "97.1", "initdb", "postgres", "pg_ctl")
	configured := fakeInstallation(t, "98.1", "initdb", "postgres", "pg_ctl")
	// A pg_config of a client library points at a folder without a server.
	for _, tt := range []struct {
		name, bindir string
		major        int
	}{{"server", configured, 98}, {"client only", t.TempDir(), 0}} {
		t.Run(tt.name, func(t *testing.T) {
			tools := t.TempDir()
			script := "#!/bin/sh\necho '" + tt.bindir + "'\n"
			if err := os.WriteFile(filepath.Join(tools, "pg_config"), []byte(script), 0o755); err != nil {
				t.Fatalf("write pg_config: %v", err)
			}
			t.Setenv("PATH", tools+":"+inPath+":"+os.Getenv("PATH"))
			in, err := embedded.Find(t.Context())
			if err != nil {
				t.Fatalf("find: %v", err)
			}
			if tt.major != 0 && in.Major != tt.major {
				t.Errorf("found %+v, want major %d", in, tt.major)
			}
			if in.Bin == tt.bindir && tt.major == 0 {
				t.Errorf("found a client: %+v", in)
			}
		})
	}
}

func TestFindSeesTheDownloadedCopy(t *testing.T) {
	state := t.TempDir()
	t.Setenv(embedded.EnvState, state)
	if got, err := embedded.StateDir(); err != nil || got != state {
		t.Fatalf("state folder is %q (%v), want %q", got, err, state)
	}
	bin := embedded.DownloadedBin(state)
	if err := os.MkdirAll(filepath.Dir(bin), 0o755); err != nil {
		t.Fatalf("make folder: %v", err)
	}
	if err := os.Rename(fakeInstallation(t, "99.9", "initdb", "postgres", "pg_ctl"), bin); err != nil {
		t.Fatalf("place copy: %v", err)
	}
	found := embedded.Candidates(t.Context())
	if found[len(found)-1] != bin {
		t.Errorf("the downloaded copy %s is not the last of %v", bin, found)
	}
}

func TestStateDir(t *testing.T) {
	t.Setenv(embedded.EnvState, "")
	t.Setenv("XDG_STATE_HOME", "/xdg")
	t.Setenv("HOME", "/home/somebody")
	want := "/xdg/usher"
	if os.Geteuid() == 0 {
		want = "/var/lib/usher"
	}
	if got, err := embedded.StateDir(); err != nil || got != want {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
	if os.Geteuid() == 0 {
		return
	}
	t.Setenv("XDG_STATE_HOME", "relative")
	if got, err := embedded.StateDir(); err != nil || got != "/home/somebody/.local/state/usher" {
		t.Errorf("got %q (%v)", got, err)
	}
	t.Setenv("HOME", "")
	_, err := embedded.StateDir()
	wantUnavailable(t, err, embedded.EnvState)
}
