package actorstore

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
)

// A tip is what a handle on a far engine knows of the newest states of its actor, so
// that it needn't ask: no other handle changes them. A near engine has none.
//
// A Snapshot takes no snapshot of the engine there, which would be a round trip and
// hold a connection. It is the number of a commit, and reads the newest state: what
// no later commit has touched is still the same. For what it will touch, a commit
// prepares an undo, before it is sent and only if there is a Snapshot that needs
// one: the old values, if memory has them all, as it does when a writer reads a page
// before it overwrites that; else one snapshot of the engine, for all of them.
//
// A reader of the newest state can't tell while a commit is being sent which one it
// got. So an answer that the commit touches doesn't count, and is asked for again
// when the commit has been applied, or has failed.
type tip struct {
	a      *Actor
	cache  *cache  // nil: nothing is kept
	tenant *tenant // whose entries are this actor's

	// mu is held for memory alone, never while the engine is asked. What is learned
	// from an answer is entered under it, and so are commits: nothing old comes late.
	mu      sync.Mutex
	sending *flight       // the engine may have applied it, and has not said so  +checklocks:mu
	sent    chan struct{} // closed when it is over, nil while no call waits  +checklocks:mu
	over    bool          // the handle is closed: others may write  +checklocks:mu
	retired chan struct{} // closed when what that takes is done
	unkept  bool          // the entries are of no use to the next handle  +checklocks:mu
	states  []openState   // with snapshots, oldest first  +checklocks:mu
	undos   []*undo       // oldest first  +checklocks:mu
	held    int64         // bytes of values in undos  +checklocks:mu
}

// An openState is a state that Snapshots show.
type openState struct {
	seq          uint64
	lists, pages int // Snapshots that may be listed, and others
}

// tipOf returns the tip of a new handle, nil on a near engine.
func tipOf(a *Actor) *tip {
	if !a.store.engLimits.Far {
		return nil
	}
	return &tip{a: a, cache: a.store.cache, tenant: newTenant(), retired: make(chan struct{})}
}

// recall takes over what the handle before has left in the cache, if row, which is
// the head now, is what that left. It must be called before the claim.
func (t *tip) recall(row []byte) {
	if t != nil && t.cache != nil {
		t.tenant.dead.Store(true) // of an attempt before, in which another was faster
		t.tenant = t.cache.adopt(t.a.id, row)
	}
}

// next is the number of the next commit, also of one that drops the actor.
func (t *tip) next() uint64 { return t.a.Seq() + 1 }

// cached returns what the cache has under key, nil if nothing.
func (t *tip) cached(key []byte) *entry {
	if t.cache == nil {
		return nil
	}
	return t.cache.get(t.tenant, key)
}

// register opens a Snapshot of the newest state. It returns nil when a commit is on
// its way that hasn't prepared for it.
func (t *tip) register(lists bool) (*Snapshot, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil, ErrClosed
	}
	if t.sending != nil && !t.prepared(lists) {
		return nil, nil
	}
	seq := t.a.Seq()
	if n := len(t.states); n == 0 || t.states[n-1].seq != seq {
		t.states = append(t.states, openState{seq: seq})
	}
	t.states[len(t.states)-1].count(lists, 1)
	s := newSnapshot(t.a.store, t.a.id, t.a.layout, nil)
	s.owner, s.tip, s.seq, s.lists = t.a, t, seq, lists
	s.space.src = lazySource{s}
	return s, nil
}

// prepared says whether there is an undo, or can be one, of the commit that is being
// sent.
//
// +checklocks:t.mu
func (t *tip) prepared(lists bool) bool {
	if n := len(t.undos); n > 0 && t.undos[n-1].seq == t.next() {
		return t.undos[n-1].final() || !lists
	}
	if lists {
		return false
	}
	// It hasn't landed, so memory has what was before.
	u := t.remember(t.sending)
	if u != nil {
		t.undos = append(t.undos, u)
		t.held += u.bytes
	}
	return u != nil
}

func (o *openState) count(lists bool, n int) {
	if lists {
		o.lists += n
	} else {
		o.pages += n
	}
}

// release closes a Snapshot that register opened, and what isn't needed any more.
func (t *tip) release(s *Snapshot) error {
	t.mu.Lock()
	for i := range t.states {
		if o := &t.states[i]; o.seq == s.seq {
			if o.count(s.lists, -1); o.lists+o.pages == 0 {
				t.states = append(t.states[:i], t.states[i+1:]...)
			}
			break
		}
	}
	t.mu.Unlock()
	return t.prune()
}

// prune closes what no open Snapshot needs.
func (t *tip) prune() error {
	t.mu.Lock()
	var unused []*undo
	for len(t.undos) > 0 && (len(t.states) == 0 || t.undos[0].seq <= t.states[0].seq) {
		unused = append(unused, t.undos[0])
		t.held -= t.undos[0].bytes
		t.undos = t.undos[1:]
	}
	t.mu.Unlock()
	var errs []error
	for _, u := range unused {
		if u.pin != nil {
			errs = append(errs, u.pin.Close())
		}
	}
	return errors.Join(errs...)
}

// land enters what f has changed: it is the newest state from now on.
func (t *tip) land(f *flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case f.drop:
		t.over, t.unkept = true, true
		t.tenant.dead.Store(true)
	case f.a.hidden: // it isn't read yet
		t.unkept = true
	case t.cache != nil && !t.over:
		t.writeThrough(f)
	}
	f.publish() // to readers that take no lock
	t.arrive()
}

// abort says that the engine is done with f: it failed, and nothing was applied or
// the handle is poisoned.
func (t *tip) abort(f *flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sending != f {
		return
	}
	// A pin is still good for the commit that takes this one's number.
	if n := len(t.undos); n > 0 && t.undos[n-1].seq == t.next() && t.undos[n-1].pin == nil {
		t.held -= t.undos[n-1].bytes
		t.undos = t.undos[:n-1]
	}
	t.arrive()
}

// arrive lets those go on that wait for what is being sent.
//
// +checklocks:t.mu
func (t *tip) arrive() {
	t.sending = nil
	if t.sent != nil {
		close(t.sent)
		t.sent = nil
	}
}

// writeThrough enters what f has stored into the cache.
//
// +checklocks:t.mu
func (t *tip) writeThrough(f *flight) {
	seq, ranges := f.next.Seq, f.ranges()
	for i := f.from; i < f.to; i++ {
		o := f.op(i)
		if o.Kind == batch.DeleteRange {
			if f.before[i] > 0 {
				t.cache.clear(t.tenant, o.Key, o.Value, seq)
			}
			continue
		}
		e := &entry{tenant: t.tenant, key: string(o.Key), from: seq, kind: entryAbsent}
		if o.Kind == batch.Put && !f.clearedLater(i, ranges) {
			if len(o.Value) > layout.RowSize {
				t.cache.remove(t.tenant, o.Key)
				continue
			}
			e.kind, e.value = entryWhole, bytes.Clone(o.Value)
		}
		t.cache.put(e, true)
	}
}

// size returns the length of the value of key, −1 for a missing key, if it is
// known. It is for the flight that has the commit lock.
func (t *tip) size(key []byte) (n int64, ok bool) {
	switch e := t.cached(key); {
	case e == nil || !e.answers(true):
		return 0, false
	case e.kind == entryAbsent:
		return -1, true
	default:
		return int64(len(e.value)), true
	}
}

// retire keeps what open Snapshots need for the time when others own the actor, and
// the cache's entries for the next handle. The handle is closed, and no commit of
// it under way.
func (t *tip) retire() {
	t.mu.Lock()
	if !t.over {
		t.over = true
		if any, _ := t.needed(); any && t.a.Err() == nil {
			t.mu.Unlock()
			// The handle is closed in any case: a reader of the state learns of an error.
			u := &undo{seq: t.next()}
			u.pin, u.err = t.pin(context.Background())
			t.mu.Lock()
			t.undos = append(t.undos, u)
		}
	}
	keep := !t.unkept && t.a.exists && t.a.Err() == nil
	t.mu.Unlock()
	close(t.retired)
	// Snapshots that were closed meanwhile leave the last undo without a user.
	_ = t.prune()
	switch {
	case t.cache != nil && keep:
		t.cache.keep(t.a.id, t.tenant, &t.a.row)
	default:
		t.tenant.dead.Store(true)
	}
}

// touches says whether the commit that is being sent changes key.
func (f *flight) touches(key []byte) bool {
	if f.drop {
		return true
	}
	for i := f.from; i < f.to; i++ {
		switch o := f.op(i); {
		case o.Kind == batch.DeleteRange:
			if f.before[i] > 0 && covers(o, key) {
				return true
			}
		case bytes.Equal(o.Key, key):
			return true
		}
	}
	return false
}
