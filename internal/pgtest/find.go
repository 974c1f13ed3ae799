//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// programs are where the server's programs are, and who may run them.
type programs struct {
	dir string
	// as is the user that servers run as: they refuse to run as root. Nil is the
	// test's own.
	as *syscall.Credential
}

// find looks for the programs, newest version first, or skips the test.
func find(t testing.TB) *programs {
	t.Helper()
	p, err := search()
	switch {
	case err == nil:
		return p
	case os.Getenv(Require) == "1":
		t.Fatalf("pgtest: %v, and %s=1", err, Require)
	default:
		t.Skipf("needs a PostgreSQL server: %v", err)
	}
	return nil
}

func search() (*programs, error) {
	dir, err := searchDir()
	if err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return &programs{dir: dir}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("root can't run a server, and there is no other user for it: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &programs{dir: dir, as: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// searchDir returns the folder of the server's programs: Debian keeps one for each
// version, out of the PATH.
func searchDir() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	best, newest := "", 0
	for _, f := range found {
		dir := filepath.Dir(f)
		v, err := strconv.Atoi(strings.Split(filepath.Base(filepath.Dir(dir)), ".")[0])
		if err == nil && v > newest {
			best, newest = dir, v
		}
	}
	if best != "" {
		return best, nil
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return "", fmt.Errorf("no postgres below /usr/lib/postgresql or in the PATH: %w", err)
	}
	return filepath.Dir(path), nil
}

// command returns a command that runs one of the programs, as the user that may.
func (p *programs) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.dir, name), args...)
	cmd.Dir = "/" // not everybody may enter the test's folder
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PGTZ=UTC")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	return cmd
}

// output runs one of the programs to its end, and returns what it wrote.
func (p *programs) output(name string, args ...string) (string, error) {
	out, err := p.command(name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("pgtest: %s: %w\n%s", name, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// run is output for a test, which it ends when that fails.
func (p *programs) run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := p.output(name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// tempDir makes a folder that servers can use, gone with the test.
func (p *programs) tempDir() (string, error) {
	dir, err := os.MkdirTemp("", "greenroom-postgres-")
	if err == nil && p.as != nil {
		err = os.Chown(dir, int(p.as.Uid), int(p.as.Gid))
	}
	return dir, err
}
