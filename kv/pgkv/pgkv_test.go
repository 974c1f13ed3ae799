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
)

var ctx = context.Background()

// newURL returns the address of an empty store on the server that the tests share.
func newURL(t testing.TB) string {
	t.Helper()
	n := pgtest.Shared(t)
	return n.URL(patient + "&schema=" + url.QueryEscape(n.Schema(t)))
}

// patient, in an address, has a connection come about however busy the machine is: who
// doesn't try again has only one.
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
	kvtest.Run(t, func(t testing.TB) kv.Engine { return open(t) })
}

// The suite once more with as few connections as possible, and none to spare.
func TestConformanceTight(t *testing.T) {
	kvtest.Run(t, func(t testing.TB) kv.Engine {
		return openAt(t, newURL(t), &Options{Calls: 1, Pins: 64, PinWait: time.Minute})
	})
}

// And once with all but the smallest commits sent as large ones are.
func TestConformanceStaged(t *testing.T) {
	if testkit.Short() {
		t.Skip("a staged commit takes some milliseconds")
	}
	kvtest.Run(t, func(t testing.TB) kv.Engine {
		db := open(t)
		db.stageAt, db.aloneAt = 40, 40
		return db
	})
}

func BenchmarkEngine(b *testing.B) {
	kvtest.Benchmark(b, func(t testing.TB) kv.Engine { return open(t) })
}

// await waits for something that happens in another process, or goroutine, and that
// only asking shows.
func await(t testing.TB, done func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
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
