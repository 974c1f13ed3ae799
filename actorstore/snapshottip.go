package actorstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// A tip is what a handle on a far engine knows of the newest states of its actor, so
// that it needn't ask: nobody else changes them. A near engine has none.
//
// A Snapshot takes no snapshot of the engine there, which would be a round trip and
// hold a connection. It is the number of a commit, and reads the newest state: what
// no later commit has touched is still the same. For what it will touch, a commit
// prepares an undo, before it is sent and only if there is a Snapshot that needs
// one: the old values, if memory has them all, as it does when who overwrites a page
// has read it; else one snapshot of the engine, for all of them.
//
// Who reads the newest state while a commit is being sent can't tell which one it
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
	sent    chan struct{} // closed when it is over, nil while nobody waits  +checklocks:mu
	over    bool          // the handle is closed: others may write  +checklocks:mu
	retired chan struct{} // closed when what that takes is done
	unkept  bool          // the entries are of no use to who opens the actor next  +checklocks:mu
	states  []openState   // with snapshots, oldest first  +checklocks:mu
	undos   []*undo       // oldest first  +checklocks:mu
	held    int64         // bytes of values in undos  +checklocks:mu
}

// An openState is a state that Snapshots show.
type openState struct {
	seq          uint64
	lists, pages int // Snapshots that may be listed, and others
}

// An undo leads from commit seq back to the state before.
type undo struct {
	seq uint64
	// pin is the state before, nil when old has everything that the commit touches.
	pin kv.Snapshot
	err error // why there is neither: the handle was closed meanwhile
	old map[string]*entry
	// bytes is what old keeps from being freed, at most.
	bytes int64
}

// final says whether no later undo is needed by who has this one.
func (u *undo) final() bool { return u.pin != nil || u.err != nil }

// tipOf returns the tip of a new handle, nil on a near engine.
func tipOf(a *Actor) *tip {
	if a.store.cache == nil && !a.store.engLimits.Far {
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
	s := newSnapshot(t.a.store, t.a.id, nil)
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

// release closes a Snapshot that register opened, and what nobody needs any more.
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

// pinned returns the newest commit before which the engine keeps the state: those that
// are older need no undo of a later one. 0 is none.
//
// +checklocks:t.mu
func (t *tip) pinned() (seq uint64) {
	for _, u := range t.undos {
		if u.final() {
			seq = u.seq
		}
	}
	return seq
}

// needed says for whom the commit about to be sent must prepare an undo: whose state
// no undo leads to for good. all is whether they need the whole state.
//
// +checklocks:t.mu
func (t *tip) needed() (any, all bool) {
	pinned := t.pinned()
	for _, o := range t.states {
		if o.seq >= pinned {
			any, all = true, all || o.lists > 0
		}
	}
	return any, all
}

// depart prepares the undo of what f is about to send. When the old state can't be
// kept for those who read it, nothing may be sent: ErrNotPinned.
func (t *tip) depart(ctx context.Context, f *flight) error {
	var pin kv.Snapshot
	for {
		ready, unused := t.tryDepart(f, pin)
		if unused != nil {
			_ = unused.Close() // nobody reads it; if the engine is ill, the commit will tell
		}
		if ready {
			return nil
		}
		var err error
		if pin, err = t.pin(ctx); err != nil {
			return err
		}
	}
}

// pin makes a snapshot of the newest state, while no commit is under way.
func (t *tip) pin(ctx context.Context) (kv.Snapshot, error) {
	pin, err := t.a.store.eng.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotPinned, err)
	}
	if err := t.a.owned(ctx, pin); err != nil {
		return nil, errors.Join(err, pin.Close()) // it may be another's state
	}
	return pin, nil
}

// tryDepart is depart without asking the engine: if that is necessary it returns
// false, and wants to be called again with a pin. unused is a pin that isn't needed.
func (t *tip) tryDepart(f *flight, pin kv.Snapshot) (ready bool, unused kv.Snapshot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	any, all := t.needed()
	var u *undo
	switch {
	case !any:
		unused = pin
	case pin != nil:
		u = &undo{seq: t.next(), pin: pin}
	case all:
		return false, nil
	default:
		if u = t.remember(f); u == nil {
			return false, nil
		}
	}
	if u != nil {
		t.undos = append(t.undos, u)
		t.held += u.bytes
	}
	t.sending = f
	return true, unused
}

// remember returns the undo of f from memory, nil if that doesn't hold enough.
//
// +checklocks:t.mu
func (t *tip) remember(f *flight) *undo {
	if f.drop || t.cache == nil {
		return nil
	}
	u := &undo{seq: t.next(), old: make(map[string]*entry, f.to-f.from)}
	for i := f.from; i < f.to; i++ {
		o := f.op(i)
		if o.Kind == batch.DeleteRange {
			if f.before[i] > 0 {
				return nil
			}
			continue
		}
		if _, known := u.old[string(o.Key)]; known {
			continue // an earlier write of the commit found what was there
		}
		e := absent
		if f.before[i] >= 0 {
			if e = t.cached(o.Key); e == nil || !e.answers(true) {
				return nil
			}
		}
		u.old[string(o.Key)] = e
		u.bytes += e.size()
	}
	// What the cache could evict otherwise must not grow without bound.
	if t.held+u.bytes > t.cache.bytes/undoShare {
		return nil
	}
	return u
}

// undoShare is the part of the cache's size that undos of one actor may keep.
const undoShare = 8

// absent stands for no value.
var absent = &entry{kind: entryAbsent}

// land enters what f has changed: it is the newest state from now on.
func (t *tip) land(f *flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case f.drop:
		t.over, t.unkept = true, true
		t.tenant.dead.Store(true)
	case f.a.hidden: // nobody reads it yet
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

// arrive lets those go on who wait for what is being sent.
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
	seq := f.next.Seq
	for i := f.from; i < f.to; i++ {
		o := f.op(i)
		if o.Kind == batch.DeleteRange {
			if f.before[i] > 0 {
				t.cache.clear(t.tenant, o.Key, o.Value, seq)
			}
			continue
		}
		e := &entry{tenant: t.tenant, key: string(o.Key), from: seq, kind: entryAbsent}
		if o.Kind == batch.Put && !f.clearedLater(i) {
			if len(o.Value) > rowSize {
				t.cache.remove(t.tenant, o.Key)
				continue
			}
			e.kind, e.value = entryWhole, bytes.Clone(o.Value)
		}
		t.cache.put(e, true)
	}
}

// clearedLater says whether a later write of the same commit removes what write i
// has stored, with others.
func (f *flight) clearedLater(i int) bool {
	key := f.op(i).Key
	for i++; i < f.to; i++ {
		if o := f.op(i); o.Kind == batch.DeleteRange && covers(o, key) {
			return true
		}
	}
	return false
}

// size returns the length of the value of key, −1 when there is none, if it is
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
// the cache's entries for who opens it next. The handle is closed, and no commit of
// it under way.
func (t *tip) retire() {
	t.mu.Lock()
	if !t.over {
		t.over = true
		if any, _ := t.needed(); any && t.a.Err() == nil {
			t.mu.Unlock()
			// The handle is closed in any case: who reads the state learns of an error.
			u := &undo{seq: t.next()}
			u.pin, u.err = t.pin(context.Background())
			t.mu.Lock()
			t.undos = append(t.undos, u)
		}
	}
	keep := !t.unkept && t.a.exists && t.a.Err() == nil
	t.mu.Unlock()
	close(t.retired)
	// Snapshots that were closed meanwhile have left the last undo to nobody.
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
