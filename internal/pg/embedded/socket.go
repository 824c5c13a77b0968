package embedded

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	// superuser is the role that initdb makes; usher's programs connect as it.
	superuser = "usher"
	// port is only a part of the socket's name: nothing listens on TCP. It is
	// always spelled out so that a PGPORT in the environment changes nothing.
	port = "5432"
	// maxSocketPath is in bytes, below the 104 that the shortest sun_path allows.
	maxSocketPath = 100
	// shortPrefix marks the temporary socket folders that are ours to remove.
	shortPrefix = "usher-pg-"
)

// plainPath has no character that the server's list of folders, libpq's list of
// hosts or a command line would take for something else.
var plainPath = regexp.MustCompile(`^[A-Za-z0-9/._+-]+$`)

// socketName is the socket in dir.
func socketName(dir string) string { return filepath.Join(dir, ".s.PGSQL."+port) }

// makeSocketDir returns an empty folder that only the server's user may enter:
// run in the data folder if its path is short and plain, otherwise a new one
// under the system's temporary folder.
func makeSocketDir(dataDir string, who account) (string, error) {
	dir := filepath.Join(dataDir, "run")
	if len(socketName(dir)) < maxSocketPath && plainPath.MatchString(dir) {
		if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			return "", fmt.Errorf("make socket folder: %w", err)
		}
		// Nobody listens there while the folder's lock is ours and no server runs;
		// a lock file of a dead one could name a pid that is somebody else's now.
		clearSockets(dir)
	} else {
		var err error
		if dir, err = shortSocketDir(); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return "", fmt.Errorf("protect socket folder: %w", err)
	}
	if err := who.own(dir); err != nil {
		return "", fmt.Errorf("give socket folder to user %s: %w", who.name, err)
	}
	return dir, nil
}

func shortSocketDir() (string, error) {
	parent := os.TempDir()
	if !plainPath.MatchString(parent) || len(socketName(filepath.Join(parent, shortPrefix+"0123456789"))) >= maxSocketPath {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, shortPrefix)
	if err != nil {
		return "", fmt.Errorf("make socket folder: %w", err)
	}
	return dir, nil
}

func clearSockets(dir string) {
	// What cannot be removed makes the server refuse to start, and say why.
	_ = os.Remove(socketName(dir))
	_ = os.Remove(socketName(dir) + ".lock")
}

// dropSocketDir removes a temporary socket folder after its server is gone. It
// removes no file but the server's two, whatever dir says.
func dropSocketDir(dir string) {
	if strings.HasPrefix(filepath.Base(dir), shortPrefix) {
		clearSockets(dir)
		_ = os.Remove(dir)
	}
}

// socketURL is understood by pgx and psql alike. A folder adopted from an older
// server may hold any character, and '+' is no space to libpq.
func socketURL(socketDir, database string) string {
	host := strings.ReplaceAll(url.QueryEscape(socketDir), "+", "%20")
	return "postgres://" + superuser + "@/" + url.PathEscape(database) + "?host=" + host + "&port=" + port
}
