package conn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
)

// A model is what a Set should have in memory and in the store. Its operations are
// random; each is noted, so that a failure says how it came about.
type model struct {
	*room
	rand  *rand.Rand
	steps []string

	memory map[ID]Record // connections that hibernate
	store  map[ID]Record // what is stored; those that are not in memory are to be deleted
	count  int           // connections made

	mu sync.Mutex
	// received counts the messages of each connection, and acked says up to which of them
	// its gateway was told; both without wrapping around.
	received, acked map[ID]uint64 // +checklocks:mu
}

// An outcome is what becomes of a commit.
type outcome int

const (
	lands     outcome = iota
	isRefused         // nothing lands, the actor is well
	isPartly          // the first sub-batch lands, if there are several; the actor is well
	isLost            // nothing lands, and the actor is poisoned
	isDoubted         // it lands, and the actor is poisoned
	outcomes
)

func (o outcome) String() string {
	return [...]string{"lands", "is refused", "lands in part", "is lost", "is in doubt"}[o]
}

// TestModel compares a Set with the model after every one of many random steps, with
// commits that fail in every way and restarts between.
func TestModel(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, uint64(seed)) // for the ids: the order of writes is theirs
			m := &model{rand: rand.New(rand.NewPCG(uint64(seed), 7)), memory: map[ID]Record{},
				store: map[ID]Record{}, received: map[ID]uint64{}, acked: map[ID]uint64{}}
			opts := quiet()
			opts.OnAck = m.onAck
			m.room = openLimited(t, opts, batch.Limits{Entries: 1 + m.rand.IntN(8)})
			for range 150 {
				m.step()
				m.check()
				m.acknowledged()
				if t.Failed() {
					t.Fatalf("after:\n%s", strings.Join(m.steps, "\n"))
				}
			}
			m.healthy()
		})
	}
}

func (m *model) note(format string, args ...any) {
	m.steps = append(m.steps, fmt.Sprintf(format, args...))
}

// onAck checks that what is acknowledged is stored.
func (m *model) onAck(acks []Ack) {
	stored := m.storedAnyway()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range acks {
		rec, ok := stored[a.Conn.ID()]
		if !ok && a.Conn.Gone() {
			continue // since
		}
		if !ok || a.Index.After(rec.Server) {
			m.t.Errorf("acknowledged %d of %s, stored is %d (%v)", a.Index, a.Conn.ID(), rec.Server, ok)
		}
		id := a.Conn.ID()
		n := m.received[id] - uint64(Index(m.received[id])-a.Index)
		if n < m.acked[id] {
			m.t.Errorf("acknowledged %d of %s after %d", n, id, m.acked[id])
		}
		m.acked[id] = n
	}
}

// acknowledged waits until nobody is being told any more, and checks that who has no
// message that isn't saved has all of them acknowledged.
func (m *model) acknowledged() {
	m.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; runtime.Gosched() {
		m.set.mu.Lock()
		busy := len(m.set.acks.queue) > 0 || m.set.acks.giving
		m.set.mu.Unlock()
		if !busy {
			break
		}
		if time.Now().After(deadline) {
			m.t.Fatal("saves are not acknowledged")
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.memory {
		if !m.set.changed.Dirty(id) && m.acked[id] != m.received[id] {
			m.t.Errorf("%s is saved, and acknowledged are %d of %d messages", id, m.acked[id], m.received[id])
		}
	}
}

// check compares memory and store.
func (m *model) check() {
	m.t.Helper()
	got := map[ID]Record{}
	for _, c := range m.set.Conns() {
		got[c.ID()] = c.Record()
		if f, ok := m.set.Find(c.Gateway(), c.Request()); !ok || f != c {
			m.t.Errorf("Find doesn't find %s", c.ID())
		}
		for _, event := range c.Subscriptions() {
			if !slices.Contains(m.set.Subscribers(nil, event), c) {
				m.t.Errorf("%s has not subscribed to %s", c.ID(), event)
			}
		}
	}
	stored := m.stored()
	m.compare("in memory", got, m.memory)
	m.compare("in the store", stored, m.store)
	m.set.mu.Lock()
	defer m.set.mu.Unlock()
	for id, rec := range stored {
		c := m.set.conns[id]
		if c == nil {
			if m.set.deletes[id] == nil {
				m.t.Errorf("%s is stored, and nobody will delete it", id)
			}
			continue
		}
		if !reflect.DeepEqual(rec, c.rec) && !m.set.changed.Dirty(id) {
			m.t.Errorf("%s has changed, and nobody will save it", id)
		}
	}
}

// compare reports what differs.
func (m *model) compare(where string, got, want map[ID]Record) {
	m.t.Helper()
	for id, w := range want {
		if g, ok := got[id]; !ok || !reflect.DeepEqual(g, w) {
			m.t.Errorf("%s (%v): %+v, want %+v", where, ok, g, w)
		}
	}
	for id := range got {
		if _, ok := want[id]; !ok {
			m.t.Errorf("%s is %s, and should not be", id, where)
		}
	}
}

// pick returns a random connection, nil if there is none.
func (m *model) pick() *Conn {
	all := m.set.Conns()
	if len(all) == 0 {
		return nil
	}
	return all[m.rand.IntN(len(all))]
}

func clone(m map[ID]Record) map[ID]Record {
	c := make(map[ID]Record, len(m))
	for id, rec := range m {
		c[id] = rec
	}
	return c
}

func without1(m map[ID]Record, id ID) map[ID]Record {
	m = clone(m)
	delete(m, id)
	return m
}

// step does something.
func (m *model) step() {
	c := m.pick()
	switch n := m.rand.IntN(20); {
	case n < 3 || c == nil:
		m.count++
		c = m.create(m.count)
		m.memory[c.ID()] = c.Record()
		m.note("create %s", c.ID())
	case n < 11:
		m.change(c, n)
	case n < 14:
		m.note("save")
		o := m.fault()
		m.settle(o, m.set.Save(ctx), clone(m.memory))
	case n < 16:
		m.disconnect(c)
	case n < 19:
		m.stage(c)
	default:
		m.restart()
	}
}

// change changes c in memory.
func (m *model) change(c *Conn, n int) {
	rec := m.memory[c.ID()]
	switch n {
	case 3, 4:
		value := strings.Repeat("s", m.rand.IntN(200))
		m.note("state of %s: %d bytes", c.ID(), len(value))
		must(m.t, c.SetState(value))
		state, err := Encode(value)
		must(m.t, err)
		rec.State = state
	case 5, 6:
		event := string(rune('a' + m.rand.IntN(4)))
		if i := slices.Index(rec.Subscriptions, event); i >= 0 {
			m.note("%s unsubscribes from %s", c.ID(), event)
			must(m.t, c.Unsubscribe(event))
			if rec.Subscriptions = slices.Delete(slices.Clone(rec.Subscriptions), i, i+1); len(rec.Subscriptions) == 0 {
				rec.Subscriptions = nil
			}
			break
		}
		m.note("%s subscribes to %s", c.ID(), event)
		must(m.t, c.Subscribe(event))
		rec.Subscriptions = append(slices.Clone(rec.Subscriptions), event)
	case 7, 8, 9:
		step := m.rand.IntN(20_000) - 2000
		index := rec.Server + Index(step)
		m.note("%s received %d", c.ID(), index)
		if got := received(m.t, c, index); got != step {
			m.t.Errorf("it is %d ahead, want %d", got, step)
		}
		if step > 0 {
			rec.Server = index
			m.mu.Lock()
			m.received[c.ID()] += uint64(step)
			m.mu.Unlock()
		}
	default:
		m.note("%s sent", c.ID())
		_, err := c.Sent()
		must(m.t, err)
		rec.Client++
	}
	m.memory[c.ID()] = rec
}

// disconnect disconnects c, which is gone from memory whatever happens.
func (m *model) disconnect(c *Conn) {
	m.note("disconnect %s", c.ID())
	delete(m.memory, c.ID())
	o := m.fault()
	err := m.set.Disconnect(ctx, c, "")
	if err != nil && !errors.Is(err, ErrDelete) {
		m.t.Error(err)
	}
	m.settle(o, err, without1(m.store, c.ID()))
}

// stage has connections saved, or one removed, or both, by a batch with something else in
// it; and something happens between staging and the commit.
func (m *model) stage(c *Conn) {
	var b batch.Batch
	if m.rand.IntN(2) == 0 {
		b.Mode = batch.Ordered
	}
	m.note("stage in a batch that is %v", b.Mode)
	b.Put(actorstore.UserKey([]byte("k")), make([]byte, m.rand.IntN(100)))
	all, one := m.rand.IntN(3) > 0, m.rand.IntN(2) == 0
	if one && m.rand.IntN(2) == 0 {
		m.note("  disconnect %s", c.ID())
		must(m.t, m.set.StageDisconnect(&b, c))
	} else {
		one = false
	}
	if all {
		m.note("  what has changed")
		must(m.t, m.set.Stage(&b))
	}
	switch m.rand.IntN(4) {
	case 0:
		m.note("  given up")
		b.Abort(nil)
		return
	case 1:
		if other := m.pick(); other != c {
			m.note("  meanwhile disconnect %s", other.ID())
			must(m.t, m.set.Disconnect(ctx, other, ""))
			delete(m.memory, other.ID())
			delete(m.store, other.ID())
		}
	case 2:
		m.change(c, 3)
	}
	next := clone(m.store)
	if all {
		next = clone(m.memory)
	}
	if one {
		delete(next, c.ID())
	}
	o := m.fault()
	err := m.actor.Commit(ctx, &b)
	if err == nil && one {
		delete(m.memory, c.ID())
	}
	m.settle(o, err, next)
	if one && err == nil && !c.Gone() {
		m.t.Errorf("%s is not gone", c.ID())
	}
}
