//go:build unix

package pglocal

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Programs says where the server's programs are, and which user may run them.
type Programs struct {
	dir string
	// as is the user that servers run as: they refuse to run as root. Nil is the
	// process's own.
	as *syscall.Credential
}

// Search looks for the programs, newest version first. Errors wrap ErrMissing.
func Search() (*Programs, error) {
	dir, err := searchDir()
	if err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return &Programs{dir: dir}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("%w that root could run: %w", ErrMissing, err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &Programs{dir: dir, as: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
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
		return "", fmt.Errorf("%w below /usr/lib/postgresql or in the PATH: %w", ErrMissing, err)
	}
	return filepath.Dir(path), nil
}

// command returns a command that runs one of the programs, as the user that may.
func (p *Programs) command(name string, args ...string) *exec.Cmd {
	return p.asUser(filepath.Join(p.dir, name), args...)
}

// asUser returns a command that runs the program at a path, as the user that servers run as.
func (p *Programs) asUser(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = "/" // not everybody may enter the folder of this process
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PGTZ=UTC")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.as}
	return cmd
}

// Run runs one of the programs to its end, and returns what it wrote.
func (p *Programs) Run(name string, args ...string) (string, error) {
	return output(name, p.command(name, args...))
}

// output runs a command to its end, and returns what it wrote.
func output(name string, cmd *exec.Cmd) (string, error) {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("pglocal: %s: %w\n%s", name, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// Shell runs a script of the shell to its end or its first command that fails, as the
// user that servers run as and with the server's programs first in its PATH. It returns
// what the script wrote.
func (p *Programs) Shell(script string) (string, error) {
	cmd := p.asUser("/bin/sh", "-euc", script)
	cmd.Env = append(cmd.Env, "PATH="+p.dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return output("sh", cmd)
}

// TempDir makes a folder for servers below parent, the system's temporary one if that
// is "". The caller removes it.
func (p *Programs) TempDir(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "greenroom-postgres-")
	if err == nil && p.as != nil {
		err = os.Chown(dir, int(p.as.Uid), int(p.as.Gid))
	}
	return dir, err
}
