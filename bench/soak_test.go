//go:build unix

package main

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv/pgkv"
	"github.com/greenroomdb/greenroom/queue"
)

// soakVariable names how long TestSoak takes, in the form of time.ParseDuration.
const soakVariable = "GREENROOM_SOAK"

// A soak is a store on PostgreSQL that actors write to for long.
type soak struct {
	t      *testing.T
	node   *pgtest.Node
	store  *greenroom.Store
	actors []*greenroom.Actor

	mu    sync.Mutex
	times []time.Duration // of updates, since the last sample
}

// soakRows is how many rows an actor's table keeps, and soakRate how often all actors together
// update, a second.
const (
	soakRows = 100
	soakRate = 200
)

// A soakSample is what the server has of the store's table at a time, in bytes and rows, and how long
// the updates before took.
type soakSample struct {
	table, indexes, live, dead int64
	updates                    int
	p50, p99                   time.Duration
}

// TestSoak: tables and indexes of a store on PostgreSQL stop growing while 200 actors insert, delete,
// enqueue and complete for long, and snapshots are held that keep autovacuum from its work for
// a sixth of the time each.
func TestSoak(t *testing.T) {
	length := testkit.Pick(2*time.Second, 3*time.Second, time.Minute)
	if text := os.Getenv(soakVariable); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	s := newSoak(t, 200)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { s.write(ctx) })
	all.Go(func() { s.read(ctx, length/6) })
	var samples []soakSample
	tick := time.NewTicker(length / 30)
	defer tick.Stop()
	for range 30 {
		<-tick.C
		samples = append(samples, s.sample())
	}
	stop()
	all.Wait()
	var page bytes.Buffer
	fmt.Fprintln(&page, "| after | table | indexes | rows | dead | updates | p50 | p99 |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for i, m := range samples {
		fmt.Fprintf(&page, "| %v | %.1f MiB | %.1f MiB | %d | %d | %d | %.1f ms | %.1f ms |\n", (time.Duration(i+1) * length / 30).Round(time.Second),
			float64(m.table)/(1<<20), float64(m.indexes)/(1<<20), m.live, m.dead, m.updates, m.p50.Seconds()*1e3, m.p99.Seconds()*1e3)
	}
	t.Logf("%d actors, %d updates a second, for %v:\n%s", len(s.actors), soakRate, length, &page)
	if length < time.Hour {
		return // autovacuum looks once a minute
	}
	// The first third is a run-up, with two snapshots.
	early, late := samples[:len(samples)/3], samples[len(samples)/3:]
	for what, of := range map[string]func(soakSample) int64{
		"the table":   func(m soakSample) int64 { return m.table },
		"its indexes": func(m soakSample) int64 { return m.indexes },
		"dead rows":   func(m soakSample) int64 { return m.dead },
	} {
		if was, now := peak(early, of), peak(late, of); now > was+was/2 {
			t.Errorf("%s grew from %d to %d", what, was, now)
		}
	}
}

func peak(samples []soakSample, of func(soakSample) int64) (most int64) {
	for _, m := range samples {
		most = max(most, of(m))
	}
	return most
}

// newSoak opens a store with so many actors, each with a table.
func newSoak(t *testing.T, actors int) *soak {
	s := &soak{t: t, node: pgtest.Start(t)}
	e, err := pgkv.Open(t.Context(), s.node.URL("schema=soak"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.store, err = greenroom.New(t.Context(), e, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		errs := []error{}
		for _, a := range s.actors {
			errs = append(errs, a.Close())
		}
		if err := errors.Join(append(errs, s.store.Close(), e.Close())...); err != nil {
			t.Error(err)
		}
	})
	for i := range actors {
		a, err := s.store.Actor(t.Context(), fmt.Sprint("soak-", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.actors = append(s.actors, a)
		if _, err := a.SQL().ExecContext(t.Context(), "create table r(id integer primary key, what blob)"); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// write updates the actors at the rate, some of them at a time, until ctx ends.
func (s *soak) write(ctx context.Context) {
	turn := time.NewTicker(time.Second / soakRate)
	defer turn.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	room := make(chan struct{}, 64)
	for i := 0; ctx.Err() == nil; i++ {
		select {
		case <-turn.C:
		case <-ctx.Done():
			return
		}
		room <- struct{}{}
		running.Go(func() {
			start := time.Now()
			if err := s.update(s.actors[i%len(s.actors)]); err != nil {
				s.t.Error(err)
			}
			s.mu.Lock()
			s.times = append(s.times, time.Since(start))
			s.mu.Unlock()
			<-room
		})
	}
}

// update changes a little of all that an actor has, by one transaction.
func (s *soak) update(a *greenroom.Actor) error {
	what := make([]byte, 100+rand.IntN(200))
	crand.Read(what) // never fails
	return a.Update(s.t.Context(), func(tx *greenroom.Tx) error {
		if _, err := tx.Exec("insert into r(what) values(?)", what); err != nil {
			return err
		}
		if _, err := tx.Exec("delete from r where id <= (select max(id) from r) - ?", soakRows); err != nil {
			return err
		}
		m, err := tx.Receive()
		if err != nil {
			return err
		}
		if m != nil {
			if err := m.Complete(nil); err != nil {
				return err
			}
		}
		if _, err := tx.Enqueue(queue.Send{Name: "job", Body: what}); err != nil {
			return err
		}
		return tx.Put([]byte("last"), what)
	})
}

// read holds one snapshot after the other for so long, until ctx ends.
func (s *soak) read(ctx context.Context, each time.Duration) {
	for i := 0; ctx.Err() == nil; i++ {
		err := s.store.View(ctx, fmt.Sprint("soak-", i%len(s.actors)), func(v *greenroom.View) error {
			first, err := rowsOf(v)
			if err != nil {
				return err
			}
			select {
			case <-time.After(each):
			case <-ctx.Done():
				return nil
			}
			last, err := rowsOf(v)
			if err == nil && last != first {
				err = fmt.Errorf("the snapshot had the rows %s first, and %s in the end", first, last)
			}
			return err
		})
		if err != nil && ctx.Err() == nil {
			s.t.Error(err)
			return
		}
	}
}

// rowsOf returns which rows an actor's table has.
func rowsOf(v *greenroom.View) (string, error) {
	var first, last sql.NullInt64
	err := v.QueryRow("select min(id), max(id) from r").Scan(&first, &last)
	return fmt.Sprint(first.Int64, "–", last.Int64), err
}

// sample looks at the table, and forgets the times.
func (s *soak) sample() (m soakSample) {
	s.t.Helper()
	text := s.node.SQL(s.t, `select pg_table_size(relid) || ' ' || pg_indexes_size(relid) || ' ' || n_live_tup || ' ' || n_dead_tup
		from pg_stat_user_tables where schemaname = 'soak' and relname = 'kv'`)
	if _, err := fmt.Sscan(text, &m.table, &m.indexes, &m.live, &m.dead); err != nil {
		s.t.Fatalf("%q: %v", text, err)
	}
	s.mu.Lock()
	times := s.times
	s.times = nil
	s.mu.Unlock()
	slices.Sort(times)
	if m.updates = len(times); m.updates > 0 {
		m.p50, m.p99 = times[m.updates/2], times[m.updates*99/100]
	}
	return m
}
