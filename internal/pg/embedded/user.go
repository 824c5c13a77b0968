package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"usher"
)

// account is whom the server runs as. The zero value is the caller.
type account struct {
	name string
	cred *syscall.Credential
}

// serverUsers are tried in turn when usher is root.
var serverUsers = []string{"postgres", "_postgres", "nobody"}

// serverAccount is the caller itself, or an unprivileged user for root.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range serverUsers {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr != nil || gidErr != nil || uid == 0 {
			continue
		}
		return account{name: name, cred: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return account{}, usher.Errorf(usher.CodeUnavailable,
		"PostgreSQL refuses to run as root, and this machine has neither a postgres nor a nobody user: start usher as another user")
}

// own gives path and everything below it to the account.
func (a account) own(path string) error {
	if a.cred == nil {
		return nil
	}
	return filepath.WalkDir(path, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, int(a.cred.Uid), int(a.cred.Gid))
	})
}

// owns reports whether path belongs to the account already.
func (a account) owns(path string) bool {
	if a.cred == nil {
		return true
	}
	fi, err := os.Stat(path)
	if err != nil {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Uid == a.cred.Uid
}

// openWay makes every folder from the root down to dir one that the account may
// walk through. It only adds the right to enter (not to list), only where it is
// missing, and only on folders of root's; anything else is for a person to decide.
func (a account) openWay(dir string, log *slog.Logger) error {
	if a.cred == nil {
		return nil
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("resolve folder: %w", err)
	}
	for p := dir; ; p = filepath.Dir(p) {
		fi, err := os.Stat(p)
		if err != nil {
			return fmt.Errorf("look at folder: %w", err)
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		if !ok {
			return errors.New("look at folder: no owner known")
		}
		switch {
		case a.mayEnter(fi, st):
		case st.Uid != 0:
			return usher.Errorf(usher.CodeUnavailable,
				"usher runs as root, so PostgreSQL runs as %s, and that user may not enter %s:"+
					" choose another data folder, or start usher as the owner of that one", a.name, p)
		default:
			log.Info("letting the database's user pass through a folder", "folder", p, "user", a.name)
			if err := os.Chmod(p, fi.Mode()&(fs.ModePerm|fs.ModeSticky|fs.ModeSetgid|fs.ModeSetuid)|0o011); err != nil {
				return fmt.Errorf("open folder for user %s: %w", a.name, err)
			}
		}
		if p == filepath.Dir(p) {
			return nil
		}
	}
}

// mayEnter applies the kernel's rule: the first class that matches decides.
func (a account) mayEnter(fi fs.FileInfo, st *syscall.Stat_t) bool {
	switch perm := fi.Mode().Perm(); {
	case st.Uid == a.cred.Uid:
		return perm&0o100 != 0
	case st.Gid == a.cred.Gid:
		return perm&0o010 != 0
	default:
		return perm&0o001 != 0
	}
}
