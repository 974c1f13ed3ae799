//go:build unix

package storeurl

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/kv/faultkv"
	"github.com/greenroomdb/greenroom/kv/pgkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A farSession is a freshly opened database in PostgreSQL, with nothing in memory. What
// it costs is counted twice: the calls of the engine, and how often the engine waited
// for the server because of them, which may be more.
type farSession struct {
	*vfs.DB
	engine *faultkv.Engine
	server *pgkv.DB
	trips  int64 // at the last reset
}

// A farCost is what something took.
type farCost struct{ reads, commits, trips int64 }

// cost returns what was done since it was last asked for.
func (s *farSession) cost() farCost {
	c, trips := s.engine.Counts(), s.server.RoundTrips()
	s.engine.Reset()
	defer func() { s.trips = trips }()
	return farCost{c.Gets + c.Scans + c.Snapshots, c.Commits, trips - s.trips}
}

// one returns the number that a query returns.
func (s *farSession) one(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	if err := s.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *farSession) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	if _, err := s.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

// farRows is how many rows make 50 MiB.
const farRows = 52_000

// onServer runs f in a process of its own, as far as memory goes.
func onServer(t *testing.T, url string, f func(s *farSession)) {
	t.Helper()
	server, err := pgkv.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &farSession{server: server, engine: faultkv.New(server)}
	// No renewal of the lease comes in between.
	store, err := actorstore.Open(t.Context(), s.engine, &actorstore.Options{Host: actorstore.HostOptions{TTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	s.cost() // of the store; what follows is the actor's
	actor, err := store.Actor(t.Context(), actorstore.IDFromName("far"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.DB, err = vfs.Open(t.Context(), actor, &vfs.Options{MaxConns: 1}); err != nil {
		t.Fatal(err)
	}
	f(s)
	for _, close := range []func() error{s.DB.Close, actor.Close, store.Close, server.Close} {
		if err := close(); err != nil {
			t.Error(err)
		}
	}
}

// TestFarCounts counts what SQLite costs on a server, after every kind of start.
func TestFarCounts(t *testing.T) {
	t.Parallel()
	n := pgtest.Shared(t)
	url := n.URL("schema=" + n.Schema())
	onServer(t, url, func(s *farSession) {
		s.exec(t, "create table t(id integer primary key, b)")
		for from := 0; from < farRows; from += 2000 {
			s.exec(t, `with recursive c(x) as (select ?1 union all select x + 1 from c where x < ?1 + 1999)
				insert into t select x, randomblob(950) from c`, from)
		}
	})
	run := func(name string, f func(t *testing.T, s *farSession)) {
		t.Run(name, func(t *testing.T) { onServer(t, url, func(s *farSession) { f(t, s) }) })
	}
	for _, id := range []int{1, 25_000, farRows - 1} {
		run(fmt.Sprintf("open and row %d", id), func(t *testing.T, s *farSession) {
			s.one(t, "select length(b) from t where id = ?", id)
			// The commits: the lease of the process, and the actor's claim.
			if c := s.cost(); c.reads > 3 || c.commits > 2 || c.trips > c.reads+c.commits {
				t.Errorf("%+v", c)
			}
		})
	}
	for _, order := range []string{"asc", "desc"} {
		run("scan "+order, func(t *testing.T, s *farSession) {
			if n := s.one(t, "select sum(length(b) = 950) from (select b from t order by id "+order+")"); n != farRows {
				t.Errorf("%d rows", n)
			}
			// The opening is in it.
			if c := s.cost(); c.reads > 60 || c.trips > c.reads+c.commits {
				t.Errorf("%+v", c)
			}
		})
	}
	run("100 scattered rows", func(t *testing.T, s *farSession) {
		s.cost()
		var entries atomic.Int64
		s.engine.Hook(func(op faultkv.Op) error {
			if op.Point == faultkv.BeforeEntry || op.Point == faultkv.BeforeGet {
				entries.Add(1)
			}
			return nil
		})
		defer s.engine.Hook(nil)
		for range 100 {
			s.one(t, "select length(b) from t where id = ?", rand.IntN(farRows))
		}
		// A page is two entries of a scan, or one that was asked for by itself.
		if c := s.cost(); c.reads > 100 || c.trips > c.reads || entries.Load() > 300 {
			t.Errorf("%+v, %d entries", c, entries.Load())
		}
	})
	run("warm transactions of one row", func(t *testing.T, s *farSession) {
		for i := range 20 {
			s.exec(t, "update t set b = randomblob(940) where id = 1000")
			// The first one fetches.
			if c := s.cost(); i > 0 && c != (farCost{reads: 0, commits: 1, trips: 1}) {
				t.Errorf("transaction %d: %+v", i, c)
			}
		}
		s.one(t, "select length(b) from t where id = 1000")
		if c := s.cost(); c != (farCost{}) {
			t.Errorf("a warm read: %+v", c)
		}
	})
}
