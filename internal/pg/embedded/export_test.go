package embedded

import (
	"syscall"
	"time"
)

// Hurried makes a configuration wait for d instead of half a minute before
// harder means are used.
func Hurried(cfg Config, d time.Duration) Config {
	cfg.patience = patience{answer: d, fast: d, immediate: d}
	return cfg
}

// ServerCredential is whom the server runs as; nil is the caller.
func ServerCredential() (*syscall.Credential, error) {
	who, err := serverAccount()
	return who.cred, err
}

// Pid is the server's first process.
func (c *Cluster) Pid() int { return c.server.pid }

// MaxLog is where a start begins a new log file, in bytes.
const MaxLog = maxLog

// DownloadPackage names a package of any platform, for Download's tests.
type DownloadPackage = downloadPackage

// NewDownloadPackage makes one.
func NewDownloadPackage(name, sha512 string) DownloadPackage { return downloadPackage{name, sha512} }

// DownloadFrom is Download for a given package.
var DownloadFrom = download

// Candidates lists the folders that Find looks at.
var Candidates = candidates

// Unpack is the part of Download that trusts nobody.
var Unpack = unpack
