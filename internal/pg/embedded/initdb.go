package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"usher"
)

// unfinished marks the folders in which initdb works.
const unfinished = "initdb-"

// initialize makes the cluster folder if there is none. Dying before the rename
// leaves a folder that the next start removes; dying after it leaves a complete
// cluster. The name is random because a killed usher's initdb may still be
// writing into its own.
func initialize(ctx context.Context, cfg Config, who account) error {
	if err := removeUnfinished(ctx, cfg.DataDir); err != nil {
		return err
	}
	final := clusterDir(cfg.DataDir)
	if _, err := os.Stat(final); err == nil {
		return takeOver(cfg, who)
	}
	dir, err := os.MkdirTemp(cfg.DataDir, unfinished)
	if err != nil {
		return &usher.Error{Code: usher.CodeUnavailable, Err: err,
			Message: fmt.Sprintf("the data folder %s cannot be written: %v", cfg.DataDir, err)}
	}
	if err := who.own(dir); err != nil {
		return fmt.Errorf("give data folder to user %s: %w", who.name, err)
	}
	began := time.Now()
	if err := runInitdb(ctx, cfg, who, dir); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := os.Rename(dir, final); err != nil {
		return fmt.Errorf("name new cluster: %w", err)
	}
	if err := syncDir(cfg.DataDir); err != nil {
		return err
	}
	cfg.Log.Info("made a new PostgreSQL cluster", "data", cfg.DataDir, "version", cfg.Installation.Version,
		"took", time.Since(began).Round(time.Millisecond))
	return nil
}

func runInitdb(ctx context.Context, cfg Config, who account, dir string) error {
	args := []string{"-D", dir, "--username=" + superuser, "--auth=trust", "--encoding=UTF8", "--locale=C", "--data-checksums"}
	if !cfg.Durable {
		args = append(args, "--no-sync")
	}
	cmd := command(cfg, who, "initdb", args...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start initdb: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			return &usher.Error{Code: usher.CodeUnavailable, Err: err,
				Message: fmt.Sprintf("initdb failed in %s: %v\n%s", cfg.DataDir, err, strings.TrimSpace(out.String()))}
		}
		return nil
	case <-ctx.Done():
		// The whole session: its own server processes hold our end of the pipe open.
		// An error here means that it has just ended by itself.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		return fmt.Errorf("run initdb: %w", ctx.Err())
	}
}

// takeOver gives an existing cluster to the user that will run it now: it may
// have been made by another one.
func takeOver(cfg Config, who account) error {
	if who.owns(clusterDir(cfg.DataDir)) {
		return nil
	}
	cfg.Log.Info("giving the cluster to the database's user", "data", cfg.DataDir, "user", who.name)
	if err := who.own(clusterDir(cfg.DataDir)); err != nil {
		return fmt.Errorf("give cluster to user %s: %w", who.name, err)
	}
	return nil
}

// removeUnfinished clears what a killed start left. An initdb that is still
// alive can add files while they are removed, so one failure is not the end;
// once its folder is gone it fails and ends.
func removeUnfinished(ctx context.Context, dataDir string) error {
	left, err := filepath.Glob(filepath.Join(globEscape(dataDir), unfinished+"*"))
	if err != nil {
		return fmt.Errorf("look for unfinished clusters: %w", err)
	}
	for _, dir := range left {
		wait, cancel := context.WithTimeout(ctx, crashedTimeout)
		var last error
		err := poll(wait, func() (bool, error) {
			last = os.RemoveAll(dir)
			return last == nil, nil
		})
		cancel()
		if err != nil {
			return fmt.Errorf("remove unfinished cluster: %w", errors.Join(last, err))
		}
	}
	return nil
}

// globEscape makes a path match only itself.
func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// syncDir makes a rename in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open data folder: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync data folder: %w", err)
	}
	return nil
}
