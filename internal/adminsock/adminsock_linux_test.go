package adminsock_test

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/greenroomdb/greenroom/internal/adminsock"
)

// TestAnotherUser: the process of another user is turned away, whatever the modes of the files allow.
func TestAnotherUser(t *testing.T) {
	if path := os.Getenv("ADMINSOCK_DIAL"); path != "" {
		c, err := net.Dial("unix", path)
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("the other user is not turned away: %v", err)
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can begin a process of another user")
	}
	dir, err := os.MkdirTemp("", "adminsock")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	away := make(chan error, 1)
	l, err := adminsock.Listen(t.Context(), dir, func(err error) { away <- err })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("x")) // the child tells
			c.Close()
		}
	}()
	path := filepath.Join(dir, "admin.sock")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0o777)); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "test")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(program, "-test.run=^TestAnotherUser$")
	child.Dir = "/"
	child.Env = []string{"ADMINSOCK_DIAL=" + path}
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := child.CombinedOutput(); err != nil { // then the listener was told nothing
		t.Fatalf("%v: %s", err, out)
	}
	if err := <-away; !errors.Is(err, adminsock.ErrUser) {
		t.Errorf("the listener was told %v", err)
	}
}
