//go:build unix

package storeurl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/pglocal"
	"github.com/greenroomdb/greenroom/internal/pgtest"
	"github.com/greenroomdb/greenroom/kv/pgkv"
	"github.com/greenroomdb/greenroom/vfs"
)

// A leaseHost is a host with one actor and its database, on a real server.
type leaseHost struct {
	store *actorstore.Store
	actor *actorstore.Actor
	db    *vfs.DB
	epoch uint64
}

// leaseTTL is the leases' in TestLeases.
const leaseTTL = 2 * time.Second

// newLeaseHost opens a store at an address. Each request is tried once, and waited for
// until the other host has the actor, however long that takes.
func newLeaseHost(t *testing.T, url string) *leaseHost {
	t.Helper()
	eng, err := pgkv.Open(t.Context(), url+"&connect_timeout=60", &pgkv.Options{RetryFor: -1, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	h := &leaseHost{}
	if h.store, err = actorstore.Open(t.Context(), eng, &actorstore.Options{Host: actorstore.HostOptions{TTL: leaseTTL}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.close()
		h.store.Close() // a fenced host has nothing to say to that
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// open opens the actor, waiting until no other host has it.
func (h *leaseHost) open(t *testing.T) {
	t.Helper()
	err := pglocal.Poll(func() (bool, error) {
		var err error
		h.actor, h.db, err = openBoth(t.Context(), h.store, "leased")
		// A host that isn't registered within a TTL would begin with a lease that is over.
		if errors.Is(err, context.DeadlineExceeded) {
			return false, nil
		}
		return true, err
	})
	if err != nil {
		t.Fatal(err)
	}
	v, err := h.store.View(t.Context(), h.actor.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	h.epoch = uint64(v.Info().Epoch)
}

// close gives the actor up.
func (h *leaseHost) close() {
	if h.actor != nil {
		h.db.Close() // a fenced one says so
		h.actor.Close()
		h.actor = nil
	}
}

// write makes n what is stored, as a key and in a row.
func (h *leaseHost) write(ctx context.Context, n int) error {
	_, err := h.db.ExecContext(ctx, "insert into t(n) values(?)", n)
	return errors.Join(h.actor.User().Put(ctx, []byte("n"), fmt.Append(nil, n)), err)
}

// get reads the key, and sql the row.
func (h *leaseHost) get(ctx context.Context) (n int, err error) {
	v, err := h.actor.Get(ctx, actorstore.UserKey([]byte("n")), nil)
	if err == nil {
		_, err = fmt.Sscan(string(v), &n)
	}
	return n, err
}

func (h *leaseHost) sql(ctx context.Context) (n int, err error) {
	err = h.db.QueryRowContext(ctx, "select max(n) from t").Scan(&n)
	return n, err
}

// TestLeases: a host hangs, as far as the others and the server can tell, and another one
// takes its actor over when its lease is over. From then on it answers nothing from its
// memory, and what it sent before and arrives late isn't stored.
func TestLeases(t *testing.T) {
	n := pgtest.Shared(t)
	url := n.URL("schema=" + n.Schema())
	p, through := pgtest.NewProxy(t, url)
	old, next := newLeaseHost(t, through), newLeaseHost(t, url)
	old.open(t)
	if err := old.write(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	reads := map[string]func(context.Context) (int, error){"key": old.get, "row": old.sql}
	for name, read := range reads { // into memory
		if n, err := read(t.Context()); n != 1 || err != nil {
			t.Fatalf("%s: %d, %v", name, n, err)
		}
	}

	p.Set(pgtest.Hold, pgtest.Hold)
	var taken, late atomic.Bool
	var wg sync.WaitGroup
	var refused [2]error
	stop := make(chan struct{})
	i := 0
	for name, read := range reads {
		last := &refused[i]
		i++
		wg.Go(func() {
			for again := true; again; {
				select {
				case <-stop:
					again = false // once more, when another one has it
				default:
				}
				before := taken.Load()
				ctx, cancel := context.WithTimeout(t.Context(), leaseTTL/4)
				n, err := read(ctx)
				cancel()
				if err == nil && (before || n != 1) {
					t.Errorf("%s: read %d, when another host had it: %v", name, n, before)
					return
				}
				*last = err
			}
		})
	}
	// What the host sends now arrives when it is fenced.
	wg.Go(func() {
		if err := old.actor.User().Put(t.Context(), []byte("n"), []byte("99")); err == nil {
			late.Store(true)
		}
	})
	p.Await()
	next.open(t)
	taken.Store(true)
	if next.epoch <= old.epoch {
		t.Errorf("epoch %d after %d", next.epoch, old.epoch)
	}
	if n, err := next.get(t.Context()); n != 1 || err != nil {
		t.Errorf("what the host before stored: %d, %v", n, err)
	}
	if err := next.write(t.Context(), 2); err != nil {
		t.Error(err)
	}
	close(stop)
	p.Resume()
	wg.Wait()
	for _, err := range refused {
		if err == nil {
			t.Error("a host that was replaced answers from its memory")
		}
	}
	if late.Load() {
		t.Error("a write that arrived when another host had the actor was acknowledged")
	}
	testLeaseBack(t, old, next)
}

// testLeaseBack: a host that was replaced is told, whatever it tries; and then it may have the actor back.
func testLeaseBack(t *testing.T, old, next *leaseHost) {
	t.Helper()
	if err := old.write(t.Context(), 3); !errors.Is(err, actorstore.ErrFenced) {
		t.Errorf("write: got %v, want %v", err, actorstore.ErrFenced)
	}
	if _, err := old.get(t.Context()); !errors.Is(err, actorstore.ErrFenced) {
		t.Errorf("read: got %v, want %v", err, actorstore.ErrFenced)
	}
	if err := old.actor.Err(); !errors.Is(err, actorstore.ErrFenced) {
		t.Errorf("the handle: got %v, want %v", err, actorstore.ErrFenced)
	}
	for name, read := range map[string]func(context.Context) (int, error){"key": next.get, "row": next.sql} {
		if n, err := read(t.Context()); n != 2 || err != nil {
			t.Errorf("%s on the host that has it: %d, %v", name, n, err)
		}
	}
	old.close()
	next.close()
	old.open(t)
	if old.epoch <= next.epoch {
		t.Errorf("epoch %d after %d", old.epoch, next.epoch)
	}
	for name, read := range map[string]func(context.Context) (int, error){"key": old.get, "row": old.sql} {
		if n, err := read(t.Context()); n != 2 || err != nil {
			t.Errorf("%s, back on the first host: %d, %v", name, n, err)
		}
	}
}
