package embedded_test

import (
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"usher/internal/pg/embedded"
)

// asRoot reports whether the test may act as root. Both kinds of user have
// their own cases here: TestAsOrdinaryUser runs the ordinary user's from root.
func asRoot() bool { return os.Geteuid() == 0 }

// nobody is an unprivileged user other than the server's usual one.
func nobody(t *testing.T) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatalf("look up nobody: %v", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		t.Fatalf("read uid: %v", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		t.Fatalf("read gid: %v", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// ordinary are the tests that matter for a user who is not root.
var ordinary = []string{
	"TestSecondStartContinues", "TestOrphanIsAdopted", "TestCrashedClusterRecovers", "TestUnwritableFolder", "TestInUse", "TestStateDir",
}

// TestAsOrdinaryUser runs the tests above once more as nobody. For a caller who
// is no root they have run as they are.
func TestAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	if !asRoot() {
		return
	}
	cred := nobody(t)
	home, err := os.MkdirTemp("", "ue-nobody-")
	if err != nil {
		t.Fatalf("make folder: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	if err := os.Chown(home, int(cred.Uid), int(cred.Gid)); err != nil {
		t.Fatalf("give folder away: %v", err)
	}
	program := filepath.Join(home, "embedded.test")
	copyProgram(t, program)
	cmd := exec.Command(program, "-test.v", "-test.run", "^("+strings.Join(ordinary, "|")+")$")
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as nobody: %v\n%s", err, out)
	}
	for _, name := range ordinary {
		if !strings.Contains(string(out), "--- PASS: "+name+" ") {
			t.Errorf("as nobody: %s did not run\n%s", name, out)
		}
	}
}

func copyProgram(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("find own program: %v", err)
	}
	from, err := os.Open(self)
	if err != nil {
		t.Fatalf("open own program: %v", err)
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatalf("make program: %v", err)
	}
	if _, err := io.Copy(f, from); err != nil {
		t.Fatalf("copy program: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatalf("finish program: %v", err)
	}
}

func TestUnwritableFolder(t *testing.T) {
	if asRoot() {
		return // root may write everywhere; TestAsOrdinaryUser runs this as nobody
	}
	parent := filepath.Dir(tempDir(t))
	closed := filepath.Join(parent, "closed")
	if err := os.Mkdir(closed, 0o500); err != nil {
		t.Fatalf("make folder: %v", err)
	}
	_, err := embedded.Start(t.Context(), testConfig(closed))
	wantUnavailable(t, err, "cannot be written", closed)
	_, err = embedded.Start(t.Context(), testConfig(filepath.Join(closed, "data")))
	wantUnavailable(t, err, "cannot be made", closed)
}

func TestRootOpensTheWayForTheServer(t *testing.T) {
	t.Parallel()
	if !asRoot() {
		return // an ordinary user's server is the user itself
	}
	closed := filepath.Join(filepath.Dir(tempDir(t)), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatalf("make folder: %v", err)
	}
	cfg := testConfig(filepath.Join(closed, "data"))
	cfg.Durable = false
	c := start(t, cfg)
	fi, err := os.Stat(closed)
	if err != nil {
		t.Fatalf("look at folder: %v", err)
	}
	if fi.Mode().Perm() != 0o711 {
		t.Errorf("the folder above has mode %v, want 0711: enough to pass, not to list", fi.Mode().Perm())
	}
	st, err := os.Stat("/proc/" + strconv.Itoa(c.Pid()))
	if err != nil {
		t.Fatalf("look at server: %v", err)
	}
	if uid := st.Sys().(*syscall.Stat_t).Uid; uid == 0 {
		t.Error("the server runs as root")
	}
}

func TestRootDoesNotOpenOthersFolders(t *testing.T) {
	if !asRoot() {
		return // an ordinary user's server is the user itself
	}
	server, err := embedded.ServerCredential()
	if err != nil {
		t.Fatalf("find server account: %v", err)
	}
	// Somebody who is neither root nor the server's user.
	owner := server.Uid + 4711
	closed := filepath.Join(filepath.Dir(tempDir(t)), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatalf("make folder: %v", err)
	}
	if err := os.Chown(closed, int(owner), int(owner)); err != nil {
		t.Fatalf("give folder away: %v", err)
	}
	_, err = embedded.Start(t.Context(), testConfig(filepath.Join(closed, "data")))
	wantUnavailable(t, err, "may not enter", closed)
	fi, err := os.Stat(closed)
	if err != nil {
		t.Fatalf("look at folder: %v", err)
	}
	if fi.Mode().Perm() != 0o700 {
		t.Errorf("somebody's private folder was opened: %v", fi.Mode().Perm())
	}
}

func TestRootTakesOverAnothersData(t *testing.T) {
	t.Parallel()
	if !asRoot() {
		return // only root can
	}
	dir := usedDir(t)
	cred := nobody(t)
	err := filepath.WalkDir(filepath.Join(dir, "cluster"), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(cred.Uid), int(cred.Gid))
	})
	if err != nil {
		t.Fatalf("give data away: %v", err)
	}
	if got := kept(t, start(t, testConfig(dir))); got != "template" {
		t.Errorf("value is %q", got)
	}
}
