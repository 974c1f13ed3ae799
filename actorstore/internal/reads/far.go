package reads

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/greenroomdb/greenroom/actorstore/internal/cache"
	"github.com/greenroomdb/greenroom/actorstore/internal/layout"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// far is what a handle on a far engine knows of the newest states of its actor, so
// that it needn't ask: no other handle changes them.
//
// A State takes no snapshot of the engine there, which would be a round trip and
// hold a connection. It is the number of a commit, and reads the newest state: what
// no later commit has touched is still the same. For what it will touch, a commit
// prepares an undo, before it is sent and only if there is a State that needs
// one: the old values, if memory has them all, as it does when a writer reads a page
// before it overwrites that; else one snapshot of the engine, for all of them.
//
// A reader of the newest state can't tell while a commit is being sent which one it
// got. So an answer that the commit touches doesn't count, and is asked for again
// when the commit has been applied, or has failed.
type far struct {
	Actor
	cache *cache.Cache // nil: nothing is kept
	part  *cache.Part  // the actor's entries; set by Recall, before the handle is used

	// mu is held for memory alone, never while the engine is asked. What is learned
	// from an answer is entered under it, and so are commits: nothing old comes late.
	mu      sync.Mutex
	sending *Change       // the engine may have applied it, and has not said so  +checklocks:mu
	sent    chan struct{} // closed when it is over, nil while no call waits  +checklocks:mu
	over    bool          // the handle is closed: others may write  +checklocks:mu
	retired chan struct{} // closed when what that takes is done
	unkept  bool          // the entries are of no use to the next handle  +checklocks:mu
	past    undoLog       // +checklocks:mu
}

func newFar(a Actor, c *cache.Cache) *far {
	return &far{Actor: a, cache: c, part: c.Part(), retired: make(chan struct{})}
}

// Recall is Reads'.
func (t *far) Recall(row []byte) {
	t.part.Die() // of an attempt before, in which another was faster
	t.part = t.cache.Adopt(t.ID, row)
}

// next is the number of the next commit, also of one that drops the actor.
func (t *far) next() uint64 { return t.Handle.Seq() + 1 }

// Open is Reads'. While a commit is on its way that hasn't prepared for the state it takes
// a snapshot of the engine.
func (t *far) Open(ctx context.Context, s *State, lists bool) error {
	there, err := t.register(s, lists)
	if err != nil {
		return err
	}
	if there {
		if err := t.Handle.Owned(ctx, t.Engine); err != nil {
			return errors.Join(err, s.Close())
		}
		return nil
	}
	snap, seq, err := t.Handle.Pin(ctx)
	if err != nil {
		return err
	}
	t.set(s, snap, snap, seq, lists)
	return nil
}

func (t *far) set(s *State, src kv.Reader, snap kv.Snapshot, seq uint64, lists bool) {
	s.Seq, s.Lists, s.Rows, s.snap, s.of, s.handle = seq, lists, t.Rows.Of(src), snap, t, t.Handle
}

// register lets s be the newest state, unless a commit is on its way that hasn't prepared for it.
func (t *far) register(s *State, lists bool) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false, ErrClosed
	}
	if t.sending != nil && !t.prepared(lists) {
		return false, nil
	}
	seq := t.Handle.Seq()
	t.past.open(seq, lists)
	t.set(s, lazySource{t, s}, nil, seq, lists)
	return true, nil
}

// prepared says whether there is an undo, or can be one, of the commit that is being
// sent.
//
// +checklocks:t.mu
func (t *far) prepared(lists bool) bool {
	if u := t.past.of(t.next()); u != nil {
		return u.final() || !lists
	}
	if lists {
		return false
	}
	// It hasn't landed, so memory has what was before.
	u := t.remember(t.sending)
	if u != nil {
		t.past.add(u)
	}
	return u != nil
}

// close closes a State, and what isn't needed any more.
func (t *far) close(s *State) error {
	if s.snap != nil {
		return s.snap.Close()
	}
	t.mu.Lock()
	t.past.close(s.Seq, s.Lists)
	unused := t.past.prune()
	t.mu.Unlock()
	return closeAll(unused)
}

// Depart prepares the undo of what c is about to send. When the old state can't be
// kept for its readers, it is ErrNotPinned.
func (t *far) Depart(ctx context.Context, c *Change) error {
	var pin kv.Snapshot
	for {
		ready, unused := t.tryDepart(c, pin)
		if unused != nil {
			_ = unused.Close() // it isn't read; if the engine is ill, the commit will tell
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
func (t *far) pin(ctx context.Context) (kv.Snapshot, error) {
	pin, err := t.Engine.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotPinned, err)
	}
	if err := t.Handle.Owned(ctx, pin); err != nil {
		return nil, errors.Join(err, pin.Close()) // it may be another's state
	}
	return pin, nil
}

// tryDepart is Depart without asking the engine: if that is necessary it returns
// false, and wants to be called again with a pin. unused is a pin that isn't needed.
func (t *far) tryDepart(c *Change, pin kv.Snapshot) (ready bool, unused kv.Snapshot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	any, all := t.past.needed()
	var u *undo
	switch {
	case !any:
		unused = pin
	case pin != nil:
		u = &undo{seq: t.next(), pin: pin}
	case all:
		return false, nil
	default:
		if u = t.remember(c); u == nil {
			return false, nil
		}
	}
	if u != nil {
		t.past.add(u)
	}
	t.sending = c
	return true, unused
}

// remember returns the undo of c from memory, nil if that doesn't hold enough.
//
// +checklocks:t.mu
func (t *far) remember(c *Change) *undo {
	u := remembered(c, t.next(), t.part)
	// What the cache could evict otherwise must not grow without bound.
	if u != nil && t.past.held+u.bytes > t.part.Bytes()/undoShare {
		return nil
	}
	return u
}

// undoShare is the part of the cache's size that undos of one actor may keep.
const undoShare = 8

// Land is Reads'.
func (t *far) Land(c *Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case c.Drop:
		t.over, t.unkept = true, true
		t.part.Die()
	case c.Hidden: // it isn't read yet
		t.unkept = true
	case t.part != nil && !t.over:
		t.writeThrough(c)
	}
	c.Publish() // to readers that take no lock
	t.arrive()
}

// Abort is Reads'.
func (t *far) Abort(c *Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sending != c {
		return
	}
	t.past.take(t.next())
	t.arrive()
}

// arrive lets those go on that wait for what is being sent.
//
// +checklocks:t.mu
func (t *far) arrive() {
	t.sending = nil
	if t.sent != nil {
		close(t.sent)
		t.sent = nil
	}
}

// writeThrough enters what c has stored into the cache.
//
// +checklocks:t.mu
func (t *far) writeThrough(c *Change) {
	seq, ranges := c.Seq, c.deletes()
	for i := c.From; i < c.To; i++ {
		o := c.Op(i)
		if o.Kind == batch.DeleteRange {
			if c.Before[i] > 0 {
				t.part.Clear(o.Key, o.Value, seq)
			}
			continue
		}
		e := &cache.Entry{Key: string(o.Key), From: seq, Kind: cache.Absent}
		if o.Kind == batch.Put && !c.clearedLater(i, ranges) {
			if len(o.Value) > layout.RowSize {
				t.part.Remove(o.Key)
				continue
			}
			e.Kind, e.Value = cache.Whole, bytes.Clone(o.Value)
		}
		t.part.Put(e, true)
	}
}

// Part is Reads'.
func (t *far) Part() *cache.Part { return t.part }

// Retire keeps what open States need for the time when others own the actor, and
// the cache's entries for the next handle. No commit is under way.
func (t *far) Retire(last *[layout.HeadSize]byte) {
	t.mu.Lock()
	if !t.over {
		t.over = true
		if any, _ := t.past.needed(); any && t.Handle.Err() == nil {
			t.mu.Unlock()
			// The handle is closed in any case: a reader of the state learns of an error.
			u := &undo{seq: t.next()}
			u.pin, u.err = t.pin(context.Background())
			t.mu.Lock()
			t.past.add(u)
		}
	}
	keep := !t.unkept && last != nil && t.Handle.Err() == nil
	unused := t.past.prune() // of States that were closed meanwhile
	t.mu.Unlock()
	close(t.retired)
	_ = closeAll(unused)
	if keep {
		t.part.Keep(t.ID, last)
	} else {
		t.part.Die()
	}
}

// Ahead is Reads'.
func (t *far) Ahead() int64 { return t.part.Bytes() }
