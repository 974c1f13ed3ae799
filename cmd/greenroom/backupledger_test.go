//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/pglocal"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
)

// A ledger writes to actors, and counts their commits. Commit number i of an actor leaves i in everything
// that the actor stores.
type ledger struct {
	store *storeurl.Store
	names []string
	open  []*greenroom.Actor
	begun []atomic.Int64 // of each actor, the number of the newest commit that was begun,
	acked []atomic.Int64 // and of the newest that was acknowledged
	stop  atomic.Bool
	done  sync.WaitGroup
}

// oneHost are the options of every host here. By its name a host takes at once the actors that a restored store says are its own.
var oneHost = actorstore.HostOptions{Name: "shop", Sole: true, TTL: 2 * time.Second}

// openLedger opens actors at the address of a store.
func openLedger(t *testing.T, url string, names ...string) *ledger {
	t.Helper()
	s, err := storeurl.Open(t.Context(), url, greenroom.Options{Host: oneHost})
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{store: s, names: names, begun: make([]atomic.Int64, len(names)), acked: make([]atomic.Int64, len(names))}
	t.Cleanup(func() {
		l.stop.Store(true)
		l.done.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range names {
		l.open = append(l.open, openActor(t, s, name))
	}
	return l
}

// openActor opens an actor as soon as it is free.
func openActor(t *testing.T, s *storeurl.Store, name string) *greenroom.Actor {
	t.Helper()
	a, err := s.Actor(t.Context(), name, &greenroom.ActorOptions{Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// write begins to write to all actors, until stop is set.
func (l *ledger) write(t *testing.T) {
	for i := range l.open {
		l.done.Go(func() {
			for n := int64(1); !l.stop.Load(); n++ {
				l.begun[i].Store(n)
				if err := turn(t.Context(), l.open[i], n); err != nil {
					t.Errorf("%s: commit %d: %v", l.names[i], n, err)
					return
				}
				l.acked[i].Store(n)
			}
		})
	}
}

// turn makes commit number n of an actor.
func turn(ctx context.Context, a *greenroom.Actor, n int64) error {
	return a.Update(ctx, func(tx *greenroom.Tx) error {
		_, err := tx.Exec("create table if not exists t(n integer primary key)")
		return errors.Join(err, greenroom.SetState(tx, n), tx.Put([]byte("n"), strconv.AppendInt(nil, n, 10)),
			tx.Put(fmt.Appendf(nil, "turn/%08d", n), nil), testkit.Second(tx.Exec("insert into t values(?)", n)))
	})
}

// commitOf returns the number of the newest commit of an actor. It fails the test if what the actor stores is not all of one commit.
func commitOf(t *testing.T, s *storeurl.Store, name string) (n int64) {
	t.Helper()
	err := s.View(t.Context(), name, func(v *greenroom.View) (err error) {
		n, err = numberOf(v)
		return err
	})
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return n
}

// numberOf is commitOf for a view; its error says what is not of the same commit.
func numberOf(v *greenroom.View) (n int64, err error) {
	if n, err = greenroom.State[int64](v); err != nil {
		return 0, err
	}
	key, err := v.Get([]byte("n"))
	if err != nil {
		return 0, err
	}
	var keys, rows, highest int64
	if err := v.QueryRow("select count(*), max(n) from t").Scan(&rows, &highest); err != nil {
		return 0, err
	}
	for e, err := range v.List(greenroom.ListOptions{Prefix: []byte("turn/")}) {
		if err != nil {
			return 0, err
		}
		if keys++; string(e.Key) != fmt.Sprintf("turn/%08d", keys) {
			return 0, fmt.Errorf("key %d is %q", keys, e.Key)
		}
	}
	if string(key) != strconv.FormatInt(n, 10) || keys != n || rows != n || highest != n {
		return 0, fmt.Errorf("the state is %d, the key %s, and there are %d keys, %d rows and a row %d", n, key, keys, rows, highest)
	}
	return n, nil
}

// more waits until every actor has made more commits.
func (l *ledger) more(t *testing.T) {
	t.Helper()
	const commits = 20
	from := load(l.acked)
	err := pglocal.Poll(func() (bool, error) {
		for i, n := range load(l.acked) {
			if n < from[i]+commits {
				return t.Failed(), nil
			}
		}
		return true, nil
	})
	if err != nil || t.Failed() {
		t.Fatalf("the actors don't get on: %v", err)
	}
}

// load reads the counts of all actors.
func load(counts []atomic.Int64) (ns []int64) {
	for i := range counts {
		ns = append(ns, counts[i].Load())
	}
	return ns
}

// A moment is what a query of the server says, and what of each actor was acknowledged before it was asked, and begun
// before the answer was there.
type moment struct {
	is          string
	least, most []int64
}

// now asks a server for the moment.
func (l *ledger) now(t *testing.T, n *pgtest.Node, query string) moment {
	t.Helper()
	m := moment{least: load(l.acked)}
	m.is = n.SQL(t, query)
	m.most = load(l.begun)
	return m
}

// want holds that a store is that of a moment, and returns which commit each actor is at.
func (l *ledger) want(t *testing.T, url string, m moment) (at []int64) {
	t.Helper()
	s, err := storeurl.Open(t.Context(), url, greenroom.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, name := range l.names {
		n := commitOf(t, s, name)
		if n < m.least[i] || n > m.most[i] {
			t.Errorf("%s at %s: commit %d, want one from %d to %d", name, m.is, n, m.least[i], m.most[i])
		}
		at = append(at, n)
	}
	return at
}

// goesOn holds that the actors can be written to where they are.
func (l *ledger) goesOn(t *testing.T, s *storeurl.Store, at []int64) {
	t.Helper()
	for i, name := range l.names {
		a := openActor(t, s, name)
		if err := turn(t.Context(), a, at[i]+1); err != nil {
			t.Errorf("%s: commit %d: %v", name, at[i]+1, err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if n := commitOf(t, s, name); n != at[i]+1 {
			t.Errorf("%s is at commit %d, want %d", name, n, at[i]+1)
		}
	}
}

// goesOnAt is goesOn for a new host at the address of a store.
func (l *ledger) goesOnAt(t *testing.T, url string, at []int64) {
	t.Helper()
	s, err := storeurl.Open(t.Context(), url, greenroom.Options{MustExist: true, Host: oneHost})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l.goesOn(t, s, at)
}

// moves holds that the host, which is open all the time and reaches the restored server, answers and writes nothing with the
// handles that lost commits, and that it opens the actors again at the commits of at.
func (l *ledger) moves(t *testing.T, at []int64) {
	t.Helper()
	for i, a := range l.open {
		var n int64
		err := a.View(t.Context(), func(v *greenroom.View) (err error) {
			n, err = numberOf(v)
			return err
		})
		if lost := l.acked[i].Load() - at[i]; lost == 0 {
			t.Errorf("%s has lost nothing", l.names[i])
		} else if !errors.Is(err, kv.ErrUnknownOutcome) && !errors.Is(err, actorstore.ErrFenced) {
			t.Errorf("%s: the handle that lost %d commits shows commit %d, %v", l.names[i], lost, n, err)
		}
		if err := turn(t.Context(), a, l.acked[i].Load()+1); err == nil {
			t.Errorf("%s: the handle that lost commits commits", l.names[i])
		}
		if err := a.Close(); err != nil {
			t.Logf("%s: close: %v", l.names[i], err) // a handle that failed may say so again
		}
	}
	l.goesOn(t, l.store, at)
}
