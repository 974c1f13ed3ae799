//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/memdir"
	"github.com/greenroomdb/greenroom/internal/pglocal"
)

// A Cluster is three nodes, one of which is the primary; a commit waits until one
// of the others has it on its disk too.
type Cluster struct {
	Nodes   []*Node
	primary *Node

	programs *pglocal.Programs
}

// quorum has a commit wait for any one other node.
const quorum = "synchronous_standby_names=ANY 1 (n1,n2,n3)"

// StartCluster starts a cluster that ends with the test.
func StartCluster(t testing.TB, conf ...string) *Cluster {
	t.Helper()
	p := find(t)
	dir, err := p.TempDir(memdir.Find())
	must(t, err)
	c := &Cluster{programs: p}
	t.Cleanup(func() {
		var errs []error
		for _, n := range c.Nodes {
			errs = append(errs, n.Stop())
		}
		if err := errors.Join(append(errs, os.RemoveAll(dir))...); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	for i := range 3 {
		local, err := p.New(dir, fmt.Sprintf("n%d", i+1), append([]string{quorum, "hot_standby=on"}, conf...))
		must(t, err)
		n := &Node{local}
		c.Nodes = append(c.Nodes, n)
		if i == 0 {
			must(t, n.Initialize())
			c.primary = n
		} else {
			c.copyTo(t, n)
		}
		n.Start(t)
	}
	c.await(t, 2)
	return c
}

// conninfo is how the node called name follows n.
func (n *Node) conninfo(name string) string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=postgres sslmode=disable application_name=%s", n.Port, name)
}

// Primary returns the node that takes writes, or did when it was killed.
func (c *Cluster) Primary() *Node { return c.primary }

// URL returns the address of all nodes, the first of them first, whichever is the
// primary.
func (c *Cluster) URL(query string) string {
	var nodes []*pglocal.Node
	for _, n := range c.Nodes {
		nodes = append(nodes, n.Node)
	}
	return pglocal.URL(query, nodes...)
}

// Through returns a proxy to the primary, and the address of all nodes with the proxy in
// the primary's place.
func (c *Cluster) Through(t testing.TB, query string) (*Proxy, string) {
	t.Helper()
	p, through := NewProxy(t, c.primary.URL(""))
	u, err := url.Parse(through)
	must(t, err)
	return p, strings.Replace(c.URL(query), p.server, u.Host, 1)
}

// copyTo makes a node a copy of the primary that follows it.
func (c *Cluster) copyTo(t testing.TB, n *Node) {
	t.Helper()
	_, err := c.programs.Run("pg_basebackup", "-D", n.Dir, "-R", "-X", "stream", "-c", "fast", "-d", c.primary.conninfo(n.Name))
	must(t, err)
}

// await waits until so many nodes follow the primary.
func (c *Cluster) await(t testing.TB, followers int) {
	t.Helper()
	err := pglocal.Poll(func() (bool, error) {
		got := c.primary.SQL(t, "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")
		return got == strconv.Itoa(followers), nil
	})
	if err != nil {
		t.Fatalf("pgtest: %d nodes that follow %s: %v", followers, c.primary.Name, err)
	}
}

// Failover makes the node that has received most the primary, and has the other one
// follow it. The primary so far must have been killed: nothing here keeps it from
// going on, which in a real cluster is the first thing to see to.
func (c *Cluster) Failover(t testing.TB) {
	t.Helper()
	var best *Node
	most := uint64(0)
	for _, n := range c.running() {
		if lsn := n.received(t); best == nil || lsn > most {
			best, most = n, lsn
		}
	}
	if best == nil {
		t.Fatal("pgtest: failover: no node is left")
	}
	_, err := c.programs.Run("pg_ctl", "promote", "-D", best.Dir, "-w", "-t", "300")
	must(t, err)
	c.primary = best
	followers := 0
	for _, n := range c.running() {
		if n != best {
			n.SQL(t, fmt.Sprintf("ALTER SYSTEM SET primary_conninfo = '%s'", best.conninfo(n.Name)))
			n.SQL(t, "SELECT pg_reload_conf()")
			followers++
		}
	}
	c.await(t, followers)
}

// Rejoin brings back a killed node as a copy of the primary.
func (c *Cluster) Rejoin(t testing.TB, n *Node) {
	t.Helper()
	must(t, os.RemoveAll(n.Dir))
	c.copyTo(t, n)
	n.Start(t)
	c.await(t, len(c.running())-1)
}

func (c *Cluster) running() []*Node {
	var on []*Node
	for _, n := range c.Nodes {
		if n.Running() {
			on = append(on, n)
		}
	}
	return on
}

// received returns up to where a standby has the primary's log on its disk.
func (n *Node) received(t testing.TB) uint64 {
	t.Helper()
	text := n.SQL(t, "SELECT pg_last_wal_receive_lsn()")
	high, low, _ := strings.Cut(text, "/")
	h, err := strconv.ParseUint(high, 16, 32)
	if err != nil {
		t.Fatalf("pgtest: %s has received %q: %v", n.Name, text, err)
	}
	l, err := strconv.ParseUint(low, 16, 32)
	if err != nil {
		t.Fatalf("pgtest: %s has received %q: %v", n.Name, text, err)
	}
	return h<<32 | l
}
