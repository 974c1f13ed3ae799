//go:build unix

package pgtest

import (
	"testing"

	"github.com/greenroomdb/greenroom/internal/pglocal"
)

func TestStartStop(t *testing.T) {
	n := Start(t)
	if got := n.SQL(t, "SELECT 1 + 1"); got != "2" {
		t.Errorf("got %q, want 2", got)
	}
	n.SQL(t, "CREATE TABLE kept(x int); INSERT INTO kept VALUES(7)")
	n.Kill(t)
	if n.Running() {
		t.Error("the killed server is running")
	}
	if _, err := n.Node.SQL("SELECT 1"); err == nil {
		t.Error("the killed server answers")
	}
	n.Start(t)
	if got := n.SQL(t, "SELECT x FROM kept"); got != "7" {
		t.Errorf("after a restart: got %q, want 7", got)
	}
}

func TestShared(t *testing.T) {
	n := Shared(t)
	if Shared(t).Port != n.Port {
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
	err := pglocal.Poll(func() (bool, error) {
		return first.SQL(t, "SELECT string_agg(x::text, ' ' ORDER BY x) FROM kept") == "7 8", nil
	})
	if err != nil {
		t.Errorf("the rows in the node that came back: %v", err)
	}
}
