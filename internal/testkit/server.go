package testkit

import (
	"net"
	"os"
	"os/exec"
	"testing"
)

// serverVariable names the environment variable that tells a child process which store to serve.
const serverVariable = "GREENROOM_TEST_SERVER"

// A Server is a process of its own that serves a store, to be killed. Its port stays taken meanwhile.
type Server struct {
	URL string // http://127.0.0.1:…

	t    testing.TB
	test string
	dir  string
	file *os.File // the listener
	cmd  *exec.Cmd
}

// NewServer starts the test program again, to run the test of that name alone, which calls Serve. It is killed at the end.
func NewServer(t testing.TB, test string) *Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	file, err := ln.(*net.TCPListener).File()
	Must(t, err)
	s := &Server{URL: "http://" + ln.Addr().String(), t: t, test: test, dir: t.TempDir(), file: file}
	Must(t, ln.Close())
	s.Start()
	t.Cleanup(func() {
		s.Kill()
		Must(t, file.Close())
	})
	return s
}

// Start starts the process again.
func (s *Server) Start() {
	s.t.Helper()
	s.cmd = exec.Command(os.Args[0], "-test.run=^"+s.test+"$")
	s.cmd.Env = append(os.Environ(), serverVariable+"="+s.dir)
	s.cmd.ExtraFiles = []*os.File{s.file}
	s.cmd.Stdout, s.cmd.Stderr = os.Stderr, os.Stderr
	Must(s.t, s.cmd.Start())
}

// Kill kills the process.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // it reports that the process was killed
}

// Serve returns the folder of the store and the listener that the test has to serve on until it is killed. In any other
// process than a Server's it skips the test.
func Serve(t testing.TB) (dir string, ln net.Listener) {
	t.Helper()
	if dir = os.Getenv(serverVariable); dir == "" {
		t.Skip("it is the process that other tests kill")
	}
	ln, err := net.FileListener(os.NewFile(3, "listener"))
	Must(t, err)
	return dir, ln
}
