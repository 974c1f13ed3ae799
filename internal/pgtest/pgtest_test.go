//go:build unix

package pgtest

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

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

// TestBeside copies a server by a script, and starts the copy.
func TestBeside(t *testing.T) {
	n := Start(t)
	n.SQL(t, "CREATE TABLE kept(x int); INSERT INTO kept VALUES(7)")
	b := n.Beside(t, "copy")
	if b.Port == n.Port || b.Running() {
		t.Errorf("the copy is to listen at %d, the server does at %d; running: %v", b.Port, n.Port, b.Running())
	}
	got := n.Shell(t, "pg_basebackup -c fast -d '"+n.URL("")+"' -D "+b.Dir+"\necho copied")
	if got != "copied" {
		t.Errorf("the script wrote %q", got)
	}
	b.Start(t)
	n.SQL(t, "INSERT INTO kept VALUES(8)")
	if got := b.SQL(t, "SELECT x FROM kept"); got != "7" {
		t.Errorf("in the copy: got %q, want 7", got)
	}
	if out, err := n.Node.Shell("echo before; false; echo behind"); err == nil || !strings.Contains(err.Error(), "before") || strings.Contains(err.Error(), "behind") {
		t.Errorf("a script with a command that fails: %q, %v", out, err)
	}
}

func TestShared(t *testing.T) {
	n := Shared(t)
	if Shared(t).Port != n.Port {
		t.Error("two shared servers")
	}
	if a, b := n.Schema(), n.Schema(); a == b {
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

// TestProxy has a proxy stall a connection, end it and reset it.
func TestProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	p, through := NewProxy(t, "tcp://"+l.Addr().String())
	dial := func() (client, server net.Conn) {
		t.Helper()
		client, err := net.Dial("tcp", strings.TrimPrefix(through, "tcp://"))
		must(t, err)
		server, err = l.Accept()
		must(t, err)
		t.Cleanup(func() { client.Close(); server.Close() })
		return client, server
	}
	// sent has b arrive at the other end, after what is done in between.
	sent := func(from, to net.Conn, between func()) {
		t.Helper()
		_, err := from.Write([]byte("x"))
		must(t, err)
		if between != nil {
			between()
		}
		_, err = io.ReadFull(to, make([]byte, 1))
		must(t, err)
	}
	silent := func(c net.Conn) {
		t.Helper()
		must(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes have come, %v", n, err)
		}
		must(t, c.SetReadDeadline(time.Time{}))
	}
	client, server := dial()
	for _, ends := range [][2]net.Conn{{client, server}, {server, client}} {
		from, to := ends[0], ends[1]
		sent(from, to, nil)
		p.Set(Stall, Stall)
		sent(from, to, func() { silent(to); p.Set(Pass, Pass) })
	}
	p.Set(Stall, Stall)
	server.Close()
	silent(client)
	p.Set(Pass, Pass)
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the server has closed the connection: %v", err)
	}
	client, server = dial()
	sent(client, server, nil)
	p.Reset()
	for _, c := range []net.Conn{client, server} {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a reset connection: %v", err)
		}
	}
}
