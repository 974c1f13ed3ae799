//go:build unix

package pgkv

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/kvtest"
	"github.com/greenroomdb/greenroom/kv/txn/txntest"
)

var ctx = context.Background()

// newURL returns the address of an empty store on the server that the tests share.
func newURL(t testing.TB) string {
	t.Helper()
	n := pgtest.Shared(t)
	return n.URL(patient + "&schema=" + url.QueryEscape(n.Schema()))
}

// patient, in an address, gives a connection enough time however busy the machine is: a
// test without retries has only one try.
const patient = "connect_timeout=60"

// openAt opens a store that is closed with the test.
func openAt(t testing.TB, url string, opts *Options) *DB {
	t.Helper()
	db, err := Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func open(t testing.TB) *DB {
	return openAt(t, newURL(t), &Options{Pins: 64, RetryFor: time.Minute})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	open := func(t testing.TB) kv.Engine { return open(t) }
	kvtest.Run(t, open)
	txntest.Run(t, open)
}

// parts returns the names of the parts to run on another kind of store: these, or none, for all of them, in a long run.
func parts(names ...string) []string {
	if testkit.Long() {
		return nil
	}
	return names
}

// TestConformanceTight has as few connections as possible, and none to spare. That changes
// what needs several at the same time: a reader that stays open, and whatever is beside it.
func TestConformanceTight(t *testing.T) {
	t.Parallel()
	open := func(t testing.TB) kv.Engine {
		return openAt(t, newURL(t), &Options{Calls: 1, Pins: 64, PinWait: time.Minute})
	}
	kvtest.Run(t, open, parts("ScanState", "ScanLoop", "Outcome", "Shared", "Snapshot", "CloseUnderLoad", "Atomicity")...)
	txntest.Run(t, open, parts("OneState", "LoopsThatWrite", "AtomicParallel", "EndedInLoop", "WatchMissesNothing")...)
}

// TestConformanceStaged sends all but the smallest commits as large ones are. That changes
// what commits, whatever reads beside it, and the commits of transactions.
func TestConformanceStaged(t *testing.T) {
	if testkit.Short() {
		t.Skip("a staged commit takes some milliseconds")
	}
	t.Parallel()
	open := func(t testing.TB) kv.Engine {
		db := open(t)
		db.stageAt, db.aloneAt = 40, 40
		return db
	}
	kvtest.Run(t, open, parts("BigValues", "ClearMany", "Checks", "OnApply", "Outcome", "CloseUnderLoad", "Clears", "Atomicity", "Random")...)
	txntest.Run(t, open, parts("AtomicParallel", "Conflicts", "Random")...)
}

func BenchmarkEngine(b *testing.B) {
	open := func(t testing.TB) kv.Engine { return open(t) }
	kvtest.Benchmark(b, open)
	txntest.Benchmark(b, open)
}

// await waits for something that happens in another process, or goroutine, and that
// only asking shows.
func await(t testing.TB, done func() bool) {
	t.Helper()
	deadline := time.After(testkit.Patience(time.Second))
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("what the test waits for doesn't happen")
		}
	}
}
