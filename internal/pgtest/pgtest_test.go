//go:build unix

package pgtest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestStartStop(t *testing.T) {
	n := Start(t)
	if got := n.SQL(t, "SELECT 1 + 1"); got != "2" {
		t.Errorf("got %q, want 2", got)
	}
	n.SQL(t, "CREATE TABLE kept(x int); INSERT INTO kept VALUES(7)")
	pid, _ := n.pidFile()
	n.Kill(t)
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the killed server: %v, want %v", err, syscall.ESRCH)
	}
	n.Start(t)
	if got := n.SQL(t, "SELECT x FROM kept"); got != "7" {
		t.Errorf("after a restart: got %q, want 7", got)
	}
}

func TestShared(t *testing.T) {
	n := Shared(t)
	if Shared(t) != n {
		t.Error("two shared servers")
	}
	if a, b := n.Schema(t), n.Schema(t); a == b {
		t.Errorf("two schemas called %s", a)
	}
}

func TestCluster(t *testing.T) {
	c := StartCluster(t)
	first := c.Primary()
	first.SQL(t, "CREATE TABLE kept(x int); INSERT INTO kept VALUES(7)")
	first.Kill(t)
	c.Failover(t)
	if c.Primary() == first {
		t.Fatal("the killed node is the primary")
	}
	c.Primary().SQL(t, "INSERT INTO kept VALUES(8)")
	c.Rejoin(t, first)
	err := poll(func() (bool, error) {
		return first.SQL(t, "SELECT string_agg(x::text, ' ' ORDER BY x) FROM kept") == "7 8", nil
	})
	if err != nil {
		t.Errorf("the rows in the node that came back: %v", err)
	}
}

// What a killed test leaves must go: the server, which sees its input end.
func TestKeeper(t *testing.T) {
	p := find(t)
	dir, err := p.tempDir()
	if err != nil {
		t.Fatal(err)
	}
	n, err := newNode(p, dir, "n1", nil)
	if err != nil {
		t.Fatal(err)
	}
	n.temporary = true
	if err := n.initialize(); err != nil {
		t.Fatal(err)
	}
	n.Start(t)
	if err := n.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(n.dir)); !os.IsNotExist(err) {
		t.Errorf("the folder of a temporary server: %v, want it gone", err)
	}
}
