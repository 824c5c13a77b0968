package embedded

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"usher"
)

// Config says what cluster to start.
type Config struct {
	// Installation is the server to run. The zero value makes Start look for
	// one, and prefer the major version that made the data.
	Installation Installation
	// DataDir is made when it does not exist.
	DataDir string
	// Durable keeps fsync on. Only tests turn it off: a power cut then loses data.
	Durable bool
	// MaxConnections is the server's limit; 0 is 100.
	MaxConnections int
	// Settings overrides server settings by their PostgreSQL names.
	Settings map[string]string
	// Env adds "NAME=value" to the server's otherwise bare environment.
	Env []string
	// Log tells what was found and done; nil is silence.
	Log *slog.Logger

	patience patience
}

// patience is how long to wait for a server before harder means are used.
type patience struct {
	answer    time.Duration // a live orphan's first answer
	fast      time.Duration // a fast shutdown
	immediate time.Duration // an immediate one, and a kill
}

var defaultPatience = patience{answer: 30 * time.Second, fast: 30 * time.Second, immediate: 10 * time.Second}

const defaultMaxConnections = 100

// withDefaults checks the configuration and fills in what was left open.
func (c Config) withDefaults() (Config, error) {
	if c.DataDir == "" {
		return c, usher.Errorf(usher.CodeUnavailable, "no data folder was given for PostgreSQL")
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return c, fmt.Errorf("resolve data folder: %w", err)
	}
	c.DataDir = dir
	if c.MaxConnections == 0 {
		c.MaxConnections = defaultMaxConnections
	}
	if c.patience == (patience{}) {
		c.patience = defaultPatience
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// settings are the server settings that do not depend on the moment; they suit
// a 2-core machine that also runs usher and its load.
func (c Config) settings() map[string]string {
	s := map[string]string{
		"listen_addresses":        "",
		"port":                    port,
		"unix_socket_permissions": "0700",
		"max_connections":         strconv.Itoa(c.MaxConnections),
		"shared_buffers":          "256MB",
		"effective_cache_size":    "1GB",
		"wal_level":               "replica",
		"synchronous_commit":      "on",
		"fsync":                   "on",
		"full_page_writes":        "on",
		// A checkpoint in the middle of a measurement would be measured instead.
		"max_wal_size":       "2GB",
		"checkpoint_timeout": "15min",
		// Compiling plans costs more than usher's short statements take.
		"jit":             "off",
		"timezone":        "UTC",
		"log_timezone":    "UTC",
		"lc_messages":     "C",
		"log_line_prefix": "%m [%p] %u@%d ",
	}
	if !c.Durable {
		s["fsync"], s["full_page_writes"] = "off", "off"
	}
	maps.Copy(s, c.Settings)
	return s
}

// environment is what children see. The caller's PG* variables, and whatever
// else it has, must not reach the server.
func (c Config) environment() []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}, c.Env...)
}

// serverArgs is the server's command line. "-D folder" is how postmaster
// recognises it later.
func (c Config) serverArgs(socketDir string) []string {
	args := []string{"-D", clusterDir(c.DataDir)}
	settings := c.settings()
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return append(args, "-c", "unix_socket_directories="+socketDir)
}

func clusterDir(dataDir string) string { return filepath.Join(dataDir, "cluster") }
func logFile(dataDir string) string    { return filepath.Join(dataDir, "server.log") }
