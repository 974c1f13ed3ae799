package s3server

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/archive/bucket/s3"
)

// program is the path of the server's program.
var program string

// TestMain builds the server's program, which the tests start as a process of its own.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "s3server")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "versitygw")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/versity/versitygw/cmd/versitygw").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s%v\n", out, err)
		return 1
	}
	return m.Run()
}

// credentials are those that the server is started with.
var credentials = s3.Credentials{AccessKeyID: "greenroom", SecretAccessKey: "greenroom-secret"}

// A server is one on loopback, with a bucket named backups. Its address and its objects outlive its process.
type server struct {
	t       *testing.T
	dir     string
	address string
	process *exec.Cmd
}

// newServer starts a server until the test ends.
func newServer(t *testing.T) *server {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.2:0") // connections come from 127.0.0.1, so that none gets the port
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, dir: t.TempDir(), address: free.Addr().String()}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "backups"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// start starts the process. It doesn't wait until the server answers: its clients do.
func (s *server) start() {
	s.t.Helper()
	s.process = exec.Command(program, "--quiet", "--port", s.address, "--access", credentials.AccessKeyID, "--secret", credentials.SecretAccessKey, "posix", s.dir)
	s.process.Stderr = s.t.Output()
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// kill ends the process at once.
func (s *server) kill() {
	if err := s.process.Process.Kill(); err != nil {
		s.t.Error(err)
	}
	if _, err := s.process.Process.Wait(); err != nil {
		s.t.Error(err)
	}
}

// open opens a prefix of the bucket, with the patience that a server takes to start.
func (s *server) open(prefix string) bucket.Bucket {
	s.t.Helper()
	return s.openPatient(prefix, time.Minute)
}

// openPatient opens a prefix of the bucket.
func (s *server) openPatient(prefix string, patience time.Duration) bucket.Bucket {
	s.t.Helper()
	b, err := s3.Open(s.t.Context(), "s3://backups/"+prefix, &s3.Options{Endpoint: "http://" + s.address, Credentials: &credentials, Patience: patience})
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}
