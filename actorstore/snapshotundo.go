package actorstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

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

// final says whether this undo needs no later one.
func (u *undo) final() bool { return u.pin != nil || u.err != nil }

// pinned returns the newest commit before which the engine keeps the state: those that
// are older need no undo of a later one. 0 for none.
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
// kept for its readers, nothing may be sent: errNotPinned.
func (t *tip) depart(ctx context.Context, f *flight) error {
	var pin kv.Snapshot
	for {
		ready, unused := t.tryDepart(f, pin)
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
func (t *tip) pin(ctx context.Context) (kv.Snapshot, error) {
	pin, err := t.a.store.eng.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotPinned, err)
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
