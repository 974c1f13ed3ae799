//go:build unix

package storeurl

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/pglocal"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pgkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A doubtful is a host in this process whose last write is in doubt when the primary is
// lost: its connection breaks at COMMIT.
type doubtful struct {
	write
	lands bool // the COMMIT gets there, and only its answer is lost

	proxy *pgtest.Proxy
	store *actorstore.Store
	actor *actorstore.Actor
	db    *vfs.DB
	epoch int
	done  chan error
}

// newDoubtful opens a host, which tries nothing twice, and has it write once.
func newDoubtful(t *testing.T, c *pgtest.Cluster, w write, lands bool) *doubtful {
	t.Helper()
	d := &doubtful{write: w, lands: lands, done: make(chan error, 1)}
	proxy, url := c.Through(t, "retry=0s&connect_timeout=60")
	d.proxy = proxy
	eng, err := pgkv.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.close(), eng.Close()); err != nil {
			t.Error(err)
		}
	})
	// Nothing but the write may be on its way: no renewal of a lease.
	opts := &actorstore.Options{Host: actorstore.HostOptions{TTL: time.Hour}}
	if d.store, err = actorstore.Open(t.Context(), eng, opts); err != nil {
		t.Fatal(err)
	}
	if err := d.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := write{w.actor, w.n - 2} // of the same kind
	if err := before.do(t.Context(), d.actor, d.db); err != nil {
		t.Fatal(err)
	}
	return d
}

// open opens the actor.
func (d *doubtful) open(ctx context.Context) (err error) {
	if d.actor, d.db, err = openBoth(ctx, d.store, d.write.actor); err == nil {
		d.epoch, err = epochOf(ctx, d.store, d.actor)
	}
	return err
}

// close closes what is open.
func (d *doubtful) close() (err error) {
	if d.actor != nil {
		if e := d.db.Close(); d.actor.Err() == nil {
			err = e // else it says what is known
		}
		err = errors.Join(err, d.actor.Close())
		d.actor = nil
	}
	if d.store != nil {
		err = errors.Join(err, d.store.Close())
		d.store = nil
	}
	return err
}

// commit makes the write, with a commit that has nothing to read before it.
func (d *doubtful) commit(ctx context.Context) error {
	if d.sql() {
		return d.do(ctx, d.actor, d.db)
	}
	var b batch.Batch
	b.PutPrior(actorstore.UserKey(d.key()), []byte("x"), batch.Absent)
	return d.actor.Commit(ctx, &b)
}

// send has the write be under way, as far as it gets.
func (d *doubtful) send(t *testing.T, c *pgtest.Cluster) {
	t.Helper()
	if d.lands {
		d.proxy.Set(pgtest.Pass, pgtest.Hold)
	} else {
		d.proxy.Set(pgtest.Hold, pgtest.Pass)
	}
	go func() { d.done <- d.commit(t.Context()) }()
	d.proxy.Await()
	if !d.lands {
		return
	}
	// What can be seen is on another server's disk: the primary waits for that first.
	key := fmt.Sprintf("SELECT count(*) FROM greenroom.kv WHERE position('\\x%x'::bytea IN key) > 0", d.key())
	err := pglocal.Poll(func() (bool, error) { return c.Primary().SQL(t, key) != "0", nil })
	if err != nil {
		t.Fatalf("the write of %s: %v", d.write.actor, err)
	}
}

// settle has the host find out from the new primary what became of the write, and opens
// the actor again.
func (d *doubtful) settle(t *testing.T) {
	t.Helper()
	d.proxy.Cut(true)
	err := <-d.done
	var doubt *actorstore.DoubtError
	if !errors.Is(err, kv.ErrUnknownOutcome) || !errors.Is(err, actorstore.ErrPoisoned) || !errors.As(err, &doubt) {
		t.Fatalf("%s: the write whose answer is lost: %v", d.write.actor, err)
	}
	want := kv.OutcomeNotApplied
	if d.lands {
		want = kv.OutcomeApplied
	}
	id, before := d.actor.ID(), d.epoch
	got := kv.OutcomeUnknown
	err = pglocal.Poll(func() (bool, error) { // until no connection is left that leads to the old primary
		got, err = d.store.Outcome(t.Context(), id, doubt.Commit)
		return err == nil, nil
	})
	if err != nil || got != want {
		t.Errorf("%s: the outcome is %v, %v; want %v", d.write.actor, got, err, want)
	}
	d.db.Close() // which says what is known
	if err := d.actor.Close(); err != nil {
		t.Error(err)
	}
	d.actor = nil
	err = pglocal.Poll(func() (bool, error) {
		err = d.open(t.Context())
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: open again: %v", d.write.actor, err)
	}
	if told := d.actor.Doubt(); told == nil || told.Commit != doubt.Commit || told.Outcome != want {
		t.Errorf("%s: opened again it is told %+v, want %v", d.write.actor, told, want)
	}
	if done, err := d.write.done(t.Context(), d.actor, d.db); err != nil || done != d.lands {
		t.Errorf("%s: the write is there: %v, %v; want %v", d.write.actor, done, err, d.lands)
	}
	if d.epoch <= before {
		t.Errorf("%s: opened again it has epoch %d after %d", d.write.actor, d.epoch, before)
	}
}

// moves gives the actor up, and has s open it.
func (d *doubtful) moves(t *testing.T, s *Store) {
	t.Helper()
	if err := d.close(); err != nil {
		t.Error(err)
	}
	a, db, err := openBoth(t.Context(), s.Lower(), d.write.actor)
	if err != nil {
		t.Fatal(err)
	}
	later(t, s, a, d.epoch)
	for _, w := range []write{{d.write.actor, d.n - 2}, d.write} {
		if done, err := w.done(t.Context(), a, db); err != nil || done != (d.lands || w != d.write) {
			t.Errorf("%s: opened elsewhere, write %d is there: %v, %v", w.actor, w.n, done, err)
		}
	}
	if err := errors.Join(db.Close(), a.Close()); err != nil {
		t.Error(err)
	}
}

// epochOf returns the epoch of an actor that is open.
func epochOf(ctx context.Context, s *actorstore.Store, a *actorstore.Actor) (int, error) {
	v, err := s.View(ctx, a.ID())
	if err != nil {
		return 0, err
	}
	return int(v.Info().Epoch), v.Close()
}

// later checks that an actor that s has opened is of a later epoch than before.
func later(t *testing.T, s *Store, a *actorstore.Actor, before int) {
	t.Helper()
	if got, err := epochOf(t.Context(), s.Lower(), a); err != nil || before == 0 || got <= before {
		t.Errorf("actor %s has epoch %d after %d, %v", a.Name(), got, before, err)
	}
}
