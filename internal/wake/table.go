package wake

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/greenroomdb/greenroom/actorstore"
)

// A table is what is known of actors that are due, or will be soon.
type table struct {
	changed chan struct{} // of one: next has changed

	mu     sync.Mutex
	next   *btree.BTreeG[*entry] // those that wait  +checklocks:mu
	of     map[string]*entry     // by the names of the actors: those that wait, and those that are being woken  +checklocks:mu
	closed bool                  // +checklocks:mu
	// fresh are the actors of which something was learned since a read of the index began: what it finds of them is old.
	fresh map[string]bool // +checklocks:mu
}

// An entry is an actor that is to be woken. All but the Waking is guarded by table.mu.
type entry struct {
	actorstore.Waking
	at       time.Time
	told     bool   // no row of the index says so
	failures int    // how often it was tried in vain: then it isn't before at, unless its row changes
	ringing  bool   // it is being woken: it isn't in next
	again    *entry // what was told of it meanwhile
}

func newTable() table {
	before := func(a, b *entry) bool { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.Name, b.Name)) < 0 }
	return table{
		changed: make(chan struct{}, 1), of: map[string]*entry{}, fresh: map[string]bool{},
		next: btree.NewBTreeGOptions(before, btree.Options{NoLocks: true}),
	}
}

// reading begins a read of the index, of which one is under way at a time.
func (t *table) reading() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fresh = map[string]bool{}
}

// found takes a row of the index.
func (t *table) found(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.of[e.Name]
	if t.fresh[e.Name] || old != nil && (old.ringing || old.failures > 0 && old.says(e)) {
		return // what is known is newer, or was tried
	}
	t.put(e)
}

// learned takes the row of an actor that was closed in this process: e is nil if it isn't to be woken soon. A row that
// is as it was when the actor was tried says nothing new.
func (t *table) learned(name string, e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fresh[name] = true
	old := t.of[name]
	switch {
	case old == nil || old.told:
	case e != nil && old.says(e) && (old.ringing || old.failures > 0):
		return
	case !old.ringing:
		t.remove(old)
	case old.again != nil && !old.again.told:
		old.again = nil
	}
	if e != nil {
		t.put(e)
	}
}

// add has an actor woken for what no row says.
func (t *table) add(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(e)
}

// put puts e in the place of what is known of the actor. Of what a row says and what none says the earlier time counts.
//
// +checklocks:t.mu
func (t *table) put(e *entry) {
	if t.closed || e.Name == "" {
		return
	}
	if old := t.of[e.Name]; old != nil {
		switch {
		case old.ringing:
			old.again = e
			return
		case (old.told || e.told) && old.at.Before(e.at):
			return
		}
		t.remove(old)
	}
	t.of[e.Name] = e
	t.next.Set(e)
	t.poke()
}

// +checklocks:t.mu
func (t *table) remove(e *entry) {
	t.next.Delete(e)
	delete(t.of, e.Name)
}

func (t *table) poke() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// says reports whether two rows say the same.
func (e *entry) says(o *entry) bool {
	return e.At.Equal(o.At) && slices.Equal(e.Tried, o.Tried)
}

// hurry makes an actor due now, if it is known.
func (t *table) hurry(name string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.of[name]
	if e == nil || e.again != nil {
		return
	}
	soon := &entry{Waking: e.Waking, at: now, told: e.told}
	if !e.ringing {
		t.remove(e)
	}
	t.put(soon)
}

// forget forgets an actor.
func (t *table) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fresh[name] = true
	switch e := t.of[name]; {
	case e == nil:
	case e.ringing:
		e.again = nil // what it is woken for is being looked at
	default:
		t.remove(e)
	}
}

// due takes the next actor that must be woken by now, or returns how long that takes.
func (t *table) due(now time.Time) (e *entry, in time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Timers don't count the time that a machine is suspended.
	const longest = time.Minute
	e, ok := t.next.Min()
	if !ok || t.closed {
		return nil, longest
	}
	if in = e.at.Sub(now); in > 0 {
		return nil, min(in, longest)
	}
	t.next.PopMin()
	e.ringing = true
	return e, 0
}

// woken ends what due began: the actor was woken, or is to be tried again after a while.
func (t *table) woken(e *entry, again time.Duration, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fresh[e.Name] = true
	delete(t.of, e.Name)
	switch {
	case e.again != nil:
		t.put(e.again)
	case again >= 0:
		t.put(&entry{Waking: e.Waking, at: now.Add(again), told: e.told, failures: e.failures + 1})
	}
}

func (t *table) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next.Len()
}

func (t *table) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}
