//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/kv/pgkv"
)

// onPostgres are options of a run of seconds on the tests' server, given args.
func onPostgres(t *testing.T, n *pgtest.Node, args ...string) options {
	t.Helper()
	o := tiny(t, args...)
	var err error
	if o.engine, o.url, err = parseEngine(strings.Replace(n.URL(""), "postgres@", "postgres:secret@", 1)); err != nil {
		t.Fatal(err)
	}
	return o
}

// emptied fails the test if a run left a store on the server or a file in its folder.
func emptied(t *testing.T, n *pgtest.Node, o options) {
	t.Helper()
	// Other tests have schemas too, at the same time.
	if got := n.SQL(t, `SELECT nspname FROM pg_namespace WHERE nspname LIKE 'greenroom\_bench\_%'`); got != "" {
		t.Errorf("left on the server: %s", got)
	}
	if left, err := os.ReadDir(o.dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestPostgres runs what the program measures on PostgreSQL, but for what takes it long
// anywhere, on a server that was there before.
func TestPostgres(t *testing.T) {
	t.Parallel()
	n := pgtest.Shared(t)
	o := onPostgres(t, n, "-json", "-run", "sqlite/(insert|bulk|point|range|scan|mix|open|ops)|kv|queue")
	var out, info bytes.Buffer
	if err := o.measureAll(t.Context(), &out, &info); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{ // commits of an operation
		"sqlite/insert-1 raw": 1, "sqlite/insert-200 raw": 1, "sqlite/bulk raw": 1, "sqlite/ops rivetkit": 1,
		"sqlite/point raw": 0, "sqlite/point file-wal-full": 0, "sqlite/point memdb": 0, "sqlite/scan raw": 0,
		"sqlite/range raw": 0, "sqlite/range file-wal-full": 0, "sqlite/range memdb": 0,
		"sqlite/mix file-wal-full": 0, "sqlite/open file-wal-full": 0, "sqlite/open-cold file-wal-full": 0,
		"kv/put raw": 1, "queue/cycle raw": cycleCommits,
	}
	for d := json.NewDecoder(&out); d.More(); {
		var r record
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		title := r.Name + " " + r.Peer
		commits, ok := want[title]
		// The store itself commits now and then besides: its host is alive.
		if !ok || r.Subject != "greenroom-postgres" || r.Ratio <= 0 || r.Rounds != 2 || r.CommitsPerOp < commits {
			t.Errorf("record %+v", r)
		}
		delete(want, title)
	}
	if len(want) > 0 {
		t.Errorf("not measured: %v", want)
	}
	if got := info.String(); !strings.Contains(got, "server    postgres://postgres@127.0.0.1:") || strings.Contains(got, "secret") {
		t.Errorf("the server's description is\n%s", got)
	}
	emptied(t, n, o)
}

// cancelAt cancels a run with the first line that it prints.
type cancelAt struct {
	bytes.Buffer
	cancel context.CancelFunc
}

func (c *cancelAt) Write(b []byte) (int, error) {
	c.cancel()
	return c.Buffer.Write(b)
}

// TestPostgresInterrupted: a run that is interrupted leaves no store.
func TestPostgresInterrupted(t *testing.T) {
	n := pgtest.Shared(t)
	o := onPostgres(t, n, "-json", "-run", "kv|insert-1")
	ctx, cancel := context.WithCancel(t.Context())
	out := &cancelAt{cancel: cancel}
	var info bytes.Buffer
	if err := o.measureAll(ctx, out, &info); err == nil || ctx.Err() == nil {
		t.Errorf("an interrupted run returned %v", err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 1 {
		t.Errorf("an interrupted run went on to print\n%s", out.String())
	}
	emptied(t, n, o)
}

// TestDropStore: the store of a side goes even if its work failed half way, and a
// missing store isn't an error.
func TestDropStore(t *testing.T) {
	n := pgtest.Shared(t)
	o := onPostgres(t, n)
	url := (&server{url: o.url}).newStore()
	if err := dropStore(t.Context(), url); err != nil {
		t.Errorf("no store: %v", err)
	}
	e, err := pgkv.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := dropStore(ctx, url); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
	emptied(t, n, o)
}

// TestPostgresStarted: without an address the program starts a server, and ends it.
func TestPostgresStarted(t *testing.T) {
	t.Parallel()
	pgtest.Shared(t) // or the test is skipped
	o := tiny(t, "-json", "-run", "kv")
	o.engine = enginePostgres
	// The user that runs the server must get to its folder.
	for dir := o.dir; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var out, info bytes.Buffer
	if err := o.measureAll(t.Context(), &out, &info); err != nil {
		t.Fatal(err)
	}
	if got := info.String(); !strings.Contains(got, "started for this run") {
		t.Errorf("the server's description is\n%s", got)
	}
	if !strings.Contains(out.String(), `"name":"kv/put","subject":"greenroom-postgres","peer":"raw"`) {
		t.Errorf("the output is\n%s", out.String())
	}
	if left, err := os.ReadDir(o.dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
