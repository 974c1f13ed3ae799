package conn

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

// A model is what a Set should have in memory and in the store. Its operations are
// random; each is noted, so that a failure says how it came about.
type model struct {
	*room
	rand  *rand.Rand
	steps []string

	memory map[ID]Record
	store  map[ID]Record // other than memory only after a batch that landed in part
	count  int           // connections made
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
	seeds := testkit.Pick(10, 60, 240)
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, uint64(seed)) // for the ids: the order of writes is theirs
			m := &model{rand: rand.New(rand.NewPCG(uint64(seed), 7)), memory: map[ID]Record{}, store: map[ID]Record{}}
			m.room = openLimited(t, Options{}, batch.Limits{Entries: 1 + m.rand.IntN(8)})
			for range 150 {
				m.step()
				m.check()
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
	for _, id := range slices.Concat(slices.Collect(maps.Keys(stored)), slices.Collect(maps.Keys(got))) {
		if _, ok := stored[id]; (!ok || !reflect.DeepEqual(stored[id], got[id])) && !m.set.torn.Dirty(id) {
			m.t.Errorf("%s is not stored as it is in memory, and the next batch won't write it", id)
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

// pick returns a random connection, nil without any.
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

// step does something.
func (m *model) step() {
	if m.rand.IntN(20) == 0 {
		m.restart()
		return
	}
	var b batch.Batch
	if m.rand.IntN(2) == 0 {
		b.Mode = batch.Ordered
	}
	m.note("a batch that is %v", b.Mode)
	tx, next := m.set.In(&b), clone(m.memory)
	b.Put(actorstore.UserKey([]byte("k")), make([]byte, m.rand.IntN(100)))
	for range m.rand.IntN(5) {
		m.change(tx, next)
	}
	if m.rand.IntN(4) == 0 {
		m.note("  meanwhile another one")
		other := batch.Batch{Mode: batch.Ordered} // it may have much to mend
		c := m.pick()
		if c == nil {
			return
		}
		if d := tx.draft(c); d == nil {
			must(m.t, m.set.In(&other).Disconnect(c))
			must(m.t, m.actor.Commit(ctx, &other))
			delete(m.memory, c.ID())
			delete(next, c.ID())
			m.store = clone(m.memory) // it has mended what was torn
		}
	}
	if m.rand.IntN(5) == 0 {
		m.note("  given up")
		b.Abort(nil)
		return
	}
	o := m.fault()
	err := m.actor.Commit(ctx, &b)
	if err == nil {
		m.memory = next
	}
	m.settle(o, err, next)
}

// change has tx change something, and next follow.
func (m *model) change(tx *Tx, next map[ID]Record) {
	var c *Conn
	if all := tx.Conns(); len(all) > 0 {
		c = all[m.rand.IntN(len(all))]
	}
	switch n := m.rand.IntN(10); {
	case n < 3 || c == nil:
		m.count++
		c, err := tx.Create(info(m.count))
		must(m.t, err)
		next[c.ID()] = c.Record()
		m.note("  create %s", c.ID())
	case n < 6:
		value := strings.Repeat("s", m.rand.IntN(200))
		m.note("  state of %s: %d bytes", c.ID(), len(value))
		state, err := Encode(value)
		must(m.t, err)
		must(m.t, tx.SetState(c, state))
		if !bytes.Equal(tx.State(c), state) {
			m.t.Errorf("the batch doesn't show the state of %s", c.ID())
		}
		rec := next[c.ID()]
		rec.State = state
		next[c.ID()] = rec
	case n < 9:
		m.subscribe(tx, c, next)
	default:
		m.note("  disconnect %s", c.ID())
		must(m.t, tx.Disconnect(c))
		delete(next, c.ID())
	}
}

func (m *model) subscribe(tx *Tx, c *Conn, next map[ID]Record) {
	event, rec := string(rune('a'+m.rand.IntN(4))), next[c.ID()]
	if i := slices.Index(rec.Subscriptions, event); i >= 0 {
		m.note("  %s unsubscribes from %s", c.ID(), event)
		must(m.t, tx.Unsubscribe(c, event))
		if rec.Subscriptions = slices.Delete(slices.Clone(rec.Subscriptions), i, i+1); len(rec.Subscriptions) == 0 {
			rec.Subscriptions = nil
		}
	} else {
		m.note("  %s subscribes to %s", c.ID(), event)
		must(m.t, tx.Subscribe(c, event))
		rec.Subscriptions = append(slices.Clone(rec.Subscriptions), event)
	}
	next[c.ID()] = rec
}

// fault sets what becomes of the next commit.
func (m *model) fault() outcome {
	o := outcome(m.rand.IntN(int(outcomes)))
	if m.rand.IntN(3) > 0 {
		o = lands
	}
	switch o {
	case isRefused:
		m.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Err: kv.ErrTooLarge})
	case isPartly:
		m.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit, Skip: 1, Err: kv.ErrTooLarge})
	case isLost:
		m.eng.Fail(faultkv.Rule{Point: faultkv.BeforeCommit})
	case isDoubted:
		m.eng.Fail(faultkv.Rule{Point: faultkv.AfterApply})
	}
	return o
}

// settle says what became of a commit that was to make the store next, and restarts if
// the actor is poisoned.
func (m *model) settle(o outcome, err error, next map[ID]Record) {
	m.t.Helper()
	m.eng.Heal()
	m.note("  %v: %v", o, err)
	var part *batch.OrderedError
	switch {
	case err == nil:
		m.store = next
	case errors.As(err, &part) || o == isDoubted && m.actor.Err() != nil:
		m.store = m.between(m.store, next)
	}
	if m.actor.Err() != nil {
		m.restart()
	}
}

// between returns what is stored, where each connection has to be as it was, in memory or
// in the store, or as it was to become.
func (m *model) between(before, after map[ID]Record) map[ID]Record {
	m.t.Helper()
	got := m.storedAnyway()
	is := func(rec Record, ok bool, in map[ID]Record, id ID) bool {
		want, there := in[id]
		return ok == there && reflect.DeepEqual(rec, want)
	}
	for _, all := range []map[ID]Record{before, after, got} {
		for id := range all {
			if rec, ok := got[id]; !is(rec, ok, before, id) && !is(rec, ok, after, id) && !is(rec, ok, m.memory, id) {
				m.t.Errorf("%s is neither as it was nor as it was to become: %+v (%v)", id, rec, ok)
			}
		}
	}
	return got
}

// restart loses what is in memory.
func (m *model) restart() {
	m.note("restart")
	m.crash()
	m.memory = clone(m.store)
}
